#pragma once

#include <atomic>

#include "net/bootstrap/meeting.h"

namespace weft::net::bootstrap {

inline constexpr std::size_t kStrangers = 64;  // at a time; more push out the oldest

// Receives all ranks and sends them the list. Connections that do not prove the key are closed and
// forgotten. Errors: kTimeout naming the missing ranks; the ranks that have come learn it, too.
Status receive_ranks(int listener, const Key& key, Rank ranks, Milliseconds timeout, const std::atomic<bool>& stopped);

}  // namespace weft::net::bootstrap
