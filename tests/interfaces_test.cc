#include <gtest/gtest.h>
#include <sys/socket.h>

#include <filesystem>

#include "net/link/handshake.h"
#include "net/link/interfaces.h"

// Which network interfaces connections use.
namespace weft::net::link {
namespace {

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(Interfaces, AreFoundByNameSubnetAndAddress) {
  EXPECT_TRUE(choose_interface("lo").value().loopback());
  EXPECT_TRUE(choose_interface("127.0.0.0/8").value().loopback());
  EXPECT_TRUE(choose_interface("127.0.0.1").value().loopback());
  const auto refused = choose_interface("bond7");
  ASSERT_FALSE(refused);
  EXPECT_TRUE(contains(refused.error().message, "bond7") && contains(refused.error().message, "lo 127.0.0.1"))
      << refused.error().message;
  EXPECT_FALSE(choose_interface("10.0.0.0/33"));
  EXPECT_FALSE(choose_interface("lo,"));
  EXPECT_TRUE(contains(choose_interface("^lo*,*").error().message, "leaves no interface"));
  EXPECT_FALSE(choose_interface("ten/8"));
}

// Hosts of a job may call theirs otherwise, so that one list serves all.
TEST(Interfaces, AreAllThatAListMeans) {
  const auto some = choose_interfaces("bond7,l?,127.0.0.0/8").value();
  ASSERT_EQ(some.size(), 1u);  // each once
  EXPECT_EQ(some[0].name, "lo");
  ASSERT_EQ(missing_interfaces("bond7,lo").size(), 1u);
  EXPECT_TRUE(contains(missing_interfaces("bond7,lo")[0], "no interface 'bond7' is up here"));
  EXPECT_FALSE(choose_interfaces("bond7,bond8"));
  for (const Interface& i : choose_interfaces("^docker0").value_or(std::vector<Interface>()))
    EXPECT_FALSE(i.address.loopback());
  EXPECT_FALSE(choose_interfaces("lo,^lo"));
}

Address ip(const std::string& text) {
  Address a;
  EXPECT_TRUE(parse_ip(text, a));
  return a;
}

TEST(Interfaces, ConnectionsGoToThePeersRailsInTurnFromTheNearest) {
  const std::vector<Address> own{ip("10.1.0.1"), ip("10.2.0.1")}, peers{ip("10.2.0.2"), ip("10.1.0.2")};
  EXPECT_EQ(route_of(own, peers, 0).text(), " over 10.2.0.1 to 10.2.0.2");
  EXPECT_EQ(route_of(own, peers, 1).text(), " over 10.1.0.1 to 10.1.0.2");
  EXPECT_EQ(route_of(own, peers, 2).text(), " over 10.2.0.1 to 10.2.0.2");
  const std::vector<Address> same{ip("10.1.0.1"), ip("10.1.0.3")}, one{ip("10.1.0.2")};
  EXPECT_EQ(route_of(same, one, 0).text(), " over 10.1.0.1 to 10.1.0.2");  // of one network: in turn
  EXPECT_EQ(route_of(same, one, 1).text(), " over 10.1.0.3 to 10.1.0.2");
  EXPECT_EQ(route_of({ip("10.1.0.1"), ip("fd00::1")}, {ip("fd00::2")}, 0).text(), " over fd00::1 to fd00::2");
}

// Bound to `from`, with packets for `to`; none is sent.
UniqueFd towards(const Address& from, Address to) {
  sockaddr_storage storage;
  socklen_t length = to_sockaddr(from, storage);
  UniqueFd fd(socket(storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(bind(fd.get(), reinterpret_cast<sockaddr*>(&storage), length), 0);
  to.port = 9;
  length = to_sockaddr(to, storage);
  EXPECT_EQ(connect(fd.get(), reinterpret_cast<sockaddr*>(&storage), length), 0);
  return fd;
}

TEST(Interfaces, AreAdaptersOnlyTowardsOtherMachines) {
  EXPECT_FALSE(leaves_by_adapter(towards(loopback(), loopback()).get()));
  std::string adapter;
  for (const auto& entry : std::filesystem::directory_iterator("/sys/class/net"))
    if (exists(entry.path() / "device") && choose_interface(entry.path().filename())) adapter = entry.path().filename();
  if (adapter.empty()) GTEST_SKIP() << "no adapter is up here";
  const Address own = choose_interface(adapter).value();
  EXPECT_FALSE(leaves_by_adapter(towards(own, own).get()));
  Address neighbour = own;
  neighbour.ip[own.family == 4 ? 3 : 15] ^= 1;
  EXPECT_TRUE(leaves_by_adapter(towards(own, neighbour).get()));
}

}  // namespace
}  // namespace weft::net::link
