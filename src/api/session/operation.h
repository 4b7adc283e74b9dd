#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "api/session/adopted.h"
#include "api/session/request.h"
#include "exec/executor.h"

namespace weft::session {

// Copying as much takes about 0.1 us.
inline constexpr Bytes kBriefBytes = 8192;

// A plan written out for one rank, kept for the next call like it.
struct Prepared : std::enable_shared_from_this<Prepared> {
  schedule::Plan plan;
  std::shared_ptr<const schedule::Program> program;
  fabric::Call call = {};           // but for the buffers, and the scalar of kPremulSum, which are its caller's
  ReduceOp op = ReduceOp::kSum;     // sum for collectives that do not reduce
  Buffers buffers = {};             // of this rank
  bool may_be_in_place = true;      // with in == out
  bool copies = false;              // peers reach a copy of this rank's buffers, not those
  std::optional<Bytes> shift = {};  // of the buffers that it is for, as shift_of()
  bool divides = false;             // an average of integers: by the number of ranks, after the sum
  std::uint32_t label = 0;          // in the record
  bool brief = false;               // moves at most kBriefBytes
};

// An operation as its caller describes it. Owns: nothing.
struct Order {
  const Request* request = nullptr;          // null: transfers
  std::span<const Transfer> transfers = {};  // instead of a request
  std::span<const std::byte> input = {};     // instead of the request's; empty: that
  const Prepared* prepared = nullptr;
  std::uint64_t number = 0;                               // of the operation on its communicator, from 1
  std::optional<std::chrono::milliseconds> timeout = {};  // see Request
  std::string_view name = {};                             // of the call that has the transfers; empty: exchange
  const AdoptedBuffers* adopted = nullptr;                // null: its buffers are where the request says
};

}  // namespace weft::session
