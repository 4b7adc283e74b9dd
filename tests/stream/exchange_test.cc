// Messages between single ranks in the order of streams, by the text of the kernels on the host's threads.

#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "api/stream/exchange.h"
#include "tests/stream/job.h"

namespace weft {
namespace {

using stream::Exchange;
using tests::StreamJob;
using Direction = Transfer::Direction;

#define OK(call)                                         \
  do {                                                   \
    const Status weft_done = (call);                     \
    ASSERT_TRUE(weft_done) << weft_done.error().message; \
  } while (false)

Transfer send(Rank peer, std::vector<int>& data) {
  return {Direction::kSend, peer, data.data(), data.size(), DataType::kInt32};
}
Transfer receive(Rank peer, std::vector<int>& data) {
  return {Direction::kReceive, peer, data.data(), data.size(), DataType::kInt32};
}
std::vector<int> ramp(std::size_t count, int from) {
  std::vector<int> values(count);
  std::iota(values.begin(), values.end(), from);
  return values;
}

// One rank per device, all on one with a block each, and two on each of two.
const std::vector<std::vector<int>> kDevices = {{0, 1}, {0, 0, 0, 0, 0, 0, 0, 0}, {0, 0, 1, 1}, {0, 0, 0}};

// Every rank to every rank, itself included, more than the slots of a connection hold; every rank in another order.
TEST(Exchange, EverybodyWithEverybodyInAnyOrder) {
  std::mt19937 random(7);
  for (const std::vector<int>& devices : kDevices)
    for (const std::size_t count : {std::size_t{1}, std::size_t{20000}, std::size_t{250000}}) {
      StreamJob job(devices);
      const auto n = static_cast<std::size_t>(job.ranks());
      std::vector<std::vector<int>> out, in(n * n, std::vector<int>(count));
      for (std::size_t i = 0; i < n * n; ++i) out.push_back(ramp(count, static_cast<int>(i) * 1000));
      std::vector<Exchange> all;
      for (Rank r = 0; r < job.ranks(); ++r) {
        Exchange& e = all.emplace_back(Exchange{.member = &job.member(r), .stream = job.stream(r)});
        for (Rank peer = 0; peer < job.ranks(); ++peer) {
          e.transfers.push_back(send(peer, out[static_cast<std::size_t>(r) * n + static_cast<std::size_t>(peer)]));
          e.transfers.push_back(receive(peer, in[static_cast<std::size_t>(peer) * n + static_cast<std::size_t>(r)]));
        }
        std::shuffle(e.transfers.begin(), e.transfers.end(), random);
      }
      OK(stream::start_exchanges(all));
      OK(job.wait());
      ASSERT_EQ(in, out) << n << " ranks, " << count;
    }
}

// The sender's group is one, the receiver's are three calls: only the order between the two counts.
TEST(Exchange, MessagesOfAPairAreTakenInOrderHoweverTheyAreGrouped) {
  StreamJob job({0, 0});
  std::vector<std::vector<int>> out = {ramp(3, 0), ramp(100000, 50), ramp(7, 90)},
                                in = {ramp(3, 1), ramp(100000, 1), ramp(7, 1)};
  Exchange sends{.member = &job.member(0), .stream = job.stream(0)};
  for (auto& o : out) sends.transfers.push_back(send(1, o));
  OK(stream::start_exchanges({&sends, 1}));
  for (auto& i : in) {
    const Exchange one{.member = &job.member(1), .transfers = {receive(0, i)}, .stream = job.stream(1)};
    OK(stream::start_exchanges({&one, 1}));
  }
  OK(job.wait());
  EXPECT_EQ(in, out);
}

// Between them collectives, on other ranks too: what they count of each other stays in step.
TEST(Exchange, TakesTurnsWithCollectives) {
  StreamJob job({0, 0, 0});
  const Request request{.collective = Collective::kAllReduce, .count = 40000, .type = DataType::kInt32};
  std::vector<int> moved(40000);
  for (int round = 0; round < 4; ++round) {
    job.make_buffers(request);
    OK(stream::start(job.calls(request)));
    auto* const sum = reinterpret_cast<int*>(job.outputs()[0].data());
    const std::vector<Exchange> pair = {
        {.member = &job.member(0),
         .transfers = {{Direction::kSend, 2, sum, 40000, DataType::kInt32}},
         .stream = job.stream(0)},
        {.member = &job.member(2), .transfers = {receive(0, moved)}, .stream = job.stream(2)}};
    OK(stream::start_exchanges(pair));
    OK(stream::start(job.calls(request)));
    OK(job.wait());
    ASSERT_EQ(job.compare(request), "");
    ASSERT_TRUE(std::equal(moved.begin(), moved.end(), sum));
  }
}

TEST(Exchange, RanksThatShareAStreamAreLaunchedTogether) {
  StreamJob job({0, 0, 0});
  std::vector<std::vector<int>> out, in(3, std::vector<int>(30000));
  std::vector<Exchange> ring;
  for (int r = 0; r < 3; ++r) out.push_back(ramp(30000, r));
  for (Rank r = 0; r < 3; ++r) {
    const auto i = static_cast<std::size_t>(r);
    ring.push_back({.member = &job.member(r),
                    .transfers = {send((r + 1) % 3, out[i]), receive((r + 2) % 3, in[(i + 2) % 3])},
                    .stream = job.stream(0)});
  }
  OK(stream::start_exchanges(ring));
  OK(job.wait());
  EXPECT_EQ(in, out);
}

TEST(Exchange, CanBeCapturedAndReplayed) {
  StreamJob job({0, 0});
  std::vector<int> out(50000), in(50000), own(10), copied(10);
  const std::vector<Exchange> pair = {
      {.member = &job.member(0),
       .transfers = {send(1, out), send(0, own), receive(0, copied)},
       .stream = job.stream(0)},
      {.member = &job.member(1), .transfers = {receive(0, in)}, .stream = job.stream(1)}};
  const auto fork = job.device().make_event().value();
  job.device().begin_capture(job.stream(0));
  OK(job.device().record(*fork, job.stream(0)));
  OK(job.device().wait(*fork, job.stream(1)));
  OK(stream::start_exchanges(pair));
  const net::cuda::HostGraph graph = job.device().end_capture();
  for (int replay = 1; replay < 4; ++replay) {
    std::iota(out.begin(), out.end(), replay);
    std::iota(own.begin(), own.end(), replay);
    graph.replay();
    OK(job.wait());
    ASSERT_EQ(in, out);
    ASSERT_EQ(copied, own);
  }
}

TEST(ExchangeTrouble, DifferentCountsAreAMismatchAndAMissingPeerATimeout) {
  StreamJob job({0, 0});
  std::vector<int> out(100), in(99);
  const std::vector<Exchange> pair = {
      {.member = &job.member(0), .transfers = {send(1, out)}, .stream = job.stream(0)},
      {.member = &job.member(1), .transfers = {receive(0, in)}, .stream = job.stream(1)}};
  OK(stream::start_exchanges(pair));
  const Status differs = job.wait();
  ASSERT_FALSE(differs);
  EXPECT_EQ(differs.error().code, Code::kMismatch) << differs.error().message;

  StreamJob lonely({0, 0, 0}, std::chrono::milliseconds(50));
  const Exchange waits{.member = &lonely.member(2), .transfers = {receive(1, in)}, .stream = lonely.stream(2)};
  OK(stream::start_exchanges({&waits, 1}));
  const Status late = lonely.wait();
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, Code::kTimeout);
  EXPECT_NE(late.error().message.find("rank 2 waited too long for rank 1"), std::string::npos) << late.error().message;
}

TEST(ExchangeInput, IsRefusedBeforeAnythingIsQueued) {
  StreamJob job({0, 0});
  std::vector<int> data(10), other(5);
  const auto refused = [&](std::vector<Transfer> transfers) {
    const Exchange e{.member = &job.member(0), .transfers = std::move(transfers), .stream = job.stream(0)};
    const Status done = stream::start_exchanges({&e, 1});
    return done ? std::string() : done.error().message;
  };
  EXPECT_EQ(refused({send(2, data)}), "send: rank 2 is not a peer of rank 0 of 2");
  EXPECT_EQ(refused({{Direction::kReceive, 1, nullptr, 5, DataType::kInt32}}), "receive of 5 elements: null buffer");
  EXPECT_EQ(refused({send(0, data)}),
            "rank 0 sends itself 1 messages and receives 0: it needs as many of both at the same time");
  EXPECT_EQ(refused({send(0, data), receive(0, other)}), "rank 0 sends itself 10 elements where it receives 5");
  EXPECT_EQ(refused(std::vector<Transfer>(513, send(1, data))), "one launch takes 512 messages of 16 ranks, not more");
  const Exchange e{.member = &job.member(0), .transfers = {send(1, data)}, .stream = job.stream(0)};
  EXPECT_EQ(stream::start_exchanges(std::vector<Exchange>{e, e}).error().message, "rank 0 exchanges twice in one call");
  OK(job.wait());
}

}  // namespace
}  // namespace weft
