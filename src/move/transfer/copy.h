#pragma once

#include <cstddef>
#include <cstdint>

namespace weft::transfer {

// CRC-32C.
std::uint32_t checksum(const std::byte* data, std::size_t bytes);
// Copies, and returns the CRC-32C of what was copied, continued from `before`.
std::uint32_t copy_with_checksum(std::byte* to, const std::byte* from, std::size_t bytes, std::uint32_t before = 0);

}  // namespace weft::transfer
