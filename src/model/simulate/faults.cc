#include "model/simulate/faults.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "base/nearest_words.h"
#include "base/text.h"
#include "model/simulate/words.h"

namespace weft::simulate {
namespace {

using sim::Disturbances;
using topology::DeviceId;
using topology::LinkId;
using topology::Topology;

std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

// "30%", less than all.
std::optional<double> part_of(std::string_view text) {
  const auto part = percent_of(text);
  return part && *part < 1 ? part : std::nullopt;
}

// "nic", "3" or "5/3" -> the device.
std::optional<DeviceId> device_at(const Topology& machine, std::string_view kind, std::string_view place) {
  if (const auto named = device_named(machine, place)) return named;
  const bool network = kind == "switch";
  const auto node_and_index = cut(place, '/');
  const std::string_view number = node_and_index ? node_and_index->second : place;
  const std::string node(node_and_index ? node_and_index->first : "0");
  const std::string own = fmt::format("{}{}", network ? name(topology::DeviceKind::kNetworkSwitch) : kind, number);
  return device_named(machine, network || machine.nodes() <= 1 ? own : fmt::format("node{}/{}", node, own));
}

class Faults {
 public:
  explicit Faults(const Topology& machine)
      : machine_(machine), gone_(machine.devices().size()), links_(machine.links().begin(), machine.links().end()) {}

  Status add(const std::string& fault) {
    const auto sides = cut(fault, '=');
    if (!sides) return bad_input("--fault {}: expected WHAT=HOW, e.g. nic:3=down", fault);
    const auto [what, how] = *sides;
    if (what == "jitter") return add_jitter(fault, how);
    const auto parts = cut(what, ':');
    if (!parts)
      return bad_input("--fault {}: '{}' is not KIND:PLACE; {}there are {}: and jitter=", fault, what, meant_kind(what),
                       fmt::join(kinds(), ":, "));
    const auto [kind, place] = *parts;
    if (kind == "link") return add_link(fault, place, how);
    if (kind == "rank") return add_rank(fault, place, how);
    const auto device = device_at(machine_, kind, place);
    if (!device) return bad_input("--fault {}: there is no {} {}; {}", fault, kind, place, near_places(kind, place));
    if (how != "down") return add_slow_device(fault, *device, how);
    gone_[index(*device)] = true;
    return {};
  }

  Result<Faulted> apply() {
    Faulted result;
    result.machine.title = machine_.title;
    result.machine.routing = machine_.routing;
    std::vector<DeviceId> kept(gone_.size(), -1);
    for (DeviceId id = 0; id < static_cast<DeviceId>(gone_.size()); ++id)
      if (!gone_[index(id)]) kept[index(id)] = result.machine.add(machine_.device(id));
    for (std::size_t l = 0; l < links_.size(); ++l) {
      topology::Link link = links_[l];
      link.a = kept[index(link.a)];
      link.b = kept[index(link.b)];
      if (link.a < 0 || link.b < 0 || link.count == 0) continue;
      const LinkId id = result.machine.connect(link);
      for (Disturbances::Flap flap : disturbances_.flaps)
        if (flap.link == static_cast<LinkId>(l)) {
          flap.link = id;
          result.disturbances.flaps.push_back(flap);
        }
      for (Disturbances::Change change : disturbances_.changes)
        if (change.link == static_cast<LinkId>(l)) {
          change.link = id;
          result.disturbances.changes.push_back(change);
        }
    }
    if (const Status whole = result.machine.validate(); !whole)
      return bad_input("with these faults {}", whole.error().message);
    const auto ranks = static_cast<Rank>(result.machine.endpoints().size());
    for (const auto& slow : disturbances_.slow)
      if (slow.rank >= ranks) return bad_input("--fault rank:{}: there are {} ranks", slow.rank, ranks);
    result.disturbances.slow = disturbances_.slow;
    result.disturbances.jitter = disturbances_.jitter;
    return result;
  }

 private:
  Status add_jitter(const std::string& fault, std::string_view how) {
    using Kind = Disturbances::Jitter::Kind;
    const auto parts = cut(how, ':');
    const Kind kind = !parts                      ? Kind::kNone
                      : parts->first == "exp"     ? Kind::kExponential
                      : parts->first == "uniform" ? Kind::kUniform
                                                  : Kind::kNone;
    if (kind == Kind::kNone) return bad_input("--fault {}: expected exp:TIME or uniform:TIME", fault);
    const auto seeded = cut(parts->second, ',');
    const auto mean = duration_of(seeded ? seeded->first : parts->second);
    if (!mean) return bad_input("--fault {}: expected a time such as 2us", fault);
    std::int64_t seed = 1;
    if (seeded) {
      WEFT_TRY(seed, parse_integer("--fault " + fault + ": seed", seeded->second, 0, 1'000'000'000));
    }
    disturbances_.jitter = {kind, *mean, static_cast<std::uint64_t>(seed)};
    return {};
  }

  // What a fault can be of: links, ranks, and the kinds of devices that the machine has.
  std::vector<std::string> kinds() const {
    std::vector<std::string> found = {"link", "rank"};
    for (const topology::Device& d : machine_.devices()) {
      const bool network = d.kind == topology::DeviceKind::kNetworkSwitch;
      std::string kind(network ? "switch" : name(d.kind));
      if (std::ranges::find(found, kind) == found.end()) found.push_back(std::move(kind));
    }
    std::ranges::sort(found);
    return found;
  }
  // A word alone: an example of its place, or what it may mean.
  std::string meant_kind(std::string_view word) const {
    const std::vector<std::string> known = kinds();
    if (std::ranges::find(known, word) == known.end()) return did_you_mean(word, known);
    return fmt::format("did you mean {}? ",
                       word == "link" ? fmt::format("link:{}", some_link()) : fmt::format("{}:0", word));
  }
  // What a misspelt kind or place of a device may mean.
  std::string near_places(std::string_view kind, std::string_view place) const {
    constexpr DeviceId kMost = 4096;
    const std::vector<std::string> known = kinds();
    if (std::ranges::find(known, kind) == known.end())
      return did_you_mean(kind, known) + fmt::format("there are {} and jitter", fmt::join(known, ", "));
    std::vector<std::string> names;
    for (DeviceId id = 0; id < std::min(static_cast<DeviceId>(machine_.devices().size()), kMost); ++id)
      names.push_back(machine_.name_of(id));
    return did_you_mean(fmt::format("{}{}", kind, place), names) + "weft topo --links names the devices";
  }
  // "gpu0-nvswitch0"
  std::string some_link() const {
    for (const topology::Link& l : links_)
      if (l.kind != topology::LinkKind::kMemory) return machine_.name_of(l.a) + "-" + machine_.name_of(l.b);
    return "gpu0-gpu1";
  }

  Status add_rank(const std::string& fault, std::string_view place, std::string_view how) {
    WEFT_TRY(const auto rank, parse_integer("--fault " + fault + ": rank", place, 0, 1 << 30));
    constexpr Unit kTimes[] = {{"x", 1}};
    const auto times = how.starts_with("slow:") ? number_with(how.substr(5), kTimes) : std::nullopt;
    if (!times || *times < 1)
      return bad_input("--fault {}: slow:2x is expected, how many times as long the rank computes, 1 or more", fault);
    disturbances_.slow.push_back({static_cast<Rank>(rank), *times});
    return {};
  }

  // A device that works at a part of its rate: so do all links that lead to it, but those inside the host, which its
  // own rate does not concern, where it has others.
  Status add_slow_device(const std::string& fault, DeviceId device, std::string_view how) {
    if (!part_of(cut(how, '@') ? cut(how, '@')->first : how))
      return bad_input("--fault {}: a device can be down, 50% or 50%@t=2ms", fault);
    const auto crosses = [](const topology::Link& link) { return link.kind == topology::LinkKind::kNetwork; };
    bool network = false;
    for (const topology::Link& link : links_) network |= (link.a == device || link.b == device) && crosses(link);
    for (std::size_t l = 0; l < links_.size(); ++l)
      if ((links_[l].a == device || links_[l].b == device) && (!network || crosses(links_[l])))
        WEFT_CHECK(change(fault, static_cast<LinkId>(l), how));
    return {};
  }

  Status add_link(const std::string& fault, std::string_view place, std::string_view how) {
    const auto ends = devices_between(machine_, place);
    if (!ends)
      return bad_input(
          "--fault {}: expected link:A-B with names of devices as weft topo --links prints them, such as {}", fault,
          some_link());
    bool any = false;
    for (std::size_t l = 0; l < links_.size(); ++l) {
      topology::Link& link = links_[l];
      if (!joins(link, ends->first, ends->second)) continue;
      any = true;
      WEFT_CHECK(change(fault, static_cast<LinkId>(l), how));
    }
    if (!any)
      return bad_input("--fault {}: there is no link between {} and {}", fault, machine_.name_of(ends->first),
                       machine_.name_of(ends->second));
    return {};
  }

  Status change(const std::string& fault, LinkId id, std::string_view how) {
    topology::Link& link = links_[index(id)];
    if (how == "down") {
      link.count = 0;
    } else if (how.starts_with("flap:")) {
      const auto parts = cut(how.substr(5), ',');
      const auto period = parts ? duration_of(parts->first) : std::nullopt;
      const auto down = parts ? part_of(parts->second) : std::nullopt;
      if (!period || !down) return bad_input("--fault {}: expected flap:PERIOD,PART, e.g. flap:10ms,20%", fault);
      disturbances_.flaps.push_back({id, *period, *down});
    } else if (how.starts_with('+')) {
      const auto later = duration_of(how.substr(1));
      if (!later) return bad_input("--fault {}: expected a time such as +5us", fault);
      link.latency += *later;
    } else if (const auto timed = cut(how, '@')) {
      const auto part = part_of(timed->first);
      const auto at = timed->second.starts_with("t=") ? duration_of(timed->second.substr(2)) : std::nullopt;
      if (!part || !at)
        return bad_input("--fault {}: expected PART@t=TIME, e.g. 50%@t=2ms; what is down while a job runs ends it",
                         fault);
      disturbances_.changes.push_back({id, *at, *part});
    } else if (const auto part = part_of(how)) {
      link.rate_ab = link.rate_ab * *part;
      link.rate_ba = link.rate_ba * *part;
    } else {
      return bad_input("--fault {}: a link can be down, 50%, 50%@t=2ms, +5us or flap:10ms,20%", fault);
    }
    return {};
  }

  const Topology& machine_;
  std::vector<bool> gone_;             // devices
  std::vector<topology::Link> links_;  // as they are left; count 0: gone
  Disturbances disturbances_;
};

}  // namespace

Result<Faulted> apply_faults(const Topology& machine, std::span<const std::string> faults) {
  Faults all(machine);
  for (const std::string& fault : faults) WEFT_CHECK(all.add(fault));
  return all.apply();
}

}  // namespace weft::simulate
