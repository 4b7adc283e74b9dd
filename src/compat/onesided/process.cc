#include "compat/onesided/process.h"

#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/env.h"

namespace weft::compat::onesided {

namespace {

int last_pe = -1;  // of this process, also after its library has ended

}  // namespace

Process::Process(std::unique_ptr<api::Pe> own, int level, const char* init) : pe(std::move(own)), thread_level(level) {
  last_pe = pe->rank();
  // The Pe owns the team of all; this handle only points there.
  world_ = std::shared_ptr<api::Team>(std::shared_ptr<void>(), &pe->everybody());
  if (space().agent() == nullptr) return;
  auto near = pe->make_team(pe->neighbours());
  if (!near) space().misuse(init, near.error().message);
  near_ = std::move(*near);
}

void Process::require(const char* call, const Status& status) const {
  if (!status) space().misuse(call, status.error().message);
}

std::unique_ptr<api::Pe> join(const char* call) {
  auto settings = env::read();
  auto pe = settings ? api::join_pgas(*settings, true) : tl::make_unexpected(settings.error());
  if (pe) return std::move(*pe);
  fmt::print(stderr, "weft: {}: {}\n", call, pe.error().message);
  std::exit(2);
}

void not_running(const char* call, const char* init, const char* finalize) {
  const std::string who = last_pe < 0 ? "" : fmt::format("PE {}: ", last_pe);
  fmt::print(stderr, "weft: {}{}: not between {} and {}\n", who, call, init, finalize);
  std::abort();
}

void* allocate(Process& process, const char* call, std::size_t size, std::size_t alignment) {
  if (size == 0) return nullptr;
  const auto memory = process.pe->allocate(call, size, alignment);
  if (!memory && memory.error().blame != Blame::kOperation) process.require(call, tl::make_unexpected(memory.error()));
  return memory ? *memory : nullptr;
}

void* allocate_zeros(Process& process, const char* call, std::size_t count, std::size_t size) {
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(count, size, &bytes)) bytes = SIZE_MAX;  // no PE has that
  void* const memory = allocate(process, call, bytes, 1);
  if (memory == nullptr) return nullptr;
  std::memset(memory, 0, bytes);
  process.require(call, process.pe->everybody().barrier());
  return memory;
}

void* allocate_aligned(Process& process, const char* call, std::size_t alignment, std::size_t size) {
  return std::has_single_bit(alignment) ? allocate(process, call, size, alignment) : nullptr;
}

void release(Process& process, const char* call, void* memory) {
  if (memory != nullptr) process.require(call, process.pe->free(call, memory));
}

void* address_at(const Process& process, const char* call, const void* dest, int pe) {
  if (pe < 0 || pe >= process.pe->ranks() || !process.space().symmetric(dest, 1)) return nullptr;
  return pe == process.pe->rank() ? const_cast<void*>(dest) : process.space().at(call, dest, 1, pe);
}

std::pair<pgas::Group, pgas::Group> row_and_column(const api::Team& team, int width) {
  const Rank ranks = team.ranks(), columns = std::min<Rank>(width, ranks);
  const Rank row = team.rank() / columns, column = team.rank() % columns;
  return {team.group().part(row * columns, 1, std::min(columns, ranks - row * columns)),
          team.group().part(column, columns, (ranks - column + columns - 1) / columns)};
}

}  // namespace weft::compat::onesided
