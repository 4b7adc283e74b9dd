// NCCL's interface over weft, with the host as the device: compiled against the toolkit's nccl.h where there is one.

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <nccl.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <numeric>
#include <regex>
#include <set>
#include <sstream>
#include <thread>
#include <vector>

#include "ranks.h"

namespace {

using namespace weft::nccl_ranks;

[[maybe_unused]] const auto* const host_device = testing::AddGlobalTestEnvironment(new HostDevice);

std::vector<float> ramp(std::size_t count, int rank) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<float>(i % 97) + 100.0f * static_cast<float>(rank);
  return values;
}

TEST(NcclInterface, EveryFunctionOfTheHeaderIsThere) {
  std::ifstream file(WEFT_NCCL_HEADER);
  if (!file) GTEST_SKIP() << "built on another machine: " << WEFT_NCCL_HEADER << " is not there";
  std::stringstream text;
  text << file.rdbuf();
  const std::string header = text.str();
  const std::regex function(R"((?:ncclResult_t|char\*|void)\s*,?\s+(p?nccl[A-Z]\w+)\s*[,(])");
  std::set<std::string> names;
  for (std::sregex_iterator i(header.begin(), header.end(), function), end; i != end; ++i) names.insert((*i)[1]);
  EXPECT_GE(names.size(), 44u);
  for (const std::string& name : names) {
    EXPECT_NE(dlsym(RTLD_DEFAULT, name.c_str()), nullptr) << name;
    const std::string profiled = name[0] == 'p' ? name : "p" + name;
    EXPECT_NE(dlsym(RTLD_DEFAULT, profiled.c_str()), nullptr) << profiled;
  }
}

// A program that is bound when it is loaded must find them, whether it calls them or not.
TEST(NcclInterface, HostFunctionsOfTheDeviceHeadersAreThereAndRefuse) {
  for (const char* name : {"DevCommCreate",
                           "DevCommDestroy",
                           "GinBarrierCreateRequirement",
                           "LsaBarrierCreateRequirement",
                           "LLA2ACreateRequirement",
                           "LLA2ACalcSlots",
                           "TeamWorld",
                           "TeamLsa",
                           "TeamRail",
                           "TeamRankToWorld",
                           "TeamRankToLsa",
                           "TeamCft",
                           "TeamCftMultimem",
                           "CommQueryProperties",
                           "GetLsaDevicePointer",
                           "GetPeerDevicePointer",
                           "GetLsaMultimemDevicePointer",
                           "GetMultimemDevicePointer",
                           "GetMultimemDeviceLeInfo",
                           "GetCftDeviceLeInfo",
                           "GetPeerDeviceLeInfo",
                           "CftBarrierCreateRequirement",
                           "GinOutboxCreateRequirement",
                           "GinInboxA2ACreateRequirement"})
    for (const std::string prefix : {"nccl", "pnccl"})
      EXPECT_NE(dlsym(RTLD_DEFAULT, (prefix + name).c_str()), nullptr) << prefix << name;
  using Create = ncclResult_t (*)(ncclComm_t, const void*, void*);
  const auto create = reinterpret_cast<Create>(dlsym(RTLD_DEFAULT, "ncclDevCommCreate"));
  EXPECT_EQ(create(nullptr, nullptr, nullptr), ncclInvalidUsage);
  EXPECT_NE(std::string(ncclGetLastError(nullptr)).find("weft/device.h"), std::string::npos);

  struct Team {
    int ranks, rank, stride;
  };
  using TeamOf = Team (*)(ncclComm_t);
  using ToWorld = int (*)(ncclComm_t, Team, int);
  const auto world = reinterpret_cast<TeamOf>(dlsym(RTLD_DEFAULT, "ncclTeamWorld"));
  const auto to_world = reinterpret_cast<ToWorld>(dlsym(RTLD_DEFAULT, "ncclTeamRankToWorld"));
  on_ranks(2, [&](ncclComm_t comm, int rank, cudaStream_t) {
    EXPECT_EQ(world(comm).ranks, 2);
    EXPECT_EQ(world(comm).rank, rank);
    EXPECT_EQ(to_world(comm, world(comm), 1 - rank), 1 - rank);
  });
}

// nccl-tests ask before they choose kernels of their own.
TEST(NcclInterface, PropertiesSayThatThereIsNoDeviceCode) {
  struct Properties {
    std::size_t size = sizeof(Properties);
    unsigned int magic = 0xcafebeef, version = NCCL_VERSION_CODE;
    int rank, ranks, cuda_device, nvml_device;
    bool device_api, multimem;
    int gin_type, lsa_teams;
    bool host_rma;
    char more[160];
  };
  using Query = ncclResult_t (*)(ncclComm_t, void*);
  const auto query = reinterpret_cast<Query>(dlsym(RTLD_DEFAULT, "ncclCommQueryProperties"));
  on_ranks(2, [&](ncclComm_t comm, int rank, cudaStream_t) {
    Properties properties;
    std::memset(&properties.rank, 0xff, sizeof properties - offsetof(Properties, rank));
    NCCL_OK(query(comm, &properties));
    EXPECT_EQ(properties.rank, rank);
    EXPECT_EQ(properties.ranks, 2);
    EXPECT_FALSE(properties.device_api || properties.multimem);
    EXPECT_TRUE(properties.host_rma);
    EXPECT_EQ(properties.more[100], 0);
    properties.magic = 0;
    EXPECT_EQ(query(comm, &properties), ncclInvalidArgument);
  });
}

TEST(NcclInterface, CommunicatorsKnowThemselves) {
  on_ranks(3, [](ncclComm_t comm, int rank, cudaStream_t) {
    int count = 0, own = -1, device = -1, version = 0;
    NCCL_OK(ncclCommCount(comm, &count));
    NCCL_OK(ncclCommUserRank(comm, &own));
    NCCL_OK(ncclCommCuDevice(comm, &device));
    NCCL_OK(ncclGetVersion(&version));
    EXPECT_EQ(count, 3);
    EXPECT_EQ(own, rank);
    EXPECT_EQ(device, 0);
    EXPECT_EQ(version, NCCL_VERSION_CODE);
  });
}

TEST(NcclCollectives, AllOfThemGiveWhatTheyPromise) {
  constexpr int kRanks = 4, kRoot = 2;
  constexpr std::size_t kCount = 1000;
  on_ranks(kRanks, [](ncclComm_t comm, int rank, cudaStream_t stream) {
    const std::vector<float> in = ramp(kCount * kRanks, rank);
    std::vector<float> sum(kCount), most(kCount), mean(kCount), scattered(kCount), gathered(kCount * kRanks),
        swapped(kCount * kRanks), from_root(kCount), to_root(kCount), at_root(kCount * kRanks), part(kCount);
    const float* const all = in.data();
    NCCL_OK(ncclAllReduce(all, sum.data(), kCount, ncclFloat, ncclSum, comm, stream));
    NCCL_OK(ncclAllReduce(all, most.data(), kCount, ncclFloat, ncclMax, comm, stream));
    NCCL_OK(ncclAllReduce(all, mean.data(), kCount, ncclFloat, ncclAvg, comm, stream));
    NCCL_OK(ncclReduceScatter(all, scattered.data(), kCount, ncclFloat, ncclSum, comm, stream));
    NCCL_OK(ncclAllGather(all, gathered.data(), kCount, ncclFloat, comm, stream));
    NCCL_OK(ncclAlltoAll(all, swapped.data(), kCount, ncclFloat, comm, stream));
    NCCL_OK(ncclBroadcast(all, from_root.data(), kCount, ncclFloat, kRoot, comm, stream));
    NCCL_OK(ncclReduce(all, to_root.data(), kCount, ncclFloat, ncclSum, kRoot, comm, stream));
    NCCL_OK(ncclGather(all, at_root.data(), kCount, ncclFloat, kRoot, comm, stream));
    NCCL_OK(ncclScatter(all, part.data(), kCount, ncclFloat, kRoot, comm, stream));
    NCCL_OK(weft_stream_synchronize(stream));
    const auto own = static_cast<std::size_t>(rank);
    for (std::size_t i = 0; i < kCount; ++i) {
      const float base = static_cast<float>(i % 97);
      const float mine = static_cast<float>((own * kCount + i) % 97);
      ASSERT_EQ(sum[i], 4 * base + 600);
      ASSERT_EQ(most[i], base + 300);
      ASSERT_EQ(mean[i], base + 150);
      ASSERT_EQ(scattered[i], 4 * mine + 600);
      ASSERT_EQ(from_root[i], base + 200);
      ASSERT_EQ(part[i], mine + 200);
      if (rank == kRoot) {
        ASSERT_EQ(to_root[i], 4 * base + 600);
      }
      for (std::size_t r = 0; r < kRanks; ++r) {
        ASSERT_EQ(gathered[r * kCount + i], base + 100 * static_cast<float>(r));
        ASSERT_EQ(swapped[r * kCount + i], mine + 100 * static_cast<float>(r));
        if (rank == kRoot) {
          ASSERT_EQ(at_root[r * kCount + i], base + 100 * static_cast<float>(r));
        }
      }
    }
  });
}

// As a program with one thread does: without the group the first call would wait for the others forever.
TEST(NcclGroups, OneThreadDrivesAllRanks) {
  constexpr int kRanks = 3;
  constexpr std::size_t kCount = 500;
  ncclComm_t comms[kRanks];
  const int devices[kRanks] = {0, 0, 0};
  NCCL_OK(ncclCommInitAll(comms, kRanks, devices));
  std::vector<std::vector<float>> data, received(kRanks, std::vector<float>(kCount));
  for (int r = 0; r < kRanks; ++r) data.push_back(ramp(kCount, r));
  NCCL_OK(ncclGroupStart());
  for (int r = 0; r < kRanks; ++r) {
    const auto i = static_cast<std::size_t>(r);
    NCCL_OK(ncclSend(data[i].data(), kCount, ncclFloat, (r + 1) % kRanks, comms[r], stream_of(r)));
    NCCL_OK(ncclRecv(received[i].data(), kCount, ncclFloat, (r + 2) % kRanks, comms[r], stream_of(r)));
  }
  NCCL_OK(ncclGroupEnd());
  NCCL_OK(ncclGroupStart());
  for (int r = 0; r < kRanks; ++r) {
    float* const in_place = data[static_cast<std::size_t>(r)].data();
    NCCL_OK(ncclAllReduce(in_place, in_place, kCount, ncclFloat, ncclSum, comms[r], stream_of(r)));
  }
  NCCL_OK(ncclGroupEnd());
  for (int r = 0; r < kRanks; ++r) NCCL_OK(weft_stream_synchronize(stream_of(r)));
  for (std::size_t r = 0; r < kRanks; ++r)
    for (std::size_t i = 0; i < kCount; ++i) {
      ASSERT_EQ(received[r][i], static_cast<float>(i % 97) + 100.0f * static_cast<float>((r + 2) % kRanks));
      ASSERT_EQ(data[r][i], 3 * static_cast<float>(i % 97) + 300);
    }
  for (ncclComm_t comm : comms) {
    NCCL_OK(ncclCommFinalize(comm));
    NCCL_OK(ncclCommDestroy(comm));
  }
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage);
}

// A program that looks at the group's end only learns of what was refused between, and nothing of the group is done.
TEST(NcclGroups, EndWithTheFirstErrorBetween) {
  on_ranks(1, [](ncclComm_t comm, int, cudaStream_t stream) {
    float in = 1, out = 0;
    NCCL_OK(ncclGroupStart());
    NCCL_OK(ncclAllReduce(&in, &out, 1, ncclFloat, ncclSum, comm, stream));
    (void)ncclSend(&in, 1, ncclFloat, 5, comm, stream);
    (void)ncclBroadcast(&in, &out, 1, ncclFloat, 7, comm, stream);
    EXPECT_EQ(ncclGroupEnd(), ncclInvalidArgument);
    EXPECT_STREQ(ncclGetLastError(nullptr), "peer 5 of 1 ranks");
    NCCL_OK(weft_stream_synchronize(stream));
    EXPECT_EQ(out, 0);
    NCCL_OK(ncclGroupStart());
    NCCL_OK(ncclAllReduce(&in, &out, 1, ncclFloat, ncclSum, comm, stream));
    NCCL_OK(ncclGroupEnd());
    NCCL_OK(weft_stream_synchronize(stream));
    EXPECT_EQ(out, 1);
  });
}

// Messages of one group wait for what is before them in each of their streams, and what is behind them in any waits for
// them.
TEST(NcclGroups, MessagesOfSeveralStreams) {
  constexpr std::size_t kCount = 20000;
  on_ranks(2, [](ncclComm_t comm, int rank, cudaStream_t stream) {
    const cudaStream_t other = stream_of(rank + 2);
    const std::vector<float> in = ramp(kCount, rank);
    std::vector<float> made(kCount), received(kCount);
    for (int round = 0; round < 5; ++round) {
      std::fill(made.begin(), made.end(), 0.0f);
      std::fill(received.begin(), received.end(), 0.0f);
      // To itself: copies, in `other`, what is then sent in `stream`'s group.
      NCCL_OK(ncclGroupStart());
      NCCL_OK(ncclSend(in.data(), kCount, ncclFloat, rank, comm, other));
      NCCL_OK(ncclRecv(made.data(), kCount, ncclFloat, rank, comm, other));
      NCCL_OK(ncclGroupEnd());
      NCCL_OK(ncclGroupStart());
      NCCL_OK(ncclRecv(received.data(), kCount, ncclFloat, 1 - rank, comm, stream));
      NCCL_OK(ncclSend(made.data(), kCount, ncclFloat, 1 - rank, comm, other));
      NCCL_OK(ncclGroupEnd());
      NCCL_OK(weft_stream_synchronize(other));
      ASSERT_EQ(received, ramp(kCount, 1 - rank));
    }
  });
}

// As PyTorch's all_to_all does: sends and receives of all ranks, itself included, beside a collective, whatever order.
TEST(NcclGroups, MessagesAndCollectivesTogether) {
  constexpr int kRanks = 4;
  constexpr std::size_t kCount = 30000;
  on_ranks(kRanks, [](ncclComm_t comm, int rank, cudaStream_t stream) {
    const std::vector<float> in = ramp(kCount * kRanks, rank);
    std::vector<float> swapped(kCount * kRanks), sum(kCount);
    for (int round = 0; round < 3; ++round) {
      NCCL_OK(ncclGroupStart());
      for (int i = 0; i < kRanks; ++i) {
        const int peer = (i * 3 + rank) % kRanks;
        NCCL_OK(ncclRecv(&swapped[static_cast<std::size_t>(peer) * kCount], kCount, ncclFloat, peer, comm, stream));
        NCCL_OK(ncclSend(&in[static_cast<std::size_t>(i) * kCount], kCount, ncclFloat, i, comm, stream));
      }
      NCCL_OK(ncclAllReduce(in.data(), sum.data(), kCount, ncclFloat, ncclSum, comm, stream));
      NCCL_OK(ncclGroupEnd());
    }
    NCCL_OK(weft_stream_synchronize(stream));
    for (std::size_t r = 0; r < kRanks; ++r)
      for (std::size_t i = 0; i < kCount; ++i)
        ASSERT_EQ(swapped[r * kCount + i],
                  static_cast<float>((static_cast<std::size_t>(rank) * kCount + i) % 97) + 100 * static_cast<float>(r));
    ASSERT_EQ(sum[5], 4 * 5 + 600);
  });
}

TEST(NcclStreams, AnOperationWaitsForWhatIsBeforeItInItsStream) {
  on_ranks(2, [](ncclComm_t comm, int, cudaStream_t stream) {
    std::vector<float> x(100, 1);
    for (int i = 0; i < 10; ++i) NCCL_OK(ncclAllReduce(x.data(), x.data(), 100, ncclFloat, ncclSum, comm, stream));
    NCCL_OK(weft_stream_synchronize(stream));
    EXPECT_EQ(x[99], 1024);  // 2^10
  });
}

TEST(NcclOperations, ContributionsAreMultipliedFirst) {
  on_ranks(2, [](ncclComm_t comm, int rank, cudaStream_t stream) {
    float x = 3, half = 0.5f, now = 0, later = 0;
    ncclRedOp_t at_once, on_device;
    NCCL_OK(ncclRedOpCreatePreMulSum(&at_once, &half, ncclFloat, ncclScalarHostImmediate, comm));
    NCCL_OK(ncclRedOpCreatePreMulSum(&on_device, &half, ncclFloat, ncclScalarDevice, comm));
    NCCL_OK(ncclAllReduce(&x, &now, 1, ncclFloat, at_once, comm, stream));
    NCCL_OK(ncclRedOpDestroy(at_once, comm));
    NCCL_OK(weft_stream_synchronize(stream));
    half = static_cast<float>(rank + 1);  // read when the operation runs
    NCCL_OK(ncclAllReduce(&x, &later, 1, ncclFloat, on_device, comm, stream));
    NCCL_OK(weft_stream_synchronize(stream));
    EXPECT_EQ(now, 3);
    EXPECT_EQ(later, 9);
    double d = 0;
    EXPECT_EQ(ncclAllReduce(&d, &d, 1, ncclDouble, on_device, comm, stream), ncclInvalidArgument);
    EXPECT_EQ(ncclAllReduce(&x, &x, 1, ncclFloat, at_once, comm, stream), ncclInvalidArgument);
    EXPECT_EQ(ncclRedOpDestroy(at_once, comm), ncclInvalidArgument);
  });
}

TEST(NcclCommunicators, AreSplitAndShrunk) {
  on_ranks(4, [](ncclComm_t comm, int rank, cudaStream_t stream) {
    ncclComm_t half = nullptr, none = comm;
    NCCL_OK(ncclCommSplit(comm, rank % 2, -rank, &half, nullptr));
    NCCL_OK(ncclCommSplit(comm, rank == 0 ? NCCL_SPLIT_NOCOLOR : 7, 0, &none, nullptr));
    EXPECT_EQ(none == nullptr, rank == 0);
    int count = 0, own = -1;
    NCCL_OK(ncclCommCount(half, &count));
    NCCL_OK(ncclCommUserRank(half, &own));
    EXPECT_EQ(count, 2);
    EXPECT_EQ(own, rank < 2 ? 1 : 0);  // ordered by key
    float x = static_cast<float>(rank);
    NCCL_OK(ncclAllReduce(&x, &x, 1, ncclFloat, ncclSum, half, stream));
    NCCL_OK(weft_stream_synchronize(stream));
    EXPECT_EQ(x, rank % 2 == 0 ? 2 : 4);
    NCCL_OK(ncclCommDestroy(half));
    if (none != nullptr) {
      NCCL_OK(ncclCommDestroy(none));
    }
    if (rank == 3) return;  // leaves; the others go on
    ncclComm_t left = nullptr;
    int excluded[] = {3};
    NCCL_OK(ncclCommShrink(comm, excluded, 1, &left, nullptr, NCCL_SHRINK_DEFAULT));
    NCCL_OK(ncclCommCount(left, &count));
    EXPECT_EQ(count, 3);
    NCCL_OK(ncclCommDestroy(left));
  });
}

// A rank waits for one that never comes; the abort ends the wait, and says so.
TEST(NcclErrors, AnAbortEndsWhatIsUnderWay) {
  on_ranks(
      2,
      [](ncclComm_t comm, int rank, cudaStream_t stream) {
        float x = 1;
        if (rank == 0) {
          NCCL_OK(ncclAllReduce(&x, &x, 1, ncclFloat, ncclSum, comm, stream));
          ncclResult_t error = ncclSuccess;
          while (error == ncclSuccess) NCCL_OK(ncclCommGetAsyncError(comm, &error));
          EXPECT_EQ(error, ncclRemoteError);
          EXPECT_NE(std::string(ncclGetLastError(comm)).find("abort"), std::string::npos) << ncclGetLastError(comm);
          NCCL_OK(weft_stream_synchronize(stream));
          EXPECT_EQ(ncclAllReduce(&x, &x, 1, ncclFloat, ncclSum, comm, stream), ncclRemoteError);
        } else {
          std::this_thread::sleep_for(std::chrono::milliseconds(50));
        }
        NCCL_OK(ncclCommAbort(comm));
      },
      false);
}

TEST(NcclErrors, BadArgumentsAreRefusedWithAText) {
  on_ranks(1, [](ncclComm_t comm, int, cudaStream_t stream) {
    float x = 1;
    const auto text = [](ncclResult_t result, ncclResult_t expected) {
      EXPECT_EQ(result, expected);
      return std::string(ncclGetLastError(nullptr));
    };
    EXPECT_NE(text(ncclAllReduce(&x, nullptr, 1, ncclFloat, ncclSum, comm, stream), ncclInvalidArgument).find("null"),
              std::string::npos);
    EXPECT_EQ(text(ncclSend(&x, 1, ncclFloat, 5, comm, stream), ncclInvalidArgument), "peer 5 of 1 ranks");
    EXPECT_EQ(text(ncclBroadcast(&x, &x, 1, ncclFloat, 1, comm, stream), ncclInvalidArgument), "root 1 of 1 ranks");
    EXPECT_EQ(
        text(ncclAllReduce(&x, &x, 1, static_cast<ncclDataType_t>(40), ncclSum, comm, stream), ncclInvalidArgument),
        "40 is no ncclDataType_t");
    EXPECT_EQ(text(ncclAllReduce(&x, &x, 1, ncclFloat, ncclSum, nullptr, stream), ncclInvalidArgument),
              "the communicator is null");
    for (const std::size_t count : {std::size_t{1} << 45, (std::size_t{1} << 62) + 1, ~std::size_t{0}}) {
      const std::string refused = std::to_string(count) + " elements do not fit into memory";
      EXPECT_EQ(text(ncclAllReduce(&x, &x, count, ncclDouble, ncclSum, comm, stream), ncclInvalidArgument), refused);
      EXPECT_EQ(text(ncclSend(&x, count, ncclDouble, 0, comm, stream), ncclInvalidArgument), refused);
    }
    EXPECT_EQ(
        text(ncclAllReduce(&x, &x, 1, ncclFloat, static_cast<ncclRedOp_t>(-1), comm, stream), ncclInvalidArgument),
        "-1 is no ncclRedOp_t");
    ncclSimInfo_t info{};
    EXPECT_EQ(text(ncclGroupSimulateEnd(&info), ncclInvalidArgument),
              "ncclGroupSimulateEnd: the ncclSimInfo_t is null or not initialized: begin with "
              "NCCL_SIM_INFO_INITIALIZER");
    ncclComm_t other = nullptr;
    ncclUniqueId foreign{};
    EXPECT_EQ(text(ncclCommInitRank(&other, 1, foreign, 0), ncclInvalidArgument),
              "ncclCommInitRank: not an id of weft's");
    NCCL_OK(ncclCommFinalize(comm));
    EXPECT_EQ(text(ncclAllReduce(&x, &x, 1, ncclFloat, ncclSum, comm, stream), ncclInvalidUsage),
              "the communicator is finalized");
  });
}

// In a process of its own, which has not opened a device yet.
TEST(NcclDevice, WithoutAGpuEveryCallSaysSo) {
  if (access("/dev/nvidiactl", F_OK) == 0) GTEST_SKIP() << "this machine has a GPU";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto without = [] {
    setenv("WEFT_DEVICE", "cuda", 1);
    ncclComm_t comm = nullptr;
    const int device = 0;
    const ncclResult_t result = ncclCommInitAll(&comm, 1, &device);
    std::fputs(ncclGetLastError(nullptr), stderr);
    std::_Exit(result == ncclUnhandledCudaError && comm == nullptr ? 1 : 7);
  };
  EXPECT_EXIT(without(), testing::ExitedWithCode(1), "no CUDA device: ");
}

TEST(NcclMemory, IsAllocatedAndRegistered) {
  on_ranks(2, [](ncclComm_t comm, int, cudaStream_t stream) {
    void *memory = nullptr, *handle = nullptr;
    NCCL_OK(ncclMemAlloc(&memory, 1 << 16));
    NCCL_OK(ncclCommRegister(comm, memory, 1 << 16, &handle));
    ncclWindow_t window = nullptr;
    NCCL_OK(ncclCommWindowRegister(comm, memory, 1 << 16, &window, 0));
    EXPECT_EQ(ncclCommWindowRegister(comm, static_cast<char*>(memory) + 4, 8, &window, 0), ncclInvalidArgument);
    auto* const values = static_cast<float*>(memory);
    std::fill(values, values + 16384, 2.0f);
    NCCL_OK(ncclAllReduce(values, values, 16384, ncclFloat, ncclProd, comm, stream));
    NCCL_OK(weft_stream_synchronize(stream));
    EXPECT_EQ(values[16383], 4);
    NCCL_OK(ncclCommWindowDeregister(comm, window));
    NCCL_OK(ncclCommDeregister(comm, handle));
    NCCL_OK(ncclMemFree(memory));
  });
}

}  // namespace
