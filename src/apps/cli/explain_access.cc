#include "apps/cli/explain_access.h"

#include <array>

#include "base/counted.h"
#include "base/quantity.h"
#include "base/text.h"
#include "plan/cost/access.h"

namespace weft::cli {
namespace {

std::string uses(std::int64_t n) { return n == 1 ? "one use" : fmt::format("{} uses", n); }

// Why the winner wins, in terms of what was counted.
std::string reason(const cost::AccessAdvice& a, const cost::Access& access) {
  if (!a.pointer_possible) return a.path;
  if (a.get_wins && a.hidden > Duration() && a.copy + a.use_here > a.use_there && access.reuse == 1)
    return fmt::format("the work hides {} of the copy; loads by pointer would stall it", format_duration(a.hidden));
  if (a.get_wins)
    return fmt::format("{} by pointer take {}, the copy {} and {} of it {}", uses(access.reuse),
                       format_duration(a.pointer), format_duration(a.copy), uses(access.reuse),
                       format_duration(a.use_here * static_cast<double>(access.reuse)));
  if (a.cached && access.reuse > 1) return "after the first use the reader's cache serves the peer's lines";
  if (!a.from_uses) return "the peer's memory is as near as one's own";
  if (access.fraction < 1 && *a.from_uses > 3)
    return fmt::format("only {:.3g} % are used; a copy moves everything", access.fraction * 100);
  if (access.reuse == 1) return "a copy that is used once is one step more";
  return "the call of a get costs more than what the copy saves";
}

void print(const cost::AccessAdvice& a, const cost::Access& access, const Machine& machine, std::int64_t peer) {
  fmt::print("# rank 0 uses {} of {}, an array of rank {} of {} ({})\n",
             access.fraction < 1 ? fmt::format("{:.3g} %", access.fraction * 100) : "all", format_bytes(access.bytes),
             peer, machine.name, a.path);
  if (access.work > Duration())
    fmt::print("# with {} of computation in each use, beside which a stream copies in blocks\n",
               format_duration(access.work));
  if (access.cache > 0)
    fmt::print("# as if the reader's cache kept {} of its peer's lines{}\n", format_bytes(access.cache),
               machine.view->costs().gpu() ? "; caches of GPUs keep none, since their links are not coherent" : "");
  fmt::print("  {:<8} {:>12} {:>14}  total for {}\n", "way", "beforehand", "each use", uses(access.reuse));
  if (a.pointer_possible)
    fmt::print("{} {:<8} {:>12} {:>14}  {}\n", a.get_wins ? ' ' : '*', "pointer", "-", format_duration(a.use_there),
               format_duration(a.pointer));
  fmt::print("{} {:<8} {:>12} {:>14}  {}\n", a.get_wins ? '*' : ' ', "get", format_duration(a.copy),
             format_duration(a.use_here), format_duration(a.get));
  fmt::print("{}: {}\n", a.get_wins ? "get" : "pointer", reason(a, access));
  if (!a.pointer_possible) return;
  fmt::print("break-even at {}: {}; at {}: {}\n", format_bytes(access.bytes),
             a.from_uses ? fmt::format("get wins from {} on", uses(*a.from_uses)) : "get never wins",
             uses(access.reuse),
             a.from_bytes ? fmt::format("get wins from about {} on", format_bytes(*a.from_bytes)) : "get never wins");
}

nlohmann::json to_json(const cost::AccessAdvice& a, const cost::Access& access, const Machine& machine,
                       std::int64_t peer) {
  nlohmann::json json = {{"schema", "weft.explain_access/1"},
                         {"machine", machine.name},
                         {"peer", peer},
                         {"bytes", access.bytes},
                         {"fraction", access.fraction},
                         {"reuse", access.reuse},
                         {"cache", access.cache},
                         {"cached", a.cached},
                         {"work_us", access.work.us()},
                         {"hidden_us", a.hidden.us()},
                         {"path", a.path},
                         {"choice", a.get_wins ? "get" : "pointer"},
                         {"pointer_us", nullptr},
                         {"get_us", a.get.us()},
                         {"copy_us", a.copy.us()},
                         {"use_of_copy_us", a.use_here.us()},
                         {"get_from_uses", nullptr},
                         {"get_from_bytes", nullptr},
                         {"reason", reason(a, access)}};
  if (a.pointer_possible) json["pointer_us"] = a.pointer.us();
  if (a.from_uses) json["get_from_uses"] = *a.from_uses;
  if (a.from_bytes) json["get_from_bytes"] = *a.from_bytes;
  return json;
}

constexpr std::array<std::string_view, 3> kUnifiedWays = {"loads", "faults", "prefetch"};

std::string flag_text(const cost::FlagCosts& f) {
  constexpr double kMessages = 100;
  return fmt::format(
      "flags: {}; a poll takes {}, sees a write after {}; a fence takes {}; {}: {} by fences, {} by polls",
      f.coherent ? "coherent, the cache serves polls" : "not coherent, every poll crosses", format_duration(f.look),
      format_duration(f.seen), format_duration(f.fence), counted(kMessages, "message"),
      format_duration(f.fence * kMessages), format_duration(f.look * kMessages));
}

nlohmann::json to_json(const cost::FlagCosts& f) {
  return {
      {"coherent", f.coherent}, {"poll_us", f.look.us()}, {"seen_after_us", f.seen.us()}, {"fence_us", f.fence.us()}};
}

void print_unified(const cost::UnifiedAdvice& a, const cost::Access& access, const Machine& machine,
                   const std::string& memory) {
  fmt::print("# rank 0 uses {} of {} that the host manages, in {} of {} ({})\n",
             access.fraction < 1 ? fmt::format("{:.3g} %", access.fraction * 100) : "all", format_bytes(access.bytes),
             memory, machine.name, a.path);
  fmt::print("  {:<8} {:>12} {:>14}  total for {}\n", "way", "beforehand", "each use", uses(access.reuse));
  const auto row = [&](cost::UnifiedWay way, const std::string& before, Duration each) {
    const auto at = static_cast<std::size_t>(way);
    fmt::print("{} {:<8} {:>12} {:>14}  {}\n", a.best == way ? '*' : ' ', kUnifiedWays[at], before,
               format_duration(each), format_duration(a.total[at]));
  };
  if (a.loads_possible)
    row(cost::UnifiedWay::kLoads, "-", access.reuse > 1 ? a.again : a.first);
  else
    fmt::print("  {:<8} drives are not loaded from: the host's memory is a cache of theirs\n", "loads");
  if (!a.fits) {
    fmt::print(
        "  faults and prefetches: it is more than the GPU's {}, so that pages would go and come with every use\n",
        format_bytes(a.card));
    return;
  }
  row(cost::UnifiedWay::kFaults, format_duration(a.faulting), a.local);
  row(cost::UnifiedWay::kPrefetch, format_duration(a.prefetch), a.local);
  if (access.work > Duration())
    fmt::print(
        "prefetch: in blocks, of which the work of the first use hides {}; loads and page faults would stall it\n",
        format_duration(a.hidden));
  const auto from = [](const std::optional<std::int64_t>& n) { return n ? "from " + uses(*n) + " on" : "never"; };
  if (a.loads_possible)
    fmt::print("than loads: a prefetch is cheaper {}, migration by page faults {}\n", from(a.prefetch_from_uses),
               from(a.faults_from_uses));
}

nlohmann::json to_json(const cost::UnifiedAdvice& a, const cost::Access& access, const Machine& machine,
                       const std::string& memory) {
  nlohmann::json json = {{"schema", "weft.explain_unified/1"},
                         {"machine", machine.name},
                         {"memory", memory},
                         {"bytes", access.bytes},
                         {"fraction", access.fraction},
                         {"reuse", access.reuse},
                         {"path", a.path},
                         {"coherent", a.coherent},
                         {"choice", kUnifiedWays[static_cast<std::size_t>(a.best)]},
                         {"loads_us", nullptr},
                         {"faults_us", nullptr},
                         {"prefetch_us", nullptr},
                         {"work_us", access.work.us()},
                         {"hidden_us", a.hidden.us()},
                         {"use_after_us", a.local.us()},
                         {"prefetch_from_uses", nullptr},
                         {"faults_from_uses", nullptr}};
  if (a.loads_possible) json["loads_us"] = a.total[0].us();
  if (a.fits) json["faults_us"] = a.total[1].us();
  if (a.fits) json["prefetch_us"] = a.total[2].us();
  if (a.prefetch_from_uses) json["prefetch_from_uses"] = *a.prefetch_from_uses;
  if (a.faults_from_uses) json["faults_from_uses"] = *a.faults_from_uses;
  return json;
}

Result<int> explain_unified(const AccessSpec& spec, const cost::Access& access, const Machine& machine,
                            const std::string& json) {
  if (spec.peer != 1) return bad_input("--peer {}: --memory {} is the host's, no rank's", spec.peer, spec.memory);
  WEFT_TRY(const cost::Tier tier, cost::parse_tier(spec.memory));
  WEFT_TRY(const auto advice, cost::advise_unified(*machine.view, 0, access, tier));
  const cost::FlagCosts flags = cost::flag_costs(*machine.view, 0, -1);
  if (json != "-") {
    print_unified(advice, access, machine, spec.memory);
    if (advice.loads_possible)
      fmt::print("{}{}\n", tier.part.empty() ? "" : "in the host's memory: ", flag_text(flags));
  }
  if (json.empty()) return 0;
  nlohmann::json all = to_json(advice, access, machine, spec.memory);
  if (advice.loads_possible) all["flags"] = to_json(flags);
  WEFT_CHECK(write_json(json, all));
  return 0;
}

}  // namespace

Result<int> explain_access(const AccessSpec& spec, const Machine& machine, Bytes bytes, const std::string& json) {
  if (bytes < 1) return bad_input("--bytes {}: at least 1", bytes);
  if (spec.reuse < 1) return bad_input("--reuse {}: at least 1", spec.reuse);
  if (!(spec.fraction > 0 && spec.fraction <= 1)) return bad_input("--fraction {}: above 0, at most 1", spec.fraction);
  const bool peers = spec.memory.empty();
  if (peers && (spec.peer < 1 || spec.peer >= machine.view->endpoints()))
    return bad_input("--peer {}: {} has ranks 1 to {} besides rank 0", spec.peer, machine.name,
                     machine.view->endpoints() - 1);
  const auto cache = parse_message("--l2", spec.cache);
  if (!cache) return bad_input("--l2: {}", cache.error().message);
  cost::Access access{.bytes = bytes, .fraction = spec.fraction, .reuse = spec.reuse, .cache = *cache};
  if (!spec.work.empty()) {
    const auto work = duration_of(spec.work);
    if (!work) return bad_input("--work {}: a time above zero such as 200us or 2ms", spec.work);
    access.work = *work;
  }
  if (!peers) return explain_unified(spec, access, machine, json);
  WEFT_TRY(const auto advice, cost::advise(*machine.view, 0, static_cast<Rank>(spec.peer), access));
  const cost::FlagCosts flags = cost::flag_costs(*machine.view, 0, static_cast<Rank>(spec.peer));
  if (json != "-") {
    print(advice, access, machine, spec.peer);
    fmt::print("{}\n", flag_text(flags));
  }
  if (json.empty()) return 0;
  nlohmann::json all = to_json(advice, access, machine, spec.peer);
  all["flags"] = to_json(flags);
  WEFT_CHECK(write_json(json, all));
  return 0;
}

}  // namespace weft::cli
