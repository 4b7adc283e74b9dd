#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "net/bootstrap/consensus.h"
#include "net/link/key.h"
#include "net/link/loop.h"

// One request and one reply over a connection of their own, both authenticated: how processes agree on membership.
namespace weft::net::bootstrap {

using namespace link;

using Octets = std::vector<std::uint8_t>;

enum class MessageKind : std::uint16_t { kAsk = 1, kPrepare, kAccept, kDecided, kBroken, kClaim, kCall, kJoins };
enum class MessageStatus : std::uint16_t {
  kAlive,
  kCalled,
  kCoordinates,
  kLeft,
  kPromised,
  kAccepted,
  kRefused,
  kDecided
};

struct MessageHead {
  std::uint32_t magic = 0x35626d77;  // changes with the format
  MessageKind kind = MessageKind::kAsk;
  MessageStatus status = MessageStatus::kAlive;  // of replies
  std::int32_t from = -1, to = -1;
  std::uint32_t instance = 0;
  Ballot ballot, accepted;
  std::int32_t culprit = -1;  // of what broke the communicator; -1: nothing did
  std::uint32_t cause = 0;
  std::int32_t finder = -1;          // of that
  std::uint32_t clash[3] = {};       // Member::Clash
  std::uint32_t payload_length = 0;  // of a promise: the first bytes of its body
  std::uint32_t gone = 0;            // of a promise: ranks that follow in its body
  std::uint32_t length = 0;          // of the body
  Digest tag{};                      // names the communicator, without being its key
  Nonce nonce{};                     // of a request; its reply repeats it
};
static_assert(sizeof(MessageHead) == 136);

struct Message {
  MessageHead head;
  Octets body;
};

// The outcome of a request.
struct Answer {
  // kRefused: nothing listens at that address; kUnasked: this process has no file descriptor left to ask with.
  enum class Outcome { kSilent, kRefused, kUnasked, kAnswered };
  Outcome outcome = Outcome::kSilent;
  Message reply;
};

// Sends the request to all of these at the same time, each with its own `to`, and waits up to `limit`. A process that
// can be connected with at once gets the request, even if this thread does not run before the limit is over.
std::vector<Answer> exchange(const Key& key, const Message& request, std::span<const Address> at,
                             std::span<const Rank> to, std::chrono::milliseconds limit);

// Answers requests in a thread of its own.
class Responder {
 public:
  struct Handlers {
    std::function<std::optional<Key>(const MessageHead&)> key_of;  // nothing: the request is not for this process
    std::function<Message(const Message&)> reply;
  };
  explicit Responder(Handlers handlers);

  // Starts the thread, and ends it. Once each.
  void start() { loop_.start(); }
  void stop() { loop_.stop(); }
  // Also answers at this address, at any of the ports; connections wait until start(). Errors: of listen_on.
  Result<Address> listen_at(Address at, Ports ports = {});

 private:
  class Connection;

  const Handlers handlers_;
  Loop loop_;
};

}  // namespace weft::net::bootstrap
