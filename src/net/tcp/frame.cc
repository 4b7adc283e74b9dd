#include "net/tcp/frame.h"

#include <fmt/format.h>

#include <cstddef>

#include "net/tcp/crc32c.h"

namespace weft::net::tcp {

Header part_of(const Sum& sum, std::uint16_t strand, std::uint64_t number) {
  return {.kind = FrameKind::kPart,
          .strand = strand,
          .number = number,
          .tag = std::uint64_t{sum.reduction} << 32 | static_cast<std::uint32_t>(sum.stride),
          .offset = static_cast<std::uint32_t>(sum.first),
          .total = static_cast<std::uint32_t>(sum.count)};
}

Sum sum_of(const Header& part) {
  return {.first = static_cast<Rank>(part.offset),
          .count = static_cast<Rank>(part.total),
          .stride = static_cast<Rank>(part.tag & 0xffffffff),
          .reduction = static_cast<std::uint32_t>(part.tag >> 32)};
}

void seal(Header& header) { header.header_crc = crc32c(0, &header, offsetof(Header, header_crc)); }

std::string fault_of(const Header& h, std::uint32_t expected_sequence) {
  if (h.magic != kFrameMagic) return fmt::format("frame {} does not begin like one", expected_sequence);
  if (const std::uint32_t crc = crc32c(0, &h, offsetof(Header, header_crc)); crc != h.header_crc)
    return fmt::format("frame {}: header checksum {:08x} instead of {:08x}", expected_sequence, crc, h.header_crc);
  if (h.sequence != expected_sequence) return fmt::format("frame {} instead of {}", h.sequence, expected_sequence);
  if (h.kind < FrameKind::kData || h.kind > FrameKind::kPart)
    return fmt::format("frame {} of unknown kind {}", h.sequence, static_cast<int>(h.kind));
  if (h.strand >= kStrands) return fmt::format("frame {}: strand {} of {}", h.sequence, h.strand, kStrands);
  const bool data = h.kind == FrameKind::kData;
  if (!data && h.length != 0) return fmt::format("frame {}: {} bytes where none belong", h.sequence, h.length);
  if (!data) return "";
  const std::uint64_t end = std::uint64_t{h.offset} + h.length;
  const bool whole = (h.flags & kEnd) != 0, striped = (h.flags & kStriped) != 0;
  if (end > static_cast<std::uint64_t>(kSlotBytes) || h.total > static_cast<std::uint64_t>(kSlotBytes))
    return fmt::format("frame {}: bytes {} to {} of a message of at most {}", h.sequence, h.offset, end, kSlotBytes);
  if ((striped && !whole) || (whole && (striped ? end > h.total : end != h.total)))
    return fmt::format("frame {}: bytes {} to {} do not fit a message of {}", h.sequence, h.offset, end, h.total);
  return "";
}

}  // namespace weft::net::tcp
