#include "move/transfer/connection.h"

#include <cstring>

#include "move/transfer/copy.h"
#include "net/bootstrap/meeting.h"
#include "net/tcp/crc32c.h"

namespace weft::transfer {
namespace {

namespace bootstrap = net::bootstrap;
namespace link = net::link;

// Bytes of answers of one connection, which should stay in a cache until they are sent; then no question is read.
constexpr std::size_t kMostWaiting = 1 << 20;
constexpr std::chrono::milliseconds kLookForTaken{1};
constexpr std::size_t kSent = 128 << 10;  // these go at once, so that the peer reads while the next are copied

}  // namespace

bool Connection::watch(std::vector<pollfd>& list) {
  return channel_->watch(list, backlog() < kMostWaiting, out_.waiting() > 0);
}

void Connection::advance() {
  send_answers();
  while (open() && backlog() < kMostWaiting && receive())
    if (open() && out_.waiting() >= kSent) send_answers();
  if (open()) grant_more();
  if (open()) send_answers();
}

// False: nothing more now.
bool Connection::receive() {
  Status why;
  const auto state = frame_.advance(link::receiver(*channel_, why), [this](const Question& q) { return place(q); });
  if (state == link::FrameState::kOver) close();
  if (state != link::FrameState::kWhole) return false;
  question_ = frame_.head();
  answer();
  return true;
}

std::optional<std::span<std::byte>> Connection::place(const Question& question) {
  const bool makes_sense = question.ask <= Ask::kUcx && question.verify <= Verify::kSeals &&
                           known() == (question.ask != Ask::kHello) && question.bytes >= 0 &&
                           question.bytes <= kMostPiece;
  if (!makes_sense) return std::nullopt;
  if (question.ask == Ask::kRead) return std::span<std::byte>();
  data_.resize(static_cast<std::size_t>(question.bytes));
  return data_;
}

void Connection::answer() {
  switch (question_.ask) {
    case Ask::kHello:
      return hello();
    case Ask::kNotify:
      return take_notification();
    case Ask::kUcx:
      return join_ucx();
    case Ask::kRead:
    case Ask::kWrite:
      break;
  }
  // An asker that has gone has given its writes up: see Line::close().
  if (question_.ask == Ask::kWrite && !asker_is_there()) return close();
  const std::shared_ptr<Region> region = served_.regions.find(question_.region);
  if (region == nullptr || region->data == nullptr) {
    reply({.verdict = Verdict::kNoRegion});
  } else if (question_.bytes == 0 || question_.offset < 0 || question_.offset > region->bytes - question_.bytes) {
    reply({.verdict = Verdict::kPastEnd});
  } else {
    move(*region);
  }
}

void Connection::take_notification() {
  notified_ += notification_bytes(data_.size());
  if (!covers(granted_, notified_)) return close();
  served_.inbox.put(peer_, std::string(reinterpret_cast<const char*>(data_.data()), data_.size()), taken_);
  reply({});
}

// What has been granted stays so; a peer that comes while the inbox is full is granted nothing until it is not.
std::uint32_t Connection::grant() {
  if (window_ == 0 && served_.inbox.has_room()) window_ = kNotificationWindow;
  return granted_ = *taken_ + window_;
}

bool Connection::needs_grant() const {
  return known() && next_ == nullptr && !covers(granted_, notified_ + kNotificationWindow / 2);
}

void Connection::grant_more() {
  if (!needs_grant()) return;
  look_again_ = Clock::now() + kLookForTaken;
  if (const std::uint32_t before = granted_; grant() != before) reply({.verdict = Verdict::kGrant});
}

bool Connection::asker_is_there() const {
  pollfd one{.fd = channel_->socket(), .events = POLLRDHUP, .revents = 0};
  return ::poll(&one, 1, 0) <= 0;
}

void Connection::hello() {
  Nonce meant{};
  if (data_.size() <= sizeof meant || data_.size() > sizeof meant + 64) return close();
  std::memcpy(meant.data(), data_.data(), sizeof meant);
  if (meant != served_.segment.header().nonce) return reply({.verdict = Verdict::kOtherAgent});
  peer_.assign(reinterpret_cast<const char*>(data_.data()) + sizeof meant, data_.size() - sizeof meant);
  reply({});
}

void Connection::answer_join(Verdict verdict, bool near, std::span<const std::byte> bytes) {
  const UcxJoin mine{.near = near ? 1U : 0U, .bytes = static_cast<std::uint32_t>(bytes.size())};
  Answer answer{.verdict = verdict, .bytes = static_cast<std::int64_t>(sizeof mine + bytes.size())};
  std::byte* const place = out_.grow(sizeof answer + static_cast<std::size_t>(answer.bytes));
  std::byte* const data = place + sizeof answer;
  std::memcpy(data, &mine, sizeof mine);
  std::memcpy(data + sizeof mine, bytes.data(), bytes.size());
  answer.checksum = net::tcp::crc32c(0, data, static_cast<std::size_t>(answer.bytes));
  answer.granted = grant();
  std::memcpy(place, &answer, sizeof answer);
}

// Opening a stream takes milliseconds, in which this thread serves nobody else; once per peer.
void Connection::join_ucx() {
  const auto refuse = [&](const std::string& why) {
    answer_join(Verdict::kNoUcx, false, std::as_bytes(std::span(why)));
  };
  if (question_.bytes == 0) return by_ucx_ ? reply({}) : refuse("it was not joined");
  UcxJoin theirs;
  if (by_ucx_ || next_ != nullptr || data_.size() <= sizeof theirs ||
      data_.size() > sizeof theirs + static_cast<std::size_t>(kMostUcxAddress))
    return close();
  std::memcpy(&theirs, data_.data(), sizeof theirs);
  const bool whole = net::tcp::crc32c(0, data_.data(), data_.size()) == question_.checksum;
  if (theirs.bytes != data_.size() - sizeof theirs || !whole) return close();
  if (served_.ucx == nullptr) return refuse("it has none");
  const link::Digest here = bootstrap::machine_identity();
  static_assert(sizeof here == sizeof theirs.machine);
  const bool near = std::memcmp(here.data(), theirs.machine, sizeof here) == 0;
  auto stream = net::ucx::open_stream(served_.ucx);
  if (!stream) return refuse(stream.error().message);
  const auto address = (*stream)->address();
  if (address.size() > static_cast<std::size_t>(kMostUcxAddress))
    return refuse(fmt::format("an address of {} bytes", address.size()));
  if (const Status joined = (*stream)->connect(std::span(data_).subspan(sizeof theirs), near); !joined)
    return refuse(joined.error().message);
  answer_join(Verdict::kGood, near, address);
  next_ = std::move(*stream);
}

// Under the pin, and with the page's generation as it was asked for.
Answer Connection::read(const Region& region, PageWord& page, std::byte* into) const {
  Answer answer{.bytes = question_.bytes};
  const auto bytes = static_cast<std::size_t>(answer.bytes);
  const std::byte* const from = region.data + question_.offset;
  if (region.copier == nullptr)
    answer.checksum = copy_with_checksum(into, from, bytes);
  else if (!region.copier->copy(region.gpu, into, from, question_.bytes))
    return {.verdict = Verdict::kNoCopy};
  else
    answer.checksum = net::tcp::crc32c(0, into, bytes);
  if (question_.verify == Verify::kNothing) return answer;
  answer.page_checksum = page.checksum.load();
  if (page.sealed.load() == 0) answer.verdict = Verdict::kUnsealed;
  return answer;
}

Answer Connection::write(const Region& region, PageWord& page) const {
  const auto bytes = static_cast<std::size_t>(question_.bytes);
  if (net::tcp::crc32c(question_.before, data_.data(), bytes) != question_.checksum)
    return {.verdict = Verdict::kDamaged};
  page.sealed.store(0);
  if (region.copier == nullptr)
    std::memcpy(region.data + question_.offset, data_.data(), bytes);
  else if (!region.copier->copy(region.gpu, region.data + question_.offset, data_.data(), question_.bytes))
    return {.verdict = Verdict::kNoCopy};
  // A writer that leaves out a piece, or whose piece was refused, seals what its readers will not take.
  const bool ends = region.fenced() && (question_.offset + question_.bytes) % region.page_bytes == 0;
  if (question_.verify == Verify::kSeals && ends) {
    page.checksum.store(question_.checksum);
    page.sealed.store(1);
  }
  return {};
}

void Connection::move(const Region& region) {
  const auto page_number = region.fenced() ? static_cast<std::uint64_t>(question_.offset / region.page_bytes) : 0;
  const bool crosses = region.fenced() && question_.offset % region.page_bytes + question_.bytes > region.page_bytes;
  if (crosses || page_number >= region.pages) return reply({.verdict = Verdict::kPastEnd});  // no bytes at the end
  PageWord& page = served_.segment.page(region.first_page + page_number);
  PinWord& word = served_.segment.slot(kServerSlot).pin;
  // Read data goes straight behind its answer.
  const bool reads = question_.ask == Ask::kRead;
  const auto bytes = static_cast<std::size_t>(reads ? question_.bytes : 0);
  std::byte* const place = out_.grow(sizeof(Answer) + bytes);
  Answer result{.verdict = Verdict::kStale};
  pin(word, region.id);
  if (holds(page, question_.generation))
    result = reads ? read(region, page, place + sizeof result) : write(region, page);
  if (!holds(page, question_.generation)) result.verdict = Verdict::kStale;
  unpin(word);
  if (result.verdict != Verdict::kGood) {
    result.bytes = 0;
    out_.shrink(bytes);
  }
  result.granted = grant();
  std::memcpy(place, &result, sizeof result);
}

void Connection::send_answers() {
  if (!channel_->send(out_)) return close();
  if (next_ == nullptr || out_.waiting() > 0) return;
  channel_ = over_ucx(std::move(channel_), std::move(next_));
  by_ucx_ = true;
}

}  // namespace weft::transfer
