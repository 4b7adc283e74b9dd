#include "apps/cli/beside.h"

#include <algorithm>

#include "base/text.h"
#include "model/predict/predict.h"
#include "model/sim/flow/flow_fabric.h"
#include "plan/cost/estimate.h"

namespace weft::cli {
namespace {

struct Asked {
  Collective collective = Collective::kAllReduce;
  Bytes bytes = 0;
  Rank first = -1, last = -1;
  std::string algorithm;
  std::int64_t channels = 0, service = 0;
};

Result<Asked> parse(const std::string& text, Rank endpoints) {
  Asked job;
  const std::size_t colon = std::min(text.find(':'), text.size());
  WEFT_TRY(job.collective, schedule::parse_collective(text.substr(0, colon)));
  for (std::size_t at = colon + 1; at < text.size();) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    const std::string pair = text.substr(at, comma - at);
    at = comma + 1;
    const std::size_t equals = std::min(pair.find('='), pair.size());
    const std::string key = pair.substr(0, equals), value = equals < pair.size() ? pair.substr(equals + 1) : "";
    const std::string what = "--beside " + text + ": " + key;
    if (key == "bytes") {
      WEFT_TRY(job.bytes, parse_message(what, value));
    } else if (key == "ranks") {
      const std::size_t dash = std::min(value.find('-'), value.size());
      WEFT_TRY(const auto first, parse_integer(what, value.substr(0, dash), 0, endpoints - 1));
      WEFT_TRY(const auto last,
               parse_integer(what, dash < value.size() ? value.substr(dash + 1) : value, 0, endpoints - 1));
      job.first = static_cast<Rank>(first);
      job.last = static_cast<Rank>(last);
    } else if (key == "algo") {
      job.algorithm = value;
    } else if (key == "channels") {
      WEFT_TRY(job.channels, parse_integer(what, value, 1, sim::kMostStrands));
    } else if (key == "class") {
      WEFT_TRY(job.service, parse_integer(what, value, 0, sim::kMostClasses - 1));
    } else {
      return bad_input("--beside {}: '{}' is not bytes, ranks, algo, channels or class", text, key);
    }
  }
  if (job.bytes <= 0 || job.first < 0 || job.last <= job.first)
    return bad_input("--beside {}: expected COLLECTIVE:bytes=64M,ranks=8-15, two ranks or more", text);
  return job;
}

// How many of a job's consecutive ranks share a node, if nodes have equally many of them; else 1.
Rank per_node(const cost::MachineView& view, Rank first, Rank count) {
  const Rank whole = view.ranks_per_node(view.endpoints());
  if (first / whole == (first + count - 1) / whole) return count;
  return first % whole == 0 && count % whole == 0 ? whole : 1;
}

}  // namespace

Status check_class(const BenchSpec& spec, std::string_view what, std::int64_t service) {
  const std::size_t classes = spec.conditions.packets ? spec.conditions.packets->weights.size() : 1;
  if (static_cast<std::size_t>(service) < classes) return {};
  return bad_input("{}: there is no class {}; classes have weights: --level packet:weights=4/1", what, service);
}

Result<std::vector<exec::VirtualJob>> jobs_beside(const BenchSpec& spec, const cost::MachineView& view, Rank used,
                                                  std::string_view protocol) {
  std::vector<exec::VirtualJob> jobs;
  std::vector<bool> taken(static_cast<std::size_t>(view.endpoints()));
  std::fill_n(taken.begin(), used, true);
  for (const std::string& text : spec.conditions.beside) {
    WEFT_TRY(const Asked asked, parse(text, view.endpoints()));
    for (Rank r = asked.first; r <= asked.last; ++r) {
      if (taken[static_cast<std::size_t>(r)])
        return bad_input("--beside {}: rank {} has a job already; --ranks says how many the first job has", text, r);
      taken[static_cast<std::size_t>(r)] = true;
    }
    const Rank count = asked.last - asked.first + 1;
    const schedule::Task task =
        task_of(asked.collective, count, per_node(view, asked.first, count), asked.bytes, spec.sweep.type);
    const auto answer = predict::predict(view, {.question = {.task = task,
                                                             .can = sim::flow_capabilities(view.topology()),
                                                             .algorithm = asked.algorithm,
                                                             .protocol = std::string(protocol),
                                                             .channels = static_cast<int>(asked.channels)}});
    if (!answer) return bad_input("--beside {}: {}", text, answer.error().message);
    schedule::Plan plan = answer->choice.plan;
    plan.first = asked.first;
    WEFT_CHECK(check_class(spec, "--beside " + text, asked.service));
    jobs.push_back({.task = task, .plan = std::move(plan), .calls = 0, .service = static_cast<int>(asked.service)});
  }
  return jobs;
}

}  // namespace weft::cli
