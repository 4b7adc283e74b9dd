#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace weft::doctor {

// Does this row of nccl-tests count wrong elements? Rows have a size and a count, a type, an operation and perhaps a
// root, then time, algbw, busbw and #wrong, once or twice. Other lines have none.
bool has_wrong_elements(std::string_view line);

// Words of which one is in each row: names of types.
const std::vector<std::string_view>& table_words();

// A table of nccl-tests, of OSU's collectives or of `weft bench`, as it was printed or pasted, with other lines around.
struct PerfTable {
  struct Row {
    std::int64_t bytes = 0;
    double microseconds = 0;  // out of place
  };
  std::vector<Row> rows;
  // These come from the lines around; 0 or empty: nothing is said.
  std::int64_t ranks = 0;
  std::set<std::string> hosts;
  std::string gpu;         // "NVIDIA H100 80GB HBM3"
  std::string collective;  // "all_reduce"
  int gpus_per_thread = 0;
};
PerfTable read_table(std::string_view text);

}  // namespace weft::doctor
