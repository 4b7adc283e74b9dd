#include "model/accuracy/plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "base/xml_file.h"

namespace weft::accuracy {
namespace {

constexpr double kWidth = 760, kHeight = 460, kLeft = 80, kRight = 20, kTop = 64, kBottom = 56;

// A logarithmic axis from `low` to `high` in whole powers of its base.
struct Axis {
  double base, low, high, from, to;  // values, then pixels

  double at(double value) const {
    return from + (to - from) * (std::log(value) - std::log(low)) / (std::log(high) - std::log(low));
  }
};

Axis axis_over(std::vector<double> values, double base, double from, double to) {
  const auto [low, high] = std::ranges::minmax(values);
  const double first = std::floor(std::log(low) / std::log(base) + 1e-9);
  const double last = std::max(first + 1, std::ceil(std::log(high) / std::log(base) - 1e-9));
  return {base, std::pow(base, first), std::pow(base, last), from, to};
}

// Lines of a grid with labels below or beside; every `skip`-th power is labelled.
template <class Label>
std::string grid(const Axis& axis, bool across, int skip, Label&& label) {
  std::string svg;
  const int first = static_cast<int>(std::lround(std::log(axis.low) / std::log(axis.base)));
  const int last = static_cast<int>(std::lround(std::log(axis.high) / std::log(axis.base)));
  for (int power = first; power <= last; ++power) {
    if ((power - first) % skip != 0) continue;
    const double value = std::pow(axis.base, power), at = axis.at(value);
    if (across)
      svg += fmt::format(
          "<path class='grid' d='M{0:.1f} {1}V{2}'/><text x='{0:.1f}' y='{3}' text-anchor='middle'>{4}</text>\n", at,
          kTop, kHeight - kBottom, kHeight - kBottom + 18, label(value));
    else
      svg += fmt::format(
          "<path class='grid' d='M{1} {0:.1f}H{2}'/><text x='{3}' y='{4:.1f}' text-anchor='end'>{5}</text>\n", at,
          kLeft, kWidth - kRight, kLeft - 8, at + 4, label(value));
  }
  return svg;
}

std::string heading(const Scored& s) {
  std::string errors;
  constexpr const char* kNames[kBands] = {"below 64 KiB", "to 16 MiB", "from 16 MiB"};
  for (std::size_t b = 0; b < kBands; ++b)
    if (s.score.points[b] > 0)
      errors += fmt::format("{}{}: {:.0f} %", errors.empty() ? "" : ", ", kNames[b], 100 * s.score.error[b]);
  return fmt::format(
      "<text x='{}' y='24' class='title'>{}</text>\n<text x='{}' y='44'>{} on {}; median error {}{}</text>\n", kLeft,
      xml_escaped(s.table.name), kLeft, schedule::name(s.table.collective), xml_escaped(s.table.machine), errors,
      s.table.use == Use::kFit ? "; used for fitting" : "");
}

std::string legend() {
  const double x = kLeft + 16, y = kTop + 18;
  return fmt::format(
      "<circle cx='{0}' cy='{1}' r='4' class='measured'/><text x='{2}' y='{3}'>measured</text>\n"
      "<path class='predicted' d='M{4} {5}h18'/><text x='{2}' y='{6}'>predicted</text>\n",
      x, y - 4, x + 18, y, x - 9, y + 14, y + 18);
}

}  // namespace

std::string plot(const Scored& s) {
  const std::vector<Point>& points = s.table.points;
  const bool by_ranks =
      std::ranges::all_of(points, [&](const Point& p) { return p.bytes == points.front().bytes && p.ranks > 0; });
  std::vector<double> xs, ys;
  for (std::size_t i = 0; i < points.size(); ++i) {
    xs.push_back(by_ranks ? points[i].ranks : static_cast<double>(points[i].bytes));
    ys.push_back(points[i].time.us());
  }
  for (const Prediction& p : s.predictions) ys.push_back(p.time.us());
  const Axis x = axis_over(xs, 2, kLeft, kWidth - kRight), y = axis_over(ys, 10, kHeight - kBottom, kTop);
  const int powers = static_cast<int>(std::lround(std::log2(x.high / x.low)));

  std::string svg = fmt::format(
      "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {0} {1}' width='{0}' height='{1}' "
      "font-family='sans-serif' font-size='12'>\n<style>.grid{{stroke:#ddd}}.title{{font-size:15px;font-weight:bold}}"
      ".measured{{fill:#c33}}.predicted{{stroke:#26b;stroke-width:2;fill:none}}</style>\n"
      "<rect width='{0}' height='{1}' fill='white'/>\n",
      kWidth, kHeight);
  svg += heading(s);
  svg += grid(x, true, std::max(1, (powers + 9) / 10), [&](double value) {
    return by_ranks ? fmt::format("{:.0f}", value) : format_bytes(static_cast<Bytes>(value));
  });
  svg += grid(y, false, 1, [](double value) { return format_duration(Duration::microseconds(value)); });
  svg +=
      fmt::format("<text x='{}' y='{}' text-anchor='middle'>{}</text>\n", (kLeft + kWidth - kRight) / 2, kHeight - 14,
                  by_ranks ? "ranks; both scales are logarithmic" : "message; both scales are logarithmic");
  std::string line;
  for (std::size_t i = 0; i < s.predictions.size(); ++i)
    line += fmt::format("{}{:.1f} {:.1f}", line.empty() ? "M" : "L", x.at(xs[i]), y.at(s.predictions[i].time.us()));
  svg += fmt::format("<path class='predicted' d='{}'/>\n", line);
  for (std::size_t i = 0; i < points.size(); ++i)
    svg += fmt::format("<circle class='measured' cx='{:.1f}' cy='{:.1f}' r='4'/>\n", x.at(xs[i]), y.at(ys[i]));
  return svg + legend() + "</svg>\n";
}

}  // namespace weft::accuracy
