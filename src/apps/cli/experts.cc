#include "apps/cli/experts.h"

#include <fmt/format.h>

#include "apps/cli/common.h"
#include "base/counted.h"
#include "base/text.h"
#include "plan/cost/access_costs.h"

namespace weft::cli {
namespace {

constexpr std::int64_t kMostHidden = 1 << 20, kMostTokens = 1 << 24, kMostExperts = 1 << 20;

Result<schedule::Copies> parse_mode(const std::string& text) {
  if (text == "normal") return schedule::Copies::kPerRank;
  if (text == "low-latency") return schedule::Copies::kPerExpert;
  return bad_input(
      "--mode {}: normal (a token goes once to each rank of its experts) or low-latency (once for each expert)",
      shown(text));
}

}  // namespace

void add_expert_options(CLI::App& sub, ExpertsSpec& spec) {
  sub.add_option("--tokens", spec.tokens, "dispatch, combine: tokens of every rank, e.g. 128, or 1,16,128");
  sub.add_option("--hidden", spec.hidden, "dispatch, combine: elements of a token")->capture_default_str();
  sub.add_option("--topk", spec.top_k, "dispatch, combine: experts of a token")->capture_default_str();
  sub.add_option("--experts", spec.experts, "dispatch, combine: experts of all ranks, in blocks on the ranks")
      ->capture_default_str();
  sub.add_option("--imbalance", spec.imbalance,
                 "dispatch, combine: how many times the mean of tokens the busiest rank gets")
      ->capture_default_str();
  sub.add_option("--mode", spec.mode,
                 "dispatch, combine: normal, where a token travels once to each rank of its experts and crosses the "
                 "network once per node, or low-latency, once for each expert (DeepEP's kernels)")
      ->capture_default_str();
  sub.add_option("--sms", spec.multiprocessors, "dispatch, combine with --on: multiprocessors of a normal kernel")
      ->capture_default_str();
  sub.add_option("--counts", spec.counts,
                 "dispatch, combine with --on: how many tokens come is exchanged first, or known (normal kernels on "
                 "several nodes)")
      ->capture_default_str();
}

Result<std::vector<Bytes>> tokens_of(const ExpertsSpec& spec) {
  if (spec.tokens.empty()) return std::vector<Bytes>{1, 8, 32, 128, 512, 2048, 4096};
  std::vector<Bytes> all;
  for (std::size_t at = 0; at <= spec.tokens.size();) {
    const std::size_t comma = std::min(spec.tokens.find(',', at), spec.tokens.size());
    WEFT_TRY(const auto n, parse_integer("--tokens", spec.tokens.substr(at, comma - at), 1, kMostTokens));
    all.push_back(n);
    at = comma + 1;
  }
  return all;
}

Result<schedule::Task> task_of(const ExpertsSpec& spec, Collective collective, Rank ranks, Rank ranks_per_node,
                               Bytes tokens, DataType type, bool simulated) {
  if (spec.hidden < 1 || spec.hidden > kMostHidden)
    return bad_input("--hidden {}: a token has 1 to {} elements", spec.hidden, kMostHidden);
  if (spec.experts < 1 || spec.experts % ranks != 0)
    return bad_input("--experts {}: {} have equally many each", spec.experts, counted(ranks, "rank"));
  if (spec.top_k < 1 || spec.top_k > spec.experts)
    return bad_input("--topk {}: a token has 1 to {}", spec.top_k, counted(spec.experts, "expert"));
  if (!(spec.imbalance >= 1) || spec.imbalance > ranks)
    return bad_input("--imbalance {}: 1 to {}, the number of ranks", spec.imbalance, ranks);
  WEFT_TRY(const auto copies, parse_mode(spec.mode));
  WEFT_TRY(auto routes, schedule::draw({.ranks = ranks,
                                        .ranks_per_node = ranks_per_node,
                                        .tokens = tokens,
                                        .per_token = static_cast<int>(spec.top_k),
                                        .experts = static_cast<int>(spec.experts),
                                        .imbalance = spec.imbalance,
                                        .copies = copies,
                                        .most_groups = simulated ? 64 : tokens}));
  // Groups are of as many tokens: the number of tokens is rounded up to whole groups' elements.
  const Bytes travelling = tokens * (copies == schedule::Copies::kPerExpert ? spec.top_k : 1) * spec.hidden;
  const Bytes each = routes->tokens_per_rank(), elements = (travelling + each - 1) / each * each;
  return schedule::Task{.collective = collective,
                        .ranks = ranks,
                        .ranks_per_node = ranks_per_node,
                        .elements = elements * ranks,
                        .element_bytes = size_of(type),
                        .routes = std::move(routes)};
}

Result<std::shared_ptr<cost::MachineView>> machine_of(const ExpertsSpec& spec, const cost::MachineView& machine,
                                                      Collective collective, Rank ranks, const std::string& post) {
  if (spec.experts < 1 || spec.experts > kMostExperts)
    return bad_input("--experts {}: there are 1 to {}", spec.experts, kMostExperts);
  constexpr std::int64_t kMostMultiprocessors = 256;
  if (spec.multiprocessors < 2 || spec.multiprocessors > kMostMultiprocessors)
    return bad_input("--sms {}: a kernel has 2 to {}", spec.multiprocessors, kMostMultiprocessors);
  if (spec.counts != "exchanged" && spec.counts != "known")
    return bad_input("--counts {}: exchanged or known", shown(spec.counts));
  cost::ExpertKernel kernel{.experts = static_cast<int>(spec.experts),
                            .multiprocessors = static_cast<int>(spec.multiprocessors),
                            .counts_known = spec.counts == "known"};
  WEFT_TRY(kernel.copies, parse_mode(spec.mode));
  if (!post.empty() && post != "gpu") {
    WEFT_TRY(kernel.posting, cost::posting_time(post));
  }
  WEFT_TRY(auto costs, cost::expert_costs(machine, collective, ranks, kernel));
  return std::make_shared<cost::MachineView>(machine.topology(), std::move(costs), machine.caches());
}

std::string usual_type(Collective collective) { return schedule::routed(collective) ? "bfloat16" : "float"; }

std::string type_help() { return schedule::type_names(", ") + " (default: float; dispatch, combine: bfloat16)"; }

std::string words_of(const ExpertsSpec& spec) {
  return fmt::format("tokens of {} elements, each for {} of {}, once {}{}", spec.hidden, spec.top_k,
                     counted(spec.experts, "expert"),
                     spec.mode == "normal" ? "to each rank of them" : "for each of them",
                     spec.imbalance > 1 ? fmt::format(", the busiest rank {:g} times the mean", spec.imbalance) : "");
}

}  // namespace weft::cli
