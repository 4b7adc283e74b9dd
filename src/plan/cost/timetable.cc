#include "plan/cost/timetable.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "plan/schedule/render/timeline.h"

namespace weft::cost {
namespace {

using schedule::Operand;
using schedule::Schedule;
using schedule::Step;

// The link directions of a path, in order, and the slots after which each follows the first.
struct Route {
  std::vector<std::int64_t> directions;
  std::vector<std::int64_t> after;
  std::int64_t latency = 0;  // in slots, from the first link to the far end
};

std::int64_t in_slots(Duration time, Duration slot) {
  return static_cast<std::int64_t>(std::ceil(time.s() / slot.s() - 1e-9));
}

class Compiler {
 public:
  Compiler(const MachineView& machine, const Schedule& schedule, Bytes chunk, Bytes vector)
      : machine_(machine), schedule_(schedule), slots_each_((chunk + vector - 1) / vector) {
    table_.vector = vector;
    for (const auto& strand : schedule.strands) first_.push_back(steps_), steps_ += static_cast<int>(strand.size());
  }

  Result<Timetable> run() {
    for (const auto& strand : schedule_.strands)
      for (const Step& step : strand)
        for (const auto* ends : {&step.sources, &step.destinations})
          for (const Operand& o : *ends)
            if (!o.message() && o.kind != Operand::Kind::kLocal)
              return bad_input(
                  "a timetable is of messages between chips; this schedule loads and stores peers' memory");
    const schedule::Timeline timeline = schedule::timeline(schedule_);
    if (timeline.stuck > 0) return bad_input("the schedule gets stuck: {} steps never run", timeline.stuck);
    WEFT_CHECK(find_slot(timeline));
    std::vector<std::vector<const schedule::Arrow*>> into(static_cast<std::size_t>(steps_));
    for (const schedule::Arrow& arrow : timeline.arrows) into[index(arrow.to)].push_back(&arrow);
    done_.resize(into.size());
    for (const auto& [level, strand, step] : in_order(timeline)) place({strand, step}, into);
    finish();
    return std::move(table_);
  }

 private:
  struct Ordered {
    int level, strand, step;
    auto operator<=>(const Ordered&) const = default;
  };

  std::size_t index(const schedule::StepId& id) const {
    return static_cast<std::size_t>(first_[static_cast<std::size_t>(id.strand)] + id.step);
  }
  Rank rank_of(int strand) const { return strand / schedule_.lanes; }

  static std::vector<Ordered> in_order(const schedule::Timeline& timeline) {
    std::vector<Ordered> all;
    for (std::size_t strand = 0; strand < timeline.levels.size(); ++strand)
      for (std::size_t step = 0; step < timeline.levels[strand].size(); ++step)
        all.push_back({timeline.levels[strand][step], static_cast<int>(strand), static_cast<int>(step)});
    std::ranges::sort(all);
    return all;
  }

  // A vector's time on the slowest link that any message takes.
  Status find_slot(const schedule::Timeline& timeline) {
    for (const schedule::Arrow& arrow : timeline.arrows) {
      const Rank from = rank_of(arrow.from.strand), to = rank_of(arrow.to.strand);
      if (from == to) continue;
      const topology::Path path = machine_.path(from, to);
      if (path.type == topology::PathType::kDis) return bad_input("ranks {} and {} are not connected", from, to);
      table_.slot = std::max(table_.slot, table_.vector / path.rate);
    }
    return {};
  }

  const Route& route(Rank from, Rank to) {
    const auto [known, fresh] = routes_.try_emplace({from, to});
    if (!fresh) return known->second;
    Route& r = known->second;
    const topology::Path path = machine_.path(from, to);
    Duration reached;
    for (const topology::Hop& hop : path.hops) {
      r.directions.push_back(2 * std::int64_t{hop.link} + (hop.forward ? 0 : 1));
      r.after.push_back(in_slots(reached, table_.slot));
      reached += machine_.topology().link(hop.link).latency;
    }
    r.latency = in_slots(reached, table_.slot);
    return r;
  }

  // The messages that a step receives are sent as early as links allow; the step is done with the last of them.
  void place(const schedule::StepId& id, const std::vector<std::vector<const schedule::Arrow*>>& into) {
    const std::size_t step = index(id);
    std::int64_t done = id.step == 0 ? 0 : done_[step - 1];
    for (const schedule::Order& order : schedule_.orders)
      if (order.strand == id.strand && order.step == id.step)
        done = std::max(done, done_[index({rank_of(id.strand) * schedule_.lanes + order.lane, order.after})]);
    for (const schedule::Arrow* arrow : into[step]) {
      const std::size_t sender = index(arrow->from);
      const Rank from = rank_of(arrow->from.strand), to = rank_of(id.strand);
      if (arrow->chunk < 0 || from == to)
        done = std::max(done, done_[sender]);  // a signal: the timetable itself says when
      else
        done = std::max(done, reserve({.from = from,
                                       .to = to,
                                       .chunk = arrow->chunk,
                                       .sends = static_cast<int>(sender),
                                       .receives = static_cast<int>(step),
                                       .ready = done_[sender]}));
    }
    done_[step] = done;
  }

  // Returns the slot after its arrival.
  std::int64_t reserve(TimedMessage message) {
    const Route& r = route(message.from, message.to);
    std::int64_t start = message.ready;
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t hop = 0; hop < r.directions.size(); ++hop) {
        const std::int64_t wanted = start + r.after[hop], free = free_from(r.directions[hop], wanted);
        if (free == wanted) continue;
        start += free - wanted;
        moved = true;
      }
    }
    const int number = static_cast<int>(table_.messages.size());
    for (std::size_t hop = 0; hop < r.directions.size(); ++hop) {
      taken_[r.directions[hop]][start + r.after[hop]] = slots_each_;
      table_.reservations.push_back({r.directions[hop], start + r.after[hop], slots_each_, number});
    }
    message.left = start;
    message.there = start + r.latency + slots_each_;
    table_.messages.push_back(message);
    return message.there;
  }

  // The first slot from `wanted` on from which the direction has room for a message.
  std::int64_t free_from(std::int64_t direction, std::int64_t wanted) {
    const std::map<std::int64_t, std::int64_t>& taken = taken_[direction];
    auto next = taken.upper_bound(wanted);
    if (next != taken.begin()) {
      const auto before = std::prev(next);
      wanted = std::max(wanted, before->first + before->second);
    }
    for (; next != taken.end() && next->first < wanted + slots_each_; ++next) wanted = next->first + next->second;
    return wanted;
  }

  void finish() {
    for (const TimedMessage& m : table_.messages) table_.slots = std::max(table_.slots, m.there);
    std::ranges::sort(table_.reservations, {}, [](const Reservation& r) { return std::tuple(r.direction, r.first); });
    std::map<std::int64_t, std::int64_t> used;
    for (const Reservation& r : table_.reservations) used[r.direction] += r.slots;
    for (const auto& [direction, slots] : used)
      table_.busiest = std::max(table_.busiest, static_cast<double>(slots) / static_cast<double>(table_.slots));
  }

  const MachineView& machine_;
  const Schedule& schedule_;
  std::int64_t slots_each_;
  Timetable table_;
  std::vector<int> first_;  // number of a strand's first step
  int steps_ = 0;
  std::vector<std::int64_t> done_;  // by step: the slot from which what it makes is there
  std::map<std::pair<Rank, Rank>, Route> routes_;
  std::map<std::int64_t, std::map<std::int64_t, std::int64_t>> taken_;  // by direction: first slots, slots
};

std::string link_text(const MachineView& machine, std::int64_t direction) {
  const topology::Topology& t = machine.topology();
  const topology::Link& l = t.link(static_cast<topology::LinkId>(direction / 2));
  return fmt::format("{} -> {}", t.name_of(direction % 2 == 0 ? l.a : l.b), t.name_of(direction % 2 == 0 ? l.b : l.a));
}

std::string message_text(const TimedMessage& m) {
  return fmt::format("chunk {} from rank {} to rank {}", m.chunk, m.from, m.to);
}

}  // namespace

Result<Timetable> compile_timetable(const MachineView& machine, const Schedule& schedule, Bytes chunk, Bytes vector) {
  return Compiler(machine, schedule, chunk, vector).run();
}

std::string violation(const MachineView& machine, const Timetable& table) {
  const auto message = [&](int number) -> const TimedMessage& {
    return table.messages[static_cast<std::size_t>(number)];
  };
  for (std::size_t i = 1; i < table.reservations.size(); ++i) {
    const Reservation &a = table.reservations[i - 1], &b = table.reservations[i];
    if (a.direction == b.direction && a.first + a.slots > b.first)
      return fmt::format("slot {} of {}: {} and {} collide", b.first, link_text(machine, b.direction),
                         message_text(message(a.message)), message_text(message(b.message)));
  }
  // Of each step: when the last message that it receives is there.
  std::map<int, std::int64_t> arrived;
  for (const TimedMessage& m : table.messages) arrived[m.receives] = std::max(arrived[m.receives], m.there);
  for (const TimedMessage& m : table.messages)
    if (const auto known = arrived.find(m.sends); known != arrived.end() && m.left < known->second)
      return fmt::format("slot {}: {} leaves before it is there, in slot {}", m.left, message_text(m), known->second);
  std::vector<std::vector<const Reservation*>> by_message(table.messages.size());
  for (const Reservation& r : table.reservations) by_message[static_cast<std::size_t>(r.message)].push_back(&r);
  for (std::size_t i = 0; i < by_message.size(); ++i) {
    const TimedMessage& m = table.messages[i];
    Duration reached;
    for (const topology::Hop& hop : machine.path(m.from, m.to).hops) {
      const std::int64_t direction = 2 * std::int64_t{hop.link} + (hop.forward ? 0 : 1);
      const auto use = std::ranges::find(by_message[i], direction, [](const Reservation* r) { return r->direction; });
      if (use == by_message[i].end())
        return fmt::format("{} has no slots on {}", message_text(m), link_text(machine, direction));
      if ((*use)->first < m.left + in_slots(reached, table.slot))
        return fmt::format("slot {} of {}: {} is not there yet", (*use)->first, link_text(machine, direction),
                           message_text(m));
      reached += machine.topology().link(hop.link).latency;
    }
  }
  return {};
}

}  // namespace weft::cost
