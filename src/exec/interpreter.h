#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include "base/device.h"
#include "exec/fabric/posted.h"

namespace weft::exec {

enum class Progress { kBlocked, kDone };

// Observes operations before they are posted, and after those that are done at once, for traces. The default observes
// nothing and costs nothing.
struct NoTrace {
  template <class Operation>
  WEFT_DEVICE constexpr void posted(std::int32_t, int, const Operation&) {}
  template <class Operation>
  WEFT_DEVICE constexpr void done(int, const Operation&) {}
};

class OwnSignals;

// The interpreter: runs one strand of one rank, in order, as far as the fabric allows. It never scans: it looks at one
// operation, and returns when that one must wait; its driver calls again when something has completed.
// The same text runs in a GPU's kernel, where all threads of a block call it together (exec/device).
// Endpoint: fabric::Endpoint. Source: anything with `const Operation* next()` (a written-out program, or a lazy
// StrandStream), whose operations say own() and signals(). Own: how strands of one rank signal each other.
template <class Endpoint, class Source, class Trace = NoTrace, class Own = OwnSignals>
class Interpreter {
 public:
  using Operation = std::remove_cvref_t<decltype(*std::declval<Source&>().next())>;

  // Owns: not `own`, which all strands of the rank share; null: they do not signal each other.
  WEFT_DEVICE constexpr Interpreter(int strand, Source source, Own* own = nullptr)
      : strand_(strand), source_(std::move(source)), own_(own) {}

  // Watcher: Trace, or another that observes as it does.
  WEFT_DEVICE constexpr Progress advance(Endpoint& endpoint, Trace&& trace = {}) { return advance(endpoint, trace); }
  template <class Watcher>
  WEFT_DEVICE constexpr Progress advance(Endpoint& endpoint, Watcher& trace) {
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
      if (endpoint.post(strand_, *operation_) == fabric::Posted::kPending) {
        pending_ = true;
      } else {
        trace.done(strand_, *operation_);
        operation_ = nullptr;
      }
    }
  }

  WEFT_DEVICE constexpr bool done() const { return done_; }
  WEFT_DEVICE constexpr std::int64_t posted() const { return posted_; }
  // What the strand is at; null before the start and at the end.
  WEFT_DEVICE constexpr const Operation* current() const { return operation_; }
  WEFT_DEVICE constexpr int strand() const { return strand_; }

 private:
  WEFT_DEVICE constexpr bool pass_own() {
    Own::require(own_);
    if (operation_->signals())
      own_->send(strand_, operation_->strand);
    else if (!own_->take(operation_->strand, strand_))
      return false;
    ++posted_;
    operation_ = nullptr;
    return true;
  }

  int strand_;
  Source source_;
  Own* own_;
  const Operation* operation_ = nullptr;
  std::int64_t posted_ = 0;
  bool pending_ = false;
  bool done_ = false;
};

}  // namespace weft::exec
