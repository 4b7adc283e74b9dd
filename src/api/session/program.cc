#include "api/session/program.h"

namespace weft::session {
namespace {

// Never 0.
std::uint32_t tag_of_pair(Bytes elements) {
  return static_cast<std::uint32_t>((static_cast<std::uint64_t>(elements) + 1) * 0x9e3779b97f4a7c15u >> 32 | 1);
}

}  // namespace

void leave_out_idle_copies(schedule::Program& program, Bytes shift) {
  using protocol::End, protocol::Operation;
  const auto idle = [&](const Operation& o) {
    if (o.kind != Operation::Kind::kMove || o.sources.size() != 1 || o.destinations.size() != 1) return false;
    const End &from = o.sources[0], &to = o.destinations[0];
    return from.kind == End::Kind::kLocal && from.memory == protocol::Memory::kIn && to.kind == End::Kind::kLocal &&
           to.memory == protocol::Memory::kOut && from.offset == shift + to.offset;
  };
  for (auto& strand : program) std::erase_if(strand, idle);
}

void tag_pairs(schedule::Program& program, const schedule::Task& task, Rank self) {
  using protocol::End;
  for (auto& strand : program)
    for (protocol::Operation& o : strand)
      for (auto* ends : {&o.sources, &o.destinations})
        for (End& end : *ends) {
          if (end.kind != End::Kind::kMessage) continue;
          const Rank from = ends == &o.sources ? end.peer : self, to = ends == &o.sources ? self : end.peer;
          end.tag = tag_of_pair((*task.counts)[static_cast<std::size_t>(from * task.ranks + to)]);
        }
}

void add_empty_messages(schedule::Program& program, const schedule::Task& task, protocol::Protocol protocol,
                        Rank self) {
  using protocol::End, protocol::Operation;
  const auto none = [&](Rank from, Rank to) {
    return (*task.counts)[static_cast<std::size_t>(from * task.ranks + to)] == 0;
  };
  const auto message = [](Rank peer) { return End{.kind = End::Kind::kMessage, .tag = tag_of_pair(0), .peer = peer}; };
  const bool in_lines = protocol != protocol::Protocol::kSimple;
  const Operation empty{.bytes = in_lines ? 1 : 0};
  std::vector<Operation> sends;
  std::vector<std::vector<Operation>> receives;
  for (Rank distance = 1; distance < task.ranks; ++distance) {
    const Rank to = (self + distance) % task.ranks, from = (self + task.ranks - distance) % task.ranks;
    if (none(self, to)) {
      Operation& send = sends.emplace_back(empty);
      send.sources = {End{.memory = protocol::Memory::kScratch}};  // which is always there
      send.destinations = {message(to)};
    }
    if (none(from, self)) receives.emplace_back().emplace_back(empty).sources = {message(from)};
  }
  if (!sends.empty()) program.push_back(std::move(sends));
  for (auto& receive : receives) program.push_back(std::move(receive));
}

}  // namespace weft::session
