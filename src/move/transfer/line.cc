#include "move/transfer/line.h"

#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "move/transfer/copy.h"
#include "net/bootstrap/meeting.h"
#include "net/link/dial.h"
#include "net/tcp/crc32c.h"

namespace weft::transfer {

namespace bootstrap = net::bootstrap;
namespace link = net::link;
using Clock = std::chrono::steady_clock;

Result<std::unique_ptr<Line>> Line::open(const link::Address& to, const link::Key& key, const Nonce& peer,
                                         const std::string& self, std::chrono::milliseconds timeout,
                                         std::shared_ptr<net::ucx::Context> ucx) {
  const auto deadline = Clock::now() + timeout;
  auto dialled = link::dial({.to = to, .key = key, .claim = {.purpose = kPurpose}, .timeout = timeout});
  if (!dialled) {
    const Error& e = dialled.error();
    if (e.code == Code::kTimeout) return failure(e.code, Blame::kOperation, "{} does not answer", to.text());
    const bool refused = e.code == Code::kInvalidArgument;
    return failure(refused ? Code::kPeerDied : e.code, refused ? Blame::kOperation : e.blame, "{}: {}", to.text(),
                   e.message);
  }
  auto line = over(std::move(dialled->fd));
  std::vector<std::byte> hello(sizeof peer + self.size());
  std::memcpy(hello.data(), peer.data(), sizeof peer);
  std::memcpy(hello.data() + sizeof peer, self.data(), self.size());
  WEFT_TRY(const Verdict said, line->answer_to({.ask = Ask::kHello, .bytes = static_cast<std::int64_t>(hello.size())},
                                               hello, nullptr, deadline, to.text()));
  if (said != Verdict::kGood)
    return failure(Code::kNotFound, Blame::kOperation, "another agent answers at {}: it has restarted", to.text());
  if (ucx != nullptr) WEFT_CHECK(line->join_ucx(std::move(ucx), deadline, to.text()));
  return line;
}

Result<Verdict> Line::answer_to(Question question, std::span<const std::byte> data, Into into,
                                Clock::time_point deadline, const std::string& peer) {
  std::optional<Verdict> said;
  ask(question, data, std::move(into),
      [&](const Answer& answer, bool whole) { said = whole ? answer.verdict : Verdict::kDamaged; });
  WEFT_TRY(const bool answered, advance_until(deadline, [&] { return said.has_value(); }));
  if (answered) return *said;
  close();  // the answer must not come to a place that is gone
  return failure(Code::kTimeout, Blame::kOperation, "{} does not answer", peer);
}

Status Line::join_ucx(std::shared_ptr<net::ucx::Context> ucx, Clock::time_point deadline, const std::string& peer) {
  WEFT_TRY(auto stream, net::ucx::open_stream(std::move(ucx)));
  const auto address = stream->address();
  UcxJoin mine{.bytes = static_cast<std::uint32_t>(address.size())};
  const link::Digest here = bootstrap::machine_identity();
  static_assert(sizeof here == sizeof mine.machine);
  std::memcpy(mine.machine, here.data(), sizeof here);
  std::vector<std::byte> said(sizeof mine + address.size());
  std::memcpy(said.data(), &mine, sizeof mine);
  std::memcpy(said.data() + sizeof mine, address.data(), address.size());
  std::vector<std::byte> answer(sizeof(UcxJoin) + static_cast<std::size_t>(kMostUcxAddress));
  WEFT_TRY(Verdict verdict, answer_to(
                                {.ask = Ask::kUcx, .bytes = static_cast<std::int64_t>(said.size())}, said,
                                [&] { return answer.data(); }, deadline, peer));
  UcxJoin theirs;
  std::memcpy(&theirs, answer.data(), sizeof theirs);
  const auto came = std::span(answer)
                        .subspan(sizeof theirs)
                        .first(std::min<std::size_t>(theirs.bytes, answer.size() - sizeof theirs));
  if (verdict != Verdict::kGood || came.empty())
    return failure(Code::kUnsupported, Blame::kOperation, "{} does not go on over UCX: {}", peer,
                   std::string_view(reinterpret_cast<const char*>(came.data()), came.size()));
  if (const Status joined = stream->connect(came, theirs.near != 0); !joined)
    return failure(Code::kUnsupported, Blame::kOperation, "{}", joined.error().message);
  channel_ = over_ucx(std::move(channel_), std::move(stream));
  WEFT_TRY(verdict, answer_to({.ask = Ask::kUcx}, {}, nullptr, deadline, peer));
  if (verdict != Verdict::kGood)
    return failure(Code::kUnsupported, Blame::kOperation, "{} does not answer by UCX", peer);
  return {};
}

void Line::close() {
  broken_ = true;
  if (channel_ != nullptr && under_way_ > 0) {
    const linger at_once{.l_onoff = 1, .l_linger = 0};
    setsockopt(channel_->socket(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  }
  channel_.reset();
  const auto forgotten = std::exchange(waiting_, {});
}

std::uint32_t Line::ask(Question question, std::span<const std::byte> data, Into into, Done done) {
  std::byte* const place = out_.grow(sizeof question + data.size());
  if (question.ask == Ask::kWrite || question.ask == Ask::kUcx)
    question.checksum = copy_with_checksum(place + sizeof question, data.data(), data.size(), question.before);
  else if (!data.empty())
    std::memcpy(place + sizeof question, data.data(), data.size());
  std::memcpy(place, &question, sizeof question);
  const std::int64_t bytes = question.bytes + static_cast<std::int64_t>(sizeof question);
  under_way_ += bytes;
  const std::int64_t wanted = question.ask == Ask::kRead  ? question.bytes
                              : question.ask == Ask::kUcx ? static_cast<std::int64_t>(sizeof(UcxJoin)) + kMostUcxAddress
                                                          : 0;
  put_ += static_cast<std::size_t>(bytes);
  waiting_.push_back({bytes, wanted, std::move(into), std::move(done), question.ask == Ask::kNotify});
  return question.checksum;
}

bool Line::notify(std::string_view bytes, Done done) {
  const std::uint32_t then = notified_ + notification_bytes(bytes.size());
  if (!covers(granted_, then)) return false;
  notified_ = then;
  ++unconfirmed_;
  const auto data = std::as_bytes(std::span(bytes.data(), bytes.size()));
  ask({.ask = Ask::kNotify, .bytes = static_cast<std::int64_t>(data.size())}, data, nullptr, std::move(done));
  notifications_end_ = put_;
  return true;
}

Status Line::advance() {
  if (over())
    return failure(Code::kPeerDied, Blame::kOperation,
                   "the connection has broken; load() of its metadata makes another");
  const Status sent = channel_->send(out_);
  broken_ = !sent;
  WEFT_CHECK(sent);
  for (;;) {
    WEFT_TRY(const bool more, receive());
    if (!more) return {};
  }
}

Result<bool> Line::advance_until(Clock::time_point deadline, const std::function<bool()>& done) {
  std::vector<pollfd> list;
  for (;;) {
    WEFT_CHECK(advance());
    if (done()) return true;
    if (Clock::now() > deadline) return false;
    list.clear();
    if (watch(list)) ::poll(list.data(), list.size(), 2);
  }
}

std::byte* Line::scratch(std::size_t bytes) {
  scratch_.resize(bytes + 1);
  return scratch_.data();
}

// No value: no question has such an answer.
std::optional<std::span<std::byte>> Line::place(const Answer& answer) {
  if (answer.verdict == Verdict::kGrant)
    return answer.bytes == 0 ? std::optional(std::span<std::byte>()) : std::nullopt;
  if (waiting_.empty() || answer.bytes < 0 || answer.bytes > waiting_.front().wanted) return std::nullopt;
  const auto bytes = static_cast<std::size_t>(answer.bytes);
  if (bytes == 0) return std::span<std::byte>();
  std::byte* const into = waiting_.front().into ? waiting_.front().into() : nullptr;
  return std::span(into != nullptr ? into : scratch(bytes), bytes);
}

// One answer. False: it has not come yet.
Result<bool> Line::receive() {
  // A request that has ended since must not have its memory touched any more.
  const bool wanted = frame_.in_body() && frame_.body().data() != scratch_.data();
  if (wanted && waiting_.front().into() == nullptr) frame_.divert(scratch(frame_.body().size()));
  Status why;
  const auto state = frame_.advance(link::receiver(*channel_, why), [this](const Answer& a) { return place(a); });
  if (state == link::FrameState::kMore) return false;
  broken_ = state == link::FrameState::kOver;
  if (broken_ && why) return failure(Code::kPeerDied, Blame::kOperation, "the connection has ended");
  if (broken_) return tl::make_unexpected(std::move(why.error()));
  const std::span<std::byte> data = frame_.body();
  finish(data.empty() || data.data() == scratch_.data() ||
         net::tcp::crc32c(0, data.data(), data.size()) == frame_.head().checksum);
  return true;
}

void Line::finish(bool whole) {
  granted_ = frame_.head().granted;
  if (frame_.head().verdict == Verdict::kGrant) return;
  const Waiting front = std::move(waiting_.front());
  waiting_.pop_front();
  under_way_ -= front.bytes;
  if (front.notifies) --unconfirmed_;
  if (front.done) front.done(frame_.head(), whole);
}

}  // namespace weft::transfer
