#pragma once

#include <string>

namespace weft::launch {

// Where UCX keeps names of shared memory in a job. It removes each as soon as it has the memory, but a rank that is
// killed in between leaves its name; so they stand in a folder of the job's, which goes with it.
class UcxNames {
 public:
  // Folders of launchers that were killed go, too.
  UcxNames();
  ~UcxNames();
  UcxNames(const UcxNames&) = delete;
  UcxNames& operator=(const UcxNames&) = delete;

  // In a rank: has effect unless UCX_POSIX_DIR is set already.
  void apply() const;

 private:
  std::string path_;  // empty: none
};

}  // namespace weft::launch
