#include "tests/device/expected.h"

#include <cstring>

#include "base/result.h"

namespace weft::tests {

using schedule::Buffer;

void fill(Rank rank, std::span<std::byte> input) {
  for (std::size_t at = 0; at + sizeof(std::int32_t) <= input.size(); at += sizeof(std::int32_t)) {
    const std::int32_t value = pattern(rank, at / sizeof value);
    std::memcpy(input.data() + at, &value, sizeof value);
  }
}

std::string compare(const schedule::Task& task, std::span<const std::vector<std::byte>> outputs) {
  const schedule::Layout layout = layout_of(task);
  const schedule::Shape& shape = layout.shape();
  for (Rank r = 0; r < task.ranks; ++r)
    for (int block = 0; block < shape.chunks; ++block) {
      if (!schedule::holds(shape, Buffer::kOut, block, r)) continue;
      const schedule::Run from = schedule::contributors(shape, block);
      const auto first = static_cast<std::size_t>(layout.offset(Buffer::kIn, block)) / 4;
      for (Bytes i = 0; i < layout.block_bytes(block) / 4; ++i) {
        std::uint32_t sum = 0, got = 0;
        for (int k = 0; k < from.count; ++k)
          sum += static_cast<std::uint32_t>(pattern(from.at(k), first + static_cast<std::size_t>(i)));
        std::memcpy(&got, outputs[static_cast<std::size_t>(r)].data() + layout.offset(Buffer::kOut, block) + 4 * i, 4);
        if (got != sum) return fmt::format("rank {} block {} element {}: {} instead of {}", r, block, i, got, sum);
      }
    }
  return {};
}

}  // namespace weft::tests
