#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace weft::doctor {

// Does this row of nccl-tests count wrong elements? Rows have a size and a count, a type, an operation and perhaps a
// root, then time, algbw, busbw and #wrong, once or twice. Other lines have none.
bool has_wrong_elements(std::string_view line);

// Is this a row of nccl-tests or weft bench, or the title of a table of OSU's or IMB's?
bool is_row(std::string_view line);

// Words of which one is in each row: names of types.
const std::vector<std::string_view>& table_words();

// A table of nccl-tests or rccl-tests (text or JSON), of OSU's or IMB's collectives or of `weft bench`, as it was
// printed or pasted, with other lines around and with launchers' prefixes.
struct PerfTable {
  struct Row {
    std::int64_t bytes = 0;
    double microseconds = 0;      // out of place; 0: only in place was measured
    double in_place = 0;          // microseconds; 0: not measured
    double algbw = 0, busbw = 0;  // GB/s; 0: not printed
    std::int64_t wrong = 0;       // elements, of both
    int root = -1;
    bool reduces = false;  // it names an operation
    double parts = 0;      // bytes over those of its count: 1, or the ranks where the count is a rank's; 0: not known
    std::string type, operation;
  };
  std::vector<Row> rows;
  // These come from the lines around; 0 or empty: nothing is said.
  std::int64_t ranks = 0;  // one more than the largest that is listed
  std::int64_t cores = 0;  // ranks of nccom-test: cores, of which a chip has several
  std::set<std::int64_t> listed;
  std::set<std::string> hosts;
  std::string gpu;                  // "NVIDIA H100 80GB HBM3"; of several kinds that of most ranks
  std::map<std::string, int> gpus;  // ranks by kind
  std::string collective;           // "all_reduce"
  std::string named;                // what named it: "all_reduce_perf"
  int gpus_per_thread = 0;
  int line = 0;         // of the first row
  std::size_t cut = 0;  // lines that begin as a row and are none: cut off, damaged, or of a size that is none
  struct LeftOut {
    int line = 0;  // 0: not known
    std::string why;
  };
  std::vector<LeftOut> dropped;  // the first of them
  std::size_t left_out = 0;      // other tables of the text, where only one is returned
  std::string refused;           // why this table cannot be judged, in words; empty: it can
};
// All tables of a text, in its order: each begins at its header, its title or its list of devices, where the sizes
// begin again, or where rows have another type or operation.
std::vector<PerfTable> read_tables(std::string_view text);
// The one of them with most ranks.
PerfTable read_table(std::string_view text);

// Counts a row that is left out, and keeps why.
void leave_out(PerfTable& table, int line, std::string why);

// Leaves out rows whose time, size and bandwidth contradict each other. Returns what the first of them says, in words;
// empty: there are none.
std::string leave_out_contradictions(PerfTable& table);

// What a table without a name measures, from its rows: whether they reduce, have a root, and how busbw stands to algbw
// on `ranks` ranks.
struct Inferred {
  std::string collective;  // empty: the rows do not say
  std::string reason;      // "no operation, busbw = 0.875 algbw"
  std::int64_t ranks = 0;  // that the ratio means, where `ranks` is 0
  double ratio = 0;        // of busbw to algbw in the row with the most digits; 0: not known
};
Inferred infer_collective(const PerfTable& table, std::int64_t ranks);

// Sizes whose time is at least a fifth below that of a smaller size.
std::vector<std::int64_t> non_monotonic(const PerfTable& table);

}  // namespace weft::doctor
