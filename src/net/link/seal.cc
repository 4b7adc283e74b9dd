#include "net/link/seal.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <array>
#include <cstring>
#include <string_view>

#include "base/check.h"

#if defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace weft::net::link {
namespace {

constexpr std::uint64_t kRecordsPerKey = std::uint64_t{1} << 20;

// HKDF-Expand of RFC 5869 for one block of output: HMAC(key, info, 1).
Key expand(const Key& key, std::string_view info) {
  constexpr std::uint8_t kBlock = 1;
  return mac(key, {{reinterpret_cast<const std::uint8_t*>(info.data()), info.size()}, {&kBlock, 1}});
}

#if defined(__x86_64__)
bool detect_aes() { return __builtin_cpu_supports("aes") && __builtin_cpu_supports("pclmul"); }
#elif defined(__aarch64__)
bool detect_aes() { return (getauxval(AT_HWCAP) & (HWCAP_AES | HWCAP_PMULL)) == (HWCAP_AES | HWCAP_PMULL); }
#else
bool detect_aes() { return false; }
#endif

}  // namespace

std::string word(Protection protection) {
  return protection == Protection::kMac ? "mac" : protection == Protection::kEncrypt ? "encrypt" : "off";
}

Protection protection_of(const std::string& text) {
  return text == "mac" ? Protection::kMac : text == "encrypt" ? Protection::kEncrypt : Protection::kOff;
}

bool has_aes() { return detect_aes(); }

Sealer::Sealer(const Sealing& sealing, const Key& key, Side sender, bool seals)
    : sealing_(sealing), seals_(seals), context_(EVP_CIPHER_CTX_new()) {
  WEFT_REQUIRE(sealing.on());
  WEFT_ASSERT(context_ != nullptr, "no memory for a cipher");
  use(expand(key, sender == Side::kOpener ? "weft records of the opener" : "weft records of the acceptor"));
}

Sealer::~Sealer() {
  EVP_CIPHER_CTX_free(context_);
  OPENSSL_cleanse(key_.data(), key_.size());
}

void Sealer::use(const Key& key) {
  key_ = key;
  record_ = 0;
  const EVP_CIPHER* const cipher = sealing_.aes ? EVP_aes_256_gcm() : EVP_chacha20_poly1305();
  WEFT_ASSERT(EVP_CipherInit_ex(context_, cipher, nullptr, key_.data(), nullptr, seals_ ? 1 : 0) == 1);
}

void Sealer::begin() {
  if (record_ == kRecordsPerKey) use(expand(key_, "weft next key"));
  std::array<std::uint8_t, 12> nonce{};
  std::memcpy(nonce.data() + 4, &record_, sizeof record_);
  ++record_;
  WEFT_ASSERT(EVP_CipherInit_ex(context_, nullptr, nullptr, nullptr, nonce.data(), seals_ ? 1 : 0) == 1);
}

void Sealer::next(void* bytes, std::size_t count) {
  if (count == 0) return;
  auto* const at = static_cast<unsigned char*>(bytes);
  int done = 0;
  WEFT_ASSERT(EVP_CipherUpdate(context_, encrypts() ? at : nullptr, &done, at, static_cast<int>(count)) == 1);
}

void Sealer::seal(const void* from, std::size_t bytes, void* to, std::byte* tag) {
  begin();
  int done = 0;
  auto* const into = encrypts() ? static_cast<unsigned char*>(to) : nullptr;
  if (bytes > 0)
    WEFT_ASSERT(
        EVP_CipherUpdate(context_, into, &done, static_cast<const unsigned char*>(from), static_cast<int>(bytes)) == 1);
  unsigned char rest[16];  // none: both ciphers work like streams
  WEFT_ASSERT(EVP_CipherFinal_ex(context_, rest, &done) == 1);
  WEFT_ASSERT(EVP_CIPHER_CTX_ctrl(context_, EVP_CTRL_AEAD_GET_TAG, static_cast<int>(kTagBytes), tag) == 1);
}

bool Sealer::end(const std::byte* tag) {
  WEFT_ASSERT(EVP_CIPHER_CTX_ctrl(context_, EVP_CTRL_AEAD_SET_TAG, static_cast<int>(kTagBytes),
                                  const_cast<std::byte*>(tag)) == 1);
  unsigned char rest[16];
  int done = 0;
  return EVP_CipherFinal_ex(context_, rest, &done) == 1;
}

}  // namespace weft::net::link
