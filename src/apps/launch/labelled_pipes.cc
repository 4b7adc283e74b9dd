#include "apps/launch/labelled_pipes.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "apps/launch/rank_processes.h"

namespace weft::launch {

Result<std::unique_ptr<LabelledPipes>> LabelledPipes::open(Rank ranks) {
  std::unique_ptr<LabelledPipes> all(new LabelledPipes(ranks));
  for (Rank r = 0; r < ranks; ++r)
    for (const FrameKind kind : {FrameKind::kOutput, FrameKind::kErrors}) {
      int ends[2];
      if (pipe2(ends, O_CLOEXEC) != 0)
        return failure(Code::kSystem, Blame::kProcess, "--label: a pipe for the output of rank {}: {}", r,
                       std::strerror(errno));
      all->pipes_.push_back({r, kind, UniqueFd(ends[0]), UniqueFd(ends[1])});
    }
  return all;
}

void LabelledPipes::take(Rank rank) {
  for (const Pipe& p : pipes_)
    if (p.rank == rank) dup2(p.to.get(), p.kind == FrameKind::kErrors ? STDERR_FILENO : STDOUT_FILENO);
  pipes_.clear();  // a rank that holds the others' ends would keep them open
}

void LabelledPipes::start() {
  for (Pipe& p : pipes_) p.to.reset();
  thread_ = std::thread([this] {
    auto quiet_since = std::chrono::steady_clock::now();
    while (!pipes_.empty()) {
      if (pump()) quiet_since = std::chrono::steady_clock::now();
      if (ended_ && std::chrono::steady_clock::now() - quiet_since > kDrain) break;
    }
    for (const Pipe& p : pipes_) output_.finish(p.rank);
    write_all(output_.out(), STDOUT_FILENO);
    write_all(output_.err(), STDERR_FILENO);
  });
}

void LabelledPipes::finish() {
  ended_ = true;
  if (thread_.joinable()) thread_.join();
}

// Takes what the ranks have written, for a tenth of a second at most. True: there was something.
bool LabelledPipes::pump() {
  std::vector<pollfd> waiting;
  for (const Pipe& p : pipes_) waiting.push_back({p.from.get(), POLLIN, 0});
  if (poll(waiting.data(), waiting.size(), 100) <= 0) return false;
  for (std::size_t i = 0; i < waiting.size(); ++i)
    if (waiting[i].revents != 0) read_from(pipes_[i]);
  pipes_.erase(std::remove_if(pipes_.begin(), pipes_.end(), [](const Pipe& p) { return p.from.get() < 0; }),
               pipes_.end());
  write_all(output_.out(), STDOUT_FILENO);
  write_all(output_.err(), STDERR_FILENO);
  return true;
}

void LabelledPipes::read_from(Pipe& pipe) {
  char bytes[16384];
  const ssize_t n = read(pipe.from.get(), bytes, sizeof bytes);
  if (n > 0) return output_.add(pipe.kind, pipe.rank, {bytes, static_cast<std::size_t>(n)});
  if (n < 0 && (errno == EINTR || errno == EAGAIN)) return;
  pipe.from.reset();
  output_.finish(pipe.rank, pipe.kind);
}

// A reader that has gone ends this process by SIGPIPE, and with it the ranks, as without labels.
void LabelledPipes::write_all(PendingBytes& bytes, int fd) {
  while (!bytes.empty()) {
    pollfd ready{fd, POLLOUT, 0};
    if (poll(&ready, 1, -1) < 0 && errno != EINTR) return;
    if (ready.revents != 0 && !bytes.write_some(fd)) bytes = {};
  }
}

}  // namespace weft::launch
