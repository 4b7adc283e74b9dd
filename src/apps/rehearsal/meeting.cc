#include "apps/rehearsal/meeting.h"

#include <algorithm>

namespace weft::rehearsal {
namespace {

std::size_t place_in(const Job& job, int group, Rank rank) {
  const auto& ranks = job.groups[static_cast<std::size_t>(group)].ranks;
  return static_cast<std::size_t>(std::ranges::find(ranks, rank) - ranks.begin());
}

// Elements that go from one member to another in an all_to_all; equal parts where none are named.
std::int64_t part(const Call& call, const std::vector<std::int64_t>& parts, std::size_t member, std::size_t members) {
  return parts.empty() ? call.count / static_cast<std::int64_t>(members) : parts[member];
}

std::string at(Rank rank, const std::string& line) {
  return line.empty() ? fmt::format("rank {}", rank) : fmt::format("rank {} at {}", rank, line);
}

}  // namespace

bool Meeting::has(Rank rank) const {
  return std::ranges::any_of(arrivals, [&](const Arrival& a) { return a.rank == rank; });
}

std::vector<Rank> Meeting::absent() const {
  std::vector<Rank> ranks;
  for (const Rank r : expected)
    if (!has(r)) ranks.push_back(r);
  return ranks;
}

bool differ(const Call& a, const Call& b, const Job& job, Rank rank_a, Rank rank_b) {
  if (a.message() && b.message()) return a.count != b.count || a.type != b.type;
  if (a.op != b.op || a.type != b.type || a.reduce != b.reduce || a.root != b.root) return true;
  if (a.sends.empty() && b.sends.empty()) return a.count != b.count;
  const std::size_t members = job.groups[static_cast<std::size_t>(a.group)].ranks.size();
  const std::size_t i = place_in(job, a.group, rank_a), j = place_in(job, a.group, rank_b);
  return part(a, a.sends, j, members) != part(b, b.receives, i, members) ||
         part(b, b.sends, i, members) != part(a, a.receives, j, members);
}

int Meetings::add(int group, std::vector<Rank> expected) {
  all_.push_back({.group = group, .expected = std::move(expected)});
  open_.push_back(static_cast<int>(all_.size()) - 1);
  return open_.back();
}

int Meetings::ask(Rank rank, const Call& call) {
  if (call.message()) return ask_message(rank, call);
  std::size_t& next = next_[{rank, call.group}];
  std::vector<int>& calls = of_group_[call.group];
  if (next == calls.size()) {
    std::vector<Rank> expected;
    for (const Rank r : job_->groups[static_cast<std::size_t>(call.group)].ranks)
      if (job_->of(r) != nullptr) expected.push_back(r);
    calls.push_back(add(call.group, std::move(expected)));
    if (calls.size() > 1) all_.back().before.push_back(calls[calls.size() - 2]);
  }
  return calls[next++];
}

int Meetings::ask_message(Rank rank, const Call& call) {
  const Rank from = call.op == "send" ? rank : call.peer, to = call.op == "send" ? call.peer : rank;
  const Lane lane{call.group, from, to};
  std::size_t& next = next_in_[{rank, lane}];
  std::vector<int>& messages = of_lane_[lane];
  if (next == messages.size()) {
    std::vector<Rank> expected{rank};
    if (call.peer != rank && job_->of(call.peer) != nullptr)
      expected.push_back(call.peer);
    else if (call.peer != rank)
      ++outcome_->assumed[call.peer];
    messages.push_back(add(call.group, std::move(expected)));
  }
  const int meeting = messages[next++];
  if (call.batch == 0 && !call.host) {  // the two ranks' messages share a stream, in order
    const std::pair both{rank, Lane{call.group, std::min(from, to), std::max(from, to)}};
    const auto last = last_alone_.find(both);
    if (last != last_alone_.end()) all_[static_cast<std::size_t>(meeting)].before.push_back(last->second);
    last_alone_[both] = meeting;
  }
  return meeting;
}

void Meetings::arrive(int meeting, Meeting::Arrival arrival) {
  Meeting& here = all_[static_cast<std::size_t>(meeting)];
  compare(here, arrival);
  here.arrivals.push_back(arrival);
}

void Meetings::compare(Meeting& meeting, const Meeting::Arrival& arrival) {
  // Uneven exchanges are compared pair by pair, other calls with the first one.
  const std::size_t compared = arrival.call->op == "all_to_all" ? meeting.arrivals.size() : 1;
  for (std::size_t i = 0; i < std::min(compared, meeting.arrivals.size()); ++i) {
    const Meeting::Arrival& other = meeting.arrivals[i];
    if (!differ(*other.call, *arrival.call, *job_, other.rank, arrival.rank)) continue;
    if (!disagreed_.insert(meeting.group).second) return;  // what follows the first difference follows from it
    const auto& [first, second] = other.rank < arrival.rank ? std::tie(other, arrival) : std::tie(arrival, other);
    outcome_->findings.push_back(
        {"mismatch",
         fmt::format("ranks disagree: {} calls {}, {} calls {}", at(first.rank, *first.line), text_of(*first.call),
                     at(second.rank, *second.line), text_of(*second.call)),
         {{first.rank, *first.line}, {second.rank, *second.line}}});
    return;
  }
}

Result<bool> Meetings::settle() {
  bool any = false;
  for (std::size_t i = 0; i < open_.size();) {
    Meeting& meeting = all_[static_cast<std::size_t>(open_[i])];
    const bool free =
        std::ranges::all_of(meeting.before, [&](int b) { return all_[static_cast<std::size_t>(b)].done; });
    if (!free || meeting.arrivals.size() < meeting.expected.size()) {
      ++i;
      continue;
    }
    double start = 0;
    for (const Meeting::Arrival& arrival : meeting.arrivals) start = std::max(start, arrival.at);
    for (const int b : meeting.before) start = std::max(start, all_[static_cast<std::size_t>(b)].end);
    const Meeting::Arrival& first = meeting.arrivals.front();
    WEFT_TRY(meeting.seconds,
             durations_->call(*first.call, job_->groups[static_cast<std::size_t>(meeting.group)].ranks, first.rank));
    meeting.end = start + meeting.seconds;
    meeting.done = any = true;
    open_.erase(open_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return any;
}

}  // namespace weft::rehearsal
