#include "explore/explore.h"
#include "base/output_file.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/serve_page.h"

namespace weft::cli {
namespace {

struct Spec {
  std::string collective = "all_reduce", on = "dgx-h100", bytes = "1M", type = "float", algorithm, protocol, out, json;
  std::int64_t ranks = -1, root = 0;
};

constexpr const char* kExamples = R"(
A page for a browser: the machine with the rate of every link, the chunks of the schedule moving between ranks in
simulated time, and every candidate's bus bandwidth against size. Without --out or --json the page is served on
127.0.0.1 until Ctrl-C; --out writes it as one file that needs neither server nor network.

Examples:
  weft explore                                                          all_reduce of 1 MiB on a DGX H100
  weft explore all_gather --on dgx-h100 --algo pat --out pat.html
  weft explore all_reduce --on two-pcie-cards --bytes 64M --out box.html
  weft explore all_reduce --on dgx-h100 --algo mine.json                a schedule of your own
  weft explore --json -                                                 what the page shows, as weft.explorer/1
)";

Result<int> run(const Spec& spec) {
  WEFT_TRY(const Collective collective, schedule::parse_collective(spec.collective));
  WEFT_TRY(const DataType type, parse_type(spec.type));
  WEFT_TRY(const Bytes bytes, parse_message("--bytes", spec.bytes));
  if (!spec.out.empty() && spec.out != "-") WEFT_CHECK(check_writable(spec.out));
  WEFT_TRY(const Machine machine, load_machine(spec.on));
  if (!machine.simulated) return bad_input("explore shows modelled machines: --on needs a preset or a file");
  WEFT_TRY(const Rank ranks, ranks_on(machine, spec.ranks));
  if (spec.root < 0 || spec.root >= ranks) return bad_input("--root {} is not one of {} ranks", spec.root, ranks);
  schedule::Task task = task_of(collective, ranks, machine.view->ranks_per_node(ranks), bytes, type);
  task.root = static_cast<Rank>(spec.root);
  WEFT_TRY(const report::Explorer report,
           explore::answer(*machine.view, {machine.name, task, spec.algorithm, spec.protocol}));
  if (!spec.json.empty()) WEFT_CHECK(write_json(spec.json, to_json(report)));
  if (!spec.out.empty()) WEFT_CHECK(write_text(spec.out, explore::page(report)));
  if (spec.json == "-" || spec.out == "-") return report.proved ? 0 : kBadAnswer;
  fmt::print("{}: {}\n", report.question, report.answer);
  if (!spec.out.empty()) fmt::print("written: {}\n", spec.out);
  std::fflush(stdout);
  if (spec.out.empty() && spec.json.empty())
    WEFT_CHECK(serve_page(explore::page(report), [](const std::string& url) {
      fmt::print("open {} in a browser; Ctrl-C ends\n", url);
      std::fflush(stdout);
    }));
  return report.proved ? 0 : kBadAnswer;
}

}  // namespace

Command add_explore(CLI::App& app) {
  auto spec = std::make_shared<Spec>();
  CLI::App* sub = app.add_subcommand("explore", "Show a machine, a schedule in motion and the choice in a browser");
  sub->add_option("collective", spec->collective, "all_reduce, broadcast, … (weft algorithms lists them)")
      ->capture_default_str();
  sub->add_option("--on", spec->on, "the machine: a preset, a preset with options, or a file")->capture_default_str();
  sub->add_option("--ranks,-n", spec->ranks, "ranks (default: every GPU of the machine; at most 64)");
  sub->add_option("--bytes", spec->bytes, "message size")->capture_default_str();
  sub->add_option("--dtype", spec->type, schedule::type_names(", "))->capture_default_str();
  sub->add_option("--root", spec->root, "rank that a rooted collective comes from or goes to")->capture_default_str();
  sub->add_option("--algo", spec->algorithm, "only this algorithm, or this file's schedule");
  sub->add_option("--proto", spec->protocol, "only this protocol");
  sub->add_option("--out", spec->out, "write the page to this file instead of serving it; - is stdout");
  sub->add_option("--json", spec->json, "write weft.explorer/1 to this file; - is stdout");
  sub->footer(kExamples);
  return {sub, [spec] { return run(*spec); }};
}

}  // namespace weft::cli
