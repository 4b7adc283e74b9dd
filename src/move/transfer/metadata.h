#pragma once

#include <string_view>

#include <optional>

#include "move/transfer/gpu.h"
#include "move/transfer/segment.h"
#include "net/link/key.h"

// The metadata of an agent for its peers: bytes that the caller carries. Form: magic, fields, regions, and a MAC with
// the agents' common key (of zeros, where there is none).
namespace weft::transfer {

struct RegionRecord {
  std::uint32_t region = 0;
  std::uint64_t address = 0;  // in the owner's process
  std::int64_t bytes = 0, page_bytes = 0;
  std::int32_t fd = -1;          // of the owner's process: memory that can be mapped
  std::uint64_t first_page = 0;  // of its PageWords
  std::uint64_t generation = 0;  // not fenced: of its one PageWord
  std::optional<GpuRecord> gpu;  // of a GPU's memory

  bool operator==(const RegionRecord&) const = default;
};

struct Metadata {
  Nonce nonce{};
  std::uint64_t process = 0;
  std::int32_t control = -1;   // descriptor of the segment
  std::uint64_t pages = 0;     // of the segment
  std::uint64_t header = 0;    // its address in the owner's process
  net::link::Address address;  // where it serves by TCP; family 0: it does not
  net::link::Digest layout{};
  std::string name;
  bool ucx = false;      // peers that have it may go on over UCX
  bool partial = false;  // regions that are missing are still there
  std::vector<RegionRecord> regions;

  bool operator==(const Metadata&) const = default;
};

std::string encode(const Metadata& metadata, const net::link::Key& key);
// Errors (bad input): no metadata, cut off, of another version, or made with another key.
Result<Metadata> decode(std::string_view bytes, const net::link::Key& key);
// What stands between the version and the MAC. Errors (bad input): it makes no sense.
Result<Metadata> decode_contents(std::string_view bytes);

}  // namespace weft::transfer
