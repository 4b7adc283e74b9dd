#include "base/text.h"
#include "cli/commands.h"
#include "cost/limit.h"
#include "net/memory/segment.h"
#include "tune/tune.h"

namespace weft::cli {
namespace {

struct Spec {
  std::string collective, bytes = "1M", on, type = "float", algorithm, protocol, json;
  std::int64_t ranks = -1, channels = 0;
};

constexpr const char* kExamples = R"(
Every algorithm and protocol that the collective has, with its best number of channels, the time that weft's cost model
predicts, and why it was chosen or lost. Latency is what an empty message takes; transfer is the rest.

Examples:
  weft explain all_reduce --bytes 1M --on dgx-h100
  weft explain all_reduce --bytes 64K --on dgx-h100:nodes=16,net=ib-ndr
  weft explain all_reduce --bytes 8 --ranks 2             for processes on this machine
)";

nlohmann::json to_json(const Spec& spec, const Machine& machine, const schedule::Task& task, const cost::Limit& limit,
                       const std::vector<tune::Candidate>& all) {
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
  return {{"schema", "weft.explain/1"},    {"machine", machine.name},
          {"collective", spec.collective}, {"bytes", task.elements * task.element_bytes},
          {"ranks", task.ranks},           {"limit", {{"resource", limit.resource}, {"time_us", limit.time.us()}}},
          {"candidates", candidates}};
}

void print(const Spec& spec, const Machine& machine, const schedule::Task& task, const cost::Limit& limit,
           const std::vector<tune::Candidate>& all) {
  fmt::print("# {} of {} on {} ranks of {}; at least {} ({})\n", spec.collective,
             format_bytes(task.elements * task.element_bytes), task.ranks, machine.name, format_duration(limit.time),
             limit.resource);
  fmt::print("  {:<9} {:<7} {:>3} {:>12}  {}\n", "algo", "proto", "ch", "predicted", "why");
  for (const tune::Candidate& c : all)
    fmt::print("{} {:<9} {:<7} {:>3} {:>12}  {}\n", c.chosen ? '*' : ' ', c.plan.algorithm->name,
               protocol::traits(c.plan.protocol).name, c.plan.channels,
               c.possible ? format_duration(c.estimate.total) : "-", c.reason);
  for (const tune::Candidate& c : all)
    if (c.chosen) fmt::print("# {} is for {}\n", c.plan.algorithm->name, c.plan.algorithm->when);
}

Result<int> run(const Spec& spec) {
  WEFT_TRY(const Collective collective, schedule::parse_collective(spec.collective));
  WEFT_TRY(const DataType type, parse_type(spec.type));
  WEFT_TRY(const Bytes bytes, parse_bytes(spec.bytes));
  WEFT_CHECK(check_channels(spec.channels));
  WEFT_TRY(const Machine machine, load_machine(spec.on));
  WEFT_TRY(const Rank ranks, ranks_on(machine, spec.ranks));
  const schedule::Task task =
      task_of(collective, ranks, machine.simulated ? machine.view->ranks_per_node(ranks) : ranks, bytes, type);
  tune::Question question{.task = task,
                          .can = capabilities_of(machine),
                          .algorithm = spec.algorithm,
                          .protocol = spec.protocol,
                          .channels = static_cast<int>(spec.channels)};
  WEFT_TRY(const auto all, tune::candidates(*machine.view, question));
  const cost::Limit limit = cost::limit(*machine.view, task);
  if (spec.json != "-") print(spec, machine, task, limit, all);
  if (!spec.json.empty()) WEFT_CHECK(write_json(spec.json, to_json(spec, machine, task, limit, all)));
  return all.front().possible ? 0 : kBadAnswer;
}

}  // namespace

Command add_explain(CLI::App& app) {
  auto spec = std::make_shared<Spec>();
  CLI::App* sub =
      app.add_subcommand("explain", "Say which algorithm and protocol is chosen, and why each other one lost");
  sub->add_option("collective", spec->collective, "all_reduce, broadcast, … (weft algorithms lists them)")->required();
  sub->add_option("--bytes", spec->bytes, "message size")->capture_default_str();
  sub->add_option("--on", spec->on, "the machine: a preset, a preset with options, or a file (default: this one)");
  sub->add_option("--ranks,-n", spec->ranks, "how many ranks (default: 2 here, every GPU of another machine)");
  sub->add_option("--dtype", spec->type, schedule::type_names(", "))->capture_default_str();
  sub->add_option("--algo", spec->algorithm, "only this algorithm");
  sub->add_option("--proto", spec->protocol, "only this protocol");
  sub->add_option("--channels", spec->channels, "with this many channels");
  sub->add_option("--json", spec->json, "write weft.explain/1 to this file; - is stdout instead of the table");
  sub->footer(kExamples);
  return {sub, [spec] { return run(*spec); }};
}

}  // namespace weft::cli
