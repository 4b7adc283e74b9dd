#pragma once

#include "base/device.h"
#include "exec/device/frame.h"
#include "exec/device/packs.h"
#include "fabric/posted.h"

namespace weft::exec::device {

// Where an operation's operands lie, found once per operation and shared by the threads of a block.
struct Operands {
  const std::byte* source[kMostEnds];  // of messages: their slot
  std::byte* destination[kMostEnds];
  std::uint64_t source_flag[kMostEnds];  // of messages in lines, else 0
  std::uint64_t destination_flag[kMostEnds];
  Scalar scale[kMostEnds];
};

// The fabric of ranks on GPUs, as one block of one rank's kernel: a block runs a strand. All threads of the block make
// the same calls together; what they find out alone they agree on by a vote.
//
// Machine: one thread's view of the hardware (host_machine.h, machine.cuh):
//   thread() threads() kWarp  barrier() all(bool)       of the block; all() is a barrier and a vote
//   operands()                                          the block's Operands, in its shared memory
//   load_acquire store_release (64 bits)                at system scope; they order what barriers have collected
//   load_stop compare_swap (32 bits)
//   load store (Pack, and small integers)               plain, for data
//   load_words store_words (Pack)                       two 64-bit words, each of them whole, unordered
//   load_line store_line (Pack)                         by a warp: see move_lines
//   clock_ns() relax()
//
// Order of memory, and why it holds. Simple and signals: every thread's stores of data, then barrier(), then one
// thread's store_release of the count; the peer's load_acquire of it by one thread, then all() for its block, then
// plain loads. In PTX (ISA 8, memory consistency model) the barrier makes the stores of the block happen before the
// release, and release and acquire are cumulative at .sys scope. Slots go back the same way: loads, barrier, release of
// `head`; acquire, then stores. LL: data and flag are one 64-bit word, so nothing needs ordering. LL128: see
// move_lines.
template <class T, class Machine>
class BlockEndpoint {
 public:
  WEFT_DEVICE BlockEndpoint(Machine& machine, const Frame& frame, int strand)
      : machine_(machine), frame_(frame), strand_(strand), call_(own_header().calls + 1), scale_(own_scale(frame)) {
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
      move(o);
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
    if (machine_.thread() == 0) look_around(blocker(o));
    if (machine_.all(trouble_ == Trouble::kNone)) return false;
    if (trouble_ != Trouble::kNone) stop_all();
    return true;
  }
  // The last operation may have waited in vain for its lines.
  WEFT_DEVICE void end_call() {
    if (!machine_.all(trouble_ == Trouble::kNone)) {
      if (trouble_ != Trouble::kNone) stop_all();
    } else if (frame_.publishes && machine_.thread() == 0) {
      own_header().calls = call_;
    }
  }

 private:
  static constexpr int kLooks = 64;    // between two votes
  static constexpr int kSpins = 1024;  // between two looks at clock and stop
  static_assert(sizeof(Pack) % sizeof(T) == 0);

  template <class Value>
  WEFT_DEVICE Value& at(std::int32_t rank, std::int64_t offset) const {
    return *reinterpret_cast<Value*>(frame_.regions[rank] + offset);
  }
  WEFT_DEVICE Header& header(std::int32_t rank) const { return at<Header>(rank, frame_.geometry.header(strand_)); }
  WEFT_DEVICE Header& own_header() const { return header(frame_.rank); }
  // What a peer's messages arrive in here, what this rank's arrive in there, and the cursors of this rank's end.
  WEFT_DEVICE Incoming& from(std::int32_t peer, int strand) const {
    return at<Incoming>(frame_.rank, frame_.geometry.incoming(peer, strand));
  }
  WEFT_DEVICE Incoming& to(std::int32_t peer, int strand) const {
    return at<Incoming>(peer, frame_.geometry.incoming(frame_.rank, strand));
  }
  WEFT_DEVICE Outgoing& link(std::int32_t peer, int strand) const {
    return at<Outgoing>(frame_.rank, frame_.geometry.outgoing(peer, strand));
  }
  WEFT_DEVICE Board& board(std::int32_t rank) const { return header(rank).boards[call_ % kBoards]; }
  WEFT_DEVICE const FlatEnd& end(const FlatOperation& o, int e) const {
    return reinterpret_cast<const FlatEnd*>(reinterpret_cast<const std::byte*>(&o) + o.ends)[e];
  }
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
    b.in = reinterpret_cast<std::uint64_t>(frame_.in);
    b.out = reinterpret_cast<std::uint64_t>(frame_.out);
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
    std::byte* const base = frame_.regions[destination];
    if (frame_.crossing == Crossing::kLL) return base + g.ll(source, e.strand) + index * g.line_slot_bytes;
    if (frame_.crossing == Crossing::kLL128) return base + g.ll128(source, e.strand) + index * g.line_slot_bytes;
    return base + g.slots(source, e.strand) + index * g.slot_bytes + e.offset;
  }
  WEFT_DEVICE std::byte* memory(const FlatEnd& e) const {
    const std::int32_t owner = e.remote() ? e.peer : frame_.rank;
    if (e.memory == FlatEnd::kScratch) return frame_.regions[owner] + frame_.geometry.scratch() + e.offset;
    if (!e.remote()) return (e.memory == FlatEnd::kIn ? const_cast<std::byte*>(frame_.in) : frame_.out) + e.offset;
    return reinterpret_cast<std::byte*>(e.memory == FlatEnd::kIn ? board(owner).in : board(owner).out) + e.offset;
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
      machine_.store_release(&at<Outgoing>(f.peer, frame_.geometry.outgoing(frame_.rank, f.strand)).head, ++l.received);
    } else {
      const std::uint64_t number = ++l.sent;
      if (in_lines()) return;
      Incoming& there = to(f.peer, f.strand);
      there.tags[protocol::slot_after(number - 1)] = tag(f);
      machine_.store_release(&there.tail, number);
    }
  }

  WEFT_DEVICE void move(const FlatOperation& o) {
    if (o.destinations == 0 || o.bytes == 0) return;
    if (frame_.crossing == Crossing::kLL)
      move_words(o);
    else if (frame_.crossing == Crossing::kLL128)
      move_lines(o);
    else if (o.sources == 1 && !frame_.scales)
      copy_memory(o);
    else
      move_memory(o);
  }

  // Folds the sources of one unit; `load` gets the operand's number.
  template <class Load>
  WEFT_DEVICE Pack fold(const FlatOperation& o, Load&& load) {
    const Operands& all = machine_.operands();
    const Pack first = load(0);
    if (o.sources == 1 && !frame_.scales) return first;
    Lanes<T> sum = Lanes<T>::widen(first);
    if (frame_.scales) sum.scale(all.scale[0]);
    for (int s = 1; s < o.sources; ++s) {
      Lanes<T> next = Lanes<T>::widen(load(s));
      if (frame_.scales) next.scale(all.scale[s]);
      sum.combine(frame_.op, next);
    }
    return sum.narrow();
  }

  WEFT_DEVICE bool aligned(const FlatOperation& o) const {
    const Operands& all = machine_.operands();
    std::uint64_t places = 0;
    for (int s = 0; s < o.sources; ++s) places |= reinterpret_cast<std::uint64_t>(all.source[s]);
    for (int d = 0; d < o.destinations; ++d) places |= reinterpret_cast<std::uint64_t>(all.destination[d]);
    return places % sizeof(Pack) == 0;
  }

  // Whole packs of aligned memory, several of a thread under way at once; then the rest, or all of it, one by one.
  WEFT_DEVICE void copy_memory(const FlatOperation& o) {
    constexpr int kAtOnce = 8;
    const Operands& all = machine_.operands();
    const std::int64_t step = machine_.threads(), whole = aligned(o) ? o.bytes / 16 : 0;
    std::int64_t u = machine_.thread();
    for (; u + (kAtOnce - 1) * step < whole; u += kAtOnce * step) {
      Pack packs[kAtOnce];
      for (int k = 0; k < kAtOnce; ++k)
        packs[k] = machine_.load(reinterpret_cast<const Pack*>(all.source[0]) + u + k * step);
      for (int d = 0; d < o.destinations; ++d)
        for (int k = 0; k < kAtOnce; ++k)
          machine_.store(reinterpret_cast<Pack*>(all.destination[d]) + u + k * step, packs[k]);
    }
    move_singly(o, u);
  }

  WEFT_DEVICE void move_memory(const FlatOperation& o) {
    constexpr int kAtOnce = sizeof(Computed<T>) > sizeof(T) ? 2 : 4;
    const Operands& all = machine_.operands();
    const std::int64_t step = machine_.threads(), whole = aligned(o) ? o.bytes / 16 : 0;
    std::int64_t u = machine_.thread();
    for (; u + (kAtOnce - 1) * step < whole; u += kAtOnce * step) {
      Lanes<T> sums[kAtOnce];
      for (int s = 0; s < o.sources; ++s)
        for (int k = 0; k < kAtOnce; ++k) {
          Lanes<T> next = Lanes<T>::widen(machine_.load(reinterpret_cast<const Pack*>(all.source[s]) + u + k * step));
          if (frame_.scales) next.scale(all.scale[s]);
          if (s == 0)
            sums[k] = next;
          else
            sums[k].combine(frame_.op, next);
        }
      for (int k = 0; k < kAtOnce; ++k) {
        const Pack sum = sums[k].narrow();
        for (int d = 0; d < o.destinations; ++d)
          machine_.store(reinterpret_cast<Pack*>(all.destination[d]) + u + k * step, sum);
      }
    }
    move_singly(o, u);
  }
  WEFT_DEVICE void move_singly(const FlatOperation& o, std::int64_t u) {
    const Operands& all = machine_.operands();
    for (; u < MemoryUnits::count(o.bytes); u += machine_.threads()) {
      const Unit unit = MemoryUnits::at(u, o.bytes);
      const Pack sum = fold(o, [&](int s) { return load_some(machine_, all.source[s] + unit.offset, unit.size); });
      for (int d = 0; d < o.destinations; ++d) store_some(machine_, all.destination[d] + unit.offset, sum, unit.size);
    }
  }

  // LL: every word of eight bytes carries its own flag, so whoever sees the flag has the data.
  WEFT_DEVICE void move_words(const FlatOperation& o) {
    const Operands& all = machine_.operands();
    clear_repeating(o);
    for (std::int64_t u = machine_.thread(); u < WordUnits::count(o.bytes); u += machine_.threads()) {
      const Unit unit = WordUnits::at(u, o.bytes);
      const Pack sum = fold(o, [&](int s) {
        if (all.source_flag[s] == 0) return load_some(machine_, all.source[s] + unit.offset, unit.size);
        return receive_words(all.source[s] + unit.wire, unit.size, all.source_flag[s], end(o, s).peer);
      });
      for (int d = 0; d < o.destinations; ++d) {
        if (all.destination_flag[d] == 0)
          store_some(machine_, all.destination[d] + unit.offset, sum, unit.size);
        else
          send_words(all.destination[d] + unit.wire, sum, unit.size, all.destination_flag[d]);
      }
    }
  }
  WEFT_DEVICE Pack receive_words(const std::byte* wire, std::int64_t size, std::uint64_t flag, std::int32_t peer) {
    std::uint64_t half[2] = {0, 0};
    for (int h = 0; h * 8 < size; ++h) {
      const auto* const words = reinterpret_cast<const Pack*>(wire) + h;
      const bool both = size > h * 8 + 4;
      Pack seen = machine_.load_words(words);
      while (seen.low >> 32 != flag || (both && seen.high >> 32 != flag)) {
        if (tired(peer)) return {};
        seen = machine_.load_words(words);
      }
      half[h] = (seen.low & 0xffffffff) | (both ? seen.high << 32 : 0);
    }
    return {half[0], half[1]};
  }
  WEFT_DEVICE void send_words(std::byte* wire, Pack value, std::int64_t size, std::uint64_t flag) {
    for (int h = 0; h * 8 < size; ++h) {
      const std::uint64_t half = h == 0 ? value.low : value.high;
      machine_.store_words(reinterpret_cast<Pack*>(wire) + h,
                           {(half & 0xffffffff) | flag << 32, half >> 32 | flag << 32});
    }
  }
  WEFT_DEVICE void clear_repeating(const FlatOperation& o) {
    for (int e = o.sources; e < o.sources + o.destinations; ++e) {
      const FlatEnd& f = end(o, e);
      if (!f.message() || !protocol::clears_slot(link(f.peer, f.strand).sent + 1)) continue;
      auto* const slot = reinterpret_cast<Pack*>(machine_.operands().destination[e - o.sources]);
      for (std::int64_t i = machine_.thread(); i < frame_.geometry.line_slot_bytes / 16; i += machine_.threads())
        machine_.store_words(slot + i, {0, 0});
      machine_.barrier();
    }
  }

  // LL128: eight lanes of a warp store a line of 128 bytes together, the last of them the flag. That a reader which
  // sees the flag has the line's data rests on the 128 bytes crossing as one: so they do within a GPU and over NVLink,
  // when one instruction of a warp stores them all; PTX does not promise it. (NCCL relies on the same and uses LL128
  // only there.) All lanes of a warp stay together: lanes without data only fill it up.
  WEFT_DEVICE void move_lines(const FlatOperation& o) {
    const Operands& all = machine_.operands();
    const std::int64_t warp = Machine::kWarp;
    const std::int64_t units = (LineUnits::count(o.bytes) + warp - 1) / warp * warp;
    for (std::int64_t u = machine_.thread(); u < units; u += machine_.threads()) {
      const Unit unit = LineUnits::at(u, o.bytes);
      const bool active = u < LineUnits::count(o.bytes), has_flag = LineUnits::has_flag(u);
      const Pack sum = fold(o, [&](int s) {
        if (all.source_flag[s] == 0)
          return unit.size > 0 ? load_some(machine_, all.source[s] + unit.offset, unit.size) : Pack{};
        return receive_line(reinterpret_cast<const Pack*>(all.source[s] + unit.wire), active, has_flag,
                            all.source_flag[s], end(o, s).peer);
      });
      for (int d = 0; d < o.destinations; ++d) {
        if (all.destination_flag[d] == 0)
          store_some(machine_, all.destination[d] + unit.offset, sum, unit.size);
        else
          machine_.store_line(reinterpret_cast<Pack*>(all.destination[d] + unit.wire), active, has_flag,
                              {sum.low, has_flag ? all.destination_flag[d] : sum.high});
      }
    }
  }
  // Once a warp has given up it no longer looks, but its lanes still go through everything together.
  WEFT_DEVICE Pack receive_line(const Pack* line, bool active, bool has_flag, std::uint64_t flag, std::int32_t peer) {
    Pack value{};
    bool stopped = trouble_ != Trouble::kNone;
    while (!machine_.load_line(line, active, has_flag, flag, value)) {
      if (machine_.warp_any(stopped)) break;
      stopped = tired(peer);
    }
    if (has_flag) value.high = 0;
    return value;
  }

  WEFT_DEVICE void fail(Trouble trouble, std::int32_t peer) {
    if (trouble_ == Trouble::kNone) trouble_ = trouble, trouble_peer_ = peer;
  }
  // After a look in vain: true if this thread gives up.
  WEFT_DEVICE bool tired(std::int32_t peer) {
    if (++spins_ % kSpins == 0) look_around(peer);
    machine_.relax();
    return trouble_ != Trouble::kNone;
  }
  WEFT_DEVICE void look_around(std::int32_t peer) {
    if (machine_.load_stop(&own_header().stop) != 0) return fail(Trouble::kAborted, peer);
    const std::int64_t now = machine_.clock_ns();
    if (since_ == 0) since_ = now;
    if (now - since_ > frame_.timeout_ns) fail(Trouble::kTimeout, peer);
  }
  WEFT_DEVICE void stop_all() {
    Header& own = own_header();
    if (machine_.compare_swap(reinterpret_cast<std::uint32_t*>(&own.trouble), 0,
                              static_cast<std::uint32_t>(trouble_)) != 0)
      return;
    own.peer = trouble_peer_;
    own.step = steps_;
    for (std::int32_t r = 0; r < frame_.geometry.ranks; ++r)
      for (int s = 0; s < frame_.geometry.strands; ++s)
        machine_.compare_swap(&at<Header>(r, frame_.geometry.header(s)).stop, 0, 1);
  }

  Machine& machine_;
  const Frame& frame_;
  const int strand_;
  const std::uint64_t call_;
  const Scalar scale_;
  Trouble trouble_ = Trouble::kNone;  // of this thread
  std::int32_t trouble_peer_ = -1;
  std::int64_t since_ = 0;  // when this thread began to wait; 0: it does not
  const FlatOperation* blocked_at_ = nullptr;
  std::int64_t steps_ = 0;
  std::uint32_t spins_ = 0;
};

}  // namespace weft::exec::device
