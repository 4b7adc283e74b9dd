#include "schedule/verify/verify.h"
#include "base/text.h"
#include "cli/commands.h"
#include "collectives/registry.h"

namespace weft::cli {
namespace {

struct Spec {
  std::string collective, algorithm, json;
  std::int64_t ranks = 8, root = 0, per_node = 0, channel = 0;
  bool in_place = false, staged = false;
};

constexpr const char* kExamples = R"(
Runs the schedule symbolically on every rank: each chunk is the multiset of contributions it holds. Proved means: it ends
with the slots that connections have, every rank's result holds every contribution exactly once, and no two unordered
accesses touch the same memory. Otherwise the first counterexample names rank, step and chunk, and the exit code is 1.

Examples:
  weft verify all_reduce --algo ring --ranks 8
  weft verify all_reduce --algo tree --ranks 64 --per-node 8 --in-place
  weft verify broadcast --algo ring --ranks 5 --root 3 --json -
)";

Result<int> run(const Spec& spec) {
  WEFT_TRY(const Collective collective, schedule::parse_collective(spec.collective));
  std::string name = spec.algorithm;
  WEFT_TRY(const auto* algorithm, collectives::find_algorithm(collective, name));
  constexpr std::int64_t kMost = 1024;
  if (spec.ranks < 1 || spec.ranks > kMost) return bad_input("--ranks {} is outside 1 … {}", spec.ranks, kMost);
  if (spec.root < 0 || spec.root >= spec.ranks)
    return bad_input("--root {} is not one of {} ranks", spec.root, spec.ranks);
  if (spec.per_node < 0 || (spec.per_node > 0 && spec.ranks % spec.per_node != 0))
    return bad_input("--per-node {} does not divide {} ranks", spec.per_node, spec.ranks);
  if (spec.channel < 0 || spec.channel > 63) return bad_input("--channel {} is outside 0 … 63", spec.channel);
  const auto ranks = static_cast<Rank>(spec.ranks);
  const schedule::Schedule written =
      schedule::write_out(*algorithm, {.ranks = ranks,
                                       .root = static_cast<Rank>(spec.root),
                                       .ranks_per_node = spec.per_node > 0 ? static_cast<Rank>(spec.per_node) : ranks,
                                       .channel = static_cast<int>(spec.channel),
                                       .staged = spec.staged});
  const schedule::Proof proof = schedule::verify(written, {.in_place = spec.in_place});
  if (spec.json != "-") {
    if (proof.ok())
      fmt::print("proved: {} by {} on {} ranks{}: {} steps, {} messages, {} remote accesses\n", spec.collective,
                 algorithm->name, ranks, spec.in_place ? ", in place" : "", proof.steps, proof.messages,
                 proof.remote_accesses);
    else
      fmt::print("counterexample: {}\n", proof.counterexample->text);
  }
  if (!spec.json.empty()) {
    nlohmann::json json = {{"schema", "weft.verify/1"},    {"collective", spec.collective},
                           {"algorithm", algorithm->name}, {"ranks", ranks},
                           {"proved", proof.ok()},         {"steps", proof.steps},
                           {"messages", proof.messages},   {"remote_accesses", proof.remote_accesses}};
    if (const auto& f = proof.counterexample)
      json["counterexample"] = {{"kind", schedule::name(f->kind)},
                                {"rank", f->rank},
                                {"lane", f->lane},
                                {"step", f->step},
                                {"chunk", f->chunk},
                                {"peer", f->peer},
                                {"text", f->text}};
    WEFT_CHECK(write_json(spec.json, json));
  }
  return proof.ok() ? 0 : kBadAnswer;
}

}  // namespace

Command add_verify(CLI::App& app) {
  auto spec = std::make_shared<Spec>();
  CLI::App* sub = app.add_subcommand("verify", "Prove a schedule correct, or find the counterexample");
  sub->add_option("collective", spec->collective, "all_reduce, all_gather, reduce_scatter or broadcast")->required();
  sub->add_option("--algo", spec->algorithm, "the algorithm")->required();
  sub->add_option("--ranks,-n", spec->ranks, "how many ranks")->capture_default_str();
  sub->add_option("--root", spec->root, "broadcast's root")->capture_default_str();
  sub->add_option("--per-node", spec->per_node, "ranks per node (default: all on one)");
  sub->add_option("--channel", spec->channel, "which channel's copy of the schedule")->capture_default_str();
  sub->add_flag("--in-place", spec->in_place, "output and input are the same memory");
  sub->add_flag("--staged", spec->staged, "peers cannot reach the caller's buffers");
  sub->add_option("--json", spec->json, "write weft.verify/1 to this file; - is stdout instead of text");
  sub->footer(kExamples);
  return {sub, [spec] { return run(*spec); }};
}

}  // namespace weft::cli
