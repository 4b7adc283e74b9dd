#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "schedule/lower/lower.h"
#include "weft/communicator.h"

// What a request asks for, whatever carries it out.
namespace weft::session {

inline constexpr std::size_t kAddressSpace = std::size_t{1} << 47;  // what one process can have at all

// Errors (bad input): a request that no rank of so many could make; the message begins with the collective.
Status check_request(const Request& request, Rank ranks);
// Errors (bad input): a null buffer where bytes are needed; in place, or not, where the algorithm is not written for
// that. The sizes are of this rank's buffers.
Status check_buffers(const Request& request, const schedule::Algorithm& algorithm, Bytes in_bytes, Bytes out_bytes);

// Of an all_to_all_v only this rank's row and column of counts are known; the others are zero.
schedule::Task task_of(const Request& request, Rank rank, Rank ranks, Rank ranks_per_node);
// What the choice goes by. All ranks must choose alike, but of an all_to_all_v each knows other sizes: it is chosen for
// parts of one size, whatever they are.
schedule::Task chosen_for(const schedule::Task& task);

// What all ranks must agree on; of an all_to_all_v they know different counts.
std::string key_of(const Request& request, bool registered);
// The call would overwrite input that peers still want: it is done with a copy.
bool overwrites_input(const Request& request);
// How far behind its input a call's output begins, if they overlap and the input is not copied.
std::optional<Bytes> shift_of(const Request& request, Bytes in_bytes, Bytes out_bytes);
// Equal for requests that the same program serves.
std::string cache_key_of(const Request& request, bool registered, std::optional<Bytes> shift);

}  // namespace weft::session
