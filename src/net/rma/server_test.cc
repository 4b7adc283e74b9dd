#include "net/rma/server.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <filesystem>
#include <thread>

#include "net/rma/line.h"

namespace weft::net::rma {
namespace {

std::ptrdiff_t descriptors() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator());
}

TEST(Server, SilentConnectionsTakeFewDescriptorsAndKeepNoPeerOut) {
  constexpr int kStrangers = 300;
  const bootstrap::Key key{1, 2, 3};
  auto server = Server::open(bootstrap::loopback(), key, 2).value();
  std::vector<std::byte> memory(4096);
  pgas::Space space(0, 2);
  space.add({.own = memory.data(), .bytes = 4096, .mapped = {memory.data(), nullptr}});
  server->serve(space);
  const auto before = descriptors();
  std::vector<bootstrap::UniqueFd> strangers;
  for (int i = 0; i < kStrangers; ++i) {
    strangers.push_back(bootstrap::start_connect(server->address()).value());
    pollfd connected{strangers.back().get(), POLLOUT, 0};
    poll(&connected, 1, 1000);
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_LT(descriptors() - before - kStrangers, 70);
  Line line;
  const Status opened = line.open(server->address(), key, 1, 0, std::chrono::seconds(60));
  EXPECT_TRUE(opened) << opened.error().message;
}

}  // namespace
}  // namespace weft::net::rma
