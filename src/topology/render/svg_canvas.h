#pragma once

#include <string>
#include <string_view>

#include "topology/topology.h"

namespace weft::topology {

// A picture under construction, in pixels from the top left. Grows to what is drawn on it.
class SvgCanvas {
 public:
  enum class Align { kLeft, kMiddle, kRight };

  // What is drawn from here on, until the next call: a device, a link between two, or nothing that has a name. It
  // stands in data-a and data-b of boxes and lines, so that a page knows what was clicked.
  void about(std::string_view a = {}, std::string_view b = {});

  void box(double x, double y, double width, double height, std::string_view fill, bool dashed = false);
  // A rectangle without edge or round corners, as cells of a table are.
  void cell(double x, double y, double width, double height, std::string_view fill);
  // `faint`: thinner and paler, for bundles of many lines.
  void line(double x1, double y1, double x2, double y2, LinkKind kind, BytesPerSecond rate, bool faint = false);
  // A curve from (x1, y) to (x2, y) that hangs `depth` below (above when negative).
  void arc(double x1, double x2, double y, double depth, LinkKind kind, BytesPerSecond rate);
  // Text whose baseline is at y. With room > 0 the letters shrink to fit into that many pixels.
  void text(double x, double y, std::string_view text, double size, Align align, double room = 0,
            std::string_view weight = "normal", std::string_view ink = "#000000");

  // The document, with a margin around everything drawn.
  std::string finish() const;

 private:
  void reach(double x, double y);

  std::string lines_, boxes_, texts_;  // in drawing order: links lie behind boxes, text before both
  std::string subject_;                // attributes
  double width_ = 0, height_ = 0;
};

std::string_view colour_of(LinkKind kind);
std::string_view fill_of(DeviceKind kind);
// "63", "31.5", "7.88": GB/s for a label.
std::string rate_label(BytesPerSecond rate);

}  // namespace weft::topology
