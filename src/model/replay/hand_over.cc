#include "model/replay/hand_over.h"

#include "base/counted.h"
#include "model/replay/run.h"

namespace weft::replay {

Result<HandedOver> hand_over(const cost::MachineView& machine, const HandOver& what) {
  // GPUs may be down: the first two nodes need not be alike.
  const Rank first = machine.ranks_of_node(0), second = first < machine.endpoints() ? machine.ranks_of_node(first) : 0;
  const Rank away = what.within_node ? what.ranks : first;
  if (!what.within_node && second == 0)
    return bad_input("a hand-over to the next node needs two nodes: ...:nodes=2,net=NETWORK");
  if (what.ranks < 1 || what.ranks > (what.within_node ? first / 2 : std::min(first, second)))
    return bad_input("{} hand over to as many {}: the first node of this machine has {}{}", counted(what.ranks, "GPU"),
                     what.within_node ? "of their own node" : "of the next node", first,
                     what.within_node || first == second ? "" : fmt::format(", the second {}", second));
  pgas::Program program(static_cast<std::size_t>(what.within_node ? first : first + second));
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
