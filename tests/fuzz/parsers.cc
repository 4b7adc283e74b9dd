#include "tests/fuzz/parsers.h"

#include <cstdio>
#include <cstdlib>

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "apps/doctor/evidence.h"
#include "apps/serving/requests.h"
#include "apps/serving/shape.h"
#include "apps/training/compare.h"
#include "apps/training/model.h"
#include "base/embedded.h"
#include "base/job_text.h"
#include "base/packed_text.h"
#include "exec/recorder/timeline.h"
#include "machine/detect/host_facts.h"
#include "machine/import/hostlist.h"
#include "machine/import/ibnetdiscover.h"
#include "machine/import/lstopo.h"
#include "machine/import/machine_file.h"
#include "machine/import/nccl_graph.h"
#include "machine/import/nccl_xml.h"
#include "machine/import/node_labels.h"
#include "machine/import/nvidia_smi.h"
#include "machine/import/rocm_smi.h"
#include "machine/import/slurm.h"
#include "machine/machine.h"
#include "machine/topology_json.h"
#include "model/accuracy/measured.h"
#include "move/kv/model.h"
#include "move/kv/replay.h"
#include "move/reshard/layout_json.h"
#include "onesided/pgas/trace.h"
#include "plan/protocol/hop_costs.h"
#include "plan/schedule/exchange/msccl_xml.h"
#include "plan/schedule/exchange/mscclpp_read.h"
#include "plan/schedule/exchange/schedule_json.h"
#include "plan/schedule/render/space_time.h"
#include "tests/fuzz/peers.h"
#include "tests/fuzz/stores.h"

namespace weft::fuzz {
namespace {

using namespace topology;

const Catalog& catalog() {
  static const Catalog loaded = *Catalog::load(embedded::files());
  return loaded;
}

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "broken promise: %s\n", what);
  std::abort();
}

void check(const Result<Topology>& machine) {
  if (!machine) return require(!machine.error().message.empty(), "an error says something");
  require(machine->validate().has_value(), "what a parser accepts is valid");
  // Whatever was read can be written and read again.
  const auto again = from_json("again", to_json(*machine));
  require(again.has_value(), "JSON reads what JSON wrote");
}

void check(const Result<schedule::Document>& read) {
  if (!read) return require(!read.error().message.empty(), "an error says something");
  require(schedule::check(read->schedule).has_value(), "what a parser accepts is a schedule");
  // Whatever was read can be proved or refuted, drawn, written and read again.
  const schedule::Proof proof = schedule::prove(*read);
  require(proof.ok() || !schedule::locate(*read, "f", *proof.counterexample).empty(), "a finding says something");
  (void)schedule::space_time_svg(read->schedule, read->name);
  const auto again = schedule::parse_schedule_json("again", schedule::to_schedule_json(*read));
  require(again.has_value() && again->schedule == read->schedule, "JSON reads what JSON wrote");
  if (!proof.ok()) return;
  if (const auto xml = schedule::to_msccl_xml(*read)) {
    const auto copy = schedule::parse_msccl_xml("copy", *xml);
    require(!copy || schedule::prove(*copy).ok(), "what was proved and written as XML is proved again");
  }
}

void check_trace(std::string_view text) {
  const auto read = pgas::parse_trace("f", text);
  if (!read) return require(!read.error().message.empty(), "an error says something");
  std::string written = pgas::heading(read->rank, read->ranks);
  for (const pgas::Event& e : read->events) written += pgas::to_line(e);
  const auto again = pgas::parse_trace("again", written);
  require(again.has_value() && again->events == read->events, "a trace reads what a trace wrote");
}

void check_kv_trace(std::string_view text) {
  const auto trace = kv::parse_trace(text, "f");
  if (!trace) return require(!trace.error().message.empty(), "an error says something");
  const auto best = kv::replay(*trace, 3, kv::Policy::kClairvoyant);
  for (const kv::Policy policy : kv::kPolicies)
    require(kv::replay(*trace, 3, policy).blocks == best.blocks, "every policy sees all blocks");
}

// What is accepted is written and read again as it was.
void check_layout(std::string_view text) {
  const auto layout = reshard::parse_layout("f", text);
  if (!layout) return require(!layout.error().message.empty(), "an error says something");
  const auto again = reshard::parse_layout("again", reshard::to_json(*layout).dump());
  require(again.has_value() && again->tensors == layout->tensors && again->meshes == layout->meshes,
          "JSON reads what JSON wrote");
}

void check_kv_model(std::string_view text) {
  const auto model = kv::parse_model(text, "f");
  require(model ? model->token_bytes() + model->state_bytes(1) >= 0 : !model.error().message.empty(),
          "a size, or an error that says something");
}

void check_measured(std::string_view text) {
  const auto table = accuracy::parse_table("f", text, {.name = "f", .machine = "dgx-h100"});
  if (!table) return require(!table.error().message.empty(), "an error says something");
  for (const accuracy::Point& p : table->points) require(p.bytes >= 0 && p.time >= Duration(), "sizes and times");
}

void check_calibration(std::string_view text) {
  const auto costs = protocol::HopCosts::calibrated(protocol::HopCosts::Endpoint::kGpu, {}, "f", text);
  require(costs || !costs.error().message.empty(), "an error says something");
}

// What reads files reads this one, which has no name.
class Unnamed {
 public:
  explicit Unnamed(std::string_view text) : fd_(memfd_create("weft-fuzz", MFD_CLOEXEC)) {
    require(fd_ >= 0 && write(fd_, text.data(), text.size()) == static_cast<ssize_t>(text.size()), "a file");
  }
  ~Unnamed() { close(fd_); }
  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_); }

 private:
  int fd_;
};

void check_timeline(std::string_view text) {
  const Unnamed file(text);
  const auto timeline = recorder::merge_traces({file.path()});
  require(timeline || !timeline.error().message.empty(), "an error says something");
}

void check_tables(std::string_view text) {
  static const std::filesystem::path folder = [] {
    const auto made = std::filesystem::temp_directory_path() / ("weft-fuzz-" + std::to_string(getpid()));
    std::filesystem::create_directories(made);
    std::ofstream(made / "a.csv") << "# 8 GPUs\nsize_bytes,time_us\n1024,5\n";
    std::atexit([] {
      std::error_code ignored;
      std::filesystem::remove_all(std::filesystem::temp_directory_path() / ("weft-fuzz-" + std::to_string(getpid())),
                                  ignored);
    });
    return made;
  }();
  std::ofstream(folder / "tables.json", std::ios::binary) << text;
  std::vector<std::string> unknown;
  const auto tables = accuracy::tables_of(folder, unknown);
  require(tables || !tables.error().message.empty(), "an error says something");
}

void check_evidence(std::string_view text) {
  static const auto rules = *doctor::shipped_rules();
  doctor::Evidence evidence(rules);
  evidence.add_text("f", text);
  evidence.finish();
  for (const doctor::Fact& fact : evidence.facts()) require(fact.rule < rules.size(), "facts are of rules");
}

// A file of its own: logs, pickles and dumps differ by their contents.
void check_dump(std::string_view text) {
  static const auto rules = *doctor::shipped_rules();
  const Unnamed file(text);
  doctor::Evidence evidence(rules);
  const Status read = evidence.add_path(file.path());
  require(read || !read.error().message.empty(), "an error says something");
  evidence.finish();
  for (const doctor::Fact& fact : evidence.facts()) require(fact.rule < rules.size(), "facts are of rules");
}

void check_job_text(std::string_view text) {
  const std::string plain = plain_text(std::string(text));
  const std::string bare = without_prefixes(plain);
  require(std::ranges::count(bare, '\n') == std::ranges::count(plain, '\n'), "lines keep their numbers");
  for (std::string_view rest = plain; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    const JobLine job = strip_launcher(line);
    require(job.text.size() <= line.size(), "a line without its prefix is no longer");
  }
}

void check_packed_text(std::string_view bytes) {
  constexpr std::uintmax_t kMost = 1 << 20;
  const auto text = unpacked("f", std::string(bytes), kMost);
  if (!text) return require(!text.error().message.empty(), "an error says something");
  require(text->size() <= std::max<std::uintmax_t>(kMost, 3 * bytes.size()), "no more than asked for");
}

void check_steps(std::string_view text) {
  const auto compared = training::compare_text("f", text);
  require(compared || !compared.error().message.empty(), "an error says something");
}

void check_serving(std::string_view text) {
  const auto shape = serving::parse_shape("f", text);
  require(!shape || (shape->parameters >= 0 && shape->active_parameters >= 0), "counts");
  require(shape || !shape.error().message.empty(), "an error says something");
  const auto trace = serving::parse_trace("f", std::string(text), 1);
  require(trace ? !trace->requests.empty() : !trace.error().message.empty(),
          "a trace has requests, an error says something");
}

void check_training(std::string_view text) {
  const auto model = training::parse_model("f", text);
  if (!model) return require(!model.error().message.empty(), "an error says something");
  require(model->parameters() >= 0 && model->active_parameters() >= 0, "counts");
}

}  // namespace

const std::vector<Parser>& parsers() {
  static const std::vector<Parser> readers = {
      {"nccl_xml", [](std::string_view t) { check(parse_nccl_xml(catalog(), "f", t)); }},
      {"nccl_graph", [](std::string_view t) { check(machine_of_graphs(catalog(), "f", t)); }},
      {"nvidia_smi", [](std::string_view t) { check(parse_nvidia_smi(catalog(), "f", t)); }},
      {"rocm_smi", [](std::string_view t) { check(parse_rocm_smi(catalog(), "f", t)); }},
      {"slurm",
       [](std::string_view t) { require(!parse_slurm("f", t) || !parse_slurm("f", t)->hosts.empty(), "hosts"); }},
      {"slurm_yaml",
       [](std::string_view t) {
         require(!parse_slurm_yaml("f", t) || !parse_slurm_yaml("f", t)->hosts.empty(), "hosts");
       }},
      {"ibnetdiscover",
       [](std::string_view t) {
         require(!parse_ibnetdiscover("f", t) || !parse_ibnetdiscover("f", t)->tree.hosts.empty(), "hosts");
       }},
      {"lstopo", [](std::string_view t) { check(parse_lstopo(catalog(), "f", t)); }},
      {"node_labels",
       [](std::string_view t) {
         if (is_node_labels(t))
           require(!parse_node_labels("f", t) || !parse_node_labels("f", t)->hosts.empty(), "hosts");
       }},
      {"weft_json", [](std::string_view t) { check(from_json("f", t)); }},
      {"hostlist", [](std::string_view t) { (void)expand_hostlist(t); }},
      {"machine",  // the text after --on; files are not opened for it
       [](std::string_view t) {
         if (t.find('/') == std::string_view::npos && t.find('.') == std::string_view::npos && t.size() < 48 &&
             t.find("nodes") == std::string_view::npos && t.find("shape") == std::string_view::npos)
           check(load_machine(t));
       }},
      {"msccl_xml", [](std::string_view t) { check(schedule::parse_msccl_xml("f", t)); }},
      {"mscclpp", [](std::string_view t) { check(schedule::parse_mscclpp("f", t)); }},
      {"job_text", [](std::string_view t) { check_job_text(t); }},
      {"packed_text", [](std::string_view t) { check_packed_text(t); }},
      {"layout", [](std::string_view t) { check_layout(t); }},
      {"schedule_json", [](std::string_view t) { check(schedule::parse_schedule_json("f", t)); }},
      {"pgas_trace", [](std::string_view t) { check_trace(t); }},
      {"kv_trace", [](std::string_view t) { check_kv_trace(t); }},
      {"kv_model", [](std::string_view t) { check_kv_model(t); }},
      {"kv_bytes", check_kv_bytes},
      {"kv_questions", check_kv_questions},
      {"kv_answers", check_kv_answers},
      {"measured", [](std::string_view t) { check_measured(t); }},
      {"calibration", [](std::string_view t) { check_calibration(t); }},
      {"timeline", [](std::string_view t) { check_timeline(t); }},
      {"tables", [](std::string_view t) { check_tables(t); }},
      {"doctor", [](std::string_view t) { check_evidence(t); }},
      {"training", [](std::string_view t) { check_training(t); }},
      {"serving", [](std::string_view t) { check_serving(t); }},
      {"dump", [](std::string_view t) { check_dump(t); }},
      {"steps", [](std::string_view t) { check_steps(t); }},
      {"host_facts", [](std::string_view t) { (void)host_facts_from_json("f", t); }},
  };
  static const std::vector<Parser> all = [] {
    std::vector<Parser> both = readers;
    both.insert(both.end(), peer_parsers().begin(), peer_parsers().end());
    return both;
  }();
  return all;
}

}  // namespace weft::fuzz
