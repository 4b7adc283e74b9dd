#include <fmt/format.h>

#include <functional>
#include <map>
#include <numeric>
#include <regex>
#include <set>

#include "apps/cli/commands.h"
#include "apps/cli/on_interrupt.h"
#include "apps/cli/progress.h"
#include "apps/cli/some_bytes.h"
#include "apps/training/answer.h"
#include "base/counted.h"
#include "base/text.h"
#include "machine/import/hostlist.h"
#include "machine/import/network_tree.h"
#include "machine/place.h"
#include "model/predict/predict.h"
#include "model/sim/flow/flow_fabric.h"

namespace weft::cli {
namespace {

using Nodes = std::vector<std::int32_t>;

struct Spec {
  std::string on, free, given, bytes = "1G", json, collective = "all_reduce", train, switches, gres;
  std::int64_t nodes = 0, seed = 1, segment = 0;
  std::function<bool(const char* option)> said;  // on the command line
};

// What the job does: one collective over all GPUs, or steps of a training plan.
struct Load {
  Collective collective = Collective::kAllReduce;
  Bytes bytes = 0;
  std::optional<training::Words> words = {};
  std::optional<training::Model> model = {};
  std::string text = {};  // as it is shown
};

constexpr const char* kExamples = R"(
Chooses nodes of a cluster that are close to each other, and says what a collective over all their GPUs or a training step
(--train) takes there, and over the nodes that were given, or over nodes drawn at random (--seed). Both are simulated on
the whole network with only this job on it. Where the closest nodes are slower than those, because fewer leaf switches have
fewer uplinks, nodes spread evenly over more switches are tried, and the fastest are chosen.

Examples:
  weft place --on topology.conf:node=dgx-h100,net=ib-ndr --nodes 8
  weft place --on topology.conf:node=dgx-h100,net=ib-ndr,oversub=4 --nodes 4 --free "tux[0-31]" --given "tux[1,9,17,25]"
  weft place --on dgx-h100:nodes=64,wires=fat-tree,oversub=2 --nodes 16 --bytes 64M
  weft place --on topology.conf:node=dgx-h100,net=ib-ndr --nodes 16 --switches 2@12:00:00 --gres gpu:4   as sbatch would
  weft place --on topology.yaml:node=gb200-nvl72,net=ib-ndr --nodes 8 --segment 4 --collective all_to_all
  weft place --on topology.conf:node=dgx-h100,net=ib-ndr,oversub=4 --nodes 8 --train llama3-70b:tp=8,pp=4,global-batch=512
)";

// Names to node numbers. Errors (bad input): a name that is not there, or twice.
Result<Nodes> find_nodes(std::string_view option, const std::vector<std::string>& names, const std::string& list) {
  const auto wanted = topology::expand_hostlist(list);
  if (!wanted) return bad_input("{} '{}': {}", option, list, wanted.error().message);
  std::map<std::string_view, std::int32_t> number;
  for (std::size_t n = 0; n < names.size(); ++n) number[names[n]] = static_cast<std::int32_t>(n);
  Nodes found;
  std::set<std::int32_t> seen;
  for (const std::string& name : *wanted) {
    const auto at = number.find(name);
    if (at == number.end()) return bad_input("{} '{}': there is no node '{}'", option, list, name);
    if (!seen.insert(at->second).second) return bad_input("{} '{}': node '{}' is there twice", option, list, name);
    found.push_back(at->second);
  }
  return found;
}

struct Outcome {
  Nodes nodes;
  Duration time;
  std::string algorithm;
  std::size_t groups = 0;   // lowest switches that the nodes hang at
  bool spread = false;      // over more switches than needed, as that is faster
  std::string method = {};  // how the simulator found the time: "full", "symmetric", "extrapolated", "step"
};

std::size_t leaf_groups(const topology::NodeGroups& groups, const Nodes& nodes) {
  std::set<std::int32_t> used;
  for (const std::int32_t n : nodes) used.insert(groups[0][static_cast<std::size_t>(n)]);
  return used.size();
}

// Time of the best way to do the collective over all GPUs of these nodes.
Status time_collective(const cost::MachineView& view, const Load& load, const char* label, Outcome& outcome) {
  const Rank ranks = view.endpoints();
  const schedule::Task task =
      task_of(load.collective, ranks, view.ranks_per_node(ranks), load.bytes, DataType::kFloat32);
  const auto progress = [&](int tried, int plans) {
    Progress::show(fmt::format("simulating the {} nodes, plan {} of {} …", label, tried + 1, plans));
  };
  WEFT_TRY(const predict::Answer answer,
           predict::predict(view, {.question = {.task = task, .can = sim::flow_capabilities(view.topology())},
                                   .progress = progress}));
  outcome.time = answer.outcome.time;
  outcome.algorithm = std::string(answer.choice.plan.algorithm->name);
  outcome.method = std::string(simulate::name(answer.outcome.method));
  return {};
}

// Time of the load over all GPUs of these nodes.
Result<Outcome> time_on(const cost::MachineView& whole, const topology::NodeGroups& groups, Nodes nodes,
                        const Load& load, const char* label) {
  const cost::MachineView view(topology::subset(whole.topology(), nodes), whole.costs());
  Outcome outcome{.nodes = std::move(nodes)};
  if (load.words) {
    Progress::show(fmt::format("simulating a step on the {} nodes …", label));
    WEFT_TRY(const training::Answer answer, training::answer(*load.model, view, *load.words));
    outcome.time = Duration::seconds(answer.step.seconds);
    outcome.algorithm = answer.report.rows.front().plan;
    outcome.method = "step";
  } else {
    WEFT_CHECK(time_collective(view, load, label, outcome));
  }
  outcome.groups = leaf_groups(groups, outcome.nodes);
  return outcome;
}

std::string list_of(const std::vector<std::string>& names, const Nodes& nodes) {
  std::vector<std::string> own;
  for (const std::int32_t n : nodes) own.push_back(names[static_cast<std::size_t>(n)]);
  return topology::compress_hostlist(own);
}

nlohmann::json to_json(const std::vector<std::string>& names, const Outcome& o) {
  return {{"nodes", list_of(names, o.nodes)},
          {"time_us", o.time.us()},
          {"algorithm", o.algorithm},
          {"leaf_groups", o.groups},
          {"method", o.method}};
}

// What is done of the comparison.
struct Compared {
  std::optional<Outcome> chosen, other;
  const char* label = "";  // of the others
};

Status emit(const Spec& spec, const Machine& machine, const std::vector<std::string>& names, const Load& load,
            const Compared& c) {
  nlohmann::json json = {{"schema", "weft.place/1"}, {"machine", machine.name}};
  if (load.words)
    json["train"] = spec.train;
  else
    json["collective"] = spec.collective, json["bytes"] = load.bytes;
  if (c.chosen) json["chosen"] = to_json(names, *c.chosen);
  if (c.other) {
    json[c.label] = to_json(names, *c.other);
    json["slowdown"] = c.other->time / c.chosen->time;
  }
  if (!spec.json.empty() && c.chosen) WEFT_CHECK(write_json(spec.json, json));
  if (spec.json == "-" || !c.chosen) return {};
  fmt::print("# {} over {} of {}, simulated\n", load.text, counted(c.chosen->nodes.size(), "node"), machine.name);
  for (const auto& [label, o] : {std::pair("chosen", &c.chosen), std::pair(c.label, &c.other)})
    if (*o)
      fmt::print("{:<10} {:>9}  {:<9} at {}: {}\n", label, format_duration((*o)->time), (*o)->algorithm,
                 counted((*o)->groups, "leaf group"), list_of(names, (*o)->nodes));
  if (c.chosen->spread)
    fmt::print("{} leaf switches have more uplinks than the fewest that hold the job: the closest nodes are slower\n",
               c.chosen->groups);
  if (c.other) fmt::print("slowdown of the {} nodes: {:.2f}x\n", c.label, c.other->time / c.chosen->time);
  return {};
}

// "gpu:8" and "gpu:h100:8" of --gres: the GPUs of a node that the job uses. Errors (bad input).
Result<std::string> with_gres(const std::string& on, const std::string& gres) {
  if (gres.empty()) return on;
  const std::size_t colon = gres.rfind(':');
  if (!gres.starts_with("gpu:") || colon == std::string::npos)
    return bad_input("--gres {}: it is gpu:COUNT or gpu:TYPE:COUNT", gres);
  WEFT_TRY(const std::int64_t gpus, parse_integer("--gres", gres.substr(colon + 1), 1, 1024));
  return fmt::format("{}{}gpus={}", on, on.find('=') == std::string::npos ? ":" : ",", gpus);
}

// Nodes in segments: N of them at one lowest switch (Slurm's --segment for blocks), the segments close to each other.
Result<Nodes> in_segments(const topology::NodeGroups& groups, Nodes free, std::int64_t count, std::int64_t segment) {
  if (count % segment != 0) return bad_input("--segment {}: --nodes {} is no multiple of it", segment, count);
  std::map<std::int32_t, Nodes> of_leaf;
  for (const std::int32_t n : free) of_leaf[groups[0][static_cast<std::size_t>(n)]].push_back(n);
  Nodes whole;  // nodes of complete segments
  for (auto& [leaf, nodes] : of_leaf)
    whole.insert(whole.end(), nodes.begin(),
                 nodes.end() - static_cast<std::ptrdiff_t>(nodes.size() % static_cast<std::size_t>(segment)));
  if (static_cast<std::int64_t>(whole.size()) < count)
    return bad_input("--segment {}: free nodes make {} segments at one switch each, {} are needed", segment,
                     static_cast<std::int64_t>(whole.size()) / segment, count / segment);
  return topology::choose_nodes(groups, whole, static_cast<std::int32_t>(count));
}

// "2" and "2@12:00:00": the most leaf switches that the job may hang at; 0: any number. How long to wait for them is
// Slurm's matter. Errors (bad input).
Result<std::int32_t> most_switches(const std::string& option) {
  if (option.empty()) return 0;
  if (const auto at = option.find('@'); at != std::string::npos) {
    // minutes, minutes:seconds, hours:minutes:seconds, days-hours[:minutes[:seconds]]
    static const std::regex time(R"(\d{1,9}(:[0-5]?\d){0,2}|\d{1,9}-\d{1,2}(:[0-5]?\d){0,2})");
    if (!std::regex_match(option.substr(at + 1), time))
      return bad_input("--switches {}: '{}' is no time of Slurm's, e.g. 30, 12:00:00 or 1-06", shown(option),
                       shown(std::string_view(option).substr(at + 1)));
  }
  WEFT_TRY(const std::int64_t most, parse_integer("--switches", option.substr(0, option.find('@')), 1, 1 << 30));
  return static_cast<std::int32_t>(most);
}

// Reads what the options say about the job. Errors (bad input).
Result<Load> load_of(Spec& spec) {
  Load load;
  if (!spec.train.empty()) {
    for (const char* option : {"--bytes", "--collective"})
      if (spec.said(option))
        return bad_input("{} has no meaning beside --train: the plan has its own messages", option);
    WEFT_TRY(load.words, training::parse_words(spec.train));
    WEFT_TRY(load.model, training::load_model(load.words->model));
    load.text = fmt::format("a training step of {}", spec.train);
    return load;
  }
  WEFT_TRY(load.collective, schedule::parse_collective(spec.collective));
  spec.collective = schedule::name(load.collective);
  WEFT_TRY(load.bytes, some_bytes("--bytes", spec.bytes));
  load.text = fmt::format("{} of {}", spec.collective, format_bytes(load.bytes));
  return load;
}

// The nodes that the job may use, in the tree's order, and those to compare with.
struct Choice {
  Nodes free, best, other;
  std::int32_t count = 0, most_switches = 0;
};

Result<Choice> choose(const Spec& spec, const Machine& machine, const topology::NodeGroups& groups,
                      const std::vector<std::string>& names) {
  Choice c;
  c.free.resize(names.size());
  std::iota(c.free.begin(), c.free.end(), 0);
  if (!spec.free.empty()) {
    WEFT_TRY(c.free, find_nodes("--free", names, spec.free));
  }
  if (!spec.given.empty()) {
    WEFT_TRY(c.other, find_nodes("--given", names, spec.given));
  }
  if (spec.nodes == 0 && spec.given.empty())
    return bad_input("place: --nodes, how many, or --given, which ones, is needed; '{}' has {} nodes", machine.name,
                     names.size());
  const std::int64_t count = spec.nodes > 0 ? spec.nodes : std::ssize(c.other);
  if (count < 1 || count > std::ssize(names))
    return bad_input("--nodes {}: '{}' has {} nodes", count, machine.name, names.size());
  if (!c.other.empty() && std::ssize(c.other) != count)
    return bad_input("--given names {}, --nodes is {}", counted(c.other.size(), "node"), count);
  c.count = static_cast<std::int32_t>(count);
  if (spec.segment > 0) {
    WEFT_TRY(c.best, in_segments(groups, c.free, count, spec.segment));
  } else {
    WEFT_TRY(c.best, topology::choose_nodes(groups, c.free, c.count));
  }
  WEFT_TRY(c.most_switches, most_switches(spec.switches));
  const std::size_t used = leaf_groups(groups, c.best);
  if (c.most_switches > 0 && used > static_cast<std::size_t>(c.most_switches))
    return bad_input("--switches {}: the closest {} hang at {} leaf switches", spec.switches,
                     counted(count, "free node"), used);
  if (c.other.empty()) {
    WEFT_TRY(c.other, topology::scatter_nodes(c.free, c.count, static_cast<std::uint64_t>(spec.seed)));
  }
  return c;
}

// The closest nodes, or where those to compare with are faster: the fastest of those spread evenly over the fewest,
// more and all leaf switches. The job's uplinks grow with its switches, which counts where they are fewer than nodes.
Result<Outcome> fastest(const Machine& machine, const topology::NodeGroups& groups, const Choice& choice,
                        const Load& load, Outcome closest, const Outcome& other) {
  static constexpr double kClearly = 0.999;
  if (other.time / closest.time >= kClearly) return closest;
  Outcome best = closest;
  std::set<std::size_t> tried;
  for (const std::size_t leaves : {closest.groups, 2 * closest.groups, other.groups, std::size_t{0}}) {
    if (choice.most_switches > 0 && (leaves == 0 || leaves > static_cast<std::size_t>(choice.most_switches))) continue;
    if (!tried.insert(leaves).second) continue;
    auto nodes = topology::spread_nodes(groups, choice.free, choice.count, static_cast<std::int32_t>(leaves));
    if (!nodes) continue;
    WEFT_TRY(Outcome spread, time_on(*machine.view, groups, std::move(*nodes), load, "spread"));
    spread.spread = true;
    if (spread.time < best.time) best = std::move(spread);
  }
  const std::set<std::int32_t> free(choice.free.begin(), choice.free.end());
  const bool allowed = (choice.most_switches == 0 || other.groups <= static_cast<std::size_t>(choice.most_switches)) &&
                       std::ranges::all_of(other.nodes, [&](std::int32_t n) { return free.contains(n); });
  if (allowed && other.time < best.time) best = other, best.spread = other.groups > closest.groups;
  return best;
}

Result<int> run(Spec& spec) {
  WEFT_TRY(const Load load, load_of(spec));
  if (spec.segment < 0 || (spec.segment == 0 && spec.said("--segment")))
    return bad_input("--segment {}: at least 1", spec.segment);
  if (!spec.given.empty() && spec.said("--seed"))
    return bad_input("--seed draws the scattered nodes, and has no meaning beside --given");
  WEFT_TRY(const std::string on, with_gres(spec.on, spec.gres));
  WEFT_TRY(const Machine machine, load_machine(on));
  WEFT_TRY(const topology::NodeGroups groups, topology::node_groups(machine.view->topology()));
  const std::vector<std::string> names = topology::host_names(machine.view->topology());
  WEFT_TRY(Choice choice, choose(spec, machine, groups, names));
  Compared done{.label = spec.given.empty() ? "scattered" : "given"};
  OnInterrupt interrupted([&] {
    Progress::show("");
    fmt::print(stderr, "weft: interrupted; {}\n",
               done.chosen ? "the chosen nodes are simulated, the others are not" : "nothing is done");
    if (const auto emitted = emit(spec, machine, names, load, done); !emitted) report_error(emitted.error());
  });
  Progress line;
  WEFT_TRY(Outcome chosen, time_on(*machine.view, groups, choice.best, load, "chosen"));
  {
    const std::lock_guard lock(interrupted.mutex());
    done.chosen = chosen;
  }
  WEFT_TRY(Outcome compared, time_on(*machine.view, groups, std::move(choice.other), load, done.label));
  if (spec.segment == 0) {
    WEFT_TRY(chosen, fastest(machine, groups, choice, load, std::move(chosen), compared));
  }
  const std::lock_guard lock(interrupted.mutex());
  done.chosen = std::move(chosen);
  done.other = std::move(compared);
  Progress::show("");
  WEFT_CHECK(emit(spec, machine, names, load, done));
  return 0;
}

}  // namespace

Command add_place(CLI::App& app) {
  auto spec = std::make_shared<Spec>();
  CLI::App* sub = app.add_subcommand("place", "Choose nodes for a job, and say what a worse choice costs");
  sub->add_option("--on", spec->on, "a cluster: topology.conf:node=PRESET, ibnetdiscover output, or a preset")
      ->required();
  sub->add_option("--nodes", spec->nodes, "nodes of the job (default: as many as --given)");
  sub->add_option("--free", spec->free, "nodes to choose from, as Slurm writes lists (default: all)");
  sub->add_option("--given", spec->given, "nodes to compare with, in rank order");
  sub->add_option("--seed", spec->seed, "draws the scattered nodes when none are given");
  sub->add_option("--bytes", spec->bytes, "message per rank (default 1G)");
  sub->add_option("--collective", spec->collective,
                  "what the job does: all_to_all, all_gather, … (default: all_reduce)");
  sub->add_option("--train", spec->train, "or its steps, by a model and a plan: llama3-70b:tp=8,pp=4,global-batch=512");
  sub->add_option("--switches", spec->switches,
                  "COUNT or COUNT@TIME, as Slurm: the leaf switches that the job may hang at");
  sub->add_option("--segment", spec->segment, "as Slurm: consecutive nodes at one leaf switch or block");
  sub->add_option("--gres", spec->gres, "gpu:COUNT, as Slurm: GPUs of each node that take part");
  sub->add_option("--json", spec->json, "write weft.place/1 to this file; - is stdout")->check(writable);
  sub->footer(kExamples);
  return {sub, [spec, sub] {
            spec->said = [sub](const char* option) { return sub->count(option) > 0; };
            return run(*spec);
          }};
}

}  // namespace weft::cli
