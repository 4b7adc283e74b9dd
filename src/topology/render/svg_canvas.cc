#include "topology/render/svg_canvas.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/xml_file.h"

namespace weft::topology {
namespace {

constexpr double kMargin = 24;  // px around the picture
// Widths as parts of the font size, on average, with room to spare for a font that the viewer substitutes.
constexpr double kLetterWidth = 0.6, kBoldLetterWidth = 0.68;

// Grows with the logarithm of the rate, so that 8 GB/s and 900 GB/s are both visible: 2 px and 8 px.
double width_of(BytesPerSecond rate) { return 1 + std::log2(1 + std::max(rate.gb(), 0.0) / 8); }

std::size_t letters(std::string_view utf8) {
  return static_cast<std::size_t>(std::ranges::count_if(utf8, [](char c) { return (c & 0xC0) != 0x80; }));
}

}  // namespace

std::string_view colour_of(LinkKind kind) {
  switch (kind) {
    case LinkKind::kNvlink:
      return "#5d9400";
    case LinkKind::kXgmi:
      return "#c2334d";
    case LinkKind::kChipLink:
      return "#0d8a8a";
    case LinkKind::kPcie:
      return "#3b74ad";
    case LinkKind::kInterSocket:
      return "#d9822b";
    case LinkKind::kMemory:
      return "#7a7a7a";
    case LinkKind::kNetwork:
      return "#8350b0";
  }
  return "#000000";
}

std::string_view fill_of(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::kGpu:
      return "#e6f2cf";
    case DeviceKind::kCore:
      return "#f1f1f1";
    case DeviceKind::kCpu:
      return "#fbe8d0";
    case DeviceKind::kMemory:
      return "#eeeeee";
    case DeviceKind::kPcieSwitch:
      return "#d9e6f3";
    case DeviceKind::kNvSwitch:
      return "#cfe8a8";
    case DeviceKind::kNic:
    case DeviceKind::kNetworkSwitch:
      return "#e8dcf3";
  }
  return "#ffffff";
}

std::string rate_label(BytesPerSecond rate) {
  const double gb = rate.gb();
  if (gb >= 100) return fmt::format("{:.0f}", gb);
  return gb >= 10 ? fmt::format("{:.1f}", gb) : fmt::format("{:.2f}", gb);
}

void SvgCanvas::about(std::string_view a, std::string_view b) {
  subject_ = a.empty()   ? ""
             : b.empty() ? fmt::format(" data-a=\"{}\"", xml_escaped(a))
                         : fmt::format(" data-a=\"{}\" data-b=\"{}\"", xml_escaped(a), xml_escaped(b));
}

void SvgCanvas::reach(double x, double y) {
  width_ = std::max(width_, x);
  height_ = std::max(height_, y);
}

void SvgCanvas::box(double x, double y, double width, double height, std::string_view fill, bool dashed) {
  boxes_ += fmt::format(
      "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" rx=\"5\" fill=\"{}\" "
      "stroke=\"#555555\"{}{}/>\n",
      x, y, width, height, fill, dashed ? " stroke-dasharray=\"4 3\"" : "", subject_);
  reach(x + width, y + height);
}

void SvgCanvas::cell(double x, double y, double width, double height, std::string_view fill) {
  boxes_ += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"{}\"/>\n", x, y,
                        width, height, fill);
  reach(x + width, y + height);
}

void SvgCanvas::line(double x1, double y1, double x2, double y2, LinkKind kind, BytesPerSecond rate, bool faint) {
  lines_ += fmt::format(
      "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\" stroke-width=\"{:.1f}\" "
      "opacity=\"{}\"{}/>\n",
      x1, y1, x2, y2, colour_of(kind), faint ? width_of(rate) * 0.4 : width_of(rate), faint ? 0.6 : 1.0, subject_);
  reach(std::max(x1, x2), std::max(y1, y2));
}

void SvgCanvas::arc(double x1, double x2, double y, double depth, LinkKind kind, BytesPerSecond rate) {
  // The control point of a quadratic curve lies twice as deep as the curve.
  lines_ += fmt::format(
      "<path d=\"M{:.1f} {:.1f} Q{:.1f} {:.1f} {:.1f} {:.1f}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{:.1f}\" "
      "opacity=\"0.75\"{}/>\n",
      x1, y, (x1 + x2) / 2, y + 2 * depth, x2, y, colour_of(kind), width_of(rate), subject_);
  reach(std::max(x1, x2), y + std::max(depth, 0.0));
}

void SvgCanvas::text(double x, double y, std::string_view text, double size, Align align, double room,
                     std::string_view weight, std::string_view ink) {
  const double per_size = (weight == "bold" ? kBoldLetterWidth : kLetterWidth) * static_cast<double>(letters(text));
  if (room > 0 && size * per_size > room) size = room / per_size;
  const double width = size * per_size;
  const char* anchor = align == Align::kLeft ? "start" : align == Align::kMiddle ? "middle" : "end";
  texts_ += fmt::format(
      "<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"{:.1f}\" font-weight=\"{}\" text-anchor=\"{}\" "
      "fill=\"{}\">{}</text>\n",
      x, y, size, weight, anchor, ink, xml_escaped(text));
  reach(x + (align == Align::kLeft ? width : align == Align::kMiddle ? width / 2 : 0), y + size * 0.3);
}

std::string SvgCanvas::finish() const {
  const double width = width_ + 2 * kMargin, height = height_ + 2 * kMargin;
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" "
             "height=\"{1:.0f}\" font-family=\"Helvetica, Arial, sans-serif\">\n<rect width=\"100%\" height=\"100%\" "
             "fill=\"#ffffff\"/>\n<g transform=\"translate({2} {2})\">\n",
             width, height, kMargin) +
         lines_ + boxes_ + texts_ + "</g>\n</svg>\n";
}

}  // namespace weft::topology
