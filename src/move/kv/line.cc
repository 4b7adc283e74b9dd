#include "move/kv/line.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "net/link/dial.h"

namespace weft::kv {
namespace {

namespace link = net::link;
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

Result<std::unique_ptr<Line>> Line::open(const link::Address& to, const link::Key& key,
                                         std::chrono::milliseconds timeout, std::function<bool()> interrupted) {
  WEFT_TRY(
      auto dialled,
      link::dial(
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

link::WaitLimit Line::limit() const {
  return {.deadline = link::WaitLimit::Clock::now() + timeout_, .interrupted = &interrupted_, .look_for = kLookFor};
}

Status Line::check(link::Outcome outcome) {
  switch (outcome) {
    case link::Outcome::kDone:
      return {};
    case link::Outcome::kOver:
      return broken(Code::kPeerDied,
                    fmt::format("it has ended: {}", errno == 0 ? "the connection was closed" : std::strerror(errno)));
    case link::Outcome::kLate:
      return broken(Code::kTimeout,
                    fmt::format("no answer for {} ms; the connection has been closed", timeout_.count()));
    case link::Outcome::kInterrupted:
      break;
  }
  return broken(Code::kAborted, "interrupted; the connection has been closed");
}

Status Line::receive_all(void* to, std::size_t bytes, const link::WaitLimit& limit) {
  return check(link::receive_all(fd_.get(), {static_cast<std::byte*>(to), bytes}, limit));
}

Result<Reply> Line::receive(std::uint32_t asked, const link::WaitLimit& limit) {
  Reply reply;
  WEFT_CHECK(receive_all(&reply.answer, sizeof reply.answer, limit));
  if (!valid(reply.answer, asked)) return broken(Code::kInternal, "its answer makes no sense");
  std::vector<WirePage> pages(reply.answer.pages);
  WEFT_CHECK(receive_all(pages.data(), pages.size() * sizeof(WirePage), limit));
  for (const WirePage& page : pages) reply.pages.push_back({page.index, page.generation});
  reply.text.resize(reply.answer.text);
  WEFT_CHECK(receive_all(reply.text.data(), reply.text.size(), limit));
  return reply;
}

Result<Reply> Line::ask(const Question& question, std::span<const link::Digest> keys) {
  if (!state_) return tl::make_unexpected(state_.error());
  const link::WaitLimit limit = this->limit();
  WEFT_CHECK(check(link::send_all(fd_.get(), std::as_bytes(std::span(&question, 1)), std::as_bytes(keys), limit)));
  for (; unread_ > 0; --unread_) WEFT_CHECK(receive(0, limit));
  WEFT_TRY(Reply reply, receive(question.count, limit));
  if (reply.answer.verdict == Verdict::kGood) return reply;
  std::replace_if(
      reply.text.begin(), reply.text.end(), [](char c) { return c < ' '; }, ' ');
  return failure(code_of(reply.answer.verdict), Blame::kOperation, "{}", reply.text);
}

void Line::post(const Question& question) {
  if (!state_) return;
  const link::WaitLimit limit = this->limit();
  if (!check(link::send_all(fd_.get(), std::as_bytes(std::span(&question, 1)), {}, limit))) return;
  if (++unread_ < kMostUnread) return;
  for (; unread_ > 0; --unread_)
    if (!receive(0, limit)) return;
}

}  // namespace weft::kv
