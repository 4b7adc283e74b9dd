#pragma once

#include <memory>
#include <span>
#include <string>

#include "base/result.h"
#include "base/unique_fd.h"
#include "net/link/bytes.h"

namespace weft::cli {

// A connection to a Redis server, for comparison: values go from and into the caller's memory without another copy, and
// all of a call's keys go in one message. Thread: one at a time.
class Redis {
 public:
  // "HOST:PORT", or the path of a socket, which begins with /. Errors: nobody answers there, or no Redis.
  static Result<Redis> connect(const std::string& address);
  // The server's version, "7.0.15".
  const std::string& version() const { return version_; }
  // SET of each key, pipelined. Value i has `bytes` bytes at `values` + i x `bytes`.
  Status put(std::span<const std::string> keys, const std::byte* values, std::size_t bytes);
  // One MGET. Errors: kNotFound: a key is not there; kMismatch: a value has another size.
  Status get(std::span<const std::string> keys, std::byte* values, std::size_t bytes);
  Status remove(std::span<const std::string> keys);

 private:
  explicit Redis(UniqueFd fd, std::string address) : fd_(std::move(fd)), address_(std::move(address)) {}
  tl::unexpected<Error> broken(const std::string& why) const;
  Status check(net::link::Outcome outcome) const;
  Status send_all(const void* data, std::size_t bytes) const;
  Status more();
  Result<std::string> line();
  Status take(std::byte* to, std::size_t bytes);
  Result<std::int64_t> number(char kind);

  UniqueFd fd_;
  std::string address_, version_;
  std::string in_;  // what has come and is not taken yet, from `at_` on
  std::size_t at_ = 0;
};

}  // namespace weft::cli
