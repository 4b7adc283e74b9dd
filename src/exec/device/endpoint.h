#pragma once

#include "exec/device/mover.h"
#include "exec/fabric/posted.h"

namespace weft::exec::device {

// The fabric of ranks on GPUs, as one block of one rank's kernel: a block runs a strand. All threads of the block make
// the same calls together; what they find out alone they agree on by a vote.
//
// Order of memory, and why it holds. Simple and signals: every thread's stores of data, then barrier(), then one
// thread's store_release of the count; the peer's load_acquire of it by one thread, then all() for its block, then
// plain loads. In PTX (ISA 8, memory consistency model) the barrier makes the stores of the block happen before the
// release, and release and acquire are cumulative at .sys scope. Slots go back the same way: loads, barrier, release of
// `head`; acquire, then stores. LL: data and flag are one 64-bit word, so nothing needs ordering. LL128: see
// move_lines.
template <class T, class Machine>
class BlockEndpoint : private BlockMover<T, Machine> {
  using Waits = BlockWaits<Machine>;
  using Mover = BlockMover<T, Machine>;
  using Mover::end;
  using Mover::frame_;
  using Mover::link;
  using Mover::machine_;
  using Waits::fail;
  using Waits::own_header;
  using Waits::regions_;
  using Waits::since_;
  using Waits::steps_;
  using Waits::strand_;
  using Waits::trouble_;

 public:
  WEFT_DEVICE BlockEndpoint(Machine& machine, const Frame& frame, int strand)
      : Mover(machine, frame, strand), call_(own_header().calls + 1), scale_(own_scale(frame)) {
    if (frame.publishes && machine.thread() == 0) publish_board();
  }

  WEFT_DEVICE std::int32_t rank() const { return frame_.rank; }
  WEFT_DEVICE bool finished(int) const { return true; }  // every operation completes in post

  WEFT_DEVICE bool ready(int, const FlatOperation& o) {
    bool found = true;
    const int ends = o.moves() ? o.sources + o.destinations : 1;
    for (int e = machine_.thread(); e < ends && found; e += machine_.threads())
      for (int looks = 0; !(found = looks_ready(o, e)) && looks < kLooks && trouble_ == Trouble::kNone; ++looks)
        machine_.relax();
    return machine_.all(found && trouble_ == Trouble::kNone);
  }

  WEFT_DEVICE fabric::Posted post(int, const FlatOperation& o) {
    since_ = 0;
    ++steps_;
    if (!o.moves()) {
      if (machine_.thread() == 0) signal_or_take(o);
    } else {
      for (int e = machine_.thread(); e < o.sources + o.destinations; e += machine_.threads()) resolve(o, e);
      machine_.barrier();
      this->move(o);
      if (machine_.all(trouble_ == Trouble::kNone))  // … and every thread's loads and stores are behind us
        for (int e = machine_.thread(); e < o.sources + o.destinations; e += machine_.threads()) settle(o, e);
    }
    machine_.barrier();
    return fabric::Posted::kDone;
  }

  // Call when the strand is blocked: has it waited in vain, for too long or for a peer that gave up? All threads alike;
  // the first to know says so in the header and stops everybody.
  WEFT_DEVICE bool gives_up(const FlatOperation& o) {
    if (blocked_at_ != &o) blocked_at_ = &o, since_ = 0;
    if (machine_.thread() == 0) this->look_around(blocker(o));
    if (machine_.all(trouble_ == Trouble::kNone)) return false;
    if (trouble_ != Trouble::kNone) this->stop_all();
    return true;
  }
  // The last operation may have waited in vain for its lines.
  WEFT_DEVICE void end_call() {
    if (!machine_.all(trouble_ == Trouble::kNone)) {
      if (trouble_ != Trouble::kNone) this->stop_all();
    } else if (frame_.publishes && machine_.thread() == 0) {
      own_header().calls = call_;
    }
  }

 private:
  static constexpr int kLooks = 64;  // between two votes

  // The queues of a peer's messages here and of this rank's there, and the cursors of this rank's end.
  WEFT_DEVICE Incoming& from(std::int32_t peer, int strand) const {
    return this->template at<Incoming>(frame_.rank, frame_.geometry.incoming(peer, strand));
  }
  WEFT_DEVICE Incoming& to(std::int32_t peer, int strand) const {
    return this->template at<Incoming>(peer, frame_.geometry.incoming(frame_.rank, strand));
  }
  WEFT_DEVICE Board& board(std::int32_t rank) const { return this->header(rank).boards[call_ % kBoards]; }
  WEFT_DEVICE std::uint16_t tag(const FlatEnd& e) const {
    return e.tag != 0 ? e.tag : protocol::tag_of(frame_.signature);
  }
  WEFT_DEVICE static Scalar own_scale(const Frame& frame) {
    return frame.scale_at == nullptr ? frame.scale : scalar_of(*static_cast<const T*>(frame.scale_at));
  }
  WEFT_DEVICE bool in_lines() const { return frame_.crossing == Crossing::kLL || frame_.crossing == Crossing::kLL128; }

  WEFT_DEVICE void publish_board() {
    Board& b = board(frame_.rank);
    machine_.store_release(&b.call, 0);
    b.signature = frame_.signature;
    b.in = reinterpret_cast<std::uint64_t>(frame_.in) - begin_of(frame_.in_window, frame_.rank);
    b.out = reinterpret_cast<std::uint64_t>(frame_.out) - begin_of(frame_.out_window, frame_.rank);
    b.in_window = frame_.in_window, b.out_window = frame_.out_window;
    b.scale_real = scale_.real;
    b.scale_integer = scale_.integer;
    machine_.store_release(&b.call, call_);
  }

  WEFT_DEVICE bool looks_ready(const FlatOperation& o, int e) {
    if (o.signals()) return true;
    if (!o.moves()) return machine_.load_acquire(&from(o.peer, strand_).signal) > link(o.peer, strand_).signals_taken;
    const FlatEnd& f = end(o, e);
    if (f.remote()) return agrees(f.peer);
    if (!f.message()) return true;
    return e < o.sources ? arrived(f) : f.offset != 0 || has_room(f);
  }
  // Whom the operation waits for; -1: another strand of this rank, or nobody any more.
  WEFT_DEVICE std::int32_t blocker(const FlatOperation& o) {
    if (o.own()) return -1;
    if (!o.moves()) return o.peer;
    for (int e = 0; e < o.sources + o.destinations; ++e)
      if (!looks_ready(o, e)) return end(o, e).peer;
    return -1;
  }
  WEFT_DEVICE bool has_room(const FlatEnd& e) {
    Outgoing& l = link(e.peer, e.strand);
    if (protocol::has_room(l.sent, l.taken_by_peer)) return true;
    l.taken_by_peer = machine_.load_acquire(&l.head);
    return protocol::has_room(l.sent, l.taken_by_peer);
  }
  // Lines are waited for while they are read.
  WEFT_DEVICE bool arrived(const FlatEnd& e) {
    if (in_lines()) return true;
    const std::uint64_t taken = link(e.peer, e.strand).received;
    if (machine_.load_acquire(&from(e.peer, e.strand).tail) <= taken) return false;
    if (from(e.peer, e.strand).tags[protocol::slot_after(taken)] != tag(e)) fail(Trouble::kMismatch, e.peer);
    return true;
  }
  WEFT_DEVICE bool agrees(std::int32_t peer) {
    const Board& b = board(peer);
    if (machine_.load_acquire(&b.call) != call_) return false;
    if (b.signature != frame_.signature) fail(Trouble::kMismatch, peer);
    return true;
  }

  WEFT_DEVICE void signal_or_take(const FlatOperation& o) {
    Outgoing& l = link(o.peer, strand_);
    if (o.signals())
      machine_.store_release(&to(o.peer, strand_).signal, ++l.signals_sent);
    else
      ++l.signals_taken;
  }

  WEFT_DEVICE void resolve(const FlatOperation& o, int e) {
    const FlatEnd& f = end(o, e);
    Operands& all = machine_.operands();
    if (e < o.sources) {
      all.source[e] = f.message() ? slot(f.peer, frame_.rank, f, link(f.peer, f.strand).received) : memory(f);
      all.source_flag[e] = f.message() ? flag(f, link(f.peer, f.strand).received) : 0;
      if (frame_.scales) all.scale[e] = scale_of(f);
    } else {
      all.destination[e - o.sources] =
          f.message() ? slot(frame_.rank, f.peer, f, link(f.peer, f.strand).sent) : memory(f);
      all.destination_flag[e - o.sources] = f.message() ? flag(f, link(f.peer, f.strand).sent) : 0;
    }
  }
  // Zero where messages have no lines.
  WEFT_DEVICE std::uint64_t flag(const FlatEnd& e, std::uint64_t before) const {
    if (frame_.crossing == Crossing::kLL) return protocol::short_flag_of(before + 1);
    return frame_.crossing == Crossing::kLL128 ? protocol::flag_of(before + 1, tag(e)) : 0;
  }
  WEFT_DEVICE std::byte* slot(std::int32_t source, std::int32_t destination, const FlatEnd& e,
                              std::uint64_t before) const {
    const Geometry& g = frame_.geometry;
    const auto index = static_cast<std::int64_t>(protocol::slot_after(before));
    std::byte* const base = regions_[destination];
    if (frame_.crossing == Crossing::kLL) return base + g.ll(source, e.strand) + index * g.line_slot_bytes;
    if (frame_.crossing == Crossing::kLL128) return base + g.ll128(source, e.strand) + index * g.line_slot_bytes;
    return base + g.slots(source, e.strand) + index * g.slot_bytes + e.offset;
  }
  WEFT_DEVICE std::byte* memory(const FlatEnd& e) const {
    const std::int32_t owner = e.remote() ? e.peer : frame_.rank;
    if (e.memory == FlatEnd::kScratch) return regions_[owner] + frame_.geometry.scratch() + e.offset;
    if (!e.remote()) return (e.memory == FlatEnd::kIn ? const_cast<std::byte*>(frame_.in) : frame_.out) + e.offset;
    const Board& b = board(owner);
    const bool in = e.memory == FlatEnd::kIn;
    const std::uint64_t place = begin_of(in ? b.in_window : b.out_window, owner) + (in ? b.in : b.out);
    return reinterpret_cast<std::byte*>(place) + e.offset;
  }
  // The address at which this rank sees the owner's window; 0: none.
  WEFT_DEVICE std::uint64_t begin_of(std::int32_t window, std::int32_t owner) const {
    if (window < 0) return 0;
    return reinterpret_cast<std::uint64_t>(frame_.windows[std::int64_t{window} * frame_.geometry.ranks + owner]);
  }
  // Inputs are scaled where they are read, wherever they are; what was made of them is not again.
  WEFT_DEVICE Scalar scale_of(const FlatEnd& e) const {
    if (e.message() || e.memory != FlatEnd::kIn) return {};
    if (!e.remote()) return scale_;
    return {board(e.peer).scale_real, board(e.peer).scale_integer};
  }

  // After the data: publishes what was sent, releases what was taken.
  WEFT_DEVICE void settle(const FlatOperation& o, int e) {
    const FlatEnd& f = end(o, e);
    if (!f.message() || f.last == 0) return;
    Outgoing& l = link(f.peer, f.strand);
    if (e < o.sources) {
      machine_.store_release(&this->template at<Outgoing>(f.peer, frame_.geometry.outgoing(frame_.rank, f.strand)).head,
                             ++l.received);
    } else {
      const std::uint64_t number = ++l.sent;
      if (in_lines()) return;
      Incoming& there = to(f.peer, f.strand);
      there.tags[protocol::slot_after(number - 1)] = tag(f);
      machine_.store_release(&there.tail, number);
    }
  }

  const std::uint64_t call_;
  const Scalar scale_;
  const FlatOperation* blocked_at_ = nullptr;
};

}  // namespace weft::exec::device
