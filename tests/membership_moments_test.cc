// Groups of ranks at awkward moments: ranks that come late to an agreement or are interrupted in it, that drop what
// they have shrunk at once, that die during a split, that say why they abort, that are waited for through others.

#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include <thread>

#include "tests/membership.h"

namespace weft {
namespace {

using namespace tests::membership;

// Rank 3 brings 0, but only when the others have waited for it for their whole timeout.
TEST_P(Membership, AgreementSaysThatALivingRankCameTooLateAndDoesNotSpeakForIt) {
  ConnectedJob job(4, options(700ms), [](Communicator& c, Report&, NoticeBoard& board) -> std::string {
    if (!c.barrier()) return "no barrier";
    if (c.rank() == 3) (void)board.await(1);
    const auto first = c.agree(c.rank() == 3 ? 0 : 1);
    if (c.rank() == 0) board.post(1, {});
    return text_of(first) + "; " + text_of(c.agree(c.rank() == 3 ? 6 : 7));
  });
  const auto said = job.join();
  for (const std::size_t r : {0, 1, 2}) EXPECT_EQ(said[r], "1 without 3 late 3; 6 without  late ");
  EXPECT_TRUE(said[3].starts_with(code_of(Code::kLeftOut))) << said[3];
  EXPECT_TRUE(said[3].ends_with("; 6 without  late ")) << said[3];
}

TEST_P(Membership, AgreementWaitsForALateRankWithinTheTimeout) {
  ConnectedJob job(3, options(20s), [](Communicator& c, Report&, NoticeBoard&) -> std::string {
    if (c.rank() == 2) std::this_thread::sleep_for(1s);
    return text_of(c.agree(c.rank() == 2 ? 2 : 3));
  });
  for (const std::string& said : job.join()) EXPECT_EQ(said, "2 without  late ");
}

TEST_P(Membership, AgreementDoesNotCountARankThatIsInsideFinalize) {
  ConnectedJob job(3, options(1500ms), [](Communicator& c, Report&, NoticeBoard&) -> std::string {
    if (!c.barrier()) return "no barrier";
    if (c.rank() == 2) return text_of(c.finalize());
    return text_of(c.agree(1));
  });
  const auto said = job.join();
  for (const std::size_t r : {0, 1})
    // finalize() may have ended with a timeout of its own, and rank 2 have left, before the others decide.
    EXPECT_TRUE(said[r] == "1 without 2 late 2" || said[r] == "1 without 2 late ") << said[r];
  EXPECT_EQ(said[0], said[1]);
  EXPECT_FALSE(said[2].starts_with("ok")) << said[2];
}

// Rank 1 never comes; what ends the wait of rank 0 is reported to the others.
TEST_P(Membership, AnAbortFromAnotherThreadEndsAWaitInAgreeAndAShrinkAfterItGoesOn) {
  ConnectedJob job(2, options(20s), [](Communicator& c, Report&, NoticeBoard& board) -> std::string {
    (void)c.barrier();  // it may fail already, where a rank that has passed it has aborted
    if (c.rank() == 1) {
      (void)board.await(1);
      return text_of(c.shrink());
    }
    std::thread aborts([&] {
      std::this_thread::sleep_for(200ms);
      c.abort();
    });
    const auto begin = Clock::now();
    std::string text = text_of(c.agree(1)).substr(0, 7);
    if (Clock::now() - begin > 5s) text += " late";
    aborts.join();
    board.post(1, {});
    return text + text_of(c.shrink());
  });
  const auto said = job.join();
  EXPECT_EQ(said[0], code_of(Code::kAborted) + "ok as 0 of 2");
  EXPECT_EQ(said[1], "ok as 1 of 2");
}

TEST_P(Membership, AWaitInAgreeAndInShrinkEndsWhenItIsInterrupted) {
  ConnectedJob job(3, options(20s), [](Communicator& c, Report&, NoticeBoard& board) -> std::string {
    if (!c.barrier()) return "no barrier";
    if (c.rank() != 0) {
      const Status s = c.rank() == 2 ? c.barrier() : Status();
      (void)board.await(1);
      return text_of(s);
    }
    std::string text;
    for (const bool shrinks : {false, true}) {
      const auto until = Clock::now() + 200ms;
      c.set_interrupt([until] { return Clock::now() > until; });
      const auto begin = Clock::now();
      text += (shrinks ? text_of(c.shrink()) : text_of(c.agree(1))).substr(0, 7);
      if (Clock::now() - begin > 1s) text += " late";
    }
    board.post(1, {});
    return text;
  });
  const auto said = job.join();
  EXPECT_EQ(said[0], code_of(Code::kAborted) + code_of(Code::kAborted));
  EXPECT_TRUE(contains(said[2], "rank 0 aborted")) << said[2];
}

// It counts what this rank brought first, over every transport.
TEST_P(Membership, AnAgreementThatWasInterruptedGoesOnInTheNextCall) {
  ConnectedJob job(3, options(20s), [](Communicator& c, Report&, NoticeBoard& board) -> std::string {
    if (!c.barrier()) return "no barrier";
    if (c.rank() == 0) {
      const auto until = Clock::now() + 200ms;
      c.set_interrupt([until] { return Clock::now() > until; });
      if (const auto first = c.agree(1); first || first.error().code != Code::kAborted) return "not interrupted";
      c.set_interrupt({});
      board.post(1, {});
    } else {
      (void)board.await(1);
    }
    std::string said;
    for (const std::uint64_t bits : {3, 7}) {
      const auto agreed = c.agree(bits);
      said += agreed ? fmt::format("{} ", agreed->bits) : text_of(agreed.error());
    }
    return said;
  });
  for (const std::string& said : job.join()) EXPECT_EQ(said, "1 7 ");
}

TEST_P(Membership, WhatARankSaysOfItsAbortIsReadByAllOthers) {
  ConnectedJob job(4, options(20s), [](Communicator& c, Report&, NoticeBoard&) -> std::string {
    if (!c.barrier()) return "no barrier";
    if (c.rank() != 2) return text_of(barrier_until_it_fails(c));
    std::this_thread::sleep_for(50ms);
    c.abort("raised RuntimeError: no\ndata");
    return "";
  });
  const auto said = job.join();
  for (const std::size_t r : {0, 1, 3})
    EXPECT_TRUE(contains(said[r], code_of(Code::kAborted)) && contains(said[r], "rank 2 raised RuntimeError: no data"))
        << said[r];
}

// Rank 3 is stopped; the others wait for each other and for it. All name it, whichever rank's time is up first.
TEST_P(Membership, ATimeoutNamesTheRankAtTheEndOfTheChainOfWaits) {
  for (const char* algorithm : {"one_shot", "spread", "ring", "dissemination"}) {
    ConnectedJob job(4, options(1500ms), [algorithm](Communicator& c, Report& report, NoticeBoard&) -> std::string {
      std::vector<float> data(64);
      const bool reduces = std::string_view(algorithm) == "ring" || std::string_view(algorithm) == "one_shot";
      const Request request{.collective = reduces ? Collective::kAllReduce : Collective::kBarrier,
                            .in = data.data(),
                            .out = data.data(),
                            .count = reduces ? data.size() : 0,
                            .algorithm = algorithm};
      if (const Status s = c.run(request); !s) return text_of(s);
      report.say("running ");
      if (c.rank() == 3) raise(SIGSTOP);
      const Status s = c.run(request);
      return s ? "ok" : fmt::format("{} of {}", code_of(s.error().code), fmt::join(s.error().ranks, ","));
    });
    job.await_running();
    std::this_thread::sleep_for(3s);
    job[3].send(SIGCONT);
    const auto said = job.join();
    for (const std::size_t r : {0, 1, 2})
      EXPECT_EQ(said[r], "running " + code_of(Code::kTimeout) + " of 3") << algorithm;
  }
}

// What a rank leaves as soon as it has gone on must not look, to ranks that are about to, as if it had not come.
TEST_P(Membership, SurvivorsThatDropTheOldCommunicatorAtOnceGoOnTogether) {
  const int cycles = shm() ? 1500 : 60;
  ConnectedJob job(3, options(10s), [cycles](Communicator& c, Report&, NoticeBoard&) -> std::string {
    for (int i = 0; i < cycles; ++i) {
      auto next = c.shrink();
      if (!next) return fmt::format("cycle {}: {}", i, text_of(next.error()));
      if (next->ranks() != 3) return fmt::format("cycle {}: {} ranks", i, next->ranks());
      c = std::move(*next);
    }
    return text_of(c.barrier());
  });
  for (const std::string& said : job.join()) EXPECT_EQ(said, "ok");
}

// Rank 3 dies somewhere inside of a split, or of the first call on what it made. The others stay until all have failed.
TEST_P(Membership, ADeathDuringASplitIsNamedByAllSurvivorsLongBeforeTheTimeout) {
  for (const int after_us : {0, 50, 120, 200, 300, 500, 700, 1000, 1500, 3000, 8000}) {
    ConnectedJob job(4, options(20s), [after_us](Communicator& c, Report&, NoticeBoard& board) -> std::string {
      if (!c.barrier()) return "no barrier";
      std::thread killer;
      if (c.rank() == 3)
        killer = std::thread([after_us] {
          std::this_thread::sleep_for(std::chrono::microseconds(after_us));
          kill(getpid(), SIGKILL);
        });
      std::string wrong;
      const auto check = [&](const Error& e, Clock::time_point begin) {
        const auto took = std::chrono::duration<double>(Clock::now() - begin).count();
        const std::string text = fmt::format("{} of {}", code_of(e.code), fmt::join(e.ranks, ","));
        if (wrong.empty() && (took > 3 || text != code_of(Code::kPeerDied) + " of 3"))
          wrong = fmt::format("{} after {:.1f} s: {}", text, took, e.message);
      };
      std::vector<Communicator> parts;  // kept: dropping one would be a reason to fail, too
      for (;;) {
        const auto begin = Clock::now();
        auto part = c.split(0, c.rank());
        if (!part) {
          check(part.error(), begin);
          break;
        }
        if (const Status s = part->barrier(); !s) check(s.error(), begin);
        parts.push_back(std::move(*part));
        if (parts.size() > 400) parts.clear();
      }
      board.post(c.rank() + 1, {});
      for (int place : {1, 2, 3}) (void)board.await(place);
      return wrong.empty() ? "named" : wrong;
    });
    const auto said = job.join({3});
    for (const std::size_t r : {0, 1, 2}) EXPECT_EQ(said[r], "named") << "after " << after_us << " us, rank " << r;
  }
}

volatile sig_atomic_t pauses = 0;

void pause_shortly(int) {
  if (pauses == 0) return;
  usleep(3000);
  constexpr itimerval kSoon{.it_interval = {}, .it_value = {.tv_sec = 0, .tv_usec = 70}};
  setitimer(ITIMER_REAL, &kSoon, nullptr);
}

// Rank 1 runs for some microseconds at a time: the notice of rank 0 comes before rank 1 has opened the group.
TEST_P(Membership, AnAbortOfAGroupIsReadByARankThatIsStillOpeningIt) {
  ConnectedJob job(2, options(20s), [](Communicator& c, Report&, NoticeBoard&) -> std::string {
    signal(SIGALRM, pause_shortly);
    std::vector<Communicator> groups;  // kept: a rank that drops its own is noticed by that
    for (int i = 0; i < 12; ++i) {
      if (!c.barrier()) return "no barrier";
      pauses = c.rank();
      raise(SIGALRM);
      auto group = c.split(0);
      pauses = 0;
      if (!group) return group.error().message;
      if (c.rank() == 0) group->abort();
      const auto begin = Clock::now();
      const Status s = group->barrier();
      if (s || s.error().code != Code::kAborted) return text_of(s);
      if (Clock::now() - begin > 5s) return fmt::format("split {} took too long", i);
      groups.push_back(std::move(*group));
    }
    return c.barrier() ? "" : "no barrier";
  });
  for (const std::string& said : job.join()) EXPECT_EQ(said, "");
}

}  // namespace
}  // namespace weft
