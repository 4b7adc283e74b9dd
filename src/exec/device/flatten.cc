#include "exec/device/flatten.h"

#include <cstring>

namespace weft::exec::device {
namespace {

using protocol::End;
using protocol::Operation;

static_assert(static_cast<int>(End::Kind::kLocal) == FlatEnd::kLocal &&
              static_cast<int>(End::Kind::kMessage) == FlatEnd::kMessage &&
              static_cast<int>(End::Kind::kRemote) == FlatEnd::kRemote);
static_assert(static_cast<int>(protocol::Memory::kIn) == FlatEnd::kIn &&
              static_cast<int>(protocol::Memory::kOut) == FlatEnd::kOut &&
              static_cast<int>(protocol::Memory::kScratch) == FlatEnd::kScratch);
static_assert(static_cast<int>(Operation::Kind::kMove) == FlatOperation::kMove &&
              static_cast<int>(Operation::Kind::kSignal) == FlatOperation::kSignal &&
              static_cast<int>(Operation::Kind::kWait) == FlatOperation::kWait);

tl::unexpected<Error> unsupported(const char* what) {
  return failure(Code::kUnsupported, Blame::kInput, "kernels do not run {}", what);
}

Result<FlatEnd> flat(const End& end, protocol::Protocol protocol) {
  if (end.kind > End::Kind::kRemote) return unsupported("operations through switches");
  const bool whole = end.offset == 0 && end.last;
  if (end.kind == End::Kind::kMessage && protocol != protocol::Protocol::kSimple && !whole)
    return unsupported("messages in parts by protocols of lines");
  return FlatEnd{.offset = end.offset,
                 .peer = end.peer,
                 .strand = end.strand,
                 .tag = static_cast<std::uint16_t>(end.tag >> 16),
                 .kind = static_cast<std::uint8_t>(end.kind),
                 .memory = static_cast<std::uint8_t>(end.memory),
                 .last = end.last,
                 .spare = {}};
}

template <class T>
void put(std::vector<std::byte>& image, std::int64_t offset, const std::vector<T>& values) {
  if (!values.empty()) std::memcpy(image.data() + offset, values.data(), values.size() * sizeof(T));
}

}  // namespace

Result<std::vector<std::byte>> flatten(const schedule::Program& program, protocol::Protocol protocol,
                                       const Geometry& geometry) {
  if (program.size() > static_cast<std::size_t>(geometry.strands))
    return unsupported("more strands than the kernel has blocks for");
  std::vector<FlatStrand> strands;
  std::vector<FlatOperation> operations;
  std::vector<FlatEnd> ends;
  for (const auto& strand : program) {
    strands.push_back({.first = static_cast<std::int32_t>(operations.size()),
                       .count = static_cast<std::int32_t>(strand.size()),
                       .first_end = static_cast<std::int32_t>(ends.size()),
                       .ends = 0});
    for (const Operation& o : strand) {
      if (o.sources.size() + o.destinations.size() > kMostEnds)
        return unsupported("more operands in one operation than the kernel holds");
      operations.push_back({.bytes = o.bytes,
                            .peer = o.peer,
                            .ends = static_cast<std::int32_t>(ends.size()),  // their index, until all sizes are known
                            .sources = static_cast<std::uint16_t>(o.sources.size()),
                            .destinations = static_cast<std::uint16_t>(o.destinations.size()),
                            .strand = o.strand,
                            .kind = static_cast<std::uint8_t>(o.kind),
                            .spare = 0});
      for (const auto* side : {&o.sources, &o.destinations})
        for (const End& end : *side) {
          if (end.strand >= geometry.strands)
            return unsupported("connections of strands that the kernel does not have");
          WEFT_TRY(ends.emplace_back(), flat(end, protocol));
        }
    }
    strands.back().ends = static_cast<std::int32_t>(ends.size()) - strands.back().first_end;
  }
  const ImageHeader header{kImageMagic, static_cast<std::int32_t>(strands.size()),
                           static_cast<std::int32_t>(operations.size()), static_cast<std::int32_t>(ends.size()), 0};
  for (std::size_t i = 0; i < operations.size(); ++i)
    operations[i].ends =
        static_cast<std::int32_t>(header.end(operations[i].ends) - header.operation(static_cast<std::int64_t>(i)));
  std::vector<std::byte> image(static_cast<std::size_t>(header.total_bytes()));
  std::memcpy(image.data(), &header, sizeof header);
  put(image, header.strand(0), strands);
  put(image, header.operation(0), operations);
  put(image, header.end(0), ends);
  return image;
}

protocol::Capabilities capabilities(const Geometry& geometry) {
  return {.name = "device",
          .load_store = true,
          .max_strands = geometry.strands,
          .max_slice = geometry.slot_bytes,
          .line_slot_bytes = geometry.line_slot_bytes,
          .scratch_bytes = geometry.scratch_bytes};
}

}  // namespace weft::exec::device
