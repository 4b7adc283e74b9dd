#include <algorithm>
#include <cmath>
#include <map>

#include "apps/advise/machines.h"
#include "apps/training/answer.h"
#include "apps/training/best.h"

namespace weft::advise {
namespace {

using training::Plan;
using training::Ranked;

constexpr double kDay = 86400;
constexpr double kAlike = 0.05;                  // costs that lie nearer are not distinguished
constexpr std::int64_t kTokensOfStep = 4 << 20;  // of a step where no --global-batch is given

// A machine with a number of nodes and the best plan there.
struct Sized {
  Opened machine;
  training::Card card;
  Plan plan;
  training::Step step;
  double tokens_per_second = 0;
  double days(double tokens) const { return tokens / tokens_per_second / kDay; }
};

std::string plan_options(const Plan& p) {
  std::string text;
  const auto add = [&](const char* name, std::int64_t value, std::int64_t otherwise) {
    if (value != otherwise) text += fmt::format(" --{} {}", name, value);
  };
  add("tp", p.tp, 1), add("pp", p.pp, 1), add("vp", p.vp, 1), add("cp", p.cp, 1), add("ep", p.ep, 1);
  add("etp", p.etp, 1), add("zero", p.zero, 1), add("shard", p.shard, 0), add("micro-batch", p.micro_batch, 1);
  if (p.recompute != training::Recompute::kNone) text += fmt::format(" --recompute {}", name(p.recompute));
  if (p.ep > 1 && p.dispatcher != training::Dispatcher::kAllToAll)
    text += fmt::format(" --dispatcher {}", name(p.dispatcher));
  return text;
}

class Trainer {
 public:
  Trainer(const Words& words, training::Model model, const Progress& progress)
      : w_(words), model_(std::move(model)), progress_(progress) {
    asked_ = {.model = words.model, .precision = words.precision.empty() ? "bf16" : words.precision};
    asked_.plan.seq = words.seq > 0 ? words.seq : std::min(model_.seq, training::kLongestUnasked);
    asked_.plan.global_batch =
        words.global_batch > 0 ? words.global_batch : std::max<std::int64_t>(1, kTokensOfStep / asked_.plan.seq);
  }

  // The best plan, estimated, or also simulated as weft train --best does.
  Result<Sized> best(const Candidate& candidate, std::int64_t nodes, bool simulated) {
    const std::string name = candidate.sized_to(nodes);
    if (progress_) progress_(name);
    Sized s;
    WEFT_TRY(s.machine, open(name));
    WEFT_TRY(const training::Question q, training::understand(model_, *s.machine.view, words_on(name)));
    training::Traffic traffic(*s.machine.view);
    WEFT_TRY(training::Plans plans,
             training::best_plans(model_, q.plan, q.card, traffic, simulated ? training::kSimulatedPlans : 0));
    s.card = q.card, s.plan = plans.ranked.front().plan, s.step = std::move(plans.ranked.front().step);
    s.tokens_per_second = s.step.tokens_per_gpu * static_cast<double>(s.machine.gpus);
    return s;
  }

  // Another machine or another choice of collectives, the plan as it is.
  Result<double> step_on(const std::string& machine, const Sized& like, bool nccl) const {
    WEFT_TRY(const Opened opened, open(machine));
    training::Traffic traffic(*opened.view);
    traffic.choose_as_nccl(nccl);
    WEFT_TRY(const training::Step step, training::simulate_step(model_, like.plan, like.card, traffic));
    return step.seconds;
  }

  std::string command(const std::string& machine, const std::string& more) const {
    return fmt::format("weft train {} --on {}{} --global-batch {} --seq {}{}", w_.model, machine,
                       w_.precision.empty() ? "" : " --precision " + w_.precision, asked_.plan.global_batch,
                       asked_.plan.seq, more);
  }
  const Words& words() const { return w_; }
  const training::Model& model() const { return model_; }
  const training::Words& asked() const { return asked_; }

 private:
  training::Words words_on(const std::string& machine) const {
    training::Words words = asked_;
    words.on = machine;
    return words;
  }
  const Words& w_;
  training::Model model_;
  training::Words asked_;
  const Progress& progress_;
};

// Numbers of nodes that are looked at: powers of two, and once and a half of them.
std::vector<std::int64_t> node_counts(std::int64_t most) {
  std::vector<std::int64_t> all;
  for (std::int64_t n = 1; n <= most; n *= 2) {
    all.push_back(n);
    if (n > 1 && n * 3 / 2 <= most) all.push_back(n * 3 / 2);
  }
  return all;
}

struct Offer {
  Candidate candidate;
  std::optional<Sized> sized;
  report::AdviceRow row;
};

// The fewest nodes that meet the deadline; without one the most that the budget pays, as more nodes cost more in all
// but are done sooner.
Result<Sized> size_for(Trainer& trainer, const Candidate& candidate, double price) {
  const Words& w = trainer.words();
  if (candidate.sized) return trainer.best(candidate, 1, true);
  WEFT_TRY(const Opened one, open(candidate.sized_to(1)));
  const auto counts = node_counts(std::max<std::int64_t>(1, w.largest / one.gpus));
  const auto good = [&](const Sized& s) {
    if (w.deadline > 0) return s.days(w.tokens) <= w.deadline;
    return price * s.days(w.tokens) * 24 * static_cast<double>(s.machine.gpus) > w.budget;
  };
  std::string refused;
  std::map<std::size_t, Sized> known;
  const auto ask = [&](std::size_t i) -> const Sized* {
    if (const auto at = known.find(i); at != known.end()) return &at->second;
    auto s = trainer.best(candidate, counts[i], false);
    if (s) return &known.emplace(i, std::move(*s)).first->second;
    refused = s.error().message;
    return nullptr;
  };
  // The smallest that fits, then from its rate the size that should do, and from there step by step.
  std::size_t at = 0;
  while (at < counts.size() && ask(at) == nullptr) ++at;
  if (at == counts.size()) return bad_input("{}", refused);
  const std::size_t smallest = at;
  const double share = w.deadline > 0 ? ask(at)->days(w.tokens) / w.deadline : 1;
  while (at + 1 < counts.size() && static_cast<double>(counts[at]) < share * static_cast<double>(counts[smallest]))
    ++at;
  while (at + 1 < counts.size() && (ask(at) == nullptr || !good(*ask(at)))) ++at;
  while (at > smallest && ask(at - 1) != nullptr && good(*ask(at - 1))) --at;
  if (w.deadline <= 0 && at > smallest && ask(at) != nullptr && good(*ask(at))) --at;  // the last that the budget pays
  return trainer.best(candidate, counts[at], true);
}

void fill(const Trainer& trainer, const Sized& s, report::AdviceRow& row) {
  const Words& w = trainer.words();
  row.card = s.machine.card, row.gpus = s.machine.gpus, row.nodes = s.machine.nodes;
  row.plan = describe(s.plan), row.limit = s.step.limit();
  row.tokens_per_second = s.tokens_per_second, row.days = s.days(w.tokens), row.mfu = s.step.mfu;
  row.command = trainer.command(s.machine.name, fmt::format(" --best --tokens {:.6g}", w.tokens));
  row.holds = true;
}

void judge(const Words& w, const std::string& currency, report::AdviceRow& row) {
  row.money = row.hourly * row.days * 24;
  if (w.deadline > 0 && row.days > w.deadline)
    row.holds = false, row.reason = fmt::format("{:.1f} days, {:.4g} allowed", row.days, w.deadline);
  else if (w.budget > 0 && row.money > w.budget)
    row.holds = false, row.reason = fmt::format("{:.4g} {}, {:.4g} allowed", row.money, currency, w.budget);
}

Offer offer_of(Trainer& trainer, const Candidate& candidate, const Prices& prices) {
  Offer offer{.candidate = candidate};
  report::AdviceRow& row = offer.row;
  row.machine = candidate.name;
  // The price first: without a deadline it decides the size.
  const auto one = open(candidate.sized_to(1));
  if (!one) return row.reason = one.error().message, offer;
  row.card = one->card, row.gpus = one->gpus;
  if (const Status priced = add_price(candidate, prices, row); !priced) {
    row.reason = priced.error().message, row.gpus = 0;
    return offer;
  }
  auto sized = size_for(trainer, candidate, row.per_gpu_hour);
  if (!sized) {
    row = {.machine = candidate.name, .card = one->card, .reason = sized.error().message};
    return offer;
  }
  fill(trainer, *sized, row);
  if (add_price(candidate, prices, row)) judge(trainer.words(), prices.currency, row);
  offer.sized = std::move(*sized);
  return offer;
}

void rank(std::vector<Offer>& offers) {
  std::ranges::stable_sort(offers, [](const Offer& a, const Offer& b) {
    if (a.row.holds != b.row.holds) return a.row.holds;
    return a.row.money < b.row.money;
  });
  const report::AdviceRow& first = offers[0].row;
  for (std::size_t i = 1; i < offers.size() && offers[i].row.holds; ++i) {
    report::AdviceRow& row = offers[i].row;
    row.reason =
        first.money <= 0
            ? "the first is there already"
            : fmt::format("costs {:.0f} % more{}", 100 * (row.money / first.money - 1),
                          row.money <= first.money * (1 + kAlike) ? "; the model does not distinguish so little" : "");
  }
}

void add_fabrics(const Trainer& trainer, const Sized& s, report::Advice& advice) {
  if (s.machine.nodes == 1) {
    advice.fabric_note = "All GPUs lie within one node: there is no network between them.";
    return;
  }
  for (const Fabric& fabric : cheaper_fabrics(s.machine.name)) {
    report::AdviceFabric found{.fabric = fabric.words,
                               .command = trainer.command(fabric.machine, plan_options(s.plan))};
    const auto seconds = trainer.step_on(fabric.machine, s, false);
    if (seconds)
      found.change = *seconds / s.step.seconds - 1;
    else
      found.refused = seconds.error().message;
    advice.fabrics.push_back(std::move(found));
  }
}

// NCCL's own choices beside weft's.
std::string library_of(const Trainer& trainer, const Sized& s) {
  const auto nccl = trainer.step_on(s.machine.name, s, true);
  const std::string name_of_data =
      s.step.data_algorithm.empty() ? "" : fmt::format(" (gradients by {})", s.step.data_algorithm);
  if (!nccl) return "weft's choice" + name_of_data;
  const double change = *nccl / s.step.seconds - 1;
  if (std::abs(change) <= training::kAlike)
    return fmt::format("NCCL's own choices do as well as the best known ones{}: {:+.1f} % of a step", name_of_data,
                       100 * change);
  return fmt::format("chosen as weft explain does{}; NCCL's own choices take {:+.1f} % of a step", name_of_data,
                     100 * change);
}

// The plan and the money on a quarter and on four times the nodes.
void add_turns(Trainer& trainer, const Offer& offer, const Prices& prices, report::Advice& advice) {
  if (offer.candidate.sized) return;
  const std::int64_t nodes = offer.sized->machine.nodes;
  for (const std::int64_t factor : {std::int64_t{-4}, std::int64_t{4}}) {
    const std::int64_t other = factor < 0 ? nodes / -factor : nodes * factor;
    if (other < 1 || other * offer.sized->machine.per_node > trainer.words().largest) continue;
    auto s = trainer.best(offer.candidate, other, false);
    report::AdviceTurn turn{.size = static_cast<double>(other * offer.sized->machine.per_node)};
    turn.command = trainer.command(offer.candidate.sized_to(other),
                                   fmt::format(" --best --tokens {:.6g}", trainer.words().tokens));
    if (!s) {
      turn.answer = s.error().message;
    } else {
      report::AdviceRow row;
      fill(trainer, *s, row);
      if (add_price(offer.candidate, prices, row)) judge(trainer.words(), prices.currency, row);
      turn.command = with_price(turn.command, row);
      turn.answer = fmt::format("{}, {:.1f} days, {:.0f} % MFU, {:.4g} {}", row.plan, row.days, 100 * row.mfu,
                                row.money, prices.currency);
    }
    advice.turns.push_back(std::move(turn));
  }
}

}  // namespace

Status advise_training(const Words& w, const Prices& prices, const Progress& progress, report::Advice& advice) {
  WEFT_TRY(const std::vector<Candidate> all, candidates(w, prices));
  WEFT_TRY(training::Model model, training::load_model(w.model));
  const bool sized = std::ranges::all_of(all, &Candidate::sized);
  if (w.deadline <= 0 && w.budget <= 0 && !sized)
    return bad_input("--tokens needs --deadline DAYS, --budget MONEY or machines of a given size (--on NAME:nodes=N)");
  Trainer trainer(w, std::move(model), progress);
  advice.model = trainer.model().name, advice.precision = trainer.asked().precision;
  std::vector<Offer> offers;
  for (const Candidate& candidate : all) offers.push_back(offer_of(trainer, candidate, prices));
  rank(offers);
  if (offers.front().row.holds) {
    offers.front().row.library = library_of(trainer, *offers.front().sized);
    add_fabrics(trainer, *offers.front().sized, advice);
    add_turns(trainer, offers.front(), prices, advice);
  }
  for (Offer& offer : offers) advice.rows.push_back(std::move(offer.row));
  return {};
}

}  // namespace weft::advise
