#pragma once

#include <cstdint>
#include <type_traits>

// What crosses a connection between two ranks. One side asks, the other serves; a rank that wants to ask back has
// another connection. Requests are executed in the order in which they were sent, which is all of fence().
//   asker   Request, and the payload of a put
//   server  of a get: the bytes; of a fetch: the old value in 8 bytes; of a flush: 8 bytes; nothing for the others
// An asker waits for an answer before it sends the next request, so at most one answer is under way.
namespace weft::net::rma {

struct Request {
  enum class Kind : std::uint8_t { kPut, kGet, kUpdate, kFetch, kFlush, kEnd };
  Kind kind = Kind::kPut;
  std::uint8_t op = 0;  // update, fetch: pgas::AtomicOp
  std::uint16_t reserved = 0;
  std::int32_t region = 0;
  std::int64_t offset = 0;
  std::int64_t bytes = 0;  // put, get: how many; update, fetch: 4 or 8; end: the exit status
  std::uint64_t operand = 0, compare = 0;
};
static_assert(sizeof(Request) == 40 && std::is_trivially_copyable_v<Request>);

using Word = std::uint64_t;  // an answer to fetch and flush

}  // namespace weft::net::rma
