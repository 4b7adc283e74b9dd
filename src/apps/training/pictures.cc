#include "apps/training/pictures.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/counted.h"
#include "base/text.h"
#include "machine/render/axis.h"
#include "machine/render/svg_canvas.h"

namespace weft::training {
namespace {

using topology::SvgCanvas;
using Align = SvgCanvas::Align;
using topology::Axis;
using topology::round_step;

constexpr std::string_view kInk = "#141a2c", kQuiet = "#5f6885", kHair = "#d5dae8", kModel = "#2f4ba8";
constexpr std::string_view kForward = "#c9d3ee", kBackward = "#7f93d6", kWeight = "#a4b3e2";
constexpr std::string_view kWire = "#e58a12", kOptimizer = "#5f6885", kFault = "#c4122f";
constexpr double kGiB = 1073741824.0;

std::string as_time(double seconds) { return format_duration(Duration::seconds(seconds)); }

// Columns of a picture with lanes, in pixels.
constexpr double kName = 70, kLanes = 860, kGap = 36, kBars = 190, kLane = 26, kRow = 34, kTop = 74;

class Lanes {
 public:
  explicit Lanes(const Answer& answer)
      : step_(answer.step), row_(answer.report.rows.front()), shown_(std::min(step_.data_begin.size(), kMostLanes)) {
    for (const double bytes : row_.stage_memory) most_ = std::max(most_, bytes);
    most_ = std::max(most_, row_.capacity);
    until_ = step_.seconds;  // stages that do not wait for each other between steps end one after the other
    for (const double end : step_.data_end) until_ = std::max(until_, end + step_.parts.optimizer);
    canvas_.text(0, 16,
                 fmt::format("A step of {} on {} of {}: {}", answer.report.model, counted(answer.report.gpus, "GPU"),
                             answer.report.machine, as_time(step_.seconds)),
                 18, Align::kLeft, 0, "bold", kInk);
    canvas_.text(0, 38, row_.plan, 12, Align::kLeft, 0, "normal", kQuiet);
    canvas_.text(memory_x(0), 62, "memory of the stage, GiB", 12, Align::kLeft, 0, "normal", kQuiet);
  }

  std::string draw() {
    for (std::size_t s = 0; s < shown_; ++s) draw_stage(s);
    double y = kTop + static_cast<double>(shown_) * kRow + 4;
    for (int i = 0; i <= 4; ++i) {
      const double at = until_ * i / 4;
      canvas_.cell(x(at), y - 4, 1, 6, kQuiet);
      canvas_.text(x(at), y + 14, i == 0 ? "0" : as_time(at), 12,
                   i == 0   ? Align::kLeft
                   : i == 4 ? Align::kRight
                            : Align::kMiddle,
                   0, "normal", kQuiet);
    }
    const std::pair<double, double> limit[] = {{memory_x(row_.capacity), kTop - 6}, {memory_x(row_.capacity), y}};
    canvas_.polyline(limit, kFault, 1.5, true);
    canvas_.text(memory_x(row_.capacity), y + 14, fmt::format("{:.0f} there are", row_.capacity / kGiB), 12,
                 Align::kRight, 0, "normal", kFault);
    if (shown_ < step_.data_begin.size())
      canvas_.text(0, y + 34, fmt::format("{} more stages are not drawn", step_.data_begin.size() - shown_), 12,
                   Align::kLeft, 0, "normal", kQuiet);
    legend(y + 54);
    return canvas_.finish();
  }

 private:
  double x(double seconds) const { return kName + kLanes * seconds / until_; }
  double memory_x(double bytes) const { return kName + kLanes + kGap + kBars * bytes / most_; }

  void bar(std::size_t stage, double begin, double end, std::string_view fill, double from = 0, double height = kLane) {
    if (end > begin) canvas_.cell(x(begin), y_of(stage) + from, std::max(x(end) - x(begin), 0.3), height, fill);
  }
  // What nothing hides.
  void exposed(std::size_t stage, double begin, double end) {
    if (x(end) - x(begin) > 2) canvas_.outline(x(begin), y_of(stage), x(end) - x(begin), kLane, kInk, 1.2);
  }
  static double y_of(std::size_t stage) { return kTop + static_cast<double>(stage) * kRow; }

  void draw_stage(std::size_t stage) {
    canvas_.text(0, y_of(stage) + 18, fmt::format("stage {}", stage), 12, Align::kLeft, kName - 8, "bold", kInk);
    canvas_.cell(kName, y_of(stage) + kLane, kLanes, 1, kHair);
    double before = step_.pipeline.stage_begin[stage];
    for (const Piece& p : step_.pipeline.pieces) {
      if (static_cast<std::size_t>(p.stage) != stage) continue;
      exposed(stage, before, p.begin);
      bar(stage, p.begin, p.end, p.pass == 'F' ? kForward : p.pass == 'B' ? kBackward : kWeight);
      if (x(p.end) - x(p.begin) > 16)
        canvas_.text((x(p.begin) + x(p.end)) / 2, y_of(stage) + 15, fmt::format("{}", p.micro_batch), 10,
                     Align::kMiddle, x(p.end) - x(p.begin) - 2, "normal", kInk);
      before = p.end;
    }
    bar(stage, step_.data_begin[stage], step_.data_end[stage], kWire, kLane - 7, 7);
    exposed(stage, before, step_.data_end[stage]);
    bar(stage, step_.data_end[stage], step_.data_end[stage] + step_.parts.optimizer, kOptimizer);
    draw_memory(stage);
  }

  void draw_memory(std::size_t stage) {
    const StageMemory& m = step_.stages[stage];
    double at = 0;
    for (const auto& [bytes, fill] : {std::pair{m.parameters, kModel},
                                      {m.gradients, kBackward},
                                      {m.optimizer, kWeight},
                                      {m.activations, kForward},
                                      {m.total() - m.tensors() + m.logits, kHair}}) {
      canvas_.cell(memory_x(at), y_of(stage) + 4, memory_x(at + bytes) - memory_x(at), kLane - 10, fill);
      at += bytes;
    }
    const bool over = at > row_.capacity;
    if (over)
      canvas_.outline(memory_x(row_.capacity), y_of(stage) + 3, memory_x(at) - memory_x(row_.capacity), kLane - 8,
                      kFault, 2);
    canvas_.text(memory_x(most_) + 8, y_of(stage) + 17, fmt::format("{:.1f}", at / kGiB), 12, Align::kLeft, 0,
                 over ? "bold" : "normal", over ? kFault : kInk);
  }

  void legend(double y) {
    double at = 0;
    const auto sample = [&](std::string_view fill, std::string_view what, bool edge = false) {
      if (edge)
        canvas_.outline(at, y - 10, 14, 11, kInk, 1.2);
      else
        canvas_.cell(at, y - 10, 14, 11, fill);
      canvas_.text(at + 20, y, what, 12, Align::kLeft, 0, "normal", kInk);
      at += 34 + 6.6 * static_cast<double>(what.size());
    };
    sample(kForward, "forward");
    sample(kBackward, "backward");
    if (std::ranges::any_of(step_.pipeline.pieces, [](const Piece& p) { return p.pass == 'W'; }))
      sample(kWeight, "weights' gradients");
    sample(kWire, "gradients on the wire");
    sample(kOptimizer, "optimizer");
    sample({}, "exposed: nothing is computed", true);
    at = 0, y += 22;
    canvas_.text(at, y, "memory:", 12, Align::kLeft, 0, "normal", kQuiet);
    at = 60;
    sample(kModel, "parameters");
    sample(kBackward, "gradients");
    sample(kWeight, "optimizer");
    sample(kForward, "activations");
    sample(kHair, "logits and other");
  }

  SvgCanvas canvas_;
  const Step& step_;
  const report::TrainRow& row_;
  std::size_t shown_;
  double most_ = 0, until_ = 0;
};

void title(SvgCanvas& canvas, const std::string& text, const std::string& below) {
  canvas.text(0, 16, text, 18, Align::kLeft, 0, "bold", kInk);
  canvas.text(0, 38, below, 12, Align::kLeft, 0, "normal", kQuiet);
}

}  // namespace

std::string step_svg(const Answer& answer) { return Lanes(answer).draw(); }

std::vector<std::size_t> pareto_front(const std::vector<Ranked>& plans) {
  std::vector<std::size_t> order(plans.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return plans[i].step.seconds; });
  std::vector<std::size_t> front;
  double least = std::numeric_limits<double>::infinity();
  for (const std::size_t i : order)
    if (plans[i].step.peak.total() < least) front.push_back(i), least = plans[i].step.peak.total();
  return front;
}

std::string front_svg(const Plans& plans, const report::TrainReport& report) {
  SvgCanvas canvas;
  constexpr double left = 70, right = 760, top = 60, bottom = 470;
  const auto gib = [](const Ranked& r) { return r.step.peak.total() / kGiB; };
  const double capacity = report.rows.front().capacity / kGiB;
  double fastest = plans.ranked.front().step.seconds, slowest = fastest, least = capacity;
  for (const Ranked& r : plans.ranked) {
    fastest = std::min(fastest, r.step.seconds), slowest = std::max(slowest, r.step.seconds);
    least = std::min(least, gib(r));
  }
  slowest = std::min(slowest, 4 * fastest);  // what is slower stands at the edge
  const Axis x{.low = 0, .high = capacity * 1.08, .from = left, .to = right};
  const Axis y{.low = fastest * 0.94, .high = slowest * 1.1, .from = bottom, .to = top, .logarithmic = true};
  title(
      canvas, fmt::format("Plans for {} on {} of {}", report.model, counted(report.gpus, "GPU"), report.machine),
      fmt::format("{} were tried: {} fit, {} need too much memory. Step time against memory; the line is the front: no "
                  "plan is better in both.",
                  plans.tried, plans.ranked.size(), plans.refused.size()));
  const double apart = round_step(capacity, 5);
  for (double v = 0; v <= capacity * 1.001; v += apart) {
    canvas.cell(x(v), top, 1, bottom - top, kHair);
    canvas.text(x(v), bottom + 18, fmt::format("{:g}", v), 12, Align::kMiddle, 0, "normal", kQuiet);
  }
  for (double v = fastest; v <= slowest * 1.001; v *= std::sqrt(2.0)) {
    canvas.cell(left, y(v), right - left, 1, kHair);
    canvas.text(left - 8, y(v) + 4, as_time(v), 12, Align::kRight, 0, "normal", kQuiet);
  }
  canvas.text((left + right) / 2, bottom + 38, "GiB of the fullest stage", 12, Align::kMiddle, 0, "normal", kQuiet);
  const std::pair<double, double> limit[] = {{x(capacity), top}, {x(capacity), bottom}};
  canvas.polyline(limit, kFault, 1.5, true);
  canvas.text(x(capacity), top - 6, fmt::format("{:.0f} GiB there are", capacity), 12, Align::kRight, 0, "normal",
              kFault);
  const auto at = [&](const Ranked& r) { return std::pair{x(gib(r)), y(std::min(r.step.seconds, slowest))}; };
  for (const Ranked& r : plans.ranked) canvas.dot(at(r).first, at(r).second, 2.2, kWeight);
  std::vector<std::pair<double, double>> line;
  double label_y = top - 16;
  std::pair<double, double> named;  // where the last number stands
  int number = 0;
  for (const std::size_t i : pareto_front(plans.ranked)) {
    const Ranked& r = plans.ranked[i];
    if (r.step.seconds > slowest) break;
    constexpr double kApart = 18;  // px between the centres of two numbers
    const bool near = !line.empty() && std::hypot(at(r).first - named.first, at(r).second - named.second) < kApart;
    line.push_back(at(r));
    canvas.dot(at(r).first, at(r).second, near ? 3 : 8, kModel);
    if (near) continue;
    named = at(r);
    canvas.text(at(r).first, at(r).second + 4, fmt::format("{}", ++number), 11, Align::kMiddle, 0, "bold", "#ffffff");
    canvas.text(right + 24, label_y += 16, fmt::format("{}  {}, {:.1f} GiB", number, as_time(r.step.seconds), gib(r)),
                12, Align::kLeft, 0, "bold", kInk);
    canvas.text(right + 24, label_y += 15, describe(r.plan), 12, Align::kLeft, 0, "normal", kQuiet);
    label_y += 5;
  }
  canvas.polyline(line, kModel, 2);
  return canvas.finish();
}

Result<std::vector<ScalingPoint>> scaling(const Model& model, const cost::MachineView& machine, const Answer& answer) {
  const Plan& whole = answer.question.plan;
  Traffic traffic(machine);
  std::vector<ScalingPoint> points;
  std::vector<std::int64_t> replicas;
  for (std::int64_t n = 1; n < whole.dp; n *= 2) replicas.push_back(n);
  replicas.push_back(whole.dp);
  for (const std::int64_t n : replicas) {
    Plan weak = whole, strong = whole;
    weak.dp = strong.dp = n;
    weak.global_batch = whole.global_batch / whole.dp * n;
    // Experts and ZeRO need their ranks; smaller machines have fewer.
    if (!check_plan(model, weak)) continue;
    WEFT_TRY(const Step as_weak, simulate_step(model, weak, answer.question.card, traffic));
    ScalingPoint p{.gpus = weak.ranks(), .replicas = n, .weak_mfu = as_weak.mfu};
    p.weak_bubble = as_weak.parts.bubble / as_weak.seconds;
    if (check_plan(model, strong)) {
      WEFT_TRY(const Step as_strong, simulate_step(model, strong, answer.question.card, traffic));
      p.strong_mfu = as_strong.mfu;
      p.strong_bubble = as_strong.parts.bubble / as_strong.seconds;
    }
    points.push_back(p);
  }
  return points;
}

std::string scaling_svg(const std::vector<ScalingPoint>& points, const report::TrainReport& report) {
  SvgCanvas canvas;
  constexpr double left = 60, wide = 420, gap = 130, top = 76, bottom = 330;
  title(canvas, fmt::format("{} on {}: from 1 replica to {}", report.model, report.machine, points.back().replicas),
        report.rows.front().plan);
  const double first = static_cast<double>(points.front().gpus), last = static_cast<double>(points.back().gpus);
  const auto panel = [&](double from, const char* what, auto weak, auto strong, double high) {
    const Axis x{.low = first, .high = std::max(last, first * 2), .from = from, .to = from + wide, .logarithmic = true};
    const double step = round_step(high, 4);
    const Axis y{.low = 0, .high = std::ceil(high / step + 1e-9) * step, .from = bottom, .to = top};
    canvas.text(from, top - 12, what, 13, Align::kLeft, 0, "bold", kInk);
    for (double v = 0; v <= y.high * 1.001; v += step) {
      canvas.cell(from, y(v), wide, 1, kHair);
      canvas.text(from - 8, y(v) + 4, fmt::format("{:.3g} %", v), 12, Align::kRight, 0, "normal", kQuiet);
    }
    double ends[2] = {0, 0};
    for (const bool is_weak : {true, false}) {
      std::vector<std::pair<double, double>> line;
      for (const ScalingPoint& p : points)
        if (is_weak || p.strong_mfu > 0)
          line.emplace_back(x(static_cast<double>(p.gpus)), y(100 * (is_weak ? weak(p) : strong(p))));
      if (line.empty()) continue;
      canvas.polyline(line, is_weak ? kModel : kBackward, 2.2, !is_weak);
      for (const auto& [px, py] : line)
        canvas.dot(px, py, 3, is_weak ? kModel : "#ffffff", is_weak ? kModel : kBackward);
      ends[is_weak ? 0 : 1] = line.back().second;
    }
    if (std::abs(ends[0] - ends[1]) < 15) ends[ends[0] <= ends[1] ? 1 : 0] = std::min(ends[0], ends[1]) + 15;
    canvas.text(from + wide + 10, ends[0] + 4, "batch grows", 12, Align::kLeft, 0, "normal", kModel);
    canvas.text(from + wide + 10, ends[1] + 4, "batch stays", 12, Align::kLeft, 0, "normal", kQuiet);
    double drawn = -100;
    for (const ScalingPoint& p : points)
      if (const double at = x(static_cast<double>(p.gpus)); at - drawn > 44)
        canvas.text(drawn = at, bottom + 18, fmt::format("{}", p.gpus), 12, Align::kMiddle, 0, "normal", kQuiet);
    canvas.text(from + wide / 2, bottom + 38, "GPUs, logarithmic", 12, Align::kMiddle, 0, "normal", kQuiet);
  };
  double mfu = 0, bubble = 0.01;
  for (const ScalingPoint& p : points) {
    mfu = std::max({mfu, p.weak_mfu, p.strong_mfu});
    bubble = std::max({bubble, p.weak_bubble, p.strong_bubble});
  }
  panel(
      left, "model FLOPs utilisation (MFU)", [](const auto& p) { return p.weak_mfu; },
      [](const auto& p) { return p.strong_mfu; }, 100 * mfu);
  panel(
      left + wide + gap, "share of the pipeline bubble", [](const auto& p) { return p.weak_bubble; },
      [](const auto& p) { return p.strong_bubble; }, 100 * bubble);
  return canvas.finish();
}

}  // namespace weft::training
