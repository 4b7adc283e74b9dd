#include "compat/nccl/config.h"

#include <algorithm>
#include <cctype>
#include <cstring>

#include "base/text.h"
#include "compat/nccl/model.h"
#include "plan/collectives/registry.h"
#include "plan/schedule/element.h"

namespace weft::compat::nccl {
namespace {

constexpr int kMostChannels = 64;  // NCCL's
constexpr int kPolicies = NCCL_CTA_POLICY_EFFICIENCY | NCCL_CTA_POLICY_ZERO;

bool is_set(int value) { return value != NCCL_CONFIG_UNDEF_INT; }

Status check_bounds(const ncclCollConfig_t& c) {
  for (const auto& [name, value] :
       {std::pair("minCTAs", c.minCTAs), std::pair("maxCTAs", c.maxCTAs), std::pair("nvlsCTAs", c.nvlsCTAs)})
    if (is_set(value) && (value < 1 || value > kMostChannels))
      return bad_input("ncclCollConfig_t: {} {}: there are 1 to {}", name, value, kMostChannels);
  if (is_set(c.minCTAs) && is_set(c.maxCTAs) && c.minCTAs > c.maxCTAs)
    return bad_input("ncclCollConfig_t: minCTAs {} is more than maxCTAs {}", c.minCTAs, c.maxCTAs);
  if (is_set(c.cgaClusterSize) && (c.cgaClusterSize < 0 || c.cgaClusterSize > 8))
    return bad_input("ncclCollConfig_t: cgaClusterSize {}: there are 0 to 8", c.cgaClusterSize);
  if (is_set(c.CTAPolicy) && (c.CTAPolicy & ~kPolicies) != 0)
    return bad_input("ncclCollConfig_t: CTAPolicy {}: there are NCCL_CTA_POLICY_EFFICIENCY (1) and _ZERO (2)",
                     c.CTAPolicy);
  if (c.forceAlgSelection != 0 && c.forceAlgSelection != 1 && is_set(c.forceAlgSelection))
    return bad_input("ncclCollConfig_t: forceAlgSelection {}: there are 0 and 1", c.forceAlgSelection);
  if (c.userProfilerTag >> 63 != 0)
    return bad_input("ncclCollConfig_t: userProfilerTag {:#x}: NCCL keeps tags with the highest bit for itself",
                     c.userProfilerTag);
  return {};
}

// The words of "Ring, tree", without spaces.
std::vector<std::string> words_of(std::string_view list) {
  std::vector<std::string> words(1);
  for (const char c : list) {
    if (c == ',')
      words.emplace_back();
    else if (std::isspace(static_cast<unsigned char>(c)) == 0)
      words.back() += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return words;
}

// weft's name of an algorithm, which NCCL may write otherwise. Empty: it has none for this collective.
Result<std::string> known_as(const std::string& word, Collective collective) {
  if (const auto found = collectives::find_algorithm(collective, word)) return std::string((*found)->name);
  for (int c = 0; c < kCollectiveKinds; ++c)
    if (collectives::find_algorithm(static_cast<Collective>(c), word)) return std::string();
  return bad_input("algSelection: '{}' is no algorithm; `weft algorithms` lists them", shown(word));
}

// Those that the selection allows, in its order; what it leaves out: all others, weft's own choice first.
Result<std::vector<std::string>> allowed(const std::string& selection, const Operation& operation) {
  const Collective collective = operation.request.collective;
  const bool leaves_out = selection.front() == '^';
  std::vector<std::string> named;
  for (const std::string& word : words_of(std::string_view(selection).substr(leaves_out ? 1 : 0))) {
    WEFT_TRY(std::string name, known_as(word, collective));
    if (!name.empty()) named.push_back(std::move(name));
  }
  if (!leaves_out) return named;
  std::vector<std::string> left;
  if (const auto free = plan_of(operation)) left.emplace_back(free->algorithm->name);
  for (const auto* a : collectives::algorithms_for(collective)) left.emplace_back(a->name);
  std::erase_if(left, [&](const std::string& name) { return std::ranges::find(named, name) != named.end(); });
  return left;
}

Status select(const Wishes& wishes, Operation& operation) {
  if (wishes.selection.empty()) return {};
  WEFT_TRY(const auto names, allowed(wishes.selection, operation));
  std::string why = "weft has none of them for it";
  for (const std::string& name : names) {
    operation.request.algorithm = name;
    const auto plan = plan_of(operation);
    if (plan) return {};
    why = plan.error().message;
  }
  operation.request.algorithm.clear();
  if (!wishes.forced) return {};
  return failure(Code::kUnsupported, Blame::kInput, "{}: algSelection '{}': {}",
                 schedule::name(operation.request.collective), shown(wishes.selection), why);
}

}  // namespace

Result<Wishes> wishes_of(const ncclCollConfig_t* config) {
  if (config == nullptr) return Wishes{};
  if (!is_initialized(config))
    return bad_input("ncclCollConfig_t is not initialized: begin with NCCL_COLLCONFIG_INITIALIZER");
  ncclCollConfig_t known = NCCL_COLLCONFIG_INITIALIZER;
  std::memcpy(&known, config, std::min(config->size, sizeof known));
  WEFT_CHECK(check_bounds(known));
  Wishes wishes{.selection = known.algSelection == nullptr ? "" : known.algSelection,
                .forced = known.forceAlgSelection != 0,
                .least = is_set(known.minCTAs) ? known.minCTAs : 0,
                .most = is_set(known.maxCTAs) ? known.maxCTAs : 0,
                .launch_event = known.launchCompletionEvent};
  return wishes;
}

Status apply(const Wishes& wishes, Operation& operation) {
  operation.launch_event = wishes.launch_event;
  WEFT_CHECK(select(wishes, operation));
  if (wishes.least == 0 && wishes.most == 0) return {};
  WEFT_TRY(const schedule::Plan plan, plan_of(operation));
  const int most = wishes.most > 0 ? wishes.most : kMostChannels;
  Request& request = operation.request;
  request.channels = std::clamp(plan.channels, std::max(wishes.least, 1), most);
  if (request.channels == plan.channels) return {};
  request.algorithm = plan.algorithm->name;
  const auto bounded = plan_of(operation);
  if (bounded) return {};
  return failure(Code::kUnsupported, Blame::kInput, "{}: minCTAs {}, maxCTAs {}: {}",
                 schedule::name(request.collective), wishes.least, wishes.most, bounded.error().message);
}

}  // namespace weft::compat::nccl
