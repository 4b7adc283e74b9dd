#pragma once

#include <cstdint>
#include <vector>

#include "plan/cost/paths.h"
#include "plan/schedule/lower/lower.h"

namespace weft::cost {

// The steps of one strand of a plan.
schedule::RankContext context_of(const schedule::Task& task, const schedule::Plan& plan, Rank rank, int lane,
                                 int channel);

// Does a step's end use switches that do a group's work, as the plan says?
inline bool by_switch(const schedule::Operand& o, const schedule::Plan& plan) {
  return (o.kind == schedule::Operand::Kind::kMulticast ? plan.multicast : plan.aggregation) && o.count > 1;
}

// The steps of all strands of a plan's channel 0, with every connection's number in place of peers and lanes: expanded
// once, walked often. Does not depend on protocol, sizes and number of channels. A value.
struct Script {
  struct End {
    schedule::Operand::Kind kind;
    bool open, scratch;
    Rank count;         // members, of groups; otherwise 1
    Number connection;  // from a switch that sums: to this rank; into it: from this rank
    Number sum = 0;     // into a switch that sums: by number

    bool operator==(const End&) const = default;
  };
  // A step, or several that follow each other and differ in their chunks only.
  struct Act {
    schedule::Step::Kind kind;
    Number sources, count;  // of a move: ends, sources first
    Number at;              // of a move: its first end; otherwise a connection
    Number times = 1;

    bool operator==(const Act&) const = default;
  };
  struct Strand {
    Rank rank;
    Number first, last;  // acts
  };
  // A sum of a group's switches, in one lane.
  struct Sum {
    Rank first, stride;
    Number down;                  // the connection out of the switches
    std::vector<Number> members;  // connections to each of them
  };
  struct Connection {
    enum class Kind : std::uint8_t { kOrder, kLinks, kOwn };
    Kind kind = Kind::kOrder;  // kOrder: only an order of messages or signals; kOwn: a group of one, without links
    Number path = 0;
  };

  std::vector<Strand> strands;
  std::vector<Act> acts;
  std::vector<End> ends;
  std::vector<Sum> sums;
  std::vector<Connection> connections;
};

Script build_script(const schedule::Task& task, const schedule::Plan& plan, Paths& paths);

}  // namespace weft::cost
