#include "move/transfer/copy.h"

#include <algorithm>
#include <cstring>

#include "net/tcp/crc32c.h"

namespace weft::transfer {

std::uint32_t checksum(const std::byte* data, std::size_t bytes) { return net::tcp::crc32c(0, data, bytes); }

std::uint32_t copy_with_checksum(std::byte* to, const std::byte* from, std::size_t bytes, std::uint32_t before) {
  constexpr std::size_t kBlock = 8 << 10;  // the second pass finds it in the first cache
  std::uint32_t sum = before;
  for (std::size_t at = 0; at < bytes; at += kBlock) {
    const std::size_t here = std::min(kBlock, bytes - at);
    std::memcpy(to + at, from + at, here);
    sum = net::tcp::crc32c(sum, to + at, here);  // of the copy: what is summed is what is delivered
  }
  return sum;
}

}  // namespace weft::transfer
