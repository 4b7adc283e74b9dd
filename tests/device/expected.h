#pragma once

#include <span>
#include <string>
#include <vector>

#include "plan/schedule/lower/lower.h"

namespace weft::tests {

// What ranks contribute where kernels are tried: int32, known to everybody.
constexpr std::int32_t pattern(Rank rank, std::size_t at) {
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(at) * 2654435761u + static_cast<std::uint32_t>(rank));
}
void fill(Rank rank, std::span<std::byte> input);

// "" or the first element of an output that is not the sum, or the copy, that the collective promises. `outputs`: by
// rank.
std::string compare(const schedule::Task& task, std::span<const std::vector<std::byte>> outputs);

}  // namespace weft::tests
