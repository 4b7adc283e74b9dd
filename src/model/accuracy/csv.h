#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace weft::accuracy {

// Comma-separated values: lines that begin with # are remarks, the first other line names the columns.
struct Csv {
  struct Row {
    int line = 0;
    std::vector<std::string> cells;
  };
  std::string file;
  std::string about;  // the first remark, without its #
  std::vector<std::string> columns;
  std::vector<Row> rows;

  // Errors (bad input): no line of columns, a row with another number of cells; names file and line.
  static Result<Csv> parse(std::string_view file, std::string_view text);

  // Errors (bad input): no such column; not a number.
  Result<std::string> text(const Row& row, std::string_view column) const;
  Result<double> number(const Row& row, std::string_view column) const;
};

}  // namespace weft::accuracy
