#include "doctor/recorder.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "doctor/line.h"

namespace weft::doctor {
namespace {

using nlohmann::json;

std::string text_of(const json& object, const char* key) {
  return object.is_object() && object.contains(key)
             ? (object[key].is_string() ? object[key].get<std::string>() : object[key].dump())
             : std::string();
}

// "comm_lib_trace_rank_3", "rank3_host12.json", "dump.7": the number behind "rank", else the last one.
int rank_in_name(const std::string& file) {
  const std::string base = std::filesystem::path(file).filename().string();
  if (const auto at = base.rfind("rank"); at != std::string::npos)
    for (const std::size_t skip : {4, 5})
      if (const int rank = number_at(base, at + skip); rank >= 0) return rank;
  const std::size_t end = base.find_last_of("0123456789");
  if (end == std::string::npos) return -1;
  std::size_t begin = end;
  while (begin > 0 && base[begin - 1] >= '0' && base[begin - 1] <= '9') --begin;
  return number_at(base, begin);
}

// All ranks of these may pass other sizes.
bool may_be_uneven(const std::string& call) {
  return call.find("all_to_all") != std::string::npos || call.find("gather") != std::string::npos ||
         call.find("scatter") != std::string::npos;
}

bool complete(const std::string& state) { return state == "completed"; }

}  // namespace

// A rank that others wait for.
struct Recorder::Blame {
  int rank;
  bool no_dump;
  Fact fact;
};

Recorder::Added Recorder::add(const std::string& file, const json& dump) {
  if (!dump.is_object() || !dump.contains("entries") || !dump["entries"].is_array()) return Added::kNoDump;
  const int rank =
      dump.contains("rank") && dump["rank"].is_number_integer() ? dump["rank"].get<int>() : rank_in_name(file);
  if (!dumped_.insert(rank).second) return Added::kTwice;
  if (dump.contains("pg_config") && dump["pg_config"].is_object())
    for (const auto& [name, config] : dump["pg_config"].items()) {
      Group& group = groups_[text_of(config, "name").empty() ? name : text_of(config, "name")];
      const json ranks = json::parse(text_of(config, "ranks"), nullptr, false);
      if (ranks.is_array())
        for (const json& r : ranks)
          if (r.is_number_integer()) group.members.insert(r.get<int>());
    }
  for (const json& entry : dump["entries"]) add_entry(file, rank, entry);
  return Added::kYes;
}

void Recorder::add_entry(const std::string& file, int rank, const json& entry) {
  ++entries_;
  if (!entry.is_object() || !entry.contains("collective_seq_id") || !entry["collective_seq_id"].is_number_integer()) {
    ++not_understood_;
    return;
  }
  const std::string call = text_of(entry, "profiling_name");
  if (entry.contains("is_p2p") && entry["is_p2p"].is_boolean() && entry["is_p2p"].get<bool>()) {
    // "nccl:send 0->1", "nccl:recv 1<-0": ranks of the group
    const auto arrow = call.find("->"), back = call.find("<-");
    const auto at = std::min(arrow, back);
    if (at == std::string::npos) return;
    const auto begin = call.rfind(' ', at);
    const int own = number_at(call, begin == std::string::npos ? 0 : begin + 1), other = number_at(call, at + 2);
    const bool send = arrow != std::string::npos;
    messages_[rank].push_back({send ? own : other, send ? other : own, send, complete(text_of(entry, "state")), file});
    return;
  }
  const auto sequence = entry["collective_seq_id"].get<std::int64_t>();
  std::string group = "0";
  if (entry.contains("process_group"))
    group = entry["process_group"].is_array() && !entry["process_group"].empty()
                ? (entry["process_group"][0].is_string() ? entry["process_group"][0].get<std::string>()
                                                         : entry["process_group"][0].dump())
                : text_of(entry, "process_group");
  Group& g = groups_[group];
  g.by_sequence[sequence].push_back({rank, file, call, text_of(entry, "input_sizes") + text_of(entry, "output_sizes"),
                                     text_of(entry, "input_dtypes"), text_of(entry, "state")});
  std::int64_t& last = g.last.try_emplace(rank, sequence).first->second;
  last = std::max(last, sequence);
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
    if (last < most)
      blame(rank, false,
            fmt::format("group {}: rank {} has not joined call {} ({}); others are at call {}", name, rank, last + 1,
                        call_at(last + 1), most));
  const auto stuck = std::ranges::find_if(group.by_sequence, [](const auto& call) {
    return std::ranges::any_of(call.second, [](const Record& r) { return !complete(r.state); });
  });
  // A member that has a dump without a call of this group, where others wait in one.
  if (stuck != group.by_sequence.end())
    for (const int rank : group.members)
      if (dumped_.contains(rank) && !group.last.contains(rank))
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

// Two ranks that both send first; a recv whose send was never called. True: found.
bool Recorder::messages(const Finder& found) const {
  const auto first_open = [&](int rank) -> const Message* {
    const auto list = messages_.find(rank);
    if (list == messages_.end()) return nullptr;
    const auto open = std::ranges::find(list->second, false, &Message::complete);
    return open == list->second.end() ? nullptr : &*open;
  };
  bool any = false;
  for (const auto& [rank, list] : messages_) {
    const Message* own = first_open(rank);
    if (own == nullptr) continue;
    const int other = own->send ? own->to : own->from;
    const Message* theirs = first_open(other);
    if (own->send && theirs != nullptr && theirs->send && theirs->to == rank) {
      any = true;
      found("F070", {.file = own->file,
                     .text = fmt::format("ranks {} and {} both send to each other first", rank, other),
                     .source = "flight-recorder",
                     .rank = rank});
    } else if (!own->send && dumped_.contains(other)) {
      const auto there = messages_.find(other);
      const auto sends = there == messages_.end() ? 0 : std::ranges::count_if(there->second, [&](const Message& m) {
        return m.send && m.to == rank;
      });
      const auto receives = std::ranges::count_if(list, [&](const Message& m) { return !m.send && m.from == other; });
      if (sends < receives && theirs == nullptr && waits(other).empty()) {
        any = true;
        found("F068", {.file = own->file,
                       .text = fmt::format("rank {} waits for message {} of rank {}, which has sent {}", rank, receives,
                                           other, sends),
                       .source = "flight-recorder",
                       .rank = other});
      }
    }
  }
  return any;
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
