// Ranks that reach each other's regions, but not each other's buffers, as processes do; here they are threads.

#include <gtest/gtest.h>

#include "net/cuda/host_device.h"
#include "stream/path.h"
#include "stream/start.h"
#include "tests/communicators.h"

namespace weft {
namespace {

using stream::Group;
using stream::Way;

stream::Gather by(Communicator& comm) {
  return [&comm](std::span<const std::byte> own, std::span<std::byte> all) {
    return comm.all_gather(std::span(reinterpret_cast<const std::uint8_t*>(own.data()), own.size()),
                           std::span(reinterpret_cast<std::uint8_t*>(all.data()), all.size()));
  };
}

Result<std::shared_ptr<Group>> join(Communicator& comm, const stream::Gather& gather) {
  return Group::join(stream::host_runtime(1, comm.rank()), comm.rank(), comm.ranks(), gather, std::chrono::seconds(20));
}

TEST(Join, CollectivesGoByMessagesAlone) {
  constexpr std::size_t kCount = 20000;
  tests::on_threads(tests::thread_communicators(3), [](Communicator& comm) {
    const auto group = join(comm, by(comm));
    ASSERT_TRUE(group) << group.error().message;
    EXPECT_FALSE((*group)->in_one_process());
    stream::Member member(*group, comm.rank());
    int own = 0;  // its address is a stream's name
    std::vector<int> in(kCount, comm.rank()), out(kCount);
    stream::Call call{.member = &member,
                      .request = {.in = in.data(), .out = out.data(), .count = kCount, .type = DataType::kInt32},
                      .stream = &own};
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(stream::start({&call, 1}));
    ASSERT_TRUE((*group)->device().synchronize(&own));
    ASSERT_TRUE((*group)->trouble(comm.rank()));
    EXPECT_EQ(out, std::vector<int>(kCount, 3));
    EXPECT_FALSE(member.last()->plan.algorithm->needs.memory()) << member.last()->plan.algorithm->name;
    call.request.algorithm = "two_shot";  // loads peers' buffers
    EXPECT_FALSE(stream::start({&call, 1}));
    ASSERT_TRUE(comm.barrier());
  });
}

// Rank 2's memory is gone when the others open it: none of them goes on alone.
TEST(Join, AllRanksFailAlike) {
  tests::on_threads(tests::thread_communicators(3), [](Communicator& comm) {
    const stream::Gather spoiled = [&comm](std::span<const std::byte> own, std::span<std::byte> all) {
      const Status done = by(comm)(own, all);
      if (own.size() == sizeof(net::cuda::MemoryHandle) && comm.rank() == 0)
        std::fill(all.end() - sizeof(net::cuda::MemoryHandle), all.end(), std::byte{0x7f});
      return done;
    };
    const auto group = join(comm, spoiled);
    ASSERT_FALSE(group);
    EXPECT_EQ(group.error().code, Code::kUnsupported);
    EXPECT_NE(group.error().message.find(comm.rank() == 0 ? "is gone" : "rank 0 cannot"), std::string::npos)
        << group.error().message;
  });
}

TEST(Way, GoesByProcessesAndGpus) {
  const auto way = [](std::vector<std::uint64_t> gpus, std::vector<std::uint64_t> processes, const char* forced = "") {
    stream::Places places{.devices = {}, .processes = std::move(processes)};
    for (const std::uint64_t g : gpus) places.devices.push_back({g, 0});
    return stream::choose_way(places, forced).way;
  };
  EXPECT_EQ(way({0, 0, 1}, {5, 5, 5}), Way::kKernels);
  EXPECT_EQ(way({0, 1, 2}, {5, 6, 7}), Way::kJoinedKernels);
  EXPECT_EQ(way({0, 0}, {5, 6}), Way::kHostMemory);
  EXPECT_EQ(way({0, 1, 2}, {5, 5, 6}), Way::kHostMemory);
  EXPECT_EQ(way({0, 1}, {5, 6}, "host"), Way::kHostMemory);
}

TEST(DeviceMemory, IsOpenedByOthersUntilItIsGone) {
  net::cuda::HostDevice owner, other;
  void* const memory = owner.allocate(8192).value();
  const auto handle = owner.share(memory).value();
  {
    const auto opened = other.open(handle).value();
    EXPECT_NE(opened.get(), memory);
    static_cast<int*>(opened.get())[2000] = 7;
    EXPECT_EQ(static_cast<int*>(memory)[2000], 7);
  }
  ASSERT_TRUE(owner.release(memory));
  const auto late = other.open(handle);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, Code::kPeerDied);
  EXPECT_FALSE(owner.release(memory));
  EXPECT_FALSE(owner.share(memory));
}

}  // namespace
}  // namespace weft
