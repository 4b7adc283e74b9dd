#include "model/replay/hand_over.h"

#include "base/counted.h"
#include "model/replay/run.h"

namespace weft::replay {

Result<HandedOver> hand_over(const cost::MachineView& machine, const HandOver& what) {
  const Rank all = machine.endpoints(), per_node = machine.ranks_per_node(all);
  const Rank nodes = all / per_node, away = what.within_node ? what.ranks : per_node;
  if (what.ranks < 1 || what.ranks > (what.within_node ? per_node / 2 : per_node))
    return bad_input("{} hand over to as many {}: a node of this machine has {}", counted(what.ranks, "GPU"),
                     what.within_node ? "of their own node" : "of the next node", per_node);
  if (!what.within_node && nodes < 2)
    return bad_input("a hand-over to the next node needs two nodes: ...:nodes=2,net=NETWORK");
  pgas::Program program(static_cast<std::size_t>(what.within_node ? per_node : 2 * per_node));
  for (Rank r = 0; r < what.ranks; ++r) {
    auto& events = program[static_cast<std::size_t>(r)];
    events.push_back({.kind = pgas::Event::Kind::kPut, .peer = r + away, .bytes = what.rank_bytes});
    events.push_back({.kind = pgas::Event::Kind::kQuiet});
  }
  Duration start;
  Outcome outcome;
  if (what.stack == "weft") {
    WEFT_TRY(const cost::OneSidedView view, cost::one_sided_view(machine));
    WEFT_TRY(outcome, run(view, program, {.compute = 0}));
  } else {
    WEFT_TRY(const cost::Stack stack, cost::stack_view(machine, what.stack));
    WEFT_TRY(outcome, run(stack.view, program, {.compute = 0}));
    start = stack.start;
  }
  return HandedOver{start + outcome.total, outcome.busiest_link};
}

}  // namespace weft::replay
