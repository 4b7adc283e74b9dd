#include "move/reshard/receiver.h"

#include <algorithm>
#include <cstring>

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
  changes_.forget(sender);
  block_bytes_.erase(sender);
}

Status Receiver::pull(std::chrono::milliseconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  for (;;) {
    if (version_ > 0) WEFT_CHECK(read_tables());
    WEFT_TRY(const bool all, pass(end));
    if (!all) continue;
    if (version_ > 0) WEFT_CHECK(still_there());
    changes_.end();
    ended_ = true;
    return {};
  }
}

void Receiver::begin(std::int64_t version) {
  changes_.begin(ended_);
  version_ = version;
  ended_ = false;
  done_.clear();
  arrived_ = 0;
}

// The row, or what has changed of it. Elements at equal distances stay one row.
void Receiver::add_rows(Batch& batch, Rank sender, std::int64_t unit, const transfer::Rows& here,
                        const transfer::Rows& there) const {
  if (!changes_.known(unit, sender)) {
    batch.here.push_back(here);
    batch.there.push_back(there);
    batch.bytes += here.bytes * here.count;
    return;
  }
  std::int64_t last = -1;
  changes_.for_each_change(sender, there, [&](std::int64_t e, std::int64_t offset, std::int64_t bytes) {
    batch.bytes += bytes;
    const std::int64_t from = there.offset + e * there.stride + offset, to = here.offset + e * here.stride + offset;
    if (last >= 0 && e == last + 1 && offset == 0 && bytes == there.bytes && batch.there.back().bytes == bytes) {
      transfer::Rows &a = batch.here.back(), &b = batch.there.back();
      if (a.count > 1 || (from - b.offset == there.stride && to - a.offset == here.stride)) {
        ++a.count;
        ++b.count;
        last = e;
        return;
      }
    }
    batch.here.push_back({here.region, to, bytes, here.stride, 1});
    batch.there.push_back({there.region, from, bytes, there.stride, 1});
    last = offset == 0 && bytes == there.bytes ? e : -1;
  });
}

Result<Table> Receiver::read_table(Rank sender, bool header_only) {
  const Peer& peer = peers_[static_cast<std::size_t>(sender)];
  const auto header_bytes = static_cast<std::int64_t>(sizeof(TableHeader));
  const auto read = [&](std::int64_t bytes) -> Status {
    if (table_.bytes < bytes) {
      if (table_.bytes > 0) WEFT_CHECK(agent_.deregister(table_));
      WEFT_TRY(table_, agent_.allocate(bytes));
    }
    const transfer::Rows here{table_.region, 0, bytes, 0, 1}, there{*peer.table, 0, bytes, 0, 1};
    WEFT_TRY(const auto mine, agent_.prepare("", {&here, 1}));
    WEFT_TRY(const auto theirs, agent_.prepare(peer.name, {&there, 1}));
    WEFT_TRY(auto request, agent_.make(transfer::Op::kRead, mine, theirs, {.deadline = std::chrono::seconds(30)}));
    WEFT_CHECK(agent_.post(request));
    if (agent_.wait(request) != transfer::State::kDone) return tl::make_unexpected(request.error());
    return {};
  };
  Table table;
  const std::int64_t memory = memory_of_sender(sender).bytes;
  const auto known = block_bytes_.find(sender);  // then one read has all
  const std::int64_t bytes =
      header_only || known == block_bytes_.end() ? header_bytes : table_bytes(memory, known->second);
  WEFT_CHECK(read(bytes));
  std::memcpy(&table.header, table_.data, sizeof(TableHeader));
  if (header_only) return table;
  const TableHeader h = table.header;
  if (h.block_bytes < 64 || h.memory_bytes != memory)
    return failure(Code::kMismatch, Blame::kOperation, "rank {} of {} has a table of {} B in blocks of {}, not of {} B",
                   sender, plan_.from().name, h.memory_bytes, h.block_bytes, memory);
  if (bytes != table_bytes(memory, h.block_bytes)) {
    block_bytes_[sender] = h.block_bytes;
    WEFT_CHECK(read(table_bytes(memory, h.block_bytes)));
    std::memcpy(&table.header, table_.data, sizeof(TableHeader));
  }
  table.blocks.resize(static_cast<std::size_t>((h.memory_bytes + h.block_bytes - 1) / h.block_bytes));
  std::memcpy(table.blocks.data(), table_.data + header_bytes, table.blocks.size() * sizeof(Digest));
  return table;
}

// Of every sender that is asked for something. One whose table cannot be read is lost.
Status Receiver::read_tables() {
  WEFT_TRY(const auto all, batches());
  for (const auto& [sender, list] : all) {
    if (changes_.table(sender) != nullptr) continue;
    if (!peers_[static_cast<std::size_t>(sender)].table)
      return bad_input("rank {} of {} publishes no table: versions need one", sender, plan_.from().name);
    auto table = read_table(sender, false);
    if (!table && table.error().code == Code::kMismatch) return tl::make_unexpected(table.error());
    if (!table) {
      why_ = table.error().message;
      lost_.push_back(sender);
      return read_tables();
    }
    if (static_cast<std::int64_t>(table->header.version) != version_)
      return failure(Code::kMismatch, Blame::kOperation, "rank {} of {} has {}, not version {}", sender,
                     plan_.from().name,
                     table->header.version == 0 ? "memory that is being written"
                                                : fmt::format("version {}", table->header.version),
                     version_);
    changes_.read_table(sender, std::move(*table));
  }
  return {};
}

// That no sender has begun the next version while this one was read.
Status Receiver::still_there() {
  for (Rank sender = 0; sender < plan_.from().ranks; ++sender) {
    if (changes_.table(sender) == nullptr || std::ranges::find(lost_, sender) != lost_.end()) continue;
    const auto table = read_table(sender, true);
    if (table && static_cast<std::int64_t>(table->header.version) == version_) continue;
    done_.clear();
    changes_.begin(false);
    if (!table) return tl::make_unexpected(table.error());
    return failure(Code::kMismatch, Blame::kOperation, "rank {} of {} began another version while {} was read", sender,
                   plan_.from().name, version_);
  }
  return {};
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
    const std::int64_t expected = changes_.known(unit.id, unit.sender) ? 0 : unit.bytes;
    if (batches.empty() || batches.back().bytes + expected > kBatchBytes ||
        batches.back().here.size() + unit.moves.size() > kBatchRows)
      batches.emplace_back();
    Batch& batch = batches.back();
    batch.units.push_back(unit.id);
    const Memory& theirs = memory_of_sender(unit.sender);
    const std::uint32_t region = peers_[static_cast<std::size_t>(unit.sender)].region;
    for (const Move& m : unit.moves) {
      const transfer::Rows here{memory_.region, mine_.offsets[static_cast<std::size_t>(m.to)] + m.destination, m.bytes,
                                m.destination_stride, m.count};
      const transfer::Rows there{region, theirs.offsets[static_cast<std::size_t>(m.from)] + m.source, m.bytes,
                                 m.source_stride, m.count};
      add_rows(batch, unit.sender, unit.id, here, there);
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

void Receiver::arrived(Rank sender, const Batch& batch) {
  done_.insert(batch.units.begin(), batch.units.end());
  for (const std::int64_t unit : batch.units) changes_.arrived(unit, sender);
  arrived_ += batch.bytes;
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
      if (batch.here.empty()) {  // nothing has changed
        arrived(line.sender, batch);
        ++line.at;
        continue;
      }
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
        arrived(line.sender, batch);
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
