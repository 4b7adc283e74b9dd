#include <algorithm>
#include <optional>

#include "apps/cli/commands.h"
#include "apps/cli/progress.h"
#include "apps/cli/tokens.h"
#include "apps/serving/answer.h"
#include "apps/serving/compare.h"
#include "apps/serving/pictures.h"
#include "base/counted.h"
#include "base/models/model.h"
#include "base/report/serve.h"
#include "base/text_file.h"

namespace weft::cli {
namespace {

struct Spec {
  serving::Words words;
  std::vector<std::string> on;
  std::vector<double> prices;  // one for all machines, or one for each
  std::string json, compare, out, svg, timeline;
  bool best = false;
  std::size_t shown = 10;
  const CLI::App* sub = nullptr;

  bool typed(const char* option) const { return sub != nullptr && sub->count(option) > 0; }
};

// Options that would have no effect beside, or without, another one.
struct Pairing {
  const char* option;
  const char* other;
  bool together;  // the option needs the other one; otherwise it excludes it
};
constexpr Pairing kPairings[] = {
    {"--percentile", "--best", true},  {"--top", "--best", true},           {"--max-concurrency", "--best", true},
    {"--trace-rate", "--trace", true}, {"--prefix-cache", "--trace", true}, {"--restart", "--fault", true},
    {"--accept", "--drafts", true},    {"--drafts", "--accept", true},      {"--timeline", "--best", false},
    {"--router", "--best", false},     {"--tier", "--best", false},         {"--isl", "--trace", false},
    {"--osl", "--trace", false},       {"--spread", "--trace", false},      {"--requests", "--trace", false},
    {"--seed", "--trace", false},      {"--urgent", "--trace", false},      {"--urgent", "--best", false},
    {"--urgent", "--fault", false},    {"--ttft", "--fault", false},        {"--tpot", "--fault", false},
    {"--out", "--compare", true}};

Status check_options(const Spec& spec) {
  for (const Pairing& p : kPairings) {
    if (!spec.typed(p.option) || spec.typed(p.other) == p.together) continue;
    if (p.together) return bad_input("{} is for {}", p.option, p.other);
    return bad_input("{} has no effect with {}", p.option, p.other);
  }
  if (spec.typed("--compare"))
    for (const CLI::Option* option : spec.sub->get_options())
      if (option->count() > 0 && !option->check_name("--compare") && !option->check_name("--out") &&
          !option->check_name("--json"))
        return bad_input("{} has no effect with --compare, whose rows say it", option->get_name());
  // Zeros that would count as not asked.
  if (spec.typed("--concurrency") && spec.words.load.concurrency == 0)
    return bad_input("--concurrency 0: 1 to 1000000 clients");
  if (spec.typed("--rate") && spec.words.load.rate == 0)
    return bad_input("--rate 0: above 0 requests/s, at most 1000000");
  if (spec.typed("--requests") && spec.words.load.requests == 0) return bad_input("--requests 0: 1 to 10000000");
  if (spec.typed("--max-num-batched-tokens") && spec.words.batch_tokens == 0)
    return bad_input("--max-num-batched-tokens 0: from 1");
  if (spec.typed("--max-num-seqs") && spec.words.batch_sequences == 0) return bad_input("--max-num-seqs 0: from 1");
  if (spec.typed("--gpu-memory-utilization") && spec.words.memory_share == 0)
    return bad_input("--gpu-memory-utilization 0: a share above 0, at most 1");
  return {};
}

constexpr const char* kExamples = R"(
Serves a model on a modelled machine: an engine's loop in virtual time, kernels by shape (data/kernels), collectives by
weft's own choice and simulator. MODEL is a config.json of Hugging Face (file or folder) or a name: )";

constexpr const char* kMoreExamples = R"(

Examples:
  weft serve llama-3.1-70b --on hgx-h200 --engine vllm --tp 4 --precision fp8 --concurrency 64
  weft serve deepseek-r1 --on hgx-b200 --engine trtllm --tp 8 --ep 8 --precision fp4 --isl 8192 --osl 1024 --rate 2
  weft serve deepseek-r1 --on gb200-nvl72 --engine trtllm --precision fp4 --prefill auto:tp=4,ep=4 --dp-attention 8 \
      --ep 8 --decode-engines 2 --isl 8192 --osl 1024 --concurrency 512
  weft serve llama-3.1-70b --on hgx-h200 --precision fp8 --best --tpot 20 --ttft 500 --percentile 90 --price 2.5
  weft serve llama-3.1-70b --on hgx-h100 --on hgx-b200 --precision fp8 --best --tpot 20 --price 2.5 --price 5
  weft serve llama-3.1-8b --on dgx-h100 --replicas 8 --rate 30 --fault gpu:0/3=down      a dead GPU
  weft serve --compare rows.csv --out predictions.csv     measured rows against the model
)";

Result<int> compare(const Spec& spec) {
  WEFT_TRY(const std::string text, read_text_file(spec.compare));
  Progress line;
  WEFT_TRY(const auto found, serving::compare_serving(spec.compare, text, [](std::size_t row, std::size_t rows) {
             if (row % 16 == 1) Progress::show(fmt::format("row {} of {} …", row, rows));
           }));
  Progress::show("");
  if (!spec.out.empty()) WEFT_CHECK(write_text(spec.out, serving::predictions_csv(found)));
  if (spec.json != "-") fmt::print("{}", serving::in_words(found));
  if (!spec.json.empty()) WEFT_CHECK(write_json(spec.json, serving::to_json(found)));
  return 2 * found.answered() >= found.rows.size() ? 0 : kBadAnswer;
}

Status check_machines(const Spec& spec) {
  if (spec.words.model.empty())
    return bad_input(
        "weft serve needs a MODEL: a config.json, or a name such as llama-3.1-70b (weft catalog models lists them)");
  if (spec.on.empty() || std::ranges::find(spec.on, "this") != spec.on.end())
    return bad_input("weft serve needs --on MACHINE with GPUs (weft catalog lists presets)");
  if (spec.on.size() > 1 && (!spec.svg.empty() || !spec.timeline.empty()))
    return bad_input("--svg and --timeline are for one machine");
  if (spec.prices.size() > 1 && spec.prices.size() != spec.on.size())
    return bad_input("--price: {} for {}; one for all, or one for each", spec.prices.size(),
                     counted(spec.on.size(), "machine"));
  return {};
}

// The answer for one of the machines.
Result<report::ServeReport> report_of(const Spec& spec, std::size_t which,
                                      std::shared_ptr<const serving::Run>* run = nullptr) {
  WEFT_TRY(const Machine machine, load_machine(spec.on[which]));
  serving::Words words = spec.words;
  words.on = machine.name;
  if (!spec.prices.empty()) words.price = spec.prices[spec.prices.size() == 1 ? 0 : which];
  words.fixed = {spec.typed("--tp"), spec.typed("--pp"), spec.typed("--dp-attention"), spec.typed("--ep"),
                 spec.typed("--replicas")};
  if (!spec.best) return serving::serve_words(*machine.view, words, run);
  Progress line;
  auto found = serving::best_words(*machine.view, words, [](std::size_t plan, std::size_t plans) {
    Progress::show(fmt::format("plan {} of {} …", plan, plans));
  });
  Progress::show("");
  return found;
}

// Above capacity, and a goal that no plan holds, are bad answers.
bool good(const Spec& spec, const report::ServeReport& report) {
  const report::ServeRow& row = report.rows.front();
  return !(spec.best && !row.fits) && !row.stable_rate && !(report.fault && report.fault->stable_rate);
}

// Several machines side by side; one that cannot answer says why. Errors: none of them can, the first one's.
Result<report::ServeMachines> machines_of(const Spec& spec) {
  report::ServeMachines found;
  for (std::size_t i = 0; i < spec.on.size(); ++i) {
    auto one = report_of(spec, i);
    if (!one && spec.on.size() == 1) return tl::make_unexpected(std::move(one).error());
    found.machines.push_back(
        {spec.on[i], one ? std::optional(std::move(*one)) : std::nullopt, one ? std::string() : one.error().message});
  }
  if (std::ranges::none_of(found.machines, [](const auto& m) { return m.report.has_value(); }))
    return bad_input("{}", found.machines.front().reason);
  return found;
}

Result<int> run(const Spec& spec) {
  WEFT_CHECK(check_options(spec));
  if (!spec.compare.empty()) return compare(spec);
  WEFT_CHECK(check_machines(spec));
  if (spec.on.size() > 1) {
    WEFT_TRY(const report::ServeMachines all, machines_of(spec));
    if (spec.json != "-") fmt::print("{}", in_words(all));
    if (!spec.json.empty()) WEFT_CHECK(write_json(spec.json, to_json(all)));
    return std::ranges::any_of(all.machines, [&](const auto& m) { return m.report && good(spec, *m.report); })
               ? 0
               : kBadAnswer;
  }
  std::shared_ptr<const serving::Run> recorded;
  const bool record = !spec.timeline.empty() || (!spec.svg.empty() && !spec.best);
  WEFT_TRY(const report::ServeReport report, report_of(spec, 0, record ? &recorded : nullptr));
  if (!spec.svg.empty())
    WEFT_CHECK(write_text(spec.svg, spec.best ? serving::frontier_svg(report) : serving::run_svg(*recorded, report)));
  if (!spec.timeline.empty()) WEFT_CHECK(write_json(spec.timeline, serving::run_timeline(*recorded)));
  if (spec.json != "-") fmt::print("{}", spec.best ? best_in_words(report, spec.shown) : in_words(report));
  if (!spec.json.empty()) WEFT_CHECK(write_json(spec.json, to_json(report)));
  return good(spec, report) ? 0 : kBadAnswer;
}

Result<nlohmann::json> answer(const Spec& spec) {
  WEFT_CHECK(check_options(spec));
  if (!spec.compare.empty()) {
    WEFT_TRY(const std::string text, read_text_file(spec.compare));
    WEFT_TRY(const auto found, serving::compare_serving(spec.compare, text, {}));
    return serving::to_json(found);
  }
  WEFT_CHECK(check_machines(spec));
  if (spec.on.size() > 1) {
    WEFT_TRY(const report::ServeMachines all, machines_of(spec));
    return to_json(all);
  }
  WEFT_TRY(const report::ServeReport report, report_of(spec, 0));
  return to_json(report);
}

// Options appear in help and completion in the order in which they are added.

void add_plan(CLI::App& sub, Spec& spec) {
  serving::Words& w = spec.words;
  sub.add_option("model", w.model, "config.json of Hugging Face, or a name of the catalogue");
  sub.add_option("--on", spec.on, "the machine, as for weft bench; several times: side by side")
      ->allow_extra_args(false);
  sub.add_option("--engine", w.engine, "vllm, sglang or trtllm; a release: vllm-0.12")->capture_default_str();
  sub.add_option("--tp", w.plan.tp, "tensor parallel, of attention and dense layers")->capture_default_str();
  sub.add_option("--pp", w.plan.pp, "pipeline stages")->capture_default_str();
  sub.add_option("--ep", w.plan.ep, "GPUs that experts are spread over")->capture_default_str();
  sub.add_option("--dp-attention", w.plan.dp,
                 "replicas of attention, each with its own requests: an engine has tp x pp x dp-attention GPUs")
      ->capture_default_str();
  sub.add_option("--replicas", w.replicas, "engines that share the load")->capture_default_str();
  sub.add_option(
      "--precision", w.plan.precision,
      "of weights: bf16, fp8, fp8_block, fp4, int4, int8, w8a16 (default: the model's); several for --best: bf16,fp8");
  sub.add_option("--kv-dtype", w.plan.cache, "of keys and values: bf16 or fp8 (default: the engine's)");
}

void add_load(CLI::App& sub, serving::Words& w) {
  sub.add_option("--isl", w.load.input, "input tokens of a request")->transform(tokens())->capture_default_str();
  sub.add_option("--osl", w.load.output, "output tokens of a request")->transform(tokens())->capture_default_str();
  sub.add_option("--spread", w.load.spread, "lengths are uniform from this share of --isl and --osl up to them")
      ->capture_default_str();
  sub.add_option("--concurrency", w.load.concurrency, "clients that each wait for their answer");
  sub.add_option("--rate", w.load.rate, "requests/s that arrive at random (Poisson)");
  sub.add_option("--trace", w.trace,
                 "requests of a file, in a form of weft kv replay that says arrivals and lengths: CSV "
                 "(arrival_s,input_tokens,output_tokens; Azure; BurstGPT), Mooncake's JSON lines");
  sub.add_option("--trace-rate", w.trace_scale, "factor on the trace's rate")->capture_default_str();
  sub.add_option("--prefix-cache", w.prefix_cache,
                 "which blocks of prompts an engine keeps, of traces that name them: lru, lfu, s3-fifo (as weft kv "
                 "replay) or off")
      ->capture_default_str();
  sub.add_option(
      "--router", w.router,
      "among --replicas or prefill engines: fewest requests, round-robin, or kv-aware (the engine with least "
      "to compute and in its cache); all replicas are simulated then");
  sub.add_option(
         "--tier", w.tiers,
         "memory below the GPUs' that keeps blocks of prompts: a part and its bytes for each engine, e.g. dram:1T, "
         "nvme-gen5*4:8T; several times, the nearest first. Blocks are read where that is faster than computing")
      ->allow_extra_args(false);
  sub.add_option("--urgent", w.load.urgent,
                 "share of requests that go before the others (vLLM's priority -1; traces have a column priority)");
}

void add_engine(CLI::App& sub, serving::Words& w) {
  sub.add_option("--max-num-batched-tokens,--chunked-prefill-size,--max-num-tokens", w.batch_tokens,
                 "tokens of an iteration at most (default: the engine's)");
  sub.add_option("--max-num-seqs,--max-running-requests,--max-batch-size", w.batch_sequences,
                 "sequences of an iteration at most, of each replica of attention (default: what the cache holds)");
  sub.add_option("--gpu-memory-utilization,--mem-fraction-static", w.memory_share,
                 "share of a card's memory, counted as the engine counts it (default: the engine's)");
  sub.add_option("--requests", w.load.requests, "requests that are served (default: enough for a steady state)");
  sub.add_option("--seed", w.load.seed, "of lengths and arrivals")->capture_default_str();
  sub.add_option(
      "--prefill", w.prefill,
      "prefill engines apart: 2:tp=4,ep=4, or auto:tp=4 for as many as decoding needs; the plan above is "
      "then of decode engines, and --replicas counts such pairs of pools. --best: off for one pool, auto:tp=4 "
      "for this plan of prefill engines");
  sub.add_option("--kv-transfer", w.move,
                 "with --prefill: whole, caches cross when their prompt is computed; layers, each layer when it is")
      ->capture_default_str();
  sub.add_option("--decode-engines", w.decodes, "decode engines, with --prefill")->capture_default_str();
  sub.add_option("--fault", w.faults,
                 "what is broken, as in bench: nic:0/3=down, gpu:0/5=down, rank:2=slow:1.5x (docs/simulation.md): what "
                 "users see then, and how long until the queue is empty again")
      ->allow_extra_args(false);
  sub.add_option("--restart", w.restart, "seconds until engines with dead GPUs are back, with --fault")
      ->capture_default_str();
  sub.add_option("--launch", w.launch,
                 "how decoding's kernels are launched: graphs (CUDA graphs), eager (one by one from Python: "
                 "--enforce-eager, --disable-cuda-graph), blocking (so, and each waited for: CUDA_LAUNCH_BLOCKING=1)")
      ->capture_default_str();
  sub.add_option("--drafts", w.drafts,
                 "tokens that a draft layer guesses per step (multi-token prediction, EAGLE), with --accept");
  sub.add_option("--accept", w.accept, "probability that a draft is right if those before it are");
  sub.add_flag("--benchmark", w.benchmark,
               "engines' intervals as published benchmarks set them (data/serving/engines.json)");
}

void add_questions(CLI::App& sub, Spec& spec) {
  serving::Words& w = spec.words;
  sub.add_option("--price", spec.prices,
                 "of a GPU-hour, in your currency: money per million output tokens; once, or once per machine")
      ->allow_extra_args(false);
  sub.add_flag(
      "--best", spec.best,
      "every plan that fills the machine, in one pool and with prefill and decode apart, its best load and number "
      "of tokens an iteration, and the frontier; sizes that are given stay");
  sub.add_option("--ttft", w.ttft,
                 "ms that a request may take to its first token: its goodput, and what --best allows");
  sub.add_option("--tpot", w.tpot, "ms per further token");
  sub.add_option("--percentile", w.percentile, "of TTFT and TPOT that must hold: 50, 90 or 99")->capture_default_str();
  sub.add_option("--max-concurrency", w.most, "clients per engine that --best goes up to")->capture_default_str();
  sub.add_option("--top", spec.shown, "plans that --best prints")->capture_default_str();
  sub.add_option("--compare", spec.compare, "a CSV of measured rows; errors by model, system and backend");
  sub.add_option("--out", spec.out, "write the predictions of --compare to this CSV")->check(writable);
  sub.add_option(
         "--svg", spec.svg,
         "draw the run: iterations, queue, cache over time; with --best tokens/s per GPU over tokens/s per user")
      ->check(writable);
  sub.add_option("--timeline", spec.timeline, "write the run in Chrome's trace format (Perfetto)")->check(writable);
  sub.add_option("--json", spec.json, "write weft.serve/1 to this file; - is stdout instead of the table")
      ->check(writable);
}

}  // namespace

Command add_serve(CLI::App& app) {
  auto spec = std::make_shared<Spec>();
  CLI::App* sub = app.add_subcommand("serve", "TTFT, TPOT and throughput of a served model on a machine");
  spec->sub = sub;
  add_plan(*sub, *spec);
  add_load(*sub, spec->words);
  add_engine(*sub, spec->words);
  add_questions(*sub, *spec);
  sub->footer(fmt::format("{}{}{}", kExamples, fmt::join(models::catalog_names(), ", "), kMoreExamples));
  return {sub, [spec] { return run(*spec); }, [spec] { return answer(*spec); }};
}

}  // namespace weft::cli
