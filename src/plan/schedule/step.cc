#include "plan/schedule/step.h"

#include <fmt/format.h>

namespace weft::schedule {
namespace {

// "0,2,..,6"
std::string text_of(const Group& g) {
  if (g.count <= 2) return g.count == 1 ? fmt::format("{}", g.first) : fmt::format("{},{}", g.first, g.member(1));
  return fmt::format("{},{},..,{}", g.first, g.member(1), g.member(g.count - 1));
}

std::string text_of(const Operand& o, const char* direction) {
  constexpr const char* kBuffers[] = {"in", "out", "scratch"};
  const char* buffer = kBuffers[static_cast<int>(o.buffer)];
  switch (o.kind) {
    case Operand::Kind::kMessage:
      return fmt::format("{} {} {}", o.open ? "part of a message" : "message", direction, o.peer);
    case Operand::Kind::kMulticast:
      return fmt::format("{}[{}] of {}", buffer, o.chunk, text_of(o.group()));
    case Operand::Kind::kAggregation:
      return fmt::format("aggregation {} {}", direction, text_of(o.group()));
    case Operand::Kind::kRemote:
      return fmt::format("{}[{}] of {}", buffer, o.chunk, o.peer);
    case Operand::Kind::kLocal:
      break;
  }
  return fmt::format("{}[{}]", buffer, o.chunk);
}

std::string text_of(const Operands& operands, const char* direction, const char* separator) {
  std::string text;
  for (const Operand& o : operands) text += (text.empty() ? "" : separator) + text_of(o, direction);
  return text;
}

}  // namespace

std::string to_string(const Step& step) {
  switch (step.kind) {
    case Step::Kind::kSignal:
      return fmt::format("signal {}", step.peer);
    case Step::Kind::kWait:
      return fmt::format("wait for {}", step.peer);
    case Step::Kind::kMove:
      break;
  }
  return fmt::format("move chunk {}: {} -> {}", step.chunk, text_of(step.sources, "from", " + "),
                     text_of(step.destinations, "to", ", "));
}

}  // namespace weft::schedule
