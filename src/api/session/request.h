#pragma once

#include <optional>
#include <span>
#include <string>

#include "api/session/arguments.h"
#include "base/result.h"
#include "plan/schedule/lower/lower.h"
#include "weft/communicator.h"

// Checks and derived values of requests, independent of the transport.
namespace weft::session {

// Errors (bad input): a request that rank `rank` of `ranks` cannot make; the message begins with the collective.
Status check_request(const Request& request, Rank rank, Rank ranks);
// A rank's two buffers of a request.
struct Buffers {
  Bytes in_bytes = 0, out_bytes = 0;
  Bytes in_place = 0;  // how far behind the input the output begins in a call in place
};
Buffers buffers_of(const schedule::Layout& layout, Rank rank);
// Errors (bad input): a null buffer where bytes are needed; buffers that overlap otherwise than in place; in place, or
// not, where the algorithm is not written for that.
Status check_buffers(const Request& request, const schedule::Algorithm& algorithm, const Buffers& buffers);

// Of an all_to_all_v only this rank's row and column of counts are known; the others are zero.
schedule::Task task_of(const Request& request, Rank rank, Rank ranks, Rank ranks_per_node);
// What the choice goes by. All ranks must choose alike, but of an all_to_all_v each knows other sizes: it is chosen for
// parts of one size, whatever they are. Of a routed collective it is chosen for shown_routes.
schedule::Task chosen_for(const schedule::Task& task);

// Of a table of experts: tables with the same digest are taken for one.
std::uint64_t digest_of(std::span<const std::int32_t> experts);
// What all ranks must agree on: the fields that the collective uses. Of an all_to_all_v ranks know different counts.
// `direct`: whether peers touch the buffers, which all ranks have agreed on.
std::string key_of(const Request& request, bool direct);
// The same in one number, with the choice that was made for the call.
std::uint64_t signature_of(const Request& request, bool direct, const schedule::Plan& plan, Rank ranks_per_node);
// The call would overwrite input that peers still want: it is done with a copy.
bool overwrites_input(const Request& request);
// How far behind its input a call's output begins, if they overlap and the input is not copied.
std::optional<Bytes> shift_of(const Request& request, Bytes in_bytes, Bytes out_bytes);

}  // namespace weft::session
