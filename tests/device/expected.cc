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
    for (schedule::ChunkId chunk = 0; chunk < shape.chunks; ++chunk) {  // a block, or a token
      if (!schedule::holds(shape, Buffer::kOut, chunk, r)) continue;
      const std::vector<Rank> from = schedule::contributors_to(shape, chunk);
      const auto first = static_cast<std::size_t>(layout.offset(Buffer::kIn, chunk)) / 4;
      for (Bytes i = 0; i < layout.chunk_bytes(chunk) / 4; ++i) {
        std::uint32_t sum = 0, got = 0;
        for (const Rank giver : from)
          sum += static_cast<std::uint32_t>(pattern(giver, first + static_cast<std::size_t>(i)));
        std::memcpy(&got, outputs[static_cast<std::size_t>(r)].data() + layout.offset(Buffer::kOut, chunk) + 4 * i, 4);
        if (got != sum) return fmt::format("rank {} block {} element {}: {} instead of {}", r, chunk, i, got, sum);
      }
    }
  return {};
}

}  // namespace weft::tests
