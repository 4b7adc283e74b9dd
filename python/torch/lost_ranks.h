#pragma once

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <regex>
#include <string>

#include "weft/result.h"

// Errors of messages, in the words of the group whose ranks exchange them.
namespace weft::torch_adapter {

// A message between this rank and another.
struct Route {
  int peer;
  bool sends;
  int tag;
};

// Without the caller's rank and call, which its text begins with.
inline Error without_call(Error e) {
  static const std::regex kCall("^rank \\d+: ([a-z_]+ #\\d+ \\([^)]*\\): )?");
  e.message = std::regex_replace(e.message, kCall, "");
  return e;
}

// An error of the communicator of a sender, which is its rank 0, and a receiver, its rank 1. `self`: this rank's number
// in the group.
inline Error with_numbers_of_group(const Error& of_two, const Route& route, int self) {
  static const std::regex kRank("\\brank ([01])\\b");
  // The ends of texts about ranks that have yet to meet for their first message.
  static const std::regex kYet("( of the group, which has not come| to start)$");
  const int numbers[] = {route.sends ? self : route.peer, route.sends ? route.peer : self};
  Error e = without_call(of_two);
  const std::string text = std::move(e.message);
  e.message.clear();
  auto at = text.cbegin();
  for (std::sregex_iterator i(text.begin(), text.end(), kRank); i != std::sregex_iterator(); ++i) {
    const auto& number = (*i)[1];
    e.message.append(at, number.first) += std::to_string(numbers[*number.first - '0']);
    at = number.second;
  }
  e.message.append(at, text.cend());
  e.message = std::regex_replace(e.message, kYet, route.sends ? " to receive" : ", which has sent nothing");
  for (auto& r : e.ranks) r = numbers[r == 0 ? 0 : 1];
  return e;
}

// Ranks that have died, left or aborted, and how. Thread: any.
class LostRanks {
 public:
  // Null: nothing is known against this rank.
  std::optional<Error> known(int rank) const {
    const std::lock_guard guard(mutex_);
    const auto found = of_.find(rank);
    return found == of_.end() ? std::nullopt : std::optional(found->second);
  }
  // Keeps the first error that says that this rank is lost, and returns that; null: this one does not say so.
  std::optional<Error> note(int rank, const Error& e) {
    const bool gone = e.code == Code::kPeerDied || e.code == Code::kPeerLeft || e.code == Code::kAborted;
    if (!gone || std::find(e.ranks.begin(), e.ranks.end(), rank) == e.ranks.end()) return std::nullopt;
    const std::lock_guard guard(mutex_);
    return of_.emplace(rank, e).first->second;
  }
  void clear() {
    const std::lock_guard guard(mutex_);
    of_.clear();
  }

 private:
  mutable std::mutex mutex_;
  std::map<int, Error> of_;
};

}  // namespace weft::torch_adapter
