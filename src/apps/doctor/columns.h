#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/doctor/perftest.h"
#include "apps/doctor/tables.h"

namespace weft::doctor {

// A table with columns of its own, read by its header: text in columns, Markdown, CSV or tabs, with units in the header
// or in the cells. Such tables come from MSCCL++'s tests, DeepSpeed's log of communication, Gloo's benchmark, NIXLBench
// and scripts of JAX, Julia and PyTorch.
struct ColumnTable {
  PerfTable table;                       // rows with a time, or with a bandwidth alone
  std::vector<std::string> times;        // names of all columns of times
  std::string chosen;                    // the one that was read; empty: the table has bandwidths only
  std::optional<std::string> no_column;  // the name that was asked for and that no column of times has
  std::optional<PairTable> pair;         // NIXLBench: two agents, no collective
};
// `column`: the column of times to read; empty: the median or the mean where one is named so, else the first.
// None: the text has no header with a size and a time or a bandwidth, or no row below it.
std::optional<ColumnTable> read_columns(std::string_view text, std::string_view column);

// The collective that a text names in any spelling ("AllReduce", "all-gather", "reduce_scatter_tensor"): weft's name;
// empty: none, or several.
std::string collective_in(std::string_view text);

}  // namespace weft::doctor
