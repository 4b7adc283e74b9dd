#include "machine/import/ibnetdiscover.h"

#include <algorithm>
#include <map>

#include "base/counted.h"
#include "machine/import/text_lines.h"

namespace weft::topology {
namespace {

// The n-th "quoted" part of a line, or nothing.
std::string_view quoted(std::string_view line, int n) {
  for (;; --n) {
    const std::size_t open = line.find('"');
    if (open == std::string_view::npos) return {};
    const std::size_t close = line.find('"', open + 1);
    if (close == std::string_view::npos) return {};
    if (n == 0) return line.substr(open + 1, close - open - 1);
    line.remove_prefix(close + 1);
  }
}

bool is_device(std::string_view line) {
  return (line.starts_with("Switch") || line.starts_with("Ca") || line.starts_with("Rt")) && quoted(line, 0).size() > 2;
}

class FabricParser {
 public:
  explicit FabricParser(std::string_view name) : name_(name) {}

  Result<IbFabric> run(std::string_view text) {
    for (const TextLine& line : lines_of(text)) {
      if (line.text.starts_with('[')) {
        WEFT_CHECK(read_port(line));
      } else if (is_device(line.text)) {
        WEFT_CHECK(read_device(line));
      } else if (const std::string_view rest = trimmed(line.text);
                 !rest.empty() && rest[0] != '#' && rest.find('=') == std::string_view::npos) {
        return bad_input("{}:{}: '{}' is no line of ibnetdiscover", name_, line.number, rest.substr(0, 60));
      }
    }
    return finish();
  }

 private:
  Status read_device(const TextLine& line) {
    const std::string id(quoted(line.text, 0));
    if (device_.contains(id)) return bad_input("{}:{}: device '{}' is there twice", name_, line.number, id);
    current_ = id;
    current_is_switch_ = line.text.starts_with("Switch");
    std::string_view label = quoted(line.text, 1);
    if (current_is_switch_) {
      device_[id] = static_cast<std::int32_t>(fabric_.tree.switches.size());
      fabric_.tree.switches.emplace_back(label.empty() ? std::string_view(id) : label.substr(0, label.find(' ')));
      return {};
    }
    // "node01 HCA-1", "node01 mlx5_0"
    const std::string host(label.empty() ? std::string_view(id) : label.substr(0, label.find(' ')));
    if (!host_.contains(host)) {
      host_[host] = static_cast<std::int32_t>(fabric_.tree.hosts.size());
      fabric_.tree.hosts.push_back({host, {}});
    }
    device_[id] = host_[host];
    return {};
  }

  // [1](7cfe…) "S-7cfe…"[19]  # lid 4 lmc 0 "switch" lid 1 4xNDR
  Status read_port(const TextLine& line) {
    if (current_.empty()) return bad_input("{}:{}: a port before any switch or adapter", name_, line.number);
    const std::string peer(quoted(line.text, 0));
    if (peer.empty()) return bad_input("{}:{}: a port that names no peer", name_, line.number);
    ports_.push_back({line.number, current_, current_is_switch_, peer});
    const auto words = words_of(line.text);
    if (!words.empty() && !current_is_switch_) note_speed(words.back());
    return {};
  }

  void note_speed(std::string_view text) {
    static constexpr std::pair<std::string_view, const char*> kSpeeds[] = {
        {"SDR", "ib-sdr"}, {"DDR", "ib-ddr"}, {"QDR", "ib-qdr"}, {"FDR", "ib-fdr"},
        {"EDR", "ib-edr"}, {"HDR", "ib-hdr"}, {"NDR", "ib-ndr"}, {"XDR", "ib-xdr"}};
    for (const auto& [word, network] : kSpeeds)
      if (text.ends_with(word)) {
        const auto rank = [&](std::string_view n) {
          return std::ranges::find(kSpeeds, n, [](const auto& s) { return std::string_view(s.second); });
        };
        if (fabric_.network.empty() || rank(fabric_.network) < rank(network)) fabric_.network = network;
      }
  }

  Result<IbFabric> finish() {
    std::map<std::pair<std::int32_t, std::int32_t>, std::int32_t> trunks;
    std::size_t unlisted = 0;
    std::string first;
    for (const Port& port : ports_) {
      const auto peer = device_.find(port.peer);
      // Aggregation nodes of SHARP, or a part of a larger fabric's file.
      if (peer == device_.end()) {
        if (unlisted++ == 0) first = fmt::format("'{}' in line {}", port.peer, port.line);
        continue;
      }
      const std::int32_t own = device_.at(port.device);
      if (!port.of_switch && port.peer.starts_with("S-"))
        fabric_.tree.hosts[static_cast<std::size_t>(own)].ports.push_back(peer->second);
      if (port.of_switch && port.peer.starts_with("S-") && own < peer->second) ++trunks[{own, peer->second}];
    }
    if (unlisted > 0)
      fabric_.tree.assumed = fmt::format("{} to devices that the file does not list {} left out, the first to {}",
                                         counted(unlisted, "port"), unlisted == 1 ? "is" : "are", first);
    for (const auto& [ends, count] : trunks) fabric_.tree.trunks.push_back({ends.first, ends.second, count});
    std::erase_if(fabric_.tree.hosts, [](const NetworkTree::Host& h) { return h.ports.empty(); });
    if (fabric_.tree.hosts.empty()) return bad_input("{}:1: no adapter is at a switch", name_);
    return std::move(fabric_);
  }

  struct Port {
    std::int64_t line;
    std::string device;
    bool of_switch;
    std::string peer;
  };

  std::string_view name_;
  IbFabric fabric_;
  std::map<std::string, std::int32_t> device_, host_;  // position among switches or hosts
  std::vector<Port> ports_;
  std::string current_;
  bool current_is_switch_ = false;
};

}  // namespace

bool is_ibnetdiscover(std::string_view text) {
  return std::ranges::any_of(lines_of(text), [](const TextLine& line) { return is_device(line.text); });
}

Result<IbFabric> parse_ibnetdiscover(std::string_view name, std::string_view text) {
  return FabricParser(name).run(text);
}

}  // namespace weft::topology
