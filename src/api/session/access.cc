#include "api/session/access.h"

namespace weft::session {

Ballot& BufferAccess::ballot_of(const Request& r) {
  if (ballots_.empty()) {
    const std::byte probe{};
    const bool everywhere = executor_->reaches(&probe, 1);  // its own stack: as ranks that are threads do
    const bool votes = !everywhere && executor_->capabilities().load_store && !executor_->votes().empty();
    ballots_.resize(votes ? executor_->votes().size() : 1);
    if (!votes) ballots_[0] = {.decides = 0, .direct = everywhere};
  }
  return ballots_[ballots_.size() == 1 ? 0 : std::hash<std::string>{}(key_of(r, false)) % ballots_.size()];
}

Access BufferAccess::count(Ballot& ballot, const Request& r, const Buffers& b) {
  const bool reached = peers_reach(r, b);
  if (++ballot.calls == ballot.decides) {
    const auto window = fabric::Votes::window_of(ballot.calls);
    fabric::Votes& votes = executor_->votes()[static_cast<std::size_t>(&ballot - ballots_.data())];
    ballot.direct = votes.decide(window, executor_->ranks());
    ballot.decides = fabric::Votes::end_of(window);
    if (window >= ballot.votes && reached && ballot.mostly_reached()) votes.vote(window);
    ballot.votes = window + 1;
    ballot.counted = ballot.reached = 0;
  }
  ++ballot.counted;
  ballot.reached += reached ? 1 : 0;
  return {.direct = ballot.direct, .reached = reached, .adopted = bool(adopted_)};
}

// Of a vote nothing is taken back: a peer may have counted it.
void BufferAccess::take_back(Ballot& ballot, const Ballot& before) {
  const int votes = ballot.votes;
  ballot = before;
  ballot.votes = votes;
  adopted_ = {};
}

bool BufferAccess::peers_reach(const Request& r, const Buffers& b) {
  adopted_ = {};
  if (ballots_.size() > 1 && overwrites_input(r)) return false;
  const auto look = [&](const void* data, Bytes bytes, std::shared_ptr<const AdoptedPages>& pages) {
    if (bytes == 0 || executor_->reaches(data, bytes)) return true;
    pages = AdoptedPages::of(data, bytes);
    return pages != nullptr && executor_->reaches(pages->shared(data), bytes);
  };
  const bool in = look(r.in, b.in_bytes, adopted_.in), out = look(r.out, b.out_bytes, adopted_.out);
  return in && out;
}

Status Copies::make_room(const Buffers& buffers) {
  const Bytes needed = offset_of_out(buffers) + buffers.out_bytes;
  if (needed <= bytes_) return {};
  release();
  WEFT_TRY(void* const memory, executor_->allocate_beyond(needed));
  memory_ = static_cast<std::byte*>(memory);
  bytes_ = needed;
  return {};
}

void Copies::release() {
  if (memory_ != nullptr) executor_->deallocate_beyond(memory_, bytes_);
  memory_ = nullptr;
  bytes_ = 0;
}

}  // namespace weft::session
