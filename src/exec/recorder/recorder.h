#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "exec/recorder/format.h"
#include "exec/recorder/ranges.h"
#include "exec/recorder/record_pool.h"
#include "exec/recorder/snapshot.h"
#include "exec/recorder/trace.h"

namespace weft::recorder {

// Whose record it is. Texts that are too long are cut.
struct Identity {
  std::string job;    // the same for all communicators that stem from one
  std::string group;  // which of them
  std::string transport;
  Rank rank = 0, ranks = 1;
};

// Writes the record of one rank in one communicator.
// Thread: the rank's. Owns: its place on the pool, until destroyed.
class Recorder {
 public:
  // A ring that grows to at most the pool's entries. In shared memory if there is room, else private: recording never
  // fails, but for lack of any memory (null).
  static std::unique_ptr<Recorder> open(const Identity& identity, RecordPool& pool);
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  // The number of a label for begin(); all that find no place share one.
  std::uint32_t label(const Label& label);

  // `brief`: an operation that hardly takes longer than to look at the clock. It starts when it first waits, or as it
  // ends.
  void begin(std::uint64_t number, std::uint64_t count, std::uint32_t label, bool brief = false) {
    constexpr auto kPlain = std::memory_order_relaxed;
    if (number >= full_at_) [[unlikely]]
      grow();
    Entry& e = entry(number);
    current_ = &e;
    e.number.store(0, kPlain);
    e.finished.store(0, std::memory_order_release);
    e.count.store(count, kPlain);
    e.label.store(label, kPlain);
    e.state.store(State::kRunning, kPlain);
    e.started.store(brief && !trace_ ? 0 : ticks(), kPlain);
    e.number.store(number, std::memory_order_release);
    header().waiting.peer.store(0, kPlain);
    header().begun.store(number, std::memory_order_release);
    if (marks_) [[unlikely]]
      range_ = begin_range(label_of(header(), label), count);
  }
  // Of the operation that was begun last: it cannot go on at once; it has ended.
  void waits() {
    constexpr auto kPlain = std::memory_order_relaxed;
    if (current_->started.load(kPlain) == 0) current_->started.store(ticks(), kPlain);
  }
  void end(bool well) {
    const std::uint64_t now = ticks();
    if (current_->started.load(std::memory_order_relaxed) == 0) current_->started.store(now, std::memory_order_relaxed);
    current_->state.store(well ? State::kDone : State::kFailed, std::memory_order_relaxed);
    current_->finished.store(now, std::memory_order_release);
    count(well, now);
    if (marks_) [[unlikely]]
      end_range(range_);
    if (trace_) [[unlikely]]
      trace_call();
  }

  // A send or receive with a tag has begun. It has no entry: there may be many, and they have no number that all ranks
  // share.
  void begin_tagged(bool sends) {
    auto& count = sends ? header().tagged.sends : header().tagged.receives;
    count.store(count.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  // The rank waits for a message with a tag (peer, tag: -1 any), until waits_no_more().
  void waits_for_tagged(bool sends, Rank peer, std::int32_t tag, std::uint64_t bytes);
  void waits_no_more() { header().tagged.waits.store(Tagged::kNone, std::memory_order_release); }

  // From now on calls also go into a trace, as others of this rank may. Errors: of Trace::open.
  Status trace(const TraceOptions& options, const Identity& identity);
  Trace* trace() const { return trace_.get(); }  // null: none

  // The place where a wait for peers is published.
  Waiting& waiting() { return header().waiting; }
  Snapshot snapshot() const;

 private:
  Recorder(Room room, Layout layout) : room_(std::move(room)), memory_(room_.memory()), layout_(layout) {}
  void trace_call();
  // Adds the operation that has ended to the tally of its label.
  void count(bool well, std::uint64_t now) {
    const std::uint32_t label = current_->label.load(std::memory_order_relaxed);
    if (label >= kLabels) return;
    Tally& t = kinds()[label].tally;
    const auto add = [](std::atomic<std::uint64_t>& to, std::uint64_t more) {
      to.store(to.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
    };
    add(t.calls, 1);
    if (!well) [[unlikely]]
      add(t.failed, 1);
    add(t.elements, current_->count.load(std::memory_order_relaxed));
    add(t.ticks, now - current_->started.load(std::memory_order_relaxed));
  }
  // Doubles the ring, or finds that it cannot.
  void grow();
  // Resizes the ring. Requires: no operation has met the end of a smaller one.
  void set_entries(int entries);
  Header& header() const { return *static_cast<Header*>(memory_); }
  Kind* kinds() const { return reinterpret_cast<Kind*>(static_cast<std::byte*>(memory_) + layout_.labels_at()); }
  Entry& entry(std::uint64_t number) const {
    auto* entries = reinterpret_cast<Entry*>(static_cast<std::byte*>(memory_) + sizeof(Header));
    return entries[number & mask_];
  }

  Room room_;
  void* const memory_;  // the room's
  const Layout layout_;
  std::uint64_t mask_ = 0;
  std::uint64_t full_at_ = 0;  // the operation before which the ring is to grow
  Entry* current_ = nullptr;
  std::unique_ptr<Trace> trace_;
  const bool marks_ = ranges_wanted();
  std::uint64_t range_ = 0;  // of the operation that runs, if a tool wants them
};

}  // namespace weft::recorder
