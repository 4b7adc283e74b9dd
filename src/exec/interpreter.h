#pragma once

#include <map>
#include <utility>

#include "base/check.h"
#include "fabric/fabric.h"

namespace weft::exec {

enum class Progress { kBlocked, kDone };

// Observes operations before they are posted, and after those that are done at once, for traces. The default observes
// nothing and costs nothing.
struct NoTrace {
  void posted(Rank, int, const protocol::Operation&) {}
  void done(int, const protocol::Operation&) {}
};

// Signals between the strands of one rank. They cross no fabric: a strand whose operation has finished has seen its
// effects, and one rank's strands run on one thread.
class OwnSignals {
 public:
  void send(int from, int to) { ++count_[{from, to}], ++sent_; }
  bool take(int from, int to) {
    const auto found = count_.find({from, to});
    if (found == count_.end() || found->second == 0) return false;
    --found->second;
    return true;
  }
  std::int64_t sent() const { return sent_; }

 private:
  std::map<std::pair<int, int>, std::int64_t> count_;
  std::int64_t sent_ = 0;
};

// The interpreter: runs one strand of one rank, in order, as far as the fabric allows. It never scans: it looks at one
// operation, and returns when that one must wait; whoever drives it calls again when something has completed.
// Source: anything with `const Operation* next()` (a written-out program, or a lazy StrandStream).
template <fabric::Endpoint E, class Source, class Trace = NoTrace>
class Interpreter {
 public:
  // Owns: not `own`, which all strands of the rank share; null: they do not signal each other.
  Interpreter(int strand, Source source, OwnSignals* own = nullptr)
      : strand_(strand), source_(std::move(source)), own_(own) {}

  Progress advance(E& endpoint, Trace&& trace = {}) { return advance(endpoint, trace); }
  Progress advance(E& endpoint, Trace& trace) {
    if (done_) return Progress::kDone;
    for (;;) {
      if (pending_) {
        if (!endpoint.finished(strand_)) return Progress::kBlocked;
        pending_ = false;
        operation_ = nullptr;
      }
      if (operation_ == nullptr) {
        operation_ = source_.next();
        if (operation_ == nullptr) {
          done_ = true;
          return Progress::kDone;
        }
      }
      if (operation_->own()) {
        if (!pass_own()) return Progress::kBlocked;
        continue;
      }
      if (!endpoint.ready(strand_, *operation_)) return Progress::kBlocked;
      trace.posted(endpoint.rank(), strand_, *operation_);
      ++posted_;
      if (endpoint.post(strand_, *operation_) == fabric::Posted::kPending)
        pending_ = true;
      else
        trace.done(strand_, *std::exchange(operation_, nullptr));
    }
  }

  bool done() const { return done_; }
  std::int64_t posted() const { return posted_; }
  // What the strand is at; null before the start and at the end.
  const protocol::Operation* current() const { return operation_; }
  int strand() const { return strand_; }

 private:
  bool pass_own() {
    using Kind = protocol::Operation::Kind;
    WEFT_ASSERT(own_ != nullptr, "strands signal each other, but share nothing");
    if (operation_->kind == Kind::kSignal)
      own_->send(strand_, operation_->strand);
    else if (!own_->take(operation_->strand, strand_))
      return false;
    ++posted_;
    operation_ = nullptr;
    return true;
  }

  int strand_;
  Source source_;
  OwnSignals* own_;
  const protocol::Operation* operation_ = nullptr;
  std::int64_t posted_ = 0;
  bool pending_ = false;
  bool done_ = false;
};

}  // namespace weft::exec
