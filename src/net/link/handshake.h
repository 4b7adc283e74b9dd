#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "net/link/key.h"

namespace weft::net::link {

// The first bytes of every connection between ranks: both sides prove that they know the job's key, bound to fresh
// random numbers of both, before anything else is read. Four greetings of one fixed size:
//   1 opener    claim, its nonce
//   2 acceptor  its nonce
//   3 opener    MAC(key, 3, claim, both nonces)
//   4 acceptor  MAC(key, 4, claim, both nonces)
// An answer of kind kRefused closes the exchange; its claim says why. The first
// 8 bytes show a peer that speaks another protocol, the next 2 one of another version.
struct Claim {
  std::uint32_t purpose = 0;  // kMeeting, kData, kOneSided
  std::int32_t from = -1, to = -1;
  std::uint32_t detail = 0;

  bool operator==(const Claim&) const = default;
};
inline constexpr std::uint32_t kMeeting = 1, kData = 2, kOneSided = 4;
// The problem of a peer whose key differs, in words that callers look for.
inline constexpr std::string_view kOtherKey = "it has another key: it belongs to another job";
inline constexpr std::uint16_t kVersion = 7;  // changes with whatever is said over such a connection, windows included

struct Greeting {
  static constexpr std::array<std::uint8_t, 8> kMagic = {'w', 'e', 'f', 't', 0xf1, 0x0d, 0x0a, 0x00};
  std::array<std::uint8_t, 8> magic = kMagic;
  std::uint16_t version = kVersion;
  std::uint16_t kind = 0;
  std::uint32_t reserved = 0;
  Claim claim;
  Nonce nonce{};
  Digest mac{};
};
static_assert(sizeof(Greeting) == 96);

class Handshake {
 public:
  enum class Role { kOpener, kAcceptor };
  enum class State { kRunning, kDone, kFailed };

  // An acceptor learns the claim from the opener. Works on a nonblocking, connected socket that it does not own.
  Handshake(Role role, const Key& key, const Claim& claim = {});

  // Moves on as far as the socket allows.
  State advance(int fd);
  State state() const { return state_; }
  const Claim& claim() const { return claim_; }
  Role role() const { return role_; }
  // A key of this connection alone, for what follows. Requires: done, or proved.
  Key session_key() const { return proof(5); }
  // An acceptor: has the opener proved itself, so that only the answer is missing? Then look at claim() and call
  // either.
  bool proved() const { return proved_; }
  void accept();
  void refuse(std::uint32_t reason);
  // An acceptor: has nothing come yet?
  bool silent() const { return got_ == 0 && out_.kind == 0; }
  // Did the connection break, instead of the other side saying or doing something wrong?
  bool broke() const { return broke_; }
  // Why it failed. `refused()`: the acceptor's reason, where it gave one.
  const std::string& problem() const { return problem_; }
  std::optional<std::uint32_t> refused() const { return refused_; }

 private:
  void fail(std::string problem);
  void end(int error);
  bool send_out(int fd);
  bool receive(int fd);
  void take(const Greeting& got);
  void queue(std::uint16_t kind);
  Digest proof(std::uint8_t step) const;

  Role role_;
  Key key_;
  Claim claim_;
  Nonce opener_{}, acceptor_{};
  State state_ = State::kRunning;
  std::string problem_;
  std::optional<std::uint32_t> refused_;
  bool proved_ = false, last_is_out_ = false, broke_ = false;
  Greeting out_, in_;
  std::size_t sent_ = sizeof(Greeting), got_ = 0;
};

inline constexpr std::uint32_t kRefusedVersion = 1, kRefusedProof = 2, kRefusedDuplicate = 3, kRefusedRanks = 4;

}  // namespace weft::net::link
