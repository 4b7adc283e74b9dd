// Transfers between single ranks.

#include <algorithm>
#include <map>

#include "api/session/planner.h"
#include "api/session/transfers.h"
#include "exec/kernels/fold.h"

namespace weft::session {
namespace {

using protocol::End;

const std::byte* base_of(std::span<const Transfer> transfers) {
  return static_cast<const std::byte*>(transfers.front().data);
}

Bytes bytes_of(std::span<const Transfer> transfers) {
  Bytes bytes = 0;
  for (const Transfer& t : transfers) bytes += static_cast<Bytes>(t.count) * size_of(t.type);
  return bytes;
}

// Requires: counts and types that were found right before.
bool have_data(std::span<const Transfer> transfers) {
  return std::ranges::all_of(transfers, [](const Transfer& t) {
    return t.count == 0 || (t.data != nullptr && check_elements("", t.data, t.count, t.type));
  });
}

}  // namespace

// Transfers of one direction with one peer follow each other; all others run side by side.
Result<std::shared_ptr<const schedule::Program>> Planner::program_of(std::span<const Transfer> transfers) const {
  auto program = std::make_shared<schedule::Program>();
  std::map<std::pair<Rank, Transfer::Direction>, std::size_t> strands;
  const Bytes slice = executor_->capabilities().slot_data(protocol::Protocol::kSimple);
  const auto memory = [&](const Transfer& t) {
    return End{.memory = t.direction == Transfer::Direction::kSend ? protocol::Memory::kIn : protocol::Memory::kOut,
               .offset = static_cast<const std::byte*>(t.data) - base_of(transfers)};
  };
  // Nothing, too, is a message; its caller may have no memory for it.
  const auto add_empty = [&](std::size_t strand, const End& source, const End& destination) {
    if (source.kind != End::Kind::kMessage && destination.kind != End::Kind::kMessage) return;
    protocol::Operation& move = (*program)[strand].emplace_back(protocol::Operation{.bytes = 0});
    move.sources = {source.kind == End::Kind::kMessage ? source : End{.memory = protocol::Memory::kScratch}};
    if (destination.kind == End::Kind::kMessage) move.destinations = {destination};
  };
  const auto add = [&](std::size_t strand, const Transfer& t, const End& source, const End& destination) {
    const Bytes bytes = static_cast<Bytes>(t.count) * size_of(t.type);
    if (bytes == 0) return add_empty(strand, source, destination);
    for (Bytes at = 0; at < bytes; at += slice) {
      auto& move = (*program)[strand].emplace_back(protocol::Operation{
          .bytes = std::min(slice, bytes - at), .sources = {source}, .destinations = {destination}});
      for (auto* ends : {&move.sources, &move.destinations})
        if ((*ends)[0].kind == End::Kind::kLocal) (*ends)[0].offset += at;
    }
  };
  for (const Transfer& t : transfers) {
    if (t.peer == executor_->rank()) continue;
    const auto [strand, fresh] = strands.try_emplace({t.peer, t.direction}, program->size());
    if (fresh) program->emplace_back();
    const End message{.kind = End::Kind::kMessage, .tag = tag_of(t), .peer = t.peer};
    const bool sends = t.direction == Transfer::Direction::kSend;
    add(strand->second, t, sends ? memory(t) : message, sends ? message : memory(t));
  }
  WEFT_TRY(const auto own, own_transfers(transfers, executor_->rank()));
  if (!own.empty()) program->emplace_back();
  for (const OwnTransfer& t : own) add(program->size() - 1, t.send, memory(t.send), memory(t.receive));
  return program;
}

// A whole slot of lines still beats a message of Simple, whose flag is in another line than its data: by the costs in
// data/protocol/hop_costs.json up to 3.6 KB.
Bytes Planner::lines_up_to() const {
  const auto& can = executor_->capabilities();
  return can.load_store ? can.slot_data(protocol::Protocol::kLL64) : 0;
}

Result<const Prepared*> Planner::prepare(std::span<const Transfer> transfers) {
  if (const KnownShape* const known = cache_.find(transfers); known != nullptr && have_data(transfers))
    return known->plans.front().prepared.get();
  for (const Transfer& t : transfers) WEFT_CHECK(check_transfer(t, executor_->rank(), executor_->ranks()));
  auto prepared = std::make_shared<Prepared>();
  WEFT_TRY(prepared->program, program_of(transfers));
  prepared->plan.protocol = protocol::Protocol::kSimple;
  prepared->call = {.protocol = prepared->plan.protocol,
                    .fold = exec::fold_for(DataType::kUint8, ReduceOp::kSum),  // copies
                    .lines_up_to = lines_up_to(),
                    .everybody = false,
                    .streams_slots = streams_.for_peers,
                    .tries_slots = streams_.tried};
  if (recorder_ != nullptr) prepared->label = recorder_->label({.collective = "exchange", .channels = 1, .root = -1});
  prepared->brief = bytes_of(transfers) <= kBriefBytes;
  const KnownShape& known = cache_.add(PlanCache::Kind::kTransfers,
                                       {.plans = {{.access = {}, .shift = {}, .prepared = std::move(prepared)}}});
  return known.plans.front().prepared.get();
}

}  // namespace weft::session
