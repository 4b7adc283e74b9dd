#include "plan/protocol/protocol.h"

#include <algorithm>
#include <cctype>
#include <string>
#include <vector>

#include "base/nearest_words.h"

namespace weft::protocol {

const Traits& traits(Protocol protocol) {
  static constexpr Traits kTraits[] = {
      {"Simple", 1, 1, Bytes{512} << 10, 8},  // NCCL: 4 MiB in 8 steps
      {"LL", 4, 8, Bytes{32} << 10, 8},       // NCCL: 512 KiB of lines in 8 steps, half of it data
      {"LL64", 56, 64, 56 * 64, 8},
      {"LL128", 120, 128, 120 * 4800, 8},  // NCCL: 4,915,200 B in 8 steps, 15/16 of it data
      {"Direct", 1, 1, Bytes{1} << 40, 1},
  };
  return kTraits[static_cast<int>(protocol)];
}

Bytes wire_bytes(Protocol protocol, Bytes data) {
  const Traits& t = traits(protocol);
  return (data + t.line_data - 1) / t.line_data * t.line_bytes;
}

Result<Protocol> parse_protocol(std::string_view text) {
  std::vector<std::string> known;
  for (Protocol p : kProtocols) {
    if (std::ranges::equal(traits(p).name, text, [](unsigned char a, unsigned char b) {
          return std::tolower(a) == std::tolower(b);  // NCCL_PROTO takes any case, too
        }))
      return p;
    known.emplace_back(traits(p).name);
  }
  return bad_input("unknown protocol '{}'; {}there are {}", text, did_you_mean(text, known), fmt::join(known, ", "));
}

}  // namespace weft::protocol
