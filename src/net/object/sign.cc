#include "net/object/sign.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "base/check.h"
#include "net/link/key.h"

namespace weft::net::object {
namespace {

using link::Digest;

Digest hmac(std::span<const std::uint8_t> key, std::string_view text) {
  Digest digest;
  unsigned length = 0;
  WEFT_ASSERT(HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
                   reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data(),
                   &length) != nullptr &&
              length == digest.size());
  return digest;
}

// Blanks at both ends go, several side by side become one.
std::string trimmed(std::string_view value) {
  std::string out;
  for (const char c : value) {
    const bool blank = c == ' ' || c == '\t';
    if (!blank) out += c;
    if (blank && !out.empty() && out.back() != ' ') out += ' ';
  }
  if (!out.empty() && out.back() == ' ') out.pop_back();
  return out;
}

}  // namespace

std::string percent_encoded(std::string_view text, bool keep_slashes) {
  std::string out;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
                       c == '_' || c == '.' || c == '~' || (c == '/' && keep_slashes);
    if (plain)
      out += c;
    else
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

std::string encoded_query(const std::map<std::string, std::string>& query) {
  std::string out;
  for (const auto& [name, value] : query)
    out += fmt::format("{}{}={}", out.empty() ? "" : "&", percent_encoded(name, false), percent_encoded(value, false));
  return out;
}

std::string hex(std::span<const std::uint8_t> bytes) { return fmt::format("{:02x}", fmt::join(bytes, "")); }

std::string base64(std::span<const std::uint8_t> bytes) {
  std::string out(4 * ((bytes.size() + 2) / 3) + 1, '\0');
  const int n =
      EVP_EncodeBlock(reinterpret_cast<unsigned char*>(out.data()), bytes.data(), static_cast<int>(bytes.size()));
  out.resize(static_cast<std::size_t>(n));
  return out;
}

std::string authorization(const Unsigned& request, const Credentials& credentials, const std::string& region,
                          const std::string& service) {
  std::string names, headers;
  for (const auto& [name, value] : request.headers) {
    names += (names.empty() ? "" : ";") + name;
    headers += fmt::format("{}:{}\n", name, trimmed(value));
  }
  const std::string canonical =
      fmt::format("{}\n{}\n{}\n{}\n{}\n{}", request.method, request.path, encoded_query(request.query), headers, names,
                  request.headers.at("x-amz-content-sha256"));
  const std::string& date = request.headers.at("x-amz-date");
  const std::string day = date.substr(0, 8);
  const std::string scope = fmt::format("{}/{}/{}/aws4_request", day, region, service);
  const std::string text = fmt::format("AWS4-HMAC-SHA256\n{}\n{}\n{}", date, scope, hex(link::sha256(canonical)));
  const std::string first = "AWS4" + credentials.secret;
  Digest key = hmac({reinterpret_cast<const std::uint8_t*>(first.data()), first.size()}, day);
  for (const std::string_view part :
       {std::string_view(region), std::string_view(service), std::string_view("aws4_request")})
    key = hmac(key, part);
  return fmt::format("AWS4-HMAC-SHA256 Credential={}/{}, SignedHeaders={}, Signature={}", credentials.key_id, scope,
                     names, hex(hmac(key, text)));
}

}  // namespace weft::net::object
