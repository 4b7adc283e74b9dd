#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "machine/topology.h"

namespace weft::topology {

// A picture under construction, in pixels from the top left. Grows to what is drawn on it.
//   Widths of links are to scale: `per_gb` pixels for each GB/s of one direction, and at least kHairline.
//   Boxes, links and texts have classes (box-gpu, link-nvlink, …), by which a page gives them other colours.
class SvgCanvas {
 public:
  enum class Align { kLeft, kMiddle, kRight };
  static constexpr double kHairline = 0.8;  // px

  explicit SvgCanvas(double per_gb = 0) : per_gb_(per_gb) {}
  double width_of(BytesPerSecond rate) const;

  // What is drawn from here on, until the next call: a device, a link between two, or nothing that has a name. It
  // stands in data-a and data-b of boxes and lines, so that a page knows what was clicked.
  void about(std::string_view a = {}, std::string_view b = {});

  void box(double x, double y, double width, double height, DeviceKind kind);
  // A dashed one for what is folded away.
  void folded(double x, double y, double width, double height);
  // A rectangle without edge or round corners, as cells of a table are.
  void cell(double x, double y, double width, double height, std::string_view fill, std::string_view of_class = {});
  // An edge alone, for what is to be seen among cells.
  void outline(double x, double y, double width, double height, std::string_view stroke, double thick = 1);
  // A line through points; `dashed` for what is a limit or a guess.
  void polyline(std::span<const std::pair<double, double>> points, std::string_view stroke, double thick = 2,
                bool dashed = false);
  void dot(double x, double y, double radius, std::string_view fill, std::string_view stroke = {});
  // `faint`: thinner and paler, for bundles of many lines.
  void line(double x1, double y1, double x2, double y2, LinkKind kind, BytesPerSecond rate, bool faint = false);
  // A curve from (x1, y) to (x2, y) that hangs `depth` below (above when negative).
  void arc(double x1, double x2, double y, double depth, LinkKind kind, BytesPerSecond rate);
  // Text whose baseline is at y. With room > 0 the letters shrink to fit into that many pixels.
  void text(double x, double y, std::string_view text, double size, Align align, double room = 0,
            std::string_view weight = "normal", std::string_view ink = "#141a2c");

  // The document, with a margin around everything drawn.
  std::string finish() const;

 private:
  void reach(double x, double y);

  std::string lines_, boxes_, texts_;  // in drawing order: links lie behind boxes, text before both
  std::string subject_;                // attributes
  double per_gb_;
  double width_ = 0, height_ = 0;
};

std::string_view colour_of(LinkKind kind);
std::string_view fill_of(DeviceKind kind);
// "63", "31.5", "7.88": GB/s for a label.
std::string rate_label(BytesPerSecond rate);

}  // namespace weft::topology
