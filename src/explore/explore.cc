#include "explore/explore.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/embedded.h"
#include "base/text.h"
#include "cost/limit.h"
#include "predict/predict.h"
#include "protocol/protocol.h"
#include "schedule/schedule.h"
#include "schedule/verify/verify.h"
#include "sim/flow/flow_fabric.h"
#include "simulate/simulate.h"
#include "topology/render/svg.h"
#include "topology/routes.h"
#include "tune/tune.h"

namespace weft::embedded {
std::span<const File> explorer_files();
}

namespace weft::explore {
namespace {

using report::Explorer;
using topology::DeviceId;

constexpr std::size_t kMostDevices = 40;  // of the first node; their pairs have paths

double gigabytes(BytesPerSecond rate) { return rate.gb(); }

// The first node with what it hangs at, as tables.
void describe(const cost::MachineView& machine, Explorer& e) {
  const topology::Topology& t = machine.topology();
  const auto shown = [&](DeviceId id) { return t.device(id).node == 0; };
  std::vector<DeviceId> ends;
  std::size_t left_out = 0;
  for (DeviceId id = 0; id < static_cast<DeviceId>(t.devices().size()); ++id) {
    const topology::Device& d = t.device(id);
    if (!shown(id)) {
      ++left_out;
      continue;
    }
    e.devices.push_back({t.name_of(id), std::string(topology::name(d.kind)), d.model});
    if ((d.kind == topology::DeviceKind::kGpu || d.kind == topology::DeviceKind::kNic ||
         d.kind == topology::DeviceKind::kCore) &&
        ends.size() < kMostDevices)
      ends.push_back(id);
  }
  for (const topology::Link& l : t.links())
    if (shown(l.a) || shown(l.b))
      e.links.push_back({t.name_of(l.a), t.name_of(l.b), std::string(topology::name(l.kind)), l.count,
                         gigabytes(l.rate_ab), gigabytes(l.rate_ba), l.latency.us() * 1e3});
  for (const DeviceId from : ends)
    for (const DeviceId to : ends) {
      if (from >= to) continue;
      const topology::Path path = machine.routes().path(from, to);
      if (path.hops.empty()) continue;
      const auto rate_of = [&](const topology::Hop& h) {
        return h.forward ? t.link(h.link).rate_ab : t.link(h.link).rate_ba;
      };
      const topology::Hop& slowest = *std::ranges::min_element(path.hops, {}, rate_of);
      const topology::Link& l = t.link(slowest.link);
      e.paths.push_back({t.name_of(from), t.name_of(to), std::string(topology::name(path.type)),
                         t.name_of(slowest.forward ? l.a : l.b) + " to " + t.name_of(slowest.forward ? l.b : l.a),
                         gigabytes(path.rate), path.latency.us() * 1e3, static_cast<int>(path.hops.size())});
    }
  if (t.nodes() > 1)
    e.left_out = fmt::format("Node 0 of {} is listed; {} more devices are in the other nodes and the network.",
                             t.nodes(), left_out);
  e.machine_svg = topology::svg(t);
}

struct Span {
  double begin, end;  // us
};

// The times at which each strand's operations ran: by rank and strand, in their order.
Result<std::map<std::pair<Rank, int>, std::vector<Span>>> spans_of(const cost::MachineView& machine,
                                                                   const schedule::Task& task,
                                                                   const schedule::Plan& plan, double& total) {
  std::string trace;
  WEFT_TRY(const simulate::Outcome outcome,
           simulate::simulate(machine, task, plan, {.fold = false, .fast_forward = false, .trace = &trace}));
  total = outcome.time.us();
  std::map<std::pair<Rank, int>, std::vector<Span>> spans;
  const nlohmann::json root = nlohmann::json::parse(trace, nullptr, false);
  if (root.is_discarded()) return failure(Code::kInternal, Blame::kOperation, "the timeline is no JSON");
  for (const auto& event : root.at("traceEvents"))
    if (event.value("ph", "") == "X" && event.at("pid").is_number())  // not the critical path
      spans[{event.at("pid").get<Rank>(), event.at("tid").get<int>()}].push_back(
          {event.at("ts").get<double>(), event.at("ts").get<double>() + event.at("dur").get<double>()});
  for (auto& [strand, list] : spans) std::ranges::sort(list, {}, &Span::begin);
  return spans;
}

// The other views are shown all the same.
void leave_out(const schedule::Plan& plan, Rank ranks, std::string_view has, Explorer& e) {
  e.played = false;
  e.verdict = fmt::format("The stepper shows at most {} ranks and {} moves; {} on {} ranks has {}. Ask for fewer ranks",
                          kMostRanks, kMostMoves, plan.algorithm->name, ranks, has);
}

// Runs the schedule in the verifier, and where the machine is simulated on one channel gives every move its time.
Status play(const cost::MachineView& machine, const schedule::Task& task, schedule::Plan plan, Explorer& e) {
  if (task.ranks > kMostRanks) {
    leave_out(plan, task.ranks, "more ranks", e);
    return {};
  }
  const int channels = std::exchange(plan.channels, 1);
  const schedule::Schedule schedule = schedule::write_out(*plan.algorithm, schedule::context_of(task, plan));
  std::size_t moves = 0;
  for (const auto& strand : schedule.strands)
    moves += static_cast<std::size_t>(
        std::ranges::count_if(strand, [](const schedule::Step& s) { return s.kind == schedule::Step::Kind::kMove; }));
  if (moves > kMostMoves) {
    leave_out(plan, task.ranks, fmt::format("{} moves", moves), e);
    return {};
  }
  const auto proof = schedule::verify(
      schedule, {.slots = plan.algorithm->slots, .on_move = [&](const schedule::Moved& m) {
                   const schedule::Step& step = schedule.strand(m.rank, m.lane)[static_cast<std::size_t>(m.step)];
                   Explorer::Move move{.rank = m.rank,
                                       .lane = m.lane,
                                       .step = m.step,
                                       .text = to_string(step),
                                       .chunk = m.chunk,
                                       .holds = m.contributors};
                   for (const schedule::Operand& o : step.destinations) {
                     if (o.kind == schedule::Operand::Kind::kLocal)
                       move.keeps = move.keeps || o.buffer == schedule::Buffer::kOut;
                     else if (o.count > 0)
                       for (Rank i = 0; i < o.count; ++i) move.to.push_back(o.group().member(i));
                     else
                       move.to.push_back(o.peer);
                   }
                   e.moves.push_back(std::move(move));
                 }});
  e.proved = proof.ok();
  e.verdict = proof.ok() ? fmt::format("proved: {} steps, {} messages, {} remote accesses", proof.steps, proof.messages,
                                       proof.remote_accesses)
                         : "counterexample: " + proof.counterexample->text;
  e.chunks = schedule.shape.chunks;
  WEFT_TRY(const auto spans, spans_of(machine, task, plan, e.total_us));
  if (channels > 1)
    e.verdict += fmt::format(". One channel is shown, which alone takes {}; the answer's {} channels share the message",
                             format_duration(Duration::microseconds(e.total_us)), channels);
  // Moves of a strand and the operations that carry them are in the same order; a move may be cut into several equal
  // runs of operations.
  std::map<std::pair<Rank, int>, std::vector<std::size_t>> by_strand;
  for (std::size_t i = 0; i < e.moves.size(); ++i) by_strand[{e.moves[i].rank, e.moves[i].lane}].push_back(i);
  e.timed = e.proved;
  for (const auto& [strand, list] : by_strand) {
    const auto at = spans.find(strand);
    e.timed = e.timed && at != spans.end() && at->second.size() % list.size() == 0;
  }
  for (auto& [strand, list] : by_strand)
    for (std::size_t k = 0; k < list.size(); ++k) {
      Explorer::Move& move = e.moves[list[k]];
      if (e.timed) {
        const auto& all = spans.at(strand);
        const std::size_t each = all.size() / list.size();
        move.begin_us = all[k * each].begin;
        for (std::size_t j = 0; j < each; ++j) move.end_us = std::max(move.end_us, all[k * each + j].end);
      } else {
        move.begin_us = static_cast<double>(list[k]);
        move.end_us = move.begin_us + 1;
      }
    }
  if (!e.timed) e.total_us = static_cast<double>(e.moves.size());
  std::ranges::stable_sort(e.moves, {}, &Explorer::Move::begin_us);
  return {};
}

// The candidates' predicted bus bandwidth over sizes.
Status curves(const cost::MachineView& machine, const tune::Question& question, Explorer& e) {
  constexpr std::size_t kMostCurves = 8;
  std::map<std::pair<std::string, std::string>, Explorer::Curve> all;
  WEFT_TRY(const auto here, tune::candidates(machine, question));
  for (const tune::Candidate& c : here) {
    if (!c.possible || all.size() >= kMostCurves) continue;
    const std::string name(c.plan.algorithm->name), protocol(protocol::traits(c.plan.protocol).name);
    all.try_emplace({name, protocol}, Explorer::Curve{name, protocol, c.plan.channels, c.chosen, c.reason, {}});
  }
  const Bytes unit = schedule::message_parts(question.task.collective, question.task.ranks);
  for (Bytes bytes = 1024; bytes <= Bytes{1} << 30; bytes *= 4) {
    tune::Question sized = question;
    sized.task.elements = std::max<Bytes>(1, bytes / question.task.element_bytes / unit) * unit;
    WEFT_TRY(const auto candidates, tune::candidates(machine, sized));
    const Bytes actual = sized.task.elements * sized.task.element_bytes;
    for (const tune::Candidate& c : candidates) {
      if (!c.possible) continue;
      const auto at =
          all.find({std::string(c.plan.algorithm->name), std::string(protocol::traits(c.plan.protocol).name)});
      if (at != all.end())
        at->second.busbw_GBps.emplace_back(actual, static_cast<double>(actual) / c.estimate.total.s() * 1e-9 *
                                                       schedule::bus_factor(sized.task.collective, sized.task.ranks));
    }
  }
  for (auto& [name, curve] : all) e.curves.push_back(std::move(curve));
  std::ranges::stable_sort(e.curves, [](const auto& a, const auto& b) { return a.chosen > b.chosen; });
  return {};
}

std::string_view embedded_text(std::string_view file) {
  for (const embedded::File& f : embedded::explorer_files())
    if (f.path.ends_with(file)) return f.text;
  return {};
}

void replace(std::string& text, std::string_view mark, std::string_view by) {
  if (const std::size_t at = text.find(mark); at != std::string::npos) text.replace(at, mark.size(), by);
}

}  // namespace

Result<Explorer> answer(const cost::MachineView& machine, const Question& q) {
  const schedule::Task& task = q.task;
  Explorer e;
  const tune::Question question{.task = task,
                                .can = sim::flow_capabilities(machine.topology()),
                                .algorithm = q.algorithm,
                                .protocol = q.protocol};
  WEFT_TRY(const predict::Answer found, predict::predict(machine, {.question = question}));
  const tune::Candidate& choice = found.choice;
  const simulate::Outcome& outcome = found.outcome;
  const Bytes bytes = task.elements * task.element_bytes;
  const double factor = schedule::bus_factor(task.collective, task.ranks);
  const cost::Limit limit = cost::limit(machine, task);
  e.machine = q.machine;
  e.collective = schedule::name(task.collective);
  e.algorithm = choice.plan.algorithm->name;
  e.when = choice.plan.algorithm->when;
  e.source = choice.plan.algorithm->source;
  e.ranks = task.ranks;
  e.bytes = bytes;
  e.limit = limit.resource;
  e.limit_GBps = static_cast<double>(bytes) / limit.time.s() * 1e-9 * factor;
  const std::string_view protocol = protocol::traits(choice.plan.protocol).name;
  e.question = fmt::format("{} of {} on {} ranks of {}", e.collective, format_bytes(bytes), task.ranks, q.machine);
  e.answer = fmt::format(
      "{} by {}, {}, {} channel{}: {:.3g} GB/s of bus bandwidth, {:.0f} % of the limit ({}).",
      format_duration(outcome.time), e.algorithm, protocol, choice.plan.channels, choice.plan.channels == 1 ? "" : "s",
      static_cast<double>(bytes) / outcome.time.s() * 1e-9 * factor, 100 * (limit.time / outcome.time), limit.resource);
  e.command =
      fmt::format("weft bench {} --on {} --ranks {} --min {} --max {} --algo {} --proto {} --channels {}", e.collective,
                  q.machine, task.ranks, bytes, bytes, e.algorithm, protocol, choice.plan.channels);
  describe(machine, e);
  WEFT_CHECK(play(machine, task, choice.plan, e));
  tune::Question free = question;
  free.algorithm.clear(), free.protocol.clear();
  WEFT_CHECK(curves(machine, free, e));
  return e;
}

std::string page(const Explorer& report) {
  std::string html(embedded_text("index.html"));
  replace(html, "/*POLICY*/", kContentPolicy);
  replace(html, "/*STYLE*/", embedded_text("style.css"));
  replace(html, "/*CORE*/", embedded_text("weft.wasm.gz.base64"));  // empty where it was not built: make web
  replace(html, "/*WORKER*/", embedded_text("worker.js"));
  replace(html, "/*SCRIPT*/", embedded_text("explorer.js"));
  // The data stand in a script element that is not executed; "<" is written as an escape, so that no text of a file
  // can end the element.
  std::string data = to_json(report).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  for (std::size_t at = 0; (at = data.find('<', at)) != std::string::npos; at += 6) data.replace(at, 1, "\\u003c");
  replace(html, "/*DATA*/", data);
  return html;
}

}  // namespace weft::explore
