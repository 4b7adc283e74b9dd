// What NCCL has since 2.29: configurations of single calls, growth, suspension, puts and signals, parameters.

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <future>
#include <string>

#include "ranks.h"

#if NCCL_VERSION_CODE >= 23200

namespace {

using namespace weft::nccl_ranks;

// The text of a call that is to be refused so.
std::string refused(ncclResult_t result, ncclResult_t expected) {
  EXPECT_EQ(result, expected);
  return ncclGetLastError(nullptr);
}

ncclCollConfig_t config_with(const char* algorithms, int forced = 1) {
  ncclCollConfig_t config = NCCL_COLLCONFIG_INITIALIZER;
  config.algSelection = algorithms;
  config.forceAlgSelection = forced;
  return config;
}

TEST(NcclConfigurations, EveryCollectiveTakesOneOrNone) {
  static constexpr int kRanks = 4, kRoot = 1;
  constexpr std::size_t kCount = 600;
  on_ranks(kRanks, [](ncclComm_t comm, int rank, cudaStream_t stream) {
    ncclCollConfig_t nothing = NCCL_COLLCONFIG_INITIALIZER;
    for (const ncclCollConfig_t* config :
         {static_cast<const ncclCollConfig_t*>(nullptr), static_cast<const ncclCollConfig_t*>(&nothing)}) {
      const auto own = static_cast<float>(rank);
      const std::vector<float> in(kCount * kRanks, own + 1);
      std::vector<float> sum(kCount), from_root(kCount), to_root(kCount), part(kCount), share(kCount);
      std::vector<float> all(kCount * kRanks), swapped(kCount * kRanks), at_root(kCount * kRanks);
      const float* const data = in.data();
      NCCL_OK(ncclAllReduceConfig(data, sum.data(), kCount, ncclFloat, ncclSum, comm, stream, config));
      NCCL_OK(ncclBroadcastConfig(data, from_root.data(), kCount, ncclFloat, kRoot, comm, stream, config));
      NCCL_OK(ncclReduceConfig(data, to_root.data(), kCount, ncclFloat, ncclMax, kRoot, comm, stream, config));
      NCCL_OK(ncclAllGatherConfig(data, all.data(), kCount, ncclFloat, comm, stream, config));
      NCCL_OK(ncclReduceScatterConfig(data, part.data(), kCount, ncclFloat, ncclSum, comm, stream, config));
      NCCL_OK(ncclAlltoAllConfig(data, swapped.data(), kCount, ncclFloat, comm, stream, config));
      NCCL_OK(ncclGatherConfig(data, at_root.data(), kCount, ncclFloat, kRoot, comm, stream, config));
      NCCL_OK(ncclScatterConfig(data, share.data(), kCount, ncclFloat, kRoot, comm, stream, config));
      NCCL_OK(weft_stream_synchronize(stream));
      EXPECT_EQ(sum, std::vector<float>(kCount, 10));
      EXPECT_EQ(from_root, std::vector<float>(kCount, kRoot + 1));
      EXPECT_EQ(part, std::vector<float>(kCount, 10));
      EXPECT_EQ(share, std::vector<float>(kCount, kRoot + 1));
      EXPECT_EQ(all.back(), kRanks);
      EXPECT_EQ(swapped.front(), 1);
      EXPECT_EQ(swapped.back(), kRanks);
      if (rank == kRoot) {
        EXPECT_EQ(to_root, std::vector<float>(kCount, kRanks));
        EXPECT_EQ(at_root.back(), kRanks);
      }
    }
  });
}

TEST(NcclConfigurations, NameAlgorithmsAsNcclAlgoDoes) {
  on_ranks(4, [](ncclComm_t comm, int, cudaStream_t stream) {
    for (const char* algorithms : {"Ring", "RING", " Tree, ring ", "^ring", "^Tree,NVLS", "two_shot", ""}) {
      float x = 1, sum = 0;
      const ncclCollConfig_t config = config_with(algorithms);
      NCCL_OK(ncclAllReduceConfig(&x, &sum, 1, ncclFloat, ncclSum, comm, stream, &config));
      NCCL_OK(weft_stream_synchronize(stream));
      EXPECT_EQ(sum, 4) << algorithms;
    }
    float in[4] = {1, 2, 3, 4}, out[4] = {};
    const ncclCollConfig_t tree = config_with("Tree"), perhaps_tree = config_with("Tree", 0),
                           none = config_with("Rign", 0);
    const std::string text = refused(ncclAlltoAllConfig(in, out, 1, ncclFloat, comm, stream, &tree), ncclInvalidUsage);
    EXPECT_EQ(text, "all_to_all: algSelection 'Tree': weft has none of them for it");
    EXPECT_EQ(refused(ncclAlltoAllConfig(in, out, 1, ncclFloat, comm, stream, &none), ncclInvalidArgument),
              "algSelection: 'rign' is no algorithm; `weft algorithms` lists them");
    NCCL_OK(ncclAlltoAllConfig(in, out, 1, ncclFloat, comm, stream, &perhaps_tree));
    NCCL_OK(weft_stream_synchronize(stream));
    EXPECT_GT(out[3], 0);
  });
}

TEST(NcclConfigurations, BoundChannels) {
  constexpr std::size_t kCount = 100000;
  on_ranks(2, [](ncclComm_t comm, int, cudaStream_t stream) {
    for (const auto& [least, most] : {std::pair(1, 1), std::pair(2, 2), std::pair(NCCL_CONFIG_UNDEF_INT, 1)}) {
      ncclCollConfig_t config = config_with("Ring");
      config.minCTAs = least;
      config.maxCTAs = most;
      std::vector<float> x(kCount, 1);
      NCCL_OK(ncclAllReduceConfig(x.data(), x.data(), kCount, ncclFloat, ncclSum, comm, stream, &config));
      NCCL_OK(weft_stream_synchronize(stream));
      EXPECT_EQ(x, std::vector<float>(kCount, 2));
    }
  });
}

TEST(NcclConfigurations, AreRefusedByTheFieldThatIsWrong) {
  on_ranks(1, [](ncclComm_t comm, int, cudaStream_t stream) {
    float x = 1;
    const auto with = [&](auto change) {
      ncclCollConfig_t config = NCCL_COLLCONFIG_INITIALIZER;
      change(config);
      return refused(ncclAllReduceConfig(&x, &x, 1, ncclFloat, ncclSum, comm, stream, &config), ncclInvalidArgument);
    };
    EXPECT_NE(with([](auto& c) { c.magic = 7; }).find("not initialized"), std::string::npos);
    EXPECT_NE(with([](auto& c) { c.size = 4; }).find("not initialized"), std::string::npos);
    EXPECT_EQ(with([](auto& c) { c.minCTAs = 0; }), "ncclCollConfig_t: minCTAs 0: there are 1 to 64");
    EXPECT_EQ(with([](auto& c) { c.minCTAs = 3, c.maxCTAs = 2; }),
              "ncclCollConfig_t: minCTAs 3 is more than maxCTAs 2");
    EXPECT_NE(with([](auto& c) { c.CTAPolicy = 8; }).find("CTAPolicy 8"), std::string::npos);
    EXPECT_NE(with([](auto& c) { c.userProfilerTag = std::uint64_t{1} << 63; }).find("userProfilerTag"),
              std::string::npos);
    ncclCollConfig_t config = NCCL_COLLCONFIG_INITIALIZER;
    config.launchCompletionEvent = reinterpret_cast<cudaEvent_t>(&x);
    EXPECT_EQ(refused(ncclAllReduceConfig(&x, &x, 1, ncclFloat, ncclSum, comm, stream, &config), ncclInvalidUsage),
              "launchCompletionEvent: the host as the device has no events of CUDA's");
  });
}

// As of a program that was built with an older header: nothing is read beyond its size.
TEST(NcclConfigurations, MayBeShorterThanToday) {
  on_ranks(1, [](ncclComm_t comm, int, cudaStream_t stream) {
    ncclCollConfig_t config = NCCL_COLLCONFIG_INITIALIZER;
    config.size = offsetof(ncclCollConfig_t, userProfilerTag);
    config.userProfilerTag = ~std::uint64_t{0};
    float x = 1;
    NCCL_OK(ncclAllReduceConfig(&x, &x, 1, ncclFloat, ncclSum, comm, stream, &config));
    NCCL_OK(weft_stream_synchronize(stream));
  });
}

// The ranks that call differently learn of it instead of mixing data: of messages at once, of kernels when their time
// is up.
TEST(NcclConfigurations, ThatDifferBetweenRanksAreAnErrorOnAll) {
  on_ranks(
      2,
      [](ncclComm_t comm, int rank, cudaStream_t stream) {
        const ncclCollConfig_t config = config_with(rank == 0 ? "Ring" : "two_shot");
        std::vector<float> x(50000, 1);
        NCCL_OK(ncclAllReduceConfig(x.data(), x.data(), x.size(), ncclFloat, ncclSum, comm, stream, &config));
        ncclResult_t error = ncclSuccess;
        while (error == ncclSuccess) NCCL_OK(ncclCommGetAsyncError(comm, &error));
        EXPECT_EQ(error, ncclInvalidUsage);
        const std::string why = ncclGetLastError(comm);
        EXPECT_NE(why.find("rank 0"), std::string::npos) << why;
        EXPECT_NE(why.find("rank 1"), std::string::npos) << why;
        NCCL_OK(ncclCommAbort(comm));
      },
      false);
}

TEST(NcclCommunicators, GrowByNewRanks) {
  constexpr int kBefore = 2, kAfter = 4;
  ncclUniqueId first, second;
  NCCL_OK(ncclGetUniqueId(&first));
  std::promise<ncclUniqueId> sent;
  const std::shared_future<ncclUniqueId> received = sent.get_future().share();
  std::vector<std::thread> threads;
  for (int r = 0; r < kAfter; ++r)
    threads.emplace_back([&, r] {
      ncclComm_t comm = nullptr, grown = nullptr;
      if (r < kBefore) {
        NCCL_OK(ncclCommInitRank(&comm, kBefore, first, r));
        ncclUniqueId id;
        if (r == 1) {  // any rank may be the root
          NCCL_OK(ncclCommGetUniqueId(comm, &id));
          EXPECT_EQ(ncclCommGetUniqueId(comm, &second), ncclInvalidUsage);
          sent.set_value(id);
        }
        EXPECT_EQ(ncclCommGrow(comm, kBefore, nullptr, -1, &grown, nullptr), ncclInvalidArgument);
        NCCL_OK(ncclCommGrow(comm, kAfter, r == 1 ? &id : nullptr, -1, &grown, nullptr));
        if (r == 1) {
          EXPECT_EQ(ncclCommGrow(comm, kAfter, &id, -1, &comm, nullptr), ncclInvalidUsage);
        }
      } else {
        const ncclUniqueId id = received.get();
        NCCL_OK(ncclCommGrow(nullptr, kAfter, &id, r, &grown, nullptr));
      }
      int count = 0, own = -1;
      NCCL_OK(ncclCommCount(grown, &count));
      NCCL_OK(ncclCommUserRank(grown, &own));
      EXPECT_EQ(count, kAfter);
      EXPECT_EQ(own, r);
      float x = 1, before = 1;
      NCCL_OK(ncclAllReduce(&x, &x, 1, ncclFloat, ncclSum, grown, stream_of(r)));
      if (comm != nullptr) {
        NCCL_OK(ncclAllReduce(&before, &before, 1, ncclFloat, ncclSum, comm, stream_of(r)));
      }
      NCCL_OK(weft_stream_synchronize(stream_of(r)));
      EXPECT_EQ(x, kAfter);
      EXPECT_EQ(before, comm != nullptr ? kBefore : 1);
      NCCL_OK(ncclCommDestroy(grown));
      if (comm != nullptr) {
        NCCL_OK(ncclCommDestroy(comm));
      }
    });
  for (std::thread& t : threads) t.join();
}

TEST(NcclCommunicators, GrowOnlyWithOneRoot) {
  on_ranks(2, [](ncclComm_t comm, int, cudaStream_t) {
    ncclComm_t grown = nullptr;
    EXPECT_EQ(refused(ncclCommGrow(comm, 3, nullptr, -1, &grown, nullptr), ncclInvalidUsage),
              "ncclCommGrow: no rank has the id of ncclCommGetUniqueId: one is the root");
    ncclUniqueId id;
    NCCL_OK(ncclCommGetUniqueId(comm, &id));
    EXPECT_EQ(refused(ncclCommGrow(comm, 3, &id, -1, &grown, nullptr), ncclInvalidUsage),
              "ncclCommGrow: ranks 0 and 1 both have an id: one is the root");
    EXPECT_EQ(grown, nullptr);
  });
}

TEST(NcclCommunicators, SuspendedTakeNothing) {
  on_ranks(2, [](ncclComm_t comm, int, cudaStream_t stream) {
    float x = 1;
    std::uint64_t value = 7;
    EXPECT_EQ(ncclCommResume(comm), ncclInvalidUsage);
    EXPECT_EQ(ncclCommSuspend(comm, 4), ncclInvalidArgument);
    NCCL_OK(ncclAllReduce(&x, &x, 1, ncclFloat, ncclSum, comm, stream));
    NCCL_OK(ncclCommSuspend(comm, NCCL_SUSPEND_MEM));
    EXPECT_EQ(ncclCommSuspend(comm, NCCL_SUSPEND_MEM), ncclInvalidUsage);
    NCCL_OK(ncclCommMemStats(comm, ncclStatGpuMemSuspended, &value));
    EXPECT_EQ(value, 1u);
    EXPECT_EQ(refused(ncclAllReduce(&x, &x, 1, ncclFloat, ncclSum, comm, stream), ncclInvalidUsage),
              "the communicator is suspended: ncclCommResume comes first");
    NCCL_OK(ncclCommResume(comm));
    NCCL_OK(ncclAllReduce(&x, &x, 1, ncclFloat, ncclSum, comm, stream));
    NCCL_OK(weft_stream_synchronize(stream));
    EXPECT_EQ(x, 4);
    std::uint64_t suspendable = 7, persistent = 7, total = 7;
    NCCL_OK(ncclCommMemStats(comm, ncclStatGpuMemSuspended, &value));
    NCCL_OK(ncclCommMemStats(comm, ncclStatGpuMemSuspend, &suspendable));
    NCCL_OK(ncclCommMemStats(comm, ncclStatGpuMemPersist, &persistent));
    NCCL_OK(ncclCommMemStats(comm, ncclStatGpuMemTotal, &total));
    EXPECT_EQ(value, 0u);
    EXPECT_EQ(suspendable, 0u);
    EXPECT_EQ(total, persistent);
    EXPECT_EQ(ncclCommMemStats(comm, static_cast<ncclCommMemStat_t>(9), &value), ncclInvalidArgument);
  });
}

// Every rank puts into all windows, its own included, and adds what came.
TEST(NcclPuts, AreThereWhenTheirSignalHasCome) {
  constexpr int kRanks = 3, kRounds = 4;
  for (const std::size_t count : {std::size_t{1}, std::size_t{100000}})
    on_ranks(kRanks, [count](ncclComm_t comm, int rank, cudaStream_t stream) {
      const std::size_t bytes = kRanks * count * sizeof(float);
      void *memory = nullptr, *same = nullptr;
      NCCL_OK(ncclMemAlloc(&memory, bytes));
      ncclWindow_t window = nullptr;
      NCCL_OK(ncclCommWindowRegister(comm, memory, bytes, &window, NCCL_WIN_COLL_SYMMETRIC));
      NCCL_OK(ncclWinGetUserPtr(comm, window, &same));
      EXPECT_EQ(same, memory);
      const auto* const values = static_cast<const float*>(memory);
      for (int round = 1; round <= kRounds; ++round) {
        const std::vector<float> in(count, static_cast<float>(100 * rank + round));
        std::vector<ncclWaitSignalDesc_t> all;
        for (int peer = 0; peer < kRanks; ++peer) {
          NCCL_OK(ncclPutSignal(in.data(), count, ncclFloat, peer, window,
                                static_cast<std::size_t>(rank) * count * sizeof(float), 2, 1, 0, comm, stream));
          all.push_back({1, peer, 2, 1});
        }
        NCCL_OK(ncclWaitSignal(kRanks, all.data(), comm, stream));
        NCCL_OK(weft_stream_synchronize(stream));
        for (std::size_t r = 0; r < kRanks; ++r) {
          ASSERT_EQ(values[r * count], static_cast<float>(100 * r + static_cast<std::size_t>(round)));
          ASSERT_EQ(values[(r + 1) * count - 1], static_cast<float>(100 * r + static_cast<std::size_t>(round)));
        }
        float x = 1;  // nobody puts again before all have looked
        NCCL_OK(ncclAllReduce(&x, &x, 1, ncclFloat, ncclSum, comm, stream));
        NCCL_OK(weft_stream_synchronize(stream));
      }
      NCCL_OK(ncclCommWindowDeregister(comm, window));
      NCCL_OK(ncclMemFree(memory));
    });
}

// In a group a wait does not keep the puts behind it from being sent.
TEST(NcclPuts, SignalsAreCounted) {
  on_ranks(2, [](ncclComm_t comm, int rank, cudaStream_t stream) {
    ncclWaitSignalDesc_t two{2, 1 - rank, 0, 0}, one{1, 1 - rank, 0, 0};
    NCCL_OK(ncclGroupStart());
    NCCL_OK(ncclWaitSignal(1, &two, comm, stream));
    for (int i = 0; i < 3; ++i) NCCL_OK(ncclSignal(1 - rank, 0, 0, 0, comm, stream));
    NCCL_OK(ncclGroupEnd());
    NCCL_OK(ncclWaitSignal(1, &one, comm, stream));
    NCCL_OK(weft_stream_synchronize(stream));
    ncclResult_t error = ncclInternalError;
    NCCL_OK(ncclCommGetAsyncError(comm, &error));
    EXPECT_EQ(error, ncclSuccess) << ncclGetLastError(comm);
  });
}

TEST(NcclPuts, AreRefusedByWhatIsWrong) {
  on_ranks(1, [](ncclComm_t comm, int, cudaStream_t stream) {
    void* memory = nullptr;
    NCCL_OK(ncclMemAlloc(&memory, 4096));
    ncclWindow_t window = nullptr;
    NCCL_OK(ncclCommWindowRegister(comm, memory, 4096, &window, 0));
    float x = 1;
    const auto put = [&](int peer, ncclWindow_t where, int signal, unsigned flags) {
      return refused(ncclPutSignal(&x, 1, ncclFloat, peer, where, 0, signal, 0, flags, comm, stream),
                     ncclInvalidArgument);
    };
    EXPECT_EQ(put(3, window, 0, 0), "ncclPutSignal: peer 3 of 1 ranks");
    EXPECT_EQ(put(0, nullptr, 0, 0), "ncclPutSignal: this is no window of the communicator");
    EXPECT_EQ(put(0, window, -1, 0), "ncclPutSignal: signal -1 in context 0: both begin at 0");
    EXPECT_EQ(put(0, window, 0, 2), "ncclPutSignal: flags 2: there are none yet");
    ncclWaitSignalDesc_t none{0, 0, 0, 0};
    EXPECT_EQ(refused(ncclWaitSignal(1, &none, comm, stream), ncclInvalidArgument), "ncclWaitSignal: 0 signals");
    EXPECT_EQ(refused(ncclWaitSignal(1, nullptr, comm, stream), ncclInvalidArgument), "ncclWaitSignal: 0 descriptors");
    void* same = nullptr;
    EXPECT_EQ(ncclWinGetUserPtr(comm, reinterpret_cast<ncclWindow_t>(&x), &same), ncclInvalidArgument);
    EXPECT_EQ(ncclCommWindowRegister(comm, memory, 4096, &window, 64), ncclInvalidArgument);
    NCCL_OK(ncclPutSignal(&x, 1, ncclFloat, 0, window, 4094, 0, 0, 0, comm, stream));  // which ends past it
    NCCL_OK(weft_stream_synchronize(stream));
    ncclResult_t error = ncclSuccess;
    NCCL_OK(ncclCommGetAsyncError(comm, &error));
    EXPECT_EQ(error, ncclInvalidArgument);
    EXPECT_STREQ(ncclGetLastError(comm), "ncclPutSignal: 4 bytes at 4094 of rank 0's window, which has 4096");
    NCCL_OK(ncclMemFree(memory));
  });
}

TEST(NcclSimulation, TellsTheTimeOfAGroupAndDoesNotRunIt) {
  on_ranks(4, [](ncclComm_t comm, int, cudaStream_t stream) {
    const auto time_of = [&](std::size_t count, int calls) {
      std::vector<float> in(count, 1), out(count, 0);
      ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
      EXPECT_EQ(ncclGroupStart(), ncclSuccess);
      for (int i = 0; i < calls; ++i)
        EXPECT_EQ(ncclAllReduce(in.data(), out.data(), count, ncclFloat, ncclSum, comm, stream), ncclSuccess);
      EXPECT_EQ(ncclGroupSimulateEnd(&info), ncclSuccess) << ncclGetLastError(nullptr);
      EXPECT_EQ(weft_stream_synchronize(stream), ncclSuccess);
      EXPECT_EQ(out.front(), 0);
      return info.estimatedTime;
    };
    const float few = time_of(256, 1), many = time_of(1 << 22, 1), twice = time_of(1 << 22, 2);
    EXPECT_GT(few, 0);
    EXPECT_GT(many, 10 * few);
    EXPECT_NEAR(twice, 2 * many, many * 0.01);
    float x = 1;
    NCCL_OK(ncclAllReduce(&x, &x, 1, ncclFloat, ncclSum, comm, stream));  // the group is gone
    NCCL_OK(weft_stream_synchronize(stream));
    EXPECT_EQ(x, 4);
    ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
    EXPECT_EQ(refused(ncclGroupSimulateEnd(&info), ncclInvalidUsage), "ncclGroupSimulateEnd without ncclGroupStart");
  });
}

TEST(NcclSimulation, TellsTheTimeOfMessages) {
  on_ranks(2, [](ncclComm_t comm, int rank, cudaStream_t stream) {
    std::vector<float> in(1 << 16), out(1 << 16);
    ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
    NCCL_OK(ncclGroupStart());
    NCCL_OK(ncclSend(in.data(), in.size(), ncclFloat, 1 - rank, comm, stream));
    NCCL_OK(ncclRecv(out.data(), out.size(), ncclFloat, 1 - rank, comm, stream));
    NCCL_OK(ncclGroupSimulateEnd(&info));
    EXPECT_GT(info.estimatedTime, 0);
  });
}

TEST(NcclParameters, AreReadByKeyAndByHandle) {
  setenv("NCCL_MAX_NCHANNELS", "12", 1);
  setenv("NCCL_ALGO", "Ring", 1);
  unsetenv("NCCL_BUFFSIZE");
  ncclParamHandle_t channels = nullptr, algorithm = nullptr, unset = nullptr;
  NCCL_OK(ncclParamBind(&channels, "NCCL_MAX_NCHANNELS"));
  NCCL_OK(ncclParamBind(&algorithm, "NCCL_ALGO"));
  NCCL_OK(ncclParamBind(&unset, "NCCL_BUFFSIZE"));
  std::int8_t i8 = 0;
  std::int16_t i16 = 0;
  std::int32_t i32 = 0;
  std::int64_t i64 = 0;
  std::uint8_t u8 = 0;
  std::uint16_t u16 = 0;
  std::uint32_t u32 = 0;
  std::uint64_t u64 = 0;
  NCCL_OK(ncclParamGetI8(channels, &i8));
  NCCL_OK(ncclParamGetI16(channels, &i16));
  NCCL_OK(ncclParamGetI32(channels, &i32));
  NCCL_OK(ncclParamGetI64(channels, &i64));
  NCCL_OK(ncclParamGetU8(channels, &u8));
  NCCL_OK(ncclParamGetU16(channels, &u16));
  NCCL_OK(ncclParamGetU32(channels, &u32));
  NCCL_OK(ncclParamGetU64(channels, &u64));
  EXPECT_EQ(i8 + i16 + i32 + i64, 48);
  EXPECT_EQ(u8 + u16 + u32 + u64, 48u);
  const char* text = nullptr;
  int length = 0;
  NCCL_OK(ncclParamGetStr(algorithm, &text));
  EXPECT_STREQ(text, "Ring");
  NCCL_OK(ncclParamGetParameter("NCCL_MAX_NCHANNELS", &text, &length));
  EXPECT_EQ(std::string(text, static_cast<std::size_t>(length)), "12");
  char bytes[4] = {};
  NCCL_OK(ncclParamGet(algorithm, bytes, sizeof bytes, &length));
  EXPECT_EQ(std::string(bytes, static_cast<std::size_t>(length)), "Ring");
  EXPECT_EQ(refused(ncclParamGet(algorithm, bytes, 2, &length), ncclInvalidArgument),
            "ncclParamGet: NCCL_ALGO has 4 bytes, there is room for 2");
  EXPECT_EQ(refused(ncclParamGetI32(algorithm, &i32), ncclInvalidArgument),
            "NCCL_ALGO=Ring is no whole number from -2147483648 to 2147483647");
  EXPECT_EQ(refused(ncclParamGetI32(unset, &i32), ncclInvalidUsage), "NCCL_BUFFSIZE is not set: weft chooses");
  EXPECT_EQ(refused(ncclParamBind(&unset, "NCCL_NONE"), ncclInvalidArgument),
            "ncclParamBind: 'NCCL_NONE' is no parameter that weft knows");
  EXPECT_EQ(ncclParamBind(&unset, "WEFT_KEY"), ncclInvalidArgument);
  const char** keys = nullptr;
  int count = 0;
  NCCL_OK(ncclParamGetAllParameterKeys(&keys, &count));
  EXPECT_TRUE(std::any_of(keys, keys + count, [](const char* key) { return std::string(key) == "NCCL_ALGO"; }));
  testing::internal::CaptureStderr();
  ncclParamDumpAll();
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("weft: NCCL_ALGO=Ring\n"), std::string::npos) << said;
  EXPECT_NE(said.find("weft: NCCL_BUFFSIZE is not set\n"), std::string::npos) << said;
  unsetenv("NCCL_MAX_NCHANNELS");
  unsetenv("NCCL_ALGO");
}

TEST(NcclEncryption, IsRefusedWhereNothingWouldBeEncrypted) {
  ncclEncryptionConfig_t config = NCCL_ENCRYPTION_CONFIG_INITIALIZER;
  NCCL_OK(ncclSetEncryption(&config));
  config.mode = NCCL_ENCRYPTION_MODE_PSK;
  config.psk = "secret";
  const std::string text = refused(ncclSetEncryption(&config), ncclInvalidUsage);
  EXPECT_NE(text.find("NCCL_ENCRYPTION_MODE_PSK"), std::string::npos);
  EXPECT_EQ(text.find("secret"), std::string::npos);
  config.mode = 5;
  EXPECT_EQ(ncclSetEncryption(&config), ncclInvalidArgument);
  config.magic = 0;
  EXPECT_EQ(ncclSetEncryption(&config), ncclInvalidArgument);
}

}  // namespace

#endif
