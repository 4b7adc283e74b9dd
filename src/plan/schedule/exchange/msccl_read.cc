#include <algorithm>
#include <deque>
#include <map>

#include "base/xml_file.h"
#include "plan/schedule/exchange/msccl_xml.h"
#include "plan/schedule/exchange/place.h"

namespace weft::schedule {
namespace {

constexpr std::int64_t kMostChannels = 1024;
constexpr std::int64_t kAnything = INT32_MAX;  // numbers that other limits bound

// What a step's type makes of its connection and its two places.
struct Type {
  std::string_view name;
  bool receives, sends, reads, writes;  // `reads` srcbuf, `writes` dstbuf
};
constexpr Type kTypes[] = {
    {"s", false, true, true, false},  {"r", true, false, false, true},  {"cpy", false, false, true, true},
    {"re", false, false, true, true}, {"rcs", true, true, false, true}, {"rrc", true, false, true, true},
    {"rrs", true, true, true, false}, {"rrcs", true, true, true, true}, {"nop", false, false, false, false}};

struct ThreadBlock {
  Rank rank = 0;
  int id = 0;
  Rank send = -1, recv = -1;
  int channel = 0;
  bool there = false;
  std::vector<int> ends;  // of every <step>: its last step in the strand; -1 for a nop
};

struct Wait {  // of a step of the strand for a <step> of another thread block
  std::size_t strand;
  int step, tb, after;
  std::int32_t line;
};

class Reader {
 public:
  Reader(std::string_view name, const XmlFile& file) : name_(name), file_(file) {}

  Result<Document> run() {
    const pugi::xml_node algo = file_.root();
    if (std::string_view(algo.name()) != "algo")
      return bad_input("{}: <{}> where MSCCL's <algo> is expected", file_.where(algo), algo.name());
    WEFT_CHECK(read_shape(algo));
    WEFT_CHECK(read_size(algo));
    for (const pugi::xml_node gpu : algo.children("gpu"))
      for (const pugi::xml_node tb : gpu.children("tb")) WEFT_CHECK(read_tb(gpu, tb));
    for (const pugi::xml_node gpu : algo.children("gpu"))
      for (const pugi::xml_node tb : gpu.children("tb")) WEFT_CHECK(read_steps(gpu, tb));
    WEFT_CHECK(join_waits());
    name_chunks();
    return std::move(document_);
  }

 private:
  Result<std::int64_t> number(pugi::xml_node node, const char* attribute, std::int64_t low, std::int64_t high) const {
    if (!node.attribute(attribute)) return bad_input("{}: <{}> has no {}", file_.where(node), node.name(), attribute);
    return file_.integer(node, attribute, low, high, low);
  }

  Status read_shape(pugi::xml_node algo) {
    document_.name = algo.attribute("name").value();
    WEFT_TRY(const std::int64_t ranks, number(algo, "ngpus", 1, limits::kRanks));
    WEFT_TRY(const std::int64_t per_loop, number(algo, "nchunksperloop", 1, limits::kCells));
    const std::string_view word = algo.attribute("coll").value();
    const auto collective = parse_collective(word);
    if (!collective && word == "custom")
      return bad_input("{}: a custom collective says nowhere what it must do, so that nothing can be proved",
                       file_.where(algo));
    if (!collective) return bad_input("{}: {}", file_.where(algo), collective.error().message);
    if (!alike(*collective))
      return bad_input("{}: coll {}: MSCCL has no {}", file_.where(algo), word,
                       uneven(*collective) ? "uneven parts" : "tokens");
    WEFT_TRY(const std::int64_t root, file_.integer(algo, "root", 0, ranks - 1, 0));
    shape() = {*collective, static_cast<Rank>(ranks), static_cast<Rank>(root), 0};
    // nchunksperloop counts the larger of a rank's buffers.
    ChunkId most = 0;
    for (Rank r = 0; r < shape().ranks; ++r)
      for (const Buffer buffer : {Buffer::kIn, Buffer::kOut})
        most = std::max(most, held_blocks(shape(), buffer, r).count);
    if (most == 0 || per_loop % most != 0)
      return bad_input("{}: nchunksperloop {} is not a whole number of the {} parts that a gpu holds",
                       file_.where(algo), per_loop, most);
    const std::int64_t chunks = std::int64_t{blocks(*collective, shape().ranks)} * (per_loop / most);
    if (const Status size = check_size(ranks, 1, chunks, 0, 0); !size)
      return bad_input("{}: {}", file_.where(algo), size.error().message);
    shape().chunks = static_cast<int>(chunks);
    WEFT_TRY(const std::int64_t in_place, file_.integer(algo, "inplace", 0, 1, 0));
    WEFT_TRY(const std::int64_t out_of_place, file_.integer(algo, "outofplace", 0, 1, 1 - in_place));
    document_.in_place = in_place == 1, document_.out_of_place = out_of_place == 1;
    if (in_place + out_of_place == 0)
      return bad_input("{}: it works neither in place nor out of place", file_.where(algo));
    document_.slots = std::string_view(algo.attribute("proto").value()).starts_with("LL") ? 8 : 2;
    return {};
  }

  // Ranks, lanes, scratch: what must be known and bounded before anything is stored.
  Status read_size(pugi::xml_node algo) {
    std::vector<bool> seen(static_cast<std::size_t>(shape().ranks));
    std::int64_t scratch = 0, lanes = 1, steps = 0;
    for (const pugi::xml_node gpu : algo.children("gpu")) {
      WEFT_TRY(const std::int64_t rank, number(gpu, "id", 0, shape().ranks - 1));
      if (seen[static_cast<std::size_t>(rank)]) return bad_input("{}: gpu {} is there twice", file_.where(gpu), rank);
      seen[static_cast<std::size_t>(rank)] = true;
      const Rank r = static_cast<Rank>(rank);
      WEFT_CHECK(check_buffer(gpu, "i_chunks", chunks_held(shape(), Buffer::kIn, r)));
      WEFT_CHECK(check_buffer(gpu, "o_chunks", chunks_held(shape(), Buffer::kOut, r)));
      WEFT_TRY(const std::int64_t slots, number(gpu, "s_chunks", 0, limits::kCells));
      scratch = std::max(scratch, slots);
      for (const pugi::xml_node tb : gpu.children("tb")) {
        WEFT_TRY(const std::int64_t id, number(tb, "id", 0, limits::kLanes - 1));
        lanes = std::max(lanes, id + 1);
        for (const pugi::xml_node step : tb.children("step")) {
          WEFT_TRY(const std::int64_t count, number(step, "cnt", 0, limits::kMoves));
          if ((steps += count) > limits::kMoves)
            return bad_input("{}: more than {} chunks are moved", file_.where(step), limits::kMoves);
        }
      }
    }
    for (Rank r = 0; r < shape().ranks; ++r)
      if (!seen[static_cast<std::size_t>(r)]) return bad_input("{}: gpu {} is missing", file_.where(algo), r);
    if (const Status size = check_size(shape().ranks, lanes, shape().chunks, scratch, steps); !size)
      return bad_input("{}: {}", file_.where(algo), size.error().message);
    s().scratch = static_cast<int>(scratch), s().lanes = static_cast<int>(lanes);
    const std::size_t strands = static_cast<std::size_t>(shape().ranks * lanes);
    s().strands.resize(strands), document_.origins.resize(strands), blocks_.resize(strands);
    return {};
  }

  // A file for calls in place may leave the aliased buffer out.
  Status check_buffer(pugi::xml_node gpu, const char* attribute, int held) const {
    WEFT_TRY(const std::int64_t count, number(gpu, attribute, 0, kAnything));
    if (count == held || (count == 0 && document_.in_place)) return {};
    return bad_input("{}: gpu {}: {} {}, but {} with these chunks has {} there", file_.where(gpu),
                     gpu.attribute("id").value(), attribute, count, schedule::name(shape().collective), held);
  }

  Status read_tb(pugi::xml_node gpu, pugi::xml_node tb) {
    const Rank rank = gpu.attribute("id").as_int();
    ThreadBlock block{.rank = rank, .id = tb.attribute("id").as_int(), .there = true, .ends = {}};
    const std::string where = fmt::format("{}: gpu {} tb {}", file_.where(tb), rank, block.id);
    ThreadBlock& place = blocks_[strand_of(rank, block.id)];
    if (place.there) return bad_input("{} is there twice", where);
    WEFT_TRY(const std::int64_t send, number(tb, "send", -1, shape().ranks - 1));
    WEFT_TRY(const std::int64_t recv, number(tb, "recv", -1, shape().ranks - 1));
    WEFT_TRY(const std::int64_t channel, number(tb, "chan", 0, kMostChannels));
    if (send == rank || recv == rank) return bad_input("{} sends to itself", where);
    block.send = static_cast<Rank>(send), block.recv = static_cast<Rank>(recv);
    block.channel = static_cast<int>(channel);
    for (const pugi::xml_node step : tb.children("step")) {
      const Type* type = find_type(step);
      if (type == nullptr || !type->sends) continue;
      if (!senders_.try_emplace({rank, block.send, block.channel}, block.id).second)
        return bad_input("{}: another tb sends to gpu {} on channel {} too", where, send, channel);
      break;
    }
    for (const pugi::xml_node step : tb.children("step")) {
      const Type* type = find_type(step);
      if (type == nullptr || !type->receives) continue;
      if (!receivers_.try_emplace({block.recv, rank, block.channel}, block.id).second)
        return bad_input("{}: another tb receives from gpu {} on channel {} too", where, recv, channel);
      break;
    }
    place = std::move(block);
    return {};
  }

  static const Type* find_type(pugi::xml_node step) {
    const auto* type = std::ranges::find(kTypes, std::string_view(step.attribute("type").value()), &Type::name);
    return type == std::end(kTypes) ? nullptr : type;
  }

  Status read_steps(pugi::xml_node gpu, pugi::xml_node tb) {
    const std::size_t strand = strand_of(gpu.attribute("id").as_int(), tb.attribute("id").as_int());
    ThreadBlock& block = blocks_[strand];
    std::vector<Wait> waits;  // of nops, for the next step that moves
    int index = 0;
    for (const pugi::xml_node step : tb.children("step")) {
      const auto line = static_cast<std::int32_t>(file_.line(step));
      const std::string where = fmt::format("{}:{}: gpu {} tb {} step {}", name_, line, block.rank, block.id, index);
      WEFT_TRY(const std::int64_t s, number(step, "s", 0, kAnything));
      if (s != index) return bad_input("{}: it is numbered {}", where, s);
      const Type* type = find_type(step);
      if (type == nullptr) return bad_input("{}: unknown type '{}'", where, step.attribute("type").value());
      WEFT_TRY(const std::int64_t dep_tb, number(step, "depid", -1, limits::kLanes));
      WEFT_TRY(const std::int64_t dep_step, number(step, "deps", -1, kAnything));
      if (dep_tb >= 0 && dep_step >= 0) {
        if (dep_tb >= s_lanes()) return bad_input("{}: it waits for tb {}, which is not there", where, dep_tb);
        waits.push_back({strand, 0, static_cast<int>(dep_tb), static_cast<int>(dep_step), line});
      }
      if (type->name == "nop") {
        block.ends.push_back(-1);
      } else {
        const int first = static_cast<int>(strands(strand).size());
        for (Wait& w : waits) w.step = first, waits_.push_back(w);
        waits.clear();
        WEFT_CHECK(read_moves(step, *type, block, where));
        document_.origins[strand].resize(strands(strand).size(), {line, index});
        block.ends.push_back(static_cast<int>(strands(strand).size()) - 1);
      }
      ++index;
    }
    return {};
  }

  Status read_moves(pugi::xml_node step, const Type& type, const ThreadBlock& block, const std::string& where) {
    const std::int64_t count = step.attribute("cnt").as_int();
    if (count < 1) return bad_input("{}: cnt {}: it moves nothing", where, count);
    int sender = -1;
    if (type.receives) {
      if (block.recv < 0) return bad_input("{}: {} in a tb that receives from no gpu", where, type.name);
      const auto found = senders_.find({block.recv, block.rank, block.channel});
      if (found == senders_.end())
        return bad_input("{}: {} waits for gpu {}, which never sends to gpu {} on channel {}", where, type.name,
                         block.recv, block.rank, block.channel);
      sender = found->second;
    }
    if (type.sends && block.send < 0) return bad_input("{}: {} in a tb that sends to no gpu", where, type.name);
    std::vector<Operand> from_places, to_places;
    if (type.reads) {
      WEFT_TRY(from_places, places(step, "srcbuf", "srcoff", count, block.rank, where));
    }
    if (type.writes) {
      WEFT_TRY(to_places, places(step, "dstbuf", "dstoff", count, block.rank, where));
    }
    auto& strand = strands(strand_of(block.rank, block.id));
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
      const bool more = i + 1 < static_cast<std::size_t>(count);
      Operands sources, destinations;
      if (type.receives) sources.push_back(from(block.recv, sender).continued(more));
      if (type.name == "re") sources.push_back(to_places[i]);
      if (type.reads) sources.push_back(from_places[i]);
      if (type.writes) destinations.push_back(to_places[i]);
      if (type.sends) destinations.push_back(to(block.send).continued(more));
      strand.push_back(move(-1, std::move(sources), std::move(destinations)));
    }
    return {};
  }

  // The chunks or slots that a buffer and an offset name, as operands.
  Result<std::vector<Operand>> places(pugi::xml_node step, const char* buffer_word, const char* offset_word,
                                      std::int64_t count, Rank rank, const std::string& where) const {
    const std::string_view word = step.attribute(buffer_word).value();
    if (word != "i" && word != "o" && word != "s")
      return bad_input("{}: {} '{}' is none of i, o, s", where, buffer_word, word);
    const Buffer buffer = word == "i" ? Buffer::kIn : word == "o" ? Buffer::kOut : Buffer::kScratch;
    WEFT_TRY(const std::int64_t offset, number(step, offset_word, -kAnything, kAnything));
    const std::int64_t size = buffer == Buffer::kScratch ? step.parent().parent().attribute("s_chunks").as_int()
                                                         : chunks_held(shape(), buffer, rank);
    if (offset < 0 || offset + count > size)
      return bad_input("{}: {} {} with cnt {} is outside the {} chunks of buffer {}", where, offset_word, offset, count,
                       size, word);
    std::vector<Operand> operands;
    for (int i = static_cast<int>(offset); i < offset + count; ++i) {
      if (buffer == Buffer::kScratch) {
        operands.push_back(scratch(i));
        continue;
      }
      const int chunk = chunk_at(shape(), buffer, rank, i);
      // What is only called in place writes its input, which is the output.
      const bool output =
          buffer == Buffer::kOut || (!document_.out_of_place && holds(shape(), Buffer::kOut, chunk, rank));
      operands.push_back(output ? out(chunk) : in(chunk));
    }
    return operands;
  }

  Status join_waits() {
    for (const Wait& w : waits_) {
      const std::size_t rank = w.strand / static_cast<std::size_t>(s_lanes());
      const auto& ends = blocks_[rank * static_cast<std::size_t>(s_lanes()) + static_cast<std::size_t>(w.tb)].ends;
      const std::string what = fmt::format("{}:{}: gpu {} tb {} waits for step {} of tb {}, which", name_, w.line, rank,
                                           w.strand % static_cast<std::size_t>(s_lanes()), w.after, w.tb);
      if (static_cast<std::size_t>(w.after) >= ends.size()) return bad_input("{} is not there", what);
      const int end = ends[static_cast<std::size_t>(w.after)];
      if (end < 0) return bad_input("{} is a nop: it never ends for others", what);
      s().orders.push_back({static_cast<std::int32_t>(w.strand), w.step, w.tb, end});
    }
    std::ranges::sort(s().orders);
    s().orders.erase(std::unique(s().orders.begin(), s().orders.end()), s().orders.end());
    return {};
  }

  // MSCCL names places, weft chunks. Runs everything once, in some order, to see which chunk each step moves; where the
  // order matters the verifier finds the race, and where it cannot run on, the deadlock.
  void name_chunks() {
    const int per_rank = 2 * shape().chunks + s().scratch;
    std::vector<std::int32_t> held(static_cast<std::size_t>(shape().ranks) * static_cast<std::size_t>(per_rank), -1);
    const auto cell = [&](Rank rank, const Operand& o) -> std::int32_t& {
      Buffer buffer = o.buffer;
      if (document_.in_place && buffer == Buffer::kOut && holds(shape(), Buffer::kIn, o.chunk, rank))
        buffer = Buffer::kIn;
      return held[static_cast<std::size_t>(rank) * static_cast<std::size_t>(per_rank) +
                  static_cast<std::size_t>(static_cast<int>(buffer) * shape().chunks + o.chunk)];
    };
    for (Rank r = 0; r < shape().ranks; ++r)
      for (int c = 0; c < shape().chunks; ++c)
        if (holds(shape(), Buffer::kIn, c, r)) cell(r, in(c)) = c;
    std::vector<std::size_t> next(s().strands.size()), order(s().strands.size(), 0);
    std::size_t first_order = 0;
    for (std::size_t i = 0; i < next.size(); ++i) {
      while (first_order < s().orders.size() && static_cast<std::size_t>(s().orders[first_order].strand) < i)
        ++first_order;
      order[i] = first_order;
    }
    std::map<std::pair<std::size_t, Rank>, std::deque<std::int32_t>> sent;  // by sending strand and receiver
    const std::size_t lanes = static_cast<std::size_t>(s_lanes());
    const auto step = [&](std::size_t strand) {
      if (next[strand] == strands(strand).size()) return false;
      Step& now = strands(strand)[next[strand]];
      const Rank rank = static_cast<Rank>(strand / lanes);
      for (std::size_t o = order[strand]; o < s().orders.size(); ++o) {
        const Order& wait = s().orders[o];
        if (static_cast<std::size_t>(wait.strand) != strand || static_cast<std::size_t>(wait.step) != next[strand])
          break;
        if (next[strand / lanes * lanes + static_cast<std::size_t>(wait.lane)] <= static_cast<std::size_t>(wait.after))
          return false;
        order[strand] = o + 1;
      }
      std::int32_t chunk = -1;
      for (const Operand& o : now.sources) {
        if (!o.message()) {
          if (chunk < 0) chunk = cell(rank, o);
          continue;
        }
        auto& queue = sent[{strand_of(o.peer, o.lane), rank}];
        if (queue.empty()) return false;
        chunk = queue.front();
        queue.pop_front();
      }
      now.chunk = chunk < 0 ? fallback(now) : chunk;
      for (const Operand& o : now.destinations) {
        if (o.message())
          sent[{strand, o.peer}].push_back(now.chunk);
        else
          cell(rank, o) = now.chunk;
      }
      ++next[strand];
      return true;
    };
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t strand = 0; strand < next.size(); ++strand)
        while (step(strand)) moved = true;
    }
    for (auto& strand : s().strands)
      for (Step& left : strand)
        if (left.chunk < 0) left.chunk = fallback(left);
  }

  // For a step that never runs, or reads what nobody wrote.
  static int fallback(const Step& step) {
    for (const Operands* side : {&step.sources, &step.destinations})
      for (const Operand& o : *side)
        if (!o.message() && o.buffer != Buffer::kScratch) return o.chunk;
    return 0;
  }

  Schedule& s() { return document_.schedule; }
  const Schedule& s() const { return document_.schedule; }
  Shape& shape() { return s().shape; }
  const Shape& shape() const { return s().shape; }
  int s_lanes() const { return s().lanes; }
  std::vector<Step>& strands(std::size_t strand) { return s().strands[strand]; }
  std::size_t strand_of(Rank rank, int tb) const { return static_cast<std::size_t>(rank * s_lanes() + tb); }

  std::string_view name_;
  const XmlFile& file_;
  Document document_;
  std::vector<ThreadBlock> blocks_;                                 // [strand]
  std::map<std::tuple<Rank, Rank, int>, int> senders_, receivers_;  // tb at the end of (from, to, channel)
  std::vector<Wait> waits_;
};

}  // namespace

Result<Document> parse_msccl_xml(std::string_view name, std::string_view text) {
  if (text.size() > limits::kBytes)
    return bad_input("{}: {} bytes are more than the {} MiB read at most", name, text.size(), limits::kBytes >> 20);
  if (const auto elements = std::ranges::count(text, '<'); elements > limits::kElements)
    return bad_input("{}: {} elements are more than the {} that are read", name, elements, limits::kElements);
  WEFT_TRY(const XmlFile file, XmlFile::parse(name, text));
  return Reader(name, file).run();
}

}  // namespace weft::schedule
