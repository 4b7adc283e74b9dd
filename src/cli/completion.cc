#include "cli/commands.h"
#include "collectives/registry.h"
#include "topology/machine.h"

namespace weft::cli {
namespace {

std::string words(const CLI::App& app) {
  std::string text;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) text += (text.empty() ? "--" : " --") + name;
  return text;
}

// Commands, options, machines, algorithms and collectives are written as they are.
std::string bash_script(const CLI::App& app) {
  std::string presets, algorithms, collectives, commands, cases;
  for (const auto& p : topology::presets()) presets += p.name + " ";
  for (const auto& a : collectives::algorithms())
    if (algorithms.find(std::string(a.name) + " ") == std::string::npos) algorithms += std::string(a.name) + " ";
  for (const Collective c : schedule::kCollectives) collectives += std::string(schedule::name(c)) + " ";
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App* s) { return !s->get_group().empty(); })) {
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
    bench|explain) COMPREPLY=($(compgen -W "{3}" -- "$current")); return ;;
    verify|schedule) COMPREPLY=($(compgen -W "{3}" -- "$current") $(compgen -f -- "$current")); return ;;
  esac
  case ${{COMP_WORDS[1]}} in
{4}  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -F _weft weft
)",
                     commands, presets, algorithms, collectives, cases, schedule::type_names(" "),
                     schedule::op_names(" "));
}

}  // namespace

Command add_completion(CLI::App& app) {
  CLI::App* sub = app.add_subcommand("completion", "Print a completion script for bash");
  sub->footer("\nExample:\n  source <(weft completion)\n");
  return {sub, [&app]() -> Result<int> {
            fmt::print("{}", bash_script(app));
            return 0;
          }};
}

}  // namespace weft::cli
