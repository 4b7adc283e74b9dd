#include "net/bootstrap/secret.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>

#include "base/own_folder.h"
#include "net/bootstrap/unique_id.h"
#include "net/link/socket.h"

namespace weft::net::bootstrap {
namespace {

constexpr std::size_t kFewestDigits = 32;
// Of 32 random digits fewer than 6 are different once in 10^12 times.
constexpr std::size_t kFewestKinds = 6;

std::string first_word(const std::string& text) { return text.substr(0, text.find_first_of(" \t\r\n")); }

// Leaves a fresh key at this path unless there is something already; the file appears complete or not at all.
Status leave_key(const std::string& path) {
  std::uint64_t unique = 0;
  fill_random({reinterpret_cast<std::uint8_t*>(&unique), sizeof unique});
  const std::string draft = fmt::format("{}.{:016x}", path, unique);
  const UniqueFd fd(open(draft.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_NOFOLLOW | O_CLOEXEC, 0600));
  Key key;
  fill_random(key);
  const std::string text = hexadecimal(key) + "\n";
  const bool written = fd.open() && write(fd.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
  const bool named = written && (::link(draft.c_str(), path.c_str()) == 0 || errno == EEXIST);
  const int error = errno;
  if (fd.open()) unlink(draft.c_str());
  if (named) return {};
  return failure(Code::kSystem, Blame::kProcess, "cannot write {}: {}", path, std::strerror(error));
}

}  // namespace

Result<Key> parse_key(const std::string& what, const std::string& text) {
  const bool digits = std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isxdigit(c) != 0; });
  if (!digits || text.size() < kFewestDigits ||
      std::set<char>(text.begin(), text.end()).size() < std::min(kFewestKinds, text.size()))
    return bad_input(
        "{}: a key is at least {} random hexadecimal digits, and this is not; make one with: openssl rand -hex 32",
        what, kFewestDigits);
  std::string lower = text;
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return sha256("weft key " + lower);
}

Result<Secret> secret_of(const env::Settings& s) {
  if (s.key.empty()) return Secret{};
  if (s.key == "none") return Secret{.kind = Secret::Kind::kNone};
  std::string text = s.key;
  if (text.rfind("file:", 0) == 0) {
    const std::string path = text.substr(5);
    WEFT_TRY(text, read_private_file("WEFT_KEY", path));
    text = first_word(text);
    if (text.empty()) return bad_input("WEFT_KEY: there is no key in {}", path);
  }
  WEFT_TRY(const Key key, parse_key("WEFT_KEY", text));
  return Secret{.kind = Secret::Kind::kKey, .key = key};
}

std::string user_key_path() { return own_folder_path() + "/key"; }

Result<Key> user_key() {
  WEFT_CHECK(own_folder());
  const std::string path = user_key_path();
  WEFT_TRY(std::string text, read_private_file("the user's key", path));
  if (text.empty()) {
    WEFT_CHECK(leave_key(path));
    WEFT_TRY(text, read_private_file("the user's key", path));
  }
  return parse_key(path, first_word(text));
}

}  // namespace weft::net::bootstrap
