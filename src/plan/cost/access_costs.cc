#include "plan/cost/access_costs.h"

#include <nlohmann/json.hpp>
#include <set>

#include "base/check.h"
#include "base/embedded.h"
#include "machine/catalog/catalog.h"
#include "plan/cost/shipped.h"

namespace weft::embedded {
std::span<const File> access_files();
}

namespace weft::cost {
namespace {

using nlohmann::json;
using protocol::HopCosts;
using protocol::Protocol;
using topology::PathType;

// The shipped table; plan/cost/access_test.cc looks at every entry.
const json& table() {
  static const json loaded = json::parse(embedded::access_files()[0].text);
  return loaded;
}

// The entry of `list` for this kind of endpoint (and path); null: there is none.
const json* find(const char* list, bool gpu, std::string_view path = "") {
  for (const json& e : table().at(list))
    if (e.at("endpoint") == (gpu ? "gpu" : "cpu") && e.value("path", "") == path) return &e;
  return nullptr;
}

double number(const char* list, const char* field, bool gpu, std::string_view path = "") {
  const json* found = find(list, gpu, path);
  WEFT_ASSERT(found != nullptr, "access_costs.json: no {} for {}", field, path);
  return found->at(field).get<double>();
}

}  // namespace

Duration load_latency(bool gpu, PathType path) {
  const json* same = find("same_as", gpu, name(path));
  const std::string as = same != nullptr ? same->at("as").get<std::string>() : std::string(name(path));
  return Duration::nanoseconds(number("loads", "load_ns", gpu, as));
}

Duration call_time(bool gpu) { return Duration::nanoseconds(number("calls", "call_ns", gpu)); }

double read_efficiency(bool gpu) { return number("reads", "read_efficiency", gpu); }

namespace {

Result<topology::Figure> memory_figure(const std::string& model, const char* figure, std::string_view why) {
  WEFT_TRY(const auto catalog, topology::Catalog::shipped());
  const topology::Part* part = catalog.find(model);
  const topology::Figure* found = part != nullptr ? part->figure(figure) : nullptr;
  if (found == nullptr) return bad_input("the catalogue has no {} of '{}', which {} depends on", figure, model, why);
  return *found;
}

const std::string& model_of(const MachineView& machine, Rank rank) {
  return machine.topology().device(machine.device(rank)).model;
}

// A GPU's copies within its memory are reads and writes at what its slowest kind reads; kinds that the catalogue does
// not have, at the table's.
json local_copies(const MachineView& machine) {
  json local = table().at("local");
  if (!machine.costs().gpu()) return local;
  std::set<std::string> seen;
  std::optional<BytesPerSecond> least;
  for (Rank r = 0; r < machine.endpoints(); ++r) {
    if (!seen.insert(model_of(machine, r)).second) continue;
    if (const auto rate = read_rate(machine, r); rate && (!least || *rate < *least)) least = *rate;
  }
  if (least)
    for (json& e : local)
      if (e.at("endpoint") == "gpu") e["channel_GBps"] = least->gb();
  return local;
}

}  // namespace

Result<BytesPerSecond> read_rate(const MachineView& machine, Rank reader) {
  WEFT_TRY(const auto rate, memory_figure(model_of(machine, reader), "memory_rate", "reading its memory"));
  return rate_of(rate) * read_efficiency(true);
}

Result<Bytes> memory_size(const MachineView& machine, Rank owner) {
  WEFT_TRY(const auto size, memory_figure(model_of(machine, owner), "memory", "what fits"));
  return static_cast<Bytes>(size.value * static_cast<double>(Bytes{1} << 30));
}

Result<Duration> posting_time(const std::string& poster) {
  std::string known;
  for (const json& e : table().at("posters")) {
    if (e.at("name") == poster) return Duration::microseconds(e.at("post_us").get<double>());
    known += (known.empty() ? "" : ", ") + e.at("name").get<std::string>();
  }
  return bad_input("nobody called '{}' posts; there are {}", poster, known);
}

Result<HopCosts> posted_by(const MachineView& machine, Duration posting) {
  const auto kind = machine.costs().gpu() ? HopCosts::Endpoint::kGpu : HopCosts::Endpoint::kCpu;
  WEFT_TRY(const auto conditions, conditions_of(machine.topology()));
  json hops = json::array();
  for (const char* protocol : {"Simple", "LL", "LL128"})
    hops.push_back({{"endpoint", kind == HopCosts::Endpoint::kGpu ? "gpu" : "cpu"},
                    {"path", "NET"},
                    {"protocol", protocol},
                    {"overhead_us", posting.us()},
                    {"source", "posters of access_costs.json"},
                    {"date", "2026-01"}});
  const json over = {{"schema", "weft.calibration/1"}, {"hops", hops}};
  return HopCosts::calibrated(kind, conditions, "--post", over.dump());
}

int Paging::faults_per_block() const {
  int faults = 1;
  for (Bytes resident = leaf; resident < block; resident *= 2) ++faults;
  return faults;
}

Paging gpu_paging() {
  const json& pages = table().at("pages");
  return {.leaf = pages[0].at("leaf_bytes").get<Bytes>(),
          .block = pages[0].at("block_bytes").get<Bytes>(),
          .fault = Duration::microseconds(pages[1].at("fault_us").get<double>())};
}

Duration OneSidedView::latency(Rank from, Rank to, Rank ranks) const {
  if (from == to) return {};
  const topology::Path path = machine.path(from, to);
  const protocol::HopCost* hop = costs.find(name(path.type), Protocol::kDirect);
  return hop == nullptr ? Duration() : costs.latency(*hop, path.latency, machine.sharing(ranks));
}

Duration OneSidedView::round_trip(Rank from, Rank to, Rank ranks) const {
  const PathType type = machine.path(from, to).type;
  return type == PathType::kNet ? latency(from, to, ranks) * 2 : load_latency(costs.gpu(), type);
}

namespace {

Result<OneSidedView> view_with(const MachineView& machine, const json& paths) {
  const auto kind = machine.costs().gpu() ? HopCosts::Endpoint::kGpu : HopCosts::Endpoint::kCpu;
  WEFT_TRY(const auto conditions, conditions_of(machine.topology()));
  const json over = {{"schema", "weft.calibration/1"},
                     {"paths", paths},
                     {"hops", table().at("hops")},
                     {"local", local_copies(machine)}};
  WEFT_TRY(HopCosts costs, HopCosts::calibrated(kind, conditions, "access_costs.json", over.dump()));
  return OneSidedView{machine, std::move(costs)};
}

}  // namespace

Result<OneSidedView> one_sided_view(const MachineView& machine) { return view_with(machine, json::array()); }

Result<Stack> stack_view(const MachineView& machine, const std::string& name) {
  std::string known;
  for (const json& stack : table().at("stacks")) {
    if (stack.at("name") == name) {
      WEFT_TRY(OneSidedView view, view_with(machine, json::array({stack})));
      return Stack{std::move(view), Duration::microseconds(stack.at("start_us").get<double>())};
    }
    known += (known.empty() ? "" : ", ") + stack.at("name").get<std::string>();
  }
  return bad_input("there is no stack '{}'; there are weft, {}", name, known);
}

}  // namespace weft::cost
