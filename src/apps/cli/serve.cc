#include <optional>

#include "apps/cli/commands.h"
#include "apps/cli/progress.h"
#include "apps/serving/answer.h"
#include "apps/serving/compare.h"
#include "base/models/model.h"
#include "base/report/serve.h"
#include "base/text_file.h"

namespace weft::cli {
namespace {

struct Spec {
  serving::Words words;
  std::string json, compare, out;
  bool best = false;
  std::size_t shown = 10;
};

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
  return 0;
}

Result<report::ServeReport> report_of(const Spec& spec) {
  if (spec.words.model.empty())
    return bad_input("weft serve needs a MODEL: {}", fmt::join(models::catalog_names(), ", "));
  if (spec.words.on.empty() || spec.words.on == "this")
    return bad_input("weft serve needs --on MACHINE with GPUs (weft catalog lists presets)");
  if (!spec.best && (spec.words.ttft != 0 || spec.words.tpot != 0))
    return bad_input("--ttft and --tpot are goals of --best");
  if (!spec.out.empty()) return bad_input("--out is for --compare");
  WEFT_TRY(const Machine machine, load_machine(spec.words.on));
  serving::Words words = spec.words;
  words.on = machine.name;
  if (!spec.best) return serving::serve_words(*machine.view, words);
  Progress line;
  auto found = serving::best_words(*machine.view, words, [](std::size_t plan, std::size_t plans) {
    Progress::show(fmt::format("plan {} of {} …", plan, plans));
  });
  Progress::show("");
  return found;
}

Result<int> run(const Spec& spec) {
  if (!spec.compare.empty()) return compare(spec);
  WEFT_TRY(const report::ServeReport report, report_of(spec));
  if (spec.json != "-") fmt::print("{}", spec.best ? best_in_words(report, spec.shown) : in_words(report));
  if (!spec.json.empty()) WEFT_CHECK(write_json(spec.json, to_json(report)));
  // Above capacity, and a goal that no plan holds, are bad answers.
  return (spec.best && !report.rows.front().fits) || report.rows.front().stable_rate ? kBadAnswer : 0;
}

Result<nlohmann::json> answer(const Spec& spec) {
  if (!spec.compare.empty()) {
    WEFT_TRY(const std::string text, read_text_file(spec.compare));
    WEFT_TRY(const auto found, serving::compare_serving(spec.compare, text, {}));
    return serving::to_json(found);
  }
  WEFT_TRY(const report::ServeReport report, report_of(spec));
  return to_json(report);
}

}  // namespace

Command add_serve(CLI::App& app) {
  auto spec = std::make_shared<Spec>();
  serving::Words& w = spec->words;
  CLI::App* sub = app.add_subcommand("serve", "TTFT, TPOT and throughput of a served model on a machine");
  sub->add_option("model", w.model, "config.json of Hugging Face, or a name of the catalogue");
  sub->add_option("--on", w.on, "the machine, as for weft bench");
  sub->add_option("--engine", w.engine, "vllm, sglang or trtllm")->capture_default_str();
  sub->add_option("--tp", w.plan.tp, "tensor parallel, of attention and dense layers")->capture_default_str();
  sub->add_option("--pp", w.plan.pp, "pipeline stages")->capture_default_str();
  sub->add_option("--ep", w.plan.ep, "GPUs that experts are spread over")->capture_default_str();
  sub->add_option("--dp-attention", w.plan.dp, "replicas of attention, each with its own requests")
      ->capture_default_str();
  sub->add_option("--replicas", w.replicas, "engines that share the load")->capture_default_str();
  sub->add_option("--precision", w.plan.precision,
                  "of weights: bf16, fp8, fp8_block, fp4, int4 (default: the model's)");
  sub->add_option("--kv-dtype", w.plan.cache, "of keys and values: bf16 or fp8 (default: the engine's)");
  sub->add_option("--isl", w.load.input, "input tokens of a request")->capture_default_str();
  sub->add_option("--osl", w.load.output, "output tokens of a request")->capture_default_str();
  sub->add_option("--spread", w.load.spread, "lengths are uniform from this share of --isl and --osl up to them")
      ->capture_default_str();
  sub->add_option("--concurrency", w.load.concurrency, "clients that each wait for their answer");
  sub->add_option("--rate", w.load.rate, "requests/s that arrive at random (Poisson)");
  sub->add_option("--trace", w.trace,
                  "requests of a file: CSV (arrival_s,input_tokens,output_tokens) or Mooncake's JSON lines");
  sub->add_option("--trace-rate", w.trace_scale, "factor on the trace's rate")->capture_default_str();
  sub->add_option("--requests", w.load.requests, "requests that are served (default: enough for a steady state)");
  sub->add_option("--seed", w.load.seed, "of lengths and arrivals")->capture_default_str();
  sub->add_option("--prefill", w.prefill,
                  "prefill engines apart: 2:tp=4,ep=4, or auto:tp=4 for as many as decoding needs; the plan above is "
                  "then of decode engines");
  sub->add_option("--decode-engines", w.decodes, "decode engines, with --prefill")->capture_default_str();
  sub->add_flag("--benchmark", w.benchmark,
                "engines' intervals as published benchmarks set them (data/serving/engines.json)");
  sub->add_option("--price", w.price, "of a GPU-hour, in your currency: money per million output tokens");
  sub->add_flag("--best", spec->best, "every plan that fills the machine, its best load, and the frontier");
  sub->add_option("--ttft", w.ttft, "ms that --best allows");
  sub->add_option("--tpot", w.tpot, "ms that --best allows");
  sub->add_option("--percentile", w.percentile, "of TTFT and TPOT that must hold: 50, 90 or 99")->capture_default_str();
  sub->add_option("--max-concurrency", w.most, "clients per engine that --best goes up to")->capture_default_str();
  sub->add_option("--top", spec->shown, "plans that --best prints")->capture_default_str();
  sub->add_option("--compare", spec->compare, "a CSV of measured rows; errors by model, system and backend");
  sub->add_option("--out", spec->out, "write the predictions of --compare to this CSV")->check(writable);
  sub->add_option("--json", spec->json, "write weft.serve/1 to this file; - is stdout instead of the table")
      ->check(writable);
  sub->footer(fmt::format("{}{}{}", kExamples, fmt::join(models::catalog_names(), ", "), kMoreExamples));
  return {sub, [spec] { return run(*spec); }, [spec] { return answer(*spec); }};
}

}  // namespace weft::cli
