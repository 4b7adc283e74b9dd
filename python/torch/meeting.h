#pragma once

#include <Python.h>
#include <pthread.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <utility>
#include <vector>

#include "weft/interrupt.h"
#include "weft/unique_id.h"
#include "work.h"

// A group's options, and how its ranks meet: through torch's store.
namespace weft::torch_adapter {

struct GroupOptions : c10d::Backend::Options {
  explicit GroupOptions(milliseconds timeout, std::string name = "weft")
      : c10d::Backend::Options(std::move(name), timeout) {}
  bool reproducible = false;
  std::string algorithm, transport;
  std::string interface;  // WEFT_IFACE, where that is not set

  // An independent copy. Overrides a function of torch 2.14, which would copy the base class only; 2.13 has none.
  virtual c10::intrusive_ptr<c10d::Backend::Options> clone() const { return c10::make_intrusive<GroupOptions>(*this); }
};

// What gloo calls a device: here only the interface, which counts between machines.
struct GlooDevice {
  std::string hostname, interface;
};

// gloo's, as programs that construct it by hand set them.
struct GlooOptions final : GroupOptions {
  GlooOptions() : GroupOptions(std::chrono::minutes(30), "gloo") {}
  c10::intrusive_ptr<c10d::Backend::Options> clone() const override { return c10::make_intrusive<GlooOptions>(*this); }
  int threads = 2;                  // has no effect: a group has one thread, and only while it has something to do
  std::vector<GlooDevice> devices;  // the last one's interface counts
};

// How often this process has come out of a fork: what its parent has connected is not its own.
class Forks {
 public:
  static int so_far() {
    static const int watched = pthread_atfork(nullptr, nullptr, [] { count_.fetch_add(1, std::memory_order_relaxed); });
    (void)watched;
    return count_.load(std::memory_order_relaxed);
  }

 private:
  static inline std::atomic<int> count_{0};
};

// True: the group has no members until reconfigure(), which is asked for by
// init_process_group(enable_reconfigure=True).
inline bool waits_for_reconfigure([[maybe_unused]] const GroupOptions& options) {
#ifdef C10D_BACKEND_HAS_RECONFIGURE
  return options.enable_reconfigure;
#else
  return false;
#endif
}

// While it lives, this thread does not hold Python's lock. A wait for a group's threads needs that, for they take the
// lock to drop tensors that Python knows; torch 2.14 destroys groups with the lock held.
class WithoutPythonsLock {
 public:
  WithoutPythonsLock() : state_(Py_IsInitialized() && PyGILState_Check() ? PyEval_SaveThread() : nullptr) {}
  ~WithoutPythonsLock() {
    if (state_ != nullptr) PyEval_RestoreThread(state_);
  }
  WithoutPythonsLock(const WithoutPythonsLock&) = delete;
  WithoutPythonsLock& operator=(const WithoutPythonsLock&) = delete;

 private:
  PyThreadState* const state_;
};

// What the store's keys of a group's first members begin with. torchrun's restarts may come to the same store, which
// then still has what the ranks before the restart wrote.
inline std::string first_keys() {
  const char* const restarts = std::getenv("TORCHELASTIC_RESTART_COUNT");
  const bool again = restarts != nullptr && *restarts != '\0' && std::strcmp(restarts, "0") != 0;
  return again ? c10::str("weft/restart-", restarts, "/") : "weft/";
}

// Asks from time to time what has become of the store that ranks meet by, and of the key with the id.
class StoreWatch {
 public:
  // `read`: what stood under the key; empty: this rank has written it itself.
  StoreWatch(c10d::Store& store, std::string key, std::string read = {})
      : store_(store), key_(std::move(key)), read_(std::move(read)) {}
  bool gone_or_changed() {
    const auto now = std::chrono::steady_clock::now();
    if (now < next_ || gone() || changed_) return gone() || changed_;
    next_ = now + kPause;
    return gone_or_changed_now();
  }
  bool gone() const { return !problem_.empty(); }
  // Another id stands there: what was read before was left by an earlier group, whose place is closed.
  bool changed_now() {
    gone_or_changed_now();
    return changed_;
  }
  tl::unexpected<Error> failure() const { return failure(problem_); }
  static tl::unexpected<Error> failure(const std::string& problem) {
    return tl::make_unexpected(
        Error{Code::kPeerDied, Blame::kCommunicator,
              "weft: the store that the ranks meet by does not answer: " + problem.substr(0, problem.find('\n'))});
  }

 private:
  bool gone_or_changed_now() {
    try {
      const bool there = store_.check({key_});
      if (there && !read_.empty()) changed_ = store_.get_to_str(key_) != read_;
    } catch (const std::exception& e) {
      problem_ = e.what();
    }
    return gone() || changed_;
  }

  static constexpr std::chrono::milliseconds kPause{500};
  c10d::Store& store_;
  const std::string key_, read_;
  std::string problem_;
  bool changed_ = false;
  std::chrono::steady_clock::time_point next_ = std::chrono::steady_clock::now() + kPause;
};

// The ranks of the job in a subgroup, as a text: "0 3". Empty: the group is all ranks, or torch has not said which.
inline std::string ranks_text(const GroupOptions& options) {
  std::string text;
  for (const auto r : options.global_ranks_in_group) text += (text.empty() ? "" : " ") + std::to_string(r);
  return text;
}

// Where torch gives two subgroups one name, as new_group() does when not all ranks call it with one list, each meets by
// a key of its own. The key without the ranks has the list that rank 0 of a subgroup has given.
struct GroupKey {
  std::string ranks, names, meets;
  explicit GroupKey(const std::string& key) : names(key), meets(key) {}
  GroupKey(const std::string& key, const GroupOptions& options)
      : ranks(ranks_text(options)), names(key), meets(ranks.empty() ? key : key + "/" + ranks) {}
  // The other list that a rank of this list has given; empty: none.
  std::string contradiction(c10d::Store& store) const {
    if (ranks.empty() || !store.check({names})) return {};
    const std::string other = store.get_to_str(names);
    std::istringstream theirs(other);
    std::set<std::string> all{std::istream_iterator<std::string>(theirs), {}};
    std::istringstream own(ranks);
    for (std::string r; own >> r;)
      if (other != ranks && all.contains(r)) return other;
    return {};
  }
};

// Asked now and then, about every 20 ms, while ranks meet: true ends the wait with kAborted. Empty: never.
using GivenUp = std::function<bool()>;

// What rank 0 has written into the store, once it has. Errors: the store's; kTimeout; kMismatch: it has given other
// ranks for this group; kAborted: a signal's handler has raised, or it was given up.
inline Result<std::string> written(c10d::Store& store, const GroupKey& group, milliseconds timeout,
                                   const GivenUp& given_up) {
  const std::string& key = group.meets;
  constexpr std::chrono::microseconds kFirst{200}, kLongest{20000};
  const auto until = std::chrono::steady_clock::now() + timeout;
  for (auto pause = kFirst; !store.check({key}); pause = std::min(2 * pause, kLongest)) {
    if (std::chrono::steady_clock::now() >= until)
      return tl::make_unexpected(
          Error{Code::kTimeout,
                Blame::kCommunicator,
                c10::str("waited ", timeout.count(), " ms for rank 0 of the group, which has not come"),
                {0}});
    if (signal_raised() || (pause == kLongest && given_up && given_up()))
      return tl::make_unexpected(Error{Code::kAborted, Blame::kCommunicator, "interrupted"});
    if (const std::string other = pause == kLongest ? group.contradiction(store) : std::string(); !other.empty())
      return tl::make_unexpected(Error{Code::kMismatch, Blame::kCommunicator,
                                       "new_group() was called with ranks " + group.ranks + " here, and with " + other +
                                           " on another of these ranks"});
    std::this_thread::sleep_for(pause);
  }
  return store.get_to_str(key);
}

// A later group of the same store then finds no id that leads nowhere.
inline void forget_key(c10d::Store& store, const GroupKey& key) {
  try {
    (void)store.deleteKey(key.meets);
    if (key.names != key.meets) (void)store.deleteKey(key.names);
  } catch (const std::exception&) {
    // It cannot delete, or does not answer any more: the id stays.
  }
}

struct Met {
  Communicator communicator;
  std::string id;  // of the place where its ranks have met: no other communicator has it
};

// Rank 0: opens a place, and writes its id into the store.
inline Result<Met> meet_as_first(c10d::Store& store, const GroupKey& group, int size, const ConnectOptions& options,
                                 const GivenUp& given_up) {
  const std::string& key = group.meets;
  const auto place = MeetingPlace::open(size, options);
  if (!place) return tl::make_unexpected(place.error());
  if (!group.ranks.empty()) store.set(group.names, group.ranks);
  store.set(key, place->id().text());
  // Ranks that cannot read the store any more do not come.
  StoreWatch watch(store, key);
  const Interruptible scope([&] { return signal_raised() || watch.gone_or_changed() || (given_up && given_up()); });
  auto communicator = Communicator::connect(place->id(), 0, size, options);
  if (communicator) return Met{std::move(*communicator), place->id().text()};
  return watch.gone() ? Result<Met>(watch.failure()) : tl::make_unexpected(communicator.error());
}

// Another rank. A store that has served an earlier group may have that one's id until rank 0 writes its own.
inline Result<Met> meet_first(c10d::Store& store, const GroupKey& group, int rank, int size, ConnectOptions options,
                              const GivenUp& given_up) {
  const std::string& key = group.meets;
  const auto until = std::chrono::steady_clock::now() + options.timeout;
  for (;;) {
    const auto text = written(store, group, options.timeout, given_up);
    if (!text) return tl::make_unexpected(text.error());
    const auto id = UniqueId::parse(*text);
    if (!id) return tl::make_unexpected(id.error());
    StoreWatch watch(store, key, *text);
    const Interruptible scope([&] { return signal_raised() || watch.gone_or_changed() || (given_up && given_up()); });
    auto communicator = Communicator::connect(*id, rank, size, options);
    if (communicator) return Met{std::move(*communicator), *text};
    if (watch.gone()) return watch.failure();
    options.timeout = std::chrono::duration_cast<milliseconds>(until - std::chrono::steady_clock::now());
    if (signal_raised() || options.timeout.count() <= 0 || !watch.changed_now())
      return tl::make_unexpected(communicator.error());
  }
}

// Joins `size` ranks that meet, within `timeout`, by what rank 0 writes into the store. Errors: of the connection;
// kPeerDied: the store does not answer. Throws: what a store that is written in Python raises.
inline Result<Met> meet(c10d::Store& store, const GroupKey& key, int rank, int size, const GroupOptions& wanted,
                        milliseconds timeout, const GivenUp& given_up = {}) {
  const ConnectOptions options{.transport = wanted.transport, .interface = wanted.interface, .timeout = timeout};
  try {
    return rank == 0 ? meet_as_first(store, key, size, options, given_up)
                     : meet_first(store, key, rank, size, options, given_up);
  } catch (const pybind11::error_already_set&) {
    throw;
  } catch (const std::exception& e) {
    return StoreWatch::failure(e.what());
  }
}

}  // namespace weft::torch_adapter
