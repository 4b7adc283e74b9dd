#include "machine/render/cluster_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

#include "base/counted.h"
#include "machine/switch_height.h"

namespace weft::topology {
namespace {

using Align = SvgCanvas::Align;

// Pixels.
constexpr double kColumn = 110, kBox = 92, kHeight = 32, kRowGap = 96, kCaptionGap = 14, kArcs = 40;
constexpr std::size_t kMostShown = 8;

// A row's members: nodes by number, switches by device.
struct Row {
  std::vector<std::int32_t> members;
  std::string word;     // "leaf"
  std::string caption;  // to the right
  DeviceKind kind = DeviceKind::kGpu;
  double y = 0;

  std::size_t shown() const { return members.size() > kMostShown + 1 ? kMostShown : members.size(); }
  // -1: folded away. Members are ascending.
  std::int32_t column(std::int32_t member) const {
    const auto end = members.begin() + static_cast<std::ptrdiff_t>(shown());
    const auto at = std::lower_bound(members.begin(), end, member);
    return at != end && *at == member ? static_cast<std::int32_t>(at - members.begin()) : -1;
  }
};

double centre(std::int32_t column) { return column * kColumn + kBox / 2; }

void draw_row(SvgCanvas& canvas, const Row& row) {
  const std::size_t boxes = row.shown() + (row.shown() < row.members.size() ? 1 : 0);
  canvas.text(static_cast<double>(boxes) * kColumn + kCaptionGap, row.y + 21, row.caption, 12, Align::kLeft);
  for (std::size_t i = 0; i < row.shown(); ++i) {
    const double x = static_cast<double>(i) * kColumn;
    canvas.box(x, row.y, kBox, kHeight, row.kind);
    canvas.text(x + kBox / 2, row.y + 21, fmt::format("{} {}", row.word, i), 12, Align::kMiddle, kBox - 8);
  }
  if (row.shown() == row.members.size()) return;
  const double x = static_cast<double>(row.shown()) * kColumn;
  canvas.folded(x, row.y, kBox, kHeight);
  canvas.text(x + kBox / 2, row.y + 21, fmt::format("{} more", row.members.size() - row.shown()), 12, Align::kMiddle,
              kBox - 8);
}

class Picture {
 public:
  Picture(SvgCanvas& canvas, const Topology& topology)
      : canvas_(canvas), topology_(topology), height_(switch_heights(topology)) {
    const std::int32_t top = *std::ranges::max_element(height_);
    rows_.resize(static_cast<std::size_t>(top) + 2);  // nodes, leaves, spines, cores
    for (std::int32_t n = 0; n < topology.nodes(); ++n) rows_[0].members.push_back(n);
    for (DeviceId id = 0; id < static_cast<DeviceId>(topology.devices().size()); ++id)
      if (height_[static_cast<std::size_t>(id)] >= 0)
        rows_[static_cast<std::size_t>(height_[static_cast<std::size_t>(id)]) + 1].members.push_back(id);
    static constexpr const char* kWords[] = {"node", "leaf", "spine", "core"};
    for (std::size_t r = 0; r < rows_.size(); ++r) {
      rows_[r].word = r < 4 ? kWords[r] : "switch";
      rows_[r].kind = r == 0 ? DeviceKind::kGpu : DeviceKind::kNetworkSwitch;
    }
    if (rows_.size() == 2) rows_[1].word = "switch";
  }

  double draw(double y) {
    collect();
    for (std::size_t r = rows_.size(); r-- > 0;) {
      rows_[r].y = y;
      rows_[r].caption = caption(r);
      draw_row(canvas_, rows_[r]);
      y += kHeight + kRowGap;
    }
    for (const auto& [ends, rate] : bundles_) draw_bundle(ends, rate);
    return y - kRowGap;
  }

 private:
  struct End {
    std::size_t row = 0;
    std::int32_t member = 0;
    auto operator<=>(const End&) const = default;
  };

  End end_of(DeviceId id) const {
    const Device& d = topology_.device(id);
    if (d.node >= 0) return {0, d.node};
    return {static_cast<std::size_t>(height_[static_cast<std::size_t>(id)]) + 1, id};
  }

  // Links between members that are shown, added up; and what the first member of each row is joined to.
  void collect() {
    first_.resize(rows_.size());
    for (const Link& link : topology_.links()) {
      if (link.kind != LinkKind::kNetwork) continue;
      End low = end_of(link.a), high = end_of(link.b);
      if (high < low) std::swap(low, high);
      for (const auto& [own, other] : {std::pair(low, high), std::pair(high, low)})
        if (own.member == rows_[own.row].members.front() && other.row >= own.row)
          first_[own.row][other] = first_[own.row][other] + link.rate_ab;
      if (rows_[low.row].column(low.member) >= 0 && rows_[high.row].column(high.member) >= 0)
        bundles_[{low, high}] = bundles_[{low, high}] + link.rate_ab;
    }
  }

  // "16 leaves of ib-ndr, each to 2 spines by 400 GB/s"
  std::string caption(std::size_t r) const {
    const Row& row = rows_[r];
    std::string text =
        fmt::format("{} {}", row.members.size(), plural(static_cast<std::int64_t>(row.members.size()), rows_[r].word));
    if (r > 0) text += fmt::format(" of {}", topology_.device(row.members[0]).model);
    std::map<std::size_t, std::pair<std::size_t, BytesPerSecond>> towards;  // by row: how many, and the first's rate
    for (const auto& [end, rate] : first_[r]) {
      if (++towards[end.row].first == 1) towards[end.row].second = rate;
    }
    for (const auto& [to, what] : towards)
      text += fmt::format(", {} to {} {} by {} GB/s", row.members.size() == 1 ? "joined" : "each", what.first,
                          (to == r ? "other " : "") + plural(static_cast<std::int64_t>(what.first), rows_[to].word),
                          rate_label(what.second));
    return text;
  }

  void draw_bundle(const std::pair<End, End>& ends, BytesPerSecond rate) {
    const auto& [low, high] = ends;
    const double x1 = centre(rows_[low.row].column(low.member)), x2 = centre(rows_[high.row].column(high.member));
    if (low.row == high.row)  // neighbours of a torus or dragonfly
      canvas_.arc(x1, x2, rows_[low.row].y, -8 - std::abs(x2 - x1) * 0.06, LinkKind::kNetwork, rate);
    else
      canvas_.line(x1, rows_[low.row].y, x2, rows_[high.row].y + kHeight, LinkKind::kNetwork, rate, true);
  }

  SvgCanvas& canvas_;
  const Topology& topology_;
  std::vector<std::int32_t> height_;
  std::vector<Row> rows_;
  std::vector<std::map<End, BytesPerSecond>> first_;
  std::map<std::pair<End, End>, BytesPerSecond> bundles_;
};

}  // namespace

double draw_cluster(SvgCanvas& canvas, const Topology& topology, double y) {
  // Room for the arcs above the top row.
  return Picture(canvas, topology).draw(y + kArcs);
}

}  // namespace weft::topology
