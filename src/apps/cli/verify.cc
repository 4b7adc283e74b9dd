#include "apps/cli/verify.h"

#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <climits>
#include <fstream>
#include <optional>

#include "apps/cli/commands.h"
#include "apps/cli/schedule_source.h"
#include "base/counted.h"

namespace weft::cli {
namespace {

struct Spec {
  ScheduleSource source;
  std::string json, ranks = "8";
  std::optional<std::string> active;
  bool in_place = false, all = false;
  std::optional<std::int64_t> slots;
};

constexpr const char* kExamples = R"(
Runs the schedule symbolically on every rank: each chunk is the multiset of contributions it holds. Proved means: it ends
with the slots that connections have, every rank's result holds every contribution exactly once, and no two unordered
accesses touch the same memory. Otherwise the first counterexample names rank, step and chunk, and the exit code is 1.
A file is proved in every way it says it may be called; its slots are 2, and 8 for MSCCL's LL and LL128. A proof that
needs more than 4 GiB of memory or 600 s of processor time is given up: exit code 2.

Examples:
  weft verify all_reduce --algo ring --ranks 8
  weft verify all_reduce --algo tree --ranks 64 --per-node 8 --in-place
  weft verify broadcast --algo ring --ranks 5 --root 3 --json -
  weft verify allreduce_ring.xml                     MSCCL XML, or weft.schedule/1 as .json
  weft verify all_reduce --ranks 8 --per-node 4 --active 0-2,4-7     every algorithm on seven ranks of two nodes
  weft verify all_gather --ranks 8 --per-node 4 --active all         … on every mask of active ranks
  weft verify --all --ranks 1..17                    every algorithm, every root, in place and not, staged and not
)";

// A proof grows with ranks, chunks and contributions. These limits end the command with a line: the one on memory
// by std::bad_alloc, which main() reports, the one on time by a signal.
constexpr rlim_t kMostMemory = rlim_t{4} << 30, kMostSeconds = 600;
constexpr char kTooLong[] = "weft: verify: the proof takes more than 600 s of processor time; take fewer ranks\n";

void bound_this_process() {
  long pages = 0, data = 0;
  std::ifstream memory("/proc/self/statm");
  for (int field = 0; field < 6 && memory >> pages; ++field) data = pages;
  const rlim_t used = static_cast<rlim_t>(data) * static_cast<rlim_t>(sysconf(_SC_PAGESIZE));
  rlimit limit{};
  if (getrlimit(RLIMIT_DATA, &limit) == 0) {
    limit.rlim_cur = std::min(limit.rlim_cur, used + kMostMemory);
    setrlimit(RLIMIT_DATA, &limit);
  }
  signal(SIGXCPU, [](int) {
    (void)!write(STDERR_FILENO, kTooLong, sizeof kTooLong - 1);
    _exit(kBadInput);
  });
  if (getrlimit(RLIMIT_CPU, &limit) == 0) {
    limit.rlim_cur = std::min(limit.rlim_cur, kMostSeconds);
    setrlimit(RLIMIT_CPU, &limit);
  }
}

void print(const Spec& spec, const schedule::Document& d, const schedule::Proof& proof) {
  const schedule::Shape& shape = d.schedule.shape;
  if (!proof.ok()) {
    fmt::print("counterexample: {}\n", spec.source.is_file()
                                           ? schedule::locate(d, spec.source.what, *proof.counterexample)
                                           : proof.counterexample->text);
    return;
  }
  const char* place = d.in_place && d.out_of_place ? ", in place and not" : d.in_place ? ", in place" : "";
  fmt::print("proved: {} by {} on {}{}: {}, {}, {}\n", schedule::name(shape.collective), d.name,
             counted(shape.ranks, "rank"), place, counted(proof.steps, "step"), counted(proof.messages, "message"),
             counted(proof.remote_accesses, "remote access"));
}

Result<schedule::Document> load(const Spec& spec) {
  ScheduleSource source = spec.source;
  if (!CLI::detail::lexical_cast(spec.ranks, source.ranks))
    return bad_input("--ranks {}: a number is expected; ranges go with --all", spec.ranks);
  WEFT_TRY(schedule::Document document, source.load());
  if (!source.is_file()) document.in_place = spec.in_place, document.out_of_place = !spec.in_place;
  if (source.is_file() && spec.in_place) return bad_input("{} says itself whether it works in place", source.what);
  if (spec.slots) {
    if (*spec.slots < 1 || *spec.slots > 1024) return bad_input("--slots {} is outside 1 … 1024", *spec.slots);
    document.slots = static_cast<int>(*spec.slots);
  }
  return document;
}

nlohmann::json to_json(const Spec& spec, const schedule::Document& document, const schedule::Proof& proof) {
  nlohmann::json json = {
      {"schema", "weft.verify/1"},  {"collective", schedule::name(document.schedule.shape.collective)},
      {"algorithm", document.name}, {"ranks", document.schedule.shape.ranks},
      {"proved", proof.ok()},       {"steps", proof.steps},
      {"messages", proof.messages}, {"remote_accesses", proof.remote_accesses}};
  if (spec.source.is_file()) json["file"] = spec.source.what;
  if (const auto& f = proof.counterexample)
    json["counterexample"] = {{"kind", schedule::name(f->kind)},
                              {"rank", f->rank},
                              {"lane", f->lane},
                              {"step", f->step},
                              {"chunk", f->chunk},
                              {"peer", f->peer},
                              {"text", f->text}};
  return json;
}

Result<int> run(const Spec& spec) {
  bound_this_process();
  if (spec.all) {
    if (spec.active) return bad_input("--all proves every algorithm on all ranks; it goes without --active");
    if (!spec.source.what.empty() || !spec.source.algorithm.empty())
      return bad_input("--all proves every algorithm; it goes without a collective and --algo");
    return verify_all(spec.ranks, spec.json);
  }
  if (spec.active) {
    std::int64_t ranks = 0;
    if (!CLI::detail::lexical_cast(spec.ranks, ranks)) return bad_input("--ranks {}: a number is expected", spec.ranks);
    if (spec.in_place || spec.slots || spec.source.staged || spec.source.root != 0 || spec.source.channel != 0)
      return bad_input(
          "--active proves every root, in place and not, staged and not: without --root, --in-place, "
          "--staged, --slots and --channel");
    return verify_masks(spec.source, static_cast<Rank>(std::clamp<std::int64_t>(ranks, 0, INT_MAX)), *spec.active,
                        spec.json);
  }
  WEFT_TRY(const schedule::Document document, load(spec));
  if (spec.source.root != 0 && !schedule::rooted(document.schedule.shape.collective))
    return bad_input("--root {}: {} has no root", spec.source.root, schedule::name(document.schedule.shape.collective));
  const schedule::Proof proof = schedule::prove(document);
  if (spec.json != "-") print(spec, document, proof);
  if (!spec.json.empty()) WEFT_CHECK(write_json(spec.json, to_json(spec, document, proof)));
  return proof.ok() ? 0 : kBadAnswer;
}

Result<nlohmann::json> answer(const Spec& spec) {
  if (spec.all || spec.active)
    return bad_input("verify --all and --active: only one schedule has an answer without printing");
  WEFT_TRY(const schedule::Document document, load(spec));
  return to_json(spec, document, schedule::prove(document));
}

}  // namespace

Command add_verify(CLI::App& app) {
  auto spec = std::make_shared<Spec>();
  CLI::App* sub = app.add_subcommand("verify", "Prove a schedule correct, or find the counterexample");
  spec->source.add_options(*sub);
  sub->remove_option(sub->get_option("--ranks"));
  sub->add_option("--ranks,-n", spec->ranks, "how many ranks; with --all a range like 1..17")->capture_default_str();
  sub->add_flag("--in-place", spec->in_place, "output and input are the same memory");
  sub->add_option("--slots", spec->slots, "messages that a connection holds (default: 2, or the file's)");
  sub->add_flag("--all", spec->all, "every registered algorithm");
  sub->add_option("--active", spec->active,
                  "only these ranks take part, as in 0,2-7; all: every mask of the ranks, once per class of masks");
  sub->add_option("--json", spec->json, "write weft.verify/1 (--all: weft.verify_all/1) to this file; - is stdout")
      ->check(writable);
  sub->footer(kExamples);
  return {sub, [spec] { return run(*spec); }, [spec] { return answer(*spec); }};
}

}  // namespace weft::cli
