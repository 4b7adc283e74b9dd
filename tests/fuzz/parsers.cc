#include "tests/fuzz/parsers.h"

#include <cstdio>
#include <cstdlib>

#include "base/embedded.h"
#include "kv/model.h"
#include "kv/replay.h"
#include "pgas/trace.h"
#include "schedule/exchange/msccl_xml.h"
#include "schedule/exchange/schedule_json.h"
#include "schedule/render/space_time.h"
#include "topology/detect/host_facts.h"
#include "topology/import/hostlist.h"
#include "topology/import/ibnetdiscover.h"
#include "topology/import/machine_file.h"
#include "topology/import/nccl_graph.h"
#include "topology/import/nccl_xml.h"
#include "topology/import/nvidia_smi.h"
#include "topology/import/rocm_smi.h"
#include "topology/import/slurm.h"
#include "topology/machine.h"
#include "topology/topology_json.h"

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

void check_kv_model(std::string_view text) {
  const auto model = kv::parse_model(text, "f");
  require(model ? model->token_bytes() > 0 : !model.error().message.empty(), "a size, or an error that says something");
}

}  // namespace

const std::vector<Parser>& parsers() {
  static const std::vector<Parser> all = {
      {"nccl_xml", [](std::string_view t) { check(parse_nccl_xml(catalog(), "f", t)); }},
      {"nccl_graph", [](std::string_view t) { check(machine_of_graphs(catalog(), "f", t)); }},
      {"nvidia_smi", [](std::string_view t) { check(parse_nvidia_smi(catalog(), "f", t)); }},
      {"rocm_smi", [](std::string_view t) { check(parse_rocm_smi(catalog(), "f", t)); }},
      {"slurm",
       [](std::string_view t) { require(!parse_slurm("f", t) || !parse_slurm("f", t)->hosts.empty(), "hosts"); }},
      {"ibnetdiscover",
       [](std::string_view t) {
         require(!parse_ibnetdiscover("f", t) || !parse_ibnetdiscover("f", t)->tree.hosts.empty(), "hosts");
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
      {"schedule_json", [](std::string_view t) { check(schedule::parse_schedule_json("f", t)); }},
      {"pgas_trace", [](std::string_view t) { check_trace(t); }},
      {"kv_trace", [](std::string_view t) { check_kv_trace(t); }},
      {"kv_model", [](std::string_view t) { check_kv_model(t); }},
      {"host_facts", [](std::string_view t) { (void)host_facts_from_json("f", t); }},
  };
  return all;
}

}  // namespace weft::fuzz
