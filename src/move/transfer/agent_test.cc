#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "net/ucx/ucx.h"
#include "weft/transfer.h"

namespace weft::transfer {
namespace {

constexpr std::int64_t kSize = 1 << 20, kPage = 4096;

Agent agent(const std::string& name, Options more = {}) {
  more.name = name;
  auto opened = Agent::open(more);
  EXPECT_TRUE(opened) << opened.error().message;
  return std::move(*opened);
}

void fill(const Registration& r, int seed) {
  for (std::int64_t i = 0; i < r.bytes; ++i) r.data[i] = static_cast<std::byte>(i * 7 + i / kPage + seed);
}

// Two agents that know each other; how they reach each other is the parameter: "direct", "tcp" or "ucx".
class Pair : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (const Status there = net::ucx::available(); GetParam() == "ucx" && !there)
      GTEST_SKIP() << there.error().message;
    a.emplace(agent("a", options()));
    b.emplace(agent("b", options()));
    mine = *a->allocate(kSize);
    theirs = *b->allocate(kSize);
    pages = *b->allocate(kSize, kPage);
    fill(theirs, 1);
    std::memset(mine.data, 0, kSize);
    meet();
  }
  Options options() const {
    if (GetParam() == "direct") return {};
    return {.key = "secret",
            .listen = "127.0.0.1:0",
            .network = GetParam() == "ucx" ? Network::kUcx : Network::kTcp,
            .only_network = true};
  }
  void meet() {
    const auto loaded = a->load(*b->metadata());
    ASSERT_TRUE(loaded) << loaded.error().message;
    ASSERT_TRUE(b->load(*a->metadata()));
  }
  Prepared local(std::initializer_list<Rows> rows) {
    const auto list = a->prepare("", rows);
    EXPECT_TRUE(list) << list.error().message;
    return *list;
  }
  Prepared remote(std::initializer_list<Rows> rows) {
    const auto list = a->prepare("b", rows);
    EXPECT_TRUE(list) << list.error().message;
    return *list;
  }
  State run(Op op, const Prepared& l, const Prepared& r, const RequestOptions& options = {}) {
    auto request = a->make(op, l, r, options);
    EXPECT_TRUE(request) << request.error().message;
    last.emplace(*request);
    EXPECT_TRUE(a->post(*last));
    return a->wait(*last);
  }
  Rows page_rows() const { return {.region = pages.region, .bytes = kPage, .stride = kPage, .count = kSize / kPage}; }

  std::optional<Agent> a, b;
  Registration mine, theirs, pages;
  std::optional<Request> last;
};

TEST_P(Pair, WhatWouldBeWrittenTwiceIsRefusedAndWhatIsReadMayRepeat) {
  const Prepared overlap = local({{mine.region, 0, 100, 100, 1}, {mine.region, 50, 100, 100, 1}});
  const Prepared two = remote({{theirs.region, 0, 100, 100, 2}});
  const auto twice = a->make(Op::kRead, overlap, two);
  ASSERT_FALSE(twice);
  EXPECT_EQ(twice.error().message, "the local list writes the bytes from 50 of region 0 twice");
  EXPECT_TRUE(a->make(Op::kWrite, overlap, two));
  const Prepared blocks = local({{mine.region, 0, kPage, kPage, 8}}),
                 others = remote({{theirs.region, 0, kPage, kPage, 8}});
  const std::vector<std::uint32_t> named{0, 3, 3}, apart{0, 1, 2};
  const auto again = a->make(Op::kRead, blocks, others, {.local_blocks = named, .remote_blocks = apart});
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().message, "local block 3 is written twice by one request");
  EXPECT_TRUE(a->make(Op::kRead, blocks, others, {.local_blocks = apart, .remote_blocks = named}));
  // A third row shares the second one's elements, not the first one's, which reaches farther than both.
  const Prepared hidden =
      local({{mine.region, 0, 100, 300, 8}, {mine.region, 100, 100, 300, 2}, {mine.region, 150, 100, 300, 2}});
  EXPECT_FALSE(a->make(Op::kRead, hidden, remote({{theirs.region, 0, 100, 100, 12}})));
  // Rows of one distance in each other's gaps, as layers of a cache, share nothing.
  const Prepared layers = local({{mine.region, 0, 100, 300, 4}, {mine.region, 100, 100, 300, 4}});
  EXPECT_TRUE(a->make(Op::kRead, layers, remote({{theirs.region, 0, 100, 100, 8}})));
}

// As engines do that register a file or a buffer per transfer.
TEST_P(Pair, AnAgentRegistersAsOftenAsItIsAsked) {
  std::vector<std::byte> small(64, std::byte{5});
  Registration now = *b->add_memory(small.data(), 64);
  ASSERT_TRUE(a->load(*b->metadata()));
  const Prepared first = remote({{now.region, 0, 64}});
  for (int i = 0; i < 70'000; ++i) {
    ASSERT_TRUE(b->deregister(now)) << i;
    const auto again = b->add_memory(small.data(), 64);
    ASSERT_TRUE(again) << i << ": " << again.error().message;
    now = *again;
  }
  EXPECT_EQ(run(Op::kRead, local({{mine.region, 0, 64}}), first), State::kFailed);
  EXPECT_EQ(mine.data[0], std::byte{0});
  ASSERT_TRUE(a->load(*b->metadata()));
  EXPECT_EQ(run(Op::kRead, local({{mine.region, 0, 64}}), remote({{now.region, 0, 64}})), State::kDone);
  EXPECT_EQ(mine.data[63], std::byte{5});
}

TEST_P(Pair, ARequestIsOfTheAgentThatMadeIt) {
  Request request =
      *a->make(Op::kRead, local({{mine.region, 0, 100, 100, 1}}), remote({{theirs.region, 0, 100, 100, 1}}));
  const Status foreign = b->post(request);
  ASSERT_FALSE(foreign);
  EXPECT_EQ(foreign.error().message, "the request was made by another agent");
  EXPECT_TRUE(a->post(request));
}

TEST_P(Pair, ReadsAndWritesMoveWholeRegions) {
  const Prepared l = local({{mine.region, 0, kSize}}), r = remote({{theirs.region, 0, kSize}});
  ASSERT_EQ(run(Op::kRead, l, r), State::kDone) << last->error().message;
  EXPECT_EQ(std::memcmp(mine.data, theirs.data, kSize), 0);
  EXPECT_EQ(last->moved_bytes(), kSize);
  fill(mine, 9);
  ASSERT_EQ(run(Op::kWrite, l, r), State::kDone);
  EXPECT_EQ(std::memcmp(mine.data, theirs.data, kSize), 0);
}

TEST_P(Pair, AStridedListMovesOnlyItsElementsAndIsPostedAgainWithoutRebuilding) {
  // 100 elements of 16 bytes, every 160 bytes there, dense here.
  const Prepared l = local({{mine.region, 0, 16, 16, 100}}), r = remote({{theirs.region, 32, 16, 160, 100}});
  EXPECT_EQ(r.elements(), 100);
  auto request = a->make(Op::kRead, l, r);
  ASSERT_TRUE(request);
  for (int round = 0; round < 3; ++round) {
    fill(theirs, round);
    ASSERT_TRUE(a->post(*request));
    ASSERT_EQ(a->wait(*request), State::kDone);
    for (int i = 0; i < 100; ++i)
      ASSERT_EQ(std::memcmp(mine.data + i * 16, theirs.data + 32 + i * 160, 16), 0)
          << "round " << round << ", element " << i;
  }
  EXPECT_EQ(mine.data[1600], std::byte{0});
}

TEST_P(Pair, BlockTablesChooseElementsInAnyOrder) {
  const Rows row{.bytes = 64, .stride = 64, .count = kSize / 64};
  Rows there = row;
  there.region = theirs.region;
  Rows here = row;
  here.region = mine.region;
  const std::uint32_t from[] = {5, 3, 16383, 3}, to[] = {0, 1, 2, 100};
  ASSERT_EQ(run(Op::kRead, local({here}), remote({there}), {.local_blocks = to, .remote_blocks = from}), State::kDone);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(std::memcmp(mine.data + to[i] * 64, theirs.data + from[i] * 64, 64), 0) << i;
}

TEST_P(Pair, APageThatWasGivenToAnotherOwnerCanBeNeitherReadNorWritten) {
  const Page page = *b->acquire(pages, 1);
  const Prepared l = local({{mine.region, 0, kPage}}), r = remote({page_rows()});
  const std::uint32_t block[] = {page.index};
  const std::uint64_t generation[] = {page.generation};
  fill(mine, 3);
  const RequestOptions options{.remote_blocks = block, .generations = generation};
  ASSERT_EQ(run(Op::kWrite, l, r, options), State::kDone) << last->error().message;
  ASSERT_EQ(std::memcmp(pages.data + page.index * kPage, mine.data, kPage), 0);
  ASSERT_TRUE(b->release(pages, page));
  EXPECT_FALSE(b->release(pages, page)) << "a page is released once";
  std::vector<std::byte> before(pages.data, pages.data + kSize);
  fill(mine, 4);
  for (const Op op : {Op::kWrite, Op::kRead}) {
    ASSERT_EQ(run(op, l, r, options), State::kFailed);
    EXPECT_EQ(last->error().message, "peer 'b': page " + std::to_string(page.index) +
                                         " of region 1 has been released, or given to another owner");
  }
  EXPECT_EQ(std::memcmp(before.data(), pages.data, kSize), 0);
  const Page again = *b->acquire(pages, 2);
  EXPECT_EQ(again.index, page.index);
  EXPECT_EQ(run(Op::kRead, l, r, options), State::kFailed) << "the next owner's generation is another one";
}

TEST_P(Pair, AReadThatVerifiesFindsAPageThatWasDamaged) {
  const Page page = *b->acquire(pages, 1);
  const Prepared l = local({{mine.region, 0, kPage}}), r = remote({page_rows()});
  const std::uint32_t block[] = {page.index};
  const std::uint64_t generation[] = {page.generation};
  const RequestOptions options{.remote_blocks = block, .generations = generation, .verify = true};
  ASSERT_EQ(run(Op::kRead, l, r, options), State::kFailed);
  EXPECT_NE(last->error().message.find("carries no checksum"), std::string::npos) << last->error().message;
  fill(mine, 5);
  ASSERT_EQ(run(Op::kWrite, l, r, options), State::kDone) << last->error().message;
  ASSERT_EQ(run(Op::kRead, l, r, options), State::kDone) << last->error().message;
  pages.data[page.index * kPage + 1000] ^= std::byte{1};
  ASSERT_EQ(run(Op::kRead, l, r, options), State::kFailed);
  EXPECT_NE(last->error().message.find("its checksum differs"), std::string::npos) << last->error().message;
  ASSERT_TRUE(b->seal(pages, page));
  EXPECT_EQ(run(Op::kRead, l, r, options), State::kDone);
}

TEST_P(Pair, NotificationsArriveOnceInOrderAfterTheDataOfTheirRequest) {
  const Prepared l = local({{mine.region, 0, 4096}}), r = remote({{theirs.region, 0, 4096}});
  for (int i = 0; i < 50; ++i) {
    mine.data[0] = static_cast<std::byte>(i);
    ASSERT_EQ(run(Op::kWrite, l, r, {.notify = "request " + std::to_string(i)}), State::kDone);
    ASSERT_TRUE(a->notify("b", "alone " + std::to_string(i)));
  }
  std::vector<Notification> got;
  for (int look = 0; look < 2000 && got.size() < 100; ++look) {
    for (auto& n : b->notifications()) got.push_back(std::move(n));
    usleep(100);
  }
  ASSERT_EQ(got.size(), 100U);
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(got[static_cast<std::size_t>(2 * i)].bytes, "request " + std::to_string(i));
    EXPECT_EQ(got[static_cast<std::size_t>(2 * i + 1)].bytes, "alone " + std::to_string(i));
    EXPECT_EQ(got[static_cast<std::size_t>(i)].peer, "a");
  }
  EXPECT_TRUE(b->notifications().empty());
}

// Answers that are larger than what a server keeps waiting, with further questions behind them.
TEST_P(Pair, LargePagesAreReadWithTheirChecksumsOneAfterTheOther) {
  constexpr std::int64_t kLarge = 2 << 20, kCount = 8;
  const Registration here = *a->allocate(kLarge * kCount), there = *b->allocate(kLarge * kCount, kLarge);
  std::vector<std::uint64_t> generations;
  std::vector<std::uint32_t> blocks;
  fill(there, 3);
  for (std::uint32_t i = 0; i < kCount; ++i) {
    const Page page = *b->acquire(there, 1);
    ASSERT_TRUE(b->seal(there, page));
    blocks.push_back(page.index);
    generations.push_back(page.generation);
  }
  meet();
  const Prepared l = local({{here.region, 0, kLarge, kLarge, kCount}});
  const Prepared r = remote({{there.region, 0, kLarge, kLarge, kCount}});
  for (int round = 0; round < 20; ++round) {
    std::memset(here.data, 0, static_cast<std::size_t>(here.bytes));
    ASSERT_EQ(run(Op::kRead, l, r,
                  {.remote_blocks = blocks,
                   .generations = generations,
                   .deadline = std::chrono::seconds(20),
                   .verify = true}),
              State::kDone)
        << last->error().message;
    ASSERT_EQ(std::memcmp(here.data, there.data, static_cast<std::size_t>(here.bytes)), 0);
  }
}

TEST_P(Pair, APageOfManyPiecesIsSealedWithItsLastAndCheckedWhole) {
  constexpr std::int64_t kLarge = (17 << 20) + 96;  // more than one question carries, and no whole number of pieces
  const Registration here = *a->allocate(2 * kLarge), there = *b->allocate(2 * kLarge, kLarge);
  fill(here, 4);
  const Page page = *b->acquire(there, 1);
  meet();
  const Prepared whole = local({{here.region, 0, kLarge}}), part = local({{here.region, 0, kLarge - 1}});
  const std::int64_t at = page.index * kLarge;
  const Prepared remote_whole = remote({{there.region, at, kLarge}}),
                 remote_part = remote({{there.region, at, kLarge - 1}});
  const RequestOptions options{.generations = {&page.generation, 1}, .verify = true};
  ASSERT_EQ(run(Op::kWrite, whole, remote_whole, options), State::kDone) << last->error().message;
  EXPECT_TRUE(b->sealed(there, page));
  EXPECT_EQ(std::memcmp(here.data, there.data + at, static_cast<std::size_t>(kLarge)), 0);
  std::memset(here.data, 0, static_cast<std::size_t>(kLarge));
  ASSERT_EQ(run(Op::kRead, whole, remote_whole, options), State::kDone) << last->error().message;
  EXPECT_EQ(std::memcmp(here.data, there.data + at, static_cast<std::size_t>(kLarge)), 0);
  there.data[at + (5 << 20)] ^= std::byte{1};
  ASSERT_EQ(run(Op::kRead, whole, remote_whole, options), State::kFailed);
  EXPECT_NE(last->error().message.find("does not hold what was written: its checksum differs"), std::string::npos)
      << last->error().message;
  ASSERT_EQ(run(Op::kWrite, part, remote_part, options), State::kDone) << last->error().message;
  EXPECT_FALSE(b->sealed(there, page)) << "a part of a page has no checksum of its own";
}

TEST_P(Pair, ARestartedPeerIsANewGeneration) {
  const Prepared l = local({{mine.region, 0, 4096}}), r = remote({{theirs.region, 0, 4096}});
  auto old = a->make(Op::kRead, l, r);
  ASSERT_TRUE(old);
  b.reset();
  ASSERT_TRUE(a->post(*old));
  EXPECT_EQ(a->wait(*old), State::kFailed);
  EXPECT_NE(old->error().message.find("peer 'b'"), std::string::npos) << old->error().message;
  b.emplace(agent("b", options()));
  theirs = *b->allocate(kSize);
  fill(theirs, 2);
  meet();
  ASSERT_TRUE(a->post(*old));
  EXPECT_EQ(a->wait(*old), State::kFailed);
  EXPECT_EQ(old->error().message, "peer 'b' has restarted since this list was prepared");
  EXPECT_EQ(run(Op::kRead, l, remote({{theirs.region, 0, 4096}})), State::kDone);
  EXPECT_EQ(std::memcmp(mine.data, theirs.data, 4096), 0);
}

TEST_P(Pair, CancelledAndExpiredRequestsEndOnceAndCanBePostedAgain) {
  const Registration large_here = *a->allocate(32 << 20), large_there = *b->allocate(32 << 20);
  fill(large_there, 6);
  meet();
  const Prepared l = local({{large_here.region, 0, 32 << 20}}), r = remote({{large_there.region, 0, 32 << 20}});
  auto request = a->make(Op::kRead, l, r, {.deadline = std::chrono::milliseconds(1)});
  ASSERT_TRUE(request);
  ASSERT_TRUE(a->post(*request));
  ASSERT_EQ(request->state(), State::kRunning) << "post() moves a part";
  EXPECT_FALSE(a->post(*request)) << "a running request is not posted again";
  usleep(3000);
  EXPECT_EQ(a->poll(*request), State::kExpired);
  EXPECT_NE(request->error().message.find("within 1 ms"), std::string::npos) << request->error().message;
  EXPECT_FALSE(a->cancel(*request)) << "it has ended";
  auto other = a->make(Op::kRead, l, r);
  ASSERT_TRUE(a->post(*other));
  ASSERT_TRUE(a->cancel(*other));
  EXPECT_EQ(a->poll(*other), State::kCancelled);
  const std::vector<std::byte> then(large_here.data, large_here.data + large_here.bytes);
  if (GetParam() != "direct") {  // what was under way is thrown away
    ASSERT_EQ(run(Op::kRead, local({{mine.region, 0, 4096}}), remote({{theirs.region, 0, 4096}})), State::kDone);
    EXPECT_EQ(std::memcmp(then.data(), large_here.data, then.size()), 0) << "a cancelled request touched its memory";
  }
  ASSERT_TRUE(a->post(*other));
  ASSERT_EQ(a->wait(*other), State::kDone) << other->error().message;
  EXPECT_EQ(std::memcmp(large_here.data, large_there.data, static_cast<std::size_t>(large_here.bytes)), 0);
}

TEST_P(Pair, ARequestWithMemoryOfItsOwnThatIsRegisteredNoMoreFailsAndTouchesNothing) {
  const Registration gone = *a->allocate(kSize);
  const auto held = a->hold(gone);
  ASSERT_TRUE(held);
  const Prepared l = local({{gone.region, 0, kSize}}), r = remote({{theirs.region, 0, kSize}});
  auto request = a->make(Op::kRead, l, r);
  ASSERT_TRUE(request);
  ASSERT_TRUE(a->deregister(gone));
  std::memset(gone.data, 7, kSize);  // held, so that the test may look
  ASSERT_TRUE(a->post(*request));
  EXPECT_EQ(a->wait(*request), State::kFailed);
  EXPECT_EQ(request->error().message, fmt::format("region {} is registered no more", gone.region));
  EXPECT_TRUE(std::all_of(gone.data, gone.data + kSize, [](std::byte b) { return b == std::byte{7}; }));
  EXPECT_FALSE(a->hold(gone));
}

TEST_P(Pair, ARegionThatIsRegisteredNoMoreFailsRequestsAndHarmsNoOthers) {
  const Prepared l = local({{mine.region, 0, 4096}}), gone = remote({{theirs.region, 0, 4096}});
  const Registration other = *b->allocate(kSize);
  meet();
  const Prepared stays = remote({{other.region, 0, 4096}});
  ASSERT_TRUE(b->deregister(theirs));
  EXPECT_EQ(run(Op::kRead, l, gone), State::kFailed);
  EXPECT_EQ(last->error().message, "peer 'b': region 0 is registered no more");
  EXPECT_EQ(run(Op::kRead, l, stays), State::kDone);
}

INSTANTIATE_TEST_SUITE_P(Paths, Pair, testing::Values("direct", "tcp", "ucx"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace weft::transfer
