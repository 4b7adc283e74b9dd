#include "net/link/handshake.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <random>

#include "net/link/dial.h"
#include "net/link/socket.h"

namespace weft::net::link {
namespace {

struct Connection {
  UniqueFd opener, acceptor;
  Connection() {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    opener = UniqueFd(ends[0]);
    acceptor = UniqueFd(ends[1]);
  }
};

// Lets both move on until neither does.
void run(Connection& c, Handshake& opener, Handshake& acceptor) {
  for (int i = 0; i < 8; ++i) {
    opener.advance(c.opener.get());
    acceptor.advance(c.acceptor.get());
    if (acceptor.proved() && acceptor.state() == Handshake::State::kRunning && !acceptor.refused()) acceptor.accept();
  }
}

constexpr Claim kClaim{.purpose = kData, .from = 3, .to = 5, .detail = 1};

TEST(Handshakes, OfTheSameKeySucceedAndCarryTheClaim) {
  Connection c;
  const Key key = sha256("common");
  Handshake opener(Handshake::Role::kOpener, key, kClaim), acceptor(Handshake::Role::kAcceptor, key);
  run(c, opener, acceptor);
  EXPECT_EQ(opener.state(), Handshake::State::kDone) << opener.problem();
  EXPECT_EQ(acceptor.state(), Handshake::State::kDone) << acceptor.problem();
  EXPECT_EQ(acceptor.claim(), kClaim);
  EXPECT_EQ(opener.session_key(), acceptor.session_key());
}

TEST(Handshakes, OfDifferentKeysFailOnBothSides) {
  Connection c;
  Handshake opener(Handshake::Role::kOpener, sha256("one"), kClaim),
      acceptor(Handshake::Role::kAcceptor, sha256("two"));
  run(c, opener, acceptor);
  EXPECT_EQ(opener.state(), Handshake::State::kFailed);
  EXPECT_EQ(acceptor.state(), Handshake::State::kFailed);
  EXPECT_FALSE(acceptor.proved());
  EXPECT_NE(opener.problem().find("another key"), std::string::npos);
}

// An acceptor without the key that plays the opener's own words back at it proves nothing.
TEST(Handshakes, AReflectedProofIsRefused) {
  Connection c;
  const Key key = sha256("common");
  Handshake opener(Handshake::Role::kOpener, key, kClaim);
  opener.advance(c.opener.get());
  Greeting words;
  ASSERT_EQ(recv(c.acceptor.get(), &words, sizeof words, 0), static_cast<ssize_t>(sizeof words));
  words.kind = 2;
  send(c.acceptor.get(), &words, sizeof words, 0);
  opener.advance(c.opener.get());
  ASSERT_EQ(recv(c.acceptor.get(), &words, sizeof words, 0), static_cast<ssize_t>(sizeof words));
  words.kind = 4;
  send(c.acceptor.get(), &words, sizeof words, 0);
  EXPECT_EQ(opener.advance(c.opener.get()), Handshake::State::kFailed);
}

// Whatever is said to an acceptor: it ends neither proved nor done, and reads no more than a greeting at a time.
TEST(Handshakes, NoSeededMutationOfAGreetingIsLetIn) {
  std::mt19937 random(20261121);
  const Key key = sha256("common");
  for (int round = 0; round < 3000; ++round) {
    Connection c;
    Handshake acceptor(Handshake::Role::kAcceptor, key);
    std::array<Greeting, 2> words;
    words[0].kind = 1;
    words[0].claim = kClaim;
    words[1].kind = 3;
    words[1].claim = kClaim;
    auto* raw = reinterpret_cast<std::uint8_t*>(words.data());
    for (unsigned n = random() % 6; n > 0; --n) raw[random() % sizeof words] = static_cast<std::uint8_t>(random());
    const std::size_t length = random() % 3 == 0 ? random() % sizeof words : sizeof words;
    send(c.opener.get(), raw, length, 0);
    for (int i = 0; i < 4; ++i) acceptor.advance(c.acceptor.get());
    EXPECT_FALSE(acceptor.proved());
    EXPECT_NE(acceptor.state(), Handshake::State::kDone);
  }
}

TEST(Dialling, APortWhereNobodyListensIsAnErrorAtOnce) {
  Address nobody = loopback();
  {
    const auto listener = listen_on(nobody).value();
    nobody = local_address(listener.get());
  }
  const auto begin = std::chrono::steady_clock::now();
  const auto refused = dial({.to = nobody, .claim = {.purpose = kData}, .timeout = std::chrono::seconds(60)});
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().code, Code::kTimeout) << refused.error().message;
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30)) << "it was tried again";
}

}  // namespace
}  // namespace weft::net::link
