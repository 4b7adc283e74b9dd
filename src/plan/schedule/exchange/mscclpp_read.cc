#include "plan/schedule/exchange/mscclpp_read.h"

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/json_text.h"
#include "plan/schedule/exchange/mscclpp_cells.h"
#include "plan/schedule/exchange/mscclpp_lanes.h"
#include "plan/schedule/exchange/place.h"

namespace weft::schedule {
namespace {

using nlohmann::json;
using namespace mscclpp;

class PlanReader : private PlanCells {
 public:
  explicit PlanReader(std::string_view name) : PlanCells(name) {}

  Result<Document> run(const json& root) {
    WEFT_CHECK(read_sizes(root));
    for (std::size_t g = 0; g < gpus_.size(); ++g) {
      int block = 0;
      for (const json& tb : list(*gpus_[g], "threadblocks")) {
        int count = 0;
        WEFT_CHECK(flatten(list(tb, "ops"), static_cast<Rank>(g), block++, count, 0));
      }
    }
    if (static_cast<std::int64_t>(ops_.size()) > limits::kMoves)
      return bad_input("{}: more operations than are read", file_);
    WEFT_CHECK(find_channels());
    WEFT_CHECK(find_packets());
    WEFT_CHECK(make_strands());
    for (const Op& op : ops_) {
      if (const Status done = emit(op); !done)
        return bad_input("{}: gpu {} tb {} op {}: {}", file_, op.gpu, op.block, op.number, done.error().message);
    }
    if (moves_ > limits::kMoves) return bad_input("{}: more steps than are read", file_);
    add_orders();
    const Status fits = check(document_.schedule);
    if (!fits) return bad_input("{}: {}", file_, fits.error().message);
    return std::move(document_);
  }

 private:
  Status flatten(const json& ops, Rank gpu, int block, int& count, int depth) {
    for (const json& op : ops) {
      if (!op.is_object()) return bad_input("{}: gpu {} tb {}: an operation that is no object", file_, gpu, block);
      if (word(op, "name") == "pipeline") {
        if (depth > 0) return bad_input("{}: gpu {} tb {}: a pipeline within a pipeline", file_, gpu, block);
        WEFT_CHECK(flatten(list(op, "ops"), gpu, block, count, depth + 1));
        continue;
      }
      ops_.push_back({&op, gpu, block, count++});
      const std::string name = word(op, "name");
      const auto semaphores = [&](std::map<std::pair<Rank, std::int64_t>, std::vector<int>>& lanes) {
        for (const json& id : list(op, "semaphore_ids"))
          if (id.is_number_integer()) lanes[{gpu, id.get<std::int64_t>()}].push_back(block);
      };
      if (name == "sem_release") semaphores(releases_);
      if (name == "sem_acquire") semaphores(acquires_);
    }
    return {};
  }

  static bool writes_packets(const std::string& name) {
    return name == "ppkt" || name == "cpkt" || name == "rppkt" || name == "respkt" || name == "recspkt";
  }
  static bool reads_packets(const std::string& name) {
    return name == "upkt" || name == "rppkt" || name == "respkt" || name == "recspkt" || name == "recpkt";
  }

  // Which thread block writes each packet and which reads it.
  Status find_packets() {
    for (const Op& op : ops_) {
      const std::string name = word(*op.op, "name");
      const auto each = [&](const char* side, std::map<Where, std::pair<Rank, int>>& blocks_of, bool once) -> Status {
        for (const json& reference : list(*op.op, side))
          for (std::int64_t i = 0; i < range(op, reference).second; ++i) {
            WEFT_TRY(const Where where, place(op, reference, i));
            if (std::get<1>(where) != Buffer::kScratch) continue;
            const bool added = blocks_of.try_emplace(where, op.gpu, op.block).second;
            if (!added && once)
              return bad_input("gpu {} tb {} op {}: scratch {} is {} a second time", op.gpu, op.block, op.number,
                               std::get<2>(where) / parts_, side == std::string_view("src_buff") ? "read" : "written");
          }
        return {};
      };
      if (writes_packets(name))
        if (const Status ok = each("dst_buff", writers_, true); !ok)
          return bad_input("{}: {}", file_, ok.error().message);
      if (reads_packets(name))
        if (const Status ok = each("src_buff", readers_, true); !ok)
          return bad_input("{}: {}", file_, ok.error().message);
    }
    return {};
  }

  // Which thread blocks signal and wait on each channel.
  Status find_channels() {
    channels_.connect(gpus_);
    for (const Op& op : ops_) {
      const std::string name = word(*op.op, "name");
      const bool signals = name.ends_with("signal");
      if ((!signals && !name.ends_with("wait")) || word(*op.op, "channel_type") != "memory") continue;
      for (const json& index : list(*op.op, "channel_ids")) {
        const auto id = index.is_number_integer() ? channel(op, "memory", index.get<std::int64_t>())
                                                  : Result<std::int64_t>(bad_input("a channel that is no number"));
        if (!id) return bad_input("{}: gpu {} tb {} op {}: {}", file_, op.gpu, op.block, op.number, id.error().message);
        signals ? channels_.signals(op.gpu, op.block, *id) : channels_.waits(op.gpu, op.block, *id);
      }
    }
    if (const Status done = channels_.assign(); !done) return bad_input("{}: {}", file_, done.error().message);
    schedule().lanes = channels_.lanes();
    if (schedule().lanes > limits::kLanes)
      return bad_input("{}: {} lanes of thread blocks and of their signals; at most {} are read", file_,
                       schedule().lanes, limits::kLanes);
    return {};
  }

  int lane(const Op& op) const { return channels_.lane_of(op.gpu, op.block); }
  std::vector<Step>& strand(const Op& op) { return schedule().strand(op.gpu, lane(op)); }

  // A signal or a wait, in the lane of the two thread blocks that it joins.
  Status across(const Op& op, std::int64_t index, bool signals) {
    WEFT_TRY(const std::int64_t id, channel(op, "memory", index));
    WEFT_TRY(const auto other, channels_.other_end(op.gpu, id));
    const int own = lane(op), shared = signals ? channels_.lane_of_signal(op.gpu, op.block, id)
                                               : channels_.lane_of_wait(op.gpu, op.block, id);
    auto& steps = schedule().strand(op.gpu, shared);
    const auto before = static_cast<std::int32_t>(strand(op).size());
    steps.push_back(signals ? signal(other.first) : wait(other.first));
    if (shared == own) return {};
    const auto mine = static_cast<std::int32_t>(steps.size()) - 1;
    const auto strand_of = [&](int l) { return op.gpu * schedule().lanes + l; };
    if (!signals)
      shared_.push_back({strand_of(own), before, shared, mine});
    else if (before > 0)
      shared_.push_back({strand_of(shared), mine, own, before - 1});
    return {};
  }

  // Each pair of thread blocks that exchange packets has a connection of its own.
  Result<Operand> packet(const Where& where, Rank peer) {
    const auto writer = writers_.find(where), reader = readers_.find(where);
    if (writer == writers_.end() || reader == readers_.end()) return bad_input("a packet that is written or read only");
    const auto key = std::tuple(writer->second, reader->second);
    auto& used = connections_[std::pair(writer->second.first, reader->second.first)];
    auto found = used.find(key);
    if (found == used.end()) found = used.emplace(key, static_cast<int>(used.size())).first;
    if (found->second >= schedule().lanes)
      return bad_input("more pairs of thread blocks send packets from gpu {} to {} than there are thread blocks",
                       writer->second.first, reader->second.first);
    return from(peer, found->second);
  }

  Result<Operand> operand(const Op& op, const Where& where, bool source) {
    const auto [rank, buffer, chunk] = where;
    const std::string name = word(*op.op, "name");
    const bool packets = buffer == Buffer::kScratch && (source ? reads_packets(name) : writes_packets(name));
    if (packets && writers_.contains(where) && readers_.contains(where)) {
      const auto writer = writers_[where], reader = readers_[where];
      if (writer.first != reader.first) return packet(where, source ? writer.first : reader.first);
    }
    // A call in place has one memory: what is written there is output.
    const Buffer own = document_.in_place && buffer == Buffer::kIn && !source ? Buffer::kOut : buffer;
    const Operand local{.buffer = own, .chunk = chunk};
    return rank == op.gpu ? local : at(rank, local);
  }

  // Connections are numbered as lanes are: there are as many lanes as pairs of thread blocks between two gpus.
  Status make_strands() {
    std::map<std::pair<Rank, Rank>, std::set<std::pair<int, int>>> pairs;
    for (const auto& [where, writer] : writers_)
      if (const auto reader = readers_.find(where); reader != readers_.end() && reader->second.first != writer.first)
        pairs[{writer.first, reader->second.first}].emplace(writer.second, reader->second.second);
    for (const auto& [gpus, blocks] : pairs)
      schedule().lanes = std::max(schedule().lanes, static_cast<int>(blocks.size()));
    if (schedule().lanes > limits::kLanes)
      return bad_input("{}: more than {} pairs of thread blocks exchange packets", file_, limits::kLanes);
    schedule().strands.resize(static_cast<std::size_t>(shape().ranks) * static_cast<std::size_t>(schedule().lanes));
    return {};
  }

  // What one thread block of a gpu waits for in another: the step that comes next waits for the last one before.
  struct Meeting {
    int lane = -1;
    std::int64_t step = -1;
  };
  void add_orders() {
    for (const auto& [key, begin] : begins_) {
      const auto end = ends_.find(key);
      if (end == ends_.end() || end->second.step < 0 || end->second.lane == begin.lane) continue;
      const auto rank = std::get<0>(key);
      const std::int32_t strand = rank * schedule().lanes + begin.lane;
      if (begin.step >= static_cast<std::int64_t>(schedule().strands[static_cast<std::size_t>(strand)].size()))
        continue;
      schedule().orders.push_back({strand, static_cast<std::int32_t>(begin.step), end->second.lane,
                                   static_cast<std::int32_t>(end->second.step)});
    }
    for (const auto& [key, blocks] : barriers_)
      for (const Meeting& waits : blocks)
        for (const Meeting& before : blocks)
          if (before.lane != waits.lane && before.step > 0)
            shared_.push_back({std::get<0>(key) * schedule().lanes + waits.lane, static_cast<std::int32_t>(waits.step),
                               before.lane, static_cast<std::int32_t>(before.step) - 1});
    for (const auto& order : shared_)
      if (order.step < static_cast<std::int32_t>(schedule().strands[static_cast<std::size_t>(order.strand)].size()))
        schedule().orders.push_back(order);
    std::ranges::sort(schedule().orders);
    const auto [first, last] = std::ranges::unique(schedule().orders);
    schedule().orders.erase(first, last);
  }
  void note(const Op& op, int kind, std::int64_t what, std::int64_t nth, bool begins) {
    const auto steps = static_cast<std::int64_t>(strand(op).size());
    (begins ? begins_ : ends_)[{op.gpu, kind, what, nth}] = {lane(op), begins ? steps : steps - 1};
  }

  // A packet that another thread block of the same gpu reads or has written.
  void meet_locally(const Op& op, const std::vector<Where>& places, bool reading) {
    for (const Where& where : places) {
      const auto& others = reading ? writers_ : readers_;
      const auto other = others.find(where);
      if (other == others.end() || other->second.first != op.gpu || other->second.second == op.block) continue;
      note(op, 0, std::get<2>(where), 0, reading);
    }
  }

  Status emit(const Op& op) {
    const std::string name = word(*op.op, "name");
    if (name == "nop" || name == "flush") return {};
    if (name == "signal" || name == "rlxsignal" || name == "wait" || name == "rlxwait") {
      if (word(*op.op, "channel_type") != "memory")
        return bad_input("'{}' on a {} channel is not read", name, word(*op.op, "channel_type"));
      for (const json& index : list(*op.op, "channel_ids")) {
        if (!index.is_number_integer()) return bad_input("a channel that is no number");
        WEFT_CHECK(across(op, index.get<std::int64_t>(), name.ends_with("signal")));
      }
      return {};
    }
    if (name == "sem_acquire" || name == "sem_release") return semaphore(op, name == "sem_acquire");
    if (name == "barrier") return barrier(op);
    if (name == "glres" || name == "gstore") return through_switch(op, name == "gstore");
    for (const char* known : {"copy", "put", "get", "res", "rres", "rre", "re", "ppkt", "upkt", "cpkt", "rppkt",
                              "respkt", "recspkt", "recpkt"})
      if (name == known) return moves(op);
    return bad_input("operation '{}' is not read", name);
  }

  // Thread blocks of one gpu: what comes behind waits for what each of the others did before.
  Status barrier(const Op& op) {
    const std::int64_t id = number(*op.op, "barrier_id", -1);
    if (id < 0) return bad_input("a barrier without a number");
    const auto nth = reached_[{op.gpu, id, op.block}]++;
    barriers_[{op.gpu, id, nth}].push_back({lane(op), static_cast<std::int64_t>(strand(op).size())});
    return {};
  }

  Status semaphore(const Op& op, bool acquire) {
    for (const json& id : list(*op.op, "semaphore_ids")) {
      if (!id.is_number_integer()) return bad_input("a semaphore that is no number");
      const auto key = std::pair(op.gpu, id.get<std::int64_t>());
      const json& all = list(*gpus_[static_cast<std::size_t>(op.gpu)], "semaphores");
      const auto& from = releases_[key];
      const auto& to = acquires_[key];
      if (key.second < 0 || key.second >= static_cast<std::int64_t>(all.size()))
        return bad_input("there is no semaphore {}", key.second);
      const bool one =
          std::set<int>(from.begin(), from.end()).size() <= 1 && std::set<int>(to.begin(), to.end()).size() <= 1;
      if (!one) return bad_input("semaphore {} of several thread blocks is not read", key.second);
      // The first acquisitions are served by the initial value; releases that nobody acquires are left out.
      const auto initial =
          std::max<std::int64_t>(0, number(all[static_cast<std::size_t>(key.second)], "init_value", 0));
      const auto needed = std::max<std::int64_t>(0, static_cast<std::int64_t>(to.size()) - initial);
      std::int64_t& seen = (acquire ? acquired_ : released_)[key];
      const std::int64_t mine = seen++ - (acquire ? initial : 0);
      if (mine < 0 || mine >= needed) continue;
      if (from.empty()) return bad_input("semaphore {} is never released", key.second);
      if (from.front() == to.front()) continue;  // one thread block is in order anyway
      note(op, 1, key.second, mine, acquire);
    }
    return {};
  }

  Status through_switch(const Op& op, bool store) {
    const json& sources = list(*op.op, "src_buff");
    const json& targets = list(*op.op, "dst_buff");
    if (sources.size() != 1 || targets.size() != 1)
      return bad_input("{} with {} sources", word(*op.op, "name"), sources.size());
    const std::int64_t index = number(store ? targets[0] : sources[0], "switch_channel_id", 0);
    WEFT_TRY(const std::int64_t id, channel(op, "switch", index));
    WEFT_TRY(const Switch through, switch_of(op, id));
    const auto& [group, type] = through;
    for (std::int64_t i = 0; i < range(op, sources[0]).second; ++i) {
      WEFT_TRY(const Where from, cell(op, op.gpu, store ? word(sources[0], "type") : type, sources[0], i));
      WEFT_TRY(const Where to, cell(op, op.gpu, type, targets[0], i));
      WEFT_TRY(const Operand source, operand(op, from, true));
      WEFT_TRY(const Operand target, operand(op, to, false));
      strand(op).push_back(
          move(chunk_of(from, to), {store ? source : everywhere(group, source)}, {everywhere(group, target)}));
      ++moves_;
    }
    return {};
  }

  // Chunks are of one size but for the last ones; a slot has that of what was put into it.
  ChunkId chunk_of(const Where& from, const Where& to) {
    ChunkId chunk = 0;
    if (std::get<1>(from) != Buffer::kScratch)
      chunk = std::get<2>(from);
    else if (std::get<1>(to) != Buffer::kScratch)
      chunk = std::get<2>(to);
    else if (const auto known = in_slot_.find(from); known != in_slot_.end())
      chunk = known->second;
    if (std::get<1>(to) == Buffer::kScratch) in_slot_[to] = chunk;
    return chunk;
  }

  Status moves(const Op& op) {
    const json& sources = list(*op.op, "src_buff");
    const json& targets = list(*op.op, "dst_buff");
    const std::string name = word(*op.op, "name");
    if (sources.empty() || targets.empty()) return bad_input("'{}' without a source or a destination", name);
    const auto all = [](const json& side) {
      std::vector<const json*> references;
      for (const json& reference : side) references.push_back(&reference);
      return references;
    };
    // Transfers with as many sources as destinations are pairs; what reduces sums its sources.
    bool pairs = sources.size() > 1 && sources.size() == targets.size();
    pairs = pairs && std::ranges::any_of(std::array{"put", "ppkt", "copy", "cpkt", "get", "upkt", "rppkt"},
                                         [&](const char* one) { return name == one; });
    if (!pairs) return moves_of(op, all(sources), all(targets));
    for (std::size_t i = 0; i < sources.size(); ++i) WEFT_CHECK(moves_of(op, {&sources[i]}, {&targets[i]}));
    return {};
  }

  Status moves_of(const Op& op, const std::vector<const json*>& sources, const std::vector<const json*>& targets) {
    const std::int64_t count = range(op, *sources[0]).second;
    for (const auto* side : {&sources, &targets})
      for (const json* reference : *side)
        if (range(op, *reference).second != count) return bad_input("sizes of '{}' differ", word(*op.op, "name"));
    for (std::int64_t i = 0; i < count && moves_ <= limits::kMoves; ++i, ++moves_) {
      Operands from, to;
      std::vector<Where> read, written;
      for (const json* reference : sources) {
        WEFT_TRY(const Where where, place(op, *reference, i));
        read.push_back(where);
        WEFT_TRY(const Operand one, operand(op, where, true));
        from.push_back(one);
      }
      for (const json* reference : targets) {
        WEFT_TRY(const Where at, place(op, *reference, i));
        const Where where = as_written(at);
        written.push_back(where);
        WEFT_TRY(const Operand one, operand(op, where, false));
        to.push_back(one);
      }
      if (reads_packets(word(*op.op, "name"))) meet_locally(op, read, true);
      strand(op).push_back(move(chunk_of(read[0], written[0]), std::move(from), std::move(to)));
      if (writes_packets(word(*op.op, "name"))) meet_locally(op, written, false);
    }
    return {};
  }

  std::vector<Op> ops_;
  std::int64_t moves_ = 0;
  std::map<Where, std::pair<Rank, int>> writers_, readers_;  // of packets: gpu and thread block
  std::map<std::pair<Rank, Rank>, std::map<std::tuple<std::pair<Rank, int>, std::pair<Rank, int>>, int>> connections_;
  std::map<std::pair<Rank, std::int64_t>, std::vector<int>> releases_, acquires_;  // thread blocks, per semaphore
  std::map<std::pair<Rank, std::int64_t>, std::int64_t> released_, acquired_;
  std::map<Where, ChunkId> in_slot_;
  ChannelLanes channels_;
  std::vector<Order> shared_;  // between a thread block's lane and that of its signals
  std::map<std::tuple<Rank, std::int64_t, int>, std::int64_t> reached_;  // barriers of a gpu, per thread block
  std::map<std::tuple<Rank, std::int64_t, std::int64_t>, std::vector<Meeting>> barriers_;  // gpu, number, which time
  // By gpu, kind (0: packet, 1: semaphore), which of them, and the number of its use.
  std::map<std::tuple<Rank, int, std::int64_t, std::int64_t>, Meeting> begins_, ends_;
};

}  // namespace

bool is_mscclpp(std::string_view text) {
  return text.find("\"gpus\"") != std::string_view::npos && text.find("\"threadblocks\"") != std::string_view::npos;
}

Result<Document> parse_mscclpp(std::string_view name, std::string_view text) {
  if (text.size() > limits::kBytes)
    return bad_input("{}: {} bytes; at most {} are read", name, text.size(), limits::kBytes);
  WEFT_TRY(const json root, parse_json(name, text));
  if (!root.is_object()) return bad_input("{}: no JSON object", name);
  return PlanReader(name).run(root);
}

}  // namespace weft::schedule
