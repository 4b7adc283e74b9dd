#pragma once

#include <optional>
#include <string>

#include "apps/cli/commands.h"
#include "apps/doctor/columns.h"
#include "apps/doctor/tables.h"

namespace weft::cli {

struct CheckSpec {
  std::string table, on, collective, column, json;
  std::int64_t ranks = 0, together = 0;
};

// Why the table cannot be held against one machine: "its ranks have different GPUs (…)"; empty: it can.
std::string mixed_in_words(const doctor::PerfTable& table);
// The machine of --on, or the one whose GPUs the table lists. Errors (bad input): none is known, or several kinds of
// GPUs are listed.
Result<std::string> machine_of(const CheckSpec& spec, const doctor::PerfTable& table);
// How many ranks: as an option says, as the list says where it is whole, else as the ratio of bandwidths says.
std::int64_t ranks_of(const CheckSpec& spec, const doctor::PerfTable& table);
// The table and the machine must be of one kind of GPU and of one size.
Status fits(const CheckSpec& spec, const doctor::PerfTable& table, const Machine& machine);
// What the table says of its ranks and its collective, what its bandwidths say, and what the options say must agree.
Status agrees(const CheckSpec& spec, const doctor::PerfTable& table, const std::string& collective, std::int64_t ranks);
// A table with columns of its own in place of none. What was judged, in words.
Result<std::string> take_columns(const CheckSpec& spec, std::string_view text,
                                 const std::optional<doctor::ColumnTable>& own, doctor::PerfTable& read);
// Leaves out rows that contradict themselves. Where most do, they may only look like nccl-tests' and stand under a
// header with columns of its own. Where ranks are cores of chips, --ranks must say how many chips they are.
Status settle_rows(const CheckSpec& spec, std::string_view text, doctor::PerfTable& read, std::string& own_columns);

}  // namespace weft::cli
