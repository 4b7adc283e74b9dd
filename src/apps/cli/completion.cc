#include <map>
#include <set>

#include "apps/cli/commands.h"
#include "apps/training/model.h"
#include "machine/machine.h"
#include "plan/collectives/registry.h"

namespace weft::cli {
namespace {

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App* s) { return !s->get_group().empty(); });
}

// The commands of a command.
std::string names_of(const CLI::App& app) {
  std::string text;
  for (const CLI::App* sub : commands_of(app)) text += (text.empty() ? "" : " ") + sub->get_name();
  return text;
}

// The options of a command and of its commands by their long names, each name once.
std::map<std::string, const CLI::Option*> options_of(const CLI::App& app) {
  std::map<std::string, const CLI::Option*> options;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) options.emplace(name, option);
  for (const CLI::App* sub : commands_of(app)) options.merge(options_of(*sub));
  return options;
}

// A command's options, and the commands that it has.
std::string words(const CLI::App& app) {
  std::string text;
  for (const auto& [name, option] : options_of(app)) text += "--" + name + " ";
  return text + names_of(app);
}

// The values that options and arguments take, each list with spaces between.
struct Values {
  std::string presets, algorithms, collectives, models;
};
Values values() {
  Values v;
  for (const auto& p : topology::presets()) v.presets += p.name + " ";
  std::set<std::string_view> algorithms;
  for (const auto& a : collectives::algorithms()) algorithms.insert(a.name);
  v.algorithms = fmt::format("{}", fmt::join(algorithms, " "));
  for (const Collective c : schedule::kCollectives) v.collectives += std::string(schedule::name(c)) + " ";
  v.models = fmt::format("{}", fmt::join(training::model_names(), " "));
  return v;
}

// What an option's value is, as a list; empty: a file, or anything.
std::string values_of(const Values& v, std::string_view option) {
  if (option == "on") return v.presets;
  if (option == "algo") return v.algorithms;
  if (option == "model") return v.models;
  if (option == "proto") return "Simple LL LL64 LL128 Direct";
  if (option == "dtype") return schedule::type_names(" ");
  if (option == "op") return schedule::op_names(" ");
  if (option == "engine") return "vllm sglang trtllm";
  if (option == "recompute") return "none selective full";
  if (option == "transport") return "shm threads tcp ucx shm+tcp shm+ucx";
  return {};
}

// What a command's first argument is.
std::string arguments_of(const Values& v, const std::string& command) {
  for (const char* of_models : {"train", "serve", "fit"})
    if (command == of_models) return v.models;
  for (const char* of_collectives : {"bench", "explain", "explore", "verify", "schedule"})
    if (command == of_collectives) return v.collectives;
  return {};
}

// Commands, options, machines, models, algorithms and collectives are written as they are.
std::string bash_script(const CLI::App& app) {
  const auto [presets, algorithms, collectives, models] = values();
  std::string commands, cases;
  for (const CLI::App* sub : commands_of(app)) {
    commands += sub->get_name() + " ";
    cases += fmt::format("    {}) words=\"{}\" ;;\n", sub->get_name(), words(*sub));
  }
  return fmt::format(R"(# bash completion for weft:  source <(weft completion)
_weft() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}} words=
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W "{0} --help --version" -- "$current"))
    return
  fi
  case $previous in
    --on) COMPREPLY=($(compgen -W "{1}" -- "$current") $(compgen -f -- "$current")); return ;;
    --algo) COMPREPLY=($(compgen -W "{2}" -- "$current")); return ;;
    --proto) COMPREPLY=($(compgen -W "Simple LL LL64 LL128 Direct" -- "$current")); return ;;
    --dtype) COMPREPLY=($(compgen -W "{5}" -- "$current")); return ;;
    --op) COMPREPLY=($(compgen -W "{6}" -- "$current")); return ;;
    --transport) COMPREPLY=($(compgen -W "shm threads tcp ucx shm+tcp shm+ucx" -- "$current")); return ;;
    --json|--svg|--xml|--heat|--stairs|--slurm|--kubernetes|--record) COMPREPLY=($(compgen -f -- "$current")); return ;;
    --model) COMPREPLY=($(compgen -W "{7}" -- "$current") $(compgen -f -- "$current")); return ;;
    --engine) COMPREPLY=($(compgen -W "vllm sglang trtllm" -- "$current")); return ;;
    --recompute) COMPREPLY=($(compgen -W "none selective full" -- "$current")); return ;;
  esac
  [[ $current == -* ]] || case $previous in
    bench|explain|explore) COMPREPLY=($(compgen -W "{3}" -- "$current")); return ;;
    train|serve|fit) COMPREPLY=($(compgen -W "{7}" -- "$current") $(compgen -f -- "$current")); return ;;
    verify|schedule) COMPREPLY=($(compgen -W "{3}" -- "$current") $(compgen -f -- "$current")); return ;;
  esac
  case ${{COMP_WORDS[1]}} in
{4}  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -F _weft weft
)",
                     commands, presets, algorithms, collectives, cases, schedule::type_names(" "),
                     schedule::op_names(" "), models);
}

// The first line of a description, where shells take a line in quotes.
std::string brief(std::string text) {
  text = text.substr(0, text.find('\n'));
  std::erase_if(text, [](char c) { return c == '\'' || c == '[' || c == ']' || c == ':' || c == '`'; });
  return text;
}

// ":value:(a b)", or files.
std::string zsh_value(const std::string& list) {
  return list.empty() ? ":value:_files" : fmt::format(":value:({})", list);
}

// zsh asks for a function of the command's name; options and commands come with their descriptions.
std::string zsh_script(const CLI::App& app) {
  const Values v = values();
  std::string commands, cases;
  for (const CLI::App* sub : commands_of(app)) {
    commands += fmt::format("    '{}:{}'\n", sub->get_name(), brief(sub->get_description()));
    std::string options;
    for (const auto& [name, option] : options_of(*sub))
      options += fmt::format(" '--{}[{}]{}'", name, brief(option->get_description()),
                             option->get_items_expected_max() > 0 ? zsh_value(values_of(v, name)) : "");
    std::string first = arguments_of(v, sub->get_name());
    if (first.empty()) first = names_of(*sub);
    cases += fmt::format("    {}) _arguments{}{} '*:argument:_files' ;;\n", sub->get_name(), options,
                         first.empty() ? "" : fmt::format(" '1{}'", zsh_value(first)));
  }
  return fmt::format(R"(#compdef weft
# zsh completion for weft:  source <(weft completion zsh), or a file _weft in a folder of fpath
_weft() {{
  local -a commands=(
{}  )
  if (( CURRENT == 2 )); then
    _describe command commands
    return
  fi
  local command=$words[2]
  shift words
  (( CURRENT-- ))
  case $command in
{}    *) _files ;;
  esac
}}
if [ "$funcstack[1]" = _weft ]; then _weft "$@"; else compdef _weft weft; fi
)",
                     commands, cases);
}

std::string fish_script(const CLI::App& app) {
  const Values v = values();
  std::string text = "# fish completion for weft:  weft completion fish | source\n";
  for (const CLI::App* sub : commands_of(app)) {
    text += fmt::format("complete -c weft -n __fish_use_subcommand -f -a {} -d '{}'\n", sub->get_name(),
                        brief(sub->get_description()));
    for (const std::string& first : {arguments_of(v, sub->get_name()), names_of(*sub)})
      if (!first.empty())
        text += fmt::format("complete -c weft -n '__fish_seen_subcommand_from {}' -a '{}'\n", sub->get_name(), first);
    for (const auto& [name, option] : options_of(*sub)) {
      const std::string list = values_of(v, name);
      text += fmt::format("complete -c weft -n '__fish_seen_subcommand_from {}' -l {}{}{} -d '{}'\n", sub->get_name(),
                          name, option->get_items_expected_max() > 0 ? " -r" : "",
                          list.empty() ? "" : fmt::format(" -a '{}'", list), brief(option->get_description()));
    }
  }
  return text;
}

}  // namespace

Command add_completion(CLI::App& app) {
  auto shell = std::make_shared<std::string>("bash");
  CLI::App* sub = app.add_subcommand("completion", "Print a completion script for bash, zsh or fish");
  sub->add_option("shell", *shell, "bash, zsh or fish")->capture_default_str();
  sub->footer("\nExamples:\n  source <(weft completion)\n  weft completion fish | source\n");
  return {
      sub, [&app, shell]() -> Result<int> {
        if (*shell != "bash" && *shell != "zsh" && *shell != "fish")
          return bad_input("completion '{}': there are bash, zsh and fish", *shell);
        fmt::print("{}", *shell == "zsh" ? zsh_script(app) : *shell == "fish" ? fish_script(app) : bash_script(app));
        return 0;
      }};
}

}  // namespace weft::cli
