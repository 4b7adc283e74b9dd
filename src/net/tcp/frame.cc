#include "net/tcp/frame.h"

#include <fmt/format.h>

#include <cstddef>

#include "net/tcp/crc32c.h"

namespace weft::net::tcp {

void seal(Header& header) { header.header_crc = crc32c(0, &header, offsetof(Header, header_crc)); }

std::string fault_of(const Header& h, std::uint32_t expected_sequence) {
  if (h.magic != kFrameMagic) return fmt::format("frame {} does not begin like one", expected_sequence);
  if (const std::uint32_t crc = crc32c(0, &h, offsetof(Header, header_crc)); crc != h.header_crc)
    return fmt::format("frame {}: header checksum {:08x} instead of {:08x}", expected_sequence, crc, h.header_crc);
  if (h.sequence != expected_sequence) return fmt::format("frame {} instead of {}", h.sequence, expected_sequence);
  const std::string fault = messages::fault_of(h.frame);
  return fault.empty() ? "" : fmt::format("frame {}: {}", h.sequence, fault);
}

}  // namespace weft::net::tcp
