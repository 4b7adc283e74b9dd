#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdarg>
#include <cstdlib>
#include <vector>

#include "base/own_folder.h"
#include "compat/nccl_plugins/interface.h"
#include "exec/recorder/snapshot.h"

// The plugins as NCCL loads and calls them: by dlopen and dlsym, events in the order of NCCL's README of profilers.
namespace weft::compat::plugins {
namespace {

std::string said;

void log(int, unsigned long, const char*, int, const char* format, ...) {
  char line[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  said += line;
}

template <class Interface>
const Interface& loaded(const char* library, const char* symbol) {
  void* const handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) ADD_FAILURE() << dlerror();
  const void* const found = handle == nullptr ? nullptr : dlsym(handle, symbol);
  if (found == nullptr) ADD_FAILURE() << symbol;
  static const Interface kNone{};
  return found == nullptr ? kNone : *static_cast<const Interface*>(found);
}

// This process's ranks in communicators of this name.
std::vector<recorder::Snapshot> ranks_of(const std::string& group) {
  auto all = recorder::read_folder(own_folder().value(), 100);
  std::erase_if(all, [&](const auto& s) { return s.pid != getpid() || s.group != group; });
  return all;
}

CollectiveFields sum_of(std::size_t count) {
  return {.sequence = 1,
          .function = "AllReduce",
          .send = nullptr,
          .receive = nullptr,
          .count = count,
          .root = 0,
          .type = "ncclFloat32",
          .channels = 2,
          .warps = 16,
          .algorithm = "RING",
          .protocol = "SIMPLE"};
}

template <class Type>
void* start(const auto& profiler, void* context, std::uint64_t type, void* parent, const auto& fill) {
  Descriptor<Type> event{};
  event.type = static_cast<Type>(type);
  event.parent = parent;
  fill(event);
  void* handle = nullptr;
  EXPECT_EQ(profiler.start(context, &handle, &event), kOk);
  return handle;
}

// Two ranks of one process make a call each; the second one's kernel has not ended.
template <class Type, class Interface>
void record_of_two_ranks(const Interface& profiler, const std::string& group, const auto& init) {
  void* contexts[2];
  std::vector<void*> left;
  for (int rank = 0; rank < 2; ++rank) {
    int mask = 0;
    ASSERT_EQ(init(profiler, &contexts[rank], &mask, rank), kOk);
    EXPECT_EQ(mask & (kCollective | kKernelChannel), kCollective | kKernelChannel);
    void* const call =
        start<Type>(profiler, contexts[rank], kCollective, nullptr, [](auto& e) { e.collective = sum_of(1 << 20); });
    ASSERT_NE(call, nullptr);
    profiler.stop(call);  // enqueued: nothing has run yet
    EXPECT_TRUE(ranks_of(group).back().operations.empty());
    void* channels[2];
    for (void*& channel : channels) channel = start<Type>(profiler, contexts[rank], kKernelChannel, call, [](auto&) {});
    EXPECT_TRUE(ranks_of(group).back().busy());
    profiler.state(channels[0], 22, nullptr);
    profiler.stop(channels[0]);
    rank == 0 ? static_cast<void>(profiler.stop(channels[1])) : left.push_back(channels[1]);
  }
  const auto ranks = ranks_of(group);
  ASSERT_EQ(ranks.size(), 2u);
  EXPECT_EQ(ranks[0].transport, "nccl");
  EXPECT_EQ(ranks[0].ranks, 2);
  ASSERT_EQ(ranks[0].operations.size(), 1u);
  const recorder::Operation& o = ranks[0].operations[0];
  EXPECT_EQ(o.collective, "all_reduce");
  EXPECT_EQ(o.type, "float");
  EXPECT_EQ(o.algorithm, "ring");
  EXPECT_EQ(o.protocol, "SIMPLE");
  EXPECT_EQ(o.channels, 2);
  EXPECT_EQ(o.state, recorder::State::kDone);
  EXPECT_EQ(ranks[0].sums.at(0).bytes, 4 << 20);
  EXPECT_TRUE(ranks[1].busy());
  for (void* channel : left) profiler.stop(channel);
  EXPECT_FALSE(ranks_of(group).back().busy());
  for (void* context : contexts) EXPECT_EQ(profiler.finalize(context), kOk);
  EXPECT_TRUE(ranks_of(group).empty());
}

TEST(ProfilerPlugin, RecordsCallsOfVersion4FromTheKernelsFirstChannelToItsLast) {
  record_of_two_ranks<std::uint8_t>(loaded<ProfilerV4>(WEFT_PROFILER, "ncclProfiler_v4"), "four",
                                    [](const auto& p, void** context, int* mask, int rank) {
                                      return p.init(context, mask, "four", 0x1234, 1, 2, rank, log);
                                    });
}

TEST(ProfilerPlugin, RecordsCallsOfVersions5And6Likewise) {
  for (const char* symbol : {"ncclProfiler_v5", "ncclProfiler_v6"})
    record_of_two_ranks<std::uint64_t>(loaded<ProfilerV5>(WEFT_PROFILER, symbol), symbol,
                                       [&](const auto& p, void** context, int* mask, int rank) {
                                         return p.init(context, 0x1234, mask, symbol, 1, 2, rank, log);
                                       });
}

TEST(ProfilerPlugin, CountsMessagesAndTakesChannelsOfTheirsWithoutARecord) {
  const auto& p = loaded<ProfilerV5>(WEFT_PROFILER, "ncclProfiler_v5");
  void* context = nullptr;
  int mask = 0;
  p.init(&context, 7, &mask, "messages", 1, 2, 0, log);
  for (const char* function : {"Send", "Send", "Recv"}) {
    void* const message = start<std::uint64_t>(p, context, kMessage, nullptr, [&](auto& e) {
      e.message = {.function = function, .buffer = nullptr, .type = "ncclInt8", .count = 5, .peer = 1, .channels = 1};
    });
    EXPECT_EQ(start<std::uint64_t>(p, context, kKernelChannel, message, [](auto&) {}), nullptr);
  }
  const auto ranks = ranks_of("messages");
  ASSERT_EQ(ranks.size(), 1u);
  EXPECT_EQ(ranks[0].sends, 2u);
  EXPECT_EQ(ranks[0].receives, 1u);
  p.finalize(context);
}

TEST(ProfilerPlugin, CallsThatOneKernelRunsTogetherAreRecordedOneAfterTheOther) {
  const auto& p = loaded<ProfilerV5>(WEFT_PROFILER, "ncclProfiler_v5");
  void* context = nullptr;
  int mask = 0;
  p.init(&context, 7, &mask, "group", 1, 2, 0, log);
  std::vector<void*> channels;
  for (int call = 0; call < 3; ++call) {
    void* const made =
        start<std::uint64_t>(p, context, kCollective, nullptr, [&](auto& e) { e.collective = sum_of(1 + call); });
    p.stop(made);
    for (int c = 0; c < 2; ++c)
      channels.push_back(start<std::uint64_t>(p, context, kKernelChannel, made, [](auto&) {}));
  }
  std::ranges::reverse(channels);
  for (void* channel : channels) p.stop(channel);
  const auto ranks = ranks_of("group");
  ASSERT_EQ(ranks.at(0).operations.size(), 3u);
  for (const auto& o : ranks[0].operations) {
    EXPECT_EQ(o.count, o.number);
    EXPECT_EQ(o.state, recorder::State::kDone);
  }
  p.finalize(context);
}

struct Choice {
  int algorithm = -1, protocol = -1, channels = 0;
};

// The entry that NCCL would take: the least cost of its table, [7 algorithms][3 protocols].
Choice least_of(const float (&costs)[7][3], int channels) {
  Choice choice{.channels = channels};
  float least = 1e9f;
  for (int a = 0; a < 7; ++a)
    for (int p = 0; p < 3; ++p)
      if (costs[a][p] >= 0 && costs[a][p] < least) least = costs[a][p], choice.algorithm = a, choice.protocol = p;
  return choice;
}

Choice choice_of(const TunerV5& tuner, void* context, int function, std::size_t bytes, int impossible = -1) {
  float costs[7][3];
  for (auto& row : costs)
    for (float& cost : row) cost = 5;
  if (impossible >= 0)
    for (float& cost : costs[impossible]) cost = kNotPossible;
  costs[2][0] = 1;  // NCCL's own choice
  int channels = 0;
  EXPECT_EQ(tuner.choose(context, function, bytes, 1, reinterpret_cast<float**>(costs), 7, 3, 0, &channels), kOk);
  if (impossible >= 0) {
    EXPECT_EQ(costs[impossible][2], kNotPossible);
  }
  return least_of(costs, channels);
}

TEST(TunerPlugin, HandsWeftsChoiceForTheNamedMachineToNccl) {
  ASSERT_EQ(setenv("WEFT_TUNER_MACHINE", "dgx-h100", 1), 0);
  const auto& tuner = loaded<TunerV5>(WEFT_TUNER, "ncclTunerPlugin_v5");
  void* context = nullptr;
  ASSERT_EQ(tuner.init(&context, 1, 32, 4, log, nullptr, nullptr), kOk);
  ASSERT_NE(context, nullptr) << said;
  // `weft explain all_reduce --on dgx-h100:nodes=4 --table - --max 4G` says tree LL, and ring Simple of 16 channels.
  const Choice small = choice_of(tuner, context, kAllReduce, 1024);
  EXPECT_EQ(small.algorithm, 0);
  EXPECT_EQ(small.protocol, 0);
  const Choice large = choice_of(tuner, context, kAllReduce, std::size_t{8} << 30);
  EXPECT_EQ(large.algorithm, 1);
  EXPECT_EQ(large.protocol, 2);
  EXPECT_GT(large.channels, 0);
  // What NCCL has said to be impossible stays so, and its own choice holds; so for functions that are not tuned.
  EXPECT_EQ(choice_of(tuner, context, kAllReduce, std::size_t{8} << 30, 1).algorithm, 2);
  EXPECT_EQ(choice_of(tuner, context, 5, 1024).algorithm, 2);
  EXPECT_EQ(tuner.finalize(context), kOk);
}

TEST(TunerPlugin, EveryVersionOfTheInterfaceIsThere) {
  for (const char* symbol : {"ncclTunerPlugin_v3", "ncclTunerPlugin_v4", "ncclTunerPlugin_v5", "ncclTunerPlugin_v6"})
    EXPECT_STREQ(loaded<TunerV3>(WEFT_TUNER, symbol).name, "weft");
  EXPECT_EQ(loaded<TunerV6>(WEFT_TUNER, "ncclTunerPlugin_v6").chunk_size, nullptr);
}

TEST(TunerPlugin, LeavesChoicesToNcclAndSaysWhyWhereTheMachineDoesNotFit) {
  const auto& tuner = loaded<TunerV5>(WEFT_TUNER, "ncclTunerPlugin_v5");
  for (const auto& [machine, why] : {std::pair{"dgx-h100:nodes=2", "16 ranks are on 2 nodes"},
                                     {"no-such-machine", "no-such-machine"},
                                     {"", "WEFT_TUNER_MACHINE is not set"}}) {
    said.clear();
    setenv("WEFT_TUNER_MACHINE", machine, 1);
    void* context = nullptr;
    EXPECT_EQ(tuner.init(&context, 1, 16, 4, log, nullptr, nullptr), kOk);
    EXPECT_EQ(context, nullptr);
    EXPECT_NE(said.find(why), std::string::npos) << said;
    EXPECT_EQ(choice_of(tuner, context, kAllReduce, 1024).algorithm, 2);
  }
}

}  // namespace
}  // namespace weft::compat::plugins
