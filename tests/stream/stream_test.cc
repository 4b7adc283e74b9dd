// Collectives in the order of streams, by the text of the kernels on the host's threads.

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "api/stream/copies.h"
#include "plan/schedule/element.h"
#include "tests/stream/job.h"

namespace weft {
namespace {

using stream::Call;
using tests::StreamJob;

#define OK(call)                                         \
  do {                                                   \
    const Status weft_done = (call);                     \
    ASSERT_TRUE(weft_done) << weft_done.error().message; \
  } while (false)

Request request_of(Collective collective, std::size_t count) {
  return {.collective = collective, .count = count, .type = DataType::kInt32, .root = 0};
}

std::vector<Collective> even_collectives() {
  std::vector<Collective> all;
  for (const Collective c : schedule::kCollectives)
    if (schedule::alike(c) && c != Collective::kBarrier) all.push_back(c);
  return all;
}

// One rank per device, all on one, and two on each of two.
TEST(Stream, EveryCollectiveOnAnyDevices) {
  for (const std::vector<int>& devices : std::vector<std::vector<int>>{{0}, {0, 1, 2}, {0, 0, 0, 0}, {0, 0, 1, 1}}) {
    StreamJob job(devices);
    for (const Collective collective : even_collectives())
      for (const std::size_t count : {std::size_t{7}, std::size_t{9001}}) {
        const Request request = request_of(collective, count);
        job.make_buffers(request);
        OK(stream::start(job.calls(request)));
        OK(job.wait());
        ASSERT_EQ(job.compare(request), "")
            << schedule::name(collective) << " of " << count << " by " << job.member(0).last()->plan.algorithm->name;
      }
  }
}

TEST(Stream, RanksThatShareAStreamAreLaunchedTogether) {
  StreamJob job({0, 0, 0});
  const Request request = request_of(Collective::kAllReduce, 5000);
  job.make_buffers(request);
  std::vector<Call> calls = job.calls(request);
  for (Call& c : calls) c.stream = job.stream(0);
  OK(stream::start(calls));
  OK(job.wait());
  EXPECT_EQ(job.compare(request), "");

  calls[1].request.type = DataType::kFloat32;
  const Status refused = stream::start(calls);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message,
            "all_reduce of rank 0 and all_reduce of rank 1 are in one stream: ranks that share one must call the same");
}

TEST(Stream, EveryRankMayHaveAThread) {
  StreamJob job({0, 0, 1, 1});
  const Request request = request_of(Collective::kAllReduce, 30001);
  job.make_buffers(request);
  std::vector<std::thread> threads;
  for (const Call& call : job.calls(request))
    threads.emplace_back([call] {
      for (int i = 0; i < 5; ++i) OK(stream::start({&call, 1}));
    });
  for (std::thread& t : threads) t.join();
  OK(job.wait());
  EXPECT_EQ(job.compare(request), "");
}

// The second operation is on other streams, and uses the result of the first.
TEST(Stream, OperationsOfARankFollowEachOtherInWhateverStream) {
  StreamJob job({0, 0});
  Request request = request_of(Collective::kAllReduce, 4);
  job.make_buffers(request);
  std::vector<int> values = {1, 2};
  std::vector<Call> calls = job.calls(request);
  for (std::size_t r = 0; r < 2; ++r)
    calls[r].request.in = calls[r].request.out = &values[r], calls[r].request.count = 1;
  for (int i = 0; i < 6; ++i) {
    OK(stream::start(calls));
    std::swap(calls[0].stream, calls[1].stream);
  }
  OK(job.wait());
  EXPECT_EQ(values[0], 3 * 32);
  EXPECT_EQ(values[1], 3 * 32);
}

// What a graph of CUDA keeps is what streams were asked to do: if the host took part, a replay would lack it.
TEST(Stream, ReplaysOfACaptureDoAllOfIt) {
  StreamJob job({0, 0, 0});
  for (const auto& [count, op] : {std::pair{std::size_t{100}, ReduceOp::kSum}, {std::size_t{30001}, ReduceOp::kAvg}}) {
    Request request = request_of(Collective::kAllReduce, count);
    request.op = op;
    job.make_buffers(request);
    const auto fork = job.device().make_event().value();
    const std::vector<Call> calls = job.calls(request);
    job.device().begin_capture(job.stream(0));
    OK(job.device().record(*fork, job.stream(0)));
    for (Rank r = 1; r < job.ranks(); ++r) OK(job.device().wait(*fork, job.stream(r)));
    OK(stream::start(calls));
    const net::cuda::HostGraph graph = job.device().end_capture();
    for (const auto& out : job.outputs()) ASSERT_EQ(out[0], std::byte{0x55}) << "captured, not done";
    for (int replay = 0; replay < 3; ++replay) {
      for (auto& in : job.inputs())
        for (std::size_t i = 0; i < count; ++i) reinterpret_cast<std::int32_t*>(in.data())[i] = replay + int(i);
      graph.replay();
      OK(job.wait());
      const int factor = op == ReduceOp::kSum ? 3 : 1;
      for (const auto& out : job.outputs())
        for (std::size_t i = 0; i < count; ++i)
          ASSERT_EQ(reinterpret_cast<const std::int32_t*>(out.data())[i], factor * (replay + int(i)));
    }
  }
}

TEST(Stream, InPlaceEvenWherePeersStillReadTheInput) {
  StreamJob job({0, 0, 0});
  for (const Collective collective : {Collective::kAllReduce, Collective::kAllToAll}) {
    const Request request = request_of(collective, 5000);
    job.make_buffers(request);
    job.outputs() = job.inputs();
    std::vector<Call> calls = job.calls(request);
    for (Call& c : calls) c.request.in = c.request.out;
    OK(stream::start(calls));
    OK(job.wait());
    EXPECT_EQ(job.compare(request), "") << schedule::name(collective);
  }
}

TEST(Stream, ScalarsMayLieInDeviceMemoryAndAreReadWhenTheOperationRuns) {
  StreamJob job({0, 0});
  std::vector<float> in = {3, 5}, out(2), scalars = {0, 0};
  std::vector<Call> calls;
  for (Rank r = 0; r < 2; ++r) {
    const auto i = static_cast<std::size_t>(r);
    calls.push_back({.member = &job.member(r),
                     .request = {.in = &in[i], .out = &out[i], .count = 1, .op = ReduceOp::kPremulSum},
                     .stream = job.stream(r),
                     .scalar = &scalars[i]});
    OK(job.device().run(job.stream(r), [&scalars, i] { scalars[i] = i == 0 ? 2.0f : 0.5f; }));
  }
  OK(stream::start(calls));
  OK(job.wait());
  EXPECT_EQ(out[0], 8.5f);
  EXPECT_EQ(out[1], 8.5f);
  calls[0].scalar = nullptr;
  EXPECT_EQ(stream::start(calls).error().message, "all_reduce: mulsum needs a scalar");
}

TEST(StreamCopies, EveryCollectiveThatReducesNothing) {
  for (const std::vector<int>& devices : std::vector<std::vector<int>>{{0}, {0, 0, 1, 1}}) {
    StreamJob job(devices);
    int ran = 0;
    for (const Collective collective : even_collectives()) {
      const Request request = request_of(collective, 5000);
      job.make_buffers(request);
      const Status done = stream::start_copies(job.calls(request));
      ASSERT_EQ(done.has_value(), !schedule::reduces(collective)) << schedule::name(collective);
      if (!done) {
        EXPECT_EQ(done.error().code, Code::kUnsupported);
        continue;
      }
      OK(job.wait());
      ASSERT_EQ(job.compare(request), "") << schedule::name(collective);
      ++ran;
    }
    EXPECT_EQ(ran, 6);
  }
}

// All in one stream, in place, and kernels and copies in turns.
TEST(StreamCopies, FollowWhatIsBeforeThemInTheirStreams) {
  StreamJob job({0, 0, 0});
  const Request gather = request_of(Collective::kAllGather, 100), sum = request_of(Collective::kAllReduce, 300);
  std::vector<std::vector<std::int32_t>> values;
  for (int r = 0; r < 3; ++r) values.emplace_back(300, r);
  std::vector<Call> gathers, sums;
  for (Rank r = 0; r < 3; ++r) {
    auto& own = values[static_cast<std::size_t>(r)];
    Request in_place = gather, summed = sum;
    in_place.in = own.data() + 100 * r, in_place.out = own.data();
    summed.in = summed.out = own.data();
    gathers.push_back({.member = &job.member(r), .request = in_place, .stream = job.stream(0)});
    sums.push_back({.member = &job.member(r), .request = summed, .stream = job.stream(r)});
  }
  OK(stream::start_copies(gathers));  // 0 … 1 … 2 …
  OK(stream::start(sums));            // 0 … 3 … 6 …
  OK(stream::start_copies(gathers));
  OK(stream::start(sums));  // 0 … 9 … 18 …
  OK(job.wait());
  for (const auto& own : values)
    for (std::size_t i = 0; i < own.size(); ++i) ASSERT_EQ(own[i], 9 * static_cast<int>(i / 100));
}

TEST(StreamCopies, CanBeCapturedAndReplayed) {
  StreamJob job({0, 0, 0});
  const Request request = request_of(Collective::kAllToAll, 1000);
  job.make_buffers(request);
  const auto fork = job.device().make_event().value();
  job.device().begin_capture(job.stream(0));
  OK(job.device().record(*fork, job.stream(0)));
  for (Rank r = 1; r < job.ranks(); ++r) OK(job.device().wait(*fork, job.stream(r)));
  OK(stream::start_copies(job.calls(request)));
  const net::cuda::HostGraph graph = job.device().end_capture();
  for (int replay = 0; replay < 2; ++replay) {
    for (auto& out : job.outputs()) std::fill(out.begin(), out.end(), std::byte{0x55});
    graph.replay();
    ASSERT_EQ(job.compare(request), "");
  }
}

TEST(StreamCopies, NeedAllRanksInOneCall) {
  StreamJob job({0, 0});
  const Request request = request_of(Collective::kAllGather, 100);
  job.make_buffers(request);
  std::vector<Call> calls = job.calls(request);
  EXPECT_EQ(stream::start_copies({&calls[0], 1}).error().message,
            "copies: all ranks are needed in one call; rank 1 is missing");
  calls[1].request.count = 50;
  EXPECT_EQ(stream::start_copies(calls).error().message, "copies: all_gather of rank 1 is not what rank 0 calls");
  calls[1] = calls[0];
  EXPECT_EQ(stream::start_copies(calls).error().message, "copies: rank 0 is there twice");
}

TEST(StreamTrouble, ARankThatDoesNotComeIsATimeoutAndEndsWhatFollows) {
  StreamJob job({0, 0}, std::chrono::milliseconds(50));
  const Request request = request_of(Collective::kAllReduce, 30001);
  job.make_buffers(request);
  const std::vector<Call> calls = job.calls(request);
  OK(stream::start({&calls[0], 1}));
  const Status first = job.wait();
  ASSERT_FALSE(first);
  EXPECT_EQ(first.error().code, Code::kTimeout);
  EXPECT_NE(first.error().message.find("rank 0 waited too long for rank 1"), std::string::npos)
      << first.error().message;
  OK(stream::start(calls));  // both end at once
  EXPECT_FALSE(job.wait());
}

TEST(StreamTrouble, AnAbortEndsAWait) {
  StreamJob job({0, 0});
  const Request request = request_of(Collective::kAllReduce, 30001);
  job.make_buffers(request);
  const std::vector<Call> calls = job.calls(request);
  OK(stream::start({&calls[0], 1}));
  OK(job.group().abort());
  const Status ended = job.wait();
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().code, Code::kAborted);
}

TEST(StreamTrouble, DifferentCallsAreAMismatch) {
  StreamJob job({0, 0});
  const Request request = request_of(Collective::kAllReduce, 30001);
  job.make_buffers(request);
  std::vector<Call> calls = job.calls(request);
  calls[1].request.op = ReduceOp::kMax;
  OK(stream::start(calls));
  const Status ended = job.wait();
  ASSERT_FALSE(ended);
  EXPECT_TRUE(ended.error().code == Code::kMismatch || ended.error().code == Code::kAborted) << ended.error().message;
}

TEST(StreamInput, IsRefusedBeforeAnythingIsQueued) {
  const auto runtime = stream::host_runtime(2);
  const auto opened = [&](std::vector<int> devices) {
    const auto group = stream::Group::open(runtime, devices, std::chrono::seconds(1));
    return group ? std::string() : group.error().message;
  };
  EXPECT_EQ(opened({}), "a communicator of no ranks");
  EXPECT_EQ(opened({0, 2}), "device 2 of 2");
  EXPECT_EQ(opened(std::vector<int>(9, 0)), "device 0 holds 8 blocks at once, but has 9 ranks");

  StreamJob job({0, 0});
  Request request = request_of(Collective::kAllReduce, 100);
  job.make_buffers(request);
  const auto refused = [&](auto&& change) {
    std::vector<Call> calls = job.calls(request);
    change(calls[1].request);
    const Status done = stream::start(calls);
    return done ? std::string() : done.error().message;
  };
  EXPECT_EQ(refused([](Request& r) { r.in = nullptr; }), "all_reduce of 100 elements: null buffer");
  EXPECT_EQ(refused([](Request& r) { r.collective = Collective::kBroadcast, r.root = 5; }),
            "broadcast: root 5 of 2 ranks");
  EXPECT_NE(refused([](Request& r) { r.algorithm = "fastest"; }).find("fastest"), std::string::npos);
  EXPECT_EQ(refused([](Request& r) { r.protocol = "LL64"; }), "all_reduce: no algorithm that kernels run serves");
  OK(job.wait());
  for (const auto& out : job.outputs()) EXPECT_EQ(out[0], std::byte{0x55});
}

}  // namespace
}  // namespace weft
