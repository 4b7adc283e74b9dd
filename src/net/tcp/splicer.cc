#include "net/tcp/splicer.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>

namespace weft::net::tcp {
namespace {

constexpr int kPipeBytes = 256 << 10;  // a slot's pages, wherever they begin, and its header

// While it lives, writing to a socket that the peer has closed is an error and no signal: splice() has no flag for
// that, and a library does not change what a process does with its signals.
class WithoutSigpipe {
 public:
  WithoutSigpipe() {
    sigemptyset(&only_);
    sigaddset(&only_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &only_, &before_);
  }
  WithoutSigpipe(const WithoutSigpipe&) = delete;
  WithoutSigpipe& operator=(const WithoutSigpipe&) = delete;
  ~WithoutSigpipe() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

  // Takes back the signal that a broken connection has left; one that was pending before is lost, like any second one.
  void take() const {
    if (sigismember(&before_, SIGPIPE) == 1) return;
    const int error = errno;
    const timespec now{};
    while (sigtimedwait(&only_, nullptr, &now) < 0 && errno == EINTR) {
    }
    errno = error;
  }

 private:
  sigset_t only_, before_;
};

}  // namespace

std::unique_ptr<Pipe> Pipe::open() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return nullptr;
  auto pipe = std::make_unique<Pipe>();
  pipe->out_ = UniqueFd(ends[0]);
  pipe->in_ = UniqueFd(ends[1]);
  (void)fcntl(pipe->in_.get(), F_SETPIPE_SZ, kPipeBytes);  // a smaller one takes less at a time
  return pipe;
}

bool Pipe::fill(const iovec* parts, int count) {
  const ssize_t n = vmsplice(in_.get(), parts, static_cast<std::size_t>(count), SPLICE_F_NONBLOCK);
  if (n > 0) bytes_ = static_cast<std::size_t>(n);
  return n > 0;
}

ssize_t Pipe::drain(int socket) {
  const WithoutSigpipe quiet;
  for (;;) {
    const ssize_t n = splice(out_.get(), nullptr, socket, nullptr, bytes_, SPLICE_F_NONBLOCK);
    if (n == static_cast<ssize_t>(bytes_)) {
      bytes_ = 0;
      return n;
    }
    quiet.take();  // a connection may break after some pages: the kernel counts these, and yet raises the signal
    if (n >= 0) {
      bytes_ -= static_cast<std::size_t>(n);
      return n;
    }
    if (errno == EINTR) continue;
    return errno == EAGAIN || errno == ENOBUFS ? 0 : -1;
  }
}

std::unique_ptr<Pipe> Splicer::take() {
  if (in_use_ == kMost) return nullptr;
  std::unique_ptr<Pipe> pipe;
  if (free_.empty()) {
    pipe = Pipe::open();
  } else {
    pipe = std::move(free_.back());
    free_.pop_back();
  }
  if (pipe) ++in_use_;
  return pipe;
}

// What is left in it belongs to a connection that has ended.
void Splicer::give_back(std::unique_ptr<Pipe> pipe) {
  --in_use_;
  if (pipe->empty()) free_.push_back(std::move(pipe));
}

}  // namespace weft::net::tcp
