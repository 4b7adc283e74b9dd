#pragma once

#include <string>

#include "base/env.h"
#include "base/result.h"
#include "net/link/key.h"

// Keys that ranks know before they meet, and their sources (decision 0165).
namespace weft::net::bootstrap {

using namespace link;

// A key as text: at least 32 hexadecimal digits, 128 bits, as `openssl rand -hex 32` prints. Other texts are refused:
// what a person makes up can be guessed offline from one greeting, and stretching does not change that (decision 0166).
// Errors (bad input): `what` and what is missing; the text is not repeated, for it is secret.
Result<Key> parse_key(const std::string& what, const std::string& text);

// What WEFT_KEY says.
struct Secret {
  enum class Kind { kUnset, kNone, kKey };
  Kind kind = Kind::kUnset;
  Key key{};  // kKey
};
// Errors (bad input): of parse_key; of a file that cannot be read, or that another user could read or wrote.
Result<Secret> secret_of(const env::Settings& settings);

// The key of this user on this host, in own_folder(), mode 0600; made on first use. Processes of one user that share
// /dev/shm have the same. Errors: kSystem; a file there that is not a key of this user alone.
Result<Key> user_key();
std::string user_key_path();  // for messages

}  // namespace weft::net::bootstrap
