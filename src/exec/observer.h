#pragma once

#include "exec/recorder/trace.h"
#include "plan/protocol/operation.h"

namespace weft::exec {

// Reports a real run to a trace: slices as they are executed, and the time until the next one where none could
// be. The driver of the strands asks once whether anything is wanted.
// Thread: the rank's. Owns: nothing.
class Observer {
 public:
  void trace_to(recorder::Trace* trace) {
    moves_ = trace != nullptr && trace->wants(recorder::Category::kMove) ? trace : nullptr;
    waits_ = trace != nullptr && trace->wants(recorder::Category::kWait) ? trace : nullptr;
    wants_ = moves_ != nullptr || waits_ != nullptr;
    awaited_ = -1;
  }

  bool wants() const { return wants_; }

  // Nothing can go on; `peer()`: whom the rank waits for, -1: nobody.
  template <class Peer>
  void stuck(Peer&& peer) {
    if (waits_ == nullptr || awaited_ >= 0) [[likely]]
      return;
    awaited_ = peer();
    since_ = recorder::ticks();
  }
  // Something can again.
  void moved() {
    if (awaited_ < 0) [[likely]]
      return;
    waits_->wait(awaited_, since_, recorder::ticks());
    awaited_ = -1;
  }

  void posted(Rank, int, const protocol::Operation&) {
    moved();
    if (moves_ != nullptr) begun_ = recorder::ticks();
  }
  void done(int strand, const protocol::Operation& operation) {
    if (moves_ != nullptr && operation.kind == protocol::Operation::Kind::kMove)
      moves_->move(strand, move_of(operation), begun_, recorder::ticks());
  }

 private:
  static recorder::Move move_of(const protocol::Operation& operation) {
    recorder::Move move{.bytes = operation.bytes,
                        .sources = static_cast<int>(operation.sources.size()),
                        .destinations = static_cast<int>(operation.destinations.size())};
    const auto first_peer = [](const auto& ends) {
      for (const protocol::End& end : ends)
        if (end.kind != protocol::End::Kind::kLocal) return end.peer;
      return Rank{-1};
    };
    move.from = first_peer(operation.sources);
    move.to = first_peer(operation.destinations);
    return move;
  }

  bool wants_ = false;
  recorder::Trace* moves_ = nullptr;  // null: not wanted
  recorder::Trace* waits_ = nullptr;
  Rank awaited_ = -1;
  std::uint64_t since_ = 0, begun_ = 0;
};

}  // namespace weft::exec
