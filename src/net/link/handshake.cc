#include "net/link/handshake.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>

#include "net/link/bytes.h"

namespace weft::net::link {
namespace {

static_assert(std::endian::native == std::endian::little, "greetings and frames are little-endian");

enum Kind : std::uint16_t { kHello = 1, kChallenge = 2, kOpenerProof = 3, kAcceptorProof = 4, kRefused = 5 };

}  // namespace

Handshake::Handshake(Role role, const Key& key, const Claim& claim) : role_(role), key_(key), claim_(claim) {
  if (role == Role::kOpener) {
    fill_random(opener_);
    queue(kHello);
  } else {
    fill_random(acceptor_);
  }
}

void Handshake::fail(std::string problem) {
  state_ = State::kFailed;
  problem_ = std::move(problem);
}

Digest Handshake::proof(std::uint8_t step) const {
  std::uint8_t claim[sizeof(Claim)];
  std::memcpy(claim, &claim_, sizeof claim);
  return mac(key_, {{&step, 1}, claim, opener_, acceptor_});
}

void Handshake::queue(std::uint16_t kind) {
  out_ = Greeting{};
  out_.kind = kind;
  out_.claim = claim_;
  if (kind == kHello) out_.nonce = opener_;
  if (kind == kChallenge) out_.nonce = acceptor_;
  if (kind == kOpenerProof || kind == kAcceptorProof) out_.mac = proof(static_cast<std::uint8_t>(kind));
  sent_ = 0;
}

void Handshake::accept() {
  queue(kAcceptorProof);
  last_is_out_ = true;
}

void Handshake::refuse(std::uint32_t reason) {
  const Claim mine = claim_;
  claim_.detail = reason;
  queue(kRefused);
  claim_ = mine;
  refused_ = reason;
  last_is_out_ = true;
}

void Handshake::end(int error) {
  broke_ = true;
  fail(error == 0 ? "the connection was closed" : fmt::format("the connection broke: {}", std::strerror(error)));
}

bool Handshake::send_out(int fd) {
  while (sent_ < sizeof out_) {
    const Moved moved = send_now(fd, reinterpret_cast<const char*>(&out_) + sent_, sizeof out_ - sent_);
    if (moved.over) end(moved.error);
    if (moved.bytes == 0) return false;
    sent_ += moved.bytes;
  }
  return true;
}

bool Handshake::receive(int fd) {
  while (got_ < sizeof in_) {
    const Moved moved = receive_now(fd, reinterpret_cast<char*>(&in_) + got_, sizeof in_ - got_);
    if (moved.over) end(moved.error);
    if (moved.bytes == 0) return false;
    got_ += moved.bytes;
    const std::size_t known = std::min(got_, in_.magic.size());
    if (std::memcmp(in_.magic.data(), Greeting::kMagic.data(), known) != 0)
      return fail("it does not speak weft"), false;
  }
  return true;
}

Handshake::State Handshake::advance(int fd) {
  while (state_ == State::kRunning) {
    if (!send_out(fd)) return state_;
    if (last_is_out_) {
      if (refused_)
        fail("refused");
      else
        state_ = State::kDone;
      return state_;
    }
    if (proved_) return state_;  // the acceptor's owner decides
    if (!receive(fd)) return state_;
    got_ = 0;
    take(in_);
  }
  return state_;
}

void Handshake::take(const Greeting& got) {
  if (got.kind == kRefused && role_ == Role::kOpener) {
    refused_ = got.claim.detail;
    return fail(got.claim.detail == kRefusedVersion
                    ? fmt::format("it speaks version {} of weft's greeting, this is version {}", got.version, kVersion)
                : got.claim.detail == kRefusedProof     ? std::string(kOtherKey)
                : got.claim.detail == kRefusedDuplicate ? std::string("another process has claimed this rank")
                : got.claim.detail == kRefusedRanks     ? std::string("it has another number of ranks")
                                                        : std::string("it refused the connection"));
  }
  if (got.version != kVersion) {
    if (role_ == Role::kAcceptor) return refuse(kRefusedVersion);
    return fail(fmt::format("it speaks version {} of weft's greeting, this is version {}", got.version, kVersion));
  }
  if (role_ == Role::kOpener) {
    if (got.kind == kChallenge && out_.kind == kHello) {
      acceptor_ = got.nonce;
      return queue(kOpenerProof);
    }
    if (got.kind == kAcceptorProof && out_.kind == kOpenerProof) {
      if (!equal(got.mac, proof(kAcceptorProof))) return fail(std::string(kOtherKey));
      state_ = State::kDone;
      return;
    }
  } else if (got.kind == kHello && out_.kind == 0) {
    claim_ = got.claim;
    opener_ = got.nonce;
    return queue(kChallenge);
  } else if (got.kind == kOpenerProof && out_.kind == kChallenge) {
    if (!(got.claim == claim_) || !equal(got.mac, proof(kOpenerProof))) return refuse(kRefusedProof);
    proved_ = true;
    return;
  }
  fail("its greeting is out of turn");
}

}  // namespace weft::net::link
