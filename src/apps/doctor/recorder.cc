#include "apps/doctor/recorder.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <optional>

#include "apps/doctor/dump.h"
#include "apps/doctor/line.h"
#include "base/counted.h"
#include "base/text.h"

namespace weft::doctor {
namespace {

using nlohmann::json;

std::string text_of(const json& object, const char* key) {
  return object.is_object() && object.contains(key)
             ? (object[key].is_string() ? object[key].get<std::string>() : object[key].dump())
             : std::string();
}

// All ranks of these may pass other sizes.
bool may_be_uneven(const std::string& call) {
  return call.find("all_to_all") != std::string::npos || call.find("gather") != std::string::npos ||
         call.find("scatter") != std::string::npos;
}

// "52" of ["52", "PIPELINE"].
std::string group_of(const json& entry) {
  if (!entry.contains("process_group")) return "0";
  const json& group = entry["process_group"];
  if (!group.is_array() || group.empty()) return text_of(entry, "process_group");
  return group[0].is_string() ? group[0].get<std::string>() : group[0].dump();
}

bool complete(const std::string& state) { return state == "completed"; }

constexpr std::int64_t kMostRanks = 1 << 20, kMostCalls = std::int64_t{1} << 53;
constexpr std::size_t kLongestValue = 40;

// A whole number in [0, most].
std::optional<std::int64_t> whole_number(const json& value, std::int64_t most) {
  if (!value.is_number_integer()) return std::nullopt;
  if (value.is_number_unsigned() && value.get<std::uint64_t>() > static_cast<std::uint64_t>(most)) return std::nullopt;
  const auto number = value.get<std::int64_t>();
  return number >= 0 && number <= most ? std::optional(number) : std::nullopt;
}

// PyTorch before 2.4 wrote "seq_id".
const json* sequence_of(const json& entry) {
  for (const char* key : {"collective_seq_id", "seq_id"})
    if (const auto at = entry.find(key); at != entry.end()) return &*at;
  return nullptr;
}

bool is_message(const json& entry, const std::string& call) {
  if (const auto said = entry.find("is_p2p"); said != entry.end() && said->is_boolean()) return said->get<bool>();
  return call.find("->") != std::string::npos || call.find("<-") != std::string::npos;
}

// What is wrong with an entry, in words; empty: nothing that is read.
std::string odd_in(const json& entry) {
  if (!entry.is_object()) return fmt::format("a {}, not an object", entry.type_name());
  const json* sequence = sequence_of(entry);
  if (sequence == nullptr) return "no collective_seq_id";
  const auto said = [](const char* key, const json& value, const char* wanted) {
    return fmt::format("{} is {}, not {}", key,
                       shown(value.dump(-1, ' ', false, json::error_handler_t::replace).substr(0, kLongestValue)),
                       wanted);
  };
  if (!whole_number(*sequence, kMostCalls)) return said("collective_seq_id", *sequence, "a number of a call");
  for (const char* key : {"profiling_name", "state"})
    if (const auto at = entry.find(key); at != entry.end() && !at->is_string()) return said(key, *at, "a text");
  return {};
}

std::string without_digits(const std::string& file) {
  std::string name = std::filesystem::path(file).filename().string();
  std::erase_if(name, [](unsigned char c) { return std::isdigit(c) != 0; });
  return std::filesystem::path(file).parent_path().string() + "/" + name;
}

}  // namespace

// A rank that others wait for.
struct Recorder::Blame {
  int rank;
  bool no_dump;
  Fact fact;
};

Recorder::Added Recorder::add(const std::string& file, const json& dump, std::string damage) {
  if (!dump.is_object() || !dump.contains("entries") || !dump["entries"].is_array()) return Added::kNoDump;
  const auto own = dump.find("rank");
  const auto number = own == dump.end() ? std::nullopt : whole_number(*own, kMostRanks);
  const int rank = number ? static_cast<int>(*number) : rank_in_name(file);
  if (own != dump.end() && !number && damage.empty())
    damage = fmt::format("\"rank\" is {}, no rank", shown(own->dump().substr(0, kLongestValue)));
  if (rank < 0 && damage.empty()) damage = "neither the dump nor its name says of which rank it is";
  names_.insert(without_digits(file));
  if (rank >= 0 && !dumped_.insert(rank).second) return Added::kTwice;
  if (dump.contains("pg_config") && dump["pg_config"].is_object())
    for (const auto& [name, config] : dump["pg_config"].items()) {
      Group& group = groups_[text_of(config, "name").empty() ? name : text_of(config, "name")];
      if (!group.members.empty()) continue;  // another rank's dump has said so
      const json ranks = json::parse(text_of(config, "ranks"), nullptr, false);
      if (ranks.is_array())
        for (const json& r : ranks)
          if (const auto member = whole_number(r, kMostRanks)) group.members.push_back(static_cast<int>(*member));
    }
  std::size_t left_out = 0, at = 0;
  std::string first;
  for (const json& entry : dump["entries"]) {
    const std::string why = rank < 0 ? std::string("of no known rank") : add_entry(file, rank, entry);
    if (!why.empty() && ++left_out == 1) first = fmt::format("entries[{}]: {}", at, why);
    ++at;
  }
  if (left_out > 0)
    damage += fmt::format("{}{}; {} of {} entries left out", damage.empty() ? "" : "; ", first, left_out, at);
  if (!damage.empty()) damaged_.push_back({file, rank, std::move(damage)});
  return Added::kYes;
}

void Recorder::add_unread(const std::string& file, const std::string& why) {
  const int rank = rank_in_name(file);
  if (rank < 0 || !names_.contains(without_digits(file)) || !dumped_.insert(rank).second) return;
  damaged_.push_back({file, rank, why});
}

bool Recorder::is_damaged(int rank) const {
  return std::ranges::any_of(damaged_, [&](const Damaged& one) { return one.rank == rank; });
}

std::vector<std::string> Recorder::not_known() const {
  std::vector<std::string> said;
  for (const auto& [name, group] : groups_) {
    const auto waiting = std::ranges::find_if(group.by_sequence, [](const auto& call) {
      return std::ranges::any_of(call.second, [](const Record& r) { return !complete(r.state); });
    });
    if (waiting == group.by_sequence.end()) continue;
    std::vector<int> ranks;
    const auto& there = waiting->second;
    for (const Damaged& one : damaged_)
      if (one.rank >= 0 && std::ranges::find(there, one.rank, &Record::rank) == there.end() &&
          (group.last.contains(one.rank) || std::ranges::find(group.members, one.rank) != group.members.end()))
        ranks.push_back(one.rank);
    if (!ranks.empty())
      said.push_back(
          fmt::format("group {}: others wait in call {} ({}); {} {} left a dump that is cut or damaged, "
                      "so whether {} joined the call is not known",
                      name, waiting->first, there[0].call, plural(ranks.size(), "rank"), fmt::join(ranks, ", "),
                      ranks.size() == 1 ? "it" : "they"));
  }
  return said;
}

// The rank of the job that is `rank` of a group; -1: the dumps do not say. A group of all ranks counts as the job does.
int Recorder::job_rank(const std::string& group, int rank) const {
  const auto at = groups_.find(group);
  if (at == groups_.end() || at->second.members.empty()) return group == "0" ? rank : -1;
  const auto& members = at->second.members;
  return rank >= 0 && static_cast<std::size_t>(rank) < members.size() ? members[static_cast<std::size_t>(rank)] : -1;
}

// "nccl:send 0->1", "nccl:recv 1<-0": ranks of the group.
void Recorder::add_message(const std::string& file, int rank, const json& entry, const std::string& group) {
  const std::string call = text_of(entry, "profiling_name");
  const auto arrow = call.find("->"), back = call.find("<-");
  const auto at = std::min(arrow, back);
  const int other = at == std::string::npos ? -1 : job_rank(group, number_at(call, at + 2));
  if (other < 0) {
    ++not_understood_;
    return;
  }
  const bool send = arrow != std::string::npos;
  const std::int64_t batch = entry.contains("p2p_seq_id") && entry["p2p_seq_id"].is_number_integer()
                                 ? entry["p2p_seq_id"].get<std::int64_t>()
                                 : entries_;
  messages_[rank].push_back(
      {send ? rank : other, send ? other : rank, send, complete(text_of(entry, "state")), batch, file, group});
}

std::string Recorder::add_entry(const std::string& file, int rank, const json& entry) {
  ++entries_;
  const std::string why = odd_in(entry);
  if (!why.empty()) {
    ++not_understood_;
    return why;
  }
  const std::string call = text_of(entry, "profiling_name");
  const std::string group = group_of(entry);
  if (is_message(entry, call)) return add_message(file, rank, entry, group), std::string();
  const std::int64_t sequence = *whole_number(*sequence_of(entry), kMostCalls);
  Group& g = groups_[group];
  g.by_sequence[sequence].push_back({rank, file, call, text_of(entry, "input_sizes") + text_of(entry, "output_sizes"),
                                     text_of(entry, "input_dtypes"), text_of(entry, "state")});
  std::int64_t& last = g.last.try_emplace(rank, sequence).first->second;
  last = std::max(last, sequence);
  return {};
}

// The first call in which ranks differ says more than those behind it.
bool Recorder::differ(const std::string& name, const Group& group, const Finder& found) const {
  const auto most = [](const std::vector<Record>& records, auto member) -> std::pair<std::string, bool> {
    std::map<std::string, int> votes;
    for (const Record& r : records) ++votes[r.*member];
    const auto best = std::ranges::max_element(votes, {}, [](const auto& v) { return v.second; });
    const bool tie = std::ranges::count(votes, best->second, [](const auto& v) { return v.second; }) > 1;
    return {best->first, tie};
  };
  for (const auto& [sequence, records] : group.by_sequence) {
    bool differs = false;
    const auto [call, call_tie] = most(records, &Record::call);
    const auto [sizes, sizes_tie] = most(records, &Record::sizes);
    const auto [types, types_tie] = most(records, &Record::types);
    const bool same_calls = std::ranges::all_of(records, [&](const Record& r) { return r.call == records[0].call; });
    for (const Record& r : records) {
      const auto report = [&](std::string_view id, const std::string& own, const std::string& others) {
        differs = true;
        found(id, {.file = r.file,
                   .text = fmt::format("group {}, call {} ({}): rank {} has {}, {}", name, sequence, call, r.rank, own,
                                       own == others ? "others do not" : "the others " + others),
                   .source = "flight-recorder",
                   .rank = r.rank});
      };
      if (!same_calls && (call_tie || r.call != call))
        report("F065", r.call, call);
      else if (same_calls && (r.types != types || (types_tie && records.size() > 1)))
        report("F067", r.types, types);
      else if (same_calls && !may_be_uneven(call) && (r.sizes != sizes || (sizes_tie && records.size() > 1)))
        report("F066", r.sizes, sizes);
    }
    if (differs) return true;
  }
  return false;
}

std::vector<Recorder::Blame> Recorder::absent(const std::string& name, const Group& group) const {
  std::vector<Blame> blames;
  std::int64_t most = 0;
  for (const auto& [rank, last] : group.last) most = std::max(most, last);
  const auto call_at = [&](std::int64_t sequence) {
    const auto records = group.by_sequence.find(sequence);
    return records == group.by_sequence.end() || records->second.empty() ? std::string("?") : records->second[0].call;
  };
  const auto blame = [&](int rank, bool no_dump, std::string text) {
    blames.push_back(
        {rank,
         no_dump,
         {.file = no_dump ? "(no dump)" : "", .text = std::move(text), .source = "flight-recorder", .rank = rank}});
  };
  for (const auto& [rank, last] : group.last)
    if (last < most && !is_damaged(rank))
      blame(rank, false,
            fmt::format("group {}: rank {} has not joined call {} ({}); others are at call {}", name, rank, last + 1,
                        call_at(last + 1), most));
  const auto stuck = std::ranges::find_if(group.by_sequence, [](const auto& call) {
    return std::ranges::any_of(call.second, [](const Record& r) { return !complete(r.state); });
  });
  // A member that has a dump without a call of this group, where others wait in one.
  if (stuck != group.by_sequence.end())
    for (const int rank : group.members)
      if (dumped_.contains(rank) && !is_damaged(rank) && !group.last.contains(rank))
        blame(rank, false,
              fmt::format("group {}: rank {} has not joined call {} ({}); others are at call {}", name, rank,
                          stuck->first, stuck->second[0].call, most));
  // A call that all joined, that some have started and that one has only scheduled: its stream is blocked.
  if (blames.empty() && stuck != group.by_sequence.end()) {
    const auto& records = stuck->second;
    const auto scheduled = std::ranges::count(records, "scheduled", &Record::state);
    if (scheduled > 0 && 2 * static_cast<std::size_t>(scheduled) < records.size())
      for (const Record& r : records)
        if (r.state == "scheduled")
          blame(r.rank, false,
                fmt::format("group {}: rank {} has called but not started call {} ({}): its stream is blocked", name,
                            r.rank, stuck->first, r.call));
  }
  if (!group.last.empty())
    for (const int rank : group.members)
      if (!dumped_.contains(rank))
        blame(rank, true,
              fmt::format("group {}: rank {} has left no dump; the others are at call {} ({})", name, rank, most,
                          call_at(most)));
  return blames;
}

// Groups in which a rank has begun a call that is not complete.
std::set<std::string> Recorder::waits(int rank) const {
  std::set<std::string> names;
  for (const auto& [name, group] : groups_)
    for (const auto& [sequence, records] : group.by_sequence)
      if (std::ranges::any_of(records, [&](const Record& r) { return r.rank == rank && !complete(r.state); })) {
        names.insert(name);
        break;
      }
  return names;
}

// The messages of a rank that are under way: those of its first batch that has one.
std::vector<const Recorder::Message*> Recorder::open_messages(int rank) const {
  std::vector<const Message*> open;
  const auto list = messages_.find(rank);
  if (list == messages_.end()) return open;
  for (const Message& m : list->second) {
    if (m.complete) continue;
    if (!open.empty() && (m.batch != open[0]->batch || m.group != open[0]->group)) break;
    open.push_back(&m);
  }
  return open;
}

// Ranks that wait for each other in a circle of messages, none of which the other side has posted.
bool Recorder::circle(const Finder& found) const {
  const auto awaited = [&](int rank) {  // the rank that this one waits for, and its message
    std::pair<int, const Message*> waits{-1, nullptr};
    for (const Message* m : open_messages(rank)) {
      const int peer = m->peer();
      const auto theirs = open_messages(peer);
      const bool posted = std::ranges::any_of(
          theirs, [&](const Message* t) { return t->send != m->send && t->peer() == rank && t->group == m->group; });
      if (!posted && waits.first < 0 && dumped_.contains(peer) && !is_damaged(peer)) waits = {peer, m};
    }
    return waits;
  };
  std::set<int> seen;
  for (const auto& [rank, list] : messages_) {
    std::vector<int> path;
    std::vector<const Message*> steps;
    for (int at = rank; at >= 0;) {
      if (const auto again = std::ranges::find(path, at); again != path.end()) {
        const auto first = again - path.begin();
        const std::vector<int> ring(path.begin() + first, path.end());
        const bool sends = std::ranges::all_of(steps.begin() + first, steps.end(), &Message::send);
        found("F070", {.file = steps[static_cast<std::size_t>(first)]->file,
                       .text = ring.size() == 2 && sends
                                   ? fmt::format("ranks {} and {} both send to each other first", ring[0], ring[1])
                                   : fmt::format("ranks {} wait for each other in a circle, each {} the next first",
                                                 fmt::join(ring, ", "), sends ? "sends to" : "waits for"),
                       .source = "flight-recorder",
                       .rank = ring[0]});
        return true;
      }
      if (!seen.insert(at).second) break;
      const auto [next, message] = awaited(at);
      path.push_back(at);
      steps.push_back(message);
      at = next;
    }
  }
  return false;
}

// A circle of messages, or one whose other side was never called. True: found.
bool Recorder::messages(const Finder& found) const {
  if (circle(found)) return true;
  bool any = false;
  for (const auto& [rank, list] : messages_) {
    for (const Message* own : open_messages(rank)) {
      const int other = own->peer();
      if (!dumped_.contains(other) || is_damaged(other)) continue;
      const auto there = messages_.find(other);
      const auto count = [&](const std::vector<Message>& messages, bool send, int peer) {
        return std::ranges::count_if(
            messages, [&](const Message& m) { return m.send == send && m.peer() == peer && m.group == own->group; });
      };
      const auto theirs = there == messages_.end() ? 0 : count(there->second, !own->send, rank);
      const auto ours = count(list, own->send, other);
      // A peer that waits elsewhere is a victim itself.
      if (theirs >= ours || !open_messages(other).empty() || !waits(other).empty()) continue;
      any = true;
      found("F068", {.file = own->file,
                     .text = own->send ? fmt::format("rank {} sends message {} to rank {}, which has received {}", rank,
                                                     ours, other, theirs)
                                       : fmt::format("rank {} waits for message {} of rank {}, which has sent {}", rank,
                                                     ours, other, theirs),
                     .source = "flight-recorder",
                     .rank = other});
    }
  }
  return any || without_dump(found);
}

// Messages to or from ranks whose dumps are not here: the waits end there, and more cannot be known.
bool Recorder::without_dump(const Finder& found) const {
  std::set<int> named;
  for (const auto& [rank, list] : messages_)
    for (const Message* own : open_messages(rank)) {
      const int other = own->peer();
      if (dumped_.contains(other) || !named.insert(other).second) continue;
      found("F068", {.file = own->file,
                     .text = fmt::format("rank {} waits in {} rank {} (group {}), which has left no dump", rank,
                                         own->send ? "send to" : "recv from", other, own->group),
                     .source = "flight-recorder",
                     .rank = other});
    }
  return !named.empty();
}

void Recorder::finish(const Finder& found) const {
  bool differs = false;
  for (const auto& [name, group] : groups_) differs = differ(name, group, found) || differs;
  if (differs || messages(found)) return;
  std::vector<std::pair<std::string, Blame>> blames;
  for (const auto& [name, group] : groups_)
    for (Blame& blame : absent(name, group)) blames.emplace_back(name, std::move(blame));
  // Ranks that are behind here and wait elsewhere are victims of the other group, unless all of them are.
  const auto victim = [&](const std::pair<std::string, Blame>& b) {
    if (b.second.no_dump) return false;
    auto groups = waits(b.second.rank);
    groups.erase(b.first);
    return std::ranges::any_of(groups, [&](const std::string& g) {
      return std::ranges::none_of(
          blames, [&](const auto& other) { return other.first == g && other.second.rank == b.second.rank; });
    });
  };
  const bool all_wait = !blames.empty() && std::ranges::all_of(blames, victim);
  // Groups without victims come first: what others wait for began there.
  std::set<std::string> later;
  for (const auto& blame : blames)
    if (victim(blame)) later.insert(blame.first);
  std::ranges::stable_sort(blames, {}, [&](const auto& blame) { return later.contains(blame.first); });
  for (const auto& [name, blame] : blames) {
    if (!victim({name, blame})) {
      found("F068", blame.fact);
    } else if (all_wait) {
      Fact fact = blame.fact;
      fact.text += fmt::format("; it waits in group {}", fmt::join(waits(blame.rank), ", "));
      found("F069", fact);
    }
  }
}

}  // namespace weft::doctor
