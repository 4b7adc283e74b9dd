#pragma once

#include <map>
#include <memory>
#include <string>
#include <tuple>

#include "cost/machine_view.h"
#include "weft/types.h"

namespace weft::training {

// Times of the collectives of a step: weft's own choice (tune) and simulator (simulate) on the part of the machine that
// a group uses. Answers are kept. Thread: one at a time. The machine must outlive it.
class Traffic {
 public:
  explicit Traffic(const cost::MachineView& machine) : machine_(&machine) {}

  // `ranks` GPUs, `stride` apart. All other groups of that kind run at the same time: NICs that several of them need
  // are shared.
  struct Group {
    Rank ranks = 1, stride = 1;
    auto operator<=>(const Group&) const = default;
  };
  struct Cost {
    double seconds = 0;
    int channels = 0;  // each occupies a multiprocessor while it runs
    std::string algorithm;
    bool simulated = false;  // otherwise the cost model's estimate, which the choice was made by
  };
  // The message is the larger side of the collective. A group of one costs nothing.
  Result<Cost> operator()(Collective collective, Group group, Bytes bytes);

  // Estimates only: for comparing many plans.
  void estimate_only(bool only) { estimate_only_ = only; }
  Rank gpus() const { return machine_->endpoints(); }
  Rank gpus_per_node() const;
  const cost::MachineView& machine() const { return *machine_; }

 private:
  Result<const cost::MachineView*> part_for(Group group);

  const cost::MachineView* machine_;
  bool estimate_only_ = false;
  std::map<Group, std::unique_ptr<cost::MachineView>> parts_;
  std::map<std::tuple<Collective, Group, Bytes, bool>, Cost> known_;
};

}  // namespace weft::training
