#include "api/calibrate/calibrate.h"
#include "api/open.h"
#include "api/this_machine.h"
#include "apps/cli/at_least.h"
#include "apps/cli/commands.h"
#include "apps/training/fit_cards.h"
#include "base/counted.h"
#include "base/env.h"
#include "base/job_text.h"
#include "base/text.h"
#include "model/accuracy/fit.h"
#include "plan/cost/shipped.h"

namespace weft::cli {
namespace {

struct Spec {
  std::vector<std::string> from, train;
  std::string on, collective = "all_reduce", gpu, out, json;
  std::int64_t ranks = 0, together = 0;
};

constexpr const char* kExamples = R"(
Without --from: measures this machine's rates, and keeps them for later jobs (see WEFT_RATES). With --from: fits the constants of weft's model of another machine to
measured tables (see `weft accuracy --help` for their form), and writes them as weft.calibration/1, which --calibration
of other commands takes, or WEFT_CALIBRATION. Constants that the tables say nothing about stay as weft ships them.

With --train: fits the rates of computing of `weft train` (GEMMs, and attention from 4 steps on) to measured training
steps, and writes them as weft.cards/1, which `weft train --cards` takes. A CSV has the columns of weft train --compare; a
log of Megatron-LM begins with the arguments that it prints, and needs --gpu.

Examples:
  weft calibrate
  weft calibrate --train runs.csv --out cards.json
  weft calibrate --train pretrain.log --gpu H100 --out cards.json
  weft calibrate --from mine.csv --on dgx-h100:nodes=2 --out mine.json
  weft bench all_reduce --on dgx-h100:nodes=2 --calibration mine.json
)";

Result<int> calibrate_now(const std::string& json) {
  WEFT_TRY(const env::Settings settings, env::read());
  const calibrate::Rates rates = calibrate::measure(true);
  const calibrate::Cache cache = api::cache_of(settings);
  const bool kept = cache.keep(false, rates) && cache.keep(true, rates);
  if (json != "-") {
    fmt::print("core          {:>8.1f} GB/s   one core, read + written, in its own cache\n", rates.core.gb());
    fmt::print("shared cache  {:>8.1f} GB/s   all cores together, in the last-level cache\n", rates.shared.gb());
    fmt::print("memory        {:>8.1f} GB/s   all cores together, beyond the caches\n", rates.memory.gb());
    fmt::print("core to core  {:>8.1f} ns     one cache line, one way\n", rates.core_to_core.ns());
    if (rates.plain_slots.value() > 0)
      fmt::print(
          "slots         {:>8.1f} GB/s   each copy of messages of 32 KiB between two cores; {:.1f} past the caches\n",
          rates.plain_slots.gb(), rates.streamed_slots.gb());
    fmt::print("tcp           {:>8.2f} us     one small message over loopback; a connection {:.1f} GB/s\n",
               rates.tcp.us(), rates.tcp_connection.gb());
    const auto ucx = [](const char* name, Duration trip, BytesPerSecond rate, const char* where) {
      if (trip.ps() > 0)
        fmt::print("{:<13} {:>8.2f} us     one small message {}; a stream {:.1f} GB/s\n", name, trip.us(), where,
                   rate.gb());
    };
    ucx("ucx", rates.ucx, rates.ucx_connection, "within this machine");
    ucx("ucx across", rates.ucx_across, rates.ucx_across_connection, "over loopback, as between machines");
    fmt::print("own caches    {:>8} KiB    all cores' together; last-level cache {} KiB\n", rates.own_cache >> 10,
               rates.shared_cache >> 10);
    fmt::print("kept          {}\n",
               kept ? "for all jobs on machines like this one: " + cache.file(false) : "nowhere: no folder for it");
  }
  if (!json.empty()) WEFT_CHECK(write_text(json, calibrate::to_text(rates) + "\n"));
  return 0;
}

Result<std::vector<accuracy::Table>> read_tables(const Spec& spec) {
  std::vector<accuracy::Table> tables;
  for (const std::string& file : spec.from) {
    accuracy::Description description{
        .machine = spec.on, .ranks = static_cast<Rank>(spec.ranks), .gpus_per_thread = static_cast<int>(spec.together)};
    WEFT_TRY(description.collective, schedule::parse_collective(spec.collective));
    WEFT_TRY(const std::string text, read_job_text(file));
    WEFT_TRY(auto table, accuracy::parse_table(file, text, description));
    tables.push_back(std::move(table));
  }
  return tables;
}

Result<int> fit_to_tables(const Spec& spec) {
  if (spec.on.empty()) return bad_input("--from needs --on MACHINE");
  if (!spec.json.empty()) return bad_input("--json is for measuring this machine; --out writes what was fitted");
  WEFT_TRY(const auto tables, read_tables(spec));
  WEFT_TRY(Machine machine, load_machine(spec.on));
  if (!machine.simulated || !machine.view->costs().gpu())
    return bad_input("--from fits machines with GPUs, not '{}'", spec.on);
  WEFT_TRY(const auto conditions, cost::conditions_of(machine.view->topology()));
  accuracy::Predictor predictor(
      cost::MachineView(machine.view->topology(), machine.view->costs(), machine.view->caches()));
  predictor.set_most_steps(3000);  // some milliseconds a row; a fit predicts each row some hundred times
  WEFT_TRY(const accuracy::Fit fit, accuracy::fit(predictor, conditions, tables));
  std::string names;
  for (const accuracy::Table& t : tables) names += (names.empty() ? "" : ", ") + t.name;
  const std::string text = accuracy::to_calibration(fit, spec.on, "fitted by weft calibrate to " + names, today());
  if (!spec.out.empty()) WEFT_CHECK(write_text(spec.out, text));
  if (spec.out == "-") return 0;
  fmt::print("# {} fitted to {}: mean |ln(predicted / measured)| {:.3f}, was {:.3f}\n", spec.on,
             counted(fit.points, "point"), fit.after, fit.before);
  for (const accuracy::Knob& k : fit.knobs)
    fmt::print("{:<14} {:<4} {:<7} {:<13} {:>9.4g}\n", k.list, k.path, k.protocol, k.field, k.value);
  return 0;
}

Result<int> fit_to_steps(const Spec& spec) {
  if (!spec.from.empty() || !spec.json.empty()) return bad_input("--train goes with --gpu and --out only");
  training::StepMachines machines;
  std::vector<training::OwnStep> steps;
  for (const std::string& file : spec.train) {
    WEFT_TRY(const std::string text, read_job_text(file));
    if (training::is_training_log(text)) {
      if (spec.gpu.empty()) return bad_input("{} is a log, which does not say on what it ran: --gpu, e.g. H100", file);
      WEFT_TRY(auto step, training::step_of_log(file, text, spec.gpu, machines));
      steps.push_back(std::move(step));
    } else {
      WEFT_TRY(auto own, training::own_steps(file, text, machines));
      steps.insert(steps.end(), std::move_iterator(own.begin()), std::move_iterator(own.end()));
    }
  }
  WEFT_TRY(const auto fits, training::fit_cards(steps));
  const nlohmann::json cards = training::to_cards(fits, fmt::format("{}", fmt::join(spec.train, ", ")), today());
  if (!spec.out.empty()) WEFT_CHECK(write_text(spec.out, cards.dump(2) + "\n"));
  if (spec.out == "-") return 0;
  for (const training::CardFit& f : fits) {
    fmt::print("{} {}: {}, mean |ln(predicted / measured)| {:.3f}, was {:.3f}; software of {}\n", f.card, f.precision,
               counted(f.steps, "step"), f.after, f.before, f.software);
    fmt::print("  gemm       {:>6.3f} of the peak\n", f.gemm);
    fmt::print("  attention  {:>6.3f} forward, {:.3f} backward{}\n", f.forward, f.backward,
               f.steps < training::kStepsForAttention ? ", as shipped: too few steps" : "");
    if (f.at_bound) fmt::print("  a share is at its bound: the steps are longer or shorter than any rate explains\n");
  }
  return 0;
}

}  // namespace

Command add_calibrate(CLI::App& app) {
  auto spec = std::make_shared<Spec>();
  CLI::App* sub = app.add_subcommand(
      "calibrate", "Measure the rates that predictions for this machine go by, or fit another machine's to tables");
  sub->add_option("--from", spec->from, "CSV files with measurements of --on");
  sub->add_option("--train", spec->train, "CSV files or logs of Megatron-LM with training steps of your own");
  sub->add_option("--gpu", spec->gpu, "that a log's steps ran on, as in a CSV: A100, H100, GB200, …");
  sub->add_option("--on", spec->on, "the machine that they were measured on");
  sub->add_option("--collective", spec->collective, "that was measured")->capture_default_str();
  sub->add_option("--ranks,-n", spec->ranks, "that took part (default: every GPU of the machine)")->check(at_least(0));
  sub->add_option("--gpus-per-thread", spec->together, "nccl-tests' -g (default: as the file's first line says)")
      ->check(at_least(0));
  sub->add_option("--out", spec->out, "write weft.calibration/1 to this file; - is stdout instead of text")
      ->check(writable);
  sub->add_option("--json", spec->json, "without --from: write weft.rates/2 to this file; - is stdout instead of text")
      ->check(writable);
  sub->footer(kExamples);
  return {sub, [spec] {
            if (!spec->train.empty()) return fit_to_steps(*spec);
            return spec->from.empty() ? calibrate_now(spec->json) : fit_to_tables(*spec);
          }};
}

}  // namespace weft::cli
