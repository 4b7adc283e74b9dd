#pragma once

#include <functional>
#include <optional>

#include "net/object/http.h"
#include "net/object/place.h"

namespace weft::net::object {

// What is known of an object. `sum`: its CRC-32C, where weft wrote it.
struct Known {
  Bytes bytes = 0;
  std::string tag;  // ETag: another one means other bytes
  std::optional<std::uint32_t> sum;
};

struct Listed {
  std::string key;
  Bytes bytes = 0;
};

struct Habits {
  Bytes part = 16 << 20;  // objects above it are written in parts of this size, which S3 wants to be 5 MiB at least
  int at_once = 4;        // parts under way
  int attempts = 5;       // of each exchange
  std::chrono::milliseconds first_pause{50};  // doubled by each attempt, and shortened at random by up to half
};

// Objects by S3's protocol: SigV4, ranges, parts, attempts, checksums. Every error is one line with the object, the
// status and what the server said. Thread: one at a time.
class Client {
 public:
  static Result<Client> open(Place place, Habits habits = {});

  // Errors of all calls: kNotFound: no such object or bucket; kInvalidArgument: access is refused; kTimeout: `leave`
  // has ended; kAborted: it was taken; kSystem: the server fails, after all attempts.
  Result<Known> look(const Name& name, const Leave& leave);
  // The bytes from `offset` on into `into`. `known`: errors where the object is another one meanwhile (kMismatch), or
  // where it is read whole and its checksum differs. Returns what the answer says of the object.
  Result<Known> read(const Name& name, Bytes offset, std::span<std::byte> into, const Known* known, const Leave& leave);
  // Replaces the object. Readers see the old one or the new one. Errors: also kMismatch, the server got other bytes.
  Result<Known> write(const Name& name, std::span<const std::byte> bytes, const Leave& leave);
  Status remove(const Name& name, const Leave& leave);
  // All objects whose keys begin with name.key.
  Result<std::vector<Listed>> list(const Name& name, const Leave& leave);

 private:
  struct Ask {
    std::string method;
    std::map<std::string, std::string> query = {}, headers = {};
    std::span<const std::byte> body = {};
    std::span<std::byte> into = {};
  };
  Client(Place place, Habits habits, std::unique_ptr<Http> http)
      : place_(std::move(place)), habits_(habits), http_(std::move(http)) {}
  Exchange exchange_of(const Name& name, const Ask& ask) const;
  // Attempts until every one is good or cannot be. Errors: of the first that is not good.
  Status carry_out(const Name& name, std::span<const Ask> asks, std::vector<Exchange>& exchanges, const Leave& leave);
  Result<Exchange> one(const Name& name, const Ask& ask, const Leave& leave);
  bool rest(int attempt, const Leave& leave) const;
  Result<Known> write_parts(const Name& name, std::span<const std::byte> bytes, std::uint32_t sum, const Leave& leave);
  Status send_parts(const Name& name, const std::string& upload, std::span<const std::byte> bytes,
                    std::vector<std::string>& tags, const Leave& leave);
  Result<Known> complete(const Name& name, const std::string& upload, const std::vector<std::string>& tags, Bytes bytes,
                         std::uint32_t sum, const Leave& leave);

  Place place_;
  Habits habits_;
  std::unique_ptr<Http> http_;
};

// The header that carries a CRC-32C to the server, which compares it: base64 of four bytes, the highest first.
std::string checksum_header(std::uint32_t sum);
// The text of an element of an answer: "<Code>…</Code>" anywhere in it; empty: not there.
std::string element_of(const std::string& xml, const char* name);

inline constexpr const char* kSum = "x-amz-meta-weft-crc32c";

}  // namespace weft::net::object
