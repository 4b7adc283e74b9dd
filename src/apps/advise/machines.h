#pragma once

#include <memory>
#include <string>
#include <vector>

#include "apps/advise/advise.h"
#include "plan/cost/machine_view.h"

namespace weft::advise {

using report::kHoursOfMonth;

// One of the machines that are looked at.
struct Candidate {
  std::string name;                                // as it was typed
  bool owned = false;                              // is there already
  bool sized = false;                              // its number of nodes is said
  double price = 0;                                // of a GPU-hour; below 0: the table's
  std::string sized_to(std::int64_t nodes) const;  // its name with this many nodes
};

// The machines of the words, or those of the table of prices where none is named.
// Errors (bad input): prices for another number of machines; a machine that is there by a name that machines with
// different cards share.
Result<std::vector<Candidate>> candidates(const Words& words, const Prices& prices);

// A machine that was opened.
struct Opened {
  std::string name, card;
  std::shared_ptr<const cost::MachineView> view;
  std::int64_t gpus = 0, per_node = 0, nodes = 1;
};
// Errors (bad input): those of topology::load_machine; a machine without GPUs.
Result<Opened> open(const std::string& name);

// Fills in what the row's GPUs cost and draw. Errors (bad input): no price is known and none is given.
Status add_price(const Candidate& candidate, const Prices& prices, report::AdviceRow& row);
// The command of weft serve or train with the row's price, so that it prints the same money; empty: empty.
std::string with_price(const std::string& command, const report::AdviceRow& row);

// The same machine with a cheaper network, in words and as its name: half the NICs, half the rate, Ethernet without
// RDMA, half the uplinks.
struct Fabric {
  std::string words, machine;
};
std::vector<Fabric> cheaper_fabrics(const std::string& machine);

Status advise_serving(const Words& words, const Prices& prices, const Progress& progress, report::Advice& advice);
Status advise_training(const Words& words, const Prices& prices, const Progress& progress, report::Advice& advice);

}  // namespace weft::advise
