#include "explore/explore.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>
#include <utility>

#include "accuracy/measured.h"
#include "base/embedded.h"
#include "base/text.h"
#include "cost/limit.h"
#include "explore/bandwidth.h"
#include "predict/predict.h"
#include "protocol/protocol.h"
#include "schedule/schedule.h"
#include "schedule/verify/verify.h"
#include "sim/flow/flow_fabric.h"
#include "simulate/faults.h"
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

using LinkName = std::tuple<std::string, std::string, std::string, int>;  // ends, kind, which of several equal ones

// The links of the first node and its way to the network, by name: ids change where a fault takes a device out.
std::vector<std::pair<LinkName, const topology::Link*>> named_links(const topology::Topology& t) {
  std::vector<std::pair<LinkName, const topology::Link*>> named;
  std::map<LinkName, int> equal;
  for (const topology::Link& l : t.links()) {
    if (t.device(l.a).node != 0 && t.device(l.b).node != 0) continue;
    LinkName name{t.name_of(l.a), t.name_of(l.b), std::string(topology::name(l.kind)), 0};
    std::get<3>(name) = equal[name]++;
    named.emplace_back(std::move(name), &l);
  }
  return named;
}

void describe_links(const topology::Topology& whole, const topology::Topology& left, Explorer& e) {
  std::map<LinkName, const topology::Link*> there;
  for (const auto& [name, link] : named_links(left)) there.emplace(name, link);
  for (const auto& [name, was] : named_links(whole)) {
    const auto& [a, b, kind, number] = name;
    const Explorer::Link::Rates healthy{gigabytes(was->rate_ab), gigabytes(was->rate_ba), was->latency.us() * 1e3};
    Explorer::Link link{a, b, kind, was->count, 0, 0, healthy.latency_ns};
    if (const auto now = there.find(name); now != there.end()) {
      const topology::Link& l = *now->second;
      link.ab_GBps = gigabytes(l.rate_ab), link.ba_GBps = gigabytes(l.rate_ba), link.latency_ns = l.latency.us() * 1e3;
    }
    if (link.ab_GBps != healthy.ab_GBps || link.ba_GBps != healthy.ba_GBps || link.latency_ns != healthy.latency_ns)
      link.healthy = healthy;
    e.links.push_back(std::move(link));
  }
}

using Ids = std::map<std::string, DeviceId>;
Ids ids_of_first_node(const topology::Topology& t) {
  Ids ids;
  for (DeviceId id = 0; id < static_cast<DeviceId>(t.devices().size()); ++id)
    if (t.device(id).node == 0) ids.emplace(t.name_of(id), id);
  return ids;
}

// The path between two devices, by their names. No type: there is none.
Explorer::Path path_between(const cost::MachineView& machine, const Ids& ids, const std::string& from,
                            const std::string& to) {
  const topology::Topology& t = machine.topology();
  Explorer::Path found{.from = from, .to = to, .type = {}, .bottleneck = {}};
  const auto a = ids.find(from), b = ids.find(to);
  if (a == ids.end() || b == ids.end()) return found;
  const topology::Path path = machine.routes().path(a->second, b->second);
  if (path.hops.empty()) return found;
  const auto rate_of = [&](const topology::Hop& h) {
    return h.forward ? t.link(h.link).rate_ab : t.link(h.link).rate_ba;
  };
  const topology::Hop& slowest = *std::ranges::min_element(path.hops, {}, rate_of);
  const topology::Link& l = t.link(slowest.link);
  found.type = topology::name(path.type);
  found.bottleneck = t.name_of(slowest.forward ? l.a : l.b) + " to " + t.name_of(slowest.forward ? l.b : l.a);
  found.GBps = gigabytes(path.rate);
  found.latency_ns = path.latency.us() * 1e3;
  found.hops = static_cast<int>(path.hops.size());
  return found;
}

// The task on the ranks that faults have left.
schedule::Task on_ranks(schedule::Task task, Rank left, const cost::MachineView& machine) {
  task.ranks = left;
  task.ranks_per_node = machine.ranks_per_node(left);
  task.root = std::min(task.root, left - 1);
  const Bytes unit = schedule::message_parts(task.collective, left);
  task.elements = std::max<Bytes>(1, task.elements / unit) * unit;
  return task;
}

// The first node with what it hangs at, as tables. `left`: what faults have left of the whole machine.
void describe(const cost::MachineView& whole, const cost::MachineView& left, Explorer& e) {
  const topology::Topology& t = whole.topology();
  std::vector<std::string> ends;
  std::size_t left_out = 0;
  for (DeviceId id = 0; id < static_cast<DeviceId>(t.devices().size()); ++id) {
    const topology::Device& d = t.device(id);
    if (d.node != 0) {
      ++left_out;
      continue;
    }
    e.devices.push_back({t.name_of(id), std::string(topology::name(d.kind)), d.model});
    if ((d.kind == topology::DeviceKind::kGpu || d.kind == topology::DeviceKind::kNic ||
         d.kind == topology::DeviceKind::kCore) &&
        ends.size() < kMostDevices)
      ends.push_back(t.name_of(id));
  }
  describe_links(t, left.topology(), e);
  const Ids ids = ids_of_first_node(t), ids_left = ids_of_first_node(left.topology());
  for (std::size_t i = 0; i < ends.size(); ++i)
    for (std::size_t j = i + 1; j < ends.size(); ++j) {
      const Explorer::Path healthy = path_between(whole, ids, ends[i], ends[j]);
      if (healthy.type.empty()) continue;
      Explorer::Path path = &whole == &left ? healthy : path_between(left, ids_left, ends[i], ends[j]);
      if (path.GBps != healthy.GBps) path.healthy_GBps = healthy.GBps;
      e.paths.push_back(std::move(path));
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
                                                                   const sim::Disturbances& disturbances,
                                                                   const schedule::Task& task,
                                                                   const schedule::Plan& plan, double& total) {
  std::string trace;
  WEFT_TRY(const simulate::Outcome outcome,
           simulate::simulate(machine, task, plan,
                              {.fold = false, .fast_forward = false, .disturbances = disturbances, .trace = &trace}));
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
Status play(const cost::MachineView& machine, const sim::Disturbances& disturbances, const schedule::Task& task,
            schedule::Plan plan, Explorer& e) {
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
  WEFT_TRY(const auto spans, spans_of(machine, disturbances, task, plan, e.total_us));
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

// The candidates' predicted bus bandwidth over sizes, those that are chosen first.
Result<std::vector<Explorer::Curve>> curves(const cost::MachineView& machine, const tune::Question& question) {
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
        at->second.busbw_GBps.emplace_back(actual, bus_bandwidth(actual, c.estimate.total, sized.task));
    }
  }
  std::vector<Explorer::Curve> found;
  for (auto& [name, curve] : all) found.push_back(std::move(curve));
  std::ranges::stable_sort(found, [](const auto& a, const auto& b) { return a.chosen > b.chosen; });
  return found;
}

tune::Question question_of(const cost::MachineView& on, const Question& q, const schedule::Task& task) {
  return {.task = task, .can = sim::flow_capabilities(on.topology()), .algorithm = q.algorithm, .protocol = q.protocol};
}

// A machine's name with its options in order, so that equal machines have equal names: "dgx-h100:net=…,nodes=2".
std::string in_order(std::string_view machine) {
  const std::size_t colon = machine.find(':');
  if (colon == std::string_view::npos) return std::string(machine);
  std::vector<std::string_view> options;
  for (std::size_t at = colon + 1; at < machine.size();) {
    const std::size_t comma = std::min(machine.find(',', at), machine.size());
    options.push_back(machine.substr(at, comma - at));
    at = comma + 1;
  }
  std::erase(options, "nodes=1");
  std::ranges::sort(options);
  std::string name(machine.substr(0, colon));
  for (const std::string_view option : options) name += fmt::format(",{}", option);
  return name;
}

// Published measurements of this collective on this machine.
Status measured(const schedule::Task& task, Rank machine_ranks, Explorer& e) {
  WEFT_TRY(const auto tables, accuracy::shipped_tables());
  for (const accuracy::Table& t : tables) {
    if (t.collective != task.collective || in_order(t.machine) != in_order(e.machine)) continue;
    Explorer::Measured found{t.name, t.about, {}};
    for (const accuracy::Point& p : t.points)
      if ((p.ranks == 0 ? machine_ranks : p.ranks) == task.ranks)
        found.busbw_GBps.emplace_back(p.bytes, bus_bandwidth(p.bytes, p.time, task));
    if (!found.busbw_GBps.empty()) e.measured.push_back(std::move(found));
  }
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

// A machine, and the task on it, without what the question's faults take out.
struct Left {
  std::optional<cost::MachineView> faulted;  // empty: the whole machine
  sim::Disturbances disturbances;
  schedule::Task task;
};
Result<Left> left_of(const cost::MachineView& whole, const Question& q) {
  Left left{.faulted = {}, .disturbances = {}, .task = q.task};
  if (q.faults.empty()) return left;
  WEFT_TRY(simulate::Faulted faults, simulate::apply_faults(whole.topology(), q.faults));
  left.disturbances = std::move(faults.disturbances);
  left.faulted.emplace(std::move(faults.machine), whole.costs());
  if (const Rank ranks = left.faulted->endpoints(); ranks < left.task.ranks)
    left.task = on_ranks(left.task, ranks, *left.faulted);
  return left;
}

}  // namespace

Result<Explorer> answer(const cost::MachineView& whole, const Question& q) {
  WEFT_TRY(const Left left, left_of(whole, q));
  const sim::Disturbances& disturbances = left.disturbances;
  const schedule::Task& task = left.task;
  const cost::MachineView& machine = left.faulted ? *left.faulted : whole;
  Explorer e;
  const tune::Question question = question_of(machine, q, task);
  WEFT_TRY(const predict::Answer found,
           predict::predict(machine, {.question = question, .options = {.disturbances = disturbances}}));
  const tune::Candidate& choice = found.choice;
  const simulate::Outcome& outcome = found.outcome;
  const Bytes bytes = task.elements * task.element_bytes;
  const cost::Limit limit = cost::limit(machine, task);
  e.machine = q.machine;
  e.collective = schedule::name(task.collective);
  e.algorithm = choice.plan.algorithm->name;
  e.when = choice.plan.algorithm->when;
  e.source = choice.plan.algorithm->source;
  e.ranks = task.ranks;
  e.bytes = bytes;
  e.limit = limit.resource;
  e.limit_GBps = bus_bandwidth(bytes, limit.time, task);
  e.time_us = outcome.time.us();
  e.busbw_GBps = bus_bandwidth(bytes, outcome.time, task);
  const std::string_view protocol = protocol::traits(choice.plan.protocol).name;
  e.question = fmt::format("{} of {} on {} ranks of {}", e.collective, format_bytes(bytes), task.ranks, q.machine);
  e.answer = fmt::format("{} by {}, {}, {} channel{}: {:.3g} GB/s of bus bandwidth, {:.0f} % of the limit ({}).",
                         format_duration(outcome.time), e.algorithm, protocol, choice.plan.channels,
                         choice.plan.channels == 1 ? "" : "s", e.busbw_GBps, 100 * (limit.time / outcome.time),
                         limit.resource);
  e.command =
      fmt::format("weft bench {} --on {} --ranks {} --min {} --max {} --algo {} --proto {} --channels {}", e.collective,
                  q.machine, task.ranks, bytes, bytes, e.algorithm, protocol, choice.plan.channels);
  if (!q.faults.empty()) {
    WEFT_TRY(const predict::Answer healthy,
             predict::predict(whole, {.question = question_of(whole, q, q.task),
                                      .options = {.extrapolate = outcome.method == simulate::Method::kExtrapolated}}));
    e.healthy_us = healthy.outcome.time.us();
    e.slowdown = outcome.time / healthy.outcome.time;
    e.question += fmt::format(" with {}", fmt::join(q.faults, ", "));
    e.answer += fmt::format(" That is {:.2f} times the {} without the fault{}.", *e.slowdown,
                            format_duration(healthy.outcome.time), q.faults.size() == 1 ? "" : "s");
    for (const std::string& fault : q.faults) e.command += fmt::format(" --fault {}", fault);
  }
  describe(whole, machine, e);
  WEFT_CHECK(play(machine, disturbances, task, choice.plan, e));
  tune::Question free = question;
  free.algorithm.clear(), free.protocol.clear();
  WEFT_TRY(e.curves, curves(machine, free));
  // The answer's plan is the best of those that were simulated, which estimates may rank otherwise.
  for (Explorer::Curve& curve : e.curves) {
    const bool answers = curve.algorithm == e.algorithm && curve.protocol == protocol;
    if (answers && !curve.chosen) curve.reason = "the best when simulated; estimated: " + curve.reason;
    curve.chosen = answers;
  }
  std::ranges::stable_sort(e.curves, std::ranges::greater(), &Explorer::Curve::chosen);
  WEFT_CHECK(measured(task, whole.endpoints(), e));
  return e;
}

Result<std::string> judge(const cost::MachineView& whole, const Question& q, std::span<const Guess> guesses) {
  if (guesses.empty()) return bad_input("a guess has at least one size");
  WEFT_TRY(const Left left, left_of(whole, q));
  const cost::MachineView& machine = left.faulted ? *left.faulted : whole;
  WEFT_TRY(const auto all, curves(machine, question_of(machine, q, left.task)));
  std::size_t close = 0;
  double farthest = 0, wanted = 0;
  const Guess* worst = nullptr;
  for (const Guess& guess : guesses) {
    if (guess.bytes <= 0 || !(guess.busbw_GBps > 0))
      return bad_input("a guess of {} GB/s at {} bytes is not one", guess.busbw_GBps, guess.bytes);
    double best = 0;  // of the size nearest to the guess
    for (const Explorer::Curve& curve : all) {
      const auto at = std::ranges::min_element(curve.busbw_GBps, {}, [&](const auto& p) {
        return std::abs(std::log(static_cast<double>(p.first) / static_cast<double>(guess.bytes)));
      });
      if (at != curve.busbw_GBps.end()) best = std::max(best, at->second);
    }
    if (best <= 0) return bad_input("no candidate has a curve");
    const double off = std::abs(std::log(guess.busbw_GBps / best));
    if (off <= std::log(1.5)) ++close;
    if (worst == nullptr || off > farthest) farthest = off, wanted = best, worst = &guess;
  }
  if (close == guesses.size())
    return fmt::format("Every size of your guess is within a factor of 1.5 of the prediction.");
  return fmt::format(
      "{} of {} sizes {} within a factor of 1.5 of the prediction. Farthest off is {}: you guessed {:.3g} GB/s, the "
      "cost model says {:.3g}, {:.2g} times {}.",
      close, guesses.size(), close == 1 ? "is" : "are", format_bytes(worst->bytes), worst->busbw_GBps, wanted,
      std::exp(farthest), worst->busbw_GBps > wanted ? "less" : "more");
}

std::string page(const Explorer& report) {
  std::string html(embedded_text("index.html"));
  replace(html, "/*POLICY*/", kContentPolicy);
  replace(html, "/*STYLE*/", embedded_text("style.css"));
  replace(html, "/*CORE*/", embedded_text("weft.wasm.gz.base64"));  // empty where it was not built: make web
  replace(html, "/*WORKER*/", embedded_text("worker.js"));
  std::string scripts;  // explorer.js first, tour.js, which starts the page, last
  for (const char* file : {"explorer.js", "curves.js", "training.js", "tour.js"}) scripts += embedded_text(file);
  replace(html, "/*SCRIPT*/", scripts);
  // The data stand in a script element that is not executed; "<" is written as an escape, so that no text of a file
  // can end the element.
  std::string data = to_json(report).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  for (std::size_t at = 0; (at = data.find('<', at)) != std::string::npos; at += 6) data.replace(at, 1, "\\u003c");
  replace(html, "/*DATA*/", data);
  return html;
}

}  // namespace weft::explore
