#include <algorithm>
#include <cmath>

#include "apps/advise/machines.h"
#include "apps/serving/answer.h"
#include "base/counted.h"

namespace weft::advise {
namespace {

using serving::Place;
using serving::Plan;
using serving::Question;

constexpr std::int64_t kMostClients = 512;  // per engine, as weft serve --best
constexpr double kAlike = 0.1;    // costs that lie nearer are not distinguished: half the measured rows are as far off
constexpr double kFarthest = 64;  // times the rate that the answer's turns are looked for

// One plan of one engine on one kind of machine.
struct Option {
  std::string engine;
  Question question;    // of one engine
  double capacity = 0;  // requests/s of one engine under the goals
  std::int64_t engines = 0;
  std::int64_t gpus() const { return engines * question.unit(); }
};

// What a machine can do: its options, the fewest GPUs first.
struct Offer {
  Candidate candidate;
  Opened machine;  // as many nodes as an engine needs
  std::unique_ptr<Place> place;
  std::vector<Option> options;
  std::string reason;  // why there is none
  double held = 0;     // requests/s at random arrivals that one engine of the row's plan was shown to hold
  std::int64_t engine_gpus = 0;
  report::AdviceRow row;

  // The price an hour of as many engines of the row's plan as a rate needs; negative: it cannot.
  double hourly(double rate) const {
    if (held <= 0) return -1;
    const double gpus = std::ceil(rate / held - 1e-9) * static_cast<double>(engine_gpus);
    return candidate.owned && gpus > static_cast<double>(machine.gpus) ? -1 : gpus * row.per_gpu_hour;
  }
};

std::string option_of(const char* name, std::int64_t value, std::int64_t otherwise) {
  return value == otherwise ? "" : fmt::format(" {} {}", name, value);
}

std::string command_of(const Words& w, const Offer& offer, const Option& o, double rate) {
  const Plan& p = o.question.plan;
  std::string pools;
  for (const auto& [name, value] : serving::row_of(o.question, {}, 0).options)
    if (name == "prefill" || name == "decode-engines") pools += fmt::format(" --{} {}", name, value);
  return fmt::format("weft serve {} --on {} --engine {}{}{}{}{}{}{} --isl {} --osl {} --rate {:.6g}", w.model,
                     offer.machine.name, o.engine, pools, w.precision.empty() ? "" : " --precision " + w.precision,
                     option_of("--tp", p.tp, 1), option_of("--pp", p.pp, 1), option_of("--dp-attention", p.dp, 1),
                     option_of("--ep", p.ep, 1), w.input, w.output, rate);
}

double at(const serving::Quantiles& q, std::int64_t percentile) {
  return percentile >= 99 ? q.p99 : percentile >= 90 ? q.p90 : q.median;
}

bool holds(const Words& w, const serving::Point& p) {
  return !p.stable_rate && (w.ttft <= 0 || at(p.ttft, w.percentile) * 1e3 <= w.ttft) &&
         (w.tpot <= 0 || at(p.tpot, w.percentile) * 1e3 <= w.tpot);
}

serving::Words words_of(const Words& w, const std::string& machine, const std::string& engine) {
  serving::Words words{.model = w.model, .on = machine, .engine = engine};
  words.plan.precision = w.precision;
  words.load.input = w.input, words.load.output = w.output, words.load.concurrency = 1;
  return words;
}

// All plans of an engine that hold the goals, on as many nodes as one engine needs.
Status add_options(const Words& w, const std::string& engine, Offer& offer) {
  WEFT_TRY(const Question q, serving::understand(words_of(w, offer.machine.name, engine)));
  WEFT_CHECK(serving::check_context(q.shape, w.input, w.output));
  const serving::Goal goal{w.ttft * 1e-3, w.tpot * 1e-3, static_cast<int>(w.percentile)};
  WEFT_TRY(const auto best, serving::best_serving(*offer.place, q, {.batches = false}, goal, kMostClients, {}));
  if (best.ranked.empty()) return bad_input("{}", best.lost.front().reason);
  for (const auto& ranked : best.ranked) {
    Option o{.engine = engine, .question = ranked.question};
    o.capacity = ranked.point.requests_per_second / ranked.question.replicas;
    o.engines = static_cast<std::int64_t>(std::ceil(w.rate / o.capacity - 1e-9));
    o.question.replicas = 1;
    offer.options.push_back(std::move(o));
  }
  return {};
}

std::vector<std::string> engines_of(const Words& w) { return w.engines.empty() ? serving::engine_names() : w.engines; }

// Opens the machine with one node, or with as many as an engine needs to fit.
Result<Offer> offer_of(const Words& w, const Candidate& candidate) {
  Offer offer{.candidate = candidate};
  for (std::int64_t nodes = 1; nodes <= 8; nodes *= 2) {
    WEFT_TRY(offer.machine, open(candidate.sized_to(nodes)));
    WEFT_TRY(Place place, Place::open(*offer.machine.view));
    offer.place = std::make_unique<Place>(std::move(place));
    offer.reason.clear();
    for (const std::string& engine : engines_of(w))
      if (const Status added = add_options(w, engine, offer); !added && offer.reason.empty())
        offer.reason = fmt::format("{}: {}", engine, added.error().message);
    if (!offer.options.empty()) offer.reason.clear();
    if (!offer.options.empty() || candidate.sized || offer.machine.gpus * 2 > w.largest) break;
  }
  std::ranges::stable_sort(offer.options, {}, &Option::gpus);
  return offer;
}

// The fewest engines that hold the goals at random arrivals, from the number that waiting clients need on.
// Unset: not even four times as many do.
Result<std::optional<serving::Point>> engines_at_random(const Words& w, Offer& offer, Option& o) {
  const auto ask = [&](std::int64_t engines) {
    Question q = o.question;
    q.load.concurrency = 0;
    q.load.rate = w.rate / static_cast<double>(engines);
    return serving::answer(*offer.place, q);
  };
  std::int64_t too_few = 0, enough = o.engines;
  std::optional<serving::Point> good;
  for (std::int64_t n = std::max<std::int64_t>(1, o.engines * 3 / 4); n <= 4 * o.engines;
       n += std::max<std::int64_t>(1, n / 4)) {
    WEFT_TRY(const serving::Point p, ask(n));
    enough = n;
    if (holds(w, p)) {
      good = p;
      break;
    }
    too_few = n;
  }
  while (good && enough - too_few > std::max<std::int64_t>(1, enough / 50)) {
    const std::int64_t middle = (enough + too_few) / 2;
    WEFT_TRY(const serving::Point p, ask(middle));
    if (holds(w, p))
      enough = middle, good = p;
    else
      too_few = middle;
  }
  o.engines = enough;
  return good;
}

std::string largest_part(const serving::Point& p) {
  const serving::Parts& d = p.decode;
  std::pair<double, const char*> most{0, "nothing"};
  for (const auto& part : {std::pair{d.dense, "dense GEMMs"},
                           {d.attention, "attention"},
                           {d.experts, "experts"},
                           {d.small, "small kernels"},
                           {d.tensor, "all-reduces of tensor parallelism"},
                           {d.exchange, "the exchange of experts"},
                           {d.pipeline, "the pipeline"},
                           {d.host, "the host"}})
    most = std::max(most, std::pair<double, const char*>(part));
  return fmt::format("{}, {:.0f} % of a decode step; the cache is {:.0f} % full", most.second,
                     p.step > 0 ? 100 * most.first / p.step : 0, 100 * p.cache_used);
}

std::string library_of(const Plan& p) {
  std::vector<std::string> all;
  if (p.tp > 1)
    all.push_back(p.tp <= 8 ? "the engine's own one- and two-shot all-reduces for small messages, NCCL for the others"
                            : "NCCL's all-reduces");
  if (p.dp > 1)
    all.push_back(p.ep > 1 ? "all-to-all or all-gather with reduce-scatter between experts, the faster one"
                           : "all-gather with reduce-scatter between replicas of attention");
  return all.empty() ? "none, an engine has one GPU" : fmt::format("{}", fmt::join(all, "; "));
}

// The options worth asking: the fewest GPUs by waiting clients, of each engine two.
std::vector<std::size_t> worth_asking(const Offer& offer) {
  std::vector<std::size_t> chosen;
  for (std::size_t i = 0; i < offer.options.size() && chosen.size() < 5; ++i) {
    const Option& o = offer.options[i];
    if (o.gpus() > offer.options[0].gpus() * 3 / 2) break;
    if (std::ranges::count_if(chosen, [&](std::size_t c) { return offer.options[c].engine == o.engine; }) < 2)
      chosen.push_back(i);
  }
  return chosen;
}

void fill(const Words& w, Offer& offer, const Option& o, const serving::Point& p) {
  report::AdviceRow& row = offer.row;
  const auto per_node = offer.machine.per_node;
  const Question& q = o.question;
  row.plan = fmt::format("{} x ({})", o.engines, q.prefill ? serving::row_of(q, p, 0).plan : describe(q.plan));
  row.engine = o.engine, row.library = library_of(o.question.plan), row.limit = largest_part(p);
  row.gpus = o.gpus(), row.nodes = (row.gpus + per_node - 1) / per_node;
  row.command = command_of(w, offer, o, w.rate / static_cast<double>(o.engines));
  row.ttft = at(p.ttft, w.percentile) * 1e3, row.tpot = at(p.tpot, w.percentile) * 1e3;
  row.tokens_per_second = p.tokens_per_gpu * static_cast<double>(row.gpus);
  row.holds = true;
}

// Does the offer keep to what is there and to the budget?
void judge(const Words& w, const Prices& prices, Offer& offer) {
  report::AdviceRow& row = offer.row;
  if (const Status priced = add_price(offer.candidate, prices, row); !priced) {
    row.holds = false, row.reason = priced.error().message;
    return;
  }
  row.money = row.hourly / (w.rate * static_cast<double>(w.output) * 3600) * 1e6;
  if (offer.candidate.owned && row.gpus > offer.machine.gpus)
    row.holds = false,
    row.reason = fmt::format("it takes {}, {} are there", counted(row.gpus, "GPU"), offer.machine.gpus);
  else if (row.gpus > w.largest)
    row.holds = false,
    row.reason = fmt::format("it takes {}, more than --max-gpus {}", counted(row.gpus, "GPU"), w.largest);
  else if (w.budget > 0 && row.hourly * kHoursOfMonth > w.budget)
    row.holds = false, row.reason = fmt::format("{:.4g} {} a month, {:.4g} allowed", row.hourly * kHoursOfMonth,
                                                prices.currency, w.budget);
}

// The cheapest of the offer's options at random arrivals.
Status choose(const Words& w, const Prices& prices, Offer& offer) {
  offer.row.machine = offer.candidate.name, offer.row.card = offer.machine.card;
  const Option* best = nullptr;
  serving::Point point;
  for (const std::size_t i : worth_asking(offer)) {
    Option& o = offer.options[i];
    WEFT_TRY(const auto found, engines_at_random(w, offer, o));
    if (found && (best == nullptr || o.gpus() < best->gpus())) best = &o, point = *found;
  }
  if (best == nullptr) {
    offer.row.reason =
        !offer.reason.empty() ? offer.reason : "the goals hold for clients that wait, but not for random arrivals";
    return {};
  }
  offer.held = w.rate / static_cast<double>(best->engines);
  offer.engine_gpus = best->question.unit();
  fill(w, offer, *best, point);
  judge(w, prices, offer);
  return {};
}

// The cheapest offer at a rate; null: none can.
const Offer* cheapest(const std::vector<Offer>& offers, double rate) {
  const Offer* best = nullptr;
  double least = 0;
  for (const Offer& o : offers) {
    if (o.row.plan.empty() || (!o.row.owned && o.row.per_gpu_hour <= 0)) continue;
    const double hourly = o.hourly(rate);
    if (hourly >= 0 && (best == nullptr || hourly < least)) best = &o, least = hourly;
  }
  return best;
}

std::string again(const Words& w, double rate) {
  std::string text = fmt::format("weft advise {} --rate {:.4g} --isl {} --osl {}", w.model, rate, w.input, w.output);
  for (const std::string& on : w.on) text += " --on " + on;
  for (const std::string& have : w.have) text += " --have " + have;
  if (!w.precision.empty()) text += " --precision " + w.precision;
  for (const std::string& engine : w.engines) text += " --engine " + engine;
  for (const double price : w.prices) text += fmt::format(" --price {:.6g}", price);
  if (w.ttft > 0) text += fmt::format(" --ttft {:.6g}", w.ttft);
  if (w.tpot > 0) text += fmt::format(" --tpot {:.6g}", w.tpot);
  return text + fmt::format(" --percentile {}", w.percentile);
}

// Rates below and above the asked one from which another machine is the cheapest.
void add_turns(const Words& w, const std::vector<Offer>& offers, report::Advice& advice) {
  constexpr double kStep = 1.05;
  const Offer* now = cheapest(offers, w.rate);
  if (now == nullptr) return;
  const auto turn = [&](double size, const Offer* to) {
    advice.turns.push_back(
        {size, to == nullptr ? "none of them does it" : to->candidate.name + " is the cheapest", again(w, size)});
  };
  for (double rate = w.rate; rate >= w.rate / kFarthest; rate /= kStep)
    if (const Offer* below = cheapest(offers, rate / kStep); below != now) {
      turn(rate, now);
      advice.turns.back().answer += fmt::format(", below it {}", below == nullptr ? "none" : below->candidate.name);
      break;
    }
  for (double rate = w.rate * kStep; rate <= w.rate * kFarthest; rate *= kStep)
    if (const Offer* above = cheapest(offers, rate); above != now) {
      turn(rate, above);
      break;
    }
}

// An engine's GPUs on a cheaper network.
Status add_fabrics(const Words& w, const Offer& offer, report::Advice& advice) {
  const auto chosen = std::ranges::find_if(offer.options, [&](const Option& o) {
    return offer.row.command == command_of(w, offer, o, w.rate / static_cast<double>(o.engines));
  });
  if (chosen == offer.options.end()) return {};
  if (chosen->question.unit() <= offer.machine.per_node) {
    advice.fabric_note = fmt::format(
        "An engine's {} within one node: the network between nodes carries requests and answers alone, and the "
        "cheapest does.",
        chosen->question.unit() == 1 ? "GPU lies" : fmt::format("{} GPUs lie", chosen->question.unit()));
    return {};
  }
  Question q = chosen->question;
  q.load.concurrency = 0, q.load.rate = w.rate / static_cast<double>(chosen->engines);
  for (const Fabric& fabric : cheaper_fabrics(offer.machine.name)) {
    report::AdviceFabric found{.fabric = fabric.words};
    Offer other{.candidate = offer.candidate};
    other.machine.name = fabric.machine;
    found.command = command_of(w, other, *chosen, q.load.rate);
    const auto changed = [&]() -> Result<double> {
      WEFT_TRY(const Opened machine, open(fabric.machine));
      WEFT_TRY(Place place, Place::open(*machine.view));
      WEFT_TRY(const serving::Point p, serving::answer(place, q));
      return at(p.tpot, w.percentile) * 1e3 / offer.row.tpot - 1;
    }();
    if (changed)
      found.change = *changed;
    else
      found.refused = changed.error().message;
    advice.fabrics.push_back(std::move(found));
  }
  return {};
}

// The first names what it is better at; the others what they cost more.
void rank(std::vector<Offer>& offers) {
  std::ranges::stable_sort(offers, [](const Offer& a, const Offer& b) {
    if (a.row.holds != b.row.holds) return a.row.holds;
    return a.row.hourly < b.row.hourly;
  });
  if (offers.empty() || !offers[0].row.holds) return;
  const double first = offers[0].row.hourly;
  for (std::size_t i = 1; i < offers.size() && offers[i].row.holds; ++i) {
    if (first <= 0)
      offers[i].row.reason = "the first is there already";
    else
      offers[i].row.reason =
          fmt::format("costs {:.0f} % more{}", 100 * (offers[i].row.hourly / first - 1),
                      offers[i].row.hourly <= first * (1 + kAlike) ? "; the model does not distinguish so little" : "");
  }
}

}  // namespace

Status advise_serving(const Words& w, const Prices& prices, const Progress& progress, report::Advice& advice) {
  WEFT_TRY(const std::vector<Candidate> all, candidates(w, prices));
  for (const std::string& engine : w.engines) WEFT_CHECK(serving::load_engine(engine));
  WEFT_TRY(const serving::Shape shape, serving::load_shape(w.model));
  WEFT_CHECK(serving::check_context(shape, w.input, w.output));
  if (w.input < 1 || w.output < 1) return bad_input("--isl and --osl: from 1 token");
  if (w.percentile != 50 && w.percentile != 90 && w.percentile != 99)
    return bad_input("--percentile {}: 50, 90 or 99", w.percentile);
  advice.model = shape.name, advice.input = w.input, advice.output = w.output;
  advice.precision = !w.precision.empty() ? w.precision : shape.quantised.empty() ? "bf16" : shape.quantised;
  std::vector<Offer> offers;
  for (const Candidate& candidate : all) {
    if (progress) progress(candidate.name);
    WEFT_TRY(Offer offer, offer_of(w, candidate));
    WEFT_CHECK(choose(w, prices, offer));
    offers.push_back(std::move(offer));
  }
  rank(offers);
  if (offers.front().row.holds) {
    WEFT_CHECK(add_fabrics(w, offers.front(), advice));
    add_turns(w, offers, advice);
  }
  for (Offer& offer : offers) advice.rows.push_back(std::move(offer.row));
  return {};
}

}  // namespace weft::advise
