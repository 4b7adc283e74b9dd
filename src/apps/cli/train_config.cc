#include "apps/cli/train_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <iomanip>
#include <numeric>
#include <sstream>
#include <utility>

#include "apps/cli/train_print.h"
#include "apps/training/config/config.h"
#include "apps/training/traffic.h"
#include "base/job_text.h"
#include "base/text.h"
#include "base/text_file.h"

namespace weft::cli {
namespace {

// FILE, FILE:FUNCTION of a Python file with several configurations, or a script with its arguments, as a shell would
// get them.
std::string split_off_hints(std::string file, training::ConfigHints& hints) {
  if (const std::size_t colon = file.rfind(':'); colon != std::string::npos && file.substr(0, colon).ends_with(".py")) {
    hints.function = file.substr(colon + 1);
    file.resize(colon);
  }
  if (file_exists(file)) return file;
  // The longest name that is a file: folders may have blanks.
  for (std::size_t blank = file.rfind(' '); blank != std::string::npos && blank > 0;
       blank = file.rfind(' ', blank - 1)) {
    if (!file_exists(file.substr(0, blank))) continue;
    std::istringstream words(file.substr(blank));
    for (std::string word; words >> std::quoted(word);) hints.arguments.push_back(word);
    return file.substr(0, blank);
  }
  return file;
}

}  // namespace

Result<FromConfig> read_train_config(const std::string& config_file, std::int64_t vocab,
                                     const std::function<bool(const char* option)>& given, bool quiet,
                                     training::Words& words) {
  training::ConfigHints hints;
  const std::string file = split_off_hints(config_file, hints);
  if (vocab != 0) hints.vocab = vocab;
  WEFT_TRY(std::string packed, read_text_file(file));
  const std::string text = plain_text(std::move(packed));
  WEFT_TRY(training::Config config, training::parse_config(file, text, hints));
  for (const auto& [name, value] : config.numbers)
    if (!given(name.c_str())) set_number(words, name, value);
  if (!config.recompute.empty() && !given("recompute")) words.recompute = config.recompute;
  if (!config.precision.empty() && !given("precision")) words.precision = config.precision;
  if (!config.dispatcher.empty() && !given("dispatcher")) words.dispatcher = config.dispatcher;
  if (!config.optimizer.empty() && !given("optimizer")) words.optimizer = config.optimizer;
  if (!config.allocator.empty() && !given("allocator")) words.allocator = config.allocator;
  if (!config.launch.empty() && !given("launch")) words.launch = config.launch;
  FromConfig found{.tuning = config.tuning};
  if (!config.numbers.contains("global-batch") && !given("global-batch"))
    found.accumulate = config.accumulate.value_or(0);
  found.shard_in_node = config.shard_in_node && !given("shard") && !given("zero");
  if (words.model.empty()) words.model = config.model_name;
  if (words.model.empty() && config.model) {
    found.model = std::move(config.model);
    words.model = found.model->name;
  }
  if (words.model.empty())
    return bad_input("{}: {} names no model: give one, e.g. weft train llama3-8b --config {}", config_file,
                     config.format, config_file);
  if (!quiet) print_config(config_file, config);
  return found;
}

void complete(const FromConfig& file, const cost::MachineView& machine, training::Words& words) {
  training::Plan& p = words.plan;
  const std::int64_t copies = machine.endpoints() / std::max<std::int64_t>(1, p.tp * p.pp * p.cp),
                     dp = words.dp > 0 ? words.dp : std::max<std::int64_t>(1, copies);
  if (file.accumulate) p.global_batch = p.micro_batch * std::max<std::int64_t>(1, *file.accumulate) * dp;
  if (!file.shard_in_node) return;
  const std::int64_t node = training::Traffic(machine).gpus_per_node(), replicas = dp * p.cp;
  const std::int64_t within = std::gcd(replicas, std::max<std::int64_t>(1, node / std::max<std::int64_t>(1, p.tp)));
  if (within < replicas) p.shard = within;
}

void name_tuning(const FromConfig& file, training::Model& model) {
  if (file.tuning == "QLoRA")
    model.name += " (adapters; weights of 4 bits are priced as 16)";
  else if (!file.tuning.empty() && file.tuning != "LoRA")
    model.name += fmt::format(" (all weights; {} is not priced here)", file.tuning);
}

}  // namespace weft::cli
