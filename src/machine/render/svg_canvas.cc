#include "machine/render/svg_canvas.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/xml_file.h"

namespace weft::topology {
namespace {

constexpr double kMargin = 24;  // px around the picture
// Widths as parts of the font size, on average, with room to spare for a font that the viewer substitutes.
constexpr double kLetterWidth = 0.6, kBoldLetterWidth = 0.68;

// "NVLink" -> "nvlink", "chip link" -> "chip-link".
std::string class_of(std::string_view name) {
  std::string word(name);
  for (char& c : word) c = c == ' ' ? '-' : c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return word;
}

std::size_t letters(std::string_view utf8) {
  return static_cast<std::size_t>(std::ranges::count_if(utf8, [](char c) { return (c & 0xC0) != 0x80; }));
}

}  // namespace

std::string_view colour_of(LinkKind kind) {
  switch (kind) {
    case LinkKind::kNvlink:
      return "#2f4ba8";
    case LinkKind::kXgmi:
      return "#2f4ba8";
    case LinkKind::kChipLink:
      return "#2f4ba8";
    case LinkKind::kPcie:
      return "#7f93d6";
    case LinkKind::kInterSocket:
      return "#5f6885";
    case LinkKind::kMemory:
      return "#7f8bae";
    case LinkKind::kNetwork:
      return "#1b2f7e";
  }
  return "#000000";
}

std::string_view fill_of(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::kGpu:
      return "#dfe5f6";
    case DeviceKind::kCore:
      return "#f3f5fa";
    case DeviceKind::kCpu:
      return "#ffffff";
    case DeviceKind::kMemory:
      return "#f3f5fa";
    case DeviceKind::kPcieSwitch:
      return "#ffffff";
    case DeviceKind::kNvSwitch:
      return "#c9d3ee";
    case DeviceKind::kNic:
      return "#ffffff";
    case DeviceKind::kNetworkSwitch:
      return "#e7ebf5";
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

double SvgCanvas::width_of(BytesPerSecond rate) const { return std::max(kHairline, per_gb_ * rate.gb()); }

void SvgCanvas::box(double x, double y, double width, double height, DeviceKind kind) {
  boxes_ += fmt::format(
      "<rect class=\"box box-{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" rx=\"4\" fill=\"{}\" "
      "stroke=\"#7f8bae\"{}/>\n",
      name(kind), x, y, width, height, fill_of(kind), subject_);
  reach(x + width, y + height);
}

void SvgCanvas::folded(double x, double y, double width, double height) {
  // Two edges behind the box stand for the copies.
  for (const double back : {6.0, 3.0, 0.0})
    boxes_ += fmt::format(
        "<rect class=\"box folded\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" rx=\"4\" "
        "fill=\"#ffffff\" "
        "stroke=\"#7f8bae\" stroke-dasharray=\"4 3\"/>\n",
        x + back, y + back, width, height);
  reach(x + width + 6, y + height + 6);
}

void SvgCanvas::cell(double x, double y, double width, double height, std::string_view fill,
                     std::string_view of_class) {
  boxes_ +=
      fmt::format("<rect{} x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"{}\"/>\n",
                  of_class.empty() ? std::string() : fmt::format(" class=\"{}\"", of_class), x, y, width, height, fill);
  reach(x + width, y + height);
}

void SvgCanvas::outline(double x, double y, double width, double height, std::string_view stroke, double thick) {
  boxes_ += fmt::format(
      "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"none\" stroke=\"{}\" "
      "stroke-width=\"{}\"/>\n",
      x, y, width, height, stroke, thick);
  reach(x + width, y + height);
}

void SvgCanvas::polyline(std::span<const std::pair<double, double>> points, std::string_view stroke, double thick,
                         bool dashed) {
  std::string list;
  for (const auto& [x, y] : points) {
    list += fmt::format("{:.1f},{:.1f} ", x, y);
    reach(x, y);
  }
  boxes_ += fmt::format("<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{}\"{}/>\n", list, stroke,
                        thick, dashed ? " stroke-dasharray=\"5 4\"" : "");
}

void SvgCanvas::dot(double x, double y, double radius, std::string_view fill, std::string_view stroke) {
  boxes_ += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\" fill=\"{}\"{}/>\n", x, y, radius, fill,
                        stroke.empty() ? std::string() : fmt::format(" stroke=\"{}\"", stroke));
  reach(x + radius, y + radius);
}

void SvgCanvas::line(double x1, double y1, double x2, double y2, LinkKind kind, BytesPerSecond rate, bool faint) {
  lines_ += fmt::format(
      "<line class=\"link link-{}\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\" "
      "stroke-width=\"{:.2f}\" "
      "opacity=\"{}\"{}/>\n",
      class_of(name(kind)), x1, y1, x2, y2, colour_of(kind), width_of(rate), faint ? 0.55 : 1.0, subject_);
  reach(std::max(x1, x2), std::max(y1, y2));
}

void SvgCanvas::arc(double x1, double x2, double y, double depth, LinkKind kind, BytesPerSecond rate) {
  // The control point of a quadratic curve lies twice as deep as the curve.
  lines_ += fmt::format(
      "<path class=\"link link-{}\" d=\"M{:.1f} {:.1f} Q{:.1f} {:.1f} {:.1f} {:.1f}\" fill=\"none\" stroke=\"{}\" "
      "stroke-width=\"{:.2f}\" "
      "opacity=\"0.75\"{}/>\n",
      class_of(name(kind)), x1, y, (x1 + x2) / 2, y + 2 * depth, x2, y, colour_of(kind), width_of(rate), subject_);
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
             "height=\"{1:.0f}\" font-family=\"system-ui, Inter, 'Liberation Sans', Helvetica, Arial, sans-serif\">\n"
             "<rect class=\"paper\" width=\"100%\" height=\"100%\" fill=\"#fafbfc\"/>\n<g transform=\"translate({2} "
             "{2})\">\n",
             width, height, kMargin) +
         lines_ + boxes_ + texts_ + "</g>\n</svg>\n";
}

}  // namespace weft::topology
