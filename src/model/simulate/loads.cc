#include "model/simulate/loads.h"

#include <algorithm>
#include <map>
#include <random>

#include "base/text.h"
#include "model/simulate/words.h"

namespace weft::simulate {
namespace {

using sim::Background;
using topology::DeviceId;
using topology::DeviceKind;
using topology::Path;
using topology::Topology;

struct Amount {
  double part = 0;      // of a way's narrowest link, or …
  BytesPerSecond rate;  // … a rate
};

struct Asked {
  std::string_view where;
  Amount amount;
  std::int64_t flows = 8;  // a choice of the model's: as many as a job has that sends over eight channels
  std::int64_t seed = 1, service = 0;
};

Result<Asked> parse(const std::string& text) {
  const auto sides = cut(text, '=');
  if (!sides) return bad_input("--load {}: expected A-B=40% or uniform=30%", text);
  Asked asked{.where = sides->first};
  std::string_view rest = sides->second;
  const std::string_view amount = rest.substr(0, rest.find(','));
  const auto part = percent_of(amount);
  const auto rate = rate_of(amount);
  if (!part && !rate)
    return bad_input("--load {}: '{}' is neither a part such as 40% nor a rate such as 100Gb/s", text, amount);
  if (part && *part > 1) return bad_input("--load {}: more than all of a link", text);
  asked.amount = {part.value_or(0), rate.value_or(BytesPerSecond())};
  for (rest.remove_prefix(amount.size()); !rest.empty();) {
    const auto [key, value] = next_pair(rest);
    const std::string what = fmt::format("--load {}: {}", text, key);
    if (key == "flows") {
      WEFT_TRY(asked.flows, parse_integer(what, value, 1, 1024));
    } else if (key == "seed") {
      WEFT_TRY(asked.seed, parse_integer(what, value, 0, 1'000'000'000));
    } else if (key == "class") {
      WEFT_TRY(asked.service, parse_integer(what, value, 0, sim::kMostClasses - 1));
    } else {
      return bad_input("--load {}: '{}' is not flows, seed or class", text, key);
    }
  }
  return asked;
}

class Loads {
 public:
  explicit Loads(const cost::MachineView& machine) : machine_(machine), topology_(machine.topology()) {}

  Status add(const std::string& text) {
    WEFT_TRY(const Asked asked, parse(text));
    background_.seed = static_cast<std::uint64_t>(asked.seed);
    if (asked.where == "uniform") return add_uniform(text, asked);
    const auto ends = devices_between(topology_, asked.where);
    if (!ends || ends->first == ends->second)
      return bad_input("--load {}: expected A-B with names of two devices as weft topo --links prints them, or uniform",
                       text);
    for (const auto& [from, to] : {*ends, std::pair(ends->second, ends->first)})
      for (const Path& path : ways(from, to))
        for (std::int64_t f = 0; f < asked.flows; ++f) WEFT_CHECK(add_flow(text, asked, path, from, to));
    return {};
  }

  Background take() && { return std::move(background_); }

 private:
  // All links between neighbours, else the one way that their traffic takes.
  std::vector<Path> ways(DeviceId from, DeviceId to) const {
    std::vector<Path> found;
    for (const topology::LinkId id : topology_.links_of(from)) {
      const topology::Link& l = topology_.link(id);
      if (!joins(l, from, to)) continue;
      const bool forward = l.a == from;
      found.push_back({.hops = {{id, forward}}, .rate = forward ? l.rate_ab : l.rate_ba, .latency = l.latency});
    }
    if (found.empty()) found.push_back(machine_.routes().path(from, to));
    return found;
  }

  Status add_flow(const std::string& text, const Asked& asked, const Path& path, DeviceId from, DeviceId to) {
    if (path.hops.empty())
      return bad_input("--load {}: no way from {} to {}", text, topology_.name_of(from), topology_.name_of(to));
    const BytesPerSecond all = asked.amount.part > 0 ? path.rate * asked.amount.part : asked.amount.rate;
    if (all > path.rate)
      return bad_input("--load {}: the way from {} to {} carries {}", text, topology_.name_of(from),
                       topology_.name_of(to), format_rate(path.rate));
    background_.streams.push_back(
        {path, all / static_cast<double>(asked.flows), static_cast<std::uint8_t>(asked.service)});
    return {};
  }

  // Random rounds, in each of which everybody sends to one of another node and gets from one: nodes, and the members of
  // each, in random order; to the one a random distance on that is longer than any node.
  Status add_uniform(const std::string& text, const Asked& asked) {
    std::vector<std::vector<DeviceId>> groups = senders();
    std::size_t largest = 0, count = 0;
    for (const auto& group : groups) {
      largest = std::max(largest, group.size());
      count += group.size();
    }
    if (count == 0 || count < 2 * largest) return bad_input("--load {}: the machine has nobody to send to", text);
    std::mt19937_64 random(background_.seed);
    for (std::int64_t f = 0; f < asked.flows; ++f) {
      std::ranges::shuffle(groups, random);
      std::vector<DeviceId> order;
      for (auto& group : groups) {
        std::ranges::shuffle(group, random);
        order.insert(order.end(), group.begin(), group.end());
      }
      const std::size_t on = std::uniform_int_distribution<std::size_t>(largest, count - largest)(random);
      for (std::size_t i = 0; i < count; ++i) {
        const DeviceId from = order[i], to = order[(i + on) % count];
        WEFT_CHECK(add_flow(text, asked, machine_.routes().path(from, to), from, to));
      }
    }
    return {};
  }

  // The NICs of every node; of a single node every GPU.
  std::vector<std::vector<DeviceId>> senders() const {
    const bool network = topology_.nodes() > 1;
    std::map<std::int32_t, std::vector<DeviceId>> by_node;
    for (DeviceId id = 0; id < static_cast<DeviceId>(topology_.devices().size()); ++id) {
      const topology::Device& d = topology_.device(id);
      if (d.kind == (network ? DeviceKind::kNic : DeviceKind::kGpu)) by_node[network ? d.node : id].push_back(id);
    }
    std::vector<std::vector<DeviceId>> groups;
    for (auto& [node, members] : by_node) groups.push_back(std::move(members));
    return groups;
  }

  const cost::MachineView& machine_;
  const Topology& topology_;
  Background background_;
};

}  // namespace

Result<Background> background_of(const cost::MachineView& machine, std::span<const std::string> loads) {
  Loads all(machine);
  for (const std::string& load : loads) WEFT_CHECK(all.add(load));
  return std::move(all).take();
}

std::vector<BytesPerSecond> left_by(const Background& background, const Topology& machine) {
  std::vector<BytesPerSecond> left;
  for (const topology::Link& l : machine.links()) left.insert(left.end(), {l.rate_ab, l.rate_ba});
  const std::vector<BytesPerSecond> whole = left;
  std::vector<int> flows(left.size());
  for (const Background::Stream& stream : background.streams)
    for (const topology::Hop& h : stream.path.hops) {
      const auto direction = static_cast<std::size_t>(2 * h.link + (h.forward ? 0 : 1));
      left[direction] = left[direction] + stream.rate * -1;
      ++flows[direction];
    }
  for (std::size_t d = 0; d < left.size(); ++d) left[d] = std::max(left[d], whole[d] / (flows[d] + 1.0));
  return left;
}

}  // namespace weft::simulate
