#include "apps/serving/pictures.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "apps/serving/lanes.h"
#include "base/counted.h"
#include "machine/render/axis.h"
#include "machine/render/svg_canvas.h"

namespace weft::serving {
namespace {

using topology::Axis;
using topology::SvgCanvas;
using Align = SvgCanvas::Align;

constexpr std::string_view kInk = "#141a2c", kQuiet = "#5f6885", kHair = "#d5dae8", kModel = "#2f4ba8";
constexpr std::string_view kDecode = "#c9d3ee", kPrefill = "#e58a12", kFull = "#c4122f";
constexpr double kLeft = 90, kRight = 950, kTop = 64, kLane = 22, kRow = 30, kPanel = 130;
constexpr std::size_t kMostLanes = 16, kMostRequests = 5000, kColumns = 860;

void heading(SvgCanvas& canvas, const std::string& text, const std::string& below) {
  canvas.text(0, 16, text, 18, Align::kLeft, 0, "bold", kInk);
  canvas.text(0, 38, below, 12, Align::kLeft, 0, "normal", kQuiet);
}

bool is_apart(const report::ServeRow& row) { return row.plan.find(" for prefill") != std::string::npos; }

class RunPicture {
 public:
  RunPicture(const Run& run, const report::ServeReport& report)
      : lanes_(lanes_of(run, is_apart(report.rows.front()), kColumns, kMostLanes)),
        time_{0, lanes_.seconds, kLeft, kRight} {
    const report::ServeRow& row = report.rows.front();
    heading(canvas_, fmt::format("{} by {} on {}: {}", report.model, report.engine, report.machine, row.load),
            fmt::format("{}; {} input and {} output tokens{}", row.plan, report.input, report.output, left_out(row)));
  }

  std::string draw() {
    const std::size_t shown = lanes_.engines.size();
    const bool several = shown > 1;
    for (std::size_t e = 0; e < shown; ++e) lane(lanes_.engines[e], kTop + kRow * static_cast<double>(e));
    legend();
    double y = kTop + kRow * static_cast<double>(shown) + 30;
    if (lanes_.left_out > 0)
      canvas_.text(kLeft, y - 4, fmt::format("{} more engines are not drawn", lanes_.left_out), 12, Align::kLeft, 0,
                   "normal", kQuiet);
    const double most =
        std::max({1.0, *std::ranges::max_element(lanes_.waiting), *std::ranges::max_element(lanes_.running)});
    panel(y, several ? "requests, the fullest engine" : "requests", most, 1,
          {{"waiting", kFull, &lanes_.waiting}, {"decoding", kModel, &lanes_.running}});
    y += kPanel + 40;
    panel(y, several ? "cache in use, % of its tokens, the fullest engine" : "cache in use, % of its tokens", 100, 100,
          {{"", kModel, &lanes_.used}});
    y += kPanel + 16;
    const double step = topology::round_step(time_.high, 6);
    for (double t = 0; t <= time_.high; t += step)
      canvas_.text(time_(t), y, fmt::format("{:.4g} s", t), 12, Align::kMiddle, 0, "normal", kQuiet);
    return canvas_.finish();
  }

 private:
  struct Line {
    std::string name;
    std::string_view ink;
    const std::vector<double>* value;  // by column
  };

  // Engines beside each other do the same: one of them is recorded.
  static std::string left_out(const report::ServeRow& row) {
    const auto times = row.plan.find(" x (");
    if (times == std::string::npos || is_apart(row)) return "";
    return fmt::format("; one of {} engines", row.plan.substr(0, times));
  }

  // A column of pixels has the share of its time that read prompts.
  void lane(const Lanes::Engine& engine, double y) {
    canvas_.text(0, y + 16, engine.name, 12, Align::kLeft, kLeft - 10, "bold", kInk);
    const double pixel = (kRight - kLeft) / static_cast<double>(kColumns);
    for (std::size_t c = 0; c < kColumns; ++c) {
      const double x = kLeft + pixel * static_cast<double>(c);
      const double read = engine.reads[c], all = std::min(1.0, read + engine.decodes[c]);
      if (all > read) canvas_.cell(x, y + kLane * (1 - all), pixel, kLane * (all - read), kDecode);
      if (read > 0) canvas_.cell(x, y + kLane * (1 - read), pixel, kLane * read, kPrefill);
    }
  }
  void legend() {
    canvas_.cell(kRight - 190, 40, 12, 11, kPrefill);
    canvas_.text(kRight - 172, 50, "reads prompts", 12, Align::kLeft, 0, "normal", kInk);
    canvas_.cell(kRight - 70, 40, 12, 11, kDecode);
    canvas_.text(kRight - 52, 50, "decodes", 12, Align::kLeft, 0, "normal", kInk);
  }

  void panel(double top, const std::string& name, double most, double scale, const std::vector<Line>& lines) {
    const Axis up{0, most, top + kPanel, top};
    canvas_.text(0, top - 10, name, 12, Align::kLeft, 0, "bold", kInk);
    const double step = topology::round_step(most, 4);
    for (double v = 0; v <= most; v += step) {
      canvas_.cell(kLeft, up(v), kRight - kLeft, 1, kHair);
      canvas_.text(kLeft - 8, up(v) + 4, fmt::format("{:.4g}", v), 12, Align::kRight, 0, "normal", kQuiet);
    }
    double x = kRight - 130;
    for (const Line& line : lines) {
      curve(up, scale, line);
      canvas_.text(x, top - 10, line.name, 12, Align::kLeft, 0, "normal", line.ink);
      x += 70;
    }
  }
  void curve(const Axis& up, double scale, const Line& line) {
    std::vector<std::pair<double, double>> points;
    for (std::size_t c = 0; c < kColumns; ++c)
      if (const double value = (*line.value)[c]; value >= 0)
        points.emplace_back(kLeft + (kRight - kLeft) / static_cast<double>(kColumns) * static_cast<double>(c),
                            up(std::min(scale * value, up.high)));
    if (points.size() > 1) canvas_.polyline(points, line.ink, 1.5);
  }

  Lanes lanes_;
  SvgCanvas canvas_;
  Axis time_;
};

// The names of plans beside their points; one that would lie on another is left out, as the table has all of them.
class PlanLabels {
 public:
  void draw(SvgCanvas& canvas, double x, double y, const std::string& plan) {
    const double right = x + 5.8 * static_cast<double>(plan.size());
    const bool covers = std::ranges::any_of(
        drawn_, [&](const Drawn& d) { return x < d.right && d.x < right && std::abs(y - d.y) < 13; });
    if (plan == before_ || covers) return;
    canvas.text(x, y, plan, 11, Align::kLeft, 0, "normal", kInk);
    drawn_.push_back({x, right, y});
    before_ = plan;
  }

 private:
  struct Drawn {
    double x, right, y;
  };
  std::vector<Drawn> drawn_;
  std::string before_;
};

}  // namespace

std::string run_svg(const Run& run, const report::ServeReport& report) { return RunPicture(run, report).draw(); }

std::string frontier_svg(const report::ServeReport& report) {
  SvgCanvas canvas;
  heading(canvas, fmt::format("{} by {} on {}: every plan and load", report.model, report.engine, report.machine),
          fmt::format("{} tried; {} input and {} output tokens; the line: no other point has more of both",
                      counted(report.tried, "point"), report.input, report.output));
  double user = 1, gpu = 1;
  for (const auto* rows : {&report.rows, &report.frontier})
    for (const report::ServeRow& r : *rows)
      user = std::max(user, r.tokens_per_user), gpu = std::max(gpu, r.tokens_per_gpu);
  constexpr double kDown = 470;
  const Axis x{0, user * 1.05, kLeft, 800}, y{0, gpu * 1.08, kDown, kTop};
  for (double v = 0, step = topology::round_step(x.high, 8); v <= x.high; v += step) {
    canvas.cell(x(v), kTop, 1, kDown - kTop, kHair);
    canvas.text(x(v), kDown + 16, fmt::format("{:.4g}", v), 12, Align::kMiddle, 0, "normal", kQuiet);
  }
  for (double v = 0, step = topology::round_step(y.high, 6); v <= y.high; v += step) {
    canvas.cell(kLeft, y(v), 800 - kLeft, 1, kHair);
    canvas.text(kLeft - 8, y(v) + 4, fmt::format("{:.4g}", v), 12, Align::kRight, 0, "normal", kQuiet);
  }
  canvas.text(800, kDown + 38, "output tokens/s per user", 12, Align::kRight, 0, "normal", kInk);
  canvas.text(kLeft + 6, kTop + 12, "output tokens/s per GPU", 12, Align::kLeft, 0, "normal", kInk);
  std::vector<std::pair<double, double>> line;
  for (const report::ServeRow& r : report.frontier) line.emplace_back(x(r.tokens_per_user), y(r.tokens_per_gpu));
  if (line.size() > 1) canvas.polyline(line, kModel, 2);
  PlanLabels labels;
  for (const report::ServeRow& r : report.frontier) {
    canvas.dot(x(r.tokens_per_user), y(r.tokens_per_gpu), 3.5, kModel);
    labels.draw(canvas, x(r.tokens_per_user) + 7, y(r.tokens_per_gpu) - 5, r.plan);
  }
  for (const report::ServeRow& r : report.rows)
    if (r.fits) canvas.dot(x(r.tokens_per_user), y(r.tokens_per_gpu), 5, "none", kPrefill);
  canvas.dot(kLeft + 4, kDown + 34, 5, "none", kPrefill);
  canvas.text(kLeft + 16, kDown + 38, "a plan at its best load under the goal", 12, Align::kLeft, 0, "normal", kInk);
  return canvas.finish();
}

nlohmann::json run_timeline(const Run& run) {
  nlohmann::json events = nlohmann::json::array();
  for (const Run::Sample& s : run.samples) {
    events.push_back({{"name", s.reads ? "prompts" : "decode"},
                      {"ph", "X"},
                      {"pid", s.engine},
                      {"tid", 0},
                      {"ts", s.begin * 1e6},
                      {"dur", (s.end - s.begin) * 1e6},
                      {"args", {{"decoding", s.running}, {"waiting", s.waiting}}}});
    events.push_back({{"name", "requests"},
                      {"ph", "C"},
                      {"pid", s.engine},
                      {"ts", s.begin * 1e6},
                      {"args", {{"waiting", s.waiting}, {"decoding", s.running}}}});
    events.push_back({{"name", "cache %"},
                      {"ph", "C"},
                      {"pid", s.engine},
                      {"ts", s.begin * 1e6},
                      {"args", {{"used", 100 * s.used}}}});
  }
  const std::size_t shown = std::min(run.done.size(), kMostRequests);
  const auto phase = [&](std::size_t id, const char* name, double begin, double end) {
    if (end <= begin) return;
    for (const auto& [ph, at] : {std::pair{"b", begin}, {"e", end}})
      events.push_back({{"name", name}, {"cat", "request"}, {"ph", ph}, {"id", id}, {"pid", -1}, {"ts", at * 1e6}});
  };
  for (std::size_t i = 0; i < shown; ++i) {
    const Request& r = run.done[i];
    phase(i, "queue", r.arrival, r.started);
    phase(i, "prefill", r.started, r.first - r.moved);
    phase(i, "KV transfer", r.first - r.moved, r.first);
    phase(i, "decode", r.first, r.finished);
  }
  return {{"traceEvents", events},
          {"displayTimeUnit", "ms"},
          {"otherData", {{"requests", run.done.size()}, {"requests_left_out", run.done.size() - shown}}}};
}

}  // namespace weft::serving
