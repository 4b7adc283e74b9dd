#include <cstdint>
#include <cstdlib>

#include "tests/fuzz/parsers.h"

// libFuzzer's entry; WEFT_FUZZ_PARSER is the name of one parser in WEFT_FUZZ_TABLE.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  for (const auto& parser : weft::fuzz::WEFT_FUZZ_TABLE())
    if (parser.name == WEFT_FUZZ_PARSER) parser.run({reinterpret_cast<const char*>(data), size});
  return 0;
}
