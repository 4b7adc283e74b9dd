#include "api/pe.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/forks.h"

namespace weft::api {

namespace {

constexpr Bytes kPage = 4096;
constexpr Bytes kCacheLine = 64;  // flags of different allocations never share one
}  // namespace

Result<std::unique_ptr<Pe>> Pe::open(Parts parts) {
  const std::string trace = parts.trace;
  const auto make_agent = std::move(parts.agent);
  std::unique_ptr<Pe> pe(new Pe(std::move(parts)));
  if (make_agent) {
    WEFT_TRY(auto agent, make_agent(pe->space_));
    pe->space_.set_agent(std::move(agent));
  }
  if (!trace.empty()) {
    WEFT_TRY(auto recorder, pgas::Recorder::open(trace, pe->rank(), pe->ranks()));
    pe->space_.set_recorder(std::move(recorder));
  }
  return pe;
}

Pe::Pe(Parts parts)
    : keeps_(std::move(parts.keeps)),
      commons_(std::move(parts.commons)),
      chooser_(std::move(parts.chooser)),
      end_(std::move(parts.end)),
      limits_(parts.limits),
      heap_region_(std::move(parts.heap)),
      space_(parts.comm.rank(), parts.comm.ranks()),
      heap_((letter_bytes(parts.comm.ranks()) + kPage - 1) / kPage * kPage, heap_region_.bytes, kCacheLine),
      interface_(std::move(parts.interface)) {
  space_.add(heap_region_);
  for (pgas::Region& region : parts.others) space_.add(std::move(region));
  watch_.spins = limits_.spins;
  // All of them: which one ended first, and which because of that one, nobody knows here.
  watch_.trouble = [ended = commons_.has_ended, ranks = ranks(), self = rank()]() -> std::string {
    std::vector<Rank> gone;
    for (Rank r = 0; r < ranks; ++r)
      if (r != self && ended(r)) gone.push_back(r);
    if (gone.empty()) return {};
    return gone.size() == 1 ? fmt::format("PE {} has ended", gone[0])
                            : fmt::format("PEs {} have ended", fmt::join(gone, ", "));
  };
  everybody_ = make_owned<Team>(pgas::Group{0, 1, ranks()}, rank(), space_, std::move(parts.comm));
}

Pe::~Pe() = default;

void Pe::end_job(int status) {
  std::fflush(nullptr);
  for (Rank r = 0; r < ranks() && end_; ++r)
    if (r != rank()) end_(r, status);
  std::_Exit(status);
}

Result<bool> Pe::agree(const char* call, Change change, const char* what, std::int64_t value, bool fine) {
  const auto kind = static_cast<std::int64_t>(change);
  std::array<std::int64_t, 5> least{value, -value, fine, kind, -kind};
  WEFT_CHECK(everybody_->run({.collective = Collective::kAllReduce,
                              .in = least.data(),
                              .out = least.data(),
                              .count = least.size(),
                              .type = DataType::kInt64,
                              .op = ReduceOp::kMin}));
  if (least[3] != -least[4])
    space_.misuse(call, change == Change::kAllocate ? "the PEs disagree: memory is allocated here and freed elsewhere"
                                                    : "the PEs disagree: memory is freed here and allocated elsewhere");
  if (least[0] != -least[1])
    space_.misuse(
        call, fmt::format("the PEs disagree on the {}: {} here, {} to {} elsewhere", what, value, least[0], -least[1]));
  return least[2] != 0;
}

Result<void*> Pe::allocate(const char* call, std::size_t bytes, std::size_t alignment) {
  std::optional<Bytes> offset;
  const auto size = static_cast<Bytes>(std::min<std::size_t>(bytes, INT64_MAX / 2));
  {
    const MutexLock guard(mutex_);
    if (alignment <= static_cast<std::size_t>(kMostAlignment))
      offset = heap_.allocate(size, static_cast<Bytes>(alignment));
  }
  const bool populated = offset && net::memory::populate(heap_region_.own + *offset, std::max<Bytes>(size, 1));
  WEFT_TRY(const bool fine, agree(call, Change::kAllocate, "size", size, populated));
  if (fine) return heap_region_.own + *offset;
  const MutexLock guard(mutex_);
  if (offset) heap_.release(*offset);
  return failure(
      Code::kNoResources, Blame::kOperation, "{} of {} bytes: {}", call, bytes,
      offset ? "a PE has no memory left (/dev/shm)" : "the symmetric heap is full; raise WEFT_SYMMETRIC_SIZE");
}

Status Pe::free(const char* call, void* memory) {
  const Bytes offset = static_cast<std::byte*>(memory) - heap_region_.own;
  WEFT_TRY(const bool fine, agree(call, Change::kFree, "offset of the memory", offset, true));
  (void)fine;
  const MutexLock guard(mutex_);
  if (!heap_.release(offset))
    space_.misuse(call,
                  fmt::format("{} is not the start of an allocation in use: freed twice, or never allocated", memory));
  return {};
}

Result<void*> Pe::reallocate(const char* call, void* memory, std::size_t bytes) {
  std::optional<Bytes> before;
  {
    const MutexLock guard(mutex_);
    before = heap_.size_of(static_cast<std::byte*>(memory) - heap_region_.own);
  }
  if (!before) space_.misuse(call, fmt::format("{} is not the start of an allocation in use", memory));
  WEFT_TRY(void* const fresh, allocate(call, bytes, 1));
  std::memcpy(fresh, memory, std::min(bytes, static_cast<std::size_t>(*before)));
  WEFT_CHECK(free(call, memory));
  return fresh;
}

}  // namespace weft::api
