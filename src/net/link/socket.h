#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <chrono>
#include <cstring>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"

namespace weft::net::link {

// An IPv4 or IPv6 address with a port. A value of fixed size, as it stands in unique ids and records.
struct Address {
  std::uint8_t family = 0;  // 0: none, 4, 6
  std::uint8_t scope = 0;   // the interface's number, of link-local IPv6 addresses
  std::uint16_t port = 0;   // host order
  std::uint8_t ip[16] = {};

  bool operator==(const Address&) const = default;
  bool loopback() const;
  bool same_host(const Address& other) const;  // whatever the ports
  std::string text() const;                    // "10.0.0.1:4711", "[::1]:4711"
  std::string ip_text() const;                 // "10.0.0.1"
};
static_assert(sizeof(Address) == 20);

Address address_of(const sockaddr_storage& from);
socklen_t to_sockaddr(const Address& address, sockaddr_storage& to);

// "host:port", "[v6]:port"; a name is looked up. Errors (bad input): names `what` and the text.
Result<Address> parse_address(const std::string& what, const std::string& text);
// The same of a listener: port 0 is any that is free.
Result<Address> parse_listener(const std::string& what, const std::string& text);
Result<Address> resolve(const std::string& what, const std::string& host, std::uint16_t port);

// An address without a port. False: the text is none.
bool parse_ip(const std::string& text, Address& a);
Address loopback();

// Where a socket may listen whose port is of no account, first to last; 0: the system's choice.
struct Ports {
  std::uint16_t first = 0, last = 0;
  std::string text() const;  // "20000-20010"
};
// "20000-20010", "20000", or empty. Errors (bad input): names `what`.
Result<Ports> parse_ports(const std::string& what, const std::string& text);

// Nonblocking, closed on exec. Port 0 is the first of `ports` that is free. Errors: kSystem with the address, or with
// ports that are all in use; kNoResources if no descriptor is left, with what to raise.
Result<UniqueFd> listen_on(const Address& address, Ports ports = {});
// Succeeds or fails later: see connect_error. `from`: leaves by the interface of that address, unless its family is 0.
Result<UniqueFd> start_connect(const Address& to, const Address& from = {});
int connect_error(int fd);  // 0: connected or still trying
Address local_address(int fd);
// Does what a connection sends leave by an adapter, which reads memory without the processor's help? False where the
// peer is on this machine, behind a virtual link (veth, bridge, tunnel), or nothing is known.
bool leaves_by_adapter(int fd);
// A connection whose link is cut ends after about `timeout`, whether or not anything is under way on it.
void end_when_cut(int fd, std::chrono::milliseconds timeout);
// Has the peer's kernel all that was sent, or will it never have? Reads what has come, and forgets it: closing a socket
// on which something has come unread would throw away what is still on its way out.
bool delivered(int fd);
Result<UniqueFd> accept_from(int listener);  // not open(): nobody there
// What a failed call means where descriptors may be short.
tl::unexpected<Error> socket_failure(const char* call, const std::string& where, int error);

}  // namespace weft::net::link
