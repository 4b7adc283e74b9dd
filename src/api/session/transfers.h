#pragma once

#include <span>
#include <utility>
#include <vector>

#include "base/result.h"
#include "weft/communicator.h"

// Checks of transfers between single ranks, independent of the transport.
namespace weft::session {

// Errors (bad input): a transfer that rank `rank` of `ranks` cannot make.
Status check_transfer(const Transfer& transfer, Rank rank, Rank ranks);
// What both ends of a transfer must agree on. Never 0.
std::uint32_t tag_of(const Transfer& transfer);

// What a rank sends itself, and where it receives that: its first send its first receive, and so on.
struct OwnTransfer {
  Transfer send, receive;
};
// Errors: bad input: a send without its receive, or the reverse; kMismatch: they differ in count or type.
Result<std::vector<OwnTransfer>> own_transfers(std::span<const Transfer> transfers, Rank rank);

}  // namespace weft::session
