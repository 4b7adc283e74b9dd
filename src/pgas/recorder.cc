#include "pgas/recorder.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>

namespace weft::pgas {

Result<std::shared_ptr<Recorder>> Recorder::open(const std::string& file, Rank rank, Rank ranks) {
  const std::string name = fmt::format("{}.{}", file, rank);
  std::FILE* const opened = std::fopen(name.c_str(), "w");
  if (opened == nullptr) return bad_input("WEFT_PGAS_TRACE: {}: {}", name, std::strerror(errno));
  std::shared_ptr<Recorder> recorder(new Recorder(opened));
  std::fputs(heading(rank, ranks).c_str(), opened);
  return recorder;
}

void Recorder::note(Event event) {
  event.end = now();
  const std::string line = to_line(event);
  const std::lock_guard guard(mutex_);
  std::fputs(line.c_str(), file_.get());
}

}  // namespace weft::pgas
