#pragma once

#include <array>

#include "net/bootstrap/meeting.h"

// The messages between ranks and the host of their meeting after the greeting.
namespace weft::net::bootstrap {

// What the host sends when all are there, before the records; or why it gives up. Then follows a MAC of both.
struct TableHead {
  std::int32_t ranks = 0;  // 0: gives up
  std::uint32_t reserved = 0;
  Nonce nonce{};
  char problem[88] = {};
  std::array<std::int32_t, 8> missing = {-1, -1, -1, -1, -1, -1, -1, -1};  // the first ranks that have not come
};
static_assert(sizeof(TableHead) == 160);

struct SignedRecord {
  Record record;
  Digest mac;
};

inline std::span<const std::uint8_t> bytes_of(const auto& value) {
  return {reinterpret_cast<const std::uint8_t*>(&value), sizeof value};
}

}  // namespace weft::net::bootstrap
