#pragma once

#include <vector>

#include "exec/interpreter.h"
#include "schedule/lower/lower.h"

namespace weft::exec {

// Runs one collective on all ranks that a virtual-time fabric carries out with the same interpreter as everywhere.
// Lazy: schedules are told step by step, so thousands of ranks need kilobytes each. `call_of(rank)`: the rank's
// memories (may be empty where the fabric moves no data). Returns the virtual time until the last strand has finished.
// `calls`: so many one after the other; a rank starts its next one when it has finished the last, whatever the others
// do. Errors: the fabric's; kInternal if strands are stuck (a schedule that verify() rejects).
template <class Fabric, class CallOf, class Trace = NoTrace>
Result<Duration> run_virtually(Fabric& fabric, const schedule::Task& task, const schedule::Plan& plan, CallOf&& call_of,
                               Trace&& trace = {}, int calls = 1) {
  using Strand = Interpreter<typename Fabric::Endpoint, schedule::StrandStream, std::remove_reference_t<Trace>>;
  const int strands = fabric.strands();
  std::vector<Strand> all;
  std::vector<OwnSignals> own(static_cast<std::size_t>(fabric.representatives()));
  all.reserve(static_cast<std::size_t>(fabric.representatives()) * static_cast<std::size_t>(strands));
  for (Rank r = 0; r < fabric.representatives(); ++r) {
    fabric.endpoint(r).begin(call_of(r));
    for (int s = 0; s < strands; ++s)
      all.emplace_back(s, schedule::StrandStream(task, plan, r, s), &own[static_cast<std::size_t>(r)]);
  }
  std::int64_t finished = 0;
  std::vector<int> strands_finished(own.size()), calls_left(own.size(), calls - 1);
  const auto at = [&](Rank r, int s) -> Strand& {
    return all[static_cast<std::size_t>(r) * static_cast<std::size_t>(strands) + static_cast<std::size_t>(s)];
  };
  const auto call_again = [&](Rank r) {
    strands_finished[static_cast<std::size_t>(r)] = 0;
    finished -= strands;
    for (int s = 0; s < strands; ++s) {
      at(r, s) = Strand(s, schedule::StrandStream(task, plan, r, s), &own[static_cast<std::size_t>(r)]);
      fabric.resume_after(r, s, fabric.launch_time());
    }
  };
  const auto advance = [&](Rank r, int s) {
    Strand& strand = at(r, s);
    if (strand.done() || strand.advance(fabric.endpoint(r), trace) != Progress::kDone) return;
    ++finished;
    if (++strands_finished[static_cast<std::size_t>(r)] < strands) return;
    if (calls_left[static_cast<std::size_t>(r)]-- > 0) call_again(r);
  };
  auto elapsed = fabric.run([&](Rank r, int s) {
    const OwnSignals& signals = own[static_cast<std::size_t>(r)];
    std::int64_t seen = signals.sent();
    advance(r, s);
    while (seen != signals.sent()) {  // no fabric wakes strands that wait for strands of their own rank
      seen = signals.sent();
      for (int other = 0; other < strands; ++other)
        if (const auto* operation = at(r, other).current(); operation != nullptr && operation->own()) advance(r, other);
    }
  });
  if (!elapsed && elapsed.error().code == Code::kNoResources) {  // too long: what is known by then
    std::int64_t posted = 0;
    for (const Strand& strand : all) posted += strand.posted();
    elapsed.error().message += fmt::format("; {} operations were under way or done, {} of {} strands had finished",
                                           posted, finished, all.size());
  }
  if (!elapsed) return elapsed;
  if (finished != static_cast<std::int64_t>(all.size()))
    return failure(Code::kInternal, Blame::kOperation, "{} of {} strands are stuck",
                   static_cast<std::int64_t>(all.size()) - finished, all.size());
  return elapsed;
}

}  // namespace weft::exec
