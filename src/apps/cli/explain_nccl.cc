#include "apps/cli/explain_nccl.h"

#include "apps/cli/common.h"
#include "base/counted.h"
#include "base/text.h"
#include "plan/tune/nccl/choice.h"
#include "plan/tune/nccl/grouped.h"

namespace weft::cli {
namespace {

using tune::nccl::Row;

std::string version_of(const NcclView& nccl) { return fmt::format("2.{}", nccl.system.release / 100); }

nlohmann::json to_json(const Row& row) {
  nlohmann::json entry = {{"algorithm", name(row.algorithm)},
                          {"protocol", protocol::traits(row.protocol).name},
                          {"chosen", row.chosen},
                          {"predicted_us", nullptr}};
  if (!row.possible) {
    entry["reason"] = row.reason;
    return entry;
  }
  if (row.timed) {
    entry["predicted_us"] = row.time.us();
    entry["latency_us"] = row.latency.us();
    entry["algbw_GBps"] = row.rate.gb();
  }
  entry["channels"] = row.channels;
  entry["threads"] = row.threads;
  return entry;
}

nlohmann::json to_json(const tune::nccl::Graph& graph) {
  return {{"channels", graph.channels}, {"intra_GBps", graph.intra}, {"inter_GBps", graph.inter}};
}

}  // namespace

NcclView ask_nccl(const cost::MachineView& machine, const tune::Question& question) {
  NcclView view;
  const Collective collective = question.task.collective;
  const auto system = tune::nccl::system_of(machine, question.task.ranks);
  if (!system) view.unavailable = system.error().message;
  if (!tune::nccl::models(collective))
    view.unavailable = fmt::format("NCCL's library has no {}", schedule::name(collective));
  if (!view.unavailable.empty()) return view;
  view.system = *system;
  const Bytes bytes = question.task.elements * question.task.element_bytes;
  view.rows = tune::nccl::rows(*system, collective, bytes);
  view.by_release = tune::nccl::choices_by_release(*system, collective, bytes);
  if (tune::nccl::is_grouped(collective)) view.rule = tune::nccl::grouped_rule(*system, collective, bytes);
  const Row* choice = tune::nccl::choice(view.rows);
  if (choice == nullptr) {
    view.unavailable = "nothing to choose";
    return view;
  }
  auto timed = tune::choose(machine, tune::nccl::forced(question, *choice));
  if (timed)
    view.by_weft = std::move(*timed);
  else
    view.by_weft.reason = timed.error().message;
  return view;
}

namespace {

// "2.19 to 2.28.9: Ring LL128 x24; from 2.29.2: …", where releases differ.
std::string by_release(const NcclView& nccl) {
  std::string text;
  for (const auto& [first, last, row] : nccl.by_release) {
    const bool newest = last == nccl.by_release.back().last;
    text += fmt::format(
        "{}{}: {} {} x{}", text.empty() ? "" : "; ",
        first == last ? tune::nccl::release_name(first)
        : newest      ? fmt::format("from {}", tune::nccl::release_name(first / 100 * 100))
                 : fmt::format("{} to {}", tune::nccl::release_name(first / 100 * 100), tune::nccl::release_name(last)),
        name(row.algorithm), protocol::traits(row.protocol).name, row.channels);
  }
  return text;
}

}  // namespace

void print_nccl(const NcclView& nccl, const tune::Candidate& best) {
  if (!nccl.unavailable.empty()) {
    fmt::print("# NCCL: {}\n", nccl.unavailable);
    return;
  }
  const Row& row = *tune::nccl::choice(nccl.rows);
  fmt::print("# NCCL {} would take {} {} with {}{}", version_of(nccl), name(row.algorithm),
             protocol::traits(row.protocol).name, counted(row.channels, "channel"),
             row.timed ? fmt::format(": {} by its own model", format_duration(row.time)) : " for every peer");
  if (nccl.by_weft.possible)
    fmt::print(", {} by weft's: {:.2f}x the time of weft's choice\n", format_duration(nccl.by_weft.estimate.total),
               nccl.by_weft.estimate.total / best.estimate.total);
  else
    fmt::print("; weft cannot time it: {}\n", nccl.by_weft.reason);
  if (!nccl.rule.empty()) fmt::print("# {}\n", nccl.rule);
  if (nccl.by_release.size() > 1) fmt::print("# NCCL's choice by release: {}\n", by_release(nccl));
  if (!row.timed) return;
  fmt::print("  {:<14} {:<7} {:>3} {:>12} {:>12} {:>12}\n", "NCCL's algo", "proto", "ch", "predicted", "latency",
             "algbw");
  for (const Row& r : nccl.rows)
    if (r.possible)
      fmt::print("{} {:<14} {:<7} {:>3} {:>12} {:>12} {:>12}\n", r.chosen ? '*' : ' ', name(r.algorithm),
                 protocol::traits(r.protocol).name, r.channels, format_duration(r.time), format_duration(r.latency),
                 format_rate(r.rate));
}

nlohmann::json nccl_json(const NcclView& nccl, const tune::Candidate& best) {
  if (!nccl.unavailable.empty()) return {{"unavailable", nccl.unavailable}};
  const Row& row = *tune::nccl::choice(nccl.rows);
  nlohmann::json json = to_json(row);
  json["version"] = version_of(nccl);
  json["weft_predicted_us"] = nullptr;
  json["slowdown"] = nullptr;
  if (nccl.by_weft.possible) {
    json["weft_predicted_us"] = nccl.by_weft.estimate.total.us();
    json["slowdown"] = nccl.by_weft.estimate.total / best.estimate.total;
  } else {
    json["reason"] = nccl.by_weft.reason;
  }
  json["graphs"] = {
      {"ring", to_json(nccl.system.ring)}, {"tree", to_json(nccl.system.tree)}, {"nvls", to_json(nccl.system.nvls)}};
  json["candidates"] = nlohmann::json::array();
  for (const Row& r : nccl.rows) json["candidates"].push_back(to_json(r));
  if (!nccl.rule.empty()) json["rule"] = nccl.rule;
  json["by_release"] = nlohmann::json::array();
  for (const auto& [first, last, r] : nccl.by_release)
    json["by_release"].push_back({{"first", tune::nccl::release_name(first)},
                                  {"last", tune::nccl::release_name(last)},
                                  {"algorithm", name(r.algorithm)},
                                  {"protocol", protocol::traits(r.protocol).name},
                                  {"channels", r.channels}});
  return json;
}

}  // namespace weft::cli
