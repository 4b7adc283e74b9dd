#include "machine/import/rocm_smi.h"

#include <algorithm>
#include <charconv>
#include <map>

#include "base/text.h"
#include "machine/import/matrix_machine.h"
#include "machine/import/text_lines.h"

namespace weft::topology {
namespace {

using Way = ClassMatrix::Way;
using Words = std::vector<std::string_view>;

constexpr std::size_t kMostGpus = 1024;

struct Table {
  std::int64_t line = 0;  // of its columns
  std::vector<std::string_view> columns;
  std::vector<std::vector<std::string_view>> rows;
  std::vector<std::int64_t> row_lines;
};

// "0000:c1:00.0", as amd-smi names GPUs.
bool is_bus_id(std::string_view word) {
  return word.size() == 12 && word[4] == ':' && word[7] == ':' && word[10] == '.' &&
         word.find_first_not_of("0123456789abcdefABCDEF:.") == std::string_view::npos;
}
bool is_gpu(std::string_view word) { return word.starts_with("GPU") || is_bus_id(word); }

class Parser {
 public:
  explicit Parser(std::string_view name) : name_(name) {}

  Result<ClassMatrix> run(std::string_view text) {
    WEFT_CHECK(read(text));
    if (types_.columns.empty()) return bad_input("{}:1: no table of link types between GPUs", name_);
    const std::size_t size = types_.columns.size();
    if (types_.rows.size() != size)
      return bad_input("{}:{}: {} columns and {} rows of link types: the table is not square", name_, types_.line, size,
                       types_.rows.size());
    ClassMatrix matrix;
    matrix.scale_up = LinkKind::kXgmi;
    for (std::size_t i = 0; i < size; ++i) {
      ClassMatrix::Entry entry;
      entry.line = types_.row_lines[i];
      if (const auto numa = numa_.find(std::string(types_.columns[i])); numa != numa_.end()) entry.numa = numa->second;
      matrix.entries.push_back(std::move(entry));
    }
    if (numa_.empty() && std::ranges::any_of(types_.rows, [](const auto& row) {
          return std::ranges::find(row, std::string_view("PCIE")) != row.end();
        }))
      for (ClassMatrix::Entry& entry : matrix.entries)
        entry.facts.set("assumed",
                        "the table names no NUMA nodes: GPUs that are more than two hops of PCIe apart each count as "
                        "being at a CPU of their own, and the links between these CPUs are a guess");
    matrix.resize();
    for (std::size_t i = 0; i < size; ++i)
      for (std::size_t j = 0; j < size; ++j) {
        if (types_.rows[i][j] != types_.rows[j][i])
          return bad_input("{}:{}: {} to {} is '{}', the other way round '{}': the matrix is not symmetric", name_,
                           types_.row_lines[i], types_.columns[i], types_.columns[j], types_.rows[i][j],
                           types_.rows[j][i]);
        WEFT_TRY(matrix.cells[i][j], cell(i, j, matrix));
      }
    return matrix;
  }

 private:
  // The text is sections under "=== Title ===" lines.
  Status read(std::string_view text) {
    Table* table = nullptr;
    for (const TextLine& line : lines_of(text)) {
      const Words words = words_of(line.text);
      if (words.empty()) continue;
      if (words[0].starts_with("==")) {
        table = line.text.find("Link Type") != std::string_view::npos ? &types_
                : line.text.find("Hops") != std::string_view::npos    ? &hops_
                                                                      : &ignored_;
        if (line.text.find("Numa Nodes") != std::string_view::npos) table = nullptr;
        if (table == &ignored_ && !holds_types(ignored_)) ignored_ = {};
        continue;
      }
      if (words.size() >= 2 && words.back() == "TABLE:") {  // amd-smi topology
        const bool bandwidths = words[0] == "BW" || (words.size() >= 3 && words[1] == "BW");
        table = words[0] == "LINK" ? &types_ : words[0] == "HOPS" ? &hops_ : bandwidths ? &bandwidths_ : &ignored_;
        if (table == &ignored_) ignored_ = {};
        continue;
      }
      if (words[0].starts_with("GPU[")) {
        read_numa(words);
      } else if (is_gpu(words[0])) {
        if (!table) table = &types_;
        WEFT_CHECK(read_table_line(*table, line, words));
      }
    }
    // Excerpts lose titles: a table of letters is the one of types whatever stands above it.
    if (types_.columns.empty() && holds_types(ignored_)) types_ = ignored_;
    return {};
  }

  static bool holds_types(const Table& table) {
    return std::ranges::any_of(table.rows, [](const auto& row) {
      return std::ranges::any_of(row, [](std::string_view cell) { return cell == "XGMI" || cell == "PCIE"; });
    });
  }

  Status read_table_line(Table& table, const TextLine& line, const Words& words) {
    const bool columns = words.size() == 1 || is_gpu(words[1]);
    if (columns) {
      if (!table.columns.empty()) return bad_input("{}:{}: a second line of columns", name_, line.number);
      if (words.size() > kMostGpus) return bad_input("{}:{}: more than {} GPUs", name_, line.number, kMostGpus);
      for (const std::string_view word : words)
        if (std::ranges::count(words, word) > 1) return bad_input("{}:{}: {} is there twice", name_, line.number, word);
      table.columns = words;
      table.line = line.number;
      return {};
    }
    if (words.size() != table.columns.size() + 1)
      return bad_input("{}:{}: {} entries for {} columns", name_, line.number, words.size() - 1, table.columns.size());
    if (table.rows.size() < table.columns.size() && words[0] != table.columns[table.rows.size()])
      return bad_input("{}:{}: row {} where {} is expected", name_, line.number, words[0],
                       table.columns[table.rows.size()]);
    table.rows.emplace_back(words.begin() + 1, words.end());
    table.row_lines.push_back(line.number);
    return {};
  }

  // "GPU[3] : (Topology) Numa Node: 1"
  void read_numa(const Words& words) {
    const auto node = std::ranges::find(words, "Node:");
    if (node == words.end() || node + 1 == words.end()) return;
    const std::string_view digits = words[0].substr(4, words[0].find(']') - 4);
    std::int32_t value = 0;
    const auto [rest, error] = std::from_chars(node[1].data(), node[1].data() + node[1].size(), value);
    if (error == std::errc{}) numa_["GPU" + std::string(digits)] = value;
  }

  Result<ClassMatrix::Cell> cell(std::size_t i, std::size_t j, const ClassMatrix& matrix) const {
    const std::string_view text = types_.rows[i][j];
    if (i == j) {
      if (text == "0" || text == "X" || text == "SELF") return ClassMatrix::Cell{};
      return bad_input("{}:{}: '{}' from {} to itself", name_, types_.row_lines[i], text, types_.columns[i]);
    }
    if (text == "XGMI") {
      const std::int32_t links = xgmi_links(i, j);
      return links > 0 ? ClassMatrix::Cell{Way::kScaleUp, links} : ClassMatrix::Cell{};
    }
    if (text == "XXXX") return ClassMatrix::Cell{};
    if (text != "PCIE") return bad_input("{}:{}: '{}' is no link type", name_, types_.row_lines[i], text);
    const std::int32_t a = matrix.entries[i].numa, b = matrix.entries[j].numa;
    const bool known = a >= 0 && b >= 0;
    const bool two_hops = i < hops_.rows.size() && j < hops_.rows[i].size() && hops_.rows[i][j] == "2";
    return ClassMatrix::Cell{(known ? a == b : two_hops) ? Way::kPhb : Way::kSys, 1};
  }

  // MB/s of "50000-200000", the largest; -1: "N/A" or no such table.
  double bandwidth(std::size_t i, std::size_t j) const {
    if (i >= bandwidths_.rows.size() || j >= bandwidths_.rows[i].size()) return -1;
    const std::string_view text = bandwidths_.rows[i][j];
    const auto dash = text.find('-');
    double value = 0;
    if (dash == std::string_view::npos || read_number(text.substr(dash + 1), value).ec != std::errc()) return -1;
    return value;
  }

  // amd-smi says XGMI and one hop of all GPUs of a hive. Its bandwidths distinguish pairs that no link joins
  // ("0-0") and pairs of several links.
  std::int32_t xgmi_links(std::size_t i, std::size_t j) const {
    const double own = bandwidth(i, j);
    if (own < 0) return 1;
    double least = 0;
    for (std::size_t a = 0; a < bandwidths_.rows.size(); ++a)
      for (std::size_t b = 0; b < bandwidths_.rows.size(); ++b)
        if (const double other = bandwidth(a, b); other > 0 && (least == 0 || other < least)) least = other;
    return least > 0 ? static_cast<std::int32_t>(own / least + 0.5) : 1;
  }

  std::string_view name_;
  Table types_, hops_, bandwidths_, ignored_;
  std::map<std::string, std::int32_t> numa_;
};

}  // namespace

bool is_rocm_smi(std::string_view text) {
  return text.find("ROCm System Management Interface") != std::string_view::npos ||
         text.find("Link Type between two GPUs") != std::string_view::npos ||
         text.find("LINK TYPE TABLE:") != std::string_view::npos;
}

Result<Topology> parse_rocm_smi(const Catalog& catalog, std::string_view name, std::string_view text) {
  WEFT_TRY(const ClassMatrix matrix, Parser(name).run(text));
  return machine_of(catalog, name, matrix);
}

}  // namespace weft::topology
