#include "apps/cli/rehearse.h"

#include <algorithm>

#include "apps/doctor/pickle.h"
#include "apps/rehearsal/answer.h"
#include "apps/rehearsal/chakra.h"
#include "apps/rehearsal/flight.h"
#include "base/counted.h"
#include "base/text.h"
#include "base/text_file.h"

namespace weft::cli {
namespace {

using rehearsal::Answer;
using rehearsal::Job;

constexpr double kGiB = 1073741824.0;
constexpr double kShownShare = 0.01;  // of the peak of memory, from which a category is shown
constexpr std::uintmax_t kLargestRecording = std::uintmax_t{1} << 31;

constexpr const char* kExamples = R"(
What a PyTorch script does on a machine that is not here. The Python package weft-comm-torch runs the script and records
some of its ranks; this command matches and times the recordings:
  weftcomm rehearse --on dgx-h100:nodes=2 --keep recorded train.py
  weft rehearse recorded/*.jsonl --on dgx-h100:nodes=2,net=ib-ndr      another machine, without running the script again
  weft rehearse recorded/*.jsonl --on dgx-h100:nodes=2 --fault nic:1/3=down      with a dead NIC
A trace of torch.profiler is read, too: its kernels are scaled from the card it names to the machine's, its collectives
simulated anew:
  weft rehearse trace-*.json --on dgx-h200
Dumps of PyTorch's flight recorder are calls alone: which call of which rank differs, and what communication takes:
  weft rehearse nccl_trace_rank_* --on dgx-h100

Exit status: 0 nothing found, 1 something found (a mismatch, a deadlock, memory that does not fit), 2 bad input.
)";

struct Spec {
  std::vector<std::string> files;
  std::string on, json, groups;
  std::vector<std::string> faults;
  bool describe = false;
};

std::string as_time(double seconds) { return format_duration(Duration::seconds(seconds)); }

std::string list_of(const std::vector<Rank>& ranks) {
  constexpr std::size_t kShown = 8;
  std::string text;
  for (std::size_t i = 0; i < std::min(ranks.size(), kShown); ++i)
    text += fmt::format("{}{}", i > 0 ? ", " : "", ranks[i]);
  return ranks.size() > kShown ? text + ", …" : text;
}

void print_sites(const rehearsal::RankTime& rank) {
  std::vector<std::pair<std::pair<std::string, std::string>, rehearsal::CallSite>> sites(rank.sites.begin(),
                                                                                         rank.sites.end());
  std::ranges::stable_sort(sites, [](const auto& a, const auto& b) {
    return std::pair(a.second.exposed, a.second.seconds) > std::pair(b.second.exposed, b.second.seconds);
  });
  if (sites.empty()) return;
  fmt::print("\n{:<28} {:<18} {:>6} {:>11} {:>11} {:>11}\n", "communication of rank " + std::to_string(rank.rank), "",
             "calls", "MB", "time", "exposed");
  constexpr std::size_t kShown = 12;
  for (std::size_t i = 0; i < std::min(sites.size(), kShown); ++i) {
    const auto& [where, site] = sites[i];
    fmt::print("  {:<26} {:<18} {:>6} {:>11.1f} {:>11} {:>11}\n", where.first, where.second, site.calls,
               site.bytes / 1e6, as_time(site.seconds), as_time(site.exposed));
  }
  if (sites.size() > kShown) fmt::print("  … and {} more lines (--json has all)\n", sites.size() - kShown);
}

void print(const Job& job, const Answer& answer, const std::string& machine) {
  std::vector<Rank> rehearsed;
  for (const auto& rank : job.ranks) rehearsed.push_back(rank.rank);
  fmt::print("{} on {}: {} of {}, rehearsed: {}\n", job.ranks.front().script, machine, counted(job.world, "rank"),
             counted(answer.kinds.size(), "kind"), list_of(rehearsed));
  if (!answer.missing.empty())
    fmt::print("not rehearsed yet: a rank of each kind needs {} {}\n", plural(answer.missing.size(), "rank"),
               list_of(answer.missing));
  const rehearsal::RankTime& rank = *answer.slowest;
  if (rank.step > 0)
    fmt::print("step {} on rank {}: computing {}, exposed communication {}; MFU {:.1f} %\n", as_time(rank.step),
               rank.rank, as_time(rank.step_compute), as_time(rank.step_exposed), 100 * answer.mfu);
  else
    fmt::print("run {} on rank {}: computing {}, exposed communication {} (no two optimizer steps)\n",
               as_time(rank.total), rank.rank, as_time(rank.compute), as_time(rank.exposed));
  if (answer.reserved > 0)
    fmt::print(
        "memory: {:.1f} GiB of tensors on rank {}, {:.1f} GiB reserved at most; a card has {:.1f} GiB for them\n",
        static_cast<double>(answer.allocated) / kGiB, answer.largest, static_cast<double>(answer.reserved) / kGiB,
        answer.capacity / kGiB);
  for (const auto& held : answer.held)
    if (static_cast<double>(held.bytes) >= kShownShare * static_cast<double>(answer.allocated))
      fmt::print("  {:<26} {:>8.2f} GiB{}\n", held.category, static_cast<double>(held.bytes) / kGiB,
                 held.module.empty() ? "" : "   most of it of " + held.module);
  print_sites(rank);
  if (!answer.notes.empty()) fmt::print("\n");
  for (const auto& note : answer.notes)
    fmt::print("note: {}{}{}\n", note.line, note.line.empty() ? "" : ": ", note.text);
  for (const auto& hint : answer.hints)
    fmt::print("hint: {}{}{}\n", hint.line, hint.line.empty() ? "" : ": ", hint.text);
  fmt::print("\n");
  for (const auto& finding : answer.outcome.findings) fmt::print("{}: {}\n", finding.rule, finding.text);
  if (!answer.outcome.findings.empty()) return;
  if (job.ranks.size() == 1 && job.world > 1)
    fmt::print("nothing found in the one rank that was rehearsed; the calls of the others were not seen\n");
  else
    fmt::print("nothing found: calls of {} match, nobody waits without end, memory fits\n",
               counted(job.ranks.size(), "rehearsed rank"));
}

// Chakra's traces say neither their rank nor the job's size: the files' names and number do.
Result<Job> read_chakra(const std::vector<std::string>& files, const std::string& groups_file) {
  rehearsal::ChakraGroups groups;
  if (!groups_file.empty()) {
    WEFT_TRY(const std::string text, read_text_file(groups_file));
    WEFT_TRY(groups, rehearsal::parse_chakra_groups(groups_file, text));
  }
  int world = 1;
  for (const std::string& file : files) {
    if (!rehearsal::is_chakra(file)) return bad_input("{}: no Chakra trace (.et), the files before it are", file);
    WEFT_TRY(const int rank, rehearsal::rank_of_chakra(file));
    world = std::max(world, rank + 1);
  }
  Job job;
  for (const std::string& file : files) {
    WEFT_TRY(const std::string bytes, read_file(file, kLargestRecording));
    WEFT_TRY(const std::string recording, rehearsal::recording_of_chakra(file, bytes, world, groups));
    WEFT_CHECK(rehearsal::add_recording(job, file, recording));
  }
  return job;
}

// The dump of a flight recorder, as pickle or JSON; null: the file is something else.
Result<nlohmann::json> flight_record(const std::string& file) {
  WEFT_TRY(const std::string bytes, read_file(file, kLargestRecording));
  if (doctor::is_pickle(bytes)) {
    auto value = doctor::read_pickle(bytes);
    if (!value) return bad_input("{}: {}", file, value.error().message);
    return value;
  }
  constexpr std::size_t kHead = 4096;  // a dump names its version first, a recording its schema
  if (bytes.substr(0, kHead).find("\"schema\"") != std::string::npos) return nlohmann::json();
  nlohmann::json value = nlohmann::json::parse(bytes, nullptr, false);
  return rehearsal::is_flight_record(value) ? value : nlohmann::json();
}

Result<Job> read_flight_records(const std::vector<std::string>& files, nlohmann::json first) {
  std::vector<rehearsal::FlightRecord> records{{files.front(), std::move(first)}};
  for (std::size_t i = 1; i < files.size(); ++i) {
    WEFT_TRY(nlohmann::json dump, flight_record(files[i]));
    if (dump.is_null()) return bad_input("{}: no dump of a flight recorder, the files before it are", files[i]);
    records.push_back({files[i], std::move(dump)});
  }
  WEFT_TRY(const auto recordings, rehearsal::recordings_of_flight_records(records));
  Job job;
  for (std::size_t i = 0; i < files.size(); ++i) WEFT_CHECK(rehearsal::add_recording(job, files[i], recordings[i]));
  return job;
}

Result<Job> read(const std::vector<std::string>& files, const std::string& groups) {
  if (rehearsal::is_chakra(files.front())) return read_chakra(files, groups);
  if (!groups.empty()) return bad_input("--groups {}: is for Chakra traces (.et)", groups);
  WEFT_TRY(nlohmann::json dump, flight_record(files.front()));
  if (!dump.is_null()) return read_flight_records(files, std::move(dump));
  Job job;
  for (const std::string& file : files) {
    WEFT_TRY(const std::string text, read_text_file(file, kLargestRecording));
    WEFT_CHECK(rehearsal::add_recording(job, file, text));
  }
  return job;
}

Result<int> answer_on(const Job& job, rehearsal::Prices& prices, const std::string& machine, const std::string& json) {
  WEFT_TRY(const Answer answer, rehearsal::answer(job, prices));
  if (json != "-") print(job, answer, machine);
  if (!json.empty()) WEFT_CHECK(write_json(json, rehearsal::to_json(job, answer, machine)));
  return answer.outcome.findings.empty() ? 0 : kBadAnswer;
}

Result<int> rehearse(const Spec& spec) {
  if (spec.describe != spec.files.empty())
    return bad_input(
        "{}", spec.describe ? "--describe takes no recordings" : "which recordings? weftcomm rehearse makes them");
  WEFT_TRY(const Machine machine, load_machine(spec.on));
  WEFT_TRY(rehearsal::Prices prices, rehearsal::Prices::of(*machine.view, spec.faults));
  if (spec.describe) {
    const nlohmann::json said = {{"gpus", prices.gpus()},
                                 {"gpus_per_node", prices.gpus_per_node()},
                                 {"card", prices.card().name},
                                 {"memory", static_cast<std::int64_t>(prices.card().memory)}};
    WEFT_CHECK(write_json(spec.json.empty() ? "-" : spec.json, said));
    return 0;
  }
  WEFT_TRY(const Job job, read(spec.files, spec.groups));
  return answer_on(job, prices, machine.name, spec.json);
}

}  // namespace

Result<int> answer_recordings(const std::vector<std::string>& files, const std::string& on, const std::string& json,
                              const std::string& groups, const std::vector<std::string>& faults) {
  WEFT_TRY(const Job job, read(files, groups));
  if (on.empty()) return bad_input("{}: on which machine? --on dgx-h100 (weft catalog)", files.front());
  WEFT_TRY(const Machine machine, load_machine(on));
  WEFT_TRY(rehearsal::Prices prices, rehearsal::Prices::of(*machine.view, faults));
  return answer_on(job, prices, machine.name, json);
}

Command add_rehearse(CLI::App& app) {
  auto spec = std::make_shared<Spec>();
  CLI::App* sub =
      app.add_subcommand("rehearse", "Match and time the recorded ranks of a training script on a modelled machine");
  sub->add_option(
      "recordings", spec->files,
      "weft.rehearsal/1, a trace of torch.profiler (Kineto) or of Chakra (PREFIX.0.et), or a dump of PyTorch's "
      "flight recorder, one file per rank");
  sub->add_option("--groups", spec->groups, "members of the groups of Chakra traces, as ASTRA-sim's comm_group.json");
  sub->add_option("--on", spec->on, "the machine: a preset, a preset with options, or a file")->required();
  sub->add_option("--fault", spec->faults, "what is wrong with the machine, as for weft train: nic:3/2=down");
  sub->add_flag("--describe", spec->describe, "only say how many GPUs the machine has, per node, with how much memory");
  sub->add_option("--json", spec->json, "write weft.rehearsed/1 to this file; - is stdout instead of the text")
      ->check(writable);
  sub->footer(kExamples);
  return {sub, [spec] { return rehearse(*spec); }};
}

}  // namespace weft::cli
