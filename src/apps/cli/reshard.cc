#include <algorithm>
#include <chrono>

#include "apps/cli/bench_transfer.h"
#include "apps/cli/commands.h"
#include "apps/cli/reshard_here.h"
#include "base/counted.h"
#include "base/report/reshard.h"
#include "base/text.h"
#include "model/simulate/words.h"
#include "move/reshard/modelled.h"
#include "move/reshard/prove.h"
#include "move/reshard/read.h"
#include "plan/cost/access_costs.h"

namespace weft::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kExamples = R"(
Two layouts (weft.layout/1, see docs/reshard.md) become one plan of moves, which is proved: every byte that a rank of --to
wants is written exactly once, from a rank of --from that has it. Without --on the plan runs here: another process
has the memory of all ranks of --from, and the ranks of --to read from it; --check compares every byte.
  weft reshard --from trainer.json --to inference.json
  weft reshard --from trainer.json --to inference.json --check
  weft reshard --from trainer.json --to inference.json --on dgx-h100:nodes=2
  weft reshard --from trainer.json --to inference.json --same-ranks --json -
Where types differ, the senders convert; a second version of which little has changed:
  weft reshard --from trainer.json --to float32.json --convert --check
  weft reshard --from trainer.json --to inference.json --changed 1% --check
A checkpoint, or the tensors of any layout, as vLLM or Megatron splits them:
  weft reshard --from model.safetensors.index.json --to vllm:tp=2,kv_heads=8 --check
Ranks of --to are other processes than those of --from and follow them on the machine; with --same-ranks rank r is one process.
)";

struct Spec {
  std::string from, to, on, transport, json, changed;
  bool same_ranks = false, check = false, convert = false;
};

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

report::ReshardReport report_of(const reshard::Plan& plan) {
  report::ReshardReport r{.from = plan.from().name,
                          .to = plan.to().name,
                          .from_ranks = plan.from().ranks,
                          .to_ranks = plan.to().ranks,
                          .tensors = static_cast<std::int64_t>(plan.to().tensors.size()),
                          .patterns = plan.patterns(),
                          .unwanted = plan.unwanted(),
                          .same_ranks = plan.options().same_ranks};
  r.sent.resize(static_cast<std::size_t>(r.from_ranks));
  r.received.resize(static_cast<std::size_t>(r.to_ranks));
  for (const reshard::PairTotal& p : plan.pairs()) {
    if (plan.stays(p.sender, p.receiver)) {
      r.stays += p.bytes;
      continue;
    }
    ++r.pairs;
    r.pieces += p.pieces;
    r.bytes += p.bytes;
    r.sent[static_cast<std::size_t>(p.sender)] += p.bytes;
    r.received[static_cast<std::size_t>(p.receiver)] += p.bytes;
  }
  return r;
}

void print_spread(const char* what, const std::vector<std::int64_t>& bytes) {
  if (bytes.empty()) return;
  const auto most = std::max_element(bytes.begin(), bytes.end());
  const auto least = std::min_element(bytes.begin(), bytes.end());
  fmt::print("{:<14} {} (rank {}) to {} (rank {}) per rank\n", what, format_bytes(*least), least - bytes.begin(),
             format_bytes(*most), most - bytes.begin());
}

void print_changed(const report::ReshardReport& r, const report::ReshardReport::Here& h) {
  const auto& c = *h.changed;
  fmt::print("then changed   {:g} % of the blocks: {} read again ({:.2f} % of {}) in {:.2f} ms, {:.1f} % of the time\n",
             100 * c.share, format_bytes(c.bytes),
             r.bytes > 0 ? 100 * static_cast<double>(c.bytes) / static_cast<double>(r.bytes) : 0, format_bytes(r.bytes),
             c.seconds * 1e3, 100 * c.seconds / h.seconds);
  if (c.wrong >= 0) fmt::print("wrong bytes    {} after it\n", c.wrong);
}

void print(const report::ReshardReport& r) {
  fmt::print("# {} on {} -> {} on {}{}: {}, {}\n", r.from, counted(r.from_ranks, "rank"), r.to, r.to_ranks,
             r.same_ranks ? " of the same ranks" : " " + plural(r.to_ranks, "other rank"), counted(r.tensors, "tensor"),
             counted(r.patterns, "pattern"));
  fmt::print("must move      {} in {} between {} of ranks\n", format_bytes(r.bytes), counted(r.pieces, "piece"),
             counted(r.pairs, "pair"));
  if (r.same_ranks) fmt::print("stays          {}\n", format_bytes(r.stays));
  if (r.unwanted > 0) fmt::print("not wanted     {} of {}\n", counted(r.unwanted, "tensor"), r.from);
  print_spread("sent", r.sent);
  print_spread("received", r.received);
  fmt::print("planned in     {:.3f} s\n", r.plan_seconds);
  fmt::print("proved         {} of {}, one per pattern, in {:.3f} s\n", counted(r.proved_moves, "move"),
             counted(r.proved_tensors, "tensor"), r.prove_seconds);
  if (r.converted > 0)
    fmt::print("converted      {} by the ranks that send them; bytes are those after it\n",
               counted(r.converted, "tensor"));
  if (r.here) {
    const auto& h = *r.here;
    fmt::print("run here       {:.2f} ms, {} by {}; memcpy of as much: {:.2f} ms\n", h.seconds * 1e3,
               r.bytes > 0 ? fmt::format("{:.2f} GB/s of what moves,", static_cast<double>(r.bytes) / h.seconds * 1e-9)
                           : "nothing moves,",
               h.path, h.copy_seconds * 1e3);
    if (r.converted > 0) fmt::print("converted in   {:.2f} ms, one sender after the other\n", h.convert_seconds * 1e3);
    if (h.wrong >= 0) fmt::print("wrong bytes    {}\n", h.wrong);
    if (h.changed) print_changed(r, h);
  }
  if (!r.machine) return;
  const auto& m = *r.machine;
  fmt::print("on {} (simulated): {}, {:.1f} GB/s together\n", m.name, format_duration(m.time), r.gb_per_second());
  if (m.changed_time)
    fmt::print("then changed   {:g} % of the bytes, with tables of all: {}\n", 100 * r.changed,
               format_duration(*m.changed_time));
  if (!m.busiest_link.empty())
    fmt::print("limited by     {}, busy {:.0f} % of the time\n", m.busiest_link, 100 * m.busiest_share);
  constexpr std::size_t kShown = 16;
  if (!m.nics.empty()) fmt::print("# {:<24} {:>14} {:>14}\n", "NIC", "out (B)", "in (B)");
  for (std::size_t i = 0; i < std::min(kShown, m.nics.size()); ++i)
    fmt::print("  {:<24} {:>14} {:>14}\n", m.nics[i].name, m.nics[i].out, m.nics[i].in);
  if (m.nics.size() > kShown) fmt::print("  … and {} more (--json has all)\n", m.nics.size() - kShown);
}

// Errors (bad input): a rank receives more than its GPU's memory.
Status check_memory(const report::ReshardReport& r, const Machine& machine) {
  const auto most = std::max_element(r.received.begin(), r.received.end());
  if (most == r.received.end() || machine.view->endpoints() == 0) return {};
  const auto memory = cost::memory_size(*machine.view, 0);
  if (!memory || *most <= *memory) return {};
  return bad_input("{}: rank {} receives {}, and a {} has {} of memory", r.to, most - r.received.begin(),
                   format_bytes(*most), machine.view->topology().device(machine.view->device(0)).model,
                   format_bytes(*memory));
}

// A line of stderr every ten seconds says how far the proof is.
Result<reshard::Proof> prove_aloud(const reshard::Plan& plan) {
  constexpr double kEvery = 10;
  const auto begin = Clock::now();
  double said = 0;
  return reshard::prove(plan, [&](std::int64_t done) {
    if (const double now = seconds_since(begin); now >= said + kEvery) {
      said = now;
      fmt::print(stderr, "weft: {} of {} patterns are proved after {:.0f} s\n", done, plan.patterns(), now);
    }
  });
}

// The share of --changed, 0 without it. Errors (bad input): no percentage above 0 and up to 100.
Result<double> changed_share(const Spec& spec) {
  if (spec.changed.empty()) return 0.0;
  const auto share = simulate::percent_of(spec.changed);
  if (!share || *share <= 0 || *share > 1)
    return bad_input("--changed {}: the share of blocks that are new in a second version, as in 1%, up to 100%",
                     shown(spec.changed));
  if (spec.same_ranks) return bad_input("--changed with --same-ranks: versions are read from other processes");
  return *share;
}

Status add_machine(report::ReshardReport& report, const Machine& machine, const reshard::Plan& plan) {
  WEFT_CHECK(check_memory(report, machine));
  WEFT_TRY(auto modelled, reshard::model(*machine.view, plan));
  report.machine = report::ReshardReport::OnMachine{
      machine.name, modelled.outcome.total, modelled.outcome.busiest_link, modelled.outcome.busiest_share, {}, {}};
  for (auto& nic : modelled.nics) report.machine->nics.push_back({std::move(nic.name), nic.out, nic.in});
  if (report.changed > 0) {
    WEFT_TRY(report.machine->changed_time, reshard::model_changes(*machine.view, plan, report.changed));
  }
  return {};
}

Result<int> reshard_command(const Spec& spec) {
  WEFT_TRY(auto layouts, reshard::read_layouts(spec.from, spec.to));
  reshard::PlanOptions options{.same_ranks = spec.same_ranks};
  if (!spec.on.empty() && (spec.check || !spec.transport.empty()))
    return bad_input("reshard --on {} simulates: without --check and --transport", spec.on);
  WEFT_TRY(const auto network, network_of("reshard", spec.transport));
  WEFT_TRY(const double changed, changed_share(spec));
  std::optional<Machine> machine;
  if (!spec.on.empty()) {
    WEFT_TRY(machine, load_machine(spec.on));
    options.per_node = machine->view->ranks_per_node(machine->view->endpoints());
  }
  if (!machine) WEFT_CHECK(check_fits_here(layouts.first, layouts.second));
  const reshard::Layout given = layouts.first;
  std::optional<reshard::Converted> converted;
  if (spec.convert) {
    WEFT_TRY(converted, reshard::converted(layouts.first, layouts.second));
    if (converted->conversions.empty())
      return bad_input("--convert: every tensor of {} has the type that {} wants", given.name, layouts.second.name);
    layouts.first = converted->layout;
  }
  auto begin = Clock::now();
  WEFT_TRY(const auto plan, reshard::Plan::make(std::move(layouts.first), std::move(layouts.second), options));
  report::ReshardReport report = report_of(plan);
  report.plan_seconds = seconds_since(begin);
  report.changed = changed;
  if (converted) report.converted = static_cast<std::int64_t>(converted->conversions.size());
  begin = Clock::now();
  WEFT_TRY(const auto proof, prove_aloud(plan));
  report.prove_seconds = seconds_since(begin);
  report.proved_moves = proof.moves, report.proved_tensors = proof.tensors;
  if (machine) {
    WEFT_CHECK(add_machine(report, *machine, plan));
  } else {
    WEFT_TRY(report.here, reshard_here(plan, {given, converted ? &*converted : nullptr, network, spec.check, changed}));
  }
  if (spec.json != "-") print(report);
  if (!spec.json.empty()) WEFT_CHECK(write_json(spec.json, to_json(report)));
  const bool wrong =
      report.here && (report.here->wrong > 0 || (report.here->changed && report.here->changed->wrong > 0));
  return wrong ? kBadAnswer : 0;
}

}  // namespace

Command add_reshard(CLI::App& app) {
  auto spec = std::make_shared<Spec>();
  CLI::App* sub = app.add_subcommand("reshard", "Plan, prove and time the moves from one layout of tensors to another");
  sub->add_option(
         "--from", spec->from,
         "the layout that is there: a file of weft.layout/1, *.safetensors or its index, or the names of a system: "
         "vllm:tp=N,heads=H,kv_heads=K,type=T, megatron:tp=N,kv_heads=K,gated=0|1,type=T")
      ->required();
  sub->add_option("--to", spec->to, "the layout that is wanted: as --from")->required();
  sub->add_option("--on", spec->on, "simulate it on this machine: a preset, a preset with options, or a file");
  sub->add_option("--transport", spec->transport, "here: shm (default), tcp or ucx");
  sub->add_flag("--check", spec->check, "here: compare every byte that has arrived");
  sub->add_flag(
      "--convert", spec->convert,
      "tensors that --to has with another type (float32, bfloat16, float16, float8_e4m3fn) are converted by their "
      "senders, with scales where --to has NAME_scale_inv");
  sub->add_option(
      "--changed", spec->changed,
      "then a second version, of which this share of blocks of 16 KiB is new: only these are read, as in 1%");
  sub->add_flag("--same-ranks", spec->same_ranks, "rank r of both layouts is one process; what it holds already stays");
  sub->add_option("--json", spec->json, "write weft.reshard/1 to this file; - is stdout instead of the table")
      ->check(writable);
  sub->footer(kExamples);
  return {sub, [spec] { return reshard_command(*spec); }};
}

}  // namespace weft::cli
