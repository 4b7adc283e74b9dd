#include "apps/cli/train_effect.h"

#include "base/result.h"

namespace weft::cli {

Status check_effect(const training::Words& words, const std::function<bool(const char* option)>& given) {
  const training::Plan& plan = words.plan;
  if (given("schedule") && words.schedule != "1f1b" && plan.pp == 1)
    return bad_input("--schedule {} has no effect with --pp 1: it orders the work of pipeline stages", words.schedule);
  if (given("cp-by") && plan.cp == 1)
    return bad_input("--cp-by {} has no effect with --cp 1: no context is shared", words.cp_by);
  if (given("dispatcher") && plan.ep == 1)
    return bad_input("--dispatcher {} has no effect with --ep 1: tokens stay on their rank", words.dispatcher);
  if (given("bucket") && plan.zero == 3)
    return bad_input("--bucket {} has no effect with --zero 3: layers are its units", plan.bucket);
  return {};
}

}  // namespace weft::cli
