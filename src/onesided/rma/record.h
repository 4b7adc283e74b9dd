#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "net/link/seal.h"

// Sealed connections (net/link/seal.h): both sides know from the requests how many bytes come next, so records need no
// length. A request is a record of its own; data and answers are records of kRecordBytes and a shorter last one.
namespace weft::net::rma {

inline constexpr std::size_t kRecordBytes = std::size_t{32} << 10;  // with its tag less than the server's buffer

// Seals these bytes and appends them with their tag.
inline void append_record(link::Sealer& sealer, std::span<const std::byte> bytes, std::vector<std::byte>& to) {
  const std::size_t at = to.size();
  to.insert(to.end(), bytes.begin(), bytes.end());
  to.resize(to.size() + link::Sealer::kTagBytes);
  sealer.seal(to.data() + at, bytes.size(), to.data() + at, to.data() + at + bytes.size());
}

// Opens a record where it lies, with its tag behind it. False: it is not what the other side sent next.
inline bool open_record(link::Sealer& opener, std::byte* at, std::size_t bytes) {
  opener.begin();
  opener.next(at, bytes);
  return opener.end(at + bytes);
}

}  // namespace weft::net::rma
