#include "plan/schedule/exchange/mscclpp_cells.h"

#include <algorithm>
#include <numeric>

#include "plan/schedule/exchange/place.h"

namespace weft::schedule::mscclpp {

using nlohmann::json;

namespace {
constexpr int kMostParts = 64;  // thread blocks of a group
}  // namespace

std::int64_t number(const json& object, const char* key, std::int64_t otherwise) {
  const auto at = object.find(key);
  return at != object.end() && at->is_number_integer() ? at->get<std::int64_t>() : otherwise;
}
std::string word(const json& object, const char* key) {
  const auto at = object.find(key);
  return at != object.end() && at->is_string() ? at->get<std::string>() : "";
}
const json& list(const json& object, const char* key) {
  static const json none = json::array();
  const auto at = object.find(key);
  return at != object.end() && at->is_array() ? *at : none;
}

Status PlanCells::read_head(const json& root) {
  document_.name = word(root, "name");
  if (document_.name.empty()) document_.name = "plan";
  const auto collective = parse_collective(word(root, "collective"));
  if (!collective) return bad_input("{}: {}", file_, collective.error().message);
  shape().collective = *collective;
  if (!alike(*collective) || rooted(*collective) || *collective == Collective::kBarrier)
    return bad_input("{}: plans of {} are not read", file_, weft::schedule::name(*collective));
  const auto in_place = root.find("inplace");
  document_.in_place = in_place != root.end() && in_place->is_boolean() && in_place->get<bool>();
  document_.out_of_place = !document_.in_place;
  return {};
}

Status PlanCells::read_sizes(const json& root) {
  WEFT_CHECK(read_head(root));
  for (const json& gpu : list(root, "gpus")) gpus_.push_back(&gpu);
  const auto ranks = static_cast<std::int64_t>(gpus_.size());
  if (ranks < 1 || ranks > limits::kRanks)
    return bad_input("{}: {} gpus; 1 to {} are read", file_, ranks, limits::kRanks);
  shape().ranks = static_cast<Rank>(ranks);
  std::int64_t lanes = 1, scratch = 0, input = 0, output = 0;
  for (const json* gpu : gpus_) {
    if (!gpu->is_object()) return bad_input("{}: a gpu that is no object", file_);
    lanes = std::max(lanes, static_cast<std::int64_t>(list(*gpu, "threadblocks").size()));
    scratch = std::max(scratch, number(*gpu, "scratch_chunks", 0));
    input = std::max(input, number(*gpu, "input_chunks", 0));
    output = std::max(output, number(*gpu, "output_chunks", 0));
    for (const json& tb : list(*gpu, "threadblocks")) find_parts(list(tb, "ops"), 0);
  }
  if (parts_ > kMostParts) return bad_input("{}: thread block groups of more than {}", file_, kMostParts);
  if (lanes > limits::kLanes)
    return bad_input("{}: {} thread blocks; at most {} are read", file_, lanes, limits::kLanes);
  const auto all = blocks(shape().collective, shape().ranks);
  // A buffer's chunks follow from what a rank holds of the message.
  const auto held_in = held_blocks(shape(), Buffer::kIn, 0).count,
             held_out = held_blocks(shape(), Buffer::kOut, 0).count;
  std::int64_t each = 0;
  if (input > 0 && held_in > 0 && input % held_in == 0) each = input / held_in;
  if (each == 0 && output > 0 && held_out > 0 && output % held_out == 0) each = output / held_out;
  if (each < 1 || each > limits::kCells)
    return bad_input("{}: input_chunks {} and output_chunks {} fit no {} of {} gpus", file_, input, output,
                     weft::schedule::name(shape().collective), ranks);
  shape().chunks = each * all * parts_;
  if (scratch < 0 || scratch > limits::kCells) return bad_input("{}: scratch_chunks {}", file_, scratch);
  schedule().scratch = static_cast<int>(scratch) * parts_;
  schedule().lanes = static_cast<int>(lanes);
  WEFT_CHECK(check_size(ranks, lanes, shape().chunks, schedule().scratch, 0));
  return {};
}

void PlanCells::find_parts(const json& ops, int depth) {
  for (const json& op : ops) {
    if (!op.is_object()) continue;
    const auto group = op.find("tbg_info");
    if (group != op.end() && group->is_object())
      parts_ = std::lcm(parts_, std::clamp<std::int64_t>(number(*group, "tbg_size", 1), 1, kMostParts));
    parts_ = std::min<std::int64_t>(parts_, kMostParts + 1);
    if (depth < 2) find_parts(list(op, "ops"), depth + 1);
  }
}

const json& PlanCells::block_of(const Op& op) const {
  return list(*gpus_[static_cast<std::size_t>(op.gpu)], "threadblocks")[static_cast<std::size_t>(op.block)];
}

Result<std::int64_t> PlanCells::channel(const Op& op, const std::string& type, std::int64_t index) const {
  for (const json& own : list(block_of(op), "channels"))
    if (word(own, "channel_type") == type) {
      const json& ids = list(own, "channel_ids");
      if (index >= 0 && index < static_cast<std::int64_t>(ids.size()) &&
          ids[static_cast<std::size_t>(index)].is_number_integer())
        return ids[static_cast<std::size_t>(index)].get<std::int64_t>();
    }
  return bad_input("there is no {} channel {}", type, index);
}

std::pair<std::int64_t, std::int64_t> PlanCells::range(const Op& op, const json& reference) const {
  const std::int64_t index = number(reference, "index", -1), size = number(reference, "size", 1);
  std::int64_t of = 1, part = 0;
  if (const auto group = op.op->find("tbg_info"); group != op.op->end() && group->is_object())
    of = std::max<std::int64_t>(1, number(*group, "tbg_size", 1)), part = number(*group, "tb_id", 0);
  if (index < 0 || size < 1 || index > limits::kCells || size > limits::kCells || part < 0 || part >= of)
    return {-1, 0};
  const std::int64_t count = size * parts_ / of;
  return {index * parts_ + part * count, count};
}

Result<Where> PlanCells::place(const Op& op, const json& reference, std::int64_t i) const {
  Rank rank = op.gpu;
  std::string type = word(reference, "type");
  if (reference.contains("buffer_id")) {
    const std::int64_t index = number(reference, "buffer_id", -1);
    const json* ids = nullptr;
    for (const json& used : list(block_of(op), "remote_buffer_refs"))
      if (word(used, "access_channel_type") == "memory") ids = &list(used, "remote_buffer_ids");
    const json& all = list(*gpus_[static_cast<std::size_t>(op.gpu)], "remote_buffers");
    if (ids == nullptr || index < 0 || index >= static_cast<std::int64_t>(ids->size()))
      return bad_input("there is no remote buffer {}", index);
    const json& id = (*ids)[static_cast<std::size_t>(index)];
    if (!id.is_number_unsigned() || id.get<std::size_t>() >= all.size())
      return bad_input("there is no remote buffer {}", index);
    const json& remote = all[id.get<std::size_t>()];
    const std::int64_t peer = number(remote, "rank", -1);
    if (peer < 0 || peer >= document_.schedule.shape.ranks)
      return bad_input("remote buffer {} is of rank {}", index, peer);
    rank = static_cast<Rank>(peer), type = word(remote, "type");
  }
  return cell(op, rank, type, reference, i);
}

Result<Where> PlanCells::cell(const Op& op, Rank rank, const std::string& type, const json& reference,
                              std::int64_t i) const {
  const auto [first, count] = range(op, reference);
  if (first < 0 || i >= count) return bad_input("a reference without index and size");
  const std::int64_t at = first + i;
  if (type == "s") {
    if (at >= document_.schedule.scratch)
      return bad_input("scratch {} of {}", at / parts_, document_.schedule.scratch / parts_);
    return Where{rank, Buffer::kScratch, at};
  }
  if (type != "i" && type != "o") return bad_input("buffer '{}' is none of i, o, s", type);
  const Buffer buffer = type == "i" ? Buffer::kIn : Buffer::kOut;
  const Shape& s = document_.schedule.shape;
  if (at >= chunks_held(s, buffer, rank))
    return bad_input("{} {} of {}", type, at / parts_, chunks_held(s, buffer, rank) / parts_);
  return Where{rank, buffer, chunk_at(s, buffer, rank, static_cast<int>(at))};
}

Result<Switch> PlanCells::switch_of(const Op& op, std::int64_t id) const {
  // Newer plans have an entry per channel, older ones one entry with all groups.
  const json* all = nullptr;
  const json* own = nullptr;
  std::int64_t before = 0;
  for (const json& channels : list(*gpus_[static_cast<std::size_t>(op.gpu)], "channels")) {
    if (word(channels, "channel_type") != "switch") continue;
    for (const json& group : list(channels, "rank_groups"))
      if (before++ == id) all = &channels, own = &group;
  }
  if (own == nullptr) return bad_input("there is no switch channel {}", id);
  std::vector<std::int64_t> ranks;
  for (const json& rank : list(*own, "ranks"))
    if (rank.is_number_integer()) ranks.push_back(rank.get<std::int64_t>());
  if (ranks.size() < 2) return bad_input("a switch channel of {} ranks", ranks.size());
  const Group group{static_cast<Rank>(ranks[0]), static_cast<Rank>(ranks.size()),
                    static_cast<Rank>(ranks[1] - ranks[0])};
  for (std::size_t i = 0; i < ranks.size(); ++i)
    if (ranks[i] < 0 || ranks[i] >= document_.schedule.shape.ranks || ranks[i] != group.member(static_cast<Rank>(i)) ||
        group.stride < 1)
      return bad_input("a switch channel of ranks in unequal distances");
  std::string type = word(*all, "buffer_type");
  if (type.empty()) type = word(*all, "buff");
  return Switch{group, std::move(type)};
}

Where PlanCells::as_written(const Where& where) const {
  const auto [rank, buffer, chunk] = where;
  const Shape& s = document_.schedule.shape;
  if (!document_.in_place || buffer != Buffer::kIn || s.collective != Collective::kAllToAll) return where;
  return {rank, Buffer::kOut,
          chunk_at(s, Buffer::kOut, rank, static_cast<int>(chunk - chunk_at(s, Buffer::kIn, rank, 0)))};
}

}  // namespace weft::schedule::mscclpp
