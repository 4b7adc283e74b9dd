#pragma once

#include <string>
#include <vector>

#include "apps/cli/bench.h"
#include "weft/transfer.h"

namespace weft::cli {

struct FileCase {
  Bytes block = 0;
  std::int64_t blocks = 1;
};

// `weft bench transfer --file`: blocks of a file in random order, past the page cache; writing needs a file that this
// command has made. Errors (bad input): the file cannot be used.
Result<int> bench_file(const BenchSpec& spec, const std::string& name, transfer::Op op,
                       const std::vector<FileCase>& cases, Bytes most);

}  // namespace weft::cli
