#pragma once

#include <atomic>
#include <functional>

#include "net/bootstrap/meeting.h"

namespace weft::net::bootstrap {

inline constexpr std::size_t kStrangers = 64;  // at a time; more push out the oldest

// Has this rank ended for sure? Asked again and again about those who have not come.
using Absence = std::function<bool(Rank)>;

// What a host does: until all ranks have come and got the list. Connections that do not prove the key are closed and
// forgotten. With `absence`: a meeting of survivors, for which those who have ended are not waited for, and after the
// timeout nobody is. Errors: kTimeout naming the missing ranks, who are told too; of survivors kAborted: too few.
Status receive_ranks(int listener, const Key& key, Rank ranks, const Absence* absence, Milliseconds timeout,
                     const std::atomic<bool>& stopped);

}  // namespace weft::net::bootstrap
