#pragma once

#include <string>
#include <vector>

#include "net/link/socket.h"

// Which of this machine's network interfaces the ranks use.
namespace weft::net::link {

// An interface that is up, with one of its addresses; the port is 0.
struct Interface {
  std::string name;
  Address address;

  std::string text() const;  // "eth0 10.0.0.1"
};

// The interfaces that are up, once per address. Empty also where the system does not report them.
std::vector<Interface> interfaces();
// Of the interface that has this address; empty: none has.
std::string interface_with(const Address& address);

// The interfaces that WEFT_IFACE names: a list of names, patterns ("eth*", "ib?"), addresses and subnets
// ("10.1.0.0/16", "fd00::/8"), in the list's order, each interface once, with an IPv4 address where it has both. An
// entry that begins with ^ excludes; a list that begins with ^ excludes all its entries and means every other interface
// but loopback. Link-local IPv6 addresses count where a subnet or an address names them.
// An entry that means no interface here is left out, since hosts may name theirs otherwise; see missing_interfaces.
// Errors (bad input): a list that leaves nothing, more than kMostRails; with the interfaces that there are.
inline constexpr std::size_t kMostRails = 8;
Result<std::vector<Interface>> choose_interfaces(const std::string& wanted);
// Of each entry that includes nothing here: what to say. Nothing where the list does not parse.
std::vector<std::string> missing_interfaces(const std::string& wanted);
// The first of them.
Result<Address> choose_interface(const std::string& wanted);

// A listener that all these addresses reach, by one port. Requires: one address at least. Errors: of listen_on.
Result<UniqueFd> listen_on_rails(const std::vector<Address>& rails, Ports ports);

// Between two rails; `from` has family 0 where the system's routes decide.
struct Route {
  Address to, from = {};

  std::string text() const;  // " over 10.0.0.1 to 10.0.0.2", or nothing
};
// Connection `lane` of several: to the peer's rails in turn, from this rank's rail whose address is nearest to that
// one, in turn where several are alike.
Route route_of(const std::vector<Address>& own, const std::vector<Address>& peers, int lane);
// What a connection uses: " over eth1, 10.0.1.1 to 10.0.1.2".
std::string text_of_route(int fd);

// For the log: every interface with its address, and why it is used or not. `wanted`: WEFT_IFACE, or empty.
std::vector<std::string> describe_interfaces(const std::string& wanted, const std::vector<Address>& used);

}  // namespace weft::net::link
