#include "move/reshard/receiver.h"

#include <algorithm>

namespace weft::reshard {
namespace {

constexpr std::int64_t kAlignment = 64;         // bytes: a cache line, so that copies need not begin within one
constexpr std::int64_t kBatchBytes = 16 << 20;  // what a retry may have to get again; large against a request's cost
constexpr std::size_t kBatchRows = 1 << 16;     // rows of a request are checked one by one

}  // namespace

Memory memory_of(const Layout& layout, Rank rank) {
  Memory memory;
  for (const Tensor& t : layout.tensors) {
    const Holding h = holding(layout, t, rank);
    memory.offsets.push_back(h.present ? memory.bytes : -1);
    memory.bytes += (h.local_elements() * t.element_bytes + kAlignment - 1) / kAlignment * kAlignment;
  }
  memory.bytes = std::max<std::int64_t>(memory.bytes, 1);
  return memory;
}

Receiver::Receiver(const Plan& plan, Rank rank, transfer::Agent& agent, transfer::Registration memory,
                   std::vector<Peer> peers)
    : plan_(plan),
      rank_(rank),
      agent_(agent),
      memory_(memory),
      peers_(std::move(peers)),
      mine_(memory_of(plan.to(), rank)) {
  peers_.resize(static_cast<std::size_t>(plan.from().ranks));
  for (std::size_t r = 0; r < peers_.size(); ++r)
    if (peers_[r].name.empty()) lost_.push_back(static_cast<Rank>(r));
}

void Receiver::returned(Rank sender, Peer peer) {
  peers_.at(static_cast<std::size_t>(sender)) = std::move(peer);
  std::erase(lost_, sender);
}

Status Receiver::pull(std::chrono::milliseconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  for (;;) {
    WEFT_TRY(const bool all, pass(end));
    if (all) return {};
  }
}

const Memory& Receiver::memory_of_sender(Rank sender) const {
  const auto known = theirs_.find(sender);
  return known != theirs_.end() ? known->second
                                : theirs_.emplace(sender, memory_of(plan_.from(), sender)).first->second;
}

Result<std::map<Rank, std::vector<Receiver::Batch>>> Receiver::batches() const {
  std::map<Rank, std::vector<Batch>> all;
  auto planned = plan_.for_each_unit(rank_, lost_, [&](Plan::Unit unit) {
    if (done_.contains(unit.id)) return;
    auto& batches = all[unit.sender];
    if (batches.empty() || batches.back().bytes + unit.bytes > kBatchBytes ||
        batches.back().here.size() + unit.moves.size() > kBatchRows)
      batches.emplace_back();
    Batch& batch = batches.back();
    batch.units.push_back(unit.id);
    batch.bytes += unit.bytes;
    const Memory& theirs = memory_of_sender(unit.sender);
    const std::uint32_t region = peers_[static_cast<std::size_t>(unit.sender)].region;
    for (const Move& m : unit.moves) {
      batch.here.push_back({memory_.region, mine_.offsets[static_cast<std::size_t>(m.to)] + m.destination, m.bytes,
                            m.destination_stride, m.count});
      batch.there.push_back(
          {region, theirs.offsets[static_cast<std::size_t>(m.from)] + m.source, m.bytes, m.source_stride, m.count});
    }
  });
  if (!planned) {
    Error error = planned.error();
    if (!why_.empty()) error.message += ": " + why_;
    return tl::make_unexpected(std::move(error));
  }
  return all;
}

Result<transfer::Request> Receiver::post(Rank sender, const Batch& batch) {
  WEFT_TRY(const auto here, agent_.prepare("", batch.here));
  WEFT_TRY(const auto there, agent_.prepare(peers_[static_cast<std::size_t>(sender)].name, batch.there));
  WEFT_TRY(auto request, agent_.make(transfer::Op::kRead, here, there));
  WEFT_CHECK(agent_.post(request));
  return request;
}

// Whether all is there. One request per sender is under way; false: a sender was lost, and others must take over.
Result<bool> Receiver::pass(std::chrono::steady_clock::time_point end) {
  WEFT_TRY(const auto all, batches());
  struct Line {
    Rank sender;
    const std::vector<Batch>* batches;
    std::size_t at = 0;
    std::optional<transfer::Request> request;
  };
  std::vector<Line> lines;
  for (const auto& [sender, list] : all) lines.push_back({sender, &list});
  // Receivers begin with different senders.
  if (!lines.empty())
    std::rotate(lines.begin(),
                lines.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(rank_) % lines.size()),
                lines.end());
  bool complete = true;
  while (!lines.empty()) {
    for (Line& line : lines) {
      const Batch& batch = (*line.batches)[line.at];
      if (!line.request) {
        auto request = post(line.sender, batch);
        if (request) {
          line.request = std::move(*request);
        } else {
          why_ = request.error().message;
          lost_.push_back(line.sender);
          line.at = line.batches->size();
          complete = false;
          continue;
        }
      }
      const auto state =
          lines.size() == 1 ? agent_.wait(*line.request, std::chrono::milliseconds(100)) : agent_.poll(*line.request);
      if (!transfer::is_terminal(state)) continue;
      if (state == transfer::State::kDone) {
        done_.insert(batch.units.begin(), batch.units.end());
        arrived_ += batch.bytes;
        ++line.at;
      } else {
        why_ = line.request->error().message;
        lost_.push_back(line.sender);
        line.at = line.batches->size();
        complete = false;
      }
      line.request.reset();
    }
    std::erase_if(lines, [](const Line& line) { return line.at == line.batches->size(); });
    if (!lines.empty() && std::chrono::steady_clock::now() > end) {
      for (Line& line : lines)
        if (line.request) (void)agent_.cancel(*line.request);
      return failure(Code::kTimeout, Blame::kOperation,
                     "rank {}: rank {} of {} has not delivered within the limit; {} B have arrived", rank_,
                     lines.front().sender, plan_.from().name, arrived_);
    }
  }
  return complete;
}

}  // namespace weft::reshard
