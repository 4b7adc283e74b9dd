#include "compat/onesided/collectives.h"

#include "onesided/pgas/remote.h"

namespace weft::compat::onesided {
namespace {

void check(const Process& process, const char* call, const void* to, std::size_t bytes) {
  process.space().at(call, to, static_cast<Bytes>(bytes), process.pe->rank());
}

}  // namespace

int exchange(Process& process, const char* call, api::Team* team, Collective collective, void* to, const void* from,
             std::size_t bytes, Rank root) {
  if (team == nullptr) return -1;
  if (bytes == 0) return 0;
  const auto ranks = static_cast<std::size_t>(team->ranks());
  check(process, call, to, collective == Collective::kBroadcast ? bytes : pgas::bytes_of(bytes, ranks));
  if (root < 0 || root >= team->ranks())
    process.space().misuse(call, fmt::format("PE_root {} is outside 0 … {}", root, team->ranks() - 1));
  process.require(
      call,
      team->run(
          {.collective = collective, .in = from, .out = to, .count = bytes, .type = DataType::kUint8, .root = root}));
  return 0;
}

int collect(Process& process, const char* call, api::Team* team, void* to, const void* from, std::size_t bytes) {
  if (team == nullptr) return -1;
  if (bytes > 0) check(process, call, to, bytes);
  process.require(call, team->collect(to, from, bytes));
  return 0;
}

int all_to_all_strided(Process& process, const char* call, api::Team* team, void* to, const void* from,
                       ptrdiff_t to_stride, ptrdiff_t from_stride, std::size_t count, std::size_t element) {
  if (team == nullptr) return -1;
  if (count == 0) return 0;
  if (to_stride < 1 || from_stride < 1) process.space().misuse(call, "a stride is less than 1");
  const std::size_t all = pgas::bytes_of(count, static_cast<std::size_t>(team->ranks()));
  check(process, call, to, pgas::detail::extent(all, to_stride, element));
  process.require(call, team->all_to_all_strided(static_cast<std::byte*>(to), static_cast<const std::byte*>(from),
                                                 static_cast<std::size_t>(to_stride),
                                                 static_cast<std::size_t>(from_stride), count, element));
  return 0;
}

int synchronize(Process& process, const char* call, api::Team* team) {
  if (team == nullptr) return -1;
  process.require(call, team->barrier());
  return 0;
}

int barrier(Process& process, const char* call, api::Team* team) {
  if (team == nullptr) return -1;
  pgas::quiet(process.space());
  return synchronize(process, call, team);
}

int reduce_known(Process& process, const char* call, api::Team* team, Collective collective, ReduceOp op, void* to,
                 const void* from, std::size_t count, DataType type) {
  if (team == nullptr) return -1;
  if (count == 0) return 0;
  check(process, call, to, pgas::bytes_of(count, static_cast<std::size_t>(size_of(type))));
  process.require(call,
                  team->run({.collective = collective, .in = from, .out = to, .count = count, .type = type, .op = op}));
  return 0;
}

int reduce_by(Process& process, const char* call, api::Team* team, api::Team::Combine combine, void* to,
              const void* from, std::size_t count, std::size_t element) {
  if (team == nullptr) return -1;
  if (count == 0) return 0;
  check(process, call, to, pgas::bytes_of(count, element));
  process.require(call, team->reduce_by(combine, to, from, count, element));
  return 0;
}

}  // namespace weft::compat::onesided
