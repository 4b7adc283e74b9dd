#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "plan/schedule/exchange/msccl_xml.h"
#include "plan/schedule/exchange/place.h"

namespace weft::schedule {
namespace {

// One <step>.
struct Line {
  std::string_view type;
  Operand source, destination;  // local places; of scratch: the slot
  int count = 1;
  int dep_tb = -1, dep_step = -1;
};

struct ThreadBlock {
  Rank send = -1, recv = -1;
  int channel = 0;
  std::vector<Line> lines;
};

using End = std::pair<Rank, int>;  // a connection's, seen from one of its ranks: peer, lane that names it

// One message in parts, at one end of a connection: gathered in scratch.
struct Parts {
  int first_slot = 0;
  int most = 1;  // parts of one message
  int done = 0;  // of the current message
};

// Writes the thread blocks of one rank.
class RankWriter {
 public:
  RankWriter(const Schedule& schedule, Rank rank, const std::map<std::tuple<Rank, int, Rank>, std::vector<int>>& sizes)
      : s_(schedule), rank_(rank), slots_(schedule.scratch), sizes_(sizes) {}

  Status run() {
    for (int lane = 0; lane < s_.lanes; ++lane) WEFT_CHECK(write_strand(lane));
    if (blocks_.size() > static_cast<std::size_t>(limits::kLanes))
      return bad_input("rank {} needs {} thread blocks, MSCCL XML is read with {} at most", rank_, blocks_.size(),
                       limits::kLanes);
    return {};
  }

  int slots() const { return slots_; }
  const std::vector<ThreadBlock>& blocks() const { return blocks_; }

 private:
  Status write_strand(int lane) {
    lane_ = lane, last_tb_ = -1, local_tb_ = -1, spare_ = -1;
    receivers_.clear(), senders_.clear(), in_parts_.clear(), out_parts_.clear();
    const auto& steps = s_.strand(rank_, lane);
    pair_ends(steps);
    for (const Step& step : steps) {
      const auto foreign = [](const Operand& o) { return o.kind != Operand::Kind::kLocal && !o.message(); };
      if (step.kind != Step::Kind::kMove || std::ranges::any_of(step.sources, foreign) ||
          std::ranges::any_of(step.destinations, foreign))
        return bad_input("rank {}: '{}': MSCCL XML has messages and local copies only", rank_, to_string(step));
      write(step);
    }
    return {};
  }

  int lane_of(const Operand& o) const { return o.lane == Operand::kSameLane ? lane_ : o.lane; }
  End end_of(const Operand& o) const { return {o.peer, lane_of(o)}; }
  int new_slot(int count = 1) {
    slots_ += count;
    return slots_ - count;
  }
  int spare() { return spare_ < 0 ? spare_ = new_slot() : spare_; }
  int new_tb(ThreadBlock tb) {
    blocks_.push_back(std::move(tb));
    return static_cast<int>(blocks_.size()) - 1;
  }

  // A receiving and a sending end that steps fuse most often get one thread block.
  void pair_ends(const std::vector<Step>& steps) {
    std::map<std::pair<End, End>, int> fused;
    for (const Step& step : steps) {
      const Operand *source = nullptr, *destination = nullptr;
      if (!fusible(step, source, destination) || source == nullptr || destination == nullptr) continue;
      if (lane_of(*source) == lane_of(*destination)) ++fused[{end_of(*source), end_of(*destination)}];
    }
    std::vector<std::pair<int, std::pair<End, End>>> ranked;
    for (const auto& [ends, count] : fused) ranked.push_back({-count, ends});
    std::ranges::sort(ranked);
    for (const auto& [count, ends] : ranked) {
      const auto& [from, to] = ends;
      if (receivers_.contains(from) || senders_.contains(to)) continue;
      receivers_[from] = senders_[to] =
          new_tb({.send = to.first, .recv = from.first, .channel = to.second, .lines = {}});
    }
  }
  int receiver(const Operand& o) {
    const auto [at, fresh] = receivers_.try_emplace(end_of(o), -1);
    if (fresh) at->second = new_tb({.recv = o.peer, .channel = lane_of(o), .lines = {}});
    return at->second;
  }
  int sender(const Operand& o) {
    const auto [at, fresh] = senders_.try_emplace(end_of(o), -1);
    if (fresh) at->second = new_tb({.send = o.peer, .channel = lane_of(o), .lines = {}});
    return at->second;
  }
  int local() { return local_tb_ < 0 ? local_tb_ = new_tb({.channel = lane_, .lines = {}}) : local_tb_; }

  // Parts of the largest message on a connection that this rank receives from, or sends to.
  int most_parts(Rank from, int lane, Rank to) const {
    const auto found = sizes_.find({from, lane, to});
    return found == sizes_.end() ? 1 : std::ranges::max(found->second);
  }

  // At most one message and one local place on each side, and whole messages: one MSCCL step can do it.
  bool fusible(const Step& step, const Operand*& source, const Operand*& destination) const {
    int local_sources = 0, local_destinations = 0, messages = 0;
    for (const Operand& o : step.sources) {
      if (o.message()) source = &o;
      ++(o.message() ? messages : local_sources);
    }
    for (const Operand& o : step.destinations) {
      if (o.message()) destination = &o;
      ++(o.message() ? messages : local_destinations);
    }
    if (messages > (source != nullptr) + (destination != nullptr) || local_sources > 1 || local_destinations > 1)
      return false;
    if (source != nullptr && most_parts(source->peer, lane_of(*source), rank_) > 1) return false;
    return destination == nullptr || most_parts(rank_, lane_of(*destination), destination->peer) == 1;
  }

  void add(int tb, Line line) {
    ThreadBlock& block = blocks_[static_cast<std::size_t>(tb)];
    // The strand is in order: what another thread block did last comes first.
    if (last_tb_ >= 0 && last_tb_ != tb) {
      line.dep_tb = last_tb_;
      line.dep_step = static_cast<int>(blocks_[static_cast<std::size_t>(last_tb_)].lines.size()) - 1;
    }
    block.lines.push_back(line);
    last_tb_ = tb;
  }

  void write(const Step& step) {
    const Operand *received = nullptr, *sent = nullptr;
    if (!fusible(step, received, sent)) return write_split(step);
    const Operand *read = nullptr, *written = nullptr;
    for (const Operand& o : step.sources)
      if (!o.message()) read = &o;
    for (const Operand& o : step.destinations)
      if (!o.message()) written = &o;
    const bool same_tb = received != nullptr && sent != nullptr && receiver(*received) == sender(*sent);
    if (received == nullptr) {
      if (written != nullptr && !(*read == *written)) add(local(), {"cpy", *read, *written});
      if (sent != nullptr) add(sender(*sent), {"s", *read, *read});
    } else if (sent == nullptr) {
      if (read != nullptr)
        add(receiver(*received), {"rrc", *read, *written});
      else
        add(receiver(*received), {"r", *written, *written});
    } else if (same_tb) {
      const Operand place = written != nullptr ? *written : read != nullptr ? *read : scratch(spare());
      if (read == nullptr)
        add(receiver(*received), {"rcs", place, place});
      else
        add(receiver(*received), {written != nullptr ? "rrcs" : "rrs", *read, place});
    } else {
      const Operand place = written != nullptr ? *written : scratch(spare());
      if (read == nullptr)
        add(receiver(*received), {"r", place, place});
      else
        add(receiver(*received), {"rrc", *read, place});
      add(sender(*sent), {"s", place, place});
    }
  }

  // The sum comes together in a scratch slot of the strand.
  void write_split(const Step& step) {
    const Operand sum = scratch(spare());
    bool first = true;
    for (const Operand& o : step.sources) {
      if (!o.message()) {
        add(local(), {first ? "cpy" : "re", o, sum});
      } else if (const std::optional<Operand> part = receive_part(o)) {
        add(local(), {first ? "cpy" : "re", *part, sum});
      } else if (first) {
        add(receiver(o), {"r", sum, sum});
      } else {
        add(receiver(o), {"rrc", sum, sum});
      }
      first = false;
    }
    for (const Operand& o : step.destinations) {
      if (!o.message())
        add(local(), {"cpy", sum, o});
      else if (!send_part(o, sum))
        add(sender(o), {"s", sum, sum});
    }
  }

  // Where the next part of a message lies, which arrives as a whole; none where messages have one part.
  std::optional<Operand> receive_part(const Operand& o) {
    const auto found = sizes_.find({o.peer, lane_of(o), rank_});
    if (found == sizes_.end() || std::ranges::max(found->second) == 1) return {};
    Incoming& in = in_parts_[end_of(o)];
    if (in.parts.done == 0) {
      if (in.message == 0) in.parts.first_slot = new_slot(std::ranges::max(found->second));
      const int count = in.message < found->second.size() ? found->second[in.message] : 1;
      const Operand place = scratch(in.parts.first_slot);
      add(receiver(o), {"r", place, place, count});
      ++in.message;
    }
    const Operand part = scratch(in.parts.first_slot + in.parts.done++);
    if (!o.open) in.parts.done = 0;
    return part;
  }

  bool send_part(const Operand& o, const Operand& value) {
    const int most = most_parts(rank_, lane_of(o), o.peer);
    if (most == 1) return false;
    const auto [at, fresh] = out_parts_.try_emplace(end_of(o));
    Parts& parts = at->second;
    if (fresh) parts.first_slot = new_slot(most);
    add(local(), {"cpy", value, scratch(parts.first_slot + parts.done++)});
    if (o.open) return true;
    const Operand place = scratch(parts.first_slot);
    add(sender(o), {"s", place, place, parts.done});
    parts.done = 0;
    return true;
  }

  struct Incoming {
    Parts parts;
    std::size_t message = 0;  // index of the next
  };

  const Schedule& s_;
  Rank rank_;
  int slots_;  // of scratch, so far
  const std::map<std::tuple<Rank, int, Rank>, std::vector<int>>& sizes_;
  std::vector<ThreadBlock> blocks_;
  // State of the strand that is being written.
  int lane_ = 0, last_tb_ = -1, local_tb_ = -1, spare_ = -1;
  std::map<End, int> receivers_, senders_;  // thread blocks
  std::map<End, Incoming> in_parts_;
  std::map<End, Parts> out_parts_;
};

// Parts of every message, in order, on every connection: (from, lane, to).
std::map<std::tuple<Rank, int, Rank>, std::vector<int>> message_sizes(const Schedule& s) {
  std::map<std::tuple<Rank, int, Rank>, std::vector<int>> sizes;
  std::map<std::tuple<Rank, int, Rank>, int> open;
  for (Rank r = 0; r < s.shape.ranks; ++r)
    for (int lane = 0; lane < s.lanes; ++lane)
      for (const Step& step : s.strand(r, lane))
        for (const Operand& o : step.destinations) {
          if (!o.message()) continue;
          const std::tuple key{r, o.lane == Operand::kSameLane ? lane : int{o.lane}, o.peer};
          ++open[key];
          if (!o.open) sizes[key].push_back(std::exchange(open[key], 0));
        }
  return sizes;
}

// MSCCL's spelling.
std::string coll_name(Collective collective) {
  std::string text(name(collective));
  if (collective == Collective::kReduceScatter) return text;
  std::erase(text, '_');
  return text;
}

std::string escaped(std::string_view text) {
  std::string safe;
  for (const char c : text)
    if (c == '<' || c == '&' || c == '"' || static_cast<unsigned char>(c) < ' ')
      safe += '_';
    else
      safe += c;
  return safe;
}

std::string place_text(const Shape& shape, Rank rank, const Operand& o, const char* side) {
  constexpr const char* kWords[] = {"i", "o", "s"};
  const int offset = o.buffer == Buffer::kScratch ? o.chunk : offset_of(shape, o.buffer, rank, o.chunk);
  return fmt::format("{0}buf=\"{1}\" {0}off=\"{2}\"", side, kWords[static_cast<int>(o.buffer)], offset);
}

}  // namespace

Result<std::string> to_msccl_xml(const Document& document) {
  const Schedule& s = document.schedule;
  const Shape& shape = s.shape;
  if (!alike(shape.collective))
    return bad_input("{}: MSCCL has no {}", name(shape.collective),
                     uneven(shape.collective) ? "uneven parts" : "tokens");
  if (shape.collective == Collective::kBarrier) return bad_input("barrier: MSCCL moves data only");
  if (!s.orders.empty()) return bad_input("a schedule with orders between lanes is not written as MSCCL XML");
  const auto sizes = message_sizes(s);
  std::string gpus;
  int channels = 1, most = 0;
  for (Rank r = 0; r < shape.ranks; ++r) {
    RankWriter writer(s, r, sizes);
    WEFT_CHECK(writer.run());
    const int i = chunks_held(shape, Buffer::kIn, r), o = chunks_held(shape, Buffer::kOut, r);
    most = std::max({most, i, o});
    gpus += fmt::format("  <gpu id=\"{}\" i_chunks=\"{}\" o_chunks=\"{}\" s_chunks=\"{}\">\n", r, i, o, writer.slots());
    std::set<std::pair<int, int>> awaited;
    for (const ThreadBlock& tb : writer.blocks())
      for (const Line& line : tb.lines) awaited.insert({line.dep_tb, line.dep_step});
    for (std::size_t t = 0; t < writer.blocks().size(); ++t) {
      const ThreadBlock& tb = writer.blocks()[t];
      channels = std::max(channels, tb.channel + 1);
      gpus += fmt::format("    <tb id=\"{}\" send=\"{}\" recv=\"{}\" chan=\"{}\">\n", t, tb.send, tb.recv, tb.channel);
      for (std::size_t i_line = 0; i_line < tb.lines.size(); ++i_line) {
        const Line& line = tb.lines[i_line];
        gpus +=
            fmt::format("      <step s=\"{}\" type=\"{}\" {} {} cnt=\"{}\" depid=\"{}\" deps=\"{}\" hasdep=\"{}\"/>\n",
                        i_line, line.type, place_text(shape, r, line.source, "src"),
                        place_text(shape, r, line.destination, "dst"), line.count, line.dep_tb, line.dep_step,
                        int{awaited.contains({static_cast<int>(t), static_cast<int>(i_line)})});
      }
      gpus += "    </tb>\n";
    }
    gpus += "  </gpu>\n";
  }
  const std::string root = rooted(shape.collective) ? fmt::format(" root=\"{}\"", shape.root) : "";
  return fmt::format(
      "<algo name=\"{}\" proto=\"{}\" nchannels=\"{}\" nchunksperloop=\"{}\" ngpus=\"{}\" coll=\"{}\" inplace=\"{}\" "
      "outofplace=\"{}\"{}>\n{}</algo>\n",
      escaped(document.name), document.slots >= 8 ? "LL128" : "Simple", channels, most, shape.ranks,
      coll_name(shape.collective), int{document.in_place}, int{document.out_of_place}, root, gpus);
}

}  // namespace weft::schedule
