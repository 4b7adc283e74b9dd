#include "apps/cli/bench_machine.h"

#include "model/simulate/faults.h"

namespace weft::cli {
namespace {

Status check_unheeded(const BenchSpec& spec) {
  const std::string what = "bench " + spec.sweep.collective_name;
  if (!spec.conditions.loads.empty())
    return bad_input("{} --load {}: only collectives run beside other traffic; half a NIC is --fault nic:0/0=50%", what,
                     spec.conditions.loads.front());
  if (!spec.conditions.beside.empty())
    return bad_input("{} --beside {}: only collectives run beside others", what, spec.conditions.beside.front());
  if (!spec.conditions.compute.empty())
    return bad_input("{} --compute {}: only collectives run beside a kernel", what, spec.conditions.compute);
  if (!spec.conditions.timeline.empty())
    return bad_input("{} --timeline {}: only collectives draw one", what, spec.conditions.timeline);
  if (spec.conditions.level != "flow")
    return bad_input("{} --level {}: is simulated by flows; packets are for collectives", what, spec.conditions.level);
  return {};
}

}  // namespace

Result<Machine> machine_to_replay_on(const BenchSpec& spec) {
  WEFT_CHECK(check_unheeded(spec));
  WEFT_TRY(Machine machine, load_machine(spec.on, spec.calibration));
  for (const std::string& fault : spec.conditions.faults) {
    WEFT_TRY(const simulate::Faulted one, simulate::apply_faults(machine.view->topology(), {&fault, 1}));
    if (one.disturbances.any())
      return bad_input("bench {} --fault {}: only collectives heed slow ranks, jitter, and what changes over time",
                       spec.sweep.collective_name, fault);
  }
  if (spec.conditions.faults.empty()) return machine;
  WEFT_TRY(simulate::Faulted all, simulate::apply_faults(machine.view->topology(), spec.conditions.faults));
  machine.view = std::make_shared<cost::MachineView>(std::move(all.machine), machine.view->costs());
  return machine;
}

}  // namespace weft::cli
