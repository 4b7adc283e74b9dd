#include "model/simulate/computing.h"

#include <algorithm>

#include "base/embedded.h"
#include "base/text.h"
#include "machine/catalog/catalog.h"
#include "model/simulate/words.h"

namespace weft::simulate {
namespace {

Result<int> multiprocessors_of(const cost::MachineView& machine) {
  const std::string& model = machine.topology().device(machine.device(0)).model;
  WEFT_TRY(const auto catalog, topology::Catalog::shipped());
  const topology::Part* part = catalog.find(model);
  const topology::Figure* figure = part != nullptr ? part->figure("multiprocessors") : nullptr;
  if (figure == nullptr)
    return bad_input(
        "--compute: the catalogue has no number of multiprocessors of '{}'; give it: "
        "--compute 5ms,multiprocessors=120",
        model);
  return static_cast<int>(figure->value);
}

}  // namespace

bool has_collective_engines(const cost::MachineView& machine) {
  const auto catalog = topology::Catalog::shipped();
  const topology::Part* part = catalog ? catalog->find(machine.topology().device(machine.device(0)).model) : nullptr;
  return part != nullptr && part->figure("collective_engines") != nullptr;
}

Result<sim::Computing> computing_of(const cost::MachineView& machine, Rank ranks, const std::string& text) {
  if (!machine.costs().gpu()) return bad_input("--compute {}: the ranks are no GPUs", text);
  sim::Computing computing{.ranks = ranks};
  std::string_view rest = text;
  const std::string_view time = rest.substr(0, rest.find(','));
  const auto alone = duration_of(time);
  if (!alone || *alone <= Duration()) return bad_input("--compute {}: expected a time such as 5ms", text);
  computing.alone = *alone;
  for (rest.remove_prefix(time.size()); !rest.empty();) {
    const auto [key, value] = next_pair(rest);
    if (key == "multiprocessors") {
      WEFT_TRY(const auto count, parse_integer(fmt::format("--compute {}: {}", text, key), value, 1, 1'000'000));
      computing.multiprocessors = static_cast<int>(count);
    } else if (key == "by" && (value == "sm" || value == "copy-engine")) {
      computing.held_by_channel = value == "sm" ? 1 : 0;
    } else {
      return bad_input("--compute {}: '{}={}' is not multiprocessors=N, by=sm or by=copy-engine", text, key, value);
    }
  }
  if (computing.multiprocessors == 0 && has_collective_engines(machine)) {
    computing.multiprocessors = 1;
    computing.held_by_channel = 0;
  } else if (computing.multiprocessors == 0) {
    WEFT_TRY(computing.multiprocessors, multiprocessors_of(machine));
  }
  return computing;
}

Status check_engine(const schedule::Plan& plan, const schedule::Task& task, const sim::Computing& computing) {
  if (computing.held_by_channel > 0) return {};
  if (schedule::reduces(task.collective))
    return bad_input("--compute: copy engines do not sum, as {} does", schedule::name(task.collective));
  if (plan.protocol != protocol::Protocol::kDirect)
    return bad_input("--compute: copy engines load and store (--proto Direct), they do not run {} by {}",
                     plan.algorithm->name, protocol::traits(plan.protocol).name);
  return {};
}

double overlap(Duration one, Duration other, Duration together) {
  return (one + other - together) / std::min(one, other);
}

}  // namespace weft::simulate
