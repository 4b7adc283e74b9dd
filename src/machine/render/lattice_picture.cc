#include "machine/render/lattice_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <vector>

#include "base/counted.h"

namespace weft::topology {
namespace {

using Align = SvgCanvas::Align;

// Pixels.
constexpr double kBoxWidth = 62, kBoxHeight = 32, kColumn = 92, kRow = 62, kStub = 12, kPlaneGap = 36, kCaption = 26;
constexpr std::int32_t kMostColumns = 16, kMostPlanes = 4;

struct Place {
  std::int32_t plane = 0, row = 0, column = 0;
  auto operator<=>(const Place&) const = default;
};

// "1,2,3" is plane, row, column; two numbers are row and column, one a column.
Place place_of(std::string_view at) {
  std::int32_t numbers[3] = {0, 0, 0};
  int count = 0;
  while (!at.empty() && count < 3) {
    std::from_chars(at.data(), at.data() + at.size(), numbers[count++]);
    const std::size_t comma = at.find(',');
    at.remove_prefix(comma == std::string_view::npos ? at.size() : comma + 1);
  }
  if (count == 1) return {0, 0, numbers[0]};
  if (count == 2) return {0, numbers[0], numbers[1]};
  return {numbers[0], numbers[1], numbers[2]};
}

class Picture {
 public:
  Picture(SvgCanvas& canvas, const Topology& topology, std::int32_t node)
      : canvas_(canvas), topology_(topology), node_(node) {
    for (DeviceId id = 0; id < static_cast<DeviceId>(topology.devices().size()); ++id) {
      const Device& d = topology.device(id);
      if (d.node != node || d.facts.get("at").empty()) continue;
      const Place place = place_of(d.facts.get("at"));
      places_[id] = place;
      planes_ = std::max(planes_, place.plane + 1);
      rows_ = std::max(rows_, place.row + 1);
      columns_ = std::max(columns_, place.column + 1);
    }
  }

  double draw(double top) {
    top_ = top + kCaption;
    const std::int32_t shown = std::min(planes_, kMostPlanes);
    for (std::int32_t p = 0; p < shown && planes_ > 1; ++p)
      canvas_.text(x_of({p, 0, 0}) - kBoxWidth / 2, top + 12, fmt::format("plane {} of {}", p, planes_), 12,
                   Align::kLeft, 0, "bold");
    for (const auto& [id, place] : places_)
      if (shown_at(place)) draw_chip(id, place);
    double y = top_ + std::min(rows_, kMostColumns) * kRow + 18;
    for (const std::string& line : captions(shown)) {
      canvas_.text(0, y, line, 12, Align::kLeft);
      y += 18;
    }
    return y;
  }

 private:
  bool shown_at(const Place& p) const {
    return p.plane < kMostPlanes && p.row < kMostColumns && p.column < kMostColumns;
  }
  double plane_width() const { return std::min(columns_, kMostColumns) * kColumn + kPlaneGap; }
  double x_of(const Place& p) const { return p.plane * plane_width() + p.column * kColumn + kBoxWidth / 2 + kStub; }
  double y_of(const Place& p) const { return top_ + p.row * kRow + kBoxHeight / 2 + kStub; }

  void draw_chip(DeviceId id, const Place& place) {
    const double x = x_of(place), y = y_of(place);
    canvas_.box(x - kBoxWidth / 2, y - kBoxHeight / 2, kBoxWidth, kBoxHeight, DeviceKind::kGpu);
    canvas_.text(x, y + 5, fmt::format("gpu{}", topology_.device(id).index), 12, Align::kMiddle, kBoxWidth - 6, "bold");
    for (const LinkId l : topology_.links_of(id)) {
      const auto peer = places_.find(topology_.other_end(l, id));
      if (peer == places_.end() || peer->second.plane != place.plane) continue;
      const Link& link = topology_.link(l);
      const Place& to = peer->second;
      const std::int32_t rows = to.row - place.row, columns = to.column - place.column;
      if (rows + columns == 1 && rows >= 0 && columns >= 0) {
        canvas_.line(x, y, x_of(to), y_of(to), link.kind, link.rate_ab);
      } else if (rows == 0 && std::abs(columns) > 1) {  // around: a stub towards the edge
        const double sign = columns > 0 ? -1 : 1;
        canvas_.line(x, y, x + sign * (kBoxWidth / 2 + kStub), y, link.kind, link.rate_ab);
      } else if (columns == 0 && std::abs(rows) > 1) {
        const double sign = rows > 0 ? -1 : 1;
        canvas_.line(x, y, x, y + sign * (kBoxHeight / 2 + kStub), link.kind, link.rate_ab);
      }
    }
  }

  std::vector<std::string> captions(std::int32_t shown) const {
    std::vector<std::string> lines;
    std::string size = fmt::format("{} x {}", rows_, columns_);
    if (planes_ > 1) size = fmt::format("{} x {}", planes_, size);
    BytesPerSecond chip, host;
    std::string host_kind;
    std::map<DeviceKind, std::int64_t> counts;
    bool around = false;
    for (const Device& d : topology_.devices())
      if (d.node == node_) ++counts[d.kind];
    for (const auto& [id, place] : places_)
      for (const LinkId l : topology_.links_of(id)) {
        const DeviceId to = topology_.other_end(l, id);
        const Link& link = topology_.link(l);
        if (const auto peer = places_.find(to); peer != places_.end()) {
          chip = link.rate_ab;
          around =
              around || std::abs(peer->second.column - place.column) > 1 || std::abs(peer->second.row - place.row) > 1;
        } else {
          host = link.rate_ab;
          host_kind =
              fmt::format("{} {} GB/s to a {}", name(link.kind), rate_label(host), name(topology_.device(to).kind));
        }
      }
    lines.push_back(fmt::format("{} {} chips, {} GB/s in each direction between neighbours{}", size,
                                places_.empty() ? "" : topology_.device(places_.begin()->first).model, rate_label(chip),
                                around ? "; stubs go around to the other edge" : ""));
    if (planes_ > 1)
      lines.push_back("Every chip is also joined to the chips at its place in the planes before and after.");
    if (planes_ > shown || rows_ > kMostColumns || columns_ > kMostColumns)
      lines.push_back(fmt::format("Shown: {} of {} planes, {} of {}, {} of {}", shown, planes_,
                                  std::min(rows_, kMostColumns), counted(rows_, "row"),
                                  std::min(columns_, kMostColumns), counted(columns_, "column")));
    if (!host_kind.empty())
      lines.push_back(fmt::format("Each chip: {}. The node has {} and {}.", host_kind,
                                  counted(counts[DeviceKind::kCpu], "CPU"), counted(counts[DeviceKind::kNic], "NIC")));
    return lines;
  }

  SvgCanvas& canvas_;
  const Topology& topology_;
  std::int32_t node_;
  std::map<DeviceId, Place> places_;
  std::int32_t planes_ = 0, rows_ = 0, columns_ = 0;
  double top_ = 0;
};

}  // namespace

bool is_lattice(const Topology& topology, std::int32_t node) {
  return std::ranges::any_of(topology.devices(),
                             [&](const Device& d) { return d.node == node && !d.facts.get("at").empty(); });
}

double draw_lattice(SvgCanvas& canvas, const Topology& topology, std::int32_t node, double y) {
  return Picture(canvas, topology, node).draw(y);
}

}  // namespace weft::topology
