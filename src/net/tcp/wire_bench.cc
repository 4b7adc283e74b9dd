// What a wire costs a core that sends and receives the same bytes: plain (with CRC-32C), authenticated, encrypted; and
// OpenSSL's own rate for as many bytes. Processor time, so that other work on the machine shows less.
//   weft_net_tcp_bench --benchmark_filter='wire|openssl' --benchmark_repetitions=9
// Bound of a sealed wire: the plain one, and twice OpenSSL's time, once on each side.

#include <benchmark/benchmark.h>
#include <netinet/in.h>
#include <openssl/evp.h>
#include <poll.h>
#include <sys/socket.h>

#include <numeric>

#include "net/tcp/wire.h"

namespace weft::net::tcp {
namespace {

using link::Handshake;

struct Sink final : Receiver {
  std::byte* place(Rank, ContextId, const Frame&) override { return memory.data(); }
  bool arrived(Rank, ContextId, const Frame& f, const std::byte*) override {
    bytes += f.length;
    return false;
  }
  void damaged(Rank, const std::string&) override { std::abort(); }
  void ended(Rank, const std::string&) override { std::abort(); }
  std::vector<std::byte> memory = std::vector<std::byte>(static_cast<std::size_t>(messages::kSlotBytes));
  std::int64_t bytes = 0;
};

std::pair<UniqueFd, UniqueFd> connected() {
  UniqueFd listener = link::listen_on(link::loopback()).value();
  UniqueFd one = link::start_connect(link::local_address(listener.get())).value();
  for (;;)
    if (UniqueFd other = link::accept_from(listener.get()).value(); other.open())
      return {std::move(one), std::move(other)};
}

// Messages of one MiB in frames of this many bytes, from one wire to the other, in one thread.
void wire(benchmark::State& state, link::Protection protection, bool aes) {
  const auto frame = static_cast<std::uint32_t>(state.range(0));
  constexpr std::uint32_t kMessage = 1 << 20;
  messages::Blocks blocks{messages::kSlotBytes};
  const bool sealed = protection != link::Protection::kOff;
  Wire from(1, nullptr, sealed ? &blocks : nullptr), to(0, nullptr, sealed ? &blocks : nullptr);
  auto [one, other] = connected();
  if (sealed) {
    Handshake opener(Handshake::Role::kOpener, {1}, {.purpose = link::kData});
    Handshake acceptor(Handshake::Role::kAcceptor, {1});
    while (opener.advance(one.get()) == Handshake::State::kRunning) {
      acceptor.advance(other.get());
      if (acceptor.proved() && acceptor.state() == Handshake::State::kRunning) acceptor.accept();
    }
    from.seal_by({protection, aes}, opener);
    to.seal_by({protection, aes}, acceptor);
  }
  from.attach(std::move(one), std::chrono::seconds(60));
  to.attach(std::move(other), std::chrono::seconds(60));
  std::vector<std::byte> data(kMessage, std::byte{7});
  Sink sink;
  for (auto _ : state) {
    sink.bytes = 0;
    for (std::uint32_t at = 0; at < kMessage; at += frame) {
      from.send({.flags = messages::kEnd, .length = frame, .number = 1, .total = frame}, data.data() + at, Block());
      to.receive(sink);
    }
    while (sink.bytes < kMessage) {
      from.flush();
      to.receive(sink);
    }
  }
  state.SetBytesProcessed(state.iterations() * kMessage);
}

// The same bytes and records through OpenSSL alone, in one pass; a connection takes two: one to seal, one to open.
void openssl(benchmark::State& state, bool encrypts, bool aes) {
  const int record = static_cast<int>(state.range(0));
  constexpr int kMessage = 1 << 20;
  std::vector<unsigned char> data(kMessage, 7), into(kMessage);
  unsigned char key[32] = {1}, nonce[12] = {}, tag[16], rest[16];
  EVP_CIPHER_CTX* const context = EVP_CIPHER_CTX_new();
  EVP_EncryptInit_ex(context, aes ? EVP_aes_256_gcm() : EVP_chacha20_poly1305(), nullptr, key, nullptr);
  for (auto _ : state)
    for (int at = 0, done = 0; at < kMessage; at += record) {
      ++nonce[0];
      EVP_EncryptInit_ex(context, nullptr, nullptr, nullptr, nonce);
      EVP_EncryptUpdate(context, encrypts ? into.data() + at : nullptr, &done, data.data() + at, record);
      EVP_EncryptFinal_ex(context, rest, &done);
      EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, 16, tag);
    }
  EVP_CIPHER_CTX_free(context);
  state.SetBytesProcessed(state.iterations() * kMessage);
}

using enum link::Protection;
BENCHMARK_CAPTURE(wire, plain, kOff, true)->Arg(4096)->Arg(65536)->Arg(131072);
BENCHMARK_CAPTURE(wire, mac_aes, kMac, true)->Arg(4096)->Arg(65536)->Arg(131072);
BENCHMARK_CAPTURE(wire, encrypt_aes, kEncrypt, true)->Arg(4096)->Arg(65536)->Arg(131072);
BENCHMARK_CAPTURE(wire, mac_chacha, kMac, false)->Arg(131072);
BENCHMARK_CAPTURE(wire, encrypt_chacha, kEncrypt, false)->Arg(131072);
BENCHMARK_CAPTURE(openssl, mac_aes, false, true)->Arg(4096)->Arg(65536)->Arg(131072);
BENCHMARK_CAPTURE(openssl, encrypt_aes, true, true)->Arg(4096)->Arg(65536)->Arg(131072);
BENCHMARK_CAPTURE(openssl, mac_chacha, false, false)->Arg(131072);
BENCHMARK_CAPTURE(openssl, encrypt_chacha, true, false)->Arg(131072);

}  // namespace
}  // namespace weft::net::tcp
