#include "api/team.h"

#include <cstring>
#include <numeric>
#include <vector>

#include "base/result.h"
#include "plan/schedule/collective.h"
#include "plan/schedule/element.h"

namespace weft::api {
namespace {

// Of the whole message, as the cost model counts it; of all_to_all_v what all send if all send as much as this rank.
Bytes message_bytes(const Request& r, Rank ranks) {
  std::size_t elements = r.count * static_cast<std::size_t>(schedule::message_parts(r.collective, ranks));
  if (schedule::uneven(r.collective)) elements = std::accumulate(r.counts.begin(), r.counts.end(), std::size_t{0});
  if (r.collective == Collective::kAllToAllV) elements *= static_cast<std::size_t>(ranks);
  return static_cast<Bytes>(elements) * size_of(r.type);
}

}  // namespace

Status Team::run(Request request) {
  request.in = space_.shared(request.in);
  request.out = space_.shared(request.out);
  const std::lock_guard guard(mutex_);
  if (space_.recorder() == nullptr) return comm_.run(request);
  const Duration begin = pgas::Recorder::now();
  WEFT_CHECK(comm_.run(request));
  space_.recorder()->note({.kind = pgas::Event::Kind::kMeet,
                           .bytes = message_bytes(request, ranks()),
                           .group = group_,
                           .collective = std::string(schedule::name(request.collective)),
                           .begin = begin});
  return {};
}

Status Team::collect(void* to, const void* from, std::size_t bytes) {
  std::vector<std::uint64_t> sizes(static_cast<std::size_t>(ranks()));
  const std::uint64_t own = bytes;
  WEFT_CHECK(run(
      {.collective = Collective::kAllGather, .in = &own, .out = sizes.data(), .count = 1, .type = DataType::kUint64}));
  const std::vector<std::size_t> counts(sizes.begin(), sizes.end());
  return run(
      {.collective = Collective::kAllGatherV, .in = from, .out = to, .counts = counts, .type = DataType::kUint8});
}

Status Team::all_to_all_strided(std::byte* to, const std::byte* from, std::size_t to_stride, std::size_t from_stride,
                                std::size_t count, std::size_t element) {
  const std::size_t all = count * static_cast<std::size_t>(ranks());
  std::vector<std::byte> out(all * element), in(all * element);
  for (std::size_t i = 0; i < all; ++i)
    std::memcpy(out.data() + i * element, from + i * from_stride * element, element);
  WEFT_CHECK(run({.collective = Collective::kAllToAll,
                  .in = out.data(),
                  .out = in.data(),
                  .count = count * element,
                  .type = DataType::kUint8}));
  for (std::size_t i = 0; i < all; ++i) std::memcpy(to + i * to_stride * element, in.data() + i * element, element);
  return {};
}

Status Team::reduce_by(Combine combine, void* to, const void* from, std::size_t count, std::size_t element) {
  const std::size_t bytes = count * element;
  std::vector<std::byte> all(bytes * static_cast<std::size_t>(ranks()));
  WEFT_CHECK(run(
      {.collective = Collective::kAllGather, .in = from, .out = all.data(), .count = bytes, .type = DataType::kUint8}));
  std::memcpy(to, all.data(), bytes);
  for (Rank r = 1; r < ranks(); ++r) combine(to, all.data() + static_cast<std::size_t>(r) * bytes, count);
  return {};
}

}  // namespace weft::api
