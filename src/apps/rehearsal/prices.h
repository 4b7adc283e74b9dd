#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "apps/rehearsal/recording.h"
#include "apps/training/card.h"
#include "apps/training/traffic.h"
#include "apps/training/trouble.h"

namespace weft::rehearsal {

// How long calls and kernels take on a machine: weft's choice and simulator as training asks them, and training's
// model of cards. Answers are kept. Thread: one at a time. The machine must outlive it.
class Prices {
 public:
  // `faults`: as `weft train` reads them. Errors (bad input): a machine without GPUs, or with GPUs that the table of
  // cards does not have; faults that a step does not know.
  static Result<Prices> of(const cost::MachineView& machine, const std::vector<std::string>& faults = {});

  // Seconds, once all members have come. Objects and barriers take the time of an all-reduce of 8 bytes.
  Result<double> call(const Call& call, const std::vector<Rank>& ranks, Rank self);
  // A kernel that was measured takes its time there times the model's times, here by there.
  double kernel(const Kernel& kernel) const;
  // How many times as long a rank computes as without the faults.
  double slow(Rank rank) const;
  // `part`: of the catalogue; on which kernels were measured. Errors (bad input): no such card.
  Status measured_on(const std::string& part);

  const training::Card& card() const { return card_; }
  Rank gpus() const { return traffic_.gpus(); }
  Rank gpus_per_node() const { return traffic_.gpus_per_node(); }
  // Groups whose members are not a stride apart are taken as if they were; how many calls were.
  int irregular() const { return irregular_; }

 private:
  Prices(const cost::MachineView& machine, training::Card card, std::unique_ptr<training::Trouble> trouble);

  std::unique_ptr<training::Trouble> trouble_;  // null: no faults
  training::Traffic traffic_;
  double modelled(const training::Card& card, const Kernel& kernel) const;
  training::Card card_;
  std::optional<training::Card> there_;    // on which kernels were measured
  double float_peak_ = 0, tf32_peak_ = 0;  // FLOP/s
  int irregular_ = 0;
};

}  // namespace weft::rehearsal
