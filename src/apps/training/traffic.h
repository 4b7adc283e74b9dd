#pragma once

#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "model/predict/predict.h"
#include "plan/cost/machine_view.h"
#include "plan/schedule/token_routes.h"
#include "plan/tune/nccl/choice.h"
#include "weft/types.h"

namespace weft::training {

class KnownParts;

// Times of the collectives of a step: weft's own choice and its simulation (model/predict) on the part of the machine
// that a group uses. Answers are kept. Thread: one at a time. The machine must outlive it.
class Traffic {
 public:
  // `troubled`: nodes that are worse than the others. Of up to 16 groups that touch one the slowest counts, as all
  // groups wait for each other; without any, all groups of a kind are alike and the first one stands for them.
  // `parts`: shared with Traffic on other versions of the machine, see KnownParts; null: its own.
  explicit Traffic(const cost::MachineView& machine, std::vector<int> troubled = {},
                   std::shared_ptr<KnownParts> parts = nullptr);

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

  // Tokens of every rank to the ranks of their experts, or back. kPerRank: by kernels that send each once to a rank and
  // once to a node (DeepEP's normal ones); kPerExpert: once for each expert (its low-latency ones). A token is
  // `token_bytes`; experts lie evenly on the group's ranks.
  struct Experts {
    Bytes tokens = 0, token_bytes = 0;
    int per_token = 1, experts = 1;
    schedule::Copies copies = schedule::Copies::kPerRank;
    auto operator<=>(const Experts&) const = default;
  };
  Result<Cost> operator()(Collective collective, Group group, const Experts& experts);

  // From here on what NCCL's own tuner takes, where it models the collective; weft's own choice otherwise.
  void choose_as_nccl(bool nccl) { as_nccl_ = nccl; }
  // Estimates only: for comparing many plans.
  void estimate_only(bool only) { estimate_only_ = only; }
  Rank gpus() const { return machine_->endpoints(); }
  Rank gpus_per_node() const;
  const cost::MachineView& machine() const { return *machine_; }
  const std::shared_ptr<KnownParts>& parts() const { return parts_; }

 private:
  struct Part;
  friend class KnownParts;
  Result<Part*> part_for(Group group, Rank first);
  // The first ranks of the groups that are looked at.
  std::vector<Rank> firsts(Group group) const;
  Result<Cost> of_part(Part& part, Collective collective, Rank ranks, Bytes bytes) const;
  Result<Cost> of_part(const Part& part, Collective collective, Rank ranks, const Experts& experts) const;
  Result<Cost> simulated(const cost::MachineView& view, predict::Query query) const;
  // Returns the slowest of all groups of this kind, kept by `key`.
  template <class Key, class Work>
  Result<Cost> slowest(std::map<Key, Cost>& known, const Key& key, Group group, const Work& work);

  const cost::MachineView* machine_;
  std::vector<int> troubled_;
  bool estimate_only_ = false, as_nccl_ = false;
  std::shared_ptr<KnownParts> parts_;
  std::map<std::pair<Group, Rank>, Part*> part_of_group_;
  std::map<std::tuple<Collective, Group, Bytes, bool, bool>, Cost> known_;
  std::map<std::tuple<Collective, Group, Experts, bool>, Cost> known_experts_;
};

// Parts of machines that groups use, each with what its collectives take. Versions of one machine (with a fault, of
// other rates, of more nodes) share them: what leaves a part as it was is not simulated again. Requires: all versions
// have the costs of hops and the caches of the first. Thread: one at a time.
class KnownParts {
 public:
  KnownParts();
  ~KnownParts();

 private:
  friend class Traffic;
  Traffic::Part& of(topology::Topology part, const cost::MachineView& whole);
  std::vector<std::unique_ptr<Traffic::Part>> parts_;
};

}  // namespace weft::training
