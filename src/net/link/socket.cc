#include "net/link/socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <string_view>

#include "base/text.h"
#include "net/link/interfaces.h"

namespace weft::net::link {
namespace {

constexpr int kSilentSeconds = 10;
constexpr int kBacklog = 4096;  // the kernel cuts it to net.core.somaxconn

// BBR sends by a timer, also after another congestion control has taken over: only sockets that never had it are free
// of that. Between ranks a timer's interrupt per packet costs more than the queues that BBR avoids (bench/results,
// tcp). Reno is in every kernel, and no process needs a privilege for it. What a listener accepts has the listener's.
void avoid_bbr(int fd) {
  char name[16] = {};
  socklen_t length = sizeof name - 1;
  constexpr std::string_view kReno = "reno";
  if (getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &length) == 0 && std::string_view(name) == "bbr")
    setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, kReno.data(), kReno.size());
}

// Nonblocking, closed on exec; `error` is errno where it fails.
Result<UniqueFd> listen_at(const Address& address, int& error) {
  sockaddr_storage storage;
  const socklen_t length = to_sockaddr(address, storage);
  UniqueFd fd(socket(storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.open()) return socket_failure("socket for", address.text(), error = errno);
  const int on = 1;
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const int only_v6 = 0;  // "any" of IPv6 stands for all rails
  if (address.family == 6) setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &only_v6, sizeof only_v6);
  avoid_bbr(fd.get());
  // The opener of a connection speaks first: the kernel keeps connections without a word to itself.
  setsockopt(fd.get(), IPPROTO_TCP, TCP_DEFER_ACCEPT, &kSilentSeconds, sizeof kSilentSeconds);
  if (bind(fd.get(), reinterpret_cast<sockaddr*>(&storage), length) != 0 || listen(fd.get(), kBacklog) != 0)
    return socket_failure("cannot listen on", address.text(), error = errno);
  return fd;
}

}  // namespace

bool Address::loopback() const {
  if (family == 4) return ip[0] == 127;
  static constexpr std::uint8_t kLoopback[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  return family == 6 && std::memcmp(ip, kLoopback, 16) == 0;
}

std::string Address::ip_text() const {
  char text[INET6_ADDRSTRLEN] = "none";
  if (family != 0) inet_ntop(family == 4 ? AF_INET : AF_INET6, ip, text, sizeof text);
  return text;
}

std::string Address::text() const {
  return family == 6 ? fmt::format("[{}]:{}", ip_text(), port) : fmt::format("{}:{}", ip_text(), port);
}

bool Address::same_host(const Address& other) const {
  return family == other.family && std::memcmp(ip, other.ip, sizeof ip) == 0;
}

bool parse_ip(const std::string& text, Address& a) {
  a = {};
  if (inet_pton(AF_INET, text.c_str(), a.ip) == 1) return a.family = 4, true;
  if (inet_pton(AF_INET6, text.c_str(), a.ip) == 1) return a.family = 6, true;
  return false;
}

Address address_of(const sockaddr_storage& from) {
  Address a;
  if (from.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(from);
    a.family = 4;
    a.port = ntohs(v4.sin_port);
    std::memcpy(a.ip, &v4.sin_addr, 4);
  } else if (from.ss_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(from);
    a.family = 6;
    a.port = ntohs(v6.sin6_port);
    a.scope = static_cast<std::uint8_t>(v6.sin6_scope_id);
    std::memcpy(a.ip, &v6.sin6_addr, 16);
    if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) {  // of a socket that listens on both
      a.family = 4;
      a.scope = 0;
      std::memmove(a.ip, a.ip + 12, 4);
      std::memset(a.ip + 4, 0, 12);
    }
  }
  return a;
}

socklen_t to_sockaddr(const Address& a, sockaddr_storage& to) {
  std::memset(&to, 0, sizeof to);
  if (a.family == 6) {
    auto& v6 = reinterpret_cast<sockaddr_in6&>(to);
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(a.port);
    v6.sin6_scope_id = a.scope;
    std::memcpy(&v6.sin6_addr, a.ip, 16);
    return sizeof v6;
  }
  auto& v4 = reinterpret_cast<sockaddr_in&>(to);
  v4.sin_family = AF_INET;
  v4.sin_port = htons(a.port);
  std::memcpy(&v4.sin_addr, a.ip, 4);
  return sizeof v4;
}

Result<Address> resolve(const std::string& what, const std::string& host, std::uint16_t port) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  const int problem = getaddrinfo(host.c_str(), nullptr, &hints, &found);
  if (problem != 0) return bad_input("{}: cannot look up '{}': {}", what, host, gai_strerror(problem));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, freeaddrinfo);
  sockaddr_storage storage{};
  std::memcpy(&storage, found->ai_addr, std::min<std::size_t>(found->ai_addrlen, sizeof storage));
  Address a = address_of(storage);
  a.port = port;
  return a;
}

namespace {

Result<Address> parse(const std::string& what, const std::string& text, std::int64_t first_port) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0) return bad_input("{}: '{}' is not HOST:PORT", what, text);
  WEFT_TRY(const auto port, parse_integer(what + ": port", text.substr(colon + 1), first_port, 65535));
  std::string host = text.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  return resolve(what, host, static_cast<std::uint16_t>(port));
}

}  // namespace

Result<Address> parse_address(const std::string& what, const std::string& text) { return parse(what, text, 1); }
Result<Address> parse_listener(const std::string& what, const std::string& text) { return parse(what, text, 0); }

Address loopback() {
  Address a;
  a.family = 4;
  a.ip[0] = 127;
  a.ip[3] = 1;
  return a;
}

tl::unexpected<Error> socket_failure(const char* call, const std::string& where, int error) {
  if (error == EMFILE || error == ENFILE) {
    rlimit limit{};
    getrlimit(RLIMIT_NOFILE, &limit);
    return failure(Code::kNoResources, Blame::kProcess,
                   "{} {}: no file descriptor is left of {}; raise the limit (ulimit -n)", call, where, limit.rlim_cur);
  }
  if (error == EADDRINUSE)
    return failure(Code::kSystem, Blame::kProcess, "{} {}: the port is in use by another process", call, where);
  return failure(Code::kSystem, Blame::kCommunicator, "{} {}: {}", call, where, std::strerror(error));
}

std::string Ports::text() const { return first == last ? fmt::format("{}", first) : fmt::format("{}-{}", first, last); }

Result<Ports> parse_ports(const std::string& what, const std::string& text) {
  if (text.empty()) return Ports{};
  const std::size_t dash = text.find('-');
  WEFT_TRY(const auto first, parse_integer(what, text.substr(0, dash), 1, 65535));
  if (dash == std::string::npos) return Ports{static_cast<std::uint16_t>(first), static_cast<std::uint16_t>(first)};
  WEFT_TRY(const auto last, parse_integer(what, text.substr(dash + 1), first, 65535));
  return Ports{static_cast<std::uint16_t>(first), static_cast<std::uint16_t>(last)};
}

Result<UniqueFd> listen_on(const Address& address, Ports ports) {
  int error = 0;
  if (address.port != 0 || ports.first == 0) return listen_at(address, error);
  Address at = address;
  for (at.port = ports.first;; ++at.port) {
    auto listener = listen_at(at, error);
    if (listener || error != EADDRINUSE) return listener;
    if (at.port == ports.last)
      return failure(Code::kSystem, Blame::kInput, "cannot listen on {}: every port of {} is in use", address.ip_text(),
                     ports.text());
  }
}

namespace {

// Packets leave by this address's interface, also where the routes would choose another in the same network; not to an
// address of this machine, which only loopback reaches. Errors are those of connecting.
void leave_by(int fd, const Address& from, const Address& to) {
  const int on = 1;
  setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
  sockaddr_storage storage;
  const socklen_t length = to_sockaddr(from, storage);
  (void)bind(fd, reinterpret_cast<sockaddr*>(&storage), length);
  const std::string name = interface_with(to).empty() ? interface_with(from) : "";
  if (!name.empty()) setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, name.data(), static_cast<socklen_t>(name.size()));
}

}  // namespace

Result<UniqueFd> start_connect(const Address& to, const Address& from) {
  Address scoped = to;
  if (from.scope != 0) scoped.scope = from.scope;  // of a link-local address: this machine's number, not the peer's
  sockaddr_storage storage;
  const socklen_t length = to_sockaddr(scoped, storage);
  UniqueFd fd(socket(storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.open()) return socket_failure("socket to", to.text(), errno);
  const int on = 1;
  setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  avoid_bbr(fd.get());
  if (from.family != 0) leave_by(fd.get(), from, to);
  if (connect(fd.get(), reinterpret_cast<sockaddr*>(&storage), length) != 0 && errno != EINPROGRESS)
    return socket_failure("cannot connect to", to.text(), errno);
  return fd;
}

int connect_error(int fd) {
  int error = 0;
  socklen_t length = sizeof error;
  getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length);
  return error;
}

void end_when_cut(int fd, std::chrono::milliseconds timeout) {
  const auto set = [&](int level, int option, int value) { setsockopt(fd, level, option, &value, sizeof value); };
  // A cut link answers nothing: unacknowledged data and probes of an idle connection both end it.
  const int seconds = static_cast<int>(std::clamp<std::int64_t>(timeout.count() / 1000, 2, 3600));
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(std::min<std::int64_t>(timeout.count(), 1 << 30)));
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, std::max(1, seconds / 3));
  set(IPPROTO_TCP, TCP_KEEPINTVL, std::max(1, seconds / 6));
  set(IPPROTO_TCP, TCP_KEEPCNT, 4);
}

bool delivered(int fd) {
  constexpr int kTcpClosed = 7;  // TCP_CLOSE of the kernel's enum, which libc's header hides
  char forgotten[8192];
  while (recv(fd, forgotten, sizeof forgotten, MSG_DONTWAIT) > 0) {
  }
  tcp_info info{};
  socklen_t length = sizeof info;
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) != 0 || info.tcpi_state == kTcpClosed) return true;
  int unacknowledged = 0;
  return ioctl(fd, SIOCOUTQ, &unacknowledged) != 0 || unacknowledged == 0;
}

Address local_address(int fd) {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  getsockname(fd, reinterpret_cast<sockaddr*>(&storage), &length);
  return address_of(storage);
}

bool leaves_by_adapter(int fd) {
  const Address here = local_address(fd);
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&storage), &length) != 0) return false;
  if (!interface_with(address_of(storage)).empty()) return false;
  const std::string name = interface_with(here);
  return !name.empty() && access(fmt::format("/sys/class/net/{}/device", name).c_str(), F_OK) == 0;
}

Result<UniqueFd> accept_from(int listener) {
  UniqueFd fd(accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!fd.open()) {
    if (errno == EMFILE || errno == ENFILE) return socket_failure("accept at", local_address(listener).text(), errno);
    return UniqueFd();  // nobody there, or gone again
  }
  const int on = 1;
  setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return fd;
}

}  // namespace weft::net::link
