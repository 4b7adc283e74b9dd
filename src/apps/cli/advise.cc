#include "apps/advise/advise.h"
#include "apps/cli/commands.h"
#include "apps/cli/progress.h"
#include "apps/cli/tokens.h"
#include "base/text.h"
#include "base/text_file.h"

namespace weft::cli {
namespace {

struct Spec {
  advise::Words words;
  std::string json, prices;
};

constexpr const char* kExamples = R"(
Which machine, how many GPUs, which plan, engine and network: the answers of weft serve --best and weft train --best sized
to the work and priced (data/prices: list prices and power, with sources and dates). Every figure stands beside the
command that prints it.

Examples:
  weft advise llama-3.1-70b --rate 20 --isl 2048 --osl 512 --ttft 1000 --tpot 30
  weft advise deepseek-r1 --rate 5 --isl 8K --osl 1K --tpot 25 --on hgx-h200 --on hgx-b200 --price 3 --price 5
  weft advise llama-3.1-8b --rate 40 --tpot 20 --have dgx-h100 --on hgx-b200
  weft advise llama3-70b --tokens 1e12 --deadline 60
  weft advise llama3-70b --tokens 1e12 --budget 2e6 --on dgx-h100 --on hgx-b200
  weft advise llama3-8b --tokens 1e11 --on dgx-h100:nodes=4 --json advice.json
)";

Result<report::Advice> ask(const Spec& spec, const advise::Progress& progress) {
  if (spec.words.model.empty())
    return bad_input("weft advise needs a MODEL: a config.json, or a name of the catalogue");
  WEFT_TRY(advise::Prices prices, advise::shipped_prices());
  if (!spec.prices.empty()) {
    WEFT_TRY(const std::string text, read_text_file(spec.prices));
    WEFT_TRY(prices, advise::parse_prices(spec.prices, text));
  }
  return advise::advise(spec.words, prices, progress);
}

Result<int> run(const Spec& spec) {
  Progress line;
  auto found = ask(spec, [](const std::string& what) { Progress::show(fmt::format("{} …", what)); });
  Progress::show("");
  if (!found) return tl::make_unexpected(found.error());
  if (spec.json != "-") fmt::print("{}", in_words(*found));
  if (!spec.json.empty()) WEFT_CHECK(write_json(spec.json, to_json(*found)));
  return !found->rows.empty() && found->rows.front().holds ? 0 : kBadAnswer;
}

Result<nlohmann::json> answer(const Spec& spec) {
  WEFT_TRY(const report::Advice found, ask(spec, {}));
  return to_json(found);
}

}  // namespace

Command add_advise(CLI::App& app) {
  auto spec = std::make_shared<Spec>();
  advise::Words& w = spec->words;
  CLI::App* sub =
      app.add_subcommand("advise", "Which machine, how many GPUs, which plan and engine for a piece of work");
  sub->add_option("model", w.model, "config.json of Hugging Face, or a name of the catalogue");
  const CLI::Validator above_zero(
      [](std::string& text) {
        double value = 0;
        const bool number = read_number(text, value).ec == std::errc();
        return number && !(value > 0) ? fmt::format("{}: a number above 0", text) : std::string();
      },
      "");
  sub->add_option("--rate", w.rate, "requests/s to serve")->check(above_zero);
  sub->add_option("--tokens", w.tokens, "to train on, e.g. 1T or 1e12")
      ->transform(tokens_of_a_run())
      ->check(above_zero);
  sub->add_option("--on", w.on,
                  "a machine to choose from; several times. Without nodes= it may have as many nodes as it takes "
                  "(default: those of the table of prices)")
      ->allow_extra_args(false);
  sub->add_option("--have", w.have, "a machine that is there: its GPUs cost nothing, and it has no more of them")
      ->allow_extra_args(false);
  sub->add_option("--price", w.prices, "of a GPU-hour instead of the table's; once, or once per --on")
      ->allow_extra_args(false);
  sub->add_option("--prices", spec->prices, "a file like data/prices/prices.json instead of it");
  sub->add_option("--budget", w.budget, "money: of the whole run, or of a month of serving")->check(above_zero);
  sub->add_option("--deadline", w.deadline, "days until the run is done, with --tokens")->check(above_zero);
  sub->add_option("--precision", w.precision, "of weights (default: the model's; training: bf16)");
  sub->add_option("--isl", w.input, "input tokens of a request")->transform(tokens())->capture_default_str();
  sub->add_option("--osl", w.output, "output tokens of a request")->transform(tokens())->capture_default_str();
  sub->add_option("--ttft", w.ttft, "ms until the first token at most")->check(above_zero);
  sub->add_option("--tpot", w.tpot, "ms per further token at most")->check(above_zero);
  sub->add_option("--percentile", w.percentile, "of TTFT and TPOT that must hold: 50, 90 or 99")->capture_default_str();
  sub->add_option("--engine", w.engines, "vllm, sglang or trtllm; several times (default: all of them)")
      ->allow_extra_args(false);
  sub->add_option("--global-batch", w.global_batch, "sequences in a step, with --tokens (default: 4 Mi tokens)");
  sub->add_option("--seq", w.seq, "tokens of a sequence, with --tokens (default: the model's, at most 8192)");
  sub->add_option("--max-gpus", w.largest, "that are looked at")->capture_default_str();
  sub->add_option("--json", spec->json, "write weft.advise/1 to this file; - is stdout instead of the table")
      ->check(writable);
  sub->footer(kExamples);
  return {sub, [spec] { return run(*spec); }, [spec] { return answer(*spec); }};
}

}  // namespace weft::cli
