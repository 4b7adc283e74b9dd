#include "apps/launch/hosts.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace weft::launch {

// googletest prints a HostRanks with this in a failed expectation.
void PrintTo(const HostRanks& host, std::ostream* out) { *out << host.name << ":" << host.ranks; }

namespace {

using Hosts = std::vector<HostRanks>;

Hosts read(const std::string& text) {
  const std::string path = testing::TempDir() + "/weft-hostfile";
  std::ofstream(path) << text;
  auto hosts = read_hostfile(path);
  std::filesystem::remove(path);
  EXPECT_TRUE(hosts) << hosts.error().message;
  return hosts.value_or(Hosts{});
}

TEST(Hosts, ListsGiveHostsWithTheirRanks) {
  EXPECT_EQ(parse_hosts("a:4,user@b:2,c").value(), (Hosts{{"a", 4}, {"user@b", 2}, {"c", 0}}));
  EXPECT_EQ(parse_hosts("[fe80::1]:4,fe80::2").value(), (Hosts{{"fe80::1", 4}, {"fe80::2", 0}}));
}

TEST(Hosts, AHostThatStandsThereTwiceHasTheSum) {
  EXPECT_EQ(parse_hosts("a:2,b,a:3").value(), (Hosts{{"a", 5}, {"b", 0}}));
}

TEST(Hosts, FilesAreOpenMpisOrMpichs) {
  EXPECT_EQ(read("# cluster\nnode1 slots=4\n\nnode2:2  # second\nnode3\n"),
            (Hosts{{"node1", 4}, {"node2", 2}, {"node3", 0}}));
}

TEST(Hosts, RanksFillThePlacesInOrderOrAreSpreadEvenly) {
  const Hosts counted{{"a", 2}, {"b", 4}}, plain{{"a", 0}, {"b", 0}, {"c", 0}};
  EXPECT_EQ(place_ranks(counted, 0).value(), counted);
  EXPECT_EQ(place_ranks(counted, 3).value(), (Hosts{{"a", 2}, {"b", 1}}));
  EXPECT_EQ(place_ranks(counted, 2).value(), (Hosts{{"a", 2}}));
  EXPECT_EQ(place_ranks(plain, 0).value(), (Hosts{{"a", 1}, {"b", 1}, {"c", 1}}));
  EXPECT_EQ(place_ranks(plain, 7).value(), (Hosts{{"a", 3}, {"b", 2}, {"c", 2}}));
}

TEST(Hosts, WhatIsNoHostIsRefusedByName) {
  for (const auto& [list, names] : {std::pair{"a,,b", "''"}, std::pair{"-oProxyCommand=x", "-oProxyCommand"},
                                    std::pair{"a;b", "a;b"}, std::pair{"a:x", "ranks of a"}, std::pair{"a:0", "0"}}) {
    const auto hosts = parse_hosts(list);
    ASSERT_FALSE(hosts) << list;
    EXPECT_NE(hosts.error().message.find(names), std::string::npos) << hosts.error().message;
  }
  const auto more = place_ranks({{"a", 2}}, 3);
  ASSERT_FALSE(more);
  EXPECT_NE(more.error().message.find("places for 2"), std::string::npos);
}

}  // namespace
}  // namespace weft::launch
