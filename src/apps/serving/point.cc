#include "apps/serving/point.h"

#include <algorithm>
#include <cmath>

#include "apps/serving/stable.h"
#include "base/counted.h"
#include "plan/cost/reload.h"

namespace weft::serving {
namespace {

constexpr double kGiB = 1073741824.0;

Quantiles quantiles(std::vector<double> values, double mean) {
  if (values.empty()) return {};
  std::ranges::sort(values);
  const auto at = [&](double q) {
    return values[std::min(values.size() - 1, static_cast<std::size_t>(q * static_cast<double>(values.size())))];
  };
  return {mean, at(0.5), at(0.9), at(0.99)};
}

// Benchmarks send ten requests per client, all clients at once in the beginning. A run with fewer rounds counts its
// first round for a tenth, as they have it.
template <class Value>
double mean_of(const std::vector<Request>& done, const Load& load, Value&& value) {
  constexpr double kFirstRound = 0.1;
  double first = 0, later = 0, firsts = 0, laters = 0;
  for (const Request& r : done)
    if (load.concurrency > 0 && r.arrival <= 0)
      first += value(r), ++firsts;
    else
      later += value(r), ++laters;
  if (firsts == 0 || laters == 0) return (first + later) / std::max(1.0, firsts + laters);
  const double share = std::min(firsts / (firsts + laters), kFirstRound);
  return share * first / firsts + (1 - share) * later / laters;
}

template <class Value>
Quantiles spread_of(const std::vector<Request>& done, const Load& load, Value&& value) {
  std::vector<double> values;
  values.reserve(done.size());
  for (const Request& r : done) values.push_back(value(r));
  return quantiles(std::move(values), mean_of(done, load, value));
}

struct Ready {
  Memory memory;
  double tokens = 0;
  std::unique_ptr<StepModel> step;
};

Result<Ready> prepare(Place& place, const Question& q, const Plan& plan) {
  WEFT_CHECK(check_plan(q.shape, plan));
  WEFT_TRY(const kernels::Kernels* kernels, place.kernels(q.engine));
  WEFT_CHECK(check_card(q.engine, *kernels));
  WEFT_TRY(const Types types, types_of(q.shape, plan, q.engine, *kernels));
  Ready ready;
  ready.memory = memory_of(q.shape, plan, q.engine, types, *kernels);
  const double length = static_cast<double>(q.load.input + q.load.output);
  ready.tokens = std::min(ready.memory.tokens(length, plan.dp), 1e15);
  ready.step = std::make_unique<StepModel>(q.shape, plan, q.engine.on(place.part()), types, *kernels, place.network());
  ready.step->slow_down(q.slow);
  return ready;
}

Status refuse(Place& place, const Question& q, const Plan& plan, const Ready& ready) {
  const double length = static_cast<double>(q.load.input + q.load.output);
  const std::string fits = what_fits(place, q);
  const std::string would = fits.empty() ? "; nothing on this machine makes it fit" : "; it fits with " + fits;
  const Memory& m = ready.memory;
  if (m.cache() <= 0)
    return bad_input(
        "{} with {} does not fit on {}: weights {:.1f} GiB and {:.1f} GiB of activations and reserve, {:.1f} GiB "
        "usable{}",
        q.shape.name, describe(plan), place.part(), m.weights / kGiB, (m.activations + m.reserved) / kGiB,
        m.usable / kGiB, would);
  return bad_input("{} with {} on {}: a request of {:.0f} tokens does not fit into a cache of {:.0f} tokens{}",
                   q.shape.name, describe(plan), place.part(), length, ready.tokens, would);
}

}  // namespace

Result<Place> Place::open(const cost::MachineView& view, std::vector<int> troubled) {
  Place place;
  if (view.endpoints() == 0) return bad_input("the machine has no GPU");
  place.part_ = view.topology().device(view.device(0)).model;
  if (place.part_.empty()) return bad_input("the machine's GPU is not named, so its rates are unknown");
  WEFT_TRY(const Engine engine, load_engine("vllm"));  // the same for all
  place.view_ = std::make_unique<cost::MachineView>(
      view.topology(), view.costs().with_launches(Duration::seconds(engine.graph_launch)), view.caches());
  place.network_ = std::make_unique<Network>(*place.view_, std::move(troubled));
  return place;
}

Result<const kernels::Kernels*> Place::kernels(const Engine& engine) {
  if (const auto found = kernels_.find(engine.name); found != kernels_.end()) return &found->second;
  WEFT_TRY(kernels::Kernels loaded, kernels::Kernels::load(part_, engine.kernels));
  loaded.set_launch_share(engine.launch_share);
  return &kernels_.emplace(engine.name, std::move(loaded)).first->second;
}

std::string what_fits(Place& place, const Question& q, const std::function<std::string(const Plan&)>& with) {
  const auto said = [&](const Plan& plan) { return with ? with(plan) : describe(plan); };
  const auto fits = [&](const Plan& plan) {
    if (plan.gpus() > place.gpus()) return false;
    const auto ready = prepare(place, q, plan);
    return ready && ready->memory.cache() > 0 && ready->tokens >= static_cast<double>(q.load.input + q.load.output);
  };
  std::vector<std::string> ways;
  for (Rank tp = 2 * q.plan.tp; ways.empty() && tp <= place.gpus(); tp *= 2) {
    Plan more = q.plan;
    more.tp = tp;
    if (more.ep > 1) more.ep = more.stage();
    if (fits(more)) ways.push_back(said(more));
  }
  const auto kernels = place.kernels(q.engine);
  for (const char* precision : {"fp8", "fp4"}) {
    if (!kernels || !(*kernels)->has_peak(precision)) continue;
    Plan smaller = q.plan;
    smaller.precision = precision;
    smaller.experts.clear();
    if (!fits(smaller)) continue;
    ways.push_back(fmt::format("{}", precision));
    break;
  }
  for (Rank pp = 2; ways.empty() && pp <= 16; pp *= 2) {
    Plan more = q.plan;
    more.pp = pp;
    if (fits(more)) ways.push_back(describe(more));
  }
  return fmt::format("{}", fmt::join(ways, ", or with "));
}

Result<Matching> match_prefills(Place& place, const Question& q) {
  WEFT_TRY(const Ready prefill, prepare(place, q, *q.prefill));
  WEFT_TRY(const Ready decode, prepare(place, q, q.plan));
  const auto input = static_cast<double>(q.load.input), output = static_cast<double>(q.load.output);
  // A prefill engine reads full iterations; a decode engine has its share of the clients, half through their answers.
  const double prompts = std::max(1.0, std::floor(q.engine.token_budget * q.prefill->dp * q.prefill->pp / input));
  Matching found;
  WEFT_TRY(const Parts reading,
           (*prefill.step)({.prefills = prompts, .prefill_tokens = prompts * input, .outputs = prompts}));
  found.reading = reading.total();
  found.rate = q.load.rate / q.replicas;
  if (q.load.concurrency > 0) {
    const double all = static_cast<double>(q.load.concurrency) / q.replicas, clients = all / q.decodes;
    WEFT_TRY(const Parts step,
             (*decode.step)({.decodes = clients, .context = clients * (input + output / 2), .outputs = clients}));
    found.step = step.total();
    found.rate = all / (output / q.engine.tokens_per_step() * step.total() + reading.total());
  }
  found.prefills = found.rate * reading.total() / prompts;
  return found;
}

Result<int> matching_prefills(Place& place, const Question& q) {
  constexpr double kMost = 64;  // engines
  WEFT_TRY(const Matching found, match_prefills(place, q));
  return static_cast<int>(std::clamp(std::round(found.prefills), 1.0, kMost));
}

namespace {

// The load of one engine, where several do the same.
Load share_of(const Question& q) {
  Load share = q.load;
  if (q.routed() && share.requests == 0 && share.rate > 0)  // as many for each as one alone would have
    share.requests = Source(share).count() * std::min(q.replicas, 32);
  if (q.replicas <= 1 || q.routed()) return share;
  if (share.concurrency > 0)
    share.concurrency = std::max<std::int64_t>(1, (share.concurrency + q.replicas - 1) / q.replicas);
  share.rate /= q.replicas;
  std::erase_if(share.trace, [&, n = 0](const Request&) mutable { return n++ % q.replicas != 0; });
  return share;
}

// Each GPU of a prefill engine sends its part to one of the decode engine, over its own way.
std::function<Result<double>(double)> mover(Place& place, const Question& q, const Memory& memory) {
  const Rank pairs = std::min(q.prefill->tp, q.plan.tp);
  const Network::Group apart{2, std::max(1, std::min(place.gpus() / 2, q.prefill->gpus() * q.prefills))};
  double token = memory.token * static_cast<double>(q.prefill->tp * q.prefill->pp) / static_cast<double>(pairs);
  if (q.shape.latent())
    token /= static_cast<double>(q.prefill->tp);  // every GPU has all of it: one copy goes, in parts
  return [&place, apart, token](double tokens) {
    return place.network()(Collective::kSendReceive, apart, token * tokens);
  };
}

// What is left of a cache's way when its prompt is computed: the last layer's, or what the network is behind.
std::function<Result<double>(double)> layer_mover(Place& place, const Question& q, const Ready& prefill) {
  const auto whole = mover(place, q, prefill.memory);
  const auto layers = static_cast<double>(std::max<std::int64_t>(1, q.shape.layers()));
  return [whole, layers, step = prefill.step.get()](double tokens) -> Result<double> {
    WEFT_TRY(const double layer, whole(tokens / layers));
    WEFT_TRY(const Parts computing, (*step)({.prefills = 1, .prefill_tokens = tokens, .outputs = 1}));
    return std::max(layer, layers * layer - computing.total() * (layers - 1) / layers);
  };
}

// All GPUs of an engine read their parts of a sequence at once; one copy of latent vectors goes to each of them.
Result<std::vector<LowerTier>> tiers_of(Place& place, const Question& q, const Plan& plan, const Memory& memory) {
  std::vector<LowerTier> tiers;
  const auto ranks = static_cast<Rank>(plan.tp);
  for (const auto& [name, bytes] : q.load.tiers) {
    WEFT_TRY(const cost::Tier part, cost::parse_tier(name));
    const double copies = q.shape.latent() ? 1 : static_cast<double>(plan.tp);
    const double token = std::max(1.0, memory.token);
    LowerTier tier{.tokens = std::min(bytes / (token * copies * static_cast<double>(plan.pp)), 1e15)};
    if (tier.tokens < 1) return bad_input("--tier {}: {:.0f} bytes hold no token", name, bytes);
    // A latency and a rate: two sizes say both.
    constexpr double kFew = 1, kMany = 65536;
    const auto read = [&](double tokens) {
      return cost::reload(place.network().machine(), part, ranks, static_cast<Bytes>(std::ceil(tokens * token)));
    };
    WEFT_TRY(const auto few, read(kFew));
    WEFT_TRY(const auto many, read(kMany));
    const double each = (many.time.s() - few.time.s()) / (kMany - kFew), first = few.time.s() - each;
    tier.reload = [first, each](double tokens) -> Result<double> { return first + each * tokens; };
    tiers.push_back(std::move(tier));
  }
  return tiers;
}

// A whole prompt computed, and read from each tier.
Status add_reloads(const Question& q, StepModel& step, const std::vector<LowerTier>& tiers, Point& p) {
  if (tiers.empty()) return {};
  const auto tokens = static_cast<double>(q.load.input);
  WEFT_TRY(const Parts computing, step({.prefills = 1, .prefill_tokens = tokens, .outputs = 1}));
  p.computing = computing.total();
  for (std::size_t t = 0; t < tiers.size(); ++t) {
    WEFT_TRY(const double reading, tiers[t].reload(tokens));
    p.reloading.emplace_back(q.load.tiers[t].first, reading);
  }
  return {};
}

// The same of the requests that go first, where not all have one priority.
template <class Ttft, class Tpot>
void add_urgent(const std::vector<Request>& done, const Load& share, Ttft&& ttft, Tpot&& tpot, Point& p) {
  const auto [least, most] = std::ranges::minmax(done, {}, &Request::priority);
  if (least.priority == most.priority) return;
  std::vector<Request> urgent, longer;
  for (const Request& r : done) {
    if (r.priority != least.priority) continue;
    urgent.push_back(r);
    if (r.output > 1) longer.push_back(r);
  }
  p.urgent_ttft = spread_of(urgent, share, ttft);
  p.urgent_tpot = spread_of(longer, share, tpot);
}

// The times and rates that users see of a run.
void add_times(const Question& q, const Load& share, const Run& run, Point& p) {
  const double response = q.engine.first_response;
  // Clients see tokens in groups: the first group when its last token is made.
  const double group = static_cast<double>(q.engine.stream_interval - 1);
  const auto grouped = [&](const Request& r) { return std::min(group, static_cast<double>(r.output - 1)) * r.tpot(); };
  const auto text = [&](const Request& r) { return q.engine.tokenise * static_cast<double>(r.input); };
  const auto ttft = [&](const Request& r) { return r.ttft() + grouped(r) + response + text(r); };
  p.ttft = spread_of(run.done, share, ttft);
  std::vector<Request> longer;
  for (const Request& r : run.done)
    if (r.output > 1) longer.push_back(r);
  const auto tpot = [&](const Request& r) {
    return (r.finished - r.first - grouped(r)) / static_cast<double>(std::max<std::int64_t>(1, r.output - 1));
  };
  p.tpot = spread_of(longer, share, tpot);
  p.kept = mean_of(run.done, share, [&](const Request& r) {
    const bool in_time = q.goal.ttft <= 0 || ttft(r) <= q.goal.ttft;
    return in_time && (q.goal.tpot <= 0 || r.output <= 1 || tpot(r) <= q.goal.tpot) ? 1.0 : 0.0;
  });
  add_urgent(run.done, share, ttft, tpot, p);
  p.end_to_end =
      spread_of(run.done, share, [&](const Request& r) { return r.finished - r.arrival + response + text(r); });
  p.queue = mean_of(run.done, share, [](const Request& r) { return r.started - r.arrival; });
  p.reading = mean_of(run.done, share, [](const Request& r) { return r.first - r.started - r.moved; });
  p.moving = mean_of(run.done, share, [](const Request& r) { return r.moved; });
  p.response = response + mean_of(run.done, share, grouped);
  p.text = mean_of(run.done, share, text);
}

Point point_of(const Question& q, const Load& share, const Run& run) {
  Point p;
  add_times(q, share, run, p);
  double outputs = 0, inputs = 0;
  for (const Request& r : run.done) outputs += static_cast<double>(r.output), inputs += static_cast<double>(r.input);
  const double engines = q.routed() ? 1 : q.replicas;
  p.gpus = q.gpus();
  if (run.seconds > 0) {
    p.tokens_per_gpu = outputs * engines / run.seconds / p.gpus;
    p.input_per_gpu = inputs * engines / run.seconds / p.gpus;
    p.requests_per_second = static_cast<double>(run.done.size()) * engines / run.seconds;
  }
  p.tokens_per_user = p.tpot.mean > 0 ? 1 / p.tpot.mean : 0;
  p.requests = static_cast<double>(run.done.size());
  if (run.decode_iterations > 0) {
    p.decode = run.decode * (1 / run.decode_iterations);
    p.step = run.decode_seconds / run.decode_iterations;
  }
  p.batch = run.batch;
  p.cache_used = run.cache_used;
  p.prefix_hits = inputs > 0 ? run.hit_tokens / inputs : 0;
  p.reloaded = inputs > 0 ? run.reloaded_tokens / inputs : 0;
  p.faster_computed = inputs > 0 ? run.faster_computed_tokens / inputs : 0;
  p.preemptions = run.preemptions;
  return p;
}

}  // namespace

Result<Point> answer(Place& place, const Question& asked) {
  Question q = asked;
  if (q.load.trace.empty()) WEFT_CHECK(check_context(q.shape, q.load.input, q.load.output));
  if (q.prefill && q.prefills == 0) {
    WEFT_TRY(q.prefills, matching_prefills(place, q));
  }
  if (q.gpus() > place.gpus())
    return bad_input("the plan needs {} ({}{}), the machine has {}", counted(q.gpus(), "GPU"), describe(q.plan),
                     q.plan.dp > 1 ? ": tp x dp-attention of them" : "", place.gpus());
  WEFT_TRY(const Ready decode, prepare(place, q, q.plan));
  const double length = static_cast<double>(q.load.input + q.load.output);
  if (decode.memory.cache() <= 0 || (q.load.trace.empty() && decode.tokens < length))
    return tl::make_unexpected(refuse(place, q, q.plan, decode).error());
  Ready prefill;
  Pools pools{.decode = decode.step.get(), .prefills = 0, .decodes = 1, .decode_tokens = decode.tokens};
  if (q.routed()) pools.decodes = q.replicas;
  if (q.prefill) {
    WEFT_TRY(prefill, prepare(place, q, *q.prefill));
    if (prefill.memory.cache() <= 0 || (q.load.trace.empty() && prefill.tokens < length))
      return tl::make_unexpected(refuse(place, q, *q.prefill, prefill).error());
    pools = {prefill.step.get(),
             decode.step.get(),
             q.prefills,
             q.decodes,
             prefill.tokens,
             decode.tokens,
             q.by_layer ? layer_mover(place, q, prefill) : mover(place, q, prefill.memory)};
  }
  WEFT_TRY(pools.below, tiers_of(place, q, q.prefill ? *q.prefill : q.plan, (q.prefill ? prefill : decode).memory));
  const Load share = share_of(q);
  pools.record = q.record;
  WEFT_TRY(Run run, serve_apart(pools, share));
  pools.record = false;
  Point p = point_of(q, share, run);
  p.memory = decode.memory;
  p.cache_tokens = decode.tokens;
  WEFT_CHECK(add_reloads(q, *(q.prefill ? prefill : decode).step, pools.below, p));
  if (share.rate > 0) {
    WEFT_TRY(p.stable_rate, largest_stable_rate([&](const Load& load) { return serve_apart(pools, load); }, share));
  } else if (!share.trace.empty()) {
    p.stable_rate = overloaded_by_trace(run);
  }
  if (q.record) p.run = std::make_shared<const Run>(std::move(run));
  if (p.stable_rate) *p.stable_rate *= q.routed() ? 1 : q.replicas;
  return p;
}

}  // namespace weft::serving
