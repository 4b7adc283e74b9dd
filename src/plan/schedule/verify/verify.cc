#include "plan/schedule/verify/verify.h"

#include "plan/schedule/verify/ending.h"
#include "plan/schedule/verify/execution.h"

namespace weft::schedule {

std::string_view name(Finding::Kind kind) {
  constexpr std::string_view kNames[] = {"bad operand", "undefined",    "doubled",     "missing",
                                         "foreign",     "race",         "wrong chunk", "never sent",
                                         "never taken", "slot overrun", "deadlock",    "out of order"};
  return kNames[static_cast<int>(kind)];
}

Proof verify(const Schedule& schedule, VerifyOptions options) {
  symbolic::Report report(schedule);
  symbolic::Execution execution(schedule, options, report);
  Proof proof = execution.run();
  symbolic::check_ending(schedule, execution, options.slots, report);
  proof.counterexample = report.take();
  return proof;
}

}  // namespace weft::schedule
