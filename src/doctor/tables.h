#pragma once

#include <string_view>
#include <vector>

namespace weft::doctor {

// Does this row of nccl-tests count wrong elements? Rows have a size and a count, a type, an operation and perhaps a
// root, then time, algbw, busbw and #wrong, once or twice. Other lines have none.
bool has_wrong_elements(std::string_view line);

// Words of which one is in each row: names of types.
const std::vector<std::string_view>& table_words();

}  // namespace weft::doctor
