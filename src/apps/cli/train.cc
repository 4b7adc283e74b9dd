#include <functional>
#include <optional>
#include <set>

#include "apps/cli/at_least.h"
#include "apps/cli/commands.h"
#include "apps/cli/help.h"
#include "apps/cli/on_interrupt.h"
#include "apps/cli/progress.h"
#include "apps/cli/refused.h"
#include "apps/cli/tokens.h"
#include "apps/cli/train_config.h"
#include "apps/cli/train_effect.h"
#include "apps/cli/train_print.h"
#include "apps/training/answer.h"
#include "apps/training/best.h"
#include "apps/training/compare.h"
#include "apps/training/pictures.h"
#include "base/report/train.h"
#include "base/text_file.h"

namespace weft::cli {
namespace {

struct Spec {
  training::Words words{.model = "", .on = ""};
  std::string json, timeline, compare, config, svg, curves, cards, fit_levels;
  std::function<bool(const char* option)> given;  // on the command line
  std::int64_t shown = 10, vocab = 0;
  bool best = false, sensitivity = false;
};

constexpr const char* kExamples = R"(
How long a training step takes on a machine, whether it fits into memory, and what limits it. Communication is chosen and
simulated as `weft bench --on` does; computing comes from data/training/cards.json. MODEL is a config.json of Hugging Face
(file or folder) or a name: )";

constexpr const char* kMoreExamples = R"(

Examples:
  weft train llama3-70b --on dgx-h100:nodes=8 --tp 4 --pp 4 --vp 5 --global-batch 128 --seq 8192
  weft train llama3-8b --on dgx-h100 --zero 3 --global-batch 16 --timeline step.json    open it in Perfetto
  weft train llama3-70b --on dgx-h100:nodes=8 --tp 4 --pp 4 --svg step.svg --curves scaling.svg    lanes, memory, MFU
  weft train llama3-70b --on dgx-h100:nodes=16 --global-batch 512 --seq 4096 --best     all plans, ranked
  weft train llama3-70b --on dgx-h100:nodes=16 --tp 8 --global-batch 512 --fault nic:0/3=down    what a dead NIC costs
  weft train llama3-405b --on dgx-h100:nodes=2048 --tp 8 --pp 16 --global-batch 2048 --seq 8192 \
      --tokens 15.6e12 --price 2 --failures 6.5 --checkpoint-time 30 --spares 16
  weft train --config pretrain_gpt.sh --on dgx-h100:nodes=16       a run's own file
  weft train --compare steps.csv                           published or own steps against the model
  weft train llama3-70b --on dgx-h100:nodes=8 --tp 8 --cards mine.json    by weft calibrate --train runs.csv --out mine.json
)";

// The question that the command line and a run's own file ask.
struct Asked {
  training::Words words;
  training::Model model;
  Machine machine;
  std::set<std::string> fixed = {};  // options that --best does not change
};

BestPlans report_of(const Asked& asked, const training::Question& question, std::int64_t gpus, training::Plans plans) {
  BestPlans found{std::move(plans), question.card, training::report_of(asked.model, asked.words, question, gpus)};
  for (const auto& ranked : found.plans.ranked) {
    found.report.rows.push_back(training::row_of(ranked.plan, ranked.step, found.card));
    found.report.rows.back().reason = ranked.reason;
  }
  for (const auto& refused : found.plans.refused) {
    report::TrainRow row{.plan = describe(refused.plan), .fits = false, .reason = refused.reason};
    row.capacity = found.card.memory;
    found.report.rows.push_back(std::move(row));
  }
  return found;
}

using PlansProgress = std::function<void(const training::Plans& so_far, std::int64_t all)>;
// `progress`: see training::best_plans; may be empty.
Result<BestPlans> best(const Asked& asked, const PlansProgress& progress) {
  const cost::MachineView& machine = *asked.machine.view;
  training::Traffic traffic(machine);
  WEFT_TRY(const auto question, training::understand(asked.model, machine, asked.words));
  WEFT_TRY(training::Plans plans, training::best_plans(asked.model, question.plan, question.card, traffic,
                                                       training::kSimulatedPlans, progress, asked.fixed));
  BestPlans found = report_of(asked, question, traffic.gpus(), std::move(plans));
  if (asked.words.run.tokens > 0 || asked.words.run.failures > 0) {
    const std::int64_t nodes = std::max<std::int64_t>(1, traffic.gpus() / std::max<Rank>(1, traffic.gpus_per_node()));
    found.report.run = asked.words.run;
    WEFT_TRY(found.report.budget,
             training::budget_of(asked.words.run, found.report.rows.front().tokens_per_gpu, traffic.gpus(), nodes));
  }
  return found;
}

Result<training::OwnCards> own_cards(const Spec& spec) {
  training::OwnCards own;
  if (spec.cards.empty()) return own;
  WEFT_TRY(own.text, read_text_file(spec.cards));
  own.file = spec.cards;
  WEFT_CHECK(training::check_cards(own));
  return own;
}

Result<int> compare(const Spec& spec) {
  WEFT_TRY(const training::OwnCards cards, own_cards(spec));
  const auto emit = [&](const training::Comparison& found) -> Status {
    if (spec.json != "-") fmt::print("{}", training::in_words(found, spec.shown < 0));
    if (!spec.fit_levels.empty()) WEFT_CHECK(write_json(spec.fit_levels, training::levels_json(found)));
    return spec.json.empty() ? Status() : write_json(spec.json, training::to_json(found));
  };
  training::Comparison done;
  OnInterrupt interrupted([&] {
    Progress::show("");
    fmt::print(stderr, "weft: interrupted; {} of the rows are done\n", done.rows.size());
    if (done.rows.empty()) return;
    training::conclude(done);
    if (const auto emitted = emit(done); !emitted) report_error(emitted.error());
  });
  Progress line;
  WEFT_TRY(const training::Comparison found,
           training::compare_file(
               spec.compare,
               [&](const training::Comparison& so_far, std::int64_t rows) {
                 const std::lock_guard lock(interrupted.mutex());
                 done.rows.insert(done.rows.end(), so_far.rows.begin() + std::ssize(done.rows), so_far.rows.end());
                 Progress::show(fmt::format("row {} of {} …", so_far.rows.size() + 1, rows));
               },
               cards));
  const std::lock_guard lock(interrupted.mutex());
  Progress::show("");
  WEFT_CHECK(emit(found));
  return 0;
}

Result<Asked> ask(const Spec& spec, bool quiet) {
  training::Words words = spec.words;
  WEFT_TRY(words.cards, own_cards(spec));
  FromConfig file;
  if (!spec.config.empty()) {
    WEFT_TRY(file, read_train_config(spec.config, spec.vocab, spec.given, quiet, words));
  }
  if (words.model.empty())
    return bad_input(
        "weft train needs a MODEL: a config.json, or a name such as llama3-70b (weft train --help lists them)");
  if (words.on.empty() || words.on == "this")
    return bad_input("weft train needs --on MACHINE with GPUs (weft catalog lists presets)");
  WEFT_TRY(training::Model model,
           file.model ? Result<training::Model>(*file.model) : training::load_model(words.model));
  name_tuning(file, model);
  WEFT_TRY(Machine machine, load_machine(words.on));
  words.on = machine.name;
  complete(file, *machine.view, words);
  Asked asked{std::move(words), std::move(model), std::move(machine)};
  for (const char* option :
       {"tp", "pp", "vp", "cp", "ep", "etp", "dp", "zero", "shard", "micro-batch", "recompute", "dispatcher"})
    if (spec.given(option)) asked.fixed.insert(option);
  if (asked.words.dp > 0) asked.words.plan.dp = asked.words.dp;
  if (!spec.best) WEFT_CHECK(check_effect(asked.words, spec.given));
  return asked;
}

// `publish`: called with the answer before it is asked what would change it; may be empty.
Result<training::Answer> step_of(const Spec& spec, const Asked& asked,
                                 const std::function<void(const training::Answer&)>& publish) {
  WEFT_TRY(training::Answer answer, training::answer(asked.model, *asked.machine.view, asked.words));
  if (publish) publish(answer);
  if (spec.sensitivity)
    answer.report.what_if = training::sensitivity(asked.model, *asked.machine.view, asked.words, answer);
  return answer;
}

// All plans, ranked. Interrupted: those that were estimated.
Result<int> run_best(const Spec& spec, const Asked& asked) {
  const auto emit = [&](const BestPlans& found, bool simulated) -> Status {
    if (spec.json != "-") print_best(found, spec.shown, simulated);
    if (!spec.json.empty()) WEFT_CHECK(write_json(spec.json, to_json(found.report)));
    return spec.svg.empty() ? Status() : write_text(spec.svg, training::front_svg(found.plans, found.report));
  };
  training::Plans done;
  OnInterrupt interrupted([&] {
    Progress::show("");
    fmt::print(stderr, "weft: interrupted; {} of the plans are estimated, none is simulated\n", done.tried);
    const auto question = training::understand(asked.model, *asked.machine.view, asked.words);
    if (done.ranked.empty() || !question) return;
    std::ranges::stable_sort(done.ranked, {}, [](const training::Ranked& r) { return r.step.seconds; });
    const Rank gpus = asked.machine.view->endpoints();
    if (const auto emitted = emit(report_of(asked, *question, gpus, std::move(done)), false); !emitted)
      report_error(emitted.error());
  });
  Progress line;
  WEFT_TRY(const BestPlans found, best(asked, [&](const training::Plans& so_far, std::int64_t all) {
             const std::lock_guard lock(interrupted.mutex());
             for (const auto& [own, theirs] :
                  {std::pair(&done.ranked, &so_far.ranked), std::pair(&done.refused, &so_far.refused)})
               own->insert(own->end(), theirs->begin() + std::ssize(*own), theirs->end());
             done.tried = so_far.tried;
             if (so_far.tried % 16 == 0) Progress::show(fmt::format("plan {} of {} …", so_far.tried, all));
           }));
  const std::lock_guard lock(interrupted.mutex());
  Progress::show("");
  WEFT_CHECK(emit(found, true));
  return 0;
}

// One plan's step. Interrupted while it is asked what would change it: without that.
Result<int> run_step(const Spec& spec, const Asked& asked) {
  const auto emit = [&](const training::Answer& answer) -> Status {
    if (spec.json != "-") print_step(answer.report);
    if (!spec.json.empty()) WEFT_CHECK(write_json(spec.json, to_json(answer.report)));
    if (!spec.timeline.empty()) WEFT_CHECK(write_json(spec.timeline, timeline_of(answer.step)));
    if (!spec.svg.empty()) WEFT_CHECK(write_text(spec.svg, training::step_svg(answer)));
    if (spec.curves.empty()) return {};
    WEFT_TRY(const auto points, training::scaling(asked.model, *asked.machine.view, answer));
    return write_text(spec.curves, training::scaling_svg(points, answer.report));
  };
  std::optional<training::Answer> step;
  OnInterrupt interrupted([&] {
    Progress::show("");
    fmt::print(stderr, "weft: interrupted{}\n", step ? "; the step is simulated, what would change it is not" : "");
    if (!step) return;
    if (const auto emitted = emit(*step); !emitted) report_error(emitted.error());
  });
  Progress line;
  Progress::show("simulating the step …");
  WEFT_TRY(const training::Answer answer, step_of(spec, asked, [&](const training::Answer& so_far) {
             const std::lock_guard lock(interrupted.mutex());
             step = so_far;
             if (spec.sensitivity) Progress::show("simulating what would change it …");
           }));
  const std::lock_guard lock(interrupted.mutex());
  Progress::show("");
  WEFT_CHECK(emit(answer));
  return answer.report.rows.front().fits ? 0 : kBadAnswer;
}

Result<int> run(const Spec& spec) {
  if (!spec.compare.empty()) return compare(spec);
  WEFT_TRY(const Asked asked, ask(spec, false));
  return spec.best ? run_best(spec, asked) : run_step(spec, asked);
}

Result<nlohmann::json> answer(const Spec& spec) {
  if (!spec.compare.empty()) {
    WEFT_TRY(const training::OwnCards cards, own_cards(spec));
    WEFT_TRY(const training::Comparison found, training::compare_file(spec.compare, {}, cards));
    return training::to_json(found);
  }
  WEFT_TRY(const Asked asked, ask(spec, true));
  if (spec.best) {
    WEFT_TRY(const BestPlans found, best(asked, {}));
    return to_json(found.report);
  }
  WEFT_TRY(const training::Answer answer, step_of(spec, asked, {}));
  return to_json(answer.report);
}

// Errors (bad input): an option that this question leaves without effect.
Status check_options(const CLI::App& sub, const Spec& spec) {
  if (!spec.compare.empty())
    return only_options(sub, "weft train --compare", {"compare", "top", "fit-levels", "cards", "json"});
  WEFT_CHECK(no_options(sub, "weft train without --compare", {"fit-levels"}));
  if (spec.config.empty()) WEFT_CHECK(no_options(sub, "weft train without --config", {"vocab"}));
  const report::TrainRun& run = spec.words.run;
  if (run.tokens <= 0) WEFT_CHECK(no_options(sub, "weft train without --tokens", {"price"}));
  if (run.failures <= 0)
    WEFT_CHECK(no_options(sub, "weft train without --failures",
                          {"checkpoint-time", "checkpoint-every", "restart-time", "repair-time", "spares"}));
  if (spec.best) return no_options(sub, "weft train --best", {"sensitivity", "fit", "fault", "timeline", "curves"});
  return no_options(sub, "weft train without --best or --compare", {"top"});
}

void group(CLI::App& sub) {
  group_options(sub, "The machine", {"--on", "--fault", "--cards", "--software"});
  group_options(
      sub, "The plan",
      {"--tp",  "--pp",    "--vp",     "--dp",       "--ep",       "--etp",    "--dispatcher",   "--overlap-experts",
       "--cp",  "--cp-by", "--zero",   "--shard",    "--schedule", "--layout", "--first-layers", "--last-layers",
       "--mtp", "--lora",  "--freeze", "--optimizer"});
  group_options(sub, "The batch", {"--micro-batch", "--global-batch", "--seq"});
  group_options(sub, "How it computes",
                {"--precision", "--recompute", "--eager", "--optimizer-bytes", "--allocator", "--launch"});
  group_options(sub, "How gradients travel", {"--bucket", "--overlap", "--compress", "--gradient-bytes"});
  group_options(sub, "The whole run",
                {"--tokens", "--price", "--failures", "--checkpoint-time", "--checkpoint-every", "--restart-time",
                 "--repair-time", "--spares"});
  group_options(sub, "Questions",
                {"--best", "--top", "--sensitivity", "--fit", "--compare", "--fit-levels", "--config", "--vocab"});
  group_options(sub, "Output", {"--json", "--timeline", "--svg", "--curves"});
}

// Options appear in help and completion in the order in which they are added.

void add_model(CLI::App& sub, Spec& spec) {
  training::Plan& plan = spec.words.plan;
  sub.add_option("model", spec.words.model, "config.json of Hugging Face, or a name of the catalogue");
  sub.add_option("--config", spec.config,
                 "a run's own file: a script with Megatron-LM's or Hugging Face's arguments, YAML of NeMo, Automodel, "
                 "LLaMA-Factory, axolotl, accelerate, nanotron, OLMo, GPT-NeoX, torchtune, LitGPT, verl, NeMo-RL or "
                 "OpenRLHF, TOML "
                 "of torchtitan, JSON of DeepSpeed, a Python configuration as FILE:FUNCTION, a script's arguments "
                 "behind its name in one word; options "
                 "given here count more");
  sub.add_option("--vocab", spec.vocab, "with --config: the vocabulary, where the file names a tokenizer only")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 28));
  sub.add_option("--on", spec.words.on, "the machine, as for weft bench");
  sub.add_option("--tp", plan.tp, "tensor parallel")->capture_default_str();
  sub.add_option("--pp", plan.pp, "pipeline stages")->capture_default_str();
  sub.add_option("--vp", plan.vp, "chunks of layers per stage (interleaved 1F1B)")->capture_default_str();
  sub.add_option("--dp", spec.words.dp, "replicas (default: what is left of the machine)")->check(at_least(0));
  sub.add_option("--ep", plan.ep, "ranks that experts are spread over")->capture_default_str();
  sub.add_option("--etp", plan.etp, "ranks that share the matrices of an expert")->capture_default_str();
  sub.add_option("--overlap-experts", plan.overlap_experts,
                 "1: tokens travel to their experts beside another micro-batch's computing (DualPipe)")
      ->capture_default_str();
  sub.add_option("--dispatcher", spec.words.dispatcher,
                 "of tokens to experts: alltoall, or once to each node as deepep and hybridep")
      ->capture_default_str();
  sub.add_option("--allocator", spec.words.allocator,
                 "of PyTorch: default, or expandable as PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True")
      ->capture_default_str();
  sub.add_option("--launch", spec.words.launch,
                 "how the host launches kernels: eager (one by one, ahead of the GPU), blocking (each waited for: "
                 "CUDA_LAUNCH_BLOCKING=1), graphs (CUDA graphs); default: as --software's release does it");
}

void add_split(CLI::App& sub, Spec& spec) {
  training::Plan& plan = spec.words.plan;
  sub.add_option("--cp", plan.cp, "context parallel")->capture_default_str();
  sub.add_option("--cp-by", spec.words.cp_by,
                 "how keys and values reach all ranks of --cp: ring, all_gather, all_to_all (heads for tokens)")
      ->capture_default_str();
  sub.add_option("--zero", plan.zero, "stage of ZeRO: 0 to 3; 3 is FSDP")->capture_default_str();
  sub.add_option("--shard", plan.shard, "replicas that ZeRO spreads over (HSDP); 0: all")->capture_default_str();
  sub.add_option("--first-layers", plan.first_layers, "layers of the first stage (default: as the others)")
      ->check(at_least(0));
  sub.add_option("--last-layers", plan.last_layers, "layers of the last stage")->check(at_least(0));
  sub.add_option("--layout", spec.words.layout, "of all chunks, as Megatron-LM writes it: Et*3|(tt|)*29m|L");
  sub.add_option("--mtp", plan.mtp, "layers of multi-token prediction, on the last stage")->capture_default_str();
  sub.add_option("--lora", plan.lora, "rank of adapters beside frozen weights; 0: none")->capture_default_str();
  sub.add_option("--freeze", spec.words.freeze,
                 "parts that are not trained: embedding, attention, mlp, experts, output, all; several with commas")
      ->capture_default_str();
}

void add_step(CLI::App& sub, Spec& spec) {
  training::Plan& plan = spec.words.plan;
  sub.add_option("--optimizer", spec.words.optimizer, "adam or muon")->capture_default_str();
  sub.add_option("--micro-batch", plan.micro_batch, "sequences in a micro-batch")->capture_default_str();
  sub.add_option("--global-batch", plan.global_batch, "sequences in a step")->default_val(256);
  sub.add_option("--seq", plan.seq, "tokens of a sequence (default: the model's, at most 8192)");
  sub.add_option("--bucket", plan.bucket,
                 "MiB of gradients that are reduced at once (default: DDP's 25 or Megatron-LM's rule); not for ZeRO 3");
  sub.add_option(
         "--eager", plan.eager,
         "1: a kernel per operation, as PyTorch runs a model that is not compiled; 0: compiled (default: 1 with "
         "--software transformers and fsdp)")
      ->check(CLI::Range(0, 1));
  sub.add_option("--overlap", plan.overlap, "0: gradients and weights do not travel beside the passes")
      ->capture_default_str();
  sub.add_option("--recompute", spec.words.recompute, "none, selective or full")->capture_default_str();
  sub.add_option("--schedule", spec.words.schedule, "1f1b, zb-1p or zb-2p")->capture_default_str();
  sub.add_option("--compress", spec.words.compress,
                 "gradients, as DDP's hooks do with --zero 0: none, fp16, bf16, fp8, powersgd:RANK or topk:SHARE%; "
                 "encoding is charged")
      ->capture_default_str();
  sub.add_option("--precision", spec.words.precision, "of GEMMs: bf16, fp8, mxfp8, fp4")->capture_default_str();
  sub.add_option("--optimizer-bytes", plan.optimizer_bytes,
                 "of the optimizer's state per parameter: 12 for Adam with FP32 weights, 8 for Muon, 6 for BF16 states")
      ->check(CLI::Range(0, 32))
      ->capture_default_str();
  sub.add_option("--gradient-bytes", plan.gradient_bytes, "of a gradient that is reduced: 2 or 4")
      ->check(CLI::IsMember({2, 4}))
      ->capture_default_str();
  sub.add_option("--software", spec.words.software,
                 "year of the framework, or a framework and its release, e.g. megatron-bridge-26.04: fused attention "
                 "from 2023, overlapped TP from 2024, the level that its published steps reached")
      ->capture_default_str();
  sub.add_option("--cards", spec.cards, "rates of computing that weft calibrate --train fitted to your own runs");
}

void add_run(CLI::App& sub, Spec& spec) {
  report::TrainRun& run_asked = spec.words.run;
  sub.add_option("--fault", spec.words.faults,
                 "what is broken, as in bench: nic:0/3=down, switch:2=down, rank:5=slow:1.2x (docs/simulation.md)");
  sub.add_flag("--sensitivity", spec.sensitivity, "what the step would take with one thing better or worse");
  sub.add_option("--tokens", run_asked.tokens, "of the whole run, e.g. 15T or 15e12: days, GPU-hours, money")
      ->transform(tokens_of_a_run());
  sub.add_option("--price", run_asked.price, "of a GPU-hour, in your currency");
  sub.add_option("--failures", run_asked.failures,
                 "that end the job, per 1000 node-days; Meta's research clusters had 6.5 (arXiv 2410.21680)");
  sub.add_option("--checkpoint-time", run_asked.checkpoint_s, "seconds that training stands still for one");
  sub.add_option("--checkpoint-every", run_asked.checkpoint_every_s,
                 "seconds between checkpoints (default: what loses least)");
  sub.add_option("--restart-time", run_asked.restart_s, "seconds from a failure to the next step, with a spare node")
      ->capture_default_str();
  sub.add_option("--repair-time", run_asked.repair_s, "seconds until a failed node is back")->capture_default_str();
  sub.add_option("--spares", run_asked.spares, "nodes that stand ready, and are paid")->capture_default_str();
}

void add_questions(CLI::App& sub, Spec& spec) {
  sub.add_flag("--fit", spec.words.largest, "the largest micro-batch and the longest sequence that fit");
  sub.add_flag("--best", spec.best,
               "all plans that use the whole machine, ranked; options of a plan that are given stay");
  sub.add_option("--top", spec.shown, "plans that --best prints; -1 with --compare prints every row")
      ->capture_default_str();
  sub.add_option("--compare", spec.compare, "a CSV of measured steps: error, order of pairs, memory");
  sub.add_option("--fit-levels", spec.fit_levels,
                 "with --compare: write levels of software that fit its rows (data/training/levels.json) to this file")
      ->check(writable);
  sub.add_option("--json", spec.json, "write weft.train/1 to this file; - is stdout instead of the table")
      ->check(writable);
  sub.add_option("--timeline", spec.timeline, "write the step in Chrome's trace format (Perfetto)")->check(writable);
  sub.add_option("--svg", spec.svg,
                 "draw the step into this file: a lane per stage, what is exposed, memory; with --best the plans")
      ->check(writable);
  sub.add_option("--curves", spec.curves, "draw MFU and the bubble against the number of GPUs into this file")
      ->check(writable);
}

}  // namespace

Command add_train(CLI::App& app) {
  auto spec = std::make_shared<Spec>();
  CLI::App* sub = app.add_subcommand("train", "How long a training step takes on a machine, and which plan is best");
  spec->given = [sub](const char* option) { return sub->count(fmt::format("--{}", option)) > 0; };
  add_model(*sub, *spec);
  add_split(*sub, *spec);
  add_step(*sub, *spec);
  add_run(*sub, *spec);
  add_questions(*sub, *spec);
  group(*sub);
  sub->footer(fmt::format("{}{}{}", kExamples, fmt::join(training::model_names(), ", "), kMoreExamples));
  return {sub,
          [spec, sub]() -> Result<int> {
            WEFT_CHECK(check_options(*sub, *spec));
            return run(*spec);
          },
          [spec] { return answer(*spec); }};
}

}  // namespace weft::cli
