#include "machine/import/iblinkinfo.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <string>

#include "machine/import/text_lines.h"

namespace weft::topology {
namespace {

// "Switch: 0x0c42a10300b95bfa MF0;ibswitch254:MQM8700/U1:"; older: "Switch 0x… name:".
std::string_view switch_name(std::string_view line) {
  if (!line.starts_with("Switch")) return {};
  const auto words = words_of(line);
  if (words.size() < 2 || !words[1].starts_with("0x")) return {};
  std::string_view rest = trimmed(line.substr(line.find(words[1]) + words[1].size()));
  if (rest.ends_with(':')) rest.remove_suffix(1);
  return rest;
}

// The name in the last quotes of a port's line: what is at its other end.
std::string_view peer_of(std::string_view line) {
  const auto close = line.rfind('"');
  if (close == std::string_view::npos || close == 0 || line.find("LinkUp") == std::string_view::npos) return {};
  const auto open = line.rfind('"', close - 1);
  return open == std::string_view::npos ? std::string_view() : line.substr(open + 1, close - open - 1);
}

// The catalogue's network of a lane's rate: "4X  53.125 Gbps".
const char* network_of(double lane) {
  constexpr std::pair<double, const char*> kLanes[] = {{2.5, "ib-sdr"},     {5, "ib-ddr"},        {10, "ib-qdr"},
                                                       {14.0625, "ib-fdr"}, {25.78125, "ib-edr"}, {53.125, "ib-hdr"},
                                                       {106.25, "ib-ndr"},  {212.5, "ib-xdr"}};
  for (const auto& [rate, name] : kLanes)
    if (std::abs(lane - rate) < 0.02 * rate) return name;
  return "";
}

double lane_rate(std::string_view line) {
  const auto end = line.find(" Gbps");
  if (end == std::string_view::npos) return 0;
  const auto words = words_of(line.substr(0, end));
  return words.empty() ? 0 : std::strtod(std::string(words.back()).c_str(), nullptr);
}

}  // namespace

bool is_iblinkinfo(std::string_view text) {
  bool named = false, linked = false;
  for (const TextLine& line : lines_of(text)) {
    named = named || !switch_name(trimmed(line.text)).empty();
    linked = linked ||
             (line.text.find(")==>") != std::string_view::npos && line.text.find("Gbps") != std::string_view::npos);
  }
  return named && linked;
}

Result<IbFabric> parse_iblinkinfo(std::string_view name, std::string_view text) {
  IbFabric fabric;
  std::map<std::string, std::int32_t, std::less<>> switches, hosts;
  for (const TextLine& line : lines_of(text))
    if (const std::string_view own = switch_name(trimmed(line.text)); !own.empty() && !switches.contains(own)) {
      switches.emplace(own, static_cast<std::int32_t>(fabric.tree.switches.size()));
      fabric.tree.switches.emplace_back(own);
    }
  std::map<std::pair<std::int32_t, std::int32_t>, std::int32_t> trunks;
  std::int32_t current = -1;
  double fastest = 0;
  for (const TextLine& line : lines_of(text)) {
    const std::string_view row = trimmed(line.text);
    if (row.starts_with("CA:") || row.starts_with("CA ")) current = -1;
    if (const std::string_view own = switch_name(row); !own.empty()) current = switches.find(own)->second;
    const std::string_view peer = peer_of(row);
    if (current < 0 || peer.empty() || peer.find("Aggregation Node") != std::string_view::npos) continue;
    if (const auto other = switches.find(peer); other != switches.end()) {
      if (current < other->second) ++trunks[{current, other->second}];
      continue;
    }
    const std::string_view host = peer.substr(0, peer.find(' '));
    auto [at, fresh] = hosts.emplace(host, static_cast<std::int32_t>(fabric.tree.hosts.size()));
    if (fresh) fabric.tree.hosts.push_back({std::string(host), {}});
    fabric.tree.hosts[static_cast<std::size_t>(at->second)].ports.push_back(current);
    if (const double lane = lane_rate(row); lane > fastest && *network_of(lane) != 0)
      fastest = lane, fabric.network = network_of(lane);
  }
  for (const auto& [ends, count] : trunks) fabric.tree.trunks.push_back({ends.first, ends.second, count});
  if (fabric.tree.hosts.empty()) return bad_input("{}:1: no host is at a switch", name);
  return fabric;
}

}  // namespace weft::topology
