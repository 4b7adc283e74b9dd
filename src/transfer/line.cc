#include "transfer/line.h"

#include <netinet/tcp.h>
#include <poll.h>

#include <cerrno>
#include <cstring>

#include "net/tcp/crc32c.h"
#include "transfer/copy.h"

namespace weft::transfer {

namespace bootstrap = net::bootstrap;
using Clock = std::chrono::steady_clock;

Result<std::unique_ptr<Line>> Line::open(const bootstrap::Address& to, const bootstrap::Key& key, const Nonce& peer,
                                         const std::string& self, std::chrono::milliseconds timeout) {
  using State = bootstrap::Handshake::State;
  const auto deadline = Clock::now() + timeout;
  WEFT_TRY(auto fd, bootstrap::start_connect(to));
  bootstrap::Handshake handshake(bootstrap::Handshake::Role::kOpener, key, {.purpose = kPurpose});
  while (handshake.advance(fd.get()) == State::kRunning) {
    if (Clock::now() > deadline) return failure(Code::kTimeout, Blame::kOperation, "{} does not answer", to.text());
    if (const int error = bootstrap::connect_error(fd.get()); error != 0)
      return failure(Code::kPeerDied, Blame::kOperation, "{}: {}", to.text(), std::strerror(error));
    pollfd wait{.fd = fd.get(), .events = POLLIN, .revents = 0};
    ::poll(&wait, 1, 2);
  }
  if (handshake.state() == State::kFailed)
    return failure(Code::kPeerDied, Blame::kOperation, "{}: {}", to.text(), handshake.problem());
  const int on = 1;
  setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  bootstrap::end_when_cut(fd.get(), timeout);
  auto line = over(std::move(fd));
  std::vector<std::byte> hello(sizeof peer + self.size());
  std::memcpy(hello.data(), peer.data(), sizeof peer);
  std::memcpy(hello.data() + sizeof peer, self.data(), self.size());
  std::optional<Verdict> said;
  line->ask({.ask = Ask::kHello, .bytes = static_cast<std::int64_t>(hello.size())}, hello, nullptr,
            [&](Verdict verdict, bool) { said = verdict; });
  while (!said) {
    WEFT_CHECK(line->advance());
    if (Clock::now() > deadline) return failure(Code::kTimeout, Blame::kOperation, "{} does not answer", to.text());
    pollfd wait{.fd = line->fd_.get(), .events = POLLIN, .revents = 0};
    if (!said) ::poll(&wait, 1, 2);
  }
  if (*said != Verdict::kGood)
    return failure(Code::kNotFound, Blame::kOperation, "another agent answers at {}: it has restarted", to.text());
  return line;
}

void Line::ask(Question question, std::span<const std::byte> data, Into into, Done done) {
  std::byte* const place = out_.grow(sizeof question + data.size());
  if (question.ask == Ask::kWrite)
    question.checksum = copy_with_checksum(place + sizeof question, data.data(), data.size());
  else if (!data.empty())
    std::memcpy(place + sizeof question, data.data(), data.size());
  std::memcpy(place, &question, sizeof question);
  const std::int64_t bytes = question.bytes + static_cast<std::int64_t>(sizeof question);
  under_way_ += bytes;
  waiting_.push_back({bytes, question.ask == Ask::kRead ? question.bytes : 0, std::move(into), std::move(done)});
}

Status Line::advance() {
  if (broken_) return failure(Code::kPeerDied, Blame::kOperation, "the connection has broken");
  WEFT_CHECK(send());
  for (;;) {
    WEFT_TRY(const bool more, receive());
    if (!more) return {};
  }
}

Status Line::send() {
  while (out_.waiting() > 0) {
    const ssize_t n = ::send(fd_.get(), out_.data(), out_.waiting(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return {};
    if (n < 0) {
      broken_ = true;
      return failure(Code::kPeerDied, Blame::kOperation, "the connection has broken: {}", std::strerror(errno));
    }
    out_.take(static_cast<std::size_t>(n));
  }
  return {};
}

// One answer. False: it has not come yet.
Result<bool> Line::receive() {
  for (;;) {
    if (have_answer_ && got_ == static_cast<std::size_t>(answer_.bytes)) {
      const bool whole =
          answer_.bytes == 0 || into_ == scratch_.data() || net::tcp::crc32c(0, into_, got_) == answer_.checksum;
      finish(whole);
      return true;
    }
    // A request that has ended since must not have its memory touched any more.
    if (have_answer_ && into_ != scratch_.data() && waiting_.front().into() == nullptr) {
      scratch_.resize(static_cast<std::size_t>(answer_.bytes) + 1);
      into_ = scratch_.data();
    }
    std::byte* const to = have_answer_ ? into_ : reinterpret_cast<std::byte*>(&answer_);
    const std::size_t wanted = have_answer_ ? static_cast<std::size_t>(answer_.bytes) : sizeof answer_;
    const ssize_t n = recv(fd_.get(), to + got_, wanted - got_, MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return false;
    if (n > 0) got_ += static_cast<std::size_t>(n);
    bool nonsense = n <= 0 || waiting_.empty();
    if (!nonsense && !have_answer_ && got_ == sizeof answer_) {
      nonsense = answer_.bytes < 0 || answer_.bytes > waiting_.front().wanted;
      if (!nonsense) {
        have_answer_ = true;
        got_ = 0;
        into_ = answer_.bytes > 0 && waiting_.front().into ? waiting_.front().into() : nullptr;
        if (into_ == nullptr) {
          scratch_.resize(static_cast<std::size_t>(answer_.bytes) + 1);
          into_ = scratch_.data();
        }
      }
    }
    if (nonsense) {
      broken_ = true;
      return failure(Code::kPeerDied, Blame::kOperation, "the connection has ended");
    }
  }
}

void Line::finish(bool whole) {
  const Waiting front = std::move(waiting_.front());
  waiting_.pop_front();
  under_way_ -= front.bytes;
  have_answer_ = false;
  got_ = 0;
  if (front.done) front.done(answer_.verdict, whole);
}

}  // namespace weft::transfer
