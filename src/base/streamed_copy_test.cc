#include "base/streamed_copy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace weft {
namespace {

TEST(StreamedCopy, CopiesExactlyTheBytesAtAnyPlaceAndOfAnyLength) {
  std::vector<std::byte> from(1200);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i * 7 + 1);
  constexpr std::byte kUntouched{0xee};
  for (const std::size_t to_offset : {0, 1, 31, 63})
    for (const std::size_t from_offset : {0, 5})
      for (const std::size_t bytes : {0, 1, 63, 64, 65, 127, 128, 129, 200, 1000}) {
        std::vector<std::byte> to(1200, kUntouched);
        streamed_copy(to.data() + to_offset, from.data() + from_offset, bytes);
        for (std::size_t i = 0; i < to.size(); ++i) {
          const bool copied = i >= to_offset && i < to_offset + bytes;
          ASSERT_EQ(to[i], copied ? from[i - to_offset + from_offset] : kUntouched)
              << "byte " << i << " of " << bytes << " from " << from_offset << " to " << to_offset;
        }
      }
}

}  // namespace
}  // namespace weft
