#include "tests/fuzz/peers.h"

#include <sys/socket.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "net/bootstrap/secret.h"
#include "net/bootstrap/unique_id.h"
#include "net/link/handshake.h"
#include "tests/fuzz/frames.h"
#include "tests/fuzz/parsers.h"
#include "tests/fuzz/transfers.h"

namespace weft::fuzz {
namespace {

namespace bootstrap = net::bootstrap;
namespace link = net::link;
using link::Handshake;

constexpr link::Key kKey{1, 2, 3};

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "broken promise: %s\n", what);
  std::abort();
}

}  // namespace

void check_greeting(std::string_view text) {
  for (const auto role : {Handshake::Role::kAcceptor, Handshake::Role::kOpener}) {
    int ends[2];
    require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0, "a connection");
    const UniqueFd own(ends[0]);
    UniqueFd stranger(ends[1]);
    Handshake handshake(role, kKey, {.purpose = link::kMeeting});
    handshake.advance(own.get());
    const std::size_t bytes = std::min<std::size_t>(text.size(), 4 * sizeof(link::Greeting));
    require(send(stranger.get(), text.data(), bytes, MSG_NOSIGNAL) == static_cast<ssize_t>(bytes), "bytes");
    handshake.advance(own.get());
    stranger.reset();
    handshake.advance(own.get());
    require(!handshake.proved() && handshake.state() == Handshake::State::kFailed, "nobody is let in without the key");
    require(!handshake.problem().empty() || handshake.refused().has_value(), "a refusal says something");
  }
}

void check_invitation(std::string_view text) {
  const std::string t(text);
  if (const auto id = bootstrap::UniqueId::parse("f", t)) {
    const auto again = bootstrap::UniqueId::parse("again", id->text());
    require(again && again->text() == id->text(), "an id reads what an id wrote");
  }
  // Names would be looked up; numbers are not.
  if (t.find_first_not_of("0123456789abcdef.:[]") == std::string::npos) (void)link::parse_address("f", t);
  if (const auto key = bootstrap::parse_key("f", t); !key)
    require(key.error().message == bootstrap::parse_key("f", "").error().message, "an error does not repeat a key");
}

const std::vector<Parser>& peer_parsers() {
  static const std::vector<Parser> all = {
      {"frames", check_frames},
      {"greeting", check_greeting},
      {"invitation", check_invitation},
      {"transfer_metadata", check_transfer_metadata},
      {"transfer_bytes", check_transfer_bytes},
      {"transfer_questions", check_transfer_questions},
      {"transfer_answers", check_transfer_answers},
  };
  return all;
}

}  // namespace weft::fuzz
