#include <unistd.h>

#include "base/text.h"
#include "cli/commands.h"
#include "report/train.h"
#include "workload/training/best.h"
#include "workload/training/compare.h"

namespace weft::cli {
namespace {

using training::Plan;
using training::Step;

constexpr double kGiB = 1073741824.0;

struct Spec {
  std::string model, on, recompute = "none", schedule = "1f1b", precision = "bf16", json, timeline, compare;
  Plan plan;
  std::int64_t dp = 0, shown = 10;
  bool best = false;
};

constexpr const char* kExamples = R"(
How long a training step takes on a machine, whether it fits into memory, and what limits it. Communication is chosen and
simulated as `weft bench --on` does; computing comes from data/training/cards.json. MODEL is a config.json of Hugging Face
(file or folder) or a name: )";

constexpr const char* kMoreExamples = R"(

Examples:
  weft train llama3-70b --on dgx-h100:nodes=8 --tp 4 --pp 4 --vp 5 --global-batch 128 --seq 8192
  weft train llama3-8b --on dgx-h100 --zero 3 --global-batch 16 --timeline step.json    open it in Perfetto
  weft train llama3-70b --on dgx-h100:nodes=16 --global-batch 512 --seq 4096 --best     all plans, ranked
  weft train --compare steps.csv                           published or own steps against the model
)";

// On a terminal, says how far a search has come.
void progress(std::int64_t tried, std::int64_t all) {
  if (isatty(STDERR_FILENO) != 0 && tried % 16 == 0) fmt::print(stderr, "\rplan {} of {} …", tried, all);
}

report::TrainRow row_of(const Plan& plan, const Step& step, const training::Card& card) {
  report::TrainRow row{.plan = describe(plan),
                       .seconds = step.seconds,
                       .tokens_per_gpu = step.tokens_per_gpu,
                       .tflops = step.tflops,
                       .mfu = step.mfu};
  const auto& p = step.parts;
  row.parts = {{"gemm", p.gemm},
               {"attention", p.attention},
               {"memory_bound", p.memory_bound},
               {"tensor_exposed", p.tensor},
               {"context_exposed", p.context},
               {"expert_exposed", p.expert},
               {"bubble", p.bubble},
               {"data_exposed", p.data},
               {"optimizer", p.optimizer}};
  const auto& m = step.peak;
  row.memory = {{"parameters", m.parameters},   {"gradients", m.gradients}, {"optimizer", m.optimizer},
                {"activations", m.activations}, {"logits", m.logits},       {"other", m.other}};
  for (const auto& stage : step.stages) row.stage_memory.push_back(stage.total());
  row.capacity = card.memory;
  row.fits = step.fits;
  row.limit = step.limit();
  return row;
}

std::string as_time(double seconds) { return format_duration(Duration::seconds(seconds)); }

void print_step(const report::TrainReport& report) {
  const report::TrainRow& row = report.rows.front();
  double need = 0;
  for (const auto& [name, bytes] : row.memory) need += bytes;
  fmt::print(
      "{} on {} GPUs of {}: {} a step, {:.1f} % MFU, {:.0f} tokens/s per GPU, {:.1f} of {:.0f} GiB{}; {:.0f} % "
      "computes, the largest loss is {}.\n",
      report.model, report.gpus, report.machine, as_time(row.seconds), 100 * row.mfu, row.tokens_per_gpu, need / kGiB,
      row.capacity / kGiB, row.fits ? "" : " (does not fit)",
      100 * (row.parts[0].second + row.parts[1].second + row.parts[2].second) / row.seconds, row.limit);
  if (!row.fits) {
    if (row.remedy.empty())
      fmt::print("No single change or pair of changes of the plan makes it fit.\n");
    else
      fmt::print("It would fit with {}.\n", row.remedy);
  }
  fmt::print("plan: {}; {} on {}, software of {}\n", row.plan, report.precision, report.card, report.software);
  for (const std::string& key : report.not_modelled) fmt::print("left out: {} of the model's config\n", key);
  fmt::print("\n{:<18} {:>10} {:>7}\n", "part of the step", "time s", "share %");
  for (const auto& [name, seconds] : row.parts)
    if (seconds > 0) fmt::print("{:<18} {:>10.4f} {:>7.1f}\n", name, seconds, 100 * seconds / row.seconds);
  fmt::print("\n{:<18} {:>10}\n", "memory", "GiB");
  for (const auto& [name, bytes] : row.memory) fmt::print("{:<18} {:>10.2f}\n", name, bytes / kGiB);
  if (row.stage_memory.size() > 1)
    fmt::print("{:<18} {:>10.2f}\n{:<18} {:>10.2f}\n", "first stage", row.stage_memory.front() / kGiB, "last stage",
               row.stage_memory.back() / kGiB);
  fmt::print("\nMFU counts {} per token, {:.0f} TFLOP/s per GPU.\n", report.flops_formula, row.tflops);
}

// Chrome's trace format: a lane per stage for passes, another for the communication of gradients.
nlohmann::json timeline_of(const Step& step) {
  nlohmann::json events = nlohmann::json::array();
  const auto add = [&](std::string name, std::size_t stage, int lane, double begin, double end) {
    events.push_back({{"name", std::move(name)},
                      {"ph", "X"},
                      {"pid", stage},
                      {"tid", lane},
                      {"ts", begin * 1e6},
                      {"dur", (end - begin) * 1e6}});
  };
  for (std::size_t s = 0; s < step.data_begin.size(); ++s) {
    for (const auto& [lane, name] : {std::pair{0, "computing"}, {1, "data-parallel communication"}})
      events.push_back({{"name", "thread_name"}, {"ph", "M"}, {"pid", s}, {"tid", lane}, {"args", {{"name", name}}}});
    events.push_back(
        {{"name", "process_name"}, {"ph", "M"}, {"pid", s}, {"args", {{"name", fmt::format("stage {}", s)}}}});
    if (step.data_end[s] > step.data_begin[s]) add("gradients", s, 1, step.data_begin[s], step.data_end[s]);
    add("optimizer", s, 0, step.data_end[s], step.data_end[s] + step.parts.optimizer);
  }
  for (const auto& p : step.pipeline.pieces)
    add(fmt::format("{} {}.{}",
                    p.pass == 'F'   ? "forward"
                    : p.pass == 'B' ? "backward"
                                    : "weights",
                    p.micro_batch, p.chunk),
        static_cast<std::size_t>(p.stage), 0, p.begin, p.end);
  return {{"traceEvents", events}, {"displayTimeUnit", "ms"}};
}

Result<int> best(const Spec& spec, const training::Model& model, const Plan& base, const training::Card& card,
                 training::Traffic& traffic, report::TrainReport& report) {
  constexpr int kSimulated = 3;
  const auto found = training::best_plans(model, base, card, traffic, kSimulated, progress);
  if (isatty(STDERR_FILENO) != 0) fmt::print(stderr, "\r{:<40}\r", "");
  WEFT_TRY(const training::Plans plans, found);
  for (const auto& ranked : plans.ranked) {
    report.rows.push_back(row_of(ranked.plan, ranked.step, card));
    report.rows.back().reason = ranked.reason;
  }
  if (spec.json != "-") {
    const report::TrainRow& first = report.rows.front();
    fmt::print(
        "The best of {} plans for {} on {} GPUs of {} is {}: {} a step, {:.1f} % MFU, {:.0f} tokens/s per GPU, {:.1f} "
        "of {:.0f} GiB.\n",
        plans.tried, model.name, report.gpus, report.machine, first.plan, as_time(first.seconds), 100 * first.mfu,
        first.tokens_per_gpu, plans.ranked.front().step.peak.total() / kGiB, card.memory / kGiB);
    fmt::print("{} plans fit, {} need too much memory. The first {} are simulated, the others estimated.\n\n",
               plans.ranked.size(), plans.refused.size(), std::min<std::size_t>(kSimulated, plans.ranked.size()));
    fmt::print("{:>4} {:>10} {:>7} {:>8}  {:<58} {}\n", "rank", "step s", "MFU %", "GiB", "plan", "why it lost");
    for (std::size_t i = 0; i < plans.ranked.size() && static_cast<std::int64_t>(i) < spec.shown; ++i) {
      const auto& r = plans.ranked[i];
      fmt::print("{:>4} {:>10.4f} {:>7.1f} {:>8.1f}  {:<58} {}\n", i + 1, r.step.seconds, 100 * r.step.mfu,
                 r.step.peak.total() / kGiB, describe(r.plan), r.reason);
    }
    for (std::size_t i = 0;
         i < plans.refused.size() && static_cast<std::int64_t>(i) < std::min<std::int64_t>(3, spec.shown); ++i)
      fmt::print("{:>4} {:>10} {:>7} {:>8}  {:<58} {}\n", "-", "", "", "", describe(plans.refused[i].plan),
                 plans.refused[i].reason);
  }
  for (const auto& refused : plans.refused) {
    report::TrainRow row{.plan = describe(refused.plan), .fits = false, .reason = refused.reason};
    row.capacity = card.memory;
    report.rows.push_back(std::move(row));
  }
  return 0;
}

Result<int> compare(const Spec& spec) {
  WEFT_TRY(const training::Comparison found, training::compare_file(spec.compare, progress));
  if (isatty(STDERR_FILENO) != 0) fmt::print(stderr, "\r{:<40}\r", "");
  if (spec.json == "-") {
    WEFT_CHECK(write_json("-", training::to_json(found)));
    return 0;
  }
  fmt::print("{}", training::in_words(found, spec.shown < 0));
  if (!spec.json.empty()) WEFT_CHECK(write_json(spec.json, training::to_json(found)));
  return 0;
}

Result<int> run(const Spec& spec) {
  if (!spec.compare.empty()) return compare(spec);
  if (spec.model.empty()) return bad_input("weft train needs a MODEL: {}", fmt::join(training::model_names(), ", "));
  if (spec.on.empty() || spec.on == "this")
    return bad_input("weft train needs --on MACHINE with GPUs (weft topo lists presets)");
  WEFT_TRY(const training::Model model, training::load_model(spec.model));
  WEFT_TRY(const Machine machine, load_machine(spec.on));
  if (!machine.view->costs().gpu()) return bad_input("--on {}: it has no GPUs", spec.on);
  training::Traffic traffic(*machine.view);
  WEFT_TRY(const training::Card card,
           training::load_card(machine.view->topology().device(machine.view->device(0)).model, spec.precision));
  Plan plan = spec.plan;
  plan.precision = spec.precision;
  WEFT_TRY(plan.recompute, training::parse_recompute(spec.recompute));
  WEFT_TRY(plan.schedule, training::parse_schedule(spec.schedule));
  if (plan.seq == 0) plan.seq = model.seq;
  report::TrainReport report{.model = model.name,
                             .machine = machine.name,
                             .card = card.name,
                             .precision = spec.precision,
                             .flops_formula = training::kFlopsFormula,
                             .gpus = traffic.gpus(),
                             .software = plan.software,
                             .not_modelled = model.not_modelled,
                             .rows = {}};
  if (spec.best) {
    WEFT_TRY(const int code, best(spec, model, plan, card, traffic, report));
    if (!spec.json.empty()) WEFT_CHECK(write_json(spec.json, to_json(report)));
    return code;
  }
  const std::int64_t others = plan.tp * plan.pp * plan.cp;
  if (others <= 0) return bad_input("--tp, --pp and --cp are at least 1");
  if (spec.dp == 0 && others > traffic.gpus())
    return bad_input("the plan needs {} GPUs (tp {} x pp {} x cp {}), {} has {}", others, plan.tp, plan.pp, plan.cp,
                     machine.name, traffic.gpus());
  if (spec.dp == 0 && traffic.gpus() % others != 0)
    return bad_input("{} GPUs of {} do not divide by tp {} x pp {} x cp {}", traffic.gpus(), machine.name, plan.tp,
                     plan.pp, plan.cp);
  plan.dp = spec.dp > 0 ? spec.dp : traffic.gpus() / others;
  WEFT_CHECK(check_plan(model, plan));
  report.gpus = plan.ranks();
  WEFT_TRY(const Step step, simulate_step(model, plan, card, traffic));
  report.rows.push_back(row_of(plan, step, card));
  if (!step.fits) report.rows.back().remedy = training::what_would_fit(model, plan, card);
  if (spec.json != "-") print_step(report);
  if (!spec.json.empty()) WEFT_CHECK(write_json(spec.json, to_json(report)));
  if (!spec.timeline.empty()) WEFT_CHECK(write_json(spec.timeline, timeline_of(step)));
  return 0;
}

}  // namespace

Command add_train(CLI::App& app) {
  auto spec = std::make_shared<Spec>();
  Plan& plan = spec->plan;
  CLI::App* sub = app.add_subcommand("train", "How long a training step takes on a machine, and which plan is best");
  sub->add_option("model", spec->model, "config.json of Hugging Face, or a name of the catalogue");
  sub->add_option("--on", spec->on, "the machine, as for weft bench");
  sub->add_option("--tp", plan.tp, "tensor parallel")->capture_default_str();
  sub->add_option("--pp", plan.pp, "pipeline stages")->capture_default_str();
  sub->add_option("--vp", plan.vp, "chunks of layers per stage (interleaved 1F1B)")->capture_default_str();
  sub->add_option("--dp", spec->dp, "replicas (default: what is left of the machine)")->check(CLI::NonNegativeNumber);
  sub->add_option("--ep", plan.ep, "ranks that experts are spread over")->capture_default_str();
  sub->add_option("--cp", plan.cp, "context parallel")->capture_default_str();
  sub->add_option("--zero", plan.zero, "stage of ZeRO: 0 to 3; 3 is FSDP")->capture_default_str();
  sub->add_option("--micro-batch", plan.micro_batch, "sequences in a micro-batch")->capture_default_str();
  sub->add_option("--global-batch", plan.global_batch, "sequences in a step")->default_val(256);
  sub->add_option("--seq", plan.seq, "tokens of a sequence (default: the model's)");
  sub->add_option("--recompute", spec->recompute, "none, selective or full")->capture_default_str();
  sub->add_option("--schedule", spec->schedule, "1f1b or zb-1p")->capture_default_str();
  sub->add_option("--precision", spec->precision, "of GEMMs: bf16, fp8, fp4")->capture_default_str();
  sub->add_option("--gradient-bytes", plan.gradient_bytes, "of a gradient that is reduced: 2 or 4")
      ->check(CLI::IsMember({2, 4}))
      ->capture_default_str();
  sub->add_option("--software", plan.software,
                  "year of the framework: fused attention from 2023, overlapped TP from 2024")
      ->capture_default_str();
  sub->add_flag("--best", spec->best, "all plans that use the whole machine, ranked");
  sub->add_option("--top", spec->shown, "plans that --best prints; -1 with --compare prints every row")
      ->capture_default_str();
  sub->add_option("--compare", spec->compare, "a CSV of measured steps: error, order of pairs, memory");
  sub->add_option("--json", spec->json, "write weft.train/1 to this file; - is stdout instead of the table")
      ->check(writable);
  sub->add_option("--timeline", spec->timeline, "write the step in Chrome's trace format (Perfetto)")->check(writable);
  sub->footer(fmt::format("{}{}{}", kExamples, fmt::join(training::model_names(), ", "), kMoreExamples));
  return {sub, [spec] { return run(*spec); }};
}

}  // namespace weft::cli
