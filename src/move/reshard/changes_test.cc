#include "move/reshard/changes.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "move/reshard/meaning.h"
#include "move/reshard/receiver.h"
#include "move/reshard/version_switch.h"

namespace weft::reshard {
namespace {

using std::chrono::seconds;

// 1000 x 64 elements of 2 B over `replicas` copies of `shards` shards.
Layout layout_of(Rank replicas, Rank shards, int dim, const char* name) {
  Layout layout{.name = name, .ranks = replicas * shards};
  Mesh mesh{.name = "m", .axes = {{"dp", replicas}, {"tp", shards}}};
  for (Rank r = 0; r < layout.ranks; ++r) mesh.ranks.push_back(r);
  layout.meshes.push_back(std::move(mesh));
  layout.tensors.push_back({.name = "w", .shape = {1000, 64}, .element_bytes = 2, .splits = {{.axis = 1, .dim = dim}}});
  return layout;
}
constexpr std::int64_t kWhole = 1000 * 64 * 2;

// Senders with tables in this process, and the tensor as it should be.
class Job {
 public:
  explicit Job(Layout from, Layout to) : plan_(*Plan::make(std::move(from), std::move(to))), whole_(kWhole) {
    agent_.emplace(*transfer::Agent::open({.name = "to", .pages = 64}));
    memory_ = *agent_->allocate(memory_of(plan_.to(), 0).bytes);
    std::vector<Receiver::Peer> peers;
    for (Rank r = 0; r < plan_.from().ranks; ++r) peers.push_back(start(r));
    receiver_.emplace(plan_, 0, *agent_, memory_, std::move(peers));
  }
  Receiver::Peer start(Rank r) {
    senders_.resize(static_cast<std::size_t>(plan_.from().ranks));
    auto agent = transfer::Agent::open({.name = fmt::format("from{}", r), .pages = 16});
    const auto memory = *agent->allocate(memory_of(plan_.from(), r).bytes);
    auto publisher = *Publisher::open(*agent, memory, 256);
    senders_[static_cast<std::size_t>(r)].emplace(Sender{std::move(*agent), memory, publisher});
    const std::string name = *agent_->load(*sender(r).agent.metadata());
    return {name, memory.region, publisher.table().region};
  }
  struct Sender {
    transfer::Agent agent;
    transfer::Registration memory;
    Publisher publisher;
  };
  Sender& sender(Rank r) { return *senders_[static_cast<std::size_t>(r)]; }
  void kill(Rank r) { senders_[static_cast<std::size_t>(r)].reset(); }
  // The next version: these bytes of the tensor are others.
  void change(std::span<const std::int64_t> bytes) {
    for (const std::int64_t b : bytes) whole_[static_cast<std::size_t>(b)] ^= std::byte{1};
  }
  void publish(std::int64_t version) {
    for (Rank r = 0; r < plan_.from().ranks; ++r) {
      if (!senders_[static_cast<std::size_t>(r)]) continue;
      sender(r).publisher.begin();
      for_each_byte(plan_.from(), r, [&](std::int64_t at, std::int64_t of) {
        sender(r).memory.data[at] = whole_[static_cast<std::size_t>(of)];
      });
      ASSERT_TRUE(sender(r).publisher.publish(version));
    }
  }
  Status pull(std::int64_t version) {
    receiver_->begin(version);
    return receiver_->pull(seconds(30));
  }
  Receiver& receiver() { return *receiver_; }
  std::int64_t wrong() {
    std::int64_t wrong = 0;
    for_each_byte(plan_.to(), 0, [&](std::int64_t at, std::int64_t of) {
      wrong += memory_.data[at] != whole_[static_cast<std::size_t>(of)];
    });
    return wrong;
  }

 private:
  static void for_each_byte(const Layout& layout, Rank rank,
                            const std::function<void(std::int64_t, std::int64_t)>& call) {
    const Meaning meaning(layout.tensors[0], holding(layout, layout.tensors[0], rank));
    for (std::int64_t i = 0; i < meaning.elements(); ++i)
      for (std::int64_t b = 0; b < 2; ++b) call(i * 2 + b, meaning.at(i).first * 2 + b);
  }
  Plan plan_;
  std::vector<std::byte> whole_;
  std::vector<std::optional<Sender>> senders_;
  std::optional<transfer::Agent> agent_;
  transfer::Registration memory_;
  std::optional<Receiver> receiver_;
};

TEST(Digest, OneBitOrOneByteMoreMakesAnother) {
  std::vector<std::byte> block(1000);
  const Digest zero = digest_of(block);
  for (std::size_t bit = 0; bit < 8 * block.size(); bit += 37) {
    block[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    EXPECT_FALSE(digest_of(block) == zero) << bit;
    block[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
  }
  block.push_back(std::byte{});
  EXPECT_FALSE(digest_of(block) == zero);
}

TEST(Changes, TheSecondVersionMovesOnlyBlocksThatChanged) {
  Job job(layout_of(1, 4, 0, "a"), layout_of(1, 1, 0, "b"));
  job.publish(1);
  ASSERT_TRUE(job.pull(1));
  EXPECT_EQ(job.receiver().arrived_bytes(), kWhole);
  job.change(std::vector<std::int64_t>{5, 70000});
  job.publish(2);
  ASSERT_TRUE(job.pull(2));
  EXPECT_EQ(job.receiver().arrived_bytes(), 2 * 256);  // two blocks
  EXPECT_EQ(job.wrong(), 0);
  job.publish(3);
  ASSERT_TRUE(job.pull(3));
  EXPECT_EQ(job.receiver().arrived_bytes(), 0);
}

// Columns: a block of a sender lies in many rows of the receiver.
TEST(Changes, RandomChangesArriveInEveryLayout) {
  std::mt19937 random(7);
  for (int i = 0; i < 30; ++i) {
    const auto pick = [&](int most) { return static_cast<Rank>(1 + random() % static_cast<unsigned>(most)); };
    Job job(layout_of(pick(2), pick(5), static_cast<int>(random() % 2), "a"),
            layout_of(1, pick(3), static_cast<int>(random() % 2), "b"));
    for (std::int64_t version = 1; version <= 4; ++version) {
      std::vector<std::int64_t> bytes;
      for (unsigned n = random() % 50; n > 0; --n) bytes.push_back(static_cast<std::int64_t>(random() % kWhole));
      job.change(bytes);
      job.publish(version);
      const Status pulled = job.pull(version);
      ASSERT_TRUE(pulled) << pulled.error().message;
      ASSERT_EQ(job.wrong(), 0) << i << " version " << version;
    }
  }
}

// A rank that dies between two versions, or comes again: what a replica sends is read in full, the bytes are right.
TEST(Changes, AfterADeathTheReplicaSendsItsPartInFull) {
  for (Rank dead = 0; dead < 4; ++dead) {
    Job job(layout_of(2, 2, 0, "a"), layout_of(1, 1, 0, "b"));
    job.publish(1);
    ASSERT_TRUE(job.pull(1));
    job.kill(dead);
    job.change(std::vector<std::int64_t>{5, 70000});
    job.publish(2);
    const Status pulled = job.pull(2);
    ASSERT_TRUE(pulled) << pulled.error().message;
    EXPECT_EQ(job.wrong(), 0);
    job.receiver().returned(dead, job.start(dead));
    job.change(std::vector<std::int64_t>{6, 70001});
    job.publish(3);
    ASSERT_TRUE(job.pull(3));
    EXPECT_EQ(job.wrong(), 0);
  }
}

TEST(Changes, ASenderThatHasAnotherVersionOrBeginsOneIsAnError) {
  Job job(layout_of(1, 2, 0, "a"), layout_of(1, 1, 0, "b"));
  job.publish(1);
  const Status early = job.pull(2);
  ASSERT_FALSE(early);
  EXPECT_EQ(early.error().message, "rank 0 of a has version 1, not version 2");
  ASSERT_TRUE(job.pull(1));
  job.change(std::vector<std::int64_t>{5});
  job.publish(2);
  job.sender(1).publisher.begin();
  EXPECT_EQ(job.pull(2).error().message, "rank 1 of a has memory that is being written, not version 2");
  EXPECT_EQ(job.sender(1).publisher.publish(2).error().message, "version 2: 3 or more");  // its content may be another
  job.publish(3);
  ASSERT_TRUE(job.pull(3));
  EXPECT_EQ(job.wrong(), 0);
}

// A version that failed halfway: what it left is read again in full by the next.
TEST(Changes, AfterAVersionThatFailedTheNextIsRight) {
  Job job(layout_of(1, 2, 0, "a"), layout_of(1, 1, 0, "b"));
  job.publish(1);
  ASSERT_TRUE(job.pull(1));
  job.change(std::vector<std::int64_t>{5, 70000});
  job.publish(2);
  job.kill(1);
  EXPECT_FALSE(job.pull(2));
  job.receiver().returned(1, job.start(1));
  job.change(std::vector<std::int64_t>{5, 70000, 90000});
  job.publish(3);
  ASSERT_TRUE(job.pull(3));
  EXPECT_EQ(job.wrong(), 0);
}

}  // namespace
}  // namespace weft::reshard
