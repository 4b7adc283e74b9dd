#include "apps/cli/commands.h"
#include "apps/cli/common.h"
#include "apps/cli/schedule_source.h"
#include "apps/cli/some_bytes.h"
#include "base/counted.h"
#include "base/quantity.h"
#include "base/text.h"
#include "model/predict/predict.h"
#include "plan/cost/timetable.h"
#include "plan/schedule/exchange/msccl_xml.h"
#include "plan/schedule/exchange/schedule_json.h"
#include "plan/schedule/render/space_time.h"

namespace weft::cli {
namespace {

struct Spec {
  ScheduleSource source;
  std::string xml, json, svg, on, bytes = "1M";
  std::int64_t rank = -1;
};

constexpr const char* kExamples = R"(
Without --xml, --json or --svg: the steps of every rank. A file is read, not proved; weft verify proves it.

Examples:
  weft schedule all_reduce --algo ring --ranks 4
  weft schedule all_reduce --algo tree --ranks 8 --svg tree.svg          a space-time diagram
  weft schedule all_gather --algo pat --ranks 8 --xml pat.xml            MSCCL XML, for algorithms of messages only
  weft schedule all_reduce --algo nvls --ranks 4 --json nvls.json        weft.schedule/1, without loss
  weft schedule all_reduce --algo ring --ranks 8 --on groq-node --bytes 1M   when which link carries which chunk
  weft schedule allreduce.xml --rank 2                                   one rank's steps of a file
)";

std::string title_of(const schedule::Document& d) {
  const schedule::Shape& shape = d.schedule.shape;
  return fmt::format("{} by {}, {}{}", schedule::name(shape.collective), d.name, counted(shape.ranks, "rank"),
                     schedule::rooted(shape.collective) ? fmt::format(", root {}", shape.root) : "");
}

void print(const schedule::Document& d, std::int64_t only) {
  const schedule::Schedule& s = d.schedule;
  fmt::print("{}: {}, {}, {}\n", title_of(d), counted(s.shape.chunks, "chunk"), counted(s.scratch, "scratch slot"),
             counted(s.lanes, "lane"));
  auto order = s.orders.begin();
  for (std::size_t strand = 0; strand < s.strands.size(); ++strand) {
    const std::int64_t rank = static_cast<std::int64_t>(strand) / s.lanes,
                       lane = static_cast<std::int64_t>(strand) % s.lanes;
    const bool shown = (only < 0 || only == rank) && (s.lanes == 1 || !s.strands[strand].empty());
    if (shown) fmt::print("rank {}{}\n", rank, s.lanes == 1 ? "" : fmt::format(" lane {}", lane));
    for (std::size_t i = 0; i < s.strands[strand].size(); ++i) {
      std::string after;
      for (; order != s.orders.end() && order->strand == static_cast<std::int32_t>(strand) &&
             order->step == static_cast<std::int32_t>(i);
           ++order)
        after += fmt::format("{} {} of lane {}", after.empty() ? ", after step" : ",", order->after, order->lane);
      if (shown) fmt::print("  {:>3}  {}{}\n", i, to_string(s.strands[strand][i]), after);
    }
  }
}

// The schedule as a timetable of the machine's links, proved, beside its time where links arbitrate.
Result<int> print_timetable(const Spec& spec, const schedule::Document& document) {
  if (!spec.xml.empty() || !spec.json.empty() || !spec.svg.empty())
    return bad_input("--on {}: makes a timetable; --xml, --json and --svg go without it", spec.on);
  WEFT_TRY(const Bytes bytes, some_bytes("--bytes", spec.bytes));
  if (bytes < 1) return bad_input("--bytes {}: at least 1", spec.bytes);
  WEFT_TRY(const Machine machine, load_machine(spec.on));
  const schedule::Shape& shape = document.schedule.shape;
  if (shape.ranks > machine.view->endpoints())
    return bad_input("--ranks {}: {} has {} chips", shape.ranks, machine.name, machine.view->endpoints());
  const Bytes chunk = (bytes + shape.chunks - 1) / shape.chunks;
  WEFT_TRY(const cost::Timetable table, cost::compile_timetable(*machine.view, document.schedule, chunk));
  const std::string wrong = cost::violation(*machine.view, table);
  fmt::print("# timetable of {}, {} in chunks of {}, on {}: {} of {} ({} B each)\n", title_of(document),
             format_bytes(bytes), format_bytes(chunk), machine.name, counted(table.slots, "slot"),
             format_duration(table.slot), table.vector);
  for (const cost::TimedMessage& m : table.messages)
    if (spec.rank < 0 || m.from == spec.rank || m.to == spec.rank)
      fmt::print("  slots {:>7} to {:>7}  chunk {:>4}  rank {} -> {}{}\n", m.left, m.there, m.chunk, m.from, m.to,
                 m.left > m.ready
                     ? fmt::format("  ({} after its data: the links are taken)", counted(m.left - m.ready, "slot"))
                     : "");
  fmt::print("# {}\n", wrong.empty() ? fmt::format("proved: no two of {} meet on a link",
                                                   counted(table.messages.size(), "message"))
                                     : "NOT proved: " + wrong);
  fmt::print("# without arbitration {}; the busiest link carries vectors in {:.0f} % of the slots\n",
             format_duration(table.time()), table.busiest * 100);
  if (!spec.source.is_file()) {
    predict::Query query{
        .question = {.task = task_of(shape.collective, shape.ranks, shape.ranks, bytes, DataType::kFloat32),
                     .can = capabilities_of(machine),
                     .algorithm = document.name,
                     .protocol = "Simple",
                     .channels = 1}};
    WEFT_TRY(const predict::Answer answer, predict::predict(*machine.view, query));
    fmt::print("# with arbitrated links, the same messages by Simple on one channel: {}, {:.2f} times as long\n",
               format_duration(answer.outcome.time), answer.outcome.time / table.time());
  }
  return wrong.empty() ? 0 : kBadAnswer;
}

Result<int> run(const Spec& spec) {
  WEFT_TRY(const schedule::Document document, spec.source.load());
  if (spec.rank >= document.schedule.shape.ranks)
    return bad_input("--rank {}: there are {}", spec.rank, counted(document.schedule.shape.ranks, "rank"));
  if (!spec.on.empty()) return print_timetable(spec, document);
  if (spec.bytes != "1M") return bad_input("--bytes {}: goes with --on MACHINE", spec.bytes);
  if (!spec.xml.empty()) {
    WEFT_TRY(const std::string text, schedule::to_msccl_xml(document));
    WEFT_CHECK(write_text(spec.xml, text));
  }
  if (!spec.json.empty()) WEFT_CHECK(write_text(spec.json, schedule::to_schedule_json(document)));
  if (!spec.svg.empty()) {
    WEFT_TRY(const std::string text, schedule::space_time_svg(document.schedule, title_of(document)));
    WEFT_CHECK(write_text(spec.svg, text));
  }
  if (spec.xml.empty() && spec.json.empty() && spec.svg.empty()) print(document, spec.rank);
  return 0;
}

Result<nlohmann::json> answer(const Spec& spec) {
  WEFT_TRY(const schedule::Document document, spec.source.load());
  return nlohmann::json::parse(schedule::to_schedule_json(document));
}

Result<std::string> picture(const Spec& spec) {
  WEFT_TRY(const schedule::Document document, spec.source.load());
  return schedule::space_time_svg(document.schedule, title_of(document));
}

}  // namespace

Command add_schedule(CLI::App& app) {
  auto spec = std::make_shared<Spec>();
  CLI::App* sub = app.add_subcommand("schedule", "Show a schedule: steps, picture, or file");
  spec->source.add_options(*sub);
  sub->add_option("--rank", spec->rank, "only this rank's steps");
  sub->add_option("--on", spec->on,
                  "the timetable of this machine's links, as compilers make it for Groq's: slots, proved, compared");
  sub->add_option("--bytes", spec->bytes, "with --on: the message")->capture_default_str();
  sub->add_option("--xml", spec->xml, "write MSCCL XML to this file; - is stdout")->check(writable);
  sub->add_option("--json", spec->json, "write weft.schedule/1 to this file; - is stdout")->check(writable);
  sub->add_option("--svg", spec->svg, "draw a space-time diagram into this file")->check(writable);
  sub->footer(kExamples);
  return {sub, [spec] { return run(*spec); }, [spec] { return answer(*spec); }, [spec] { return picture(*spec); }};
}

}  // namespace weft::cli
