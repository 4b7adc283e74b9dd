// Ranks that reach each other's regions, but not each other's buffers, as processes do; here they are threads.

#include <gtest/gtest.h>

#include <algorithm>

#include "api/stream/path.h"
#include "api/stream/start.h"
#include "net/cuda/host_device.h"
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

// What all ranks have opened is loaded and stored where it lies; elsewhere, and without the window, messages go.
TEST(Join, BuffersInWindowsAreReachedWhereTheyLie) {
  constexpr std::size_t kCount = 20000, kBytes = kCount * sizeof(int), kWindow = 4 * kBytes;
  tests::on_threads(tests::thread_communicators(3), [](Communicator& comm) {
    const auto group = join(comm, by(comm)).value();
    const std::size_t lead = comm.rank() == 1 ? 4096 : 0;  // windows begin where they like, also within an allocation
    auto* const memory = static_cast<std::byte*>(group->device().allocate(kWindow + 8192).value()) + lead;
    ASSERT_TRUE(group->add_window(comm.rank(), memory, kWindow, true, by(comm)));
    int own = 0;  // its address is a stream's name
    std::vector<int> elsewhere(kCount, comm.rank() + 1);
    const auto sum = [&](int* in, int* out) -> std::string {
      stream::Member member(group, comm.rank());
      stream::Call call{.member = &member,
                        .request = {.in = in, .out = out, .count = kCount, .type = DataType::kInt32},
                        .stream = &own};
      for (int i = 0; i < 3; ++i) {
        std::fill_n(in, kCount, comm.rank() + 1);
        EXPECT_TRUE(stream::start({&call, 1}));
        EXPECT_TRUE(group->device().synchronize(&own));
        EXPECT_TRUE(group->trouble(comm.rank()));
        EXPECT_EQ(std::count(out, out + kCount, 6), static_cast<std::ptrdiff_t>(kCount));
      }
      return member.last()->plan.algorithm->needs.memory() ? "memory" : "messages";
    };
    auto *const in = reinterpret_cast<int*>(memory + kBytes), *const out = reinterpret_cast<int*>(memory);
    EXPECT_EQ(sum(in, out), "memory");
    EXPECT_EQ(sum(in, in), "memory");
    EXPECT_EQ(sum(elsewhere.data(), out), "messages");
    EXPECT_EQ(sum(reinterpret_cast<int*>(memory + kWindow) - kCount + 1, out), "messages") << "one element too far";
    ASSERT_TRUE(comm.barrier());
    ASSERT_TRUE(group->remove_window(memory));
    EXPECT_FALSE(group->remove_window(memory));
    EXPECT_EQ(sum(in, out), "messages");
    ASSERT_TRUE(comm.barrier());
  });
}

TEST(Join, AWindowThatOneRankCannotGiveIsNoneForAny) {
  tests::on_threads(tests::thread_communicators(2), [](Communicator& comm) {
    const auto group = join(comm, by(comm)).value();
    void* const memory = group->device().allocate(8192).value();
    int own = 0;
    const auto add = [&](void* at, bool symmetric) {
      const Status added = group->add_window(comm.rank(), at, 4096, symmetric, by(comm));
      return added ? std::string() : added.error().message;
    };
    EXPECT_EQ(add(comm.rank() == 0 ? memory : &own, true), comm.rank() == 0
                                                               ? "no window: another rank cannot"
                                                               : "no window: memory is shared that was not allocated");
    EXPECT_EQ(add(memory, comm.rank() == 0),
              comm.rank() == 0 ? "no window: another rank cannot" : "no window: the window is not symmetric");
    EXPECT_EQ(group->window_of(memory, 1), -1);
    // Numbers are the same everywhere, whatever was removed here and not yet there.
    ASSERT_EQ(add(memory, true), "");
    if (comm.rank() == 0) {
      ASSERT_TRUE(group->remove_window(memory));
    }
    void* const other = group->device().allocate(8192).value();
    ASSERT_EQ(add(other, true), "");
    EXPECT_EQ(group->window_of(other, 4096), 1);
    ASSERT_TRUE(comm.barrier());
  });
}

// Rank 2's memory is gone when the others open it: none of them goes on alone.
TEST(Join, AllRanksFailAlike) {
  tests::on_threads(tests::thread_communicators(3), [](Communicator& comm) {
    const stream::Gather spoiled = [&comm](std::span<const std::byte> own, std::span<std::byte> all) {
      const Status done = by(comm)(own, all);
      if (own.size() == sizeof(net::cuda::SharedMemory) && comm.rank() == 0)
        std::fill(all.end() - sizeof(net::cuda::SharedMemory), all.end(), std::byte{0x7f});
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
  EXPECT_EQ(way({0, 0}, {5, 6}, "kernels"), Way::kJoinedKernels);
}

TEST(DeviceMemory, IsOpenedByOthersUntilItIsGone) {
  net::cuda::HostDevice owner, other;
  void* const memory = owner.allocate(8192).value();
  const auto handle = owner.share(memory).value().handle;
  EXPECT_EQ(owner.share(static_cast<std::byte*>(memory) + 5000).value().offset, 5000);
  EXPECT_FALSE(owner.share(static_cast<std::byte*>(memory) + 8192));
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
