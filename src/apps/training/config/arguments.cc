#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "apps/training/config/settings.h"
#include "apps/training/config/shell.h"
#include "base/text.h"
#include "base/text_file.h"

namespace weft::training {
namespace {

using Words = std::vector<std::string>;

// Arguments that only programs that train have.
bool trains(const Words& words) {
  static constexpr std::string_view kMarks[] = {"--num-layers",
                                                "--tensor-model-parallel-size",
                                                "--micro-batch-size",
                                                "--global-batch-size",
                                                "--per_device_train_batch_size",
                                                "--per-device-train-batch-size",
                                                "--model_name_or_path",
                                                "--finetuning_type",
                                                "--micro_train_batch_size",
                                                "--train.micro_batch_size",
                                                "--max_context_width",
                                                "actor_rollout_ref.model.path",
                                                "trainer.policy.model.path",
                                                "--zero-stage",
                                                "--zero_stage",
                                                "--deepspeed_config",
                                                "--train-iters"};
  return std::ranges::any_of(words, [](const std::string& word) {
    return std::ranges::any_of(kMarks, [&](std::string_view mark) {
      return word == mark || (word.starts_with(mark) && word.size() > mark.size() && word[mark.size()] == '=');
    });
  });
}

// "--key value", "--key=value", "--flag", and Hydra's "path.key=value".
void read_words(const Words& words, Settings& settings) {
  std::string key;
  for (const std::string& word : words) {
    if (word.starts_with("--") && word.size() > 2) {
      const std::size_t equals = word.find('=');
      key = key_of(word.substr(0, equals));
      settings.set(key, equals == std::string::npos ? "true" : word.substr(equals + 1));
      if (equals != std::string::npos) key.clear();
    } else if (!key.empty()) {
      settings.set(key, word);
      key.clear();
    } else if (const std::size_t equals = word.find('=');
               equals != std::string::npos && equals > 0 && !word.starts_with('-')) {
      settings.set(key_of(word.substr(0, equals)), word.substr(equals + 1));
    }
  }
}

// A file of arguments whose launcher stands elsewhere: TP=2 and PP=${PP:-4} say what it would give.
void read_degrees(const ShellRun& run, Settings& settings, std::vector<std::string>& notes) {
  static constexpr std::pair<const char*, const char*> kDegrees[] = {{"TP", "tensor_model_parallel_size"},
                                                                     {"PP", "pipeline_model_parallel_size"},
                                                                     {"CP", "context_parallel_size"},
                                                                     {"EP", "expert_model_parallel_size"},
                                                                     {"ETP", "expert_tensor_parallel_size"}};
  if (settings.all().empty()) return;
  for (const auto& [variable, key] : kDegrees)
    for (const char* end : {"", "_SIZE"}) {
      const auto at = run.variables.find(std::string(variable) + end);
      if (at == run.variables.end() || at->second.size() != 1 || settings.has(key)) continue;
      if (!parse_integer(variable, at->second[0], 1, 1 << 20)) continue;
      settings.set(key, at->second[0]);
      notes.push_back(fmt::format("{} from the variable {}{}={}", key, variable, end, at->second[0]));
    }
}

}  // namespace

Settings shell_settings(const std::string& file, std::string_view text, const std::vector<std::string>& arguments,
                        std::vector<std::string>& notes) {
  constexpr std::size_t kMostSourced = 1 << 20;
  const std::filesystem::path folder = std::filesystem::path(file).parent_path();
  std::set<std::string> sourced;
  const auto source = [&](const std::string& name) -> std::optional<std::string> {
    std::error_code none;
    // Where a command names the script's own folder ("$(dirname $0)/models/x.sh"), only the path's end is sure.
    for (std::string rest = name; !rest.empty();
         rest = rest.find('/') == std::string::npos ? "" : rest.substr(rest.find('/') + 1)) {
      const std::filesystem::path path = folder / rest;
      if (!std::filesystem::is_regular_file(path, none) || !sourced.insert(path.string()).second) continue;
      if (auto other = read_text_file(path, kMostSourced)) return std::move(*other);
    }
    return std::nullopt;
  };
  const ShellRun run = run_shell(text, source, arguments);
  notes = run.notes;
  Settings settings;
  bool found = false;
  for (const Words& words : run.commands)
    if (trains(words)) {
      found = true;
      read_words(words, settings);
    }
  if (found) {
    // DeepSpeed's file, where the script itself writes it or where it lies beside it.
    for (const char* key : {"deepspeed", "deepspeed_config", "deepspeed_config_file"})
      if (const auto name = settings.find(key); name && name->find(".json") != std::string::npos)
        if (const auto beside = run.files.contains(*name) ? std::optional(run.files.at(*name)) : source(*name))
          if (auto inner = json_settings(*name, *beside))
            for (const auto& [path, value] : inner->all()) settings.set(path, value);
    return settings;
  }
  // A file of arguments for others to source has variables only.
  for (const std::string& name : run.order) {
    Words words;
    for (const std::string& value : run.variables.at(name)) {
      std::istringstream blanks(value);
      for (std::string word; blanks >> word;) words.push_back(word);
    }
    read_words(words, settings);
  }
  read_degrees(run, settings, notes);
  // Or one argument a line, with no command in front.
  if (settings.all().empty())
    for (const Words& words : run.commands) read_words(words, settings);
  return settings;
}

}  // namespace weft::training
