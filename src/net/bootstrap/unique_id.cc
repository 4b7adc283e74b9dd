#include "net/bootstrap/unique_id.h"

namespace weft::net::bootstrap {
namespace {

int digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

}  // namespace

std::string UniqueId::text() const {
  std::array<std::uint8_t, sizeof(UniqueId)> bytes;
  std::memcpy(bytes.data(), this, sizeof *this);
  return hexadecimal(bytes);
}

Result<UniqueId> UniqueId::parse(const std::string& what, const std::string& text) {
  if (text.size() != 2 * sizeof(UniqueId))
    return bad_input("{}: a unique id has {} digits, this has {}", what, 2 * sizeof(UniqueId), text.size());
  std::array<std::uint8_t, sizeof(UniqueId)> bytes;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const int high = digit(text[2 * i]), low = digit(text[2 * i + 1]);
    if (high < 0 || low < 0) return bad_input("{}: not a unique id: digit {} is not hexadecimal", what, 2 * i);
    bytes[i] = static_cast<std::uint8_t>(high << 4 | low);
  }
  UniqueId id;
  std::memcpy(&id, bytes.data(), sizeof id);
  if (id.magic != kMagic) return bad_input("{}: not a unique id of this version of weft", what);
  for (const Address& a : id.addresses)
    if (a.family != 0 && a.family != 4 && a.family != 6) return bad_input("{}: not a unique id: bad address", what);
  if (id.addresses[0].family == 0) return bad_input("{}: a unique id without an address", what);
  return id;
}

}  // namespace weft::net::bootstrap
