#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "move/kv/wire.h"
#include "net/link/bytes.h"
#include "net/link/socket.h"

namespace weft::kv {

struct Reply {
  Answer answer;
  std::vector<transfer::Page> pages;
  std::string text;
};

// Errors (bad input): WEFT_SECURE asks for protection that these connections do not have.
Status check_not_secure();

// The asking side of a connection to a store's server. After the connection's first error every call has this error.
// Thread: one at a time.
class Line {
 public:
  // Errors: kPeerDied: nobody listens, or it closes the connection; kInvalidArgument: it has another key; kTimeout.
  static Result<std::unique_ptr<Line>> open(const net::link::Address& to, const net::link::Key& key,
                                            std::chrono::milliseconds timeout, std::function<bool()> interrupted);
  // Over a connection whose both ends have greeted each other.
  Line(UniqueFd fd, std::chrono::milliseconds timeout, std::function<bool()> interrupted)
      : fd_(std::move(fd)), timeout_(timeout), interrupted_(std::move(interrupted)) {}

  // Errors: what the verdict says; of the connection: kPeerDied, kTimeout, kAborted.
  Result<Reply> ask(const Question& question, std::span<const net::link::Digest> keys);
  // Asks without waiting for the answer, which is read before the next one.
  void post(const Question& question);

 private:
  net::link::WaitLimit limit() const;
  tl::unexpected<Error> broken(Code code, std::string why);
  Status check(net::link::Outcome outcome);
  Status receive_all(void* to, std::size_t bytes, const net::link::WaitLimit& limit);
  Result<Reply> receive(std::uint32_t asked, const net::link::WaitLimit& limit);

  UniqueFd fd_;
  std::chrono::milliseconds timeout_;
  std::function<bool()> interrupted_;
  std::int64_t unread_ = 0;  // answers that nobody waits for
  Status state_;
};

}  // namespace weft::kv
