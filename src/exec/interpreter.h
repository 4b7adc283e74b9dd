#pragma once

#include <utility>

#include "fabric/fabric.h"

namespace weft::exec {

enum class Progress { kBlocked, kDone };

// Observes operations before they are posted, and after those that are done at once, for traces. The default observes
// nothing and costs nothing.
struct NoTrace {
  void posted(Rank, int, const protocol::Operation&) {}
  void done(int, const protocol::Operation&) {}
};

// The interpreter: runs one strand of one rank, in order, as far as the fabric allows. It never scans: it looks at one
// operation, and returns when that one must wait; whoever drives it calls again when something has completed.
// Source: anything with `const Operation* next()` (a written-out program, or a lazy StrandStream).
template <fabric::Endpoint E, class Source, class Trace = NoTrace>
class Interpreter {
 public:
  Interpreter(int strand, Source source) : strand_(strand), source_(std::move(source)) {}

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
  int strand_;
  Source source_;
  const protocol::Operation* operation_ = nullptr;
  std::int64_t posted_ = 0;
  bool pending_ = false;
  bool done_ = false;
};

}  // namespace weft::exec
