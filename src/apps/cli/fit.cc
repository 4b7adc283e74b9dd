#include "apps/cli/fit.h"
#include "apps/cli/fit_training.h"
#include "apps/cli/tokens.h"
#include "apps/serving/fit.h"
#include "base/text.h"

namespace weft::cli {
namespace {

constexpr std::int64_t kContext = 8192;
constexpr double kGiB = 1073741824.0;

struct Spec {
  std::string model, gpu, engine = "vllm", json;
  serving::Plan plan;
  std::int64_t gpus = 1, context = 0, lora = 0;  // context 0: kContext, or the model's where it is shorter
  bool train = false;
  std::function<bool(const std::string&)> given;
};

constexpr const char* kExamples = R"(
Does a model fit on a GPU, and what does one get? Weights, cache of keys and values, reserve, the longest request, how
many requests at once, and tokens/s with an interval.

Examples:
  weft fit llama-3.1-8b h100
  weft fit llama-3.1-70b h100 --gpus 4 --precision fp8
  weft fit deepseek-r1 b200 --gpus 8 --precision fp4 --context 32768
  weft fit ./config.json h200 --engine sglang --json fit.json
  weft fit llama-3.1-8b h100 --gpus 8 --train              what training it takes: the fastest plan, its memory
  weft fit llama-3.1-70b h100 --gpus 8 --train --lora 16
)";

Status check(const Spec& spec) {
  if (spec.context < 0 || spec.context == 1 || spec.context > 100'000'000)
    return bad_input("--context {}: 2 to 100000000 tokens", spec.context);
  if (spec.gpus < 1 || spec.gpus > 4096) return bad_input("--gpus {}: 1 to 4096", spec.gpus);
  for (const char* option : {"engine", "kv-dtype"})
    if (spec.train && spec.given(option)) return bad_input("--{}: is for serving, not with --train", option);
  if (!spec.train && spec.given("lora")) return bad_input("--lora: goes with --train");
  return {};
}

Result<TrainingFit> training_of(const Spec& spec) {
  WEFT_CHECK(check(spec));
  WEFT_TRY(const std::string preset, serving::preset_of(spec.gpu));
  TrainingFit asked{.model = spec.model, .preset = preset, .json = spec.json};
  asked.gpus = spec.gpus, asked.context = spec.context, asked.lora = spec.lora;
  if (!spec.plan.precision.empty()) asked.precision = spec.plan.precision;
  return asked;
}

Result<serving::Fitting> ask(Spec& spec) {
  WEFT_CHECK(check(spec));
  serving::Question q;
  WEFT_TRY(q.shape, serving::load_shape(spec.model));
  WEFT_TRY(q.engine, serving::load_engine(spec.engine));
  if (spec.context == 0) spec.context = q.shape.longest > 0 ? std::min(kContext, q.shape.longest) : kContext;
  WEFT_TRY(q.plan, serving::plan_on(q.shape, static_cast<Rank>(spec.gpus)));
  q.plan.precision = spec.plan.precision, q.plan.cache = spec.plan.cache;
  WEFT_TRY(const std::string preset, serving::preset_of(spec.gpu));
  const Rank per_node = preset.ends_with("nvl72") ? 72 : 8;
  // Room for what would make it fit: four machines at least.
  const Rank nodes = std::max<Rank>((q.plan.gpus() + per_node - 1) / per_node, per_node == 8 ? 4 : 1);
  WEFT_TRY(const Machine machine, load_machine(fmt::format("{}:nodes={}", preset, nodes)));
  WEFT_TRY(serving::Place place, serving::Place::open(*machine.view));
  return serving::fit_model(place, q, spec.context);
}

void print(const serving::Fitting& f, const Spec& spec) {
  const std::string gpus = spec.gpus == 1 ? f.card : fmt::format("{} {}", spec.gpus, f.card);
  const auto range = [&](double v) { return fmt::format("{:.0f} to {:.0f}", v * (1 - f.error), v * (1 + f.error)); };
  if (f.fits)
    fmt::print("{} ({}, cache {}) fits on {}: {} tokens/s for one request, {} for {} of {} tokens at once{}.\n\n",
               f.model, f.precision, f.cache, gpus, range(f.alone), range(f.full), f.running, spec.context,
               f.running < f.together
                   ? fmt::format(" (an engine runs {} at most; the cache holds {})", f.running, f.together)
                   : "");
  else
    fmt::print("{} ({}, cache {}) does not fit on {} with {} tokens{}.\n\n", f.model, f.precision, f.cache, gpus,
               spec.context, f.would.empty() ? "; nothing that was tried makes it fit" : "; it fits with " + f.would);
  fmt::print("{:<34} {:>10}\n", "memory of a GPU", "GiB");
  for (const auto& [name, bytes] : {std::pair{"the card's", f.memory.capacity},
                                    {"usable by the engine", f.memory.usable},
                                    {"weights", f.memory.weights},
                                    {"activations", f.memory.activations},
                                    {"reserve", f.memory.reserved},
                                    {"left for keys and values", f.memory.cache()}})
    fmt::print("{:<34} {:>10.2f}\n", name, bytes / kGiB);
  fmt::print("\n{:<34} {:>10.1f} KiB per GPU\n", "a token's keys and values", f.memory.token / 1024);
  fmt::print("{:<34} {:>10} tokens\n", "longest request", f.longest);
  fmt::print("{:<34} {:>10}\n", fmt::format("requests of {} tokens at once", spec.context), f.together);
}

nlohmann::json to_json(const serving::Fitting& f, const Spec& spec) {
  return {{"schema", "weft.fit/1"},
          {"model", f.model},
          {"card", f.card},
          {"gpus", spec.gpus},
          {"engine", spec.engine},
          {"precision", f.precision},
          {"cache", f.cache},
          {"context", spec.context},
          {"fits", f.fits},
          {"would_fit", f.would},
          {"capacity_bytes", f.memory.capacity},
          {"usable_bytes", f.memory.usable},
          {"weights_bytes", f.memory.weights},
          {"activations_bytes", f.memory.activations},
          {"reserve_bytes", f.memory.reserved},
          {"cache_bytes", f.memory.cache()},
          {"token_bytes", f.memory.token},
          {"longest_request_tokens", f.longest},
          {"requests_at_once", f.together},
          {"requests_running", f.running},
          {"plan", serving::describe(f.plan)},
          {"tokens_per_s_one", f.alone},
          {"tokens_per_s_full", f.full},
          {"interval", f.error}};
}

Result<int> run(Spec& spec) {
  if (spec.train) {
    WEFT_TRY(const TrainingFit asked, training_of(spec));
    return fit_training(asked);
  }
  WEFT_TRY(const serving::Fitting f, ask(spec));
  if (spec.json != "-") print(f, spec);
  if (!spec.json.empty()) WEFT_CHECK(write_json(spec.json, to_json(f, spec)));
  return f.fits ? 0 : kBadAnswer;
}

Result<nlohmann::json> answer(Spec& spec) {
  if (spec.train) {
    WEFT_TRY(const TrainingFit asked, training_of(spec));
    return training_fit_json(asked);
  }
  WEFT_TRY(const serving::Fitting f, ask(spec));
  return to_json(f, spec);
}

}  // namespace

Command add_fit(CLI::App& app) {
  auto spec = std::make_shared<Spec>();
  CLI::App* sub = app.add_subcommand("fit", "Does a model fit on a GPU, and what does one get?");
  sub->add_option("model", spec->model, "config.json of Hugging Face, or a name of the catalogue")->required();
  sub->add_option("gpu", spec->gpu,
                  "h100, h200, b200, b300, gb200, gb300, a100 (40 GB), a100-80gb, a100-pcie (80 GB), l40s, mi300x")
      ->required();
  sub->add_option("--gpus", spec->gpus,
                  "GPUs that share the model (tensor parallel; experts spread; replicas of attention for the rest)")
      ->capture_default_str();
  sub->add_option("--engine", spec->engine, "vllm, sglang or trtllm")->capture_default_str();
  sub->add_option("--precision", spec->plan.precision,
                  "of weights: bf16, fp8, fp8_block, fp4, int4, int8, w8a16 (default: the model's); with --train of "
                  "weft train: bf16, fp8, …");
  sub->add_option("--kv-dtype", spec->plan.cache, "of keys and values: bf16 or fp8 (default: the engine's)");
  sub->add_option(
         "--context", spec->context,
         "tokens of a request, a quarter of them made by the model (default: 8192, or the model's where it is less)")
      ->transform(tokens());
  sub->add_flag("--train", spec->train,
                "training instead: the fastest plan that fits for certain, else tightly, its memory, what would make "
                "it fit; --context is the sequence");
  sub->add_option("--lora", spec->lora, "with --train: rank of adapters beside frozen weights; 0: none")
      ->capture_default_str();
  spec->given = [sub](const std::string& option) { return sub->count("--" + option) > 0; };
  sub->add_option("--json", spec->json, "write weft.fit/1 to this file; - is stdout instead of the table")
      ->check(writable);
  sub->footer(kExamples);
  return {sub, [spec] { return run(*spec); }, [spec] { return answer(*spec); }};
}

}  // namespace weft::cli
