#include "model/accuracy/measured.h"

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "base/embedded.h"
#include "base/text.h"
#include "model/accuracy/csv.h"
#include "plan/schedule/collective.h"
#include "plan/tune/nccl/choice.h"

namespace weft::embedded {
std::span<const File> measured_files();
}

namespace weft::accuracy {
namespace {

using nlohmann::json;

// A name that stands for a file of its own folder: no separator, no "..", no control character.
bool plain_name(std::string_view name) {
  return !name.empty() && name.front() != '.' && name.size() <= 200 && name.find('/') == std::string_view::npos &&
         shown(name) == name;
}

// The N of "-g N" in a table's first line: one thread launches on N GPUs; else 1.
int launched_together(std::string_view about) {
  const std::size_t at = about.find(" -g ");
  if (at == std::string_view::npos) return 1;
  if (about.substr(at + 4).starts_with("N")) return kAllGpus;
  return std::max(1, std::atoi(std::string(about.substr(at + 4, 4)).c_str()));
}

// Of "NCCL 2.27.3" in a table's first line.
int release_in(std::string_view about) {
  constexpr std::string_view kName = "NCCL ";
  for (std::size_t at = about.find(kName); at != std::string_view::npos; at = about.find(kName, at + 1)) {
    const std::string_view rest = about.substr(at + kName.size());
    std::string_view version = rest.substr(0, rest.find_first_not_of("0123456789."));
    while (version.ends_with('.')) version.remove_suffix(1);
    if (const auto release = tune::nccl::nearest_release(version)) return *release;
  }
  return 0;
}

// Where a row's number is: in a column, or the same for all rows.
struct Source {
  std::string column;
  double constant = 0;
};
Source source_of(const json& columns, const char* what, std::string_view usual) {
  if (!columns.contains(what)) return {std::string(usual), 0};
  const json& c = columns.at(what);
  return c.is_number() ? Source{"", c.get<double>()} : Source{c.get<std::string>(), 0};
}

Result<double> number(const Csv& csv, const Csv::Row& row, const Source& source) {
  return source.column.empty() ? Result<double>(source.constant) : csv.number(row, source.column);
}

Result<Point> point_of(const Csv& csv, const Csv::Row& row, const json& columns, const Table& table, Rank ranks) {
  Point point;
  WEFT_TRY(const double bytes, number(csv, row, source_of(columns, "bytes", "size_bytes")));
  if (!(bytes >= 1 && bytes <= static_cast<double>(kMostMessage)))
    return bad_input("{}:{}: a size of {} bytes is not from 1 to 16T", csv.file, row.line, bytes);
  point.bytes = static_cast<Bytes>(bytes);
  WEFT_TRY(const double of,
           number(csv, row, columns.contains("ranks") ? source_of(columns, "ranks", "") : Source{"", 1.0 * ranks}));
  point.ranks = static_cast<Rank>(of);
  if (columns.contains("busbw")) {
    WEFT_TRY(const double rate, number(csv, row, source_of(columns, "busbw", "")));
    // Where all of the machine's ranks are meant their number is not known here: busbw needs it.
    if (point.ranks <= 0) return bad_input("{}:{}: bus bandwidth without the number of ranks", csv.file, row.line);
    point.time = Duration::seconds(bytes * schedule::bus_factor(table.collective, point.ranks) / (rate * 1e9));
  } else {
    WEFT_TRY(const double us, number(csv, row, source_of(columns, "time", "time_us")));
    point.time = Duration::microseconds(us);
  }
  if (!(point.time > Duration())) return bad_input("{}:{}: the time must be more than 0", csv.file, row.line);
  return point;
}

// "data/measured/a.csv": "a".
std::string stem_of(std::string_view file) {
  file.remove_prefix(file.rfind('/') + 1);  // 0 where there is none
  return std::string(file.substr(0, file.rfind('.')));
}

Result<Table> table_of(std::string_view file, std::string_view text, const json& entry) {
  WEFT_TRY(const Csv csv, Csv::parse(file, text));
  Table table;
  table.about = csv.about;
  table.name = entry.value("name", stem_of(file));
  if (!plain_name(table.name))
    return bad_input("{}: name '{}' is not usable as a file's name", shown(file), shown(table.name));
  table.machine = entry.at("on");
  WEFT_TRY(table.collective, schedule::parse_collective(entry.value("collective", "all_reduce")));
  const std::string use = entry.value("use", "judge");
  if (use != "fit" && use != "judge" && use != "show")
    return bad_input("{}: use '{}'; there are fit, judge and show", table.name, use);
  table.use = use == "fit" ? Use::kFit : use == "judge" ? Use::kJudge : Use::kShow;
  table.why = entry.value("why", "");
  table.gpus_per_thread = launched_together(table.about);
  table.release = release_in(table.about);
  if (entry.contains("gpus_per_thread"))
    table.gpus_per_thread = entry.at("gpus_per_thread") == "all" ? kAllGpus : entry.at("gpus_per_thread").get<int>();
  const json columns = entry.value("columns", json::object()), where = entry.value("where", json::object());
  for (const Csv::Row& row : csv.rows) {
    bool wanted = true;
    for (const auto& [column, value] : where.items()) {
      WEFT_TRY(const std::string found, csv.text(row, column));
      wanted = wanted && found == value.get<std::string>();
    }
    if (!wanted) continue;
    WEFT_TRY(Point point, point_of(csv, row, columns, table, entry.value("ranks", 0)));
    point.algorithm = entry.value("algorithm", "");
    point.protocol = entry.value("protocol", "");
    point.channels = entry.value("channels", 0);
    table.points.push_back(std::move(point));
  }
  if (table.points.empty()) return bad_input("{}: no rows", file);
  return table;
}

Result<std::optional<std::string>> embedded_text(const std::string& file) {
  for (const embedded::File& f : embedded::measured_files())
    if (f.path == "data/measured/" + file) return std::optional(std::string(f.text));
  return std::nullopt;
}

}  // namespace

std::string_view name(Use use) {
  static constexpr std::string_view kNames[] = {"fit", "judge", "show"};
  return kNames[static_cast<int>(use)];
}

Result<Table> parse_table(std::string_view file, std::string_view text, const Description& d) {
  json entry = {{"on", d.machine}, {"collective", schedule::name(d.collective)}, {"ranks", d.ranks}};
  if (!d.name.empty()) entry["name"] = d.name;
  if (d.gpus_per_thread > 0) entry["gpus_per_thread"] = d.gpus_per_thread;
  return table_of(file, text, entry);
}

Result<std::vector<Table>> tables_in(std::string_view list_name, std::string_view list, const TextOf& text_of,
                                     std::set<std::string>* described) {
  std::vector<Table> tables;
  try {
    const json root = json::parse(list);
    if (root.value("schema", "") != "weft.measured/1") return bad_input("{}: schema is not weft.measured/1", list_name);
    for (const json& entry : root.at("tables")) {
      const std::string file = entry.at("file");
      if (!plain_name(file))
        return bad_input("{}: file '{}' is not a name in the folder of the list", list_name, shown(file));
      WEFT_TRY(const std::optional<std::string> text, text_of(file));
      if (!text) continue;
      if (described != nullptr) described->insert(file);
      WEFT_TRY(Table table, table_of(file, *text, entry));
      tables.push_back(std::move(table));
    }
  } catch (const json::exception& problem) {
    return bad_input("{}: {}", list_name, problem.what());
  }
  return tables;
}

std::string shipped_list() { return **embedded_text(kTableList); }

Result<std::vector<Table>> shipped_tables() { return tables_in(kTableList, shipped_list(), embedded_text, nullptr); }

}  // namespace weft::accuracy
