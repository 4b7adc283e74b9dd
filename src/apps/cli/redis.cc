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

namespace link = net::link;

link::WaitLimit limit() { return {.deadline = link::WaitLimit::Clock::now() + std::chrono::seconds(5)}; }

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
    WEFT_TRY(const auto to, link::parse_address("--redis", address));
    WEFT_TRY(fd, link::start_connect(to));
    const bool answered = link::wait_for(fd.get(), POLLOUT, limit()) == link::Outcome::kDone;
    if (const int error = link::connect_error(fd.get()); error != 0 || !answered)
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

Status Redis::check(link::Outcome outcome) const {
  if (outcome == link::Outcome::kDone) return {};
  if (outcome == link::Outcome::kLate) return broken("no answer");
  return broken(errno == 0 ? "it has closed the connection" : std::strerror(errno));
}

Status Redis::send_all(const void* data, std::size_t bytes) const {
  return check(link::send_all(fd_.get(), {static_cast<const std::byte*>(data), bytes}, {}, limit()));
}

// Appends what has come to `in_`, at least a byte.
Status Redis::more() {
  if (at_ == in_.size()) {
    in_.clear();
    at_ = 0;
  }
  char buffer[16 << 10];
  for (;;) {
    const link::Moved moved = link::receive_now(fd_.get(), buffer, sizeof buffer);
    if (moved.bytes > 0) return in_.append(buffer, moved.bytes), Status();
    errno = moved.error;
    WEFT_CHECK(check(moved.over ? link::Outcome::kOver : link::wait_for(fd_.get(), POLLIN, limit())));
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
  return check(link::receive_all(fd_.get(), {to + here, bytes - here}, limit()));
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
