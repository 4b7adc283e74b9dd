#include "plan/schedule/render/space_time.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/counted.h"
#include "base/xml_file.h"
#include "plan/schedule/render/timeline.h"

namespace weft::schedule {
namespace {

constexpr std::size_t kMostSteps = 50'000;
// Pixels.
constexpr double kLeft = 70, kTop = 62, kRadius = 9, kLaneHeight = 24, kGap = 26, kColumn = 58, kMargin = 12;

// Twelve colours that differ in lightness too (after Paul Tol's and Tableau's sets), dark enough for white figures.
constexpr const char* kColours[] = {"#4269d0", "#c9472f", "#2f8f5b", "#8a5fc7", "#b3700f", "#1f8a99",
                                    "#c2418c", "#5f6f1d", "#7a4a2b", "#3b5488", "#9c2f45", "#4f4f4f"};
constexpr const char* kSignal = "#777777";

std::string_view colour(ChunkId chunk) {
  return chunk < 0 ? kSignal : kColours[static_cast<std::size_t>(chunk) % std::size(kColours)];
}

struct Point {
  double x = 0, y = 0;
};

enum class Mark { kMove, kReduce, kLocal, kSignal };

Mark mark_of(const Step& step) {
  if (step.kind != Step::Kind::kMove) return Mark::kSignal;
  bool sums = step.sources.size() > 1, local = true;
  for (const Operands* side : {&step.sources, &step.destinations})
    for (const Operand& o : *side) {
      local = local && o.kind == Operand::Kind::kLocal;
      sums = sums ||
             (side == &step.sources && (o.kind == Operand::Kind::kMulticast || o.kind == Operand::Kind::kAggregation));
    }
  return sums ? Mark::kReduce : local ? Mark::kLocal : Mark::kMove;
}

class Picture {
 public:
  Picture(const Schedule& s, std::string_view title) : s_(s), title_(title), time_(timeline(s)) {
    // Lanes that no rank uses get no row.
    for (int lane = 0; lane < s.lanes; ++lane) {
      row_.push_back(rows_);
      for (Rank r = 0; r < s.shape.ranks; ++r)
        if (!s.strand(r, lane).empty()) {
          ++rows_;
          break;
        }
    }
    rows_ = std::max(rows_, 1);
  }

  std::string draw() {
    bands();
    for (const Arrow& a : time_.arrows) arrow(point(a.from), point(a.to), a.chunk, a.chunk < 0, true);
    for (int strand = 0; strand < static_cast<int>(s_.strands.size()); ++strand)
      for (int i = 0; i < static_cast<int>(s_.strands[static_cast<std::size_t>(strand)].size()); ++i) {
        const Step& step = s_.strands[static_cast<std::size_t>(strand)][static_cast<std::size_t>(i)];
        if (level({strand, i}) < 0) continue;
        accesses({strand, i}, step);
        mark(point({strand, i}), mark_of(step), step.chunk);
      }
    legend();
    return fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} "
        "{1:.0f}\" "
        "font-family=\"DejaVu Sans, Helvetica, Arial, sans-serif\">\n<rect width=\"100%\" height=\"100%\" "
        "fill=\"#ffffff\"/>\n{2}{3}{4}</svg>\n",
        width_, height_, back_, arrows_, marks_);
  }

 private:
  int level(const StepId& id) const {
    return time_.levels[static_cast<std::size_t>(id.strand)][static_cast<std::size_t>(id.step)];
  }
  double rank_height() const { return kLaneHeight * rows_ + kGap; }
  double y_of_row(Rank rank, int row) const {
    return kTop + rank * rank_height() + kGap / 2 + (row + 0.5) * kLaneHeight;
  }
  double y_of(Rank rank, int lane) const { return y_of_row(rank, row_[static_cast<std::size_t>(lane)]); }
  double x_of(int level) const { return kLeft + (level + 0.5) * kColumn; }
  Point point(const StepId& id) const { return {x_of(level(id)), y_of(id.strand / s_.lanes, id.strand % s_.lanes)}; }

  void text(std::string& to, Point at, std::string_view words, double size, const char* anchor, std::string_view ink,
            const char* weight = "normal") {
    to += fmt::format(
        "<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"{}\" text-anchor=\"{}\" fill=\"{}\" "
        "font-weight=\"{}\">{}</text>\n",
        at.x, at.y, size, anchor, ink, weight, xml_escaped(words));
  }

  void bands() {
    const double right = kLeft + std::max(1, time_.columns) * kColumn;
    const std::string heading =
        fmt::format("{}: {} time steps{}", title_, time_.columns,
                    time_.stuck > 0 ? fmt::format("; {} never run", counted(time_.stuck, "step")) : "");
    // 8.2: width of a letter of the heading, rounded up; 760: of the legend.
    width_ = std::max({right + kMargin, kMargin * 2 + 8.2 * static_cast<double>(heading.size()), 780.0});
    height_ = kTop + s_.shape.ranks * rank_height() + 46;
    text(back_, {kMargin, 24}, heading, 14, "start", time_.stuck > 0 ? "#b00000" : "#000000", "bold");
    for (Rank r = 0; r < s_.shape.ranks; ++r) {
      const double y = kTop + r * rank_height();
      if (r % 2 == 0)
        back_ += fmt::format("<rect x=\"0\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"#f3f4f6\"/>\n", y,
                             width_, rank_height());
      text(back_, {kMargin, y + rank_height() / 2 + 4}, fmt::format("rank {}", r), 12, "start", "#222222");
      for (int row = 0; row < rows_; ++row)
        back_ += fmt::format(
            "<line x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{2:.1f}\" y2=\"{1:.1f}\" stroke=\"#d5d8dd\" "
            "stroke-width=\"1\"/>\n",
            kLeft, y_of_row(r, row), right);
    }
    for (int level = 0; level < time_.columns; ++level)
      text(back_, {x_of(level), kTop - 10}, fmt::format("{}", level), 10, "middle", "#666666");
    text(back_, {kMargin, kTop - 10}, "time", 10, "start", "#666666");
  }

  // `marked`: a step stands at the far end, so that the tip keeps clear of it.
  void arrow(Point from, Point to, ChunkId chunk, bool dashed, bool marked, double opacity = 0.9) {
    const double dx = to.x - from.x, dy = to.y - from.y, length = std::hypot(dx, dy);
    if (length < 1) return;
    const double ux = dx / length, uy = dy / length, clear = marked ? kRadius + 2 : 0, head = 7;
    const Point tip{to.x - ux * clear, to.y - uy * clear}, base{tip.x - ux * head, tip.y - uy * head};
    arrows_ += fmt::format(
        "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\" stroke-width=\"1.6\" "
        "stroke-opacity=\"{}\"{}/>\n<polygon points=\"{:.1f},{:.1f} {:.1f},{:.1f} {:.1f},{:.1f}\" fill=\"{}\" "
        "fill-opacity=\"{}\"/>\n",
        from.x, from.y, base.x, base.y, colour(chunk), opacity, dashed ? " stroke-dasharray=\"4 3\"" : "", tip.x, tip.y,
        base.x - uy * 3.5, base.y + ux * 3.5, base.x + uy * 3.5, base.y - ux * 3.5, colour(chunk), opacity);
  }

  // Loads and stores of peers' memory: from half a column before, or to half a column after, on the peer's row.
  void accesses(const StepId& id, const Step& step) {
    const Point self = point(id);
    for (const Operands* side : {&step.sources, &step.destinations})
      for (const Operand& o : *side) {
        if (o.kind != Operand::Kind::kRemote && o.kind != Operand::Kind::kMulticast) continue;
        const Group peers = o.kind == Operand::Kind::kRemote ? Group{o.peer, 1, 1} : o.group();
        for (Rank i = 0; i < peers.count; ++i) {
          if (peers.member(i) == id.strand / s_.lanes) continue;
          const double y = y_of(peers.member(i), id.strand % s_.lanes), lean = kColumn * 0.42;
          if (side == &step.sources)
            arrow({self.x - lean, y}, self, step.chunk, false, true, 0.6);
          else
            arrow(self, {self.x + lean, y}, step.chunk, false, false, 0.6);
        }
      }
  }

  void mark(Point at, Mark kind, ChunkId chunk) {
    const double r = kRadius;
    switch (kind) {
      case Mark::kSignal:
        marks_ += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\" fill=\"{}\"/>\n", at.x, at.y, kSignal);
        return;
      case Mark::kReduce:
        marks_ += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{}\" height=\"{}\" fill=\"{}\"/>\n", at.x - r,
                              at.y - r, 2 * r, 2 * r, colour(chunk));
        break;
      case Mark::kLocal:
        marks_ += fmt::format(
            "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\" fill=\"#ffffff\" stroke=\"{}\" stroke-width=\"2\"/>\n", at.x,
            at.y, r - 1, colour(chunk));
        break;
      case Mark::kMove:
        marks_ +=
            fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\" fill=\"{}\"/>\n", at.x, at.y, r, colour(chunk));
        break;
    }
    const double size = chunk < 10 ? 11 : chunk < 100 ? 10 : chunk < 1000 ? 8 : 6;
    text(marks_, {at.x, at.y + size * 0.36}, fmt::format("{}", chunk), size, "middle",
         kind == Mark::kLocal ? colour(chunk) : "#ffffff", "bold");
  }

  void legend() {
    const double y = height_ - 20;
    double x = kMargin + kRadius;
    const auto entry = [&](double room, std::string_view words) {
      text(marks_, {x + 16, y + 4}, words, 11, "start", "#222222");
      x += room;
    };
    mark({x, y}, Mark::kMove, 0), entry(150, "moves chunk 0");
    mark({x, y}, Mark::kReduce, 0), entry(110, "reduces");
    mark({x, y}, Mark::kLocal, 0), entry(135, "copies locally");
    arrow({x - 4, y}, {x + 26, y}, 0, false, false);
    x += 16, entry(175, "message, load or store");
    mark({x - 4, y}, Mark::kSignal, -1), arrow({x - 4, y}, {x + 26, y}, -1, true, false);
    x += 16, entry(100, "signal, wait");
  }

  const Schedule& s_;
  std::string_view title_;
  Timeline time_;
  std::vector<int> row_;  // of every lane
  int rows_ = 0;
  double width_ = 0, height_ = 0;
  std::string back_, arrows_, marks_;  // in drawing order
};

}  // namespace

Result<std::string> space_time_svg(const Schedule& schedule, std::string_view title) {
  std::size_t steps = 0;
  for (const auto& strand : schedule.strands) steps += strand.size();
  if (steps > kMostSteps)
    return bad_input("a picture of {} steps shows nothing; at most {} are drawn", steps, kMostSteps);
  return Picture(schedule, title).draw();
}

}  // namespace weft::schedule
