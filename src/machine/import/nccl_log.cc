#include "machine/import/nccl_log.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <map>
#include <string>

#include "machine/import/matrix_machine.h"
#include "machine/import/text_lines.h"

namespace weft::topology {
namespace {

using Way = ClassMatrix::Way;

constexpr std::string_view kInfo = "NCCL INFO ";
constexpr double kLinkInNccl = 20;  // GB/s that NCCL counts for an NVLink of 25
constexpr std::size_t kMostDevices = 256;

// "GPU/0-4E000" and "GPU/4e000" are one device.
std::string device_of(std::string_view word) {
  std::string name(word);
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return name;
}
bool is_end(std::string_view word) { return word.starts_with("GPU/") || word.starts_with("NET/"); }

// "GPU/4E000 :GPU/0-4e000 (0/5000.0/LOC) …": the device in front and the rest; nothing: another line.
std::pair<std::string_view, std::string_view> row_of(std::string_view line) {
  const auto info = line.find(kInfo);
  if (info == std::string_view::npos) return {};
  const std::string_view rest = line.substr(info + kInfo.size());
  const auto colon = rest.find(" :");
  if (!is_end(rest) || colon == std::string_view::npos || rest.find(' ') != colon) return {};
  return {rest.substr(0, colon), rest.substr(colon + 2)};
}

// The host in front of NCCL's line: "node031:1936469:1936517 [4] NCCL INFO …".
std::string_view host_of(std::string_view line) {
  std::string_view front = trimmed(line.substr(0, line.find(kInfo)));
  const auto process = front.rfind(' ');
  if (process != std::string_view::npos) front = trimmed(front.substr(0, process));
  front = front.substr(front.rfind(' ') == std::string_view::npos ? 0 : front.rfind(' ') + 1);
  return front.substr(0, front.find(':'));
}

// "(4/24.0/PHB)".
ClassMatrix::Cell cell_of(std::string_view text) {
  const auto first = text.find('/'), last = text.rfind('/');
  if (first == std::string_view::npos || last == first || !text.ends_with(')')) return {};
  const std::string_view type = text.substr(last + 1, text.size() - last - 2);
  const double rate = std::strtod(std::string(text.substr(first + 1, last - first - 1)).c_str(), nullptr);
  constexpr std::pair<std::string_view, Way> kTypes[] = {{"PIX", Way::kPix},  {"PXB", Way::kPxb}, {"PHB", Way::kPhb},
                                                         {"C2C", Way::kPhb},  {"P2C", Way::kPhb}, {"SYS", Way::kSys},
                                                         {"NODE", Way::kNode}};
  if (type == "NVL" && rate > 0)
    return {Way::kScaleUp, static_cast<std::int32_t>(std::clamp(std::round(rate / kLinkInNccl), 1.0, 64.0))};
  for (const auto& [word, way] : kTypes)
    if (type == word) return {way, 1};
  return {};
}

}  // namespace

bool is_nccl_log(std::string_view text) {
  return std::ranges::any_of(lines_of(text), [](const TextLine& line) { return !row_of(line.text).first.empty(); });
}

Result<Topology> parse_nccl_log(const Catalog& catalog, std::string_view name, std::string_view text) {
  ClassMatrix matrix;
  std::map<std::string, std::size_t> at;
  std::map<std::pair<std::size_t, std::size_t>, ClassMatrix::Cell> cells;
  std::string host;
  const auto entry = [&](std::string_view word, std::int64_t line) {
    const auto [where, fresh] = at.emplace(device_of(word), matrix.entries.size());
    if (fresh) {
      const bool nic = word.starts_with("NET/");
      matrix.entries.push_back({.kind = nic ? DeviceKind::kNic : DeviceKind::kGpu, .model = "", .line = line});
    }
    return where->second;
  };
  for (const TextLine& line : lines_of(text)) {
    const auto [own, rest] = row_of(line.text);
    if (own.empty()) continue;
    if (host.empty()) host = host_of(line.text);
    if (host_of(line.text) != host || matrix.entries.size() > kMostDevices) continue;
    // The first of its own row is the device itself, with its domain where NCCL prints one.
    const auto words = words_of(rest);
    std::size_t from = matrix.entries.size();
    for (std::size_t i = 0; i + 1 < words.size(); i += 2)
      if (is_end(words[i]) && words[i + 1].ends_with("/LOC)")) from = entry(words[i], line.number);
    if (from == matrix.entries.size()) from = entry(own, line.number);
    for (std::size_t i = 0; i + 1 < words.size(); i += 2)
      if (is_end(words[i]))
        if (const ClassMatrix::Cell cell = cell_of(words[i + 1]); cell.way != Way::kNone)
          cells[{from, entry(words[i], line.number)}] = cell;
  }
  matrix.resize();
  for (const auto& [ends, cell] : cells)
    matrix.cells[ends.first][ends.second] = matrix.cells[ends.second][ends.first] = cell;
  return machine_of(catalog, name, matrix);
}

}  // namespace weft::topology
