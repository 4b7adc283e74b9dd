#include "apps/cli/explain_answer.h"

#include <algorithm>

#include "apps/cli/help.h"
#include "apps/cli/measured.h"
#include "base/counted.h"
#include "base/text.h"
#include "plan/tune/vendor_rules.h"

namespace weft::cli {
namespace {

// What the vendor's own library does by its published rules, and weft's time of the like.
const tune::Candidate* like(const tune::VendorRule& rule, const std::vector<tune::Candidate>& all) {
  const auto found = std::ranges::find_if(all, [&](const tune::Candidate& c) {
    return c.possible && c.plan.algorithm->name == rule.algorithm &&
           protocol::traits(c.plan.protocol).name == rule.protocol;
  });
  return found == all.end() ? nullptr : &*found;
}

void print_vendor(const Machine& machine, const schedule::Task& task, const std::vector<tune::Candidate>& all) {
  const auto rule = tune::vendor_rule(*machine.view, task);
  if (!rule) return;
  const tune::Candidate* candidate = like(*rule, all);
  fmt::print("# {}: {}{} ({})\n", rule->library, rule->choice,
             candidate != nullptr ? fmt::format("; the like by weft, {} {}, takes {}", rule->algorithm, rule->protocol,
                                                format_duration(candidate->estimate.total))
                                  : "",
             rule->source);
}

}  // namespace

nlohmann::json to_json(const ExplainedQuestion& asked, const Machine& machine, const schedule::Task& task,
                       const Explained& e) {
  const auto& [all, answer, nccl, limit, measured] = e;
  nlohmann::json candidates = nlohmann::json::array();
  for (const tune::Candidate& c : all) {
    nlohmann::json entry = {{"algorithm", c.plan.algorithm->name},
                            {"protocol", protocol::traits(c.plan.protocol).name},
                            {"channels", c.plan.channels},
                            {"predicted_us", nullptr},
                            {"chosen", c.chosen},
                            {"reason", c.reason}};
    if (c.possible) {
      entry["predicted_us"] = c.estimate.total.us();
      entry["latency_us"] = c.estimate.latency.us();
    }
    candidates.push_back(std::move(entry));
  }
  nlohmann::json json = {{"schema", "weft.explain/1"},
                         {"machine", machine.name},
                         {"collective", asked.collective},
                         {"bytes", task.elements * task.element_bytes},
                         {"ranks", task.ranks},
                         {"limit", {{"resource", limit.resource}, {"time_us", limit.time.us()}}},
                         {"candidates", candidates}};
  if (!asked.faults.empty()) json["faults"] = asked.faults;
  if (answer) {
    json["simulated"] = {{"time_us", answer->outcome.time.us()},
                         {"low_us", answer->outcome.low.us()},
                         {"high_us", answer->outcome.high.us()},
                         {"method", simulate::name(answer->outcome.method)},
                         {"plans_simulated", answer->tried},
                         {"busiest_link", answer->outcome.busiest_link},
                         {"busiest_share", answer->outcome.busiest_share}};
    json["simulated"]["measured"] = measured ? report::to_json(*measured) : nlohmann::json("not measured");
  }
  if (nccl) json["nccl"] = nccl_json(*nccl, all.front());
  if (const auto rule = tune::vendor_rule(*machine.view, task))
    json["vendor"] = {{"library", rule->library},
                      {"choice", rule->choice},
                      {"algorithm", rule->algorithm},
                      {"protocol", rule->protocol},
                      {"source", rule->source}};
  return json;
}

void print(const ExplainedQuestion& asked, const Machine& machine, const schedule::Task& task, const Explained& e) {
  const auto& [all, answer, nccl, limit, measured] = e;
  const std::string what = schedule::routed(task.collective) ? asked.experts.tokens + " " + words_of(asked.experts)
                                                             : format_bytes(task.elements * task.element_bytes);
  fmt::print("# {} of {} on {} of {}; at least {} ({})\n", asked.collective, what, counted(task.ranks, "rank"),
             machine.name, format_duration(limit.time), limit.resource);
  for (const std::string& fault : asked.faults) fmt::print("# fault {}\n", fault);
  std::size_t wide = 9;  // of the longest algorithm's name
  for (const tune::Candidate& c : all) wide = std::max(wide, c.plan.algorithm->name.size());
  fmt::print("  {:<{}} {:<7} {:>3} {:>12}  {}\n", "algo", wide, "proto", "ch", "predicted", "why");
  const bool colours = colours_wanted();
  for (const tune::Candidate& c : all)
    fmt::print("{}{} {:<{}} {:<7} {:>3} {:>12}  {}{}\n", colours && c.chosen ? "\x1b[1m" : "", c.chosen ? '*' : ' ',
               c.plan.algorithm->name, wide, protocol::traits(c.plan.protocol).name, c.plan.channels,
               c.possible ? format_duration(c.estimate.total) : "-", c.reason, colours && c.chosen ? "\x1b[0m" : "");
  for (const tune::Candidate& c : all)
    if (c.chosen) fmt::print("# {} is for {}\n", c.plan.algorithm->name, c.plan.algorithm->when);
  if (answer)
    fmt::print("# simulated: {} ({}); {}\n# busiest link {}, {:.0f} % of the time at its full rate{}\n",
               format_duration(answer->outcome.time), simulate::name(answer->outcome.method),
               cost::share_of_least(limit, task, answer->outcome.time), answer->outcome.busiest_link,
               100 * answer->outcome.busiest_share,
               plans_own_limit(answer->outcome.busiest_share, limit.time / answer->outcome.time));
  print_vendor(machine, task, all);
  if (measured)
    fmt::print("# measured: {} would lie between {} and {} if this one errs as they do, by {} of {}\n",
               rows_inside(*measured), format_duration(measured->low), format_duration(measured->high),
               counted(measured->tables, "table"), measured->of);
  else if (answer)
    fmt::print("# measured: {}\n", asked.faults.empty() ? "nothing like it, as far as weft knows"
                                                        : "no published table is of a machine with such faults");
  if (!measured) return;
  if (const auto are = published_are(answer->outcome.time, *measured); !are.empty())
    fmt::print("# the simulated time lies outside: published rows of such machines were {}\n", are);
}

}  // namespace weft::cli
