#include "net/messages/frame.h"

#include <fmt/format.h>

namespace weft::net::messages {

Frame part_of(const Sum& sum, std::uint16_t strand, std::uint64_t number) {
  return {.kind = FrameKind::kPart,
          .strand = strand,
          .number = number,
          .tag = std::uint64_t{sum.reduction} << 32 | static_cast<std::uint32_t>(sum.stride),
          .offset = static_cast<std::uint32_t>(sum.first),
          .total = static_cast<std::uint32_t>(sum.count)};
}

Sum sum_of(const Frame& part) {
  return {.first = static_cast<Rank>(part.offset),
          .count = static_cast<Rank>(part.total),
          .stride = static_cast<Rank>(part.tag & 0xffffffff),
          .reduction = static_cast<std::uint32_t>(part.tag >> 32)};
}

std::string fault_of(const Frame& f) {
  if (f.kind < FrameKind::kData || f.kind > FrameKind::kGone)
    return fmt::format("unknown kind {}", static_cast<int>(f.kind));
  if (f.strand >= kStreams) return fmt::format("strand {} of {}", f.strand, kStreams);
  const bool data = f.kind == FrameKind::kData;
  if (!data && f.length != 0) return fmt::format("{} bytes where none belong", f.length);
  if (!data) return "";
  const std::uint64_t end = std::uint64_t{f.offset} + f.length;
  const bool whole = (f.flags & kEnd) != 0, striped = (f.flags & kStriped) != 0;
  if (end > static_cast<std::uint64_t>(kSlotBytes) || f.total > static_cast<std::uint64_t>(kSlotBytes))
    return fmt::format("bytes {} to {} of a message of at most {}", f.offset, end, kSlotBytes);
  if ((striped && !whole) || (whole && (striped ? end > f.total : end != f.total)))
    return fmt::format("bytes {} to {} do not fit a message of {}", f.offset, end, f.total);
  return "";
}

}  // namespace weft::net::messages
