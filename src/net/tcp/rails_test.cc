#include <dirent.h>
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <thread>

#include "net/tcp/tcp.h"

namespace weft::net::tcp {
namespace {

using protocol::End;
using protocol::Memory;
using protocol::Operation;

constexpr std::chrono::seconds kLong{20};
constexpr Bytes kBytes = 128 << 10;

link::Address loopback_number(std::uint8_t last) {
  link::Address a = link::loopback();
  a.ip[3] = last;
  return a;
}

void copy(std::byte* const* to, int count, const std::byte* const* from, int, Bytes bytes, const fabric::Scalar*) {
  for (int i = 0; i < count; ++i)
    if (to[i] != from[0]) std::memcpy(to[i], from[0], static_cast<std::size_t>(bytes));
}

// Breaks the connections of this process to that address, as a cut link does at last.
int cut(const link::Address& rail) {
  std::vector<int> found;
  DIR* const folder = opendir("/proc/self/fd");
  while (const dirent* entry = readdir(folder)) {
    const int fd = std::atoi(entry->d_name);
    sockaddr_storage storage{};
    socklen_t length = sizeof storage;
    if (getpeername(fd, reinterpret_cast<sockaddr*>(&storage), &length) == 0 &&
        link::address_of(storage).same_host(rail) && link::local_address(fd).same_host(rail))
      found.push_back(fd);
  }
  closedir(folder);
  const sockaddr nowhere{.sa_family = AF_UNSPEC, .sa_data = {}};
  for (const int fd : found) connect(fd, &nowhere, sizeof nowhere);
  return static_cast<int>(found.size());
}

// Two ranks of this process that have two rails each, 127.0.0.1 and 127.0.0.2.
class TwoRails : public testing::TestWithParam<link::Protection> {
 protected:
  void SetUp() override {
    auto host = bootstrap::Host::open(link::loopback(), 2).value();
    std::optional<Result<bootstrap::Meeting>> met[2];
    std::vector<std::thread> coming;
    for (const Rank r : {0, 1})
      coming.emplace_back(
          [&, r] { met[r] = bootstrap::meet({.id = host.id(), .rank = r, .ranks = 2, .protection = GetParam()}); });
    ASSERT_TRUE(host.serve(kLong));
    for (std::thread& t : coming) t.join();
    for (const Rank r : {0, 1}) {
      ASSERT_TRUE(*met[r]) << met[r]->error().message;
      bootstrap::Meeting& meeting = **met[r];
      const std::vector<link::Address> rails{loopback_number(1), loopback_number(2)};
      meeting.listener = link::listen_on_rails(rails, {}).value();
      ports[r] = link::local_address(meeting.listener.get()).port;
      for (std::size_t i = 0; i < 2; ++i)
        for (auto& record : meeting.ranks) record.rails[i] = rails[i];
    }
    for (const Rank r : {0, 1}) {
      for (const Rank other : {0, 1}) (*met[r])->ranks[static_cast<std::size_t>(other)].data.port = ports[other];
      world[r] = open(std::move(**met[r]), r, {}, {.spins = 1, .timeout = kLong});
      in[r].resize(kBytes);
      out[r].resize(kBytes);
      at(r).begin({.in = in[r].data(), .out = out[r].data(), .fold = copy});
    }
  }
  messages::Endpoint& at(Rank r) { return world[r]->endpoint; }
  static End local(Memory memory) { return {.kind = End::Kind::kLocal, .memory = memory}; }
  static End message(Rank peer) { return {.kind = End::Kind::kMessage, .strand = 0, .peer = peer}; }
  static Operation send(Rank from) {
    return {.bytes = kBytes, .sources = {local(Memory::kIn)}, .destinations = {message(1 - from)}};
  }
  static Operation receive(Rank to) {
    return {.bytes = kBytes, .sources = {message(1 - to)}, .destinations = {local(Memory::kOut)}};
  }
  // One message from each rank to the other, other bytes every time; `meanwhile` when both are under way.
  template <class F>
  void cross(F&& meanwhile) {
    ++round;
    for (const Rank r : {0, 1})
      for (std::size_t i = 0; i < in[r].size(); ++i)
        in[r][i] = static_cast<std::byte>(i * 7 + i / 4096 + round + 3 * r);
    for (const Rank r : {0, 1}) {
      pump_until([&] { return at(r).ready(0, send(r)); });
      at(r).post(0, send(r));
    }
    meanwhile();
    for (const Rank r : {0, 1}) {
      pump_until([&] { return at(r).ready(0, receive(r)); });
      at(r).post(0, receive(r));
    }
    for (const Rank r : {0, 1}) pump_until([&] { return at(r).unsettled() < 0; });
    EXPECT_TRUE(out[0] == in[1] && out[1] == in[0]) << "round " << round;
  }
  template <class F>
  void pump_until(F&& done) {
    for (const auto until = messages::Clock::now() + kLong; !done();) {
      ASSERT_LT(messages::Clock::now(), until);
      ASSERT_FALSE(at(0).failures().failure()) << at(0).failures().failure()->message;
      for (const Rank r : {0, 1}) ASSERT_TRUE(at(r).failures().end_of(1 - r).empty()) << at(r).failures().end_of(1 - r);
      for (const Rank r : {0, 1}) at(r).pump_all();
    }
  }
  // Connections to the second rail; each is seen from both ends.
  static int open_on(std::uint8_t rail) {
    int found = 0;
    for (int fd = 3; fd < 256; ++fd) {
      sockaddr_storage storage{};
      socklen_t length = sizeof storage;
      if (getpeername(fd, reinterpret_cast<sockaddr*>(&storage), &length) == 0)
        found += link::address_of(storage).same_host(loopback_number(rail)) ? 1 : 0;
    }
    return found;
  }

  std::vector<std::byte> in[2], out[2];
  std::uint16_t ports[2];
  std::size_t round = 0;
  std::unique_ptr<messages::World> world[2];
};

TEST_P(TwoRails, BothCarryMessages) {
  for (int i = 0; i < 8; ++i) cross([] {});
  EXPECT_GT(open_on(1), 0);
  EXPECT_GT(open_on(2), 0);
}

TEST_P(TwoRails, ARailThatIsCutUnderLoadLosesNothingAndComesBack) {
  for (int i = 0; i < 4; ++i) cross([] {});
  for (const std::uint8_t rail : {2, 1, 2}) {
    cross([&] { EXPECT_GT(cut(loopback_number(rail)), 0); });
    for (int i = 0; i < 4; ++i) cross([] {});
    pump_until([&] { return open_on(rail) > 1; });
    for (int i = 0; i < 4; ++i) cross([] {});
  }
}

// What was on the rail is sent again once the peer has said what has come: until then it is read where it lies.
TEST_P(TwoRails, ALostRailStillReadsTheCallersMemoryUntilItsFramesAreSentAgain) {
  for (int i = 0; i < 4; ++i) cross([] {});
  ++round;
  pump_until([&] { return at(0).ready(0, send(0)); });
  at(0).post(0, send(0));
  constexpr Bytes kPart = 4096;
  const auto read = [&] {
    std::vector<Bytes> parts;
    for (Bytes i = 0; i < kBytes; i += kPart)
      if (at(0).reads(in[0].data() + i, kPart)) parts.push_back(i);
    return parts;
  };
  const std::vector<Bytes> before = read();
  EXPECT_FALSE(before.empty());
  EXPECT_GT(cut(loopback_number(2)), 0);
  for (int i = 0; i < 100; ++i) at(0).pump_all();  // rank 1 says nothing yet
  EXPECT_EQ(read(), before);
  EXPECT_EQ(at(0).unsettled(), 1);
  pump_until([&] { return at(1).ready(0, receive(1)); });
  at(1).post(0, receive(1));
  pump_until([&] { return at(0).unsettled() < 0; });
  EXPECT_TRUE(read().empty());
  EXPECT_TRUE(out[1] == in[0]);
}

INSTANTIATE_TEST_SUITE_P(Rails, TwoRails, testing::Values(link::Protection::kOff, link::Protection::kEncrypt),
                         [](const auto& info) { return info.param == link::Protection::kOff ? "Plain" : "Encrypted"; });

}  // namespace
}  // namespace weft::net::tcp
