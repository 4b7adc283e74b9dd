#include "apps/serving/answer.h"

#include <cmath>
#include <cstdlib>
#include <sstream>
#include <utility>

#include "apps/serving/faults.h"
#include "base/counted.h"
#include "base/text.h"
#include "move/kv/replay.h"

namespace weft::serving {
namespace {

report::ServeSpread in_ms(const Quantiles& q) { return {q.mean * 1e3, q.median * 1e3, q.p90 * 1e3, q.p99 * 1e3}; }

// "2:tp=4,ep=4" or "auto:tp=1".
Status read_prefill(const std::string& text, Question& q) {
  const auto colon = text.find(':');
  const std::string engines = text.substr(0, colon);
  if (engines == "auto") {
    q.prefills = 0;
  } else {
    WEFT_TRY(const std::int64_t n, parse_integer("--prefill", engines, 1, 4096));
    q.prefills = static_cast<int>(n);
  }
  Plan plan{.precision = q.plan.precision, .cache = q.plan.cache};
  for (std::size_t at = colon; at != std::string::npos && at < text.size();) {
    const std::size_t next = text.find(',', at + 1);
    const std::string word = text.substr(at + 1, next == std::string::npos ? next : next - at - 1);
    const auto equal = word.find('=');
    const std::string name = word.substr(0, equal);
    Rank* value = name == "tp"             ? &plan.tp
                  : name == "pp"           ? &plan.pp
                  : name == "ep"           ? &plan.ep
                  : name == "dp-attention" ? &plan.dp
                                           : nullptr;
    if (value == nullptr || equal == std::string::npos)
      return bad_input("--prefill {}: '{}' is none of tp=, pp=, ep=, dp-attention=", text, word);
    WEFT_TRY(const std::int64_t n, parse_integer(fmt::format("--prefill {}", name), word.substr(equal + 1), 1, 4096));
    *value = static_cast<Rank>(n);
    at = next;
  }
  q.prefill = plan;
  return {};
}

Result<Router> parse_router(const std::string& text) {
  for (const auto& [name, router] :
       {std::pair{"fewest", Router::kFewest}, {"round-robin", Router::kRoundRobin}, {"kv-aware", Router::kPrefixes}})
    if (text == name) return router;
  return bad_input("--router {}: fewest, round-robin or kv-aware", text);
}

// "dram:1T", "nvme-gen5*4:8T".
Status read_tiers(const Words& words, Question& q) {
  for (const std::string& text : words.tiers) {
    const auto colon = text.rfind(':');
    if (colon == std::string::npos)
      return bad_input("--tier {}: a part and its bytes, as in dram:1T or nvme-gen5*4:8T", text);
    WEFT_TRY(const Bytes bytes, parse_bytes(text.substr(colon + 1)));
    q.load.tiers.emplace_back(text.substr(0, colon), static_cast<double>(bytes));
  }
  if (!words.tiers.empty() && words.prefix_cache == "off")
    return bad_input("--tier {}: needs a prefix cache; --prefix-cache is off", words.tiers[0]);
  return {};
}

// Takes the limits that the asker gives instead of the engine's own.
Status read_limits(const Words& words, Question& q) {
  constexpr std::int64_t kMost = 1 << 20;
  if (words.batch_tokens < 0 || words.batch_tokens > kMost)
    return bad_input("--max-num-batched-tokens {}: 1 to {}", words.batch_tokens, kMost);
  if (words.batch_sequences < 0 || words.batch_sequences > kMost)
    return bad_input("--max-num-seqs {}: 1 to {}", words.batch_sequences, kMost);
  if (!(words.memory_share >= 0 && words.memory_share <= 1))
    return bad_input("--gpu-memory-utilization {}: a share above 0, at most 1", words.memory_share);
  if (words.batch_tokens > 0) {
    q.engine.token_budget = static_cast<double>(words.batch_tokens);
    q.limits += fmt::format(", {} tokens an iteration", words.batch_tokens);
  }
  if (words.batch_sequences > 0) {
    q.engine.most_sequences = words.batch_sequences;
    q.limits += fmt::format(", {} at most", counted(words.batch_sequences, "sequence"));
  }
  if (words.memory_share > 0) q.engine.memory_share = words.memory_share;
  WEFT_TRY(q.engine.launch, kernels::parse_launch(words.launch));
  if (q.engine.launch != kernels::Launch::kGraphs) q.limits += ", " + words.launch + " launches";
  return {};
}

Status check_load(const Words& words) {
  const Load& l = words.load;
  const int given = (l.concurrency != 0 ? 1 : 0) + (l.rate != 0 ? 1 : 0) + (words.trace.empty() ? 0 : 1);
  if (given == 0) return bad_input("weft serve needs one of --concurrency, --rate and --trace");
  if (given > 1) return bad_input("weft serve takes only one of --concurrency, --rate and --trace");
  if (l.concurrency < 0 || l.concurrency > 1'000'000)
    return bad_input("--concurrency {}: 1 to 1000000 clients", l.concurrency);
  if (!(l.rate >= 0) || l.rate > 1e6 || (l.rate > 0 && l.rate < 1e-6))
    return bad_input("--rate {}: 0.000001 to 1000000 requests/s", l.rate);
  constexpr std::int64_t kMost = 100'000'000;
  if (l.input < 1 || l.input > kMost) return bad_input("--isl {}: 1 to {} tokens", l.input, kMost);
  if (l.output < 1 || l.output > kMost) return bad_input("--osl {}: 1 to {} tokens", l.output, kMost);
  if (!(words.ttft >= 0) || !(words.tpot >= 0)) return bad_input("--ttft and --tpot: milliseconds, not below 0");
  if (words.percentile != 50 && words.percentile != 90 && words.percentile != 99)
    return bad_input("--percentile {}: 50, 90 or 99", words.percentile);
  if (!(l.urgent >= 0 && l.urgent <= 1)) return bad_input("--urgent {}: a share of requests from 0 to 1", l.urgent);
  if (!(l.spread > 0 && l.spread <= 1)) return bad_input("--spread {}: above 0 and at most 1", l.spread);
  if (l.requests < 0 || l.requests > 10'000'000) return bad_input("--requests {}: 1 to 10000000", l.requests);
  if (!(words.trace_scale > 0)) return bad_input("--trace-rate {}: a factor above 0", words.trace_scale);
  if (!(words.price >= 0) || !std::isfinite(words.price))
    return bad_input("--price {}: of a GPU-hour, not below 0", words.price);
  if (!(words.restart >= 0) || !std::isfinite(words.restart))
    return bad_input("--restart {}: seconds, not below 0", words.restart);
  if (words.drafts < 0 || words.drafts > 64)
    return bad_input("--drafts {}: 0 to 64 tokens that are drafted before each is checked", words.drafts);
  if (!(words.accept >= 0 && words.accept <= 1))
    return bad_input("--accept {}: a probability from 0 to 1", words.accept);
  if (words.replicas < 1) return bad_input("--replicas {}: a number from 1", words.replicas);
  return {};
}

}  // namespace

std::string describe(const Load& load) {
  if (!load.trace.empty()) return fmt::format("a trace of {}", counted(load.trace.size(), "request"));
  return load.concurrency > 0 ? fmt::format("{}", counted(load.concurrency, "client"))
                              : fmt::format("{:.4g} requests/s", load.rate);
}

Result<Question> understand(const Words& words) {
  WEFT_CHECK(check_load(words));
  Question q;
  WEFT_TRY(q.shape, load_shape(words.model));
  WEFT_TRY(q.engine, load_engine(words.engine, words.benchmark, !words.prefill.empty()));
  q.engine.drafts = words.drafts, q.engine.accept = words.accept;
  WEFT_CHECK(read_limits(words, q));
  q.goal = {words.ttft * 1e-3, words.tpot * 1e-3, static_cast<int>(words.percentile)};
  q.plan = words.plan;
  q.replicas = words.replicas;
  q.load = words.load;
  if (!words.prefill.empty()) {
    WEFT_CHECK(read_prefill(words.prefill, q));
    q.decodes = words.decodes;
    if (q.decodes < 1) return bad_input("--decode-engines {}: a number from 1", q.decodes);
  } else if (words.decodes != 1) {
    return bad_input("--decode-engines {}: needs --prefill", words.decodes);
  }
  if (words.move != "whole" && words.move != "layers")
    return bad_input("--kv-transfer {}: whole or layers", words.move);
  q.by_layer = words.move == "layers";
  if (q.by_layer && !q.prefill) return bad_input("--kv-transfer layers: needs --prefill");
  if (!words.router.empty()) {
    WEFT_TRY(q.load.router, parse_router(words.router));
    if (q.replicas < 2 && words.prefill.empty())
      return bad_input("--router {}: chooses among --replicas, of which there is one", words.router);
    if (!words.faults.empty()) return bad_input("--router {}: has no effect with --fault", words.router);
  }
  WEFT_CHECK(read_tiers(words, q));
  q.load.policy.reset();
  if (words.prefix_cache != "off") {
    const auto policy = kv::parse_policy(words.prefix_cache);
    if (!policy || *policy == kv::Policy::kClairvoyant)  // which needs the future
      return bad_input("--prefix-cache {}: lru, lfu, s3-fifo or off", shown(words.prefix_cache));
    q.load.policy = *policy;
  }
  if (!words.trace.empty()) {
    WEFT_TRY(ReadTrace read, read_trace(words.trace, words.trace_scale));
    q.load.trace = std::move(read.requests), q.load.prefixes = std::move(read.prefixes);
    for (const Request& r : q.load.trace)
      if (const Status fits = check_context(q.shape, r.input, r.output); !fits)
        return bad_input("{}:{}: {}", words.trace, r.line, fits.error().message);
    double input = 0, output = 0;  // means, for the cache's share of windows and states
    for (const Request& r : q.load.trace)
      input += static_cast<double>(r.input), output += static_cast<double>(r.output);
    const auto n = static_cast<double>(q.load.trace.size());
    q.load.input = std::max<std::int64_t>(1, std::llround(input / n));
    q.load.output = std::max<std::int64_t>(1, std::llround(output / n));
  }
  return q;
}

namespace {

// What asks weft serve for this plan and load again; sizes that are as usual are left out.
std::vector<std::pair<std::string, std::string>> options_of(const Question& q) {
  std::vector<std::pair<std::string, std::string>> options;
  const auto add = [&](const char* name, std::int64_t value, std::int64_t usual) {
    if (value != usual) options.emplace_back(name, std::to_string(value));
  };
  add("tp", q.plan.tp, 1), add("pp", q.plan.pp, 1), add("ep", q.plan.ep, 1), add("dp-attention", q.plan.dp, 1);
  add("replicas", q.replicas, 1), add("decode-engines", q.prefill ? q.decodes : 1, 1);
  if (!q.plan.precision.empty()) options.emplace_back("precision", q.plan.precision);
  if (q.prefill) {
    const Plan& p = *q.prefill;
    std::string text = fmt::format("{}:tp={}", q.prefills, p.tp);
    for (const auto& [name, value] : {std::pair{"pp", p.pp}, {"ep", p.ep}, {"dp-attention", p.dp}})
      if (value != 1) text += fmt::format(",{}={}", name, value);
    options.emplace_back("prefill", text);
    if (q.by_layer) options.emplace_back("kv-transfer", "layers");
  }
  if (q.limits.find("tokens an iteration") != std::string::npos)
    options.emplace_back("max-num-batched-tokens", fmt::format("{:.0f}", q.engine.token_budget));
  if (q.load.concurrency > 0) options.emplace_back("concurrency", std::to_string(q.load.concurrency));
  if (q.load.rate > 0) options.emplace_back("rate", fmt::format("{:.6g}", q.load.rate));
  return options;
}

}  // namespace

report::ServeRow row_of(const Question& q, const Point& p, double price) {
  report::ServeRow row{.plan = describe(q.plan), .load = describe(q.load), .gpus = p.gpus};
  if (q.prefill)
    row.plan = fmt::format("{} x ({}) for prefill, {} x ({}) for decode", q.prefills, describe(*q.prefill), q.decodes,
                           describe(q.plan));
  if (q.replicas > 1) row.plan = fmt::format("{} x ({})", q.replicas, row.plan);
  row.plan += q.limits;
  row.options = options_of(q);
  row.ttft = in_ms(p.ttft), row.tpot = in_ms(p.tpot), row.end_to_end = in_ms(p.end_to_end);
  row.ttft_parts = {{"tokenising", p.text * 1e3},
                    {"queue", p.queue * 1e3},
                    {"prefill", p.reading * 1e3},
                    {"KV transfer", p.moving * 1e3},
                    {"first response", p.response * 1e3}};
  const Parts& d = p.decode;
  row.step_parts = {{"dense GEMMs", d.dense * 1e3},      {"attention", d.attention * 1e3},
                    {"experts", d.experts * 1e3},        {"small kernels", d.small * 1e3},
                    {"tensor parallel", d.tensor * 1e3}, {"expert exchange", d.exchange * 1e3},
                    {"pipeline", d.pipeline * 1e3},      {"waiting for the host", d.host * 1e3}};
  row.step = p.step * 1e3, row.batch = p.batch, row.tokens_per_step = q.engine.tokens_per_step();
  row.tokens_per_gpu = p.tokens_per_gpu, row.input_per_gpu = p.input_per_gpu, row.tokens_per_user = p.tokens_per_user;
  row.requests_per_second = p.requests_per_second;
  row.memory = {{"weights", p.memory.weights},
                {"activations", p.memory.activations},
                {"reserve", p.memory.reserved},
                {"keys and values", p.memory.cache()}};
  row.capacity = p.memory.capacity;
  row.cache_tokens = p.cache_tokens, row.cache_used = p.cache_used;
  row.requests = static_cast<std::int64_t>(p.requests), row.preemptions = p.preemptions;
  row.reloaded = p.reloaded, row.faster_computed = p.faster_computed;
  row.computing = p.computing * 1e3;
  for (const auto& [name, seconds] : p.reloading) row.reloading.emplace_back(name, seconds * 1e3);
  row.prefix_hits = p.prefix_hits, row.has_prefixes = q.load.prefixes != nullptr;
  if (q.goal.asked()) row.kept = p.kept, row.goodput = p.kept * p.requests_per_second;
  if (p.urgent_ttft) row.urgent_ttft = in_ms(*p.urgent_ttft), row.urgent_tpot = in_ms(*p.urgent_tpot);
  row.stable_rate = p.stable_rate;
  row.trace = !q.load.trace.empty();
  if (price > 0 && p.tokens_per_gpu > 0) row.money = price / 3600 / p.tokens_per_gpu * 1e6;
  return row;
}

namespace {

// What --best looks at. Takes what is said of it out of the words.
Result<Space> space_of(Words& words) {
  Space space{.fixed = words.fixed, .batches = words.batch_tokens == 0};
  if (words.plan.precision.find(',') != std::string::npos) {
    std::istringstream all(words.plan.precision);
    for (std::string one; std::getline(all, one, ',');) space.precisions.push_back(one);
    words.plan.precision = space.precisions.front();
  }
  if (words.prefill == "off") {
    space.apart = false;
    words.prefill.clear();
  } else if (!words.prefill.empty()) {
    if (!words.prefill.starts_with("auto"))
      return bad_input("--prefill {}: --best finds the number of engines: auto:tp=4, or off for one pool",
                       words.prefill);
    space.together = false;
  }
  if (words.replicas > 1) space.apart = space.apart && !space.fixed.replicas;
  return space;
}

Result<report::ServeReport> head_of(Place& place, const Question& q, const Words& words) {
  WEFT_TRY(const kernels::Kernels* kernels, place.kernels(q.engine));
  WEFT_TRY(const Types types, types_of(q.shape, q.plan, q.engine, *kernels));
  report::ServeReport report{
      .model = q.shape.name,
      .machine = words.on,
      .card = place.part(),
      .engine = q.engine.release.empty() ? q.engine.name : fmt::format("{} ({})", q.engine.name, q.engine.release),
      .precision = std::string(kernels::name(q.shape.experts() ? types.experts : types.dense)),
      .cache = types.cache_bytes == 1 ? "fp8" : "bf16",
      .input = q.load.input,
      .output = q.load.output,
      .kernels = kernels->measured_part()};
  report.goal_ttft = words.ttft, report.goal_tpot = words.tpot, report.percentile = words.percentile;
  return report;
}

}  // namespace

Result<report::ServeReport> serve_words(const cost::MachineView& machine, const Words& words,
                                        std::shared_ptr<const Run>* run) {
  WEFT_TRY(Question q, understand(words));
  WEFT_TRY(Place place, Place::open(machine));
  if (q.prefill && q.prefills == 0) {
    WEFT_CHECK(check_plan(q.shape, *q.prefill));
    WEFT_CHECK(check_plan(q.shape, q.plan));
    WEFT_TRY(q.prefills, matching_prefills(place, q));
  }
  WEFT_TRY(report::ServeReport report, head_of(place, q, words));
  q.record = run != nullptr;
  if (words.faults.empty()) {
    WEFT_TRY(const Point p, answer(place, q));
    if (run != nullptr) *run = p.run;
    report.rows.push_back(row_of(q, p, words.price));
    return report;
  }
  WEFT_TRY(const Faulted f, answer_with_faults(machine, q, words.faults, words.restart));
  if (run != nullptr) *run = f.whole.run;
  report.rows.push_back(row_of(q, f.whole, words.price));
  report.fault = report::ServeFault{.faults = words.faults,
                                    .engines = f.engines,
                                    .lost = f.lost,
                                    .slowed = f.slowed,
                                    .ttft = in_ms(f.ttft),
                                    .tpot = in_ms(f.tpot),
                                    .tokens = f.tokens,
                                    .restart = words.restart,
                                    .waiting = f.waiting,
                                    .empty_again = f.empty_again,
                                    .stable_rate = f.slow.stable_rate ? f.slow.stable_rate : f.left.stable_rate};
  return report;
}

Result<report::ServeReport> best_words(const cost::MachineView& machine, const Words& asked,
                                       const std::function<void(std::size_t, std::size_t)>& progress) {
  Words words = asked;
  if (words.load.concurrency != 0 || words.load.rate != 0 || !words.trace.empty())
    return bad_input("--best looks for the load itself: no --concurrency, --rate or --trace");
  if (!words.faults.empty()) return bad_input("--fault is for one plan, not for --best");
  if (words.most < 1 || words.most > 65536)
    return bad_input("--max-concurrency {}: 1 to 65536 clients per engine", words.most);
  words.load.concurrency = 1;
  WEFT_TRY(Space space, space_of(words));
  WEFT_TRY(Question q, understand(words));
  space.prefill = std::exchange(q.prefill, std::nullopt);
  WEFT_TRY(Place place, Place::open(machine));
  WEFT_TRY(const BestPlans best, best_serving(place, q, space, q.goal, words.most, progress));
  if (!best.ranked.empty()) q.plan.precision = best.ranked.front().question.plan.precision;
  WEFT_TRY(report::ServeReport report, head_of(place, q, words));
  report.tried = best.tried;
  const auto row = [&](const Question& question, const Point& point) {
    report::ServeRow said = row_of(question, point, words.price);
    if (space.precisions.size() > 1) said.plan += ", " + question.plan.precision;
    return said;
  };
  for (const RankedPlan& r : best.ranked) {
    report.rows.push_back(row(r.question, r.point));
    report.rows.back().reason = r.reason;
  }
  for (const RankedPlan& r : best.lost) {
    report.rows.push_back(row(r.question, {}));
    report::ServeRow& lost = report.rows.back();
    lost.load.clear(), lost.options.clear();
    lost.gpus = r.question.gpus(), lost.reason = r.reason, lost.fits = false;
  }
  for (const Frontier& f : best.frontier) report.frontier.push_back(row(f.question, f.point));
  return report;
}

nlohmann::json to_json(const ServingComparison& c) {
  nlohmann::json rows = nlohmann::json::array(), errors = nlohmann::json::array();
  for (const ComparedRow& r : c.rows)
    rows.push_back({{"id", r.id},
                    {"ttft_ms", r.said_ttft},
                    {"tpot_ms", r.said_tpot},
                    {"measured_ttft_ms", r.ttft},
                    {"measured_tpot_ms", r.tpot},
                    {"reason", r.reason},
                    {"not_said", r.open}});
  for (const ErrorOf& e : c.errors())
    errors.push_back({{"of", e.name},
                      {"rows", e.rows},
                      {"answered", e.answered},
                      {"tpot_measured", e.tpot_measured},
                      {"ttft_measured", e.ttft_measured},
                      {"tpot_median", e.tpot_median},
                      {"tpot_mean", e.tpot_mean},
                      {"tpot_bias", e.tpot_bias},
                      {"ttft_median", e.ttft_median},
                      {"ttft_mean", e.ttft_mean},
                      {"ttft_bias", e.ttft_bias}});
  return {{"schema", "weft.serve-compare/1"}, {"errors", errors}, {"rows", rows}, {"columns_not_read", c.not_read}};
}

}  // namespace weft::serving
