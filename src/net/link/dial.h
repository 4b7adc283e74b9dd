#pragma once

#include <chrono>
#include <functional>

#include "net/link/bytes.h"
#include "net/link/handshake.h"
#include "net/link/socket.h"

namespace weft::net::link {

// A connection to be made to a process that listens with the same key.
struct Dial {
  Address to;
  Key key{};
  Claim claim;
  std::chrono::milliseconds timeout{0};    // until both sides have greeted each other; also see end_when_cut()
  std::function<bool()> interrupted = {};  // asked about every 50 ms; true gives up
};

struct Dialled {
  UniqueFd fd;  // nonblocking; a cut link ends it within about the timeout
  Key session_key{};
};

// One attempt to dial.
struct Attempt {
  Handshake handshake;
  UniqueFd fd = {};
  // kOver: nobody listens (`problem`), or the handshake failed. Interrupted or late: before or after it was connected?
  Outcome outcome = Outcome::kDone;
  bool connected = false;
  std::string problem = {};
};
// Errors: of start_connect.
Result<Attempt> dial_once(const Dial& dial, const WaitLimit& limit);

// Connects, and proves to know the key. A connection that breaks before its greeting is over may have had to make place
// for others, and is tried again. Errors, all of the connection and without a prefix: kPeerDied: nobody listens there;
// kInvalidArgument (blames the input): the other side refuses, or is none of this kind; kTimeout: it does not answer;
// kAborted: interrupted; kNoResources. Thread: any.
Result<Dialled> dial(const Dial& dial);

}  // namespace weft::net::link
