#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "weft/types.h"

namespace weft::accuracy {

// One row of a published measurement. Empty or zero: the library chose.
struct Point {
  Bytes bytes = 0;
  Rank ranks = 0;  // 0: all of the machine's
  Duration time;
  std::string algorithm, protocol;  // NCCL's names
  int channels = 0;
};

enum class Use : std::uint8_t {
  kFit,    // constants were fitted on it
  kJudge,  // never looked at when fitting
  kShow,   // not counted in totals
};
std::string_view name(Use use);

// A published table with what it was measured on. A value.
struct Table {
  std::string name;
  std::string about;    // the file's own first line: machine, versions, source
  std::string machine;  // as --on takes it
  Collective collective = Collective::kAllReduce;
  int gpus_per_thread = 1;  // GPUs that one host thread launches on; kAllGpus: all
  int release = 0;          // of NCCL, as System::release: that of the first line, or the nearest known; 0: not named
  Use use = Use::kJudge;
  std::string why;  // not counted
  std::vector<Point> points;
};
inline constexpr int kAllGpus = -1;

// What a table's file does not say itself.
struct Description {
  std::string name, machine;
  Collective collective = Collective::kAllReduce;
  Rank ranks = 0;
  int gpus_per_thread = 0;  // 0: the -g of the first line, else 1
};

// A table of columns size_bytes and time_us (others are ignored) after a first line "# …". Errors (bad input): names
// file, line, value.
Result<Table> parse_table(std::string_view file, std::string_view text, const Description& description);

// The tables that the project ships (data/measured), in the order of their list.
Result<std::vector<Table>> shipped_tables();
std::string shipped_list();  // the list itself
inline constexpr const char* kTableList = "tables.json";

// Tables that a list (weft.measured/1) describes. `text_of(file)`: a file's text, or nothing: then its tables are left
// out. `described`: null, or receives the files that were there. Errors (bad input): names the file.
using TextOf = std::function<Result<std::optional<std::string>>(const std::string& file)>;
Result<std::vector<Table>> tables_in(std::string_view list_name, std::string_view list, const TextOf& text_of,
                                     std::set<std::string>* described);

// Those of a folder: as its own tables.json says, or as the shipped one says of files with the same names. `unknown`
// receives the files that neither describes. Errors (bad input): names the file.
Result<std::vector<Table>> tables_of(const std::filesystem::path& folder, std::vector<std::string>& unknown);

}  // namespace weft::accuracy
