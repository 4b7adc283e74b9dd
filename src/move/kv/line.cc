#include "move/kv/line.h"

#include <netinet/tcp.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

#include "net/bootstrap/dial.h"

namespace weft::kv {
namespace {

namespace bootstrap = net::bootstrap;
using namespace std::chrono_literals;

constexpr std::int64_t kMostUnread = 1024;
constexpr auto kLookFor = 100us;  // before a wait, after which the thread has to be woken

Code code_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::kNotFound:
      return Code::kNotFound;
    case Verdict::kNoResources:
      return Code::kNoResources;
    case Verdict::kUnwritten:
      return Code::kMismatch;
    case Verdict::kClosed:
      return Code::kPeerLeft;
    case Verdict::kGood:
      break;
  }
  return Code::kInternal;
}

}  // namespace

Result<std::unique_ptr<Line>> Line::open(const bootstrap::Address& to, const bootstrap::Key& key,
                                         std::chrono::milliseconds timeout, std::function<bool()> interrupted) {
  WEFT_TRY(
      auto dialled,
      bootstrap::dial(
          {.to = to, .key = key, .claim = {.purpose = kStorePurpose}, .timeout = timeout, .interrupted = interrupted}));
  return std::make_unique<Line>(std::move(dialled.fd), timeout, std::move(interrupted));
}

// The connection is of no use from here on: an answer that comes late would be taken for another's.
tl::unexpected<Error> Line::broken(Code code, std::string why) {
  fd_.reset();
  const bool ended = code == Code::kPeerDied;  // the other side, for good
  state_ = tl::make_unexpected(Error{code, Blame::kOperation, ended ? why : "an earlier call: " + why});
  return tl::make_unexpected(Error{code, Blame::kOperation, std::move(why)});
}

Status Line::wait(short events, Clock::time_point deadline) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    if (left.count() <= 0)
      return broken(Code::kTimeout,
                    fmt::format("no answer for {} ms; the connection has been closed", timeout_.count()));
    pollfd watched{.fd = fd_.get(), .events = events, .revents = 0};
    const int n = ::poll(&watched, 1, static_cast<int>(std::min<std::int64_t>(left.count(), 50)));
    if (n > 0) return {};
    if (n < 0 && errno != EINTR) return broken(Code::kSystem, fmt::format("poll: {}", std::strerror(errno)));
    if (interrupted_ && interrupted_()) return broken(Code::kAborted, "interrupted; the connection has been closed");
  }
}

Status Line::send_all(const std::byte* data, std::size_t bytes, Clock::time_point deadline) {
  while (bytes > 0) {
    const ssize_t n = ::send(fd_.get(), data, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) {
      WEFT_CHECK(wait(POLLOUT, deadline));
      continue;
    }
    if (n < 0) return broken(Code::kPeerDied, fmt::format("it has ended: {}", std::strerror(errno)));
    data += n;
    bytes -= static_cast<std::size_t>(n);
  }
  return {};
}

Status Line::receive_all(void* to, std::size_t bytes, Clock::time_point deadline) {
  const auto sleep = Clock::now() + kLookFor;
  for (std::size_t got = 0; got < bytes;) {
    const ssize_t n = recv(fd_.get(), static_cast<char*>(to) + got, bytes - got, MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) {
      if (Clock::now() > sleep)
        WEFT_CHECK(wait(POLLIN, deadline));
      else
        std::this_thread::yield();
      continue;
    }
    if (n < 0) return broken(Code::kPeerDied, fmt::format("it has ended: {}", std::strerror(errno)));
    if (n == 0) return broken(Code::kPeerDied, "it has ended: the connection was closed");
    got += static_cast<std::size_t>(n);
  }
  return {};
}

Result<Reply> Line::receive(std::uint32_t asked, Clock::time_point deadline) {
  Reply reply;
  WEFT_CHECK(receive_all(&reply.answer, sizeof reply.answer, deadline));
  if (!valid(reply.answer, asked)) return broken(Code::kInternal, "its answer makes no sense");
  std::vector<WirePage> pages(reply.answer.pages);
  WEFT_CHECK(receive_all(pages.data(), pages.size() * sizeof(WirePage), deadline));
  for (const WirePage& page : pages) reply.pages.push_back({page.index, page.generation});
  reply.text.resize(reply.answer.text);
  WEFT_CHECK(receive_all(reply.text.data(), reply.text.size(), deadline));
  return reply;
}

Result<Reply> Line::ask(const Question& question, std::span<const bootstrap::Digest> keys) {
  if (!state_) return tl::make_unexpected(state_.error());
  const auto deadline = Clock::now() + timeout_;
  std::vector<std::byte> out(sizeof question + keys.size_bytes());
  std::memcpy(out.data(), &question, sizeof question);
  if (!keys.empty()) std::memcpy(out.data() + sizeof question, keys.data(), keys.size_bytes());
  WEFT_CHECK(send_all(out.data(), out.size(), deadline));
  for (; unread_ > 0; --unread_) WEFT_CHECK(receive(0, deadline));
  WEFT_TRY(Reply reply, receive(question.count, deadline));
  if (reply.answer.verdict == Verdict::kGood) return reply;
  std::replace_if(
      reply.text.begin(), reply.text.end(), [](char c) { return c < ' '; }, ' ');
  return failure(code_of(reply.answer.verdict), Blame::kOperation, "{}", reply.text);
}

void Line::post(const Question& question) {
  if (!state_) return;
  const auto deadline = Clock::now() + timeout_;
  if (!send_all(reinterpret_cast<const std::byte*>(&question), sizeof question, deadline)) return;
  if (++unread_ < kMostUnread) return;
  for (; unread_ > 0; --unread_)
    if (!receive(0, deadline)) return;
}

}  // namespace weft::kv
