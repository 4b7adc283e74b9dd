#include "net/bootstrap/decision.h"

#include <algorithm>
#include <cstring>

namespace weft::net::bootstrap {
namespace {

void append(Octets& out, const auto& value) {
  const auto* at = reinterpret_cast<const std::uint8_t*>(&value);
  out.insert(out.end(), at, at + sizeof value);
}

class Reader {
 public:
  explicit Reader(const Octets& from) : left_(from) {}
  template <class T>
  bool read(T& into) {
    if (left_.size() < sizeof into) return false;
    std::memcpy(&into, left_.data(), sizeof into);
    left_ = left_.subspan(sizeof into);
    return true;
  }
  bool read(Octets& into, std::size_t bytes) {
    if (left_.size() < bytes) return false;
    into.assign(left_.begin(), left_.begin() + static_cast<std::ptrdiff_t>(bytes));
    left_ = left_.subspan(bytes);
    return true;
  }

 private:
  std::span<const std::uint8_t> left_;
};

}  // namespace

// Nonce, ranks that have ended, and every member with its payload.
Octets encode(const Member::Decision& d) {
  Octets out;
  append(out, d.nonce);
  append(out, static_cast<std::uint32_t>(d.ended.size()));
  for (const Rank r : d.ended) append(out, r);
  append(out, static_cast<std::uint32_t>(d.parts.size()));
  for (const auto& part : d.parts) {
    append(out, part.rank);
    append(out, static_cast<std::uint32_t>(part.payload.size()));
    out.insert(out.end(), part.payload.begin(), part.payload.end());
  }
  return out;
}

std::optional<Member::Decision> decode(const Octets& from) {
  Member::Decision d;
  Reader in(from);
  std::uint32_t ended = 0, parts = 0;
  if (!in.read(d.nonce) || !in.read(ended)) return std::nullopt;
  for (std::uint32_t i = 0; i < ended; ++i)
    if (!in.read(d.ended.emplace_back())) return std::nullopt;
  if (!in.read(parts)) return std::nullopt;
  for (std::uint32_t i = 0; i < parts; ++i) {
    auto& part = d.parts.emplace_back();
    std::uint32_t bytes = 0;
    if (!in.read(part.rank) || !in.read(bytes) || !in.read(part.payload, bytes)) return std::nullopt;
  }
  return d;
}

bool of_these_ranks(const Member::Decision& d, Rank ranks) {
  Rank last = -1;
  for (const auto& part : d.parts) {
    if (part.rank <= last || part.rank >= ranks) return false;
    last = part.rank;
  }
  return std::all_of(d.ended.begin(), d.ended.end(), [&](Rank r) { return r >= 0 && r < ranks; });
}

}  // namespace weft::net::bootstrap
