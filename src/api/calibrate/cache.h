#pragma once

#include <functional>
#include <optional>
#include <string>

#include "api/calibrate/calibrate.h"

namespace weft::calibrate {

// Rates that were measured before on a machine like this one, in a folder of the user's: one file per kind of machine,
// named after its fingerprint. A file counts only if it and the folder belong to this user and nobody else may write
// them. Thread: any; processes may use it at the same time.
class Cache {
 public:
  // `folder`: made if it is missing; empty: nothing is kept. `say`: gets one line why a file or the folder is not
  // used; may be null.
  Cache(std::string folder, std::function<void(const std::string&)> say);

  // With or without those of UCX. Nothing: none are known.
  std::optional<Rates> find(bool ucx) const;
  // The same; where none are known, what `measure` returns, which is kept. Of several who ask at once one measures, the
  // others wait for it, a few seconds at most.
  Rates find_or(bool ucx, const std::function<Rates()>& measure) const;
  // Replaces what is known. False: it cannot be kept.
  bool keep(bool ucx, const Rates& rates) const;
  bool usable() const { return usable_; }
  std::string file(bool ucx) const;

 private:
  std::string folder_;
  std::function<void(const std::string&)> say_;
  bool usable_ = false;
};

// One line that names all that rates depend on: processors, memory, kernel, weft's version.
std::string fingerprint();

}  // namespace weft::calibrate
