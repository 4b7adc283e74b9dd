#include "move/reshard/receiver.h"

#include <gtest/gtest.h>

#include <cstring>

#include "move/reshard/meaning.h"

namespace weft::reshard {
namespace {

using std::chrono::seconds;

Layout layout_of(Rank replicas, Rank shards, const char* name) {
  Layout layout{.name = name, .ranks = replicas * shards};
  Mesh mesh{.name = "m", .axes = {{"dp", replicas}, {"tp", shards}}};
  for (Rank r = 0; r < layout.ranks; ++r) mesh.ranks.push_back(r);
  layout.meshes.push_back(std::move(mesh));
  layout.tensors.push_back({.name = "w", .shape = {1000, 64}, .element_bytes = 2, .splits = {{.axis = 1, .dim = 0}}});
  layout.tensors.push_back({.name = "v", .shape = {64, 1000}, .element_bytes = 4, .splits = {{.axis = 1, .dim = 1}}});
  return layout;
}

std::byte value(const std::string& tensor, std::int64_t byte) {
  return static_cast<std::byte>(byte * 31 + (byte >> 12) * 7 + tensor[0]);
}

void for_each_byte(const Layout& layout, Rank rank, const std::function<void(std::int64_t at, std::byte is)>& call) {
  const Memory memory = memory_of(layout, rank);
  for (std::size_t t = 0; t < layout.tensors.size(); ++t) {
    const std::int64_t e = layout.tensors[t].element_bytes;
    const Meaning meaning(layout.tensors[t], holding(layout, layout.tensors[t], rank));
    for (std::int64_t i = 0; i < meaning.elements(); ++i) {
      const auto segment = meaning.at(i);
      for (std::int64_t b = 0; b < e; ++b)
        call(memory.offsets[t] + i * e + b, value(*segment.tensor, segment.first * e + b));
    }
  }
}

const std::string kKey(32, 'k');

struct Sender {
  transfer::Agent agent;
  transfer::Registration memory;
};
Sender sender_of(const Layout& layout, Rank rank, bool network) {
  auto agent = transfer::Agent::open({.name = fmt::format("from{}", rank),
                                      .key = kKey,
                                      .listen = network ? "127.0.0.1:0" : "",
                                      .pages = 16,
                                      .network = transfer::Network::kTcp});
  const auto memory = agent->allocate(memory_of(layout, rank).bytes);
  for_each_byte(layout, rank, [&](std::int64_t at, std::byte is) { memory->data[at] = is; });
  return {std::move(*agent), *memory};
}

// Senders of a layout and one receiver of another, in this process.
class Job {
 public:
  Job(Layout from, Layout to, Rank rank, bool network = false)
      : plan_(*Plan::make(std::move(from), std::move(to))), rank_(rank), network_(network) {
    for (Rank r = 0; r < plan_.from().ranks; ++r) senders_.emplace_back(sender_of(plan_.from(), r, network));
    agent_.emplace(*transfer::Agent::open(
        {.name = "to", .key = kKey, .pages = 16, .network = transfer::Network::kTcp, .only_network = network}));
    memory_ = *agent_->allocate(memory_of(plan_.to(), rank).bytes);
    std::vector<Receiver::Peer> peers;
    for (auto& s : senders_) peers.push_back(peer_of(*s));
    receiver_.emplace(plan_, rank, *agent_, memory_, std::move(peers));
  }
  Receiver& receiver() { return *receiver_; }
  void kill(Rank sender) { senders_[static_cast<std::size_t>(sender)].reset(); }
  void restart(Rank sender) {
    auto& s = senders_[static_cast<std::size_t>(sender)];
    s.emplace(sender_of(plan_.from(), sender, network_));
    receiver_->returned(sender, peer_of(*s));
  }
  std::int64_t wrong() {
    std::int64_t wrong = 0;
    for_each_byte(plan_.to(), rank_, [&](std::int64_t at, std::byte is) { wrong += memory_.data[at] != is; });
    return wrong;
  }
  std::int64_t wanted() const {
    std::int64_t bytes = 0;
    for (const PairTotal& p : plan_.pairs()) bytes += p.receiver == rank_ ? p.bytes : 0;
    return bytes;
  }

 private:
  Receiver::Peer peer_of(Sender& s) { return {*agent_->load(*s.agent.metadata()), s.memory.region}; }
  Plan plan_;
  Rank rank_;
  bool network_;
  std::vector<std::optional<Sender>> senders_;
  std::optional<transfer::Agent> agent_;
  transfer::Registration memory_;
  std::optional<Receiver> receiver_;
};

TEST(Receiver, EveryByteArrivesOverMemoryAndTcp) {
  for (const bool network : {false, true})
    for (Rank rank = 0; rank < 3; ++rank) {
      Job job(layout_of(1, 4, "a"), layout_of(1, 3, "b"), rank, network);
      const Status done = job.receiver().pull(seconds(30));
      ASSERT_TRUE(done) << done.error().message;
      EXPECT_EQ(job.wrong(), 0);
      EXPECT_EQ(job.receiver().arrived_bytes(), job.wanted());
    }
}

TEST(Receiver, AReplicaTakesOverForADeadSender) {
  for (const bool network : {false, true})
    for (Rank dead = 0; dead < 4; ++dead) {
      Job job(layout_of(2, 2, "a"), layout_of(1, 1, "b"), 0, network);
      job.kill(dead);
      const Status done = job.receiver().pull(seconds(30));
      ASSERT_TRUE(done) << done.error().message;
      EXPECT_EQ(job.wrong(), 0);
    }
}

TEST(Receiver, WithoutAReplicaTheErrorNamesTensorAndRankAndARetryGetsOnlyWhatIsMissing) {
  for (const bool network : {false, true}) {
    Job job(layout_of(1, 4, "a"), layout_of(1, 1, "b"), 0, network);
    job.kill(2);
    const Status failed = job.receiver().pull(seconds(30));
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().code, Code::kPeerDied);
    EXPECT_EQ(failed.error().message.find("tensor w: rank 0: rank 2 of a is lost, and no other has its part: "), 0U)
        << failed.error().message;
    const std::int64_t arrived = job.receiver().arrived_bytes();
    EXPECT_EQ(arrived, job.wanted() * 3 / 4);  // 250 of 1000 rows or columns are of rank 2
    job.restart(2);
    const Status done = job.receiver().pull(seconds(30));
    ASSERT_TRUE(done) << done.error().message;
    EXPECT_EQ(job.receiver().arrived_bytes(), job.wanted());  // each byte was counted, and moved, once
    EXPECT_EQ(job.wrong(), 0);
  }
}

}  // namespace
}  // namespace weft::reshard
