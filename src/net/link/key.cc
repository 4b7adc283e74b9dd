#include "net/link/key.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <vector>

#include "base/check.h"

namespace weft::net::link {

std::string hexadecimal(std::span<const std::uint8_t> bytes) {
  std::string text;
  for (const std::uint8_t b : bytes) text += fmt::format("{:02x}", b);
  return text;
}

void fill_random(std::span<std::uint8_t> bytes) {
  WEFT_ASSERT(RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) == 1, "no random bytes");
}

Digest sha256(std::string_view text) {
  Digest digest;
  WEFT_ASSERT(EVP_Digest(text.data(), text.size(), digest.data(), nullptr, EVP_sha256(), nullptr) == 1);
  return digest;
}

Digest mac(const Key& key, std::initializer_list<std::span<const std::uint8_t>> parts) {
  std::vector<std::uint8_t> whole;
  for (const auto part : parts) whole.insert(whole.end(), part.begin(), part.end());
  Digest digest;
  unsigned length = 0;
  WEFT_ASSERT(HMAC(EVP_sha256(), key.data(), key.size(), whole.data(), whole.size(), digest.data(), &length) !=
                  nullptr &&
              length == digest.size());
  return digest;
}

bool equal(const Digest& a, const Digest& b) { return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0; }

}  // namespace weft::net::link
