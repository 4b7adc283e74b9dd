#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "apps/training/config/companions.h"
#include "apps/training/config/settings.h"
#include "apps/training/config/shell.h"
#include "base/text.h"

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

// Variables of PyTorch that the script sets for its programs: "export CUDA_LAUNCH_BLOCKING=1", or before a command.
void read_environment(const ShellRun& run, Settings& settings) {
  for (const char* name : {"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "CUDA_LAUNCH_BLOCKING"})
    if (const auto at = run.variables.find(name); at != run.variables.end() && at->second.size() == 1)
      settings.set(key_of(name), at->second[0]);
}

// The options of `accelerate launch` stand before the program, and count less than the program's own.
Words program_of(const Words& words, Settings& launcher) {
  const auto launch = std::ranges::find(words, "launch");
  if (launch == words.begin() || launch == words.end() || !(launch - 1)->ends_with("accelerate")) return words;
  const auto program = std::find_if(launch + 1, words.end(), [](const std::string& word) {
    return word.ends_with(".py") || word == "-m" || word == "--module";
  });
  read_words(Words(launch + 1, program), launcher);
  return {program, words.end()};
}

// Whether a command starts a program on GPUs, and so may name its file of settings: "torchrun t.py --config x.yaml".
bool launches(const Words& words) {
  static constexpr std::string_view kLaunchers[] = {"torchrun", "accelerate", "deepspeed", "llamafactory-cli",
                                                    "axolotl",  "python",     "python3",   "swift",
                                                    "xtuner",   "tune"};
  return std::ranges::any_of(words, [](const std::string& word) {
    const std::string_view name = std::string_view(word).substr(word.rfind('/') + 1);
    return std::ranges::find(kLaunchers, name) != std::end(kLaunchers);
  });
}

// Files of settings that a command names: "llamafactory-cli train x.yaml", "--config x.yaml", "config=x.yaml".
Words files_of(const Words& words) {
  Words files;
  for (std::string word : words) {
    if (const std::size_t equals = word.find('='); equals != std::string::npos) {
      if (key_of(word.substr(0, equals)) != "config") continue;
      word.erase(0, equals + 1);
    }
    if (word.ends_with(".yaml") || word.ends_with(".yml") || word.ends_with(".toml")) files.push_back(word);
  }
  return files;
}

}  // namespace

Result<Settings> shell_settings(const std::string& file, std::string_view text,
                                const std::vector<std::string>& arguments, std::vector<std::string>& notes) {
  const Beside sourced(file);
  std::set<std::string> seen;
  const auto source = [&](const std::string& name) -> std::optional<std::string> {
    return seen.insert(name).second ? sourced.text(name) : std::nullopt;
  };
  const ShellRun run = run_shell(text, source, arguments);
  if (run.unclosed_line > 0) return bad_input("{}:{}: {} has no end", file, run.unclosed_line, run.unclosed);
  notes = run.notes;
  const Beside beside(file, run.files);
  Settings settings, launcher, inner;
  settings.place(run.left);
  bool found = false;
  for (const Words& words : run.commands) {
    const Words program = program_of(words, launcher);
    if (trains(program) || program.size() < words.size()) {
      found = true;
      read_words(program, settings);
    }
    if (!launches(words)) continue;
    for (const std::string& name : files_of(program)) {
      WEFT_TRY(const bool there, read_companion(beside, name, inner, notes));
      found = found || there;
      if (!there) notes.push_back(fmt::format("{} is named and is not here", name));
    }
  }
  if (found) {
    if (const auto own = launcher.find("config_file")) settings.set("launcher.config_file", *own);
    for (const auto& [path, value] : launcher.all())
      if (path != "config_file" && !settings.has(path)) settings.set(path, value);
    settings.add(inner);
    read_environment(run, settings);
    WEFT_CHECK(read_companions(beside, settings, notes));
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
