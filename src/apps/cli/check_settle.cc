#include "apps/cli/check_settle.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "apps/cli/check_matrix.h"
#include "base/counted.h"
#include "base/text.h"

namespace weft::cli {

using doctor::PerfTable;

std::string mixed_in_words(const PerfTable& table) {
  if (table.gpus.size() < 2) return "";
  std::vector<std::string> kinds;
  for (const auto& [gpu, ranks] : table.gpus)
    kinds.push_back(fmt::format("{} on {}", counted(ranks, "rank"), shown(gpu)));
  return fmt::format("its ranks have different GPUs ({})", fmt::join(kinds, ", "));
}

Result<std::string> machine_of(const CheckSpec& spec, const PerfTable& table) {
  if (!spec.on.empty() && spec.on != "this") return spec.on;
  const std::size_t hosts = table.hosts.size();
  if (const std::string mixed = mixed_in_words(table); !mixed.empty())
    return bad_input(
        "{}: {}: it cannot be said which of them the table should be held against; --on MACHINE judges it as "
        "that machine",
        spec.table, mixed);
  if (const std::string_view known = machine_with(table.gpu); !known.empty()) {
    if (hosts <= 1) return std::string(known);
    // As many GPUs of each host as the table lists: two hosts with one GPU each are not one node with two.
    const std::size_t each = static_cast<std::size_t>(table.ranks) / hosts;
    const std::string all = fmt::format("{}:nodes={}", known, hosts);
    WEFT_TRY(const Machine whole, load_machine(all));
    const auto own = static_cast<std::size_t>(whole.view->endpoints()) / hosts;
    return each > 0 && each < own ? fmt::format("{},gpus={}", all, each) : all;
  }
  constexpr const char* kQuestion =
      "which machine is it? Say --on MACHINE:nodes=N (weft catalog), or a file of its topology (nvidia-smi topo -m)";
  if (!table.gpu.empty())
    return bad_input("{}: no machine is known for '{}': {}", spec.table, shown(table.gpu), kQuestion);
  return bad_input("{}: the table names no GPU: {}", spec.table, kQuestion);
}

std::int64_t ranks_of(const CheckSpec& spec, const PerfTable& table) {
  if (spec.ranks > 0) return spec.ranks;
  const auto listed = static_cast<std::int64_t>(table.listed.size());
  if (table.ranks > 0 && (listed == 0 || listed == table.ranks)) return table.ranks;
  return std::max(table.ranks, doctor::infer_collective(table, 0).ranks);
}

Status fits(const CheckSpec& spec, const PerfTable& table, const Machine& machine) {
  constexpr std::string_view kGenerations[] = {"V100", "A100",   "H100", "H200", "B200",
                                               "B300", "MI300X", "4090", "3090"};
  const auto generation = [&](std::string_view text) {
    const auto* at = std::ranges::find_if(kGenerations, [&](auto g) { return text.find(g) != std::string_view::npos; });
    return at == std::end(kGenerations) ? std::string_view() : *at;
  };
  for (const auto& device : machine.view->topology().devices()) {
    if (device.kind != topology::DeviceKind::kGpu) continue;
    const auto ours = generation(table.gpu), theirs = generation(device.model);
    const bool among =
        std::ranges::any_of(table.gpus, [&](const auto& one) { return generation(one.first) == theirs; });
    if (!ours.empty() && !theirs.empty() && ours != theirs && !among)
      return bad_input("{}: the table is of {}, but {} has {}", spec.table, shown(table.gpu), machine.name,
                       device.model);
    break;
  }
  const auto ranks = static_cast<Rank>(std::min<std::int64_t>(ranks_of(spec, table), 1 << 30));
  if (ranks > machine.view->endpoints())
    return bad_input("{}: the table is of {} ranks, but {} has {}", spec.table, ranks, machine.name,
                     machine.view->endpoints());
  return {};
}

Status agrees(const CheckSpec& spec, const PerfTable& table, const std::string& collective, std::int64_t ranks) {
  if (!table.refused.empty()) return bad_input("{}: {}", spec.table, shown(table.refused));
  if (!spec.collective.empty() && !table.collective.empty() && spec.collective != table.collective)
    return bad_input("{}: --collective {}, but the table is of {} ('{}')", spec.table, spec.collective,
                     table.collective, shown(table.named));
  const auto listed = static_cast<std::int64_t>(table.listed.size());
  const bool whole = listed > 0 && listed == table.ranks;
  if (spec.ranks > 0 && table.ranks > 0 && (spec.ranks < table.ranks || (whole && listed > 1 && spec.ranks != listed)))
    return bad_input("{}: --ranks {}, but the table {} {}", spec.table, spec.ranks,
                     whole ? "lists" : "names a rank of at least", table.ranks);
  if (ranks == 1)
    return bad_input("{}: the table is of one rank, which sends nothing to any other: there is nothing to judge",
                     spec.table);
  const auto kind = schedule::parse_collective(collective);
  const doctor::Inferred inferred = doctor::infer_collective(table, 0);
  if (!kind || ranks <= 0 || inferred.ratio <= 0) return {};
  constexpr double kNear = 0.02;
  const double factor = schedule::bus_factor(*kind, static_cast<Rank>(ranks));
  if (std::abs(inferred.ratio - factor) < kNear * factor) return {};
  const std::string means = inferred.ranks > 1 ? fmt::format(", which means {} ranks", inferred.ranks) : std::string();
  return bad_input("{}: its busbw is {:.3f} times its algbw{}, but {} of {} ranks has {:.3f}{}", spec.table,
                   inferred.ratio, means, collective, ranks, factor,
                   spec.ranks > 0 ? " (--ranks)"
                   : listed > 0   ? " (as many are listed)"
                                  : "");
}

// Machines of weft have chips as ranks.
static Status settle_cores(const CheckSpec& spec, PerfTable& read) {
  if (read.cores == 0) return {};
  if (spec.ranks <= 0)
    return bad_input(
        "{}: its {} ranks are NeuronCores, several of a chip: how many chips are they? Say --ranks CHIPS; cores of one "
        "chip use no link",
        spec.table, read.cores);
  for (PerfTable::Row& row : read.rows) row.busbw = 0;  // its factor is that of the cores
  return {};
}

Result<std::string> take_columns(const CheckSpec& spec, std::string_view text,
                                 const std::optional<doctor::ColumnTable>& own, PerfTable& read) {
  if (!own)
    return bad_input(
        "{}: no row of nccl-tests (size count type redop root time algbw busbw …), OSU or IMB, no matrix of "
        "nvbandwidth, "
        "and no header with a size and a time or a bandwidth",
        spec.table);
  if (own->no_column)
    return bad_input("{}: --column {}: its columns of times are {}", spec.table, shown(*own->no_column),
                     fmt::join(own->times, ", "));
  const PerfTable around = std::exchange(read, own->table);
  read.ranks = std::max(read.ranks, around.ranks);
  read.listed = around.listed, read.hosts = around.hosts, read.gpu = around.gpu, read.gpus = around.gpus;
  if (read.collective.empty()) read.collective = around.collective, read.named = around.named;
  if (read.collective.empty()) read.collective = doctor::collective_in(text), read.named = "its own words";
  if (read.collective.empty()) read.collective = doctor::collective_in(spec.table), read.named = "the file's name";
  // Of all collectives only all_reduce counts more on the bus than its algorithm moves.
  if (read.collective.empty() && doctor::infer_collective(read, 0).ratio > 1.01)
    read.collective = "all_reduce", read.named = "busbw above algbw";
  if (read.collective.empty() && spec.collective.empty())
    return bad_input(
        "{}: a table with columns of its own that does not say which collective it measures: "
        "--collective all_reduce, all_gather, reduce_scatter, all_to_all, broadcast",
        spec.table);
  std::string words = own->chosen.empty() ? "its bandwidths" : fmt::format("column '{}'", shown(own->chosen));
  if (own->times.size() > 1) words += fmt::format(" of {}; --column takes another", fmt::join(own->times, ", "));
  return words;
}

Status settle_rows(const CheckSpec& spec, std::string_view text, PerfTable& read, std::string& own_columns) {
  const PerfTable printed = read;
  const std::string contradiction = doctor::leave_out_contradictions(read);
  if (contradiction.empty()) return settle_cores(spec, read);
  if (2 * read.rows.size() > printed.rows.size()) {
    fmt::print(stderr, "weft: {}: {} of {} rows are left out, which contradict themselves: {}\n", spec.table,
               printed.rows.size() - read.rows.size(), printed.rows.size(), contradiction);
    return settle_cores(spec, read);
  }
  const auto columns = doctor::read_columns(text, spec.column);
  if (!own_columns.empty() || !columns || columns->pair)
    return bad_input("{}: the table contradicts itself: {}", spec.table, contradiction);
  read = printed;
  WEFT_TRY(own_columns, take_columns(spec, text, columns, read));
  return settle_rows(spec, text, read, own_columns);
}

}  // namespace weft::cli
