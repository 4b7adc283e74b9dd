#include "apps/cli/redis.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <charconv>
#include <cstring>

#include "net/link/socket.h"

namespace weft::cli {
namespace {

constexpr int kTimeout = 5000;  // ms

Result<UniqueFd> open_path(const std::string& path) {
  sockaddr_un to{};
  to.sun_family = AF_UNIX;
  if (path.size() >= sizeof to.sun_path) return bad_input("--redis {}: the path is too long", path);
  std::memcpy(to.sun_path, path.c_str(), path.size());
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.open() || ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0)
    return bad_input("--redis {}: {}", path, std::strerror(errno));
  return fd;
}

std::string bulk(std::string_view text) { return fmt::format("${}\r\n{}\r\n", text.size(), text); }

}  // namespace

Result<Redis> Redis::connect(const std::string& address) {
  UniqueFd fd;
  if (address.starts_with("/")) {
    WEFT_TRY(fd, open_path(address));
  } else {
    WEFT_TRY(const auto to, net::link::parse_address("--redis", address));
    WEFT_TRY(fd, net::link::start_connect(to));
    pollfd connected{.fd = fd.get(), .events = POLLOUT, .revents = 0};
    (void)poll(&connected, 1, kTimeout);
    if (const int error = net::link::connect_error(fd.get()); error != 0 || connected.revents == 0)
      return bad_input("--redis {}: {}", address, error == 0 ? "no answer" : std::strerror(error));
  }
  Redis redis(std::move(fd), address);
  constexpr std::string_view kInfo = "*2\r\n$4\r\nINFO\r\n$6\r\nserver\r\n";
  WEFT_CHECK(redis.send_all(kInfo.data(), kInfo.size()));
  WEFT_TRY(const std::int64_t bytes, redis.number('$'));
  std::string info(static_cast<std::size_t>(std::max<std::int64_t>(bytes, 0)) + 2, ' ');
  WEFT_CHECK(redis.take(reinterpret_cast<std::byte*>(info.data()), info.size()));
  const std::size_t at = info.find("redis_version:");
  if (at == std::string::npos) return redis.broken("it names no version");
  redis.version_ = info.substr(at + 14, info.find_first_of("\r\n", at) - at - 14);
  return redis;
}

tl::unexpected<Error> Redis::broken(const std::string& why) const {
  return failure(Code::kPeerDied, Blame::kOperation, "redis at {}: {}", address_, why);
}

Status Redis::send_all(const void* data, std::size_t bytes) const {
  const char* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t n = send(fd_.get(), at, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n > 0) {
      at += n;
      bytes -= static_cast<std::size_t>(n);
      continue;
    }
    if (errno == EINTR) continue;
    pollfd room{.fd = fd_.get(), .events = POLLOUT, .revents = 0};
    if (errno != EAGAIN || poll(&room, 1, kTimeout) == 0) return broken(std::strerror(errno));
  }
  return {};
}

// Appends what has come to `in_`, at least a byte.
Status Redis::more() {
  if (at_ == in_.size()) {
    in_.clear();
    at_ = 0;
  }
  char buffer[16 << 10];
  for (;;) {
    const ssize_t n = recv(fd_.get(), buffer, sizeof buffer, MSG_DONTWAIT);
    if (n > 0) return in_.append(buffer, static_cast<std::size_t>(n)), Status();
    if (n == 0) return broken("it has closed the connection");
    if (errno == EINTR) continue;
    pollfd data{.fd = fd_.get(), .events = POLLIN, .revents = 0};
    if (errno != EAGAIN || poll(&data, 1, kTimeout) == 0) return broken("no answer");
  }
}

Result<std::string> Redis::line() {
  std::size_t end = 0;
  while ((end = in_.find("\r\n", at_)) == std::string::npos) WEFT_CHECK(more());
  std::string text = in_.substr(at_, end - at_);
  at_ = end + 2;
  if (text.starts_with("-")) return broken(text.substr(1));
  return text;
}

Result<std::int64_t> Redis::number(char kind) {
  WEFT_TRY(const std::string text, line());
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data() + 1, text.data() + text.size(), value);
  if (text.empty() || text[0] != kind || error != std::errc() || end != text.data() + text.size())
    return broken(fmt::format("an answer '{}', not {}NUMBER", text.substr(0, 40), kind));
  return value;
}

// What `in_` has, and the rest straight from the socket.
Status Redis::take(std::byte* to, std::size_t bytes) {
  const std::size_t here = std::min(bytes, in_.size() - at_);
  std::memcpy(to, in_.data() + at_, here);
  at_ += here;
  for (std::size_t got = here; got < bytes;) {
    const ssize_t n = recv(fd_.get(), to + got, bytes - got, MSG_DONTWAIT);
    if (n > 0) got += static_cast<std::size_t>(n);
    if (n > 0 || (n < 0 && errno == EINTR)) continue;
    if (n == 0) return broken("it has closed the connection");
    pollfd data{.fd = fd_.get(), .events = POLLIN, .revents = 0};
    if (errno != EAGAIN || poll(&data, 1, kTimeout) == 0) return broken("no answer");
  }
  return {};
}

Status Redis::put(std::span<const std::string> keys, const std::byte* values, std::size_t bytes) {
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const std::string head = fmt::format("*3\r\n$3\r\nSET\r\n{}${}\r\n", bulk(keys[i]), bytes);
    WEFT_CHECK(send_all(head.data(), head.size()));
    WEFT_CHECK(send_all(values + i * bytes, bytes));
    WEFT_CHECK(send_all("\r\n", 2));
  }
  for (std::size_t i = 0; i < keys.size(); ++i) {
    WEFT_TRY(const std::string said, line());
    if (said != "+OK") return broken(said);
  }
  return {};
}

Status Redis::get(std::span<const std::string> keys, std::byte* values, std::size_t bytes) {
  std::string command = fmt::format("*{}\r\n$4\r\nMGET\r\n", keys.size() + 1);
  for (const std::string& key : keys) command += bulk(key);
  WEFT_CHECK(send_all(command.data(), command.size()));
  WEFT_TRY(const std::int64_t count, number('*'));
  if (count != static_cast<std::int64_t>(keys.size())) return broken("another number of values");
  for (std::size_t i = 0; i < keys.size(); ++i) {
    WEFT_TRY(const std::int64_t size, number('$'));
    if (size < 0) return failure(Code::kNotFound, Blame::kOperation, "redis at {}: a key is not there", address_);
    if (size != static_cast<std::int64_t>(bytes)) return broken("a value of another size");
    WEFT_CHECK(take(values + i * bytes, bytes));
    std::byte end[2];
    WEFT_CHECK(take(end, 2));
  }
  return {};
}

Status Redis::remove(std::span<const std::string> keys) {
  std::string command = fmt::format("*{}\r\n$3\r\nDEL\r\n", keys.size() + 1);
  for (const std::string& key : keys) command += bulk(key);
  WEFT_CHECK(send_all(command.data(), command.size()));
  WEFT_TRY(const std::int64_t removed, number(':'));
  (void)removed;
  return {};
}

}  // namespace weft::cli
