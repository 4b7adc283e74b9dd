#pragma once

#include "core.h"

// torch 2.14's reconfigure() gives a group other members. Each member has a handle, which it keeps for the life of its
// group object; a new set of members is an ordered list of handles and a number, the uuid, that names the meeting.
#ifdef C10D_BACKEND_HAS_RECONFIGURE

#include <algorithm>
#include <random>
#include <unordered_set>
#include <variant>

namespace weft::torch_adapter {

// "weft:RANK:KEY": the rank of the job, for the flight record, and a random key.
inline std::string new_handle(const GroupOptions& options, int rank) {
  const auto& ranks = options.global_ranks_in_group;
  const std::uint64_t of_job = static_cast<std::size_t>(rank) < ranks.size() ? ranks[rank] : rank;
  std::random_device random;
  std::uint64_t key = random();
  key = key << 32 | random();
  return c10::str("weft:", of_job, ":", key);
}
inline std::uint64_t rank_of_job(const std::string& handle) {
  const auto parts = [&](std::size_t from) { return handle.find(':', from); };
  const std::size_t first = parts(0), second = first == std::string::npos ? first : parts(first + 1);
  const bool is_right = second != std::string::npos && second > first + 1 && handle.compare(0, 5, "weft:") == 0 &&
                        std::all_of(handle.begin() + first + 1, handle.begin() + second, ::isdigit) &&
                        second < first + 20;
  TORCH_CHECK(is_right, "weft: '", handle, "' is not a handle that weft's get_reconfigure_handle() has given");
  return std::stoull(handle.substr(first + 1, second - first - 1));
}

struct Members {
  std::vector<std::string> handles;  // in the order of their ranks
  std::vector<std::uint64_t> ranks;  // of the job
  int rank = -1;                     // this process's
};

// A list gives the order; of a set, the order of the texts is taken, which all members have alike.
inline Members members_of(const c10d::ReconfigureOptions& wanted, const std::string& own) {
  Members m;
  if (const auto* list = std::get_if<std::vector<std::string>>(&wanted.handles)) {
    m.handles = *list;
  } else {
    const auto& set = std::get<std::unordered_set<std::string>>(wanted.handles);
    m.handles.assign(set.begin(), set.end());
    std::sort(m.handles.begin(), m.handles.end());
  }
  for (const auto& h : m.handles) m.ranks.push_back(rank_of_job(h));
  const std::unordered_set<std::string> unique(m.handles.begin(), m.handles.end());
  TORCH_CHECK(unique.size() == m.handles.size(), "weft: a handle is there more than once");
  const auto here = std::find(m.handles.begin(), m.handles.end(), own);
  TORCH_CHECK(here != m.handles.end(), "weft: this rank's own handle is not among the ", m.handles.size(), " handles");
  m.rank = static_cast<int>(here - m.handles.begin());
  return m;
}

inline constexpr const char* kUsed = " was already used; every reconfigure() needs a new one";

// The members meet by what the first of them writes into the store: the id of its meeting place, and all handles, for
// a rank that reads them must not join ranks that mean another group by this uuid.
inline Result<Communicator> meet_again(c10d::Store& store, std::int64_t uuid, const Members& members,
                                       milliseconds timeout, const GroupOptions& wanted) {
  const auto until = std::chrono::steady_clock::now() + timeout;
  const std::string key = c10::str("weft/reconfigure/", uuid);
  std::string all;
  for (const auto& h : members.handles) all += " " + h;
  const int size = static_cast<int>(members.handles.size());
  ConnectOptions options{.transport = wanted.transport, .interface = wanted.interface, .timeout = timeout};
  std::optional<MeetingPlace> place;
  std::string text;
  if (members.rank == 0) {
    TORCH_CHECK(store.add(key + "/uses", 1) == 1, "weft: uuid ", uuid, kUsed);
    auto opened = MeetingPlace::open(size, options);
    if (!opened) return tl::make_unexpected(opened.error());
    place.emplace(std::move(*opened));
    text = place->id().text();
    store.set(key, text + all);
  } else {
    try {
      store.wait({key}, timeout);
    } catch (const std::exception&) {  // each kind of store has a class of its own for a wait that took too long
      if (std::chrono::steady_clock::now() < until) throw;
      return tl::make_unexpected(
          Error{Code::kTimeout, Blame::kOperation,
                c10::str("reconfigure(): rank 0 of ", size, " did not come within ", timeout.count(), " ms")});
    }
    const std::string found = store.get_to_str(key);
    text = found.substr(0, found.find(' '));
    TORCH_CHECK(found.size() > text.size() && found.substr(text.size()) == all, "weft: uuid ", uuid,
                " stands for other handles on rank 0: all members pass the same handles in the same order");
    options.timeout =
        std::max(milliseconds(1), std::chrono::duration_cast<milliseconds>(until - std::chrono::steady_clock::now()));
  }
  auto id = UniqueId::parse(text);
  if (!id) return tl::make_unexpected(id.error());
  return Communicator::connect(*id, members.rank, size, options);
}

}  // namespace weft::torch_adapter

#endif
