#include "apps/rehearsal/prices.h"

#include <algorithm>

#include "machine/catalog/catalog.h"
#include "plan/schedule/collective.h"

namespace weft::rehearsal {
namespace {

constexpr Bytes kSmallest = 8;  // of a call without a tensor

double peak_of(const topology::Part* part, const char* key, double otherwise) {
  const auto* figure = part == nullptr ? nullptr : part->figure(key);
  return figure == nullptr ? otherwise : figure->value * 1e12;
}

}  // namespace

Prices::Prices(const cost::MachineView& machine, training::Card card, std::unique_ptr<training::Trouble> trouble)
    : trouble_(std::move(trouble)),
      traffic_(trouble_ ? trouble_->machine : machine, trouble_ ? trouble_->nodes : std::vector<int>{}),
      card_(std::move(card)) {}

Result<Prices> Prices::of(const cost::MachineView& machine, const std::vector<std::string>& faults) {
  if (!machine.costs().gpu()) return bad_input("a rehearsal needs a machine with GPUs: --on dgx-h100 (weft catalog)");
  WEFT_TRY(training::Card card, training::load_card(machine.topology().device(machine.device(0)).model, "bf16"));
  WEFT_TRY(const auto catalog, topology::Catalog::shipped());
  const topology::Part* part = catalog.find(card.name);
  std::unique_ptr<training::Trouble> trouble;
  if (!faults.empty()) {
    WEFT_TRY(training::Trouble found, training::trouble_of(machine, faults));
    trouble = std::make_unique<training::Trouble>(std::move(found));
  }
  Prices prices(machine, std::move(card), std::move(trouble));
  // Where the catalogue has no figure: TF32 at half of the 16-bit peak and float at a sixteenth, as on A100.
  prices.tf32_peak_ = peak_of(part, "tf32", prices.card_.peak16 / 2);
  prices.float_peak_ = std::min(peak_of(part, "fp32", prices.card_.peak16 / 16), prices.tf32_peak_);
  return prices;
}

Result<double> Prices::call(const Call& call, const std::vector<Rank>& ranks, Rank self) {
  std::vector<Rank> members = ranks;
  Collective collective = Collective::kAllReduce;
  Bytes bytes = std::max(call.bytes, kSmallest);
  if (call.message()) {
    members = {std::min(self, call.peer), std::max(self, call.peer)};
    collective = Collective::kSendReceive;
  } else if (const auto known = schedule::parse_collective(call.op); known && !call.type.empty()) {
    collective = *known;
  }
  std::ranges::sort(members);
  if (members.size() < 2 || members.front() == members.back()) return 0.0;
  const auto n = static_cast<Rank>(members.size());
  const Rank stride = std::max<Rank>(1, (members.back() - members.front()) / (n - 1));
  for (Rank i = 0; i < n; ++i) {
    if (members[static_cast<std::size_t>(i)] == members.front() + i * stride) continue;
    ++irregular_;
    break;
  }
  WEFT_TRY(const auto cost, traffic_(collective, {n, stride}, bytes));
  return cost.seconds;
}

Status Prices::measured_on(const std::string& part) {
  WEFT_TRY(there_, training::load_card(part, "bf16"));
  return {};
}

double Prices::slow(Rank rank) const {
  const auto at = static_cast<std::size_t>(rank);
  return trouble_ && at < trouble_->slow_rank.size() ? trouble_->slow_rank[at] : 1.0;
}

double Prices::kernel(const Kernel& kernel) const {
  if (kernel.kind == "idle" || kernel.kind == "fixed") return kernel.seconds;
  if (kernel.seconds == 0 || !there_) return modelled(card_, kernel);
  if (kernel.kind == "gemm") return kernel.seconds * modelled(card_, kernel) / modelled(*there_, kernel);
  // A trace has neither FLOP nor bytes of other kernels: the rates that bound them are compared.
  const auto rate = [&](const training::Card& card) {
    if (kernel.kind == "flops") return card.peak * card.gemm;
    if (kernel.kind == "attention") return card.peak16 * card.attention_forward;
    if (kernel.kind == "attention_backward") return card.peak16 * card.attention_backward;
    return card.bandwidth * card.memory_share;
  };
  return kernel.seconds * rate(*there_) / rate(card_);
}

double Prices::modelled(const training::Card& of, const Kernel& kernel) const {
  training::Card card = of;
  if (kernel.type == "float" || kernel.type == "tf32" || kernel.type == "double")
    card.peak = card.peak16 = kernel.type == "tf32" ? tf32_peak_ : float_peak_;
  if (kernel.kind == "gemm") return card.grouped_gemm_time(kernel.groups, kernel.m, kernel.n, kernel.k);
  const double memory = card.memory_time(kernel.bytes);
  if (kernel.kind == "attention") return kernel.flops / (card.peak16 * card.attention_forward) + card.launch;
  if (kernel.kind == "attention_backward") return kernel.flops / (card.peak16 * card.attention_backward) + card.launch;
  if (kernel.kind == "flops") return std::max(memory, kernel.flops / (card.peak * card.gemm) + card.launch);
  return memory;
}

}  // namespace weft::rehearsal
