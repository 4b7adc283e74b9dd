#include "onesided/pgas/recorder.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <cerrno>
#include <cstring>

namespace weft::pgas {

Result<std::shared_ptr<Recorder>> Recorder::open(const std::string& file, Rank rank, Rank ranks) {
  const std::string name = fmt::format("{}.{}", file, rank);
  // The flags refuse a link that another user left there, and do not wait for the reader of a FIFO.
  const int fd = ::open(name.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
  std::FILE* const opened = fd < 0 ? nullptr : fdopen(fd, "w");
  if (opened == nullptr) return bad_input("WEFT_PGAS_TRACE: {}: {}", name, std::strerror(errno));
  std::shared_ptr<Recorder> recorder(new Recorder(opened));
  std::fputs(heading(rank, ranks).c_str(), opened);
  return recorder;
}

void Recorder::note(Event event) {
  event.end = now();
  const std::string line = to_line(event);
  const MutexLock guard(mutex_);
  std::fputs(line.c_str(), file_.get());
}

}  // namespace weft::pgas
