#include "apps/training/answer.h"

#include <algorithm>
#include <map>
#include <optional>

#include "apps/training/largest.h"
#include "apps/training/layout.h"
#include "apps/training/outside.h"
#include "apps/training/software.h"
#include "apps/training/trouble.h"
#include "base/counted.h"
#include "base/text.h"

namespace weft::training {

report::TrainRow row_of(const Plan& plan, const Step& step, const Card& card) {
  report::TrainRow row{.plan = describe(plan),
                       .seconds = step.seconds,
                       .tokens_per_gpu = step.tokens_per_gpu,
                       .tflops = step.tflops,
                       .mfu = step.mfu};
  const auto& p = step.parts;
  row.parts = {{"gemm", p.gemm},
               {"attention", p.attention},
               {"memory_bound", p.memory_bound},
               {"host", p.host},
               {"tensor_exposed", p.tensor},
               {"context_exposed", p.context},
               {"expert_exposed", p.expert},
               {"imbalance", p.imbalance},
               {"bubble", p.bubble},
               {"data_exposed", p.data},
               {"optimizer", p.optimizer}};
  for (const Step::Sends& s : step.sends)
    row.sends.push_back({s.of, s.sent.calls, s.sent.bytes, s.sent.seconds, s.exposed});
  const auto& m = step.peak;
  row.memory = {{"parameters", m.parameters},       {"gradients", m.gradients}, {"optimizer", m.optimizer},
                {"activations", m.activations},     {"logits", m.logits},       {"temporary", m.temporary},
                {"fragmentation", m.fragmentation}, {"outside", m.outside}};
  for (const auto& stage : step.stages) row.stage_memory.push_back(stage.total());
  row.capacity = card.memory;
  row.fits = step.fits;
  row.fit = name(fit(step.peak, card));
  row.limit = step.limit();
  return row;
}

report::TrainReport report_of(const Model& model, const Words& words, const Question& question, std::int64_t gpus) {
  return {.model = model.name,
          .machine = words.on,
          .card = question.card.name + question.card.among,
          .precision = words.precision,
          .flops_formula = kFlopsFormula,
          .gpus = gpus,
          .software = question.plan.software,
          .fitted = question.card.fitted,
          .not_modelled = model.not_modelled,
          .uncounted_memory = uncounted_memory(question.plan, question.card),
          .rows = {}};
}

bool set_number(Words& words, std::string_view name, std::int64_t value) {
  std::string plain(name);
  std::ranges::replace(plain, '_', '-');
  Plan& plan = words.plan;
  for (const auto& [known, number] : {std::pair<std::string_view, std::int64_t*>{"tp", &plan.tp},
                                      {"pp", &plan.pp},
                                      {"vp", &plan.vp},
                                      {"dp", &words.dp},
                                      {"ep", &plan.ep},
                                      {"etp", &plan.etp},
                                      {"shard", &plan.shard},
                                      {"mtp", &plan.mtp},
                                      {"lora", &plan.lora},
                                      {"first-layers", &plan.first_layers},
                                      {"last-layers", &plan.last_layers},
                                      {"cp", &plan.cp},
                                      {"zero", &plan.zero},
                                      {"micro-batch", &plan.micro_batch},
                                      {"global-batch", &plan.global_batch},
                                      {"seq", &plan.seq},
                                      {"bucket", &plan.bucket},
                                      {"overlap", &plan.overlap},
                                      {"eager", &plan.eager},
                                      {"overlap-experts", &plan.overlap_experts}})
    if (plain == known) return *number = value, true;
  if (plain == "software") return words.software = std::to_string(value), true;
  if (plain == "gradient-bytes") return plan.gradient_bytes = static_cast<int>(value), true;
  if (plain == "optimizer-bytes") return plan.optimizer_bytes = static_cast<int>(value), true;
  return false;
}

Result<Words> parse_words(std::string_view text) {
  Words words;
  const std::size_t colon = text.find(':');
  words.model = std::string(text.substr(0, colon));
  if (words.model.empty()) return bad_input("'{}': a model is expected, e.g. llama3-70b:tp=8,pp=2", shown(text));
  for (std::size_t at = colon == std::string_view::npos ? text.size() : colon + 1; at < text.size();) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    const std::string_view option = text.substr(at, comma - at);
    at = comma + 1;
    const std::size_t equals = option.find('=');
    if (equals == std::string_view::npos)
      return bad_input("'{}' in {}: KEY=VALUE is expected", shown(option), shown(text));
    const std::string_view key = option.substr(0, equals), value = option.substr(equals + 1);
    static constexpr std::pair<std::string_view, std::string Words::*> kTexts[] = {
        {"recompute", &Words::recompute}, {"schedule", &Words::schedule},   {"precision", &Words::precision},
        {"compress", &Words::compress},   {"layout", &Words::layout},       {"freeze", &Words::freeze},
        {"optimizer", &Words::optimizer}, {"cp-by", &Words::cp_by},         {"dispatcher", &Words::dispatcher},
        {"software", &Words::software},   {"allocator", &Words::allocator}, {"launch", &Words::launch}};
    const auto text_key = std::ranges::find(kTexts, key, [](const auto& t) { return t.first; });
    if (text_key != std::end(kTexts)) {
      words.*(text_key->second) = value;
      continue;
    }
    if (!set_number(words, key, 0))
      return bad_input(
          "{}: '{}' is none of tp, pp, vp, dp, ep, etp, cp, zero, shard, micro-batch, global-batch, seq, bucket, "
          "overlap, overlap-experts, eager, first-layers, last-layers, layout, mtp, lora, freeze, optimizer, "
          "optimizer-bytes, "
          "gradient-bytes, cp-by, dispatcher, allocator, launch, software, recompute, schedule, compress, precision",
          shown(text), shown(key));
    WEFT_TRY(const std::int64_t number, parse_integer(key, value, 0, std::int64_t{1} << 31));
    set_number(words, key, number);
  }
  return words;
}

namespace {

// The machine's card. Where its nodes differ: the slowest, which all ranks wait for, with the least of their memories.
Result<Card> card_of(const cost::MachineView& machine, const Words& words) {
  std::map<std::string, std::int64_t> kinds;
  for (Rank r = 0; r < machine.endpoints(); ++r) ++kinds[machine.topology().device(machine.device(r)).model];
  std::optional<Card> slowest;
  double memory = 0, rates = 0;
  std::string text;
  for (const auto& [model, count] : kinds) {
    WEFT_TRY(Card card, load_card(model, words.precision, words.cards));
    const double rate = card.peak * card.gemm;
    rates += rate * static_cast<double>(count);
    memory = memory == 0 ? card.memory : std::min(memory, card.memory);
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, model);
    if (!slowest || rate < slowest->peak * slowest->gemm) slowest = std::move(card);
  }
  if (kinds.size() == 1) return *std::move(slowest);
  const double even = slowest->peak * slowest->gemm * static_cast<double>(machine.endpoints());
  slowest->among = fmt::format(
      " (the slowest of {}, which all wait for; replicas with shares of the batch by their rates would compute in "
      "{:.2f} of the time)",
      text, even / rates);
  slowest->memory = memory;
  return *std::move(slowest);
}

}  // namespace

Result<Question> understand(const Model& model, const cost::MachineView& machine, const Words& words) {
  if (!machine.costs().gpu()) return bad_input("--on {}: it has no GPUs", words.on);
  Question question{words.plan, {}};
  WEFT_TRY(question.card, card_of(machine, words));
  question.card.channels = channels_of(machine);
  Plan& plan = question.plan;
  plan.precision = words.precision;
  WEFT_TRY(plan.recompute, parse_recompute(words.recompute));
  WEFT_TRY(plan.schedule, parse_schedule(words.schedule));
  WEFT_TRY(plan.compression, parse_compression(words.compress));
  WEFT_TRY(plan.frozen, parse_frozen(words.freeze));
  WEFT_TRY(plan.optimizer, parse_optimizer(words.optimizer));
  WEFT_TRY(plan.context_by, parse_context_by(words.cp_by));
  WEFT_TRY(plan.dispatcher, parse_dispatcher(words.dispatcher));
  WEFT_TRY(plan.expandable_segments, parse_allocator(words.allocator));
  if (!words.launch.empty()) {
    WEFT_TRY(plan.launch, kernels::parse_launch(words.launch));
  }
  WEFT_TRY(const Release release, parse_release(words.software));
  plan.framework = release.framework, plan.month = release.month;
  if (release.year > 0) plan.software = release.year;
  if (!words.layout.empty()) {
    WEFT_TRY(Layout layout, parse_layout(words.layout));
    plan.layout = std::move(layout.layers), plan.mtp = std::max(plan.mtp, layout.mtp);
  }
  if (plan.optimizer == Optimizer::kMuon && plan.optimizer_bytes == Plan{}.optimizer_bytes) plan.optimizer_bytes = 8;
  WEFT_TRY(question.card, with_software(std::move(question.card), plan));
  if (plan.seq == 0) plan.seq = std::min(model.seq, kLongestUnasked);
  return question;
}

namespace {

// Fills in what is left of the machine, and checks the plan.
Status complete(Plan& plan, const Model& model, std::int64_t gpus, const Words& words) {
  const std::int64_t others = plan.tp * plan.pp * plan.cp;
  if (others <= 0) return bad_input("--tp, --pp and --cp are at least 1");
  if (words.dp == 0 && others > gpus)
    return bad_input("the plan needs {} (tp {} x pp {} x cp {}), {} has {}", counted(others, "GPU"), plan.tp, plan.pp,
                     plan.cp, words.on, gpus);
  if (words.dp == 0 && gpus % others != 0)
    return bad_input("{} of {} do not divide by tp {} x pp {} x cp {}", counted(gpus, "GPU"), words.on, plan.tp,
                     plan.pp, plan.cp);
  plan.dp = words.dp > 0 ? words.dp : gpus / others;
  return check_plan(model, plan);
}

Result<Step> step_with(const Model& model, const Plan& plan, const Card& card, const cost::MachineView& machine,
                       const std::vector<std::string>& faults, const std::shared_ptr<KnownParts>& parts) {
  WEFT_TRY(const Trouble trouble, trouble_of(machine, faults));
  Traffic traffic(trouble.machine, trouble.nodes, parts);
  return simulate_step(model, plan, card, traffic, trouble.slow_rank);
}

}  // namespace

Result<Answer> answer(const Model& model, const cost::MachineView& machine, const Words& words) {
  WEFT_TRY(Question question, understand(model, machine, words));
  Traffic traffic(machine);
  Plan& plan = question.plan;
  WEFT_CHECK(complete(plan, model, traffic.gpus(), words));
  Answer answer{question, report_of(model, words, question, plan.ranks()), {}, traffic.parts()};
  WEFT_TRY(answer.step, simulate_step(model, plan, question.card, traffic));
  if (!words.faults.empty()) {
    answer.report.faults = words.faults;
    answer.report.healthy_seconds = answer.step.seconds;
    WEFT_TRY(answer.step, step_with(model, plan, question.card, machine, words.faults, answer.parts));
  }
  report::TrainRow row = row_of(plan, answer.step, question.card);
  if (!answer.step.fits) row.remedy = what_would_fit(model, plan, question.card);
  answer.report.rows.push_back(std::move(row));
  if (words.largest) {
    const Largest most = largest(model, plan, question.card);
    answer.report.largest = {{"micro_batch", most.micro_batch},
                             {"micro_batch_tight", most.micro_batch_tight},
                             {"seq", most.seq},
                             {"seq_tight", most.seq_tight}};
  }
  if (words.run.tokens > 0 || words.run.failures > 0) {
    const std::int64_t nodes = std::max<std::int64_t>(1, plan.ranks() / std::max<Rank>(1, traffic.gpus_per_node()));
    answer.report.run = words.run;
    WEFT_TRY(answer.report.budget, budget_of(words.run, answer.step.tokens_per_gpu, plan.ranks(), nodes));
  }
  return answer;
}

namespace {

// The machine with its network at another rate, or with all links between its GPUs.
topology::Topology scaled(const topology::Topology& machine, bool network, double factor) {
  topology::Topology other;
  other.title = machine.title;
  other.routing = machine.routing;
  for (const topology::Device& d : machine.devices()) other.add(d);
  for (topology::Link l : machine.links()) {
    if (network ? l.kind == topology::LinkKind::kNetwork : topology::is_scale_up(l.kind))
      l.rate_ab = l.rate_ab * factor, l.rate_ba = l.rate_ba * factor;
    other.connect(l);
  }
  return other;
}

}  // namespace

std::vector<report::TrainReport::WhatIf> sensitivity(const Model& model, const cost::MachineView& machine,
                                                     const Words& words, const Answer& answer) {
  const Plan& plan = answer.question.plan;
  std::vector<report::TrainReport::WhatIf> all;
  const double own = answer.step.seconds;
  const auto add = [&](std::string what, const Result<Step>& step) {
    if (step)
      all.push_back({std::move(what), step->seconds, step->seconds / own - 1, ""});
    else
      all.push_back({std::move(what), 0, 0, step.error().message});
  };
  const auto on = [&](topology::Topology other, const Card& card) {
    return step_with(model, plan, card, cost::MachineView(std::move(other), machine.costs(), machine.caches()),
                     words.faults, answer.parts);
  };
  const auto with = [&](const char* fault) {
    std::vector<std::string> faults = words.faults;
    faults.emplace_back(fault);
    return step_with(model, plan, answer.question.card, machine, faults, answer.parts);
  };
  const bool several = machine.topology().nodes() > 1;
  if (several) add("network 10 % faster", on(scaled(machine.topology(), true, 1.1), answer.question.card));
  add("links between GPUs 10 % faster", on(scaled(machine.topology(), false, 1.1), answer.question.card));
  Card faster = answer.question.card;
  faster.gemm *= 1.1, faster.attention_forward *= 1.1, faster.attention_backward *= 1.1;
  add("GPUs compute 10 % faster", on(machine.topology(), faster));
  faster = answer.question.card;
  faster.bandwidth *= 1.1;
  add("GPU memory 10 % faster", on(machine.topology(), faster));
  add("one GPU 10 % slower (rank:0=slow:1.1x)", with("rank:0=slow:1.1x"));
  if (several) {
    add("one NIC less (nic:0/0=down)", with("nic:0/0=down"));
    add("one NIC at half its rate (nic:0/0=50%)", with("nic:0/0=50%"));
    add("one leaf switch less (switch:0=down)", with("switch:0=down"));
  }
  return all;
}

}  // namespace weft::training
