#pragma once

#include <cstddef>
#include <cstdint>

namespace weft::net::tcp {

// CRC-32C (Castagnoli), the polynomial of iSCSI and SCTP: `crc` continues over `bytes`; begin with 0.
// By the processor's own instruction where it has one, chosen at run time.
std::uint32_t crc32c(std::uint32_t crc, const void* data, std::size_t bytes);

// The CRC of two parts behind each other, from that of each; `bytes`: of the second. About a microsecond.
std::uint32_t crc32c_joined(std::uint32_t first, std::uint32_t second, std::size_t bytes);

// The form for every processor; the same values.
std::uint32_t crc32c_portable(std::uint32_t crc, const void* data, std::size_t bytes);

}  // namespace weft::net::tcp
