#include "apps/cli/at_least.h"
#include "apps/cli/commands.h"
#include "apps/cli/on_interrupt.h"
#include "apps/cli/progress.h"
#include "apps/cli/some_bytes.h"
#include "base/counted.h"
#include "base/text.h"
#include "base/text_file.h"
#include "model/accuracy/plot.h"
#include "model/accuracy/regret.h"
#include "model/accuracy/score.h"
#include "model/accuracy/spread.h"
#include "plan/tune/nccl/choice.h"

namespace weft::cli {
namespace {

using accuracy::kBands;
using accuracy::Score;
using accuracy::Scored;

struct Spec {
  std::string folder, table, on, calibration, collective = "all_reduce", svg, json, limits, ratios;
  std::vector<std::string> regret, sizes = {"8", "4K", "256K", "4M", "64M", "1G"};
  std::int64_t ranks = 0, together = 0, steps = 2'000'000;
};

constexpr const char* kExamples = R"(
Replays published measurements through the model: what NCCL would choose, by the model of its own tuner, timed by weft's
simulator. Prints the median of |predicted / measured - 1| per table, for messages below 64 KiB, from there to 16 MiB,
and from 16 MiB on. "fit" marks tables that constants were fitted on; the others count for the goals.
A table is a CSV file with columns size_bytes and time_us below a line "# what it is"; "-g N" in that line says that one
thread launched on N GPUs. A folder is read as its tables.json says, see data/measured.

Examples:
  weft accuracy                                           the tables that weft ships
  weft accuracy --svg plots                               and a picture of each
  weft accuracy --table mine.csv --on dgx-h100:nodes=2    another one
  weft accuracy --regret "dgx-h100;dgx-h100:nodes=4,net=ib-ndr" --collective all
  weft accuracy --fail-above 40,40,40                     exit 1 if a total is worse, in percent
)";

Result<std::array<double, kBands>> parse_limits(const std::string& text) {
  std::array<double, kBands> limits{};
  char rest = 0;
  if (std::sscanf(text.c_str(), "%lf,%lf,%lf%c", &limits[0], &limits[1], &limits[2], &rest) != kBands ||
      std::ranges::any_of(limits, [](double l) { return !(l >= 0); }))
    return bad_input("--fail-above '{}': three percentages, small to large messages, e.g. 35,20,10", text);
  return limits;
}

Result<std::vector<accuracy::Table>> tables_for(const Spec& spec) {
  if (!spec.table.empty()) {
    if (spec.on.empty()) return bad_input("--table needs --on MACHINE");
    WEFT_TRY(const std::string text, read_text_file(spec.table));
    accuracy::Description description{
        .machine = spec.on, .ranks = static_cast<Rank>(spec.ranks), .gpus_per_thread = static_cast<int>(spec.together)};
    WEFT_TRY(description.collective, schedule::parse_collective(spec.collective));
    WEFT_TRY(auto table, accuracy::parse_table(spec.table, text, description));
    return std::vector<accuracy::Table>{std::move(table)};
  }
  if (!spec.on.empty()) return bad_input("--on is for --table; tables of a folder name their machines in tables.json");
  if (spec.folder.empty()) return accuracy::shipped_tables();
  std::vector<std::string> unknown;
  WEFT_TRY(auto tables, accuracy::tables_of(spec.folder, unknown));
  for (const std::string& file : unknown)
    fmt::print(stderr, "weft: {}: no tables.json says what it was measured on\n", file);
  return tables;
}

std::string cells(const Score& score) {
  std::string text;
  for (std::size_t b = 0; b < kBands; ++b)
    text += score.points[b] == 0 ? fmt::format(" {:>5} {:>7}", 0, "-")
                                 : fmt::format(" {:>5} {:>6.1f}%", score.points[b], 100 * score.error[b]);
  return text;
}

void print(const std::vector<Scored>& all) {
  fmt::print("# median |predicted / measured - 1|        below 64 KiB       to 16 MiB    from 16 MiB\n");
  fmt::print("{:<46}", "table");
  for (int b = 0; b < kBands; ++b) fmt::print(" {:>5} {:>7}", "rows", "error");
  fmt::print("  use    machine\n");
  for (const Scored& s : all) {
    fmt::print("{:<46}{}  {:<5}  {}", s.table.name.substr(0, 46), cells(s.score), name(s.table.use), s.table.machine);
    if (!s.problem.empty()) fmt::print("  not modelled: {}", s.problem);
    if (!s.table.why.empty()) fmt::print("  ({})", s.table.why);
    if (const auto n = std::ranges::count_if(s.predictions, &accuracy::Prediction::by_nccl); n > 0)
      fmt::print("  {} by NCCL's own model", counted(n, "row"));
    fmt::print("\n");
  }
  fmt::print("{:<46}{}\n", "# all that were fitted on", cells(total(all, accuracy::Use::kFit)));
  fmt::print("{:<46}{}\n", "# all others", cells(total(all, accuracy::Use::kJudge)));
  fmt::print("{:<46}", "# goals");
  for (const double goal : accuracy::kGoals) fmt::print(" {:>5} {:>6.0f}%", "", 100 * goal);
  fmt::print("\n");
}

nlohmann::json to_json(const Score& score) {
  nlohmann::json json;
  constexpr const char* kNames[kBands] = {"below_64KiB", "below_16MiB", "from_16MiB"};
  for (std::size_t b = 0; b < kBands; ++b)
    json[kNames[b]] = {{"points", score.points[b]},
                       {"median_error", score.points[b] == 0 ? nlohmann::json() : nlohmann::json(score.error[b])}};
  return json;
}

nlohmann::json to_json(const std::vector<Scored>& all) {
  nlohmann::json tables = nlohmann::json::array();
  for (const Scored& s : all) {
    nlohmann::json rows = nlohmann::json::array();
    for (std::size_t i = 0; i < s.predictions.size(); ++i)
      rows.push_back({{"bytes", s.table.points[i].bytes},
                      {"measured_us", s.table.points[i].time.us()},
                      {"predicted_us", s.predictions[i].time.us()},
                      {"algorithm", s.predictions[i].algorithm},
                      {"protocol", s.predictions[i].protocol},
                      {"channels", s.predictions[i].channels},
                      {"by_nccl", s.predictions[i].by_nccl}});
    tables.push_back({{"name", s.table.name},
                      {"machine", s.table.machine},
                      {"card", s.measured.card},
                      {"ranks", s.measured.ranks},
                      {"nccl", s.table.release == 0 ? "" : tune::nccl::release_name(s.table.release)},
                      {"collective", schedule::name(s.table.collective)},
                      {"use", name(s.table.use)},
                      {"about", s.table.about},
                      {"problem", s.problem},
                      {"error", to_json(s.score)},
                      {"rows", rows}});
  }
  return {{"schema", "weft.accuracy/1"},
          {"tables", tables},
          {"fitted", to_json(total(all, accuracy::Use::kFit))},
          {"others", to_json(total(all, accuracy::Use::kJudge))}};
}

Status write_plots(const std::string& folder, const std::vector<Scored>& all) {
  std::error_code problem;
  std::filesystem::create_directories(folder, problem);
  if (problem) return failure(Code::kSystem, Blame::kInput, "cannot create {}: {}", folder, problem.message());
  for (const Scored& s : all)
    if (!s.predictions.empty()) WEFT_CHECK(write_text(folder + "/" + s.table.name + ".svg", accuracy::plot(s)));
  return {};
}

// How much longer weft's choices take than the best plan by its own simulator. Exit status 1 above kMostRegret.
Result<int> run_regret(const Spec& spec) {
  constexpr double kMostRegret = 1.1;
  using enum Collective;
  std::vector<Collective> collectives = {kAllReduce, kAllGather, kReduceScatter, kAllToAll,
                                         kBroadcast, kReduce,    kGather,        kScatter};
  if (spec.collective != "all") {
    WEFT_TRY(const Collective one, schedule::parse_collective(spec.collective));
    collectives = {one};
  }
  std::vector<Bytes> sizes;
  for (const std::string& size : spec.sizes) {
    WEFT_TRY(sizes.emplace_back(), some_bytes("--sizes", size));
  }
  nlohmann::json rows = nlohmann::json::array();
  if (spec.json != "-")
    fmt::print("# {:<30} {:<14} {:>11} {:>11} {:>11} {:>6} {:>5} {:>7}  {:<28} {}\n", "machine", "collective",
               "size (B)", "chosen (us)", "best (us)", "ratio", "plans", "skipped", "chosen", "best");
  double worst = 1;
  int above = 0, all = 0;
  const auto finish = [&]() -> Status {
    Progress::show("");
    if (spec.json != "-")
      fmt::print("# {}, {} above {:.2f} times the best plan, worst {:.3f}\n", counted(all, "choice"), above,
                 kMostRegret, worst);
    if (spec.json.empty()) return {};
    return write_json(spec.json, {{"schema", "weft.regret/1"}, {"rows", rows}});
  };
  OnInterrupt interrupted([&] {
    Progress::show("");
    fmt::print(stderr, "weft: interrupted\n");
    if (const auto written = finish(); !written) report_error(written.error());
  });
  Progress line;
  for (const std::string& name : spec.regret) {
    WEFT_TRY(const Machine machine, load_machine(name, spec.calibration));
    for (const Collective collective : collectives)
      for (const Bytes size : sizes) {
        Progress::show(fmt::format("{} {} {} …", name, schedule::name(collective), format_bytes(size)));
        WEFT_TRY(const auto found, accuracy::regrets(*machine.view, std::span(&collective, 1), std::span(&size, 1),
                                                     static_cast<double>(spec.steps)));
        const std::lock_guard lock(interrupted.mutex());
        Progress::show("");
        for (const accuracy::Regret& r : found) {
          ++all;
          above += r.ratio() > kMostRegret ? 1 : 0;
          worst = std::max(worst, r.ratio());
          rows.push_back({{"machine", name},
                          {"collective", schedule::name(r.collective)},
                          {"bytes", r.bytes},
                          {"ranks", r.ranks},
                          {"chosen", r.chosen},
                          {"best", r.best},
                          {"chosen_us", r.chosen_time.us()},
                          {"best_us", r.best_time.us()},
                          {"plans", r.plans},
                          {"skipped", r.skipped}});
          if (spec.json == "-") continue;
          fmt::print("  {:<30} {:<14} {:>11} {:>11.1f} {:>11.1f} {:>6.3f} {:>5} {:>7}  {:<28} {}\n", name,
                     schedule::name(r.collective), r.bytes, r.chosen_time.us(), r.best_time.us(), r.ratio(), r.plans,
                     r.skipped, r.chosen, r.chosen == r.best ? "" : r.best);
          std::fflush(stdout);
        }
      }
  }
  const std::lock_guard lock(interrupted.mutex());
  WEFT_CHECK(finish());
  return above > 0 ? kBadAnswer : 0;
}

// `progress`: see accuracy::Progress. Errors (bad input): of the tables, or a table of --table that cannot be modelled.
Result<std::vector<Scored>> score(const Spec& spec, const accuracy::Progress& progress = {}) {
  WEFT_TRY(auto tables, tables_for(spec));
  auto all = accuracy::score_all(
      std::move(tables),
      [&](const std::string& on) -> Result<accuracy::Predictor> {
        WEFT_TRY(Machine machine, load_machine(on, spec.calibration));
        return accuracy::Predictor(
            cost::MachineView(machine.view->topology(), machine.view->costs(), machine.view->caches()));
      },
      progress);
  if (!spec.table.empty() && !all.front().problem.empty()) return bad_input("{}", all.front().problem);
  return all;
}

void print(const accuracy::Ratios& ratios) {
  const auto [inside, points] = ratios.left_out();
  fmt::print("# {} of {}, {:.0f} %, lie where the other tables of such machines have {:.0f} % of theirs\n", inside,
             counted(points, "row"), points == 0 ? 0.0 : 100.0 * inside / points, 100 * accuracy::kInside);
}

Status emit(const Spec& spec, const std::vector<Scored>& all) {
  const auto ratios = accuracy::Ratios::of(all);
  if (spec.json != "-") {
    print(all);
    print(ratios);
  }
  if (!spec.ratios.empty()) WEFT_CHECK(write_json(spec.ratios, ratios.to_json()));
  if (!spec.json.empty()) WEFT_CHECK(write_json(spec.json, to_json(all)));
  if (!spec.svg.empty()) WEFT_CHECK(write_plots(spec.svg, all));
  return {};
}

Result<nlohmann::json> answer(const Spec& spec) {
  if (!spec.regret.empty()) return bad_input("accuracy --regret has no answer without printing");
  WEFT_TRY(const auto all, score(spec));
  return to_json(all);
}

Result<int> run(const Spec& spec) {
  if (!spec.regret.empty()) return run_regret(spec);
  std::array<double, kBands> limits{};
  if (!spec.limits.empty()) {
    WEFT_TRY(limits, parse_limits(spec.limits));
  }
  std::vector<Scored> done;
  OnInterrupt interrupted([&] {
    Progress::show("");
    fmt::print(stderr, "weft: interrupted; {} of the tables {} done\n", done.size(), done.size() == 1 ? "is" : "are");
    if (done.empty()) return;
    if (const auto written = emit(spec, done); !written) report_error(written.error());
  });
  Progress line;
  WEFT_TRY(const auto all, score(spec, [&](const std::vector<Scored>& so_far, std::size_t tables) {
             const std::lock_guard lock(interrupted.mutex());
             done.insert(done.end(), so_far.begin() + std::ssize(done), so_far.end());
             if (so_far.size() < tables) Progress::show(fmt::format("table {} of {} …", so_far.size() + 1, tables));
           }));
  const std::lock_guard lock(interrupted.mutex());
  Progress::show("");
  WEFT_CHECK(emit(spec, all));
  if (spec.limits.empty()) return 0;
  if (spec.folder.empty() && spec.table.empty()) {
    WEFT_TRY(const auto shipped, accuracy::Ratios::shipped(false));
    if (!shipped.near(accuracy::Ratios::of(all))) {
      fmt::print(stderr, "weft: data/measured/ratios.json is of other predictions: write it by --ratios\n");
      return kBadAnswer;
    }
  }
  const Score others = total(all, accuracy::Use::kJudge);
  for (std::size_t b = 0; b < kBands; ++b)
    if (100 * others.error[b] > limits[b]) return kBadAnswer;
  return 0;
}

}  // namespace

Command add_accuracy(CLI::App& app) {
  auto spec = std::make_shared<Spec>();
  CLI::App* sub = app.add_subcommand("accuracy", "How far the model is from published measurements");
  sub->add_option("folder", spec->folder, "tables to replay (default: those that weft ships)");
  sub->add_option("--table", spec->table, "only this CSV file, measured on --on");
  sub->add_option("--on", spec->on, "the machine of --table");
  sub->add_option("--calibration", spec->calibration, "constants from this file (weft calibrate --from)");
  sub->add_option("--collective", spec->collective, "of --table")->capture_default_str();
  sub->add_option("--ranks,-n", spec->ranks, "of --table (default: every GPU of the machine)")->check(at_least(0));
  sub->add_option("--gpus-per-thread", spec->together, "of --table: nccl-tests' -g (default: as its first line says)")
      ->check(at_least(0));
  sub->add_option("--svg", spec->svg, "draw a picture of each table into this folder")->check(writable_folder);
  sub->add_option("--fail-above", spec->limits, "exit 1 if a total of tables not fitted on is above: A,B,C in percent");
  sub->add_option("--json", spec->json, "write weft.accuracy/1 to this file; - is stdout instead of the table")
      ->check(writable);
  sub->add_option("--ratios", spec->ratios,
                  "write measured / predicted of every row to this file (weft.ratios/1), from which bench says where "
                  "measurements would lie")
      ->check(writable);
  sub->add_option("--regret", spec->regret,
                  "instead: compare weft's choices with every other plan by weft's own simulator, on these machines, "
                  "separated by semicolons; --collective all: all of them")
      ->delimiter(';')
      ->allow_extra_args(false);
  sub->add_option("--sizes", spec->sizes, "with --regret: message sizes, separated by commas")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->capture_default_str();
  sub->add_option("--steps", spec->steps, "with --regret: plans that take more simulated steps than this are skipped")
      ->check(at_least(1))
      ->capture_default_str();
  sub->footer(kExamples);
  return {sub, [spec] { return run(*spec); }, [spec] { return answer(*spec); }};
}

}  // namespace weft::cli
