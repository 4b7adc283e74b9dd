#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "net/link/key.h"

struct evp_cipher_ctx_st;

// Sealers protect the bytes that ranks send over TCP after the greeting (WEFT_SECURE, decision 0167).
namespace weft::net::link {

enum class Protection : std::uint8_t { kOff = 0, kMac = 1, kEncrypt = 2 };

// "off", "mac", "encrypt".
std::string word(Protection protection);
// Requires: a value that env::read() lets through.
Protection protection_of(const std::string& word);

// Does this processor have instructions for AES and for GCM's multiplication?
bool has_aes();

// How the connections of a job are sealed; the same on both sides of each.
struct Sealing {
  Protection protection = Protection::kOff;
  bool aes = true;  // AES-256-GCM; otherwise ChaCha20-Poly1305, for jobs with a processor that lacks the instructions

  bool on() const { return protection != Protection::kOff; }
};

// One direction of one connection: records, each followed by a tag of 16 bytes. With kMac the bytes of a record are
// authenticated only (GMAC, or Poly1305 under ChaCha20), with kEncrypt also encrypted.
//   Keys:   HKDF-Expand (RFC 5869, one block of SHA-256) of the connection's session key, another for each direction.
//   Nonces: the number of the record, 96 bits, on both sides; it is never sent. A record that is changed, repeated or
//           left out, or that takes another's place, does not fit its tag.
//   After 2^20 records both sides go on with the next key, derived from the last: records have at most 128 KiB, so one
//   key protects at most 128 GiB, with an advantage below 2^-60 for who attacks AES-GCM (RFC 8446, 5.5).
// Thread: one at a time.
class Sealer {
 public:
  enum class Side { kOpener, kAcceptor };  // whose records these are
  static constexpr std::size_t kTagBytes = 16;

  // For records that this process sends (`seals`) or receives. `key`: Handshake::session_key().
  Sealer(const Sealing& sealing, const Key& key, Side sender, bool seals);
  ~Sealer();
  Sealer(const Sealer&) = delete;
  Sealer& operator=(const Sealer&) = delete;

  bool encrypts() const { return sealing_.protection == Protection::kEncrypt; }

  // Seals one record: with kEncrypt into `to`, which may be `from`; with kMac `to` is not used. Requires: seals.
  void seal(const void* from, std::size_t bytes, void* to, std::byte* tag);

  // Opens one record, whose bytes may come in pieces: begin, next for every piece, end. With kEncrypt a piece is
  // decrypted where it lies. What next() leaves there is not to be believed before end() has said true.
  void begin();
  void next(void* bytes, std::size_t count);
  bool end(const std::byte* tag);

 private:
  void use(const Key& key);

  Sealing sealing_;
  const bool seals_;
  evp_cipher_ctx_st* const context_;
  Key key_{};
  std::uint64_t record_ = 0;  // of this key
};

}  // namespace weft::net::link
