#include "apps/explore/explore.h"

#include "apps/cli/commands.h"
#include "apps/cli/serve_page.h"
#include "apps/explore/ask.h"
#include "base/env.h"
#include "base/output_file.h"
#include "base/text.h"
#include "machine/detect/record.h"

namespace weft::cli {
namespace {

struct Spec {
  explore::Words words;
  bool alone = true;  // no word of the question was given: the page begins where a newcomer does
  std::string out, json;
};

constexpr const char* kExamples = R"(
A page for a browser: the machine with the rate of every link, the chunks of the schedule moving between ranks in
simulated time, and every candidate's bus bandwidth against size. Without --out or --json the page is served on
127.0.0.1 until Ctrl-C; --out writes it as one file that needs neither server nor network.

Examples:
  weft explore                                                          a ring on four GPUs, chunk by chunk
  weft explore all_gather --on dgx-h100 --algo pat --out pat.html
  weft explore all_reduce --on pcie-2x4090 --bytes 64M --out box.html
  weft explore all_reduce --on dgx-h100 --algo mine.json                a schedule of your own
  weft explore all_reduce --on dgx-h100:nodes=2 --fault nic:0/3=down    what a dead NIC changes
  weft explore --on dgx-h100:nodes=128,net=ib-ndr --algo ring --chunk 5     one chunk on its way through 1,024 ranks
  weft explore --json -                                                 what the page shows, as weft.explorer/1
)";

// Four GPUs, a ring, a size whose slices are seen: what a newcomer sees first.
explore::Words first_words() {
  explore::Words words;
  words.on = "pcie-4x3090";
  words.algorithm = "ring";
  words.protocol = "Simple";
  return words;
}

Result<int> run(const Spec& spec) {
  if (!spec.out.empty() && spec.out != "-") WEFT_CHECK(check_writable(spec.out));
  WEFT_TRY(const env::Settings settings, env::read());
  WEFT_TRY(const report::Explorer report,
           explore::answer(spec.alone ? first_words() : spec.words, settings.calibration, topology::read_recorded));
  if (!spec.json.empty()) WEFT_CHECK(write_json(spec.json, to_json(report)));
  if (!spec.out.empty()) WEFT_CHECK(write_text(spec.out, explore::page(report)));
  if (spec.json == "-" || spec.out == "-") return report.proved || (!report.played && !report.wrong) ? 0 : kBadAnswer;
  fmt::print("{}: {}\n", report.question, report.answer);
  if (!spec.out.empty()) fmt::print("written: {}\n", spec.out);
  std::fflush(stdout);
  if (spec.out.empty() && spec.json.empty())
    WEFT_CHECK(serve_page(explore::page(report), [](const std::string& url) {
      fmt::print("open {} in a browser; Ctrl-C ends\n", url);
      std::fflush(stdout);
    }));
  return report.proved || (!report.played && !report.wrong) ? 0 : kBadAnswer;
}

}  // namespace

Command add_explore(CLI::App& app) {
  auto spec = std::make_shared<Spec>();
  CLI::App* sub = app.add_subcommand("explore", "Show a machine, a schedule in motion and the choice in a browser");
  sub->add_option("collective", spec->words.collective, "all_reduce, broadcast, … (weft algorithms lists them)")
      ->capture_default_str();
  sub->add_option("--on", spec->words.on, "the machine: a preset, a preset with options, or a file")
      ->capture_default_str();
  sub->add_option("--ranks,-n", spec->words.ranks, "ranks (default: every GPU of the machine)");
  sub->add_option("--chunk", spec->words.chunk,
                  "the chunk that the stepper follows beyond 64 ranks (default: the first)");
  sub->add_option("--bytes", spec->words.bytes, "message size")->capture_default_str();
  sub->add_option("--dtype", spec->words.type, schedule::type_names(", "))->capture_default_str();
  sub->add_option("--root", spec->words.root, "rank that a rooted collective comes from or goes to")
      ->capture_default_str();
  sub->add_option("--algo", spec->words.algorithm, "only this algorithm, or this file's schedule");
  sub->add_option("--proto", spec->words.protocol, "only this protocol");
  sub->add_option("--fault", spec->words.faults,
                  "what is broken, as in bench; may be given several times (docs/simulation.md)");
  sub->add_option("--out", spec->out, "write the page to this file instead of serving it; - is stdout")
      ->check(writable);
  sub->add_option("--json", spec->json, "write weft.explorer/1 to this file; - is stdout")->check(writable);
  sub->footer(kExamples);
  return {sub, [spec, sub] {
            for (const CLI::Option* option : sub->get_options())
              if (option->count() > 0 && option->get_name() != "--out" && option->get_name() != "--json")
                spec->alone = false;
            return run(*spec);
          }};
}

}  // namespace weft::cli
