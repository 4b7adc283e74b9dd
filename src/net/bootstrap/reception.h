#pragma once

#include <atomic>

#include "net/bootstrap/meeting.h"

namespace weft::net::bootstrap {

inline constexpr std::size_t kStrangers = 64;  // at a time; more push out the oldest

// What a host does: until all ranks have come and got the list. Connections that do not prove the key are closed and
// forgotten. Errors: kTimeout naming the missing ranks, who are told too.
Status receive_ranks(int listener, const Key& key, Rank ranks, Milliseconds timeout, const std::atomic<bool>& stopped);

}  // namespace weft::net::bootstrap
