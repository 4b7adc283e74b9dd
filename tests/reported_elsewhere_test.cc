// What users of other libraries have reported as hangs, wrong blame and failed recoveries, tried here. Each test names
// the report.

#include <signal.h>
#include <unistd.h>

#include <thread>

#include "tests/membership.h"

namespace weft {
namespace {

using namespace tests::membership;

using ReportedElsewhere = Membership;

INSTANTIATE_TEST_SUITE_P(Over, ReportedElsewhere, testing::Values("shm", "tcp", "ucx", "mixed"),
                         [](const auto& info) { return std::string(info.param); });

std::string named(const Status& s, Clock::time_point begin) {
  const auto took = std::chrono::duration<double>(Clock::now() - begin).count();
  if (s) return "ok";
  return fmt::format("{} of {}{}", code_of(s.error().code), fmt::join(s.error().ranks, ","),
                     took > 5 ? fmt::format(" after {:.1f} s", took) : "");
}

// pytorch/gloo #520: connections of a subgroup are opened when they are first needed.
TEST_P(ReportedElsewhere, ADeathBeforeTheFirstCallOfASubgroupIsNamedAtOnce) {
  ConnectedJob job(3, options(30s), [](Communicator& c, Report&, NoticeBoard& board) -> std::string {
    auto part = c.split(0, c.rank());
    if (!part) return text_of(part.error());
    (void)c.barrier();  // it may fail already, where a rank that has passed it has died
    if (c.rank() == 0) kill(getpid(), SIGKILL);
    const auto begin = Clock::now();
    const std::string said = named(barrier_until_it_fails(*part), begin);
    board.post(c.rank(), {});
    for (const int place : {1, 2}) (void)board.await(place);
    return said;
  });
  const auto said = job.join({0});
  for (const std::size_t r : {1, 2}) EXPECT_EQ(said[r], code_of(Code::kPeerDied) + " of 0");
}

// open-mpi/ompi #11261, #13501: an agreement hangs where not all of its ranks have seen a failure. Here some are in the
// agreement already, and the others wait for them in a call that the death keeps from ending.
TEST_P(ReportedElsewhere, AnAgreementOfWhichSomeRanksHaveNotSeenADeathEndsAtOnceAndCountsAllOthers) {
  ConnectedJob job(5, options(12s), [](Communicator& c, Report&, NoticeBoard&) -> std::string {
    (void)c.barrier();  // it may fail already, where a rank that has passed it has died
    if (c.rank() == 4) kill(getpid(), SIGKILL);
    const auto begin = Clock::now();
    if (c.rank() % 2 == 0) (void)barrier_until_it_fails(c);
    const auto agreed = c.agree(1);
    if (!agreed) return text_of(agreed.error());
    if (Clock::now() - begin > 8s) return "late";
    return fmt::format("{} without {}", agreed->bits, fmt::join(agreed->ended, ","));
  });
  const auto said = job.join({4});
  for (const std::size_t r : {0, 1, 2, 3}) EXPECT_EQ(said[r], "1 without 4");
}

// The same where no survivor has a connection to the dead rank, so that none of their fabrics knows of its death.
TEST_P(ReportedElsewhere, AnAgreementFindsADeathOfARankThatNobodyHasTalkedTo) {
  ConnectedJob job(4, options(12s), [](Communicator& c, Report&, NoticeBoard&) -> std::string {
    if (c.rank() == 3) kill(getpid(), SIGKILL);
    const auto begin = Clock::now();
    int value = 0;
    if (c.rank() == 1)
      if (const Status waited = c.receive(std::span(&value, 1), 0);
          named(waited, begin) != code_of(Code::kPeerDied) + " of 3")
        return "receive: " + named(waited, begin);
    const auto agreed = c.agree(1);
    if (!agreed) return text_of(agreed.error());
    if (Clock::now() - begin > 8s) return "late";
    return fmt::format("{} without {}", agreed->bits, fmt::join(agreed->ended, ","));
  });
  const auto said = job.join({3});
  for (const std::size_t r : {0, 1, 2}) EXPECT_EQ(said[r], "1 without 3");
}

// open-mpi/ompi #11724, pmodels/mpich #2198: recovery hangs after a second failure.
TEST_P(ReportedElsewhere, TwoDeathsOneAfterAnotherAreShrunkAwayAndTheRestSplits) {
  ConnectedJob job(5, options(30s), [](Communicator& c, Report&, NoticeBoard&) -> std::string {
    const Rank job_rank = c.rank();
    (void)c.barrier();  // it may fail already, where a rank that has passed it has died
    for (const Rank victim : {1, 0}) {
      if (job_rank == victim) kill(getpid(), SIGKILL);
      (void)barrier_until_it_fails(c);
      auto next = c.shrink();
      if (!next) return text_of(next);
      c = std::move(*next);
    }
    if (c.ranks() != 3) return fmt::format("{} ranks", c.ranks());
    auto part = c.split(0, -c.rank());
    if (!part) return text_of(part.error());
    const std::string wrong = reduce_and_check(*part);
    return wrong.empty() ? "ok" : wrong;
  });
  const auto said = job.join({0, 1});
  for (const std::size_t r : {2, 3, 4}) EXPECT_EQ(said[r], "ok");
}

// mpi-forum/mpi-issues #20: survivors repair two overlapping groups, each rank in another order.
TEST_P(ReportedElsewhere, OverlappingGroupsThatAreShrunkInDifferentOrdersEndWithinTheirTimeouts) {
  ConnectedJob job(4, options(1s), [](Communicator& c, Report&, NoticeBoard&) -> std::string {
    auto green = c.split(0, c.rank()), orange = c.split(0, c.rank());
    if (!green || !orange) return "no groups";
    (void)c.barrier();  // it may fail already, where a rank that has passed it has died
    if (c.rank() == 3) kill(getpid(), SIGKILL);
    const auto begin = Clock::now();
    auto first = (c.rank() == 2 ? *orange : *green).shrink();
    auto second = (c.rank() == 2 ? *green : *orange).shrink();
    const auto took = std::chrono::duration<double>(Clock::now() - begin).count();
    if (took > 12) return fmt::format("{:.1f} s", took);
    for (Result<Communicator>* group : {&first, &second}) {
      if (!*group && (*group).error().code != Code::kLeftOut && (*group).error().code != Code::kNoQuorum)
        return text_of(*group);
      if (*group && (*group)->ranks() > 3) return text_of(*group);
    }
    return "ended";
  });
  const auto said = job.join({3});
  for (const std::size_t r : {0, 1, 2}) EXPECT_EQ(said[r], "ended");
}

// pytorch #75512: the sender ends as soon as it has sent.
TEST_P(ReportedElsewhere, AMessageWhoseSenderEndsAtOnceArrives) {
  ConnectedJob job(2, options(30s), [](Communicator& c, Report&, NoticeBoard&) -> std::string {
    std::vector<float> data(16, c.rank() == 0 ? 3.0F : 0.0F);
    if (c.rank() == 0) {
      auto sent = c.start_send(data.data(), data.size(), DataType::kFloat32, 1, 7);
      return sent ? "ok" : text_of(sent.error());  // nobody waits for it
    }
    std::this_thread::sleep_for(300ms);
    auto received = c.start_receive(data.data(), data.size(), DataType::kFloat32, 0, 7);
    if (!received) return text_of(received.error());
    if (const auto message = received->wait(); !message) return text_of(message.error());
    return data == std::vector<float>(16, 3.0F) ? "ok" : "other data";
  });
  for (const std::string& said : job.join()) EXPECT_EQ(said, "ok");
}

// pmodels/mpich #5923, ml-explore/mlx #3862: a receive from a process that is killed never ends.
TEST_P(ReportedElsewhere, AReceiveFromARankThatIsKilledNamesIt) {
  ConnectedJob job(3, options(30s), [](Communicator& c, Report&, NoticeBoard& board) -> std::string {
    (void)c.barrier();  // it may fail already, where a rank that has passed it has died
    if (c.rank() == 0) {
      std::this_thread::sleep_for(100ms);
      kill(getpid(), SIGKILL);
    }
    const auto begin = Clock::now();
    float value = 0;
    auto received = c.start_receive(&value, 1, DataType::kFloat32, 0, 1);
    const auto got = received ? received->wait() : tl::make_unexpected(received.error());
    const std::string said = named(got ? Status() : Status(tl::make_unexpected(got.error())), begin);
    board.post(c.rank(), {});
    for (const int place : {1, 2}) (void)board.await(place);
    return said;
  });
  const auto said = job.join({0});
  for (const std::size_t r : {1, 2}) EXPECT_EQ(said[r], code_of(Code::kPeerDied) + " of 0");
}

// NVIDIA/nccl #549, #863, #1777: abort from another thread, at any moment and by some ranks only, hangs.
TEST_P(ReportedElsewhere, AnAbortFromAnotherThreadEndsTheCallsOfAllRanks) {
  for (const int after_us : {0, 200, 1000, 5000}) {
    ConnectedJob job(4, options(30s), [after_us](Communicator& c, Report&, NoticeBoard& board) -> std::string {
      Status s = c.barrier();
      std::thread other;
      if (c.rank() == 1)
        other = std::thread([&] {
          std::this_thread::sleep_for(std::chrono::microseconds(after_us));
          c.abort();
        });
      std::vector<float> data(20000, 1);
      const auto begin = Clock::now();
      while (s) s = c.all_reduce<float>(data, data);
      if (other.joinable()) other.join();
      const std::string said = named(s, begin);
      board.post(c.rank() + 1, {});
      for (const int place : {1, 2, 3, 4}) (void)board.await(place);
      return said;
    });
    for (const std::string& said : job.join()) EXPECT_EQ(said, code_of(Code::kAborted) + " of 1") << after_us << " us";
  }
}

}  // namespace
}  // namespace weft
