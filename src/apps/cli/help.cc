#include "apps/cli/help.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <string_view>
#include <vector>

#include "apps/cli/common.h"
#include "base/env.h"
#include "base/nearest_words.h"
#include "base/text.h"

namespace weft::cli {
namespace {

constexpr std::size_t kWide = 200;  // columns from which on a terminal, or a reader of a pipe, wraps for itself

// Lines such as "Options:" in bold.
std::string with_bold_headings(const std::string& text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = std::string_view(text).substr(at, end - at);
    const bool heading = line.ends_with(':') && line.front() != ' ' && line.size() < 40;
    out += heading ? fmt::format("\x1b[1m{}\x1b[0m", line) : std::string(line);
    if (end < text.size()) out += '\n';
    at = end + 1;
  }
  return out;
}

class Help final : public CLI::Formatter {
 public:
  explicit Help(std::size_t width) : width_(width) { column_width(width < 100 ? 24 : 30); }
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override {
    const std::string text = wrapped(CLI::Formatter::make_help(app, std::move(name), mode), width_);
    return colours_wanted() ? with_bold_headings(text) : text;
  }
  std::string make_option(const CLI::Option* option, bool positional) const override {
    return row(make_option_name(option, positional) + make_option_opts(option), make_option_desc(option));
  }
  std::string make_subcommand(const CLI::App* sub) const override {
    return row(sub->get_name(), sub->get_description());
  }

 private:
  // The name in its column, and the text beside it.
  std::string row(const std::string& name, const std::string& text) const {
    const std::size_t column = get_column_width();
    std::string line = "  " + name;
    if (text.empty()) return line + "\n";
    if (line.size() + 1 > column) {
      line += "\n" + std::string(column, ' ');
    } else {
      line.resize(column, ' ');
    }
    if (width_ >= kWide) return line + text + "\n";
    const std::string block = wrapped(text, std::max<std::size_t>(width_ - column, 20));
    for (const char c : block) c == '\n' ? line += "\n" + std::string(column, ' ') : line += c;
    return line + "\n";
  }

  std::size_t width_;
};

std::size_t indentation(std::string_view line) { return std::min(line.find_first_not_of(' '), line.size()); }

// One line, cut at spaces. What goes on stands a little farther in, but for prose.
void add_cut(std::string& out, std::string_view line, std::size_t width) {
  const std::size_t indent = indentation(line), later = indent == 0 ? 0 : std::min(indent + 4, width / 2);
  while (line.size() > width) {
    std::size_t at = line.rfind(' ', width);
    if (at == std::string_view::npos || at <= indentation(line)) at = line.find(' ', width);
    if (at == std::string_view::npos) break;
    std::string_view first = line.substr(0, at);
    first = first.substr(0, first.find_last_not_of(' ') + 1);
    out += std::string(first) + "\n" + std::string(later, ' ');
    line.remove_prefix(std::min(line.find_first_not_of(' ', at), line.size()));
    width = std::max<std::size_t>(width, later + 20);
    if (later > 0 && width > later) {  // the rest stands behind the indentation
      const std::size_t rest = width - later;
      while (line.size() > rest) {
        std::size_t cut = line.rfind(' ', rest);
        if (cut == std::string_view::npos || cut == 0) cut = line.find(' ', rest);
        if (cut == std::string_view::npos) break;
        out += std::string(line.substr(0, cut)) + "\n" + std::string(later, ' ');
        line.remove_prefix(std::min(line.find_first_not_of(' ', cut), line.size()));
      }
      break;
    }
  }
  out += line;
}

// The kind of an option's value, by its name.
const std::map<std::string, std::string>& kinds() {
  static const std::map<std::string, std::string> kKinds = {
      {"on", "MACHINE"},      {"bytes", "SIZE"},       {"min", "SIZE"},    {"max", "SIZE"},       {"block", "SIZE"},
      {"json", "FILE"},       {"svg", "FILE"},         {"xml", "FILE"},    {"out", "FILE"},       {"curves", "FILE"},
      {"timeline", "FILE"},   {"calibration", "FILE"}, {"config", "FILE"}, {"compare", "FILE"},   {"cards", "FILE"},
      {"heat", "FILE"},       {"stairs", "FILE"},      {"table", "FILE"},  {"record", "FILE"},    {"slurm", "FILE"},
      {"kubernetes", "FILE"}, {"hostfile", "FILE"},    {"file", "FILE"},   {"algo", "ALGORITHM"}, {"proto", "PROTOCOL"},
      {"fault", "FAULT"},     {"dtype", "TYPE"},       {"load", "LOAD"},   {"beside", "JOB"}};
  return kKinds;
}

std::vector<std::string> names_of_options(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

}  // namespace

std::string wrapped(const std::string& text, std::size_t width) {
  if (width >= kWide) return text;
  constexpr std::size_t kFull = 90;  // prose of the source is wrapped at 120 columns: a longer line goes on
  std::string out, paragraph;
  const auto end_paragraph = [&] {
    if (!paragraph.empty()) add_cut(out, paragraph, width), out += '\n';
    paragraph.clear();
  };
  std::size_t at = 0;
  bool goes_on = false;
  while (at < text.size()) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = std::string_view(text).substr(at, end - at);
    at = end + 1;
    const bool prose = !line.empty() && indentation(line) == 0;
    if (goes_on && prose) {
      paragraph += ' ';
    } else {
      end_paragraph();
    }
    if (prose) {
      paragraph += line;
    } else {
      add_cut(out, line, width);
      out += '\n';
    }
    goes_on = prose && line.size() > kFull;
  }
  end_paragraph();
  if (!text.ends_with('\n') && out.ends_with('\n')) out.pop_back();
  return out;
}

namespace {

// The command and those below it, such as `weft kv fetch`.
void dress(CLI::App& command, const std::shared_ptr<Help>& help) {
  command.formatter(help);
  for (CLI::Option* option : command.get_options())
    for (const std::string& name : option->get_lnames())
      if (const auto kind = kinds().find(name); kind != kinds().end() && option->get_type_name().starts_with("TEXT"))
        option->type_name(kind->second);
  for (CLI::App* sub : command.get_subcommands({})) dress(*sub, help);
}

}  // namespace

void dress_help(CLI::App& app) {
  const auto help = std::make_shared<Help>(static_cast<std::size_t>(terminal_width()));
  dress(app, help);
}

bool colours_wanted() { return isatty(STDOUT_FILENO) != 0 && env::value_of("NO_COLOR").value_or("").empty(); }

void group_options(CLI::App& sub, const std::string& heading, std::initializer_list<const char*> options) {
  for (const char* option : options) sub.get_option(option)->group(heading);
}

namespace {

// "1e9" is a number, but not one that an option of whole numbers reads. Empty: it is none.
std::string in_digits(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  constexpr double kMost = 1e15;
  const bool whole = end != text.c_str() && *end == '\0' && std::abs(value) <= kMost && value == std::floor(value);
  return whole ? fmt::format("{:.0f}", value) : "";
}

// What the library says of wrong usage in words of its own: a value that is missing or no number, a command of a
// command that is missing or misspelt, an option that is given too often.
std::string said_otherwise(const CLI::App& command, const CLI::ParseError& problem, const std::string& help) {
  std::string text = problem.what();
  constexpr std::string_view kOften = ": At Most 1 required but received ", kMissing = ": 1 required ",
                             kNoNumber = "Could not convert: ";
  if (const auto at = text.find(kOften); at != std::string::npos)
    text = fmt::format("{} is given {} times, at most once is possible", text.substr(0, at),
                       text.substr(at + kOften.size()));
  if (const auto at = text.find(kMissing); at != std::string::npos && text.ends_with(" missing"))
    text = fmt::format("{} needs a value: {}", text.substr(0, at),
                       text.substr(at + kMissing.size(), text.rfind(' ') - at - kMissing.size()));
  if (const auto at = text.find(" = "); text.starts_with(kNoNumber) && at != std::string::npos) {
    const std::string given = text.substr(at + 3), digits = in_digits(given);
    text = fmt::format("{} '{}' is not a {}", text.substr(kNoNumber.size(), at - kNoNumber.size()), given,
                       digits.empty() ? "number" : fmt::format("whole number in digits: {}", digits));
  }
  constexpr std::string_view kRequired = " is required";
  if (text.ends_with(kRequired) && !text.starts_with("A subcommand") && command.get_parent() != nullptr)
    text = fmt::format("{} needs '{}'", command.get_name(), text.substr(0, text.size() - kRequired.size()));
  if (const auto at = text.find(": "); at != std::string::npos && text.find(" is outside ") != std::string::npos)
    text.erase(at, 1);
  std::vector<std::string> names;
  for (const CLI::App* sub : command.get_subcommands([](const CLI::App* s) { return !s->get_group().empty(); }))
    names.push_back(sub->get_name());
  const std::vector<std::string> extra = command.remaining();
  if (!text.starts_with("A subcommand is required") || command.get_parent() == nullptr)
    return fmt::format("{} ({})", text, help);
  if (extra.empty()) return fmt::format("{} needs one of {} ({})", command.get_name(), fmt::join(names, ", "), help);
  return fmt::format("{} has no command '{}'; {}there are {} ({})", command.get_name(), extra.front(),
                     did_you_mean(extra.front(), names), fmt::join(names, ", "), help);
}

// Options as nccl-tests, torchrun, Megatron-LM and vLLM call them, and weft's: the first that the command has is meant.
constexpr std::pair<std::string_view, std::string_view> kElsewhere[] = {
    {"-b", "--min"},
    {"-e", "--max"},
    {"-f", "--factor"},
    {"-g", "--ranks"},
    {"-c", "--check"},
    {"-d", "--dtype"},
    {"-o", "--op"},
    {"-r", "--root"},
    {"-z", "--json"},
    {"--minbytes", "--min"},
    {"--maxbytes", "--max"},
    {"--stepfactor", "--factor"},
    {"--ngpus", "--ranks"},
    {"--np", "--ranks"},
    {"--gpus", "--ranks"},
    {"--datatype", "--dtype"},
    {"--size", "--bytes"},
    {"--message-size", "--bytes"},
    {"--machine", "--on"},
    {"--preset", "--on"},
    {"--cluster", "--on"},
    {"--nodes", "--on MACHINE:nodes=N"},
    {"--nnodes", "--on MACHINE:nodes=N"},
    {"--net", "--on MACHINE:net=NET"},
    {"--network", "--on MACHINE:net=NET"},
    {"--algorithm", "--algo"},
    {"--protocol", "--proto"},
    {"--tensor-parallel", "--tp"},
    {"--tensor-parallel-size", "--tp"},
    {"--tensor-model-parallel-size", "--tp"},
    {"--pipeline-parallel", "--pp"},
    {"--pipeline-parallel-size", "--pp"},
    {"--pipeline-model-parallel-size", "--pp"},
    {"--data-parallel-size", "--dp"},
    {"--context-parallel-size", "--cp"},
    {"--expert-model-parallel-size", "--ep"},
    {"--micro-batch-size", "--micro-batch"},
    {"--global-batch-size", "--global-batch"},
    {"--seq-length", "--seq"},
    {"--seq-len", "--seq"},
    {"--request-rate", "--rate"},
    {"--max-concurrency", "--concurrency"},
    {"--input-len", "--isl"},
    {"--output-len", "--osl"},
    {"--output", "--out"},
};

// "did you mean --min? ", also where the option is called otherwise elsewhere; empty where nothing is near.
std::string meant_option(const std::string& name, const CLI::App& command) {
  for (const auto& [elsewhere, here] : kElsewhere)
    if (elsewhere == name && command.get_option_no_throw(std::string(here.substr(0, here.find(' ')))) != nullptr)
      return fmt::format("did you mean {}? ", here);
  return did_you_mean(name, names_of_options(command));
}

// The option that takes what stands alone on a command line; empty: none is known.
std::string_view place_of(const std::string& word, const CLI::App& command) {
  const auto takes = [&](const char* option) { return command.get_option_no_throw(option) != nullptr; };
  if (takes("--bytes") && parse_bytes(word)) return ", where a size is --bytes SIZE";
  return takes("--on") ? ", where a machine is --on MACHINE" : "";
}

}  // namespace

std::string usage_error(const CLI::App& app, const CLI::ParseError& problem, int argc, char** argv) {
  std::vector<std::string> commands;
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App* s) { return !s->get_group().empty(); }))
    commands.push_back(sub->get_name());
  const std::string given = argc > 1 ? argv[1] : "";
  if (!given.starts_with('-') && std::ranges::find(commands, given) == commands.end() &&
      app.get_subcommands([&](const CLI::App* s) { return s->get_name() == given; }).empty()) {
    commands.insert(commands.end(), {"help", "version"});
    return fmt::format("unknown command '{}'; {}weft --help lists them", given, did_you_mean(given, commands));
  }
  const auto parsed = app.get_subcommands();
  if (parsed.empty() && given.starts_with('-'))
    return fmt::format("weft has no option {}; {}weft --help lists them", given,
                       did_you_mean(given, {"--help", "--version"}));
  const CLI::App& command = parsed.empty() ? app : *parsed.front();
  const std::string help = parsed.empty() ? "weft --help" : fmt::format("weft {} --help", command.get_name());
  if (dynamic_cast<const CLI::ExtrasError*>(&problem) == nullptr) return said_otherwise(command, problem, help);
  std::vector<std::string> extra = app.remaining(true);
  const auto option = std::ranges::find_if(extra, [](const std::string& e) { return e.starts_with('-'); });
  if (option == extra.end())
    return fmt::format("{}: '{}' is one argument too many{} ({})", command.get_name(), extra.front(),
                       place_of(extra.front(), command), help);
  const std::string name = option->substr(0, option->find('='));
  return fmt::format("{} has no option {}; {}{} lists them", parsed.empty() ? "weft" : command.get_name(), name,
                     meant_option(name, command), help);
}

}  // namespace weft::cli
