#pragma once

#include <vector>

#include "model/sim/flow/carrier.h"
#include "model/sim/flow/timeline.h"

namespace weft::sim {

// Carries loads as flows with max-min fair shares of their links.
class Flows : public Carrier {
 public:
  // All must outlive this; `timeline` may be null.
  Flows(SimulationHost& around, MaxMin& rates, Timeline* timeline)
      : around_(around), rates_(rates), timeline_(timeline) {}

  void start(const Load& load) override;
  // Gives flows that started, or whose share changed, their new end.
  void settle() override;
  bool due(const Timer& reminder) const override;
  void handle(const Timer& reminder) override;
  void set_capacity(MaxMin::Resource resource, double capacity) override { rates_.set_capacity(resource, capacity); }

 private:
  struct Transfer {
    std::int32_t load = 0;
    std::uint32_t version = 0;
    double left = 0;
    double rate = 0;
    Duration since;
  };
  void record(MaxMin::Path path, double change);

  SimulationHost& around_;
  MaxMin& rates_;
  Timeline* timeline_;
  std::vector<Transfer> transfers_;  // by flow
};

}  // namespace weft::sim
