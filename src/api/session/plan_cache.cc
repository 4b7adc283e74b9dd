#include "api/session/plan_cache.h"

#include <algorithm>
#include <cstring>

namespace weft::session {
namespace {

using Word = PlanKey::Word;

// Two numbers of at most 32 bits in one word.
Word both(std::int64_t high, std::int64_t low) {
  return static_cast<Word>(high) << 32 | static_cast<std::uint32_t>(low);
}

}  // namespace

void PlanKey::add_text(const std::string& text) {
  for (std::size_t at = 0; at < text.size(); at += sizeof(Word)) {
    Word word = 0;
    std::memcpy(&word, text.data() + at, std::min(sizeof word, text.size() - at));
    words_.push_back(word);
  }
}

void PlanKey::set(const Request& r) {
  const bool barrier = r.collective == Collective::kBarrier, uneven = schedule::uneven(r.collective);
  words_.clear();
  words_.push_back(static_cast<Word>(r.collective) << 56 | static_cast<Word>(barrier ? DataType{} : r.type) << 48 |
                   static_cast<Word>(r.op) << 40 | static_cast<Word>(r.reproducible) << 33 |
                   static_cast<Word>(r.scalar.has_value()) << 32 | static_cast<std::uint32_t>(r.channels));
  words_.push_back(barrier || uneven ? 0 : r.count);
  words_.push_back(both(schedule::rooted(r.collective) ? r.root : 0, r.per_token));
  words_.push_back(both(r.expert_count, static_cast<std::int64_t>(r.algorithm.size() << 16 | r.protocol.size())));
  add_text(r.algorithm);
  add_text(r.protocol);
  words_.push_back(both(static_cast<std::int64_t>(r.counts.size()), static_cast<std::int64_t>(r.experts.size())));
  words_.insert(words_.end(), r.counts.begin(), r.counts.end());
  words_.insert(words_.end(), r.receive_counts.begin(), r.receive_counts.end());
  if (!r.experts.empty()) words_.push_back(digest_of(r.experts));
}

void PlanKey::set(std::span<const Transfer> transfers) {
  constexpr Word kTransfers = Word{0xff} << 56;  // no collective
  words_.assign(1, kTransfers | transfers.size());
  for (const Transfer& t : transfers) {
    words_.push_back(both(static_cast<std::int64_t>(t.direction) << 8 | static_cast<std::int64_t>(t.type), t.peer));
    words_.push_back(t.count);
    words_.push_back(reinterpret_cast<Word>(t.data) - reinterpret_cast<Word>(transfers.front().data));
  }
}

std::size_t PlanKey::hash() const {
  Word hash = words_.size();
  for (const Word word : words_) {
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 32;
  }
  return hash;
}

const Prepared* KnownShape::plan(const Access& access, std::optional<Bytes> shift) const {
  for (const Plan& p : plans)
    if (p.access.direct == access.direct && p.access.reached == access.reached &&
        (p.prepared->copies || p.shift == shift))
      return p.prepared.get();
  return nullptr;
}

KnownShape* PlanCache::find(const Request& request) {
  asked_.set(request);
  return find_asked();
}

KnownShape* PlanCache::find(std::span<const Transfer> transfers) {
  asked_.set(transfers);
  return find_asked();
}

KnownShape* PlanCache::find_asked() {
  if (last_ != nullptr && last_->first == asked_) return &last_->second;
  const auto found = shapes_.find(asked_);
  if (found == shapes_.end()) return nullptr;
  last_ = &*found;
  return &last_->second;
}

KnownShape& PlanCache::add(Kind kind, KnownShape shape) {
  std::deque<const PlanKey*>* const oldest = kind == Kind::kAlike       ? nullptr
                                             : kind == Kind::kTransfers ? &varying_transfers_
                                                                        : &varying_requests_;
  const std::size_t most = kind == Kind::kTransfers ? kKeptTransfers : kKeptVarying;
  if (oldest != nullptr && oldest->size() == most) {
    if (last_ != nullptr && &last_->first == oldest->front()) last_ = nullptr;
    shapes_.erase(shapes_.find(*oldest->front()));
    oldest->pop_front();
  }
  last_ = &*shapes_.insert_or_assign(asked_, std::move(shape)).first;
  if (oldest != nullptr) oldest->push_back(&last_->first);
  return last_->second;
}

}  // namespace weft::session
