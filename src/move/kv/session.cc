#include "move/kv/session.h"

namespace weft::kv {
namespace {

constexpr std::size_t kMostWaiting = 1 << 20;  // bytes of answers; then no question is read
constexpr std::size_t kMostHeld = 4096;        // leases and writings of one client
constexpr int kMostAtOnce = 16;                // questions; then other clients have their turn

}  // namespace

Session::~Session() {
  for (const auto& [id, held] : held_) give_back(id, held);
}

void Session::give_back(std::uint64_t id, const Held& held) {
  if (held.writes)
    serving_.store->abandon(id);
  else
    serving_.store->end(id);
}

bool Session::watch(std::vector<pollfd>& list) {
  return channel_->watch(list, out_.waiting() < kMostWaiting, out_.waiting() > 0);
}

void Session::advance() {
  expire(Clock::now());
  send_answers();
  for (int turn = 0; turn < kMostAtOnce && open() && out_.waiting() < kMostWaiting && receive(); ++turn) answer();
  if (open()) send_answers();
}

// One whole question with its keys. False: not yet, or never.
bool Session::receive() {
  Status why;
  const auto state = frame_.advance(net::link::receiver(*channel_, why),
                                    [this](const Question& question) -> std::optional<std::span<std::byte>> {
                                      if (!valid(question, known_)) return std::nullopt;
                                      keys_.resize(question.count);
                                      return std::as_writable_bytes(std::span(keys_));
                                    });
  if (state == net::link::FrameState::kOver) channel_.reset();
  if (state != net::link::FrameState::kWhole) return false;
  question_ = frame_.head();
  return true;
}

Session::Clock::time_point Session::deadline() const {
  return Clock::now() + std::min(std::chrono::milliseconds(question_.milliseconds), serving_.most_lease);
}

void Session::reply(Answer answer, std::span<const transfer::Page> pages, std::string_view text) {
  answer.pages = static_cast<std::uint32_t>(pages.size());
  answer.text = static_cast<std::uint32_t>(text.size());
  out_.put(answer);
  for (const transfer::Page& page : pages) out_.put(WirePage{.index = page.index, .generation = page.generation});
  if (!text.empty()) std::memcpy(out_.grow(text.size()), text.data(), text.size());
}

void Session::answer() {
  switch (question_.ask) {
    case Ask::kHello:
      return hello();
    case Ask::kMatch:
    case Ask::kBegin:
      return hold();
    case Ask::kEnd:
    case Ask::kCommit:
    case Ask::kAbandon:
      return close(question_.id);
    case Ask::kExtend: {
      const auto found = held_.find(question_.id);
      if (found == held_.end()) return close(question_.id);
      found->second.deadline = deadline();
      next_deadline_ = std::min(next_deadline_, found->second.deadline);
      return reply({});
    }
    case Ask::kCounters: {
      const Counters counters = serving_.store->counters();
      return reply({}, {}, {reinterpret_cast<const char*>(&counters), sizeof counters});
    }
  }
}

void Session::hello() {
  const detail::StoreState& store = *serving_.store;
  if (question_.milliseconds != kStoreVersion)
    return reply(
        {.verdict = Verdict::kNotFound}, {},
        fmt::format("it answers version {} of these questions, not {}", kStoreVersion, question_.milliseconds));
  const auto metadata = store.metadata();
  if (!metadata) return reply({.verdict = Verdict::kClosed}, {}, metadata.error().message);
  const Description description{.region = store.region.region,
                                .pages = store.pages,
                                .page_bytes = store.page_bytes,
                                .block_tokens = store.block_tokens};
  std::string text(reinterpret_cast<const char*>(&description), sizeof description);
  known_ = true;
  reply({}, {}, text + *metadata);
}

void Session::hold() {
  if (held_.size() >= kMostHeld)
    return reply({.verdict = Verdict::kNoResources}, {},
                 fmt::format("this client holds {} leases and writings", kMostHeld));
  const bool writes = question_.ask == Ask::kBegin;
  auto held = writes ? serving_.store->begin(keys_) : Result<detail::StoreState::Held>(serving_.store->match(keys_));
  if (!held) {
    const bool closed = held.error().code == Code::kPeerLeft;
    return reply({.verdict = closed ? Verdict::kClosed : Verdict::kNoResources}, {}, held.error().message);
  }
  if (!writes && question_.milliseconds == 0) {  // it relies on the pages' generations
    serving_.store->end(held->id);
    held->id = 0;
  }
  if (held->id != 0) {
    held_[held->id] = {deadline(), writes};
    next_deadline_ = std::min(next_deadline_, held_[held->id].deadline);
  }
  reply({.id = held->id, .number = held->first_block}, held->pages);
}

// Ends a lease or a writing of this client in the way that was asked for.
void Session::close(std::uint64_t id) {
  const auto found = held_.find(id);
  const bool writes = question_.ask != Ask::kEnd;
  if (found == held_.end() || found->second.writes != writes)
    return reply({.verdict = Verdict::kNotFound}, {}, "it has ended, or its deadline has passed");
  const Held held = found->second;
  held_.erase(found);
  if (question_.ask != Ask::kCommit) {
    give_back(id, held);
    return reply({});
  }
  const auto committed = serving_.store->commit_written(id);
  if (committed) return reply({.number = *committed});
  const Code code = committed.error().code;
  reply({.verdict = code == Code::kMismatch   ? Verdict::kUnwritten
                    : code == Code::kPeerLeft ? Verdict::kClosed
                                              : Verdict::kNotFound},
        {}, committed.error().message);
}

void Session::expire(Clock::time_point now) {
  if (now < next_deadline_) return;
  next_deadline_ = Clock::time_point::max();
  std::erase_if(held_, [&](const auto& entry) {
    const auto& [id, held] = entry;
    if (held.deadline > now) {
      next_deadline_ = std::min(next_deadline_, held.deadline);
      return false;
    }
    give_back(id, held);
    serving_.store->count_expired();
    return true;
  });
}

void Session::send_answers() {
  if (!channel_->send(out_)) channel_.reset();
}

}  // namespace weft::kv
