#include <map>
#include <tuple>

#include "model/predict/predict.h"
#include "model/replay/run.h"
#include "model/sim/flow/flow_fabric.h"
#include "plan/schedule/collective.h"
#include "plan/tune/tune.h"

namespace weft::replay {
namespace {

constexpr double kSteps = 1e5;  // of a search, and of a plan; beyond that the estimate, as a program may have many

// What `weft bench` would predict for the first ranks of the machine in order.
Result<Duration> duration_of(const cost::MachineView& machine, const pgas::Event& meet) {
  WEFT_TRY(Collective collective, schedule::parse_collective(meet.collective));
  collective = schedule::even_form(collective);
  const Rank ranks = meet.group.size;
  if (ranks == 1) return Duration();
  schedule::Task task{.collective = collective,
                      .ranks = ranks,
                      .ranks_per_node = machine.ranks_per_node(ranks),
                      .elements = meet.bytes,
                      .element_bytes = 1};
  const Bytes blocks = schedule::message_parts(collective, ranks);
  if (collective != Collective::kBarrier) task.elements = (meet.bytes + blocks - 1) / blocks * blocks;
  constexpr int kStrands = 64;
  predict::Query query{.question = {.task = task, .can = sim::flow_capabilities(machine.topology(), kStrands)},
                       .search_steps = kSteps};
  query.options.most_steps = kSteps;
  const auto answer = predict::predict(machine, query);
  if (answer) return answer->outcome.time;
  if (answer.error().code != Code::kNoResources) return tl::make_unexpected(answer.error());
  WEFT_TRY(const tune::Candidate chosen, tune::choose(machine, query.question));
  return chosen.estimate.total;
}

}  // namespace

Result<Outcome> run_on(const cost::MachineView& machine, const pgas::Program& program, double compute,
                       std::optional<Duration> posting) {
  WEFT_TRY(const cost::OneSidedView view, cost::one_sided_view(machine));
  // The same collectives come again and again.
  std::map<std::tuple<std::string, Bytes, Rank>, Duration> known;
  return run(view, program,
             {.compute = compute, .posting = posting, .meeting = [&](const pgas::Event& meet) -> Result<Duration> {
                const auto key = std::tuple(meet.collective, meet.bytes, meet.group.size);
                if (const auto found = known.find(key); found != known.end()) return found->second;
                WEFT_TRY(const Duration duration, duration_of(machine, meet));
                return known[key] = duration;
              }});
}

}  // namespace weft::replay
