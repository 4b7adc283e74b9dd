#include <cstdint>
#include <cstdlib>

#include "tests/fuzz/parsers.h"

// libFuzzer's entry; WEFT_FUZZ_PARSER is the name of one parser.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  for (const auto& parser : weft::fuzz::parsers())
    if (parser.name == WEFT_FUZZ_PARSER) parser.run({reinterpret_cast<const char*>(data), size});
  return 0;
}
