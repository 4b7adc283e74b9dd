#include "net/bootstrap/member.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "net/bootstrap/arbiter.h"

namespace weft::net::bootstrap {
namespace {

using namespace std::chrono_literals;

// Members of one communicator, all in this process: as ranks of several processes, they only send each other requests.
std::vector<std::shared_ptr<Member>> members(Rank ranks, const Address& arbiter = {}) {
  Key key;
  fill_random(key);
  Address here = loopback();
  here.port = member_port(here).value();
  std::vector<std::shared_ptr<Member>> all;
  for (Rank r = 0; r < ranks; ++r)
    all.push_back(Member::join({.key = key,
                                .addresses = std::vector<Address>(static_cast<std::size_t>(ranks), here),
                                .arbiter = arbiter,
                                .rank = r}));
  return all;
}

// Each decides on a thread of its own, with its rank as the payload.
std::vector<Result<Member::Decision>> decide(const std::vector<std::shared_ptr<Member>>& all, std::vector<Rank> who,
                                             std::chrono::milliseconds timeout, std::uint32_t instance = 0) {
  std::vector<Result<Member::Decision>> results(who.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < who.size(); ++i)
    threads.emplace_back([&, i] {
      const auto r = static_cast<std::size_t>(who[i]);
      results[i] = all[r]->decide(instance, Octets(4, static_cast<std::uint8_t>(who[i])), timeout);
    });
  for (std::thread& t : threads) t.join();
  return results;
}

std::vector<Rank> ranks_of(const Member::Decision& d) {
  std::vector<Rank> ranks;
  for (const auto& part : d.parts) {
    EXPECT_EQ(part.payload, Octets(4, static_cast<std::uint8_t>(part.rank)));
    ranks.push_back(part.rank);
  }
  return ranks;
}

TEST(Member, AllGetTheSameDecisionWithEveryPayload) {
  const auto all = members(5);
  const auto results = decide(all, {0, 1, 2, 3, 4}, 60s);
  for (const auto& r : results) {
    ASSERT_TRUE(r) << r.error().message;
    EXPECT_EQ(ranks_of(*r), (std::vector<Rank>{0, 1, 2, 3, 4}));
    EXPECT_EQ(r->nonce, results[0]->nonce);
  }
}

TEST(Member, WhoComesTooLateIsLeftOutForGood) {
  const auto all = members(3);
  const auto results = decide(all, {0, 2}, 500ms);
  for (const auto& r : results) {
    ASSERT_TRUE(r) << r.error().message;
    EXPECT_EQ(ranks_of(*r), (std::vector<Rank>{0, 2}));
  }
  for (int again = 0; again < 2; ++again) EXPECT_EQ(decide(all, {1}, 500ms)[0].error().code, Code::kLeftOut);
}

TEST(Member, ProcessesThatHaveNoDescriptorLeftStillAgree) {
  const auto all = members(3);
  for (const auto& r : decide(all, {0, 1, 2}, 60s)) ASSERT_TRUE(r) << r.error().message;
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  rlimit none = before;
  const UniqueFd next(dup(0));
  none.rlim_cur = static_cast<rlim_t>(next.get() + 1);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const auto results = decide(all, {0, 1, 2}, 20s, 1);
  setrlimit(RLIMIT_NOFILE, &before);
  for (const auto& r : results) {
    ASSERT_TRUE(r) << r.error().message;
    EXPECT_EQ(ranks_of(*r), (std::vector<Rank>{0, 1, 2}));
  }
}

TEST(Member, WithoutAQuorumNothingIsLost) {
  const auto begin = std::chrono::steady_clock::now();
  const auto all = members(4);
  for (const auto& r : decide(all, {2, 3}, 300ms)) {
    EXPECT_EQ(r.error().code, Code::kNoQuorum) << r.error().message;
    // Those that did not come, as this rank saw it: never itself.
    const std::vector<Rank>& absent = r.error().ranks;
    EXPECT_TRUE(std::ranges::includes(absent, std::vector<Rank>{0, 1})) << r.error().message;
    const Rank self = std::stoi(r.error().message.substr(std::string("rank ").size()));
    EXPECT_EQ(std::ranges::count(absent, self), 0) << r.error().message;
  }
  for (const auto& r : decide(all, {0, 1, 2, 3}, 60s)) {
    ASSERT_TRUE(r) << r.error().message;
    EXPECT_EQ(r->parts.size(), 4u);
  }
  // The ballots of those that gave up hold up nobody.
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 30s);
}

TEST(Member, AMemberThatHasLeftIsNotWaitedFor) {
  auto all = members(3);
  all[0] = nullptr;
  for (const auto& r : decide(all, {1, 2}, 60s)) {
    ASSERT_TRUE(r) << r.error().message;
    EXPECT_EQ(ranks_of(*r), (std::vector<Rank>{1, 2}));
    EXPECT_EQ(r->ended, std::vector<Rank>{0});
  }
}

// Ports of processes that have ended are soon others': a question there gets no answer, and no refusal either.
TEST(Member, ARankThatHasEndedIsNotWaitedForWhereItsPortHasGoneToAnother) {
  constexpr auto kLong = 20s;
  Key key;
  fill_random(key);
  Address here = loopback(), port = loopback();
  here.port = member_port(here).value();
  port = local_address(listen_on(loopback()).value().get());  // nothing listens there any more
  std::vector<std::shared_ptr<Member>> all;
  for (const Rank r : {0, 1})
    all.push_back(Member::join({.key = key, .addresses = {here, here, port}, .arbiter = {}, .rank = r}));
  ASSERT_EQ(all[1]->state_of(2, 5s).fate, Member::Fate::kEnded);
  const UniqueFd another = listen_on(port).value();
  const auto begin = std::chrono::steady_clock::now();
  for (const std::uint32_t instance : {0U, 1U}) {
    for (const auto& r : decide(all, {0, 1}, kLong, instance)) {
      ASSERT_TRUE(r) << r.error().message;
      EXPECT_EQ(ranks_of(*r), (std::vector<Rank>{0, 1}));
      EXPECT_EQ(r->ended, std::vector<Rank>{2});
    }
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kLong / 2);
}

TEST(Member, InstancesAreDecidedApart) {
  const auto all = members(3);
  for (std::uint32_t instance = 1; instance < 100; ++instance)
    for (const auto& r : decide(all, {0, 1, 2}, 60s, instance)) ASSERT_TRUE(r) << r.error().message;
  EXPECT_TRUE(decide(all, {0, 1, 2}, 60s)[2]);
}

TEST(Member, AnArbiterDecidesOnceForAnyRemainder) {
  auto arbiter = Arbiter::open(loopback()).value();
  arbiter->serve();
  const auto all = members(4, arbiter->address());
  const auto first = decide(all, {3}, 300ms);
  ASSERT_TRUE(first[0]) << first[0].error().message;
  EXPECT_EQ(ranks_of(*first[0]), std::vector<Rank>{3});
  for (const auto& r : decide(all, {0, 1, 2}, 300ms)) EXPECT_EQ(r.error().code, Code::kLeftOut);
}

TEST(Member, WhatBrokeTheCommunicatorIsKnownToAProcessThatDoesNothing) {
  const auto all = members(3);
  EXPECT_FALSE(all[2]->broken());
  all[0]->tell_broken({1, 3}, {1, 2});
  ASSERT_TRUE(all[2]->broken());
  EXPECT_EQ(all[2]->broken()->culprit, 1);
  EXPECT_EQ(all[0]->state_of(2, 60s).fate, Member::Fate::kAlive);
  EXPECT_EQ(all[0]->state_of(2, 60s).broken->cause, 3u);
}

TEST(Member, ARankThatHasWithdrawnFromAGroupSaysSoWhateverItsThreadDoes) {
  const auto all = members(2);
  EXPECT_FALSE(all[0]->state_of(1, 60s, 7).withdrew);
  all[1]->withdraw(7);
  all[1]->tell_broken({0, 3}, {});
  const auto state = all[0]->state_of(1, 60s, 7);
  EXPECT_TRUE(state.withdrew);
  EXPECT_EQ(state.broken->culprit, 0);
  EXPECT_FALSE(all[0]->state_of(1, 60s, 8).withdrew);
}

// Four MiB would be kept for each of 128 connections.
TEST(Member, ABodyOfAStrangerIsNotRead) {
  const auto all = members(1);
  Address here = loopback();
  here.port = member_port(here).value();
  const UniqueFd stranger = start_connect(here).value();
  pollfd ready{stranger.get(), POLLOUT, 0};
  poll(&ready, 1, 10000);
  constexpr std::size_t kBody = std::size_t{4} << 20;
  MessageHead head{.length = kBody};
  fill_random(head.tag);
  ASSERT_EQ(send(stranger.get(), &head, sizeof head, MSG_NOSIGNAL), static_cast<ssize_t>(sizeof head));
  const std::vector<std::uint8_t> body(kBody);
  std::size_t sent = 0;
  for (bool open = true; open && sent < kBody;) {
    const ssize_t n = send(stranger.get(), body.data() + sent, kBody - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n > 0) sent += static_cast<std::size_t>(n);
    open = n > 0 || errno == EAGAIN;
    if (n < 0 && open) poll(&ready, 1, 1000);
  }
  EXPECT_LT(sent, kBody);  // the connection is closed at the head: what the kernel's queues hold is less
}

// Callers use the ranks of a decision as indices.
TEST(Member, ADecisionOfALyingMemberThatNamesForeignRanksIsDamaged) {
  Key key;
  fill_random(key);
  Address here = loopback();
  here.port = member_port(here).value();
  for (const std::vector<std::int32_t>& lie : {std::vector<std::int32_t>{0, 7}, {0, -1}, {0, 1, 0}, {0, 0}}) {
    fill_random(key);
    const auto member = Member::join({.key = key, .addresses = {here, here}, .arbiter = {}, .rank = 0});
    Octets decision(sizeof(Nonce));
    const auto append = [&](std::uint32_t word) {
      for (int byte = 0; byte < 4; ++byte) decision.push_back(static_cast<std::uint8_t>(word >> 8 * byte));
    };
    append(0);  // nobody has ended
    append(static_cast<std::uint32_t>(lie.size()));
    for (const std::int32_t rank : lie) {
      append(static_cast<std::uint32_t>(rank));
      append(0);
    }
    constexpr std::uint8_t kFor = 'm';
    const Message forged{{.kind = MessageKind::kDecided, .from = 1, .tag = mac(key, {{&kFor, 1}})}, decision};
    const Rank to = 0;
    ASSERT_EQ(exchange(key, forged, {&here, 1}, {&to, 1}, 10s)[0].outcome, Answer::Outcome::kAnswered);
    const auto decided = member->decide(0, {}, 10s);
    ASSERT_FALSE(decided);
    EXPECT_NE(decided.error().message.find("damaged"), std::string::npos) << decided.error().message;
  }
}

TEST(Member, SilentConnectionsKeepNobodyFromDeciding) {
  const auto all = members(3);
  Address here = loopback();
  here.port = member_port(here).value();
  std::vector<UniqueFd> strangers;
  for (int i = 0; i < 300; ++i) {
    strangers.push_back(start_connect(here).value());
    pollfd connected{strangers.back().get(), POLLOUT, 0};
    poll(&connected, 1, 1000);
  }
  for (const auto& r : decide(all, {0, 1, 2}, 60s)) ASSERT_TRUE(r) << r.error().message;
}

TEST(Exchange, AnotherKeyIsNoAnswerAndAClosedPortARefusal) {
  const auto all = members(2);
  Address here = loopback();
  here.port = member_port(here).value();
  const Rank to = 1;
  EXPECT_EQ(exchange(Key{1}, {}, {&here, 1}, {&to, 1}, 500ms)[0].outcome, Answer::Outcome::kSilent);
  const UniqueFd listener = listen_on(loopback()).value();
  const Address free = local_address(listener.get());
  {
    UniqueFd closed = listen_on(loopback()).value();
    here = local_address(closed.get());
  }
  EXPECT_EQ(exchange(Key{1}, {}, {&here, 1}, {&to, 1}, 5s)[0].outcome, Answer::Outcome::kRefused);
  EXPECT_EQ(exchange(Key{1}, {}, {&free, 1}, {&to, 1}, 100ms)[0].outcome, Answer::Outcome::kSilent);
}

}  // namespace
}  // namespace weft::net::bootstrap
