#pragma once

#include "net/link/key.h"
#include "net/link/socket.h"

namespace weft::net::bootstrap {

using namespace link;

// What ranks need to find each other: the address at which their host listens, and the job's key. A process that has it
// can join. A value of 128 bytes, that may be copied to the ranks by any means; keep it as secret as a password.
struct UniqueId {
  static constexpr std::array<std::uint8_t, 8> kMagic = {'w', 'e', 'f', 't', 'i', 'd', 0, 1};
  static constexpr std::size_t kAddresses = 4;
  std::array<std::uint8_t, 8> magic = kMagic;
  Key key{};
  std::array<Address, kAddresses> addresses{};  // unused ones: none
  std::uint8_t reserved[8] = {};

  std::string text() const;  // 256 hexadecimal digits
  // Errors (bad input): `what` and what is wrong with it; the text itself is not repeated, for it is secret.
  static Result<UniqueId> parse(const std::string& what, const std::string& text);
};
static_assert(sizeof(UniqueId) == 128);

}  // namespace weft::net::bootstrap
