#include "move/transfer/server.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <cstring>
#include <filesystem>

#include "move/transfer/line.h"
#include "move/transfer/peer.h"
#include "net/tcp/crc32c.h"
#include "net/ucx/byte_stream.h"

namespace weft::transfer {
namespace {

namespace link = net::link;
using namespace std::chrono_literals;

// Two regions of four pages of 64 bytes beside each other in the agent's segment; every page of the second is sealed.
class Served : public testing::Test {
 protected:
  void SetUp() override {
    segment_ = Segment(make_shared_memory(Segment::bytes_for(8), false).value().mapping);
    segment_.header().pages = 8;
    segment_.header().nonce = kNonce;
    for (std::uint32_t id : {1U, 2U}) {
      auto region = std::make_shared<Region>();
      region->id = id;
      region->data = (id == 1 ? own_ : other_).data();
      region->bytes = 256;
      region->page_bytes = 64;
      region->pages = 4;
      region->first_page = (id - 1) * 4;
      regions_.add(std::move(region));
    }
    for (std::uint64_t page = 4; page < 8; ++page) segment_.page(page).sealed.store(1);
    server_ = Server::open(link::loopback(), kKey, regions_, segment_).value();
  }
  Verdict ask(Line& line, const Question& question, std::span<const std::byte> data) {
    std::optional<Verdict> said;
    line.ask(question, data, nullptr, [&](const Answer& answer, bool) { said = answer.verdict; });
    while (!said) EXPECT_TRUE(line.advance());
    return *said;
  }

  static constexpr link::Key kKey{1, 2, 3};
  static constexpr Nonce kNonce{9, 9, 9};
  std::vector<std::byte> own_ = std::vector<std::byte>(256), other_ = own_;
  Segment segment_;
  Regions regions_;
  std::unique_ptr<Server> server_;
};

TEST_F(Served, AWriteOfNoBytesAtARegionsEndLeavesTheNextRegionsPageSealed) {
  auto line = Line::open(server_->address(), kKey, kNonce, "peer", 10s).value();
  EXPECT_EQ(ask(*line, {.ask = Ask::kWrite, .region = 1, .offset = 256, .bytes = 0}, {}), Verdict::kPastEnd);
  EXPECT_EQ(segment_.page(4).sealed.load(), 1U);
  EXPECT_EQ(ask(*line, {.ask = Ask::kRead, .region = 1, .offset = 256, .bytes = 0}, {}), Verdict::kPastEnd);
  EXPECT_EQ(ask(*line, {.ask = Ask::kRead, .region = 1, .offset = 192, .bytes = 64}, {}), Verdict::kGood);
}

// The data of a question by which a peer wants to go on over UCX.
std::vector<std::byte> join_of(std::uint32_t said, std::size_t address) {
  const UcxJoin join{.bytes = said};
  std::vector<std::byte> bytes(sizeof join + address);
  std::memcpy(bytes.data(), &join, sizeof join);
  return bytes;
}

TEST_F(Served, APeerThatAsksForUcxWhereThereIsNoneIsToldSoAndGoesOnByTcp) {
  auto line = Line::open(server_->address(), kKey, kNonce, "peer", 10s).value();
  const auto join = join_of(8, 8);
  EXPECT_EQ(ask(*line, {.ask = Ask::kUcx, .bytes = static_cast<std::int64_t>(join.size())}, join), Verdict::kNoUcx);
  EXPECT_EQ(ask(*line, {.ask = Ask::kUcx}, {}), Verdict::kNoUcx);
  EXPECT_EQ(ask(*line, {.ask = Ask::kRead, .region = 1, .offset = 192, .bytes = 64}, {}), Verdict::kGood);
  const auto context = net::ucx::open_stream_context();
  if (!context) GTEST_SKIP() << context.error().message;
  const auto refused = Line::open(server_->address(), kKey, kNonce, "peer", 10s, *context);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kUnsupported);
  EXPECT_EQ(refused.error().message, server_->address().text() + " does not go on over UCX: it has none");
}

TEST_F(Served, WhereEitherNetworkWillDoAPeerThatUcxDoesNotReachIsReachedByTcp) {
  const auto context = net::ucx::open_stream_context();
  if (!context) GTEST_SKIP() << context.error().message;
  Metadata metadata{.nonce = kNonce, .pages = 8, .address = server_->address(), .name = "peer", .ucx = true};
  metadata.regions = {{.region = 1, .address = 4096, .bytes = 256, .page_bytes = 64}};
  MeetOptions options{.self = "reader", .key = kKey, .only_network = true, .ucx = *context};
  const auto peer = meet(metadata, options);
  ASSERT_TRUE(peer) << peer.error().message;
  const Target& target = *(*peer)->targets.at(1);
  EXPECT_EQ(target.path, Path::kTcp);
  const std::string why = server_->address().text() + " does not go on over UCX: it has none";
  EXPECT_EQ(target.why_not[static_cast<std::size_t>(Path::kUcx)], why);
  EXPECT_EQ(ask(*(*peer)->line, {.ask = Ask::kRead, .region = 1, .bytes = 64}, {}), Verdict::kGood);
  options.network = Network::kUcx;
  EXPECT_EQ(meet(metadata, options).error().message, "peer 'peer': " + why);
}

TEST_F(Served, AnAddressOfUcxThatMakesNoSenseEndsTheConnection) {
  for (const auto& join : {join_of(9, 8), join_of(0, 0), std::vector<std::byte>(10)}) {
    auto line = Line::open(server_->address(), kKey, kNonce, "peer", 10s).value();
    line->ask({.ask = Ask::kUcx, .bytes = static_cast<std::int64_t>(join.size())}, join, nullptr, nullptr);
    Status status;
    for (const auto until = std::chrono::steady_clock::now() + 10s; status && std::chrono::steady_clock::now() < until;)
      status = line->advance();
    EXPECT_FALSE(status) << join.size();
  }
}

TEST_F(Served, APeerThatSendsMoreNotificationsThanItWasGrantedLosesItsConnection) {
  auto line = Line::open(server_->address(), kKey, kNonce, "peer", 10s).value();
  const std::vector<std::byte> data(4096);
  for (int i = 0; i < 100; ++i)
    line->ask({.ask = Ask::kNotify, .bytes = static_cast<std::int64_t>(data.size())}, data, nullptr, nullptr);
  EXPECT_FALSE(line->advance_until(std::chrono::steady_clock::now() + 10s, [] { return false; }));
  // The window of 256 KiB holds 63 notifications of 4,144 bytes.
  EXPECT_EQ(server_->take_notifications().size(), 63U);
}

// Each connection leaves its window, 256 KiB, in the inbox, which holds 16 MiB.
TEST_F(Served, AFullInboxGrantsNewcomersNothingUntilItIsTakenAndServesTheirReads) {
  const std::string data(4096, 'x');
  std::size_t sent = 0;
  for (int peer = 0; peer < 65; ++peer) {
    auto line = Line::open(server_->address(), kKey, kNonce, "peer", 10s).value();
    while (line->notify(data)) ++sent;
    ASSERT_TRUE(
        *line->advance_until(std::chrono::steady_clock::now() + 10s, [&] { return line->notifications_arrived(); }));
  }
  auto line = Line::open(server_->address(), kKey, kNonce, "late", 10s).value();
  EXPECT_FALSE(line->notify(data));
  EXPECT_EQ(ask(*line, {.ask = Ask::kRead, .region = 1, .offset = 192, .bytes = 64}, {}), Verdict::kGood);
  EXPECT_FALSE(line->notify(data));
  EXPECT_EQ(server_->take_notifications().size(), sent);
  EXPECT_TRUE(*line->advance_until(std::chrono::steady_clock::now() + 10s, [&] { return line->notify(data); }));
}

// 64 greet at a time; those that say nothing make place for the peer.
TEST_F(Served, SilentConnectionsTakeFewDescriptorsAndKeepNoPeerOut) {
  constexpr int kStrangers = 500;
  const auto descriptors = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator());
  };
  const auto before = descriptors();
  std::vector<UniqueFd> strangers;
  for (int i = 0; i < kStrangers; ++i) {
    strangers.push_back(link::start_connect(server_->address()).value());
    pollfd connected{strangers.back().get(), POLLOUT, 0};
    poll(&connected, 1, 1000);
  }
  EXPECT_LT(descriptors() - before - kStrangers, 70);
  const auto line = Line::open(server_->address(), kKey, kNonce, "peer", 60s);
  EXPECT_TRUE(line) << line.error().message;
}

}  // namespace
}  // namespace weft::transfer
