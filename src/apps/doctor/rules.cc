#include "apps/doctor/rules.h"

#include <algorithm>
#include <array>

#include "apps/doctor/cells.h"
#include "base/embedded.h"

namespace weft::embedded {
std::span<const File> doctor_files();
}  // namespace weft::embedded

namespace weft::doctor {
namespace {

constexpr std::array kRoles = {Role::kRoot,     Role::kPerf,   Role::kCascade, Role::kConfirm,
                               Role::kTeardown, Role::kConfig, Role::kNote};
constexpr std::size_t kColumns = 13;

}  // namespace

std::string_view name(Role role) {
  constexpr std::array<std::string_view, kRoles.size()> kNames = {"ROOT",     "PERF",   "CASCADE", "CONFIRM",
                                                                  "TEARDOWN", "CONFIG", "NOTE"};
  return kNames[static_cast<std::size_t>(role)];
}

bool Rule::matches(std::string_view line) const { return pattern.search(line) && !(unless && unless->search(line)); }

bool Rule::finds(std::string_view line) const {
  const auto in_line = [&](const std::string& word) { return line.find(word) != std::string_view::npos; };
  return std::ranges::any_of(words, in_line) && matches(line);
}

Result<std::vector<Rule>> parse_rules(std::string_view file, std::string_view text) {
  std::vector<Rule> rules;
  int number = 0;
  bool columns = false;
  for (const std::string_view line : cut(text, '\n')) {
    ++number;
    if (line.empty() || line[0] == '#') continue;
    const auto cells = cut(line, '\t');
    if (cells.size() != kColumns)
      return bad_input("{}:{}: {} columns instead of {}", file, number, cells.size(), kColumns);
    if (!std::exchange(columns, true)) continue;
    Rule rule{.id = std::string(cells[0]), .finding = std::string(cells[1])};
    const auto role = std::ranges::find(kRoles, cells[2], [](Role r) { return name(r); });
    if (role == kRoles.end()) return bad_input("{}:{}: role '{}'", file, number, cells[2]);
    rule.role = *role;
    if (cells[3].size() != 1 || cells[3][0] < '0' || cells[3][0] > '3')
      return bad_input("{}:{}: strength '{}' is not 0, 1, 2 or 3", file, number, cells[3]);
    rule.strength = cells[3][0] - '0';
    for (const std::string_view word : cut(cells[4], '|')) rule.words.emplace_back(word);
    auto pattern = Pattern::compile(cells[5]);
    if (!pattern) return bad_input("{}:{}: pattern of {}: {}", file, number, rule.id, pattern.error().message);
    rule.pattern = std::move(*pattern);
    if (!cells[6].empty()) {
      auto unless = Pattern::compile(cells[6]);
      if (!unless) return bad_input("{}:{}: guard of {}: {}", file, number, rule.id, unless.error().message);
      rule.unless = std::move(*unless);
    }
    rule.versions = cells[7], rule.remedy = cells[8], rule.verify = cells[9], rule.refuted = cells[10],
    rule.fault = cells[11];
    for (const std::string_view word : cut(cells[12], ' ')) {
      if (word.empty()) continue;
      if (word == "~") {
        rule.gives_way = true;
        continue;
      }
      auto* list = word[0] == '+'   ? &rule.needs
                   : word[0] == '-' ? &rule.without
                   : word[0] == '?' ? &rule.confirmed_by
                                    : nullptr;
      if (list == nullptr) return bad_input("{}:{}: '{}' is none of +ID, -ID, ?ID and ~", file, number, word);
      list->emplace_back(word.substr(1));
    }
    rules.push_back(std::move(rule));
  }
  return rules;
}

Result<std::vector<Rule>> shipped_rules() {
  for (const auto& file : embedded::doctor_files())
    if (file.path == "data/doctor/rules.tsv") return parse_rules(file.path, file.text);
  return bad_input("data/doctor/rules.tsv is not compiled in");
}

}  // namespace weft::doctor
