#include "model/accuracy/csv.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace weft::accuracy {
namespace {

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r";
  const std::size_t first = text.find_first_not_of(kBlank);
  return first == std::string_view::npos ? "" : text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

std::vector<std::string> cells_of(std::string_view line) {
  std::vector<std::string> cells;
  for (std::size_t at = 0; at <= line.size();) {
    const std::size_t comma = std::min(line.find(',', at), line.size());
    cells.emplace_back(trimmed(line.substr(at, comma - at)));
    at = comma + 1;
  }
  return cells;
}

}  // namespace

Result<Csv> Csv::parse(std::string_view file, std::string_view text) {
  Csv csv{.file = std::string(file)};
  int number = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = trimmed(text.substr(at, end - at));
    at = end + 1;
    ++number;
    if (line.starts_with("#") && csv.about.empty()) csv.about = trimmed(line.substr(1));
    if (line.empty() || line.starts_with("#")) continue;
    std::vector<std::string> cells = cells_of(line);
    if (csv.columns.empty()) {
      csv.columns = std::move(cells);
    } else if (cells.size() != csv.columns.size()) {
      return bad_input("{}:{}: {} cells, but {} columns", file, number, cells.size(), csv.columns.size());
    } else {
      csv.rows.push_back({number, std::move(cells)});
    }
  }
  if (csv.rows.empty()) return bad_input("{}: no rows below a line of columns", file);
  return csv;
}

Result<std::string> Csv::text(const Row& row, std::string_view column) const {
  const auto found = std::ranges::find(columns, column);
  if (found == columns.end()) return bad_input("{}: there is no column '{}'", file, column);
  return row.cells[static_cast<std::size_t>(found - columns.begin())];
}

Result<double> Csv::number(const Row& row, std::string_view column) const {
  WEFT_TRY(const std::string cell, text(row, column));
  char* end = nullptr;
  const double value = std::strtod(cell.c_str(), &end);
  if (cell.empty() || *end != 0 || !std::isfinite(value))
    return bad_input("{}:{}: {} '{}' is not a number", file, row.line, column, cell);
  return value;
}

}  // namespace weft::accuracy
