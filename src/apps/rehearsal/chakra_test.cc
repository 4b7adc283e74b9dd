#include "apps/rehearsal/chakra.h"

#include <gtest/gtest.h>

#include "apps/rehearsal/run.h"

namespace weft::rehearsal {
namespace {

// Writes what et_def.proto describes.
class Message {
 public:
  Message& number(int field, std::uint64_t value) {
    varint(static_cast<std::uint64_t>(field) << 3);
    varint(value);
    return *this;
  }
  Message& bytes(int field, const std::string& text) {
    varint((static_cast<std::uint64_t>(field) << 3) | 2);
    varint(text.size());
    out_ += text;
    return *this;
  }
  void varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) out_ += static_cast<char>(value | 0x80);
    out_ += static_cast<char>(value);
  }
  const std::string& text() const { return out_; }

 private:
  std::string out_;
};

class Trace {
 public:
  Trace() { add(Message().bytes(1, "0.0.4")); }

  // The next node, behind these; ids count from 1.
  Message node(int type, const std::string& name, std::initializer_list<std::uint64_t> after, bool packed = true) {
    Message node;
    node.number(1, ++nodes_).bytes(2, name).number(3, static_cast<std::uint64_t>(type));
    Message ids;
    for (const std::uint64_t id : after) packed ? ids.varint(id) : static_cast<void>(node.number(5, id));
    if (packed && after.size() > 0) node.bytes(5, ids.text());
    return node;
  }
  void add(const Message& message) {
    Message framed;
    framed.varint(message.text().size());
    out_ += framed.text() + message.text();
  }
  void compute(std::uint64_t microseconds, std::initializer_list<std::uint64_t> after) {
    add(node(4, "layer", after, false).number(7, microseconds));
  }
  void collective(int type, std::uint64_t size, std::initializer_list<std::uint64_t> after,
                  const std::string& group = "") {
    Message m = node(7, "call", after);
    m.bytes(10, Message().bytes(1, "comm_type").number(9, static_cast<std::uint64_t>(type)).text());
    m.bytes(10, Message().bytes(1, "comm_size").number(9, size).text());
    if (!group.empty()) m.bytes(10, Message().bytes(1, "pg_name").bytes(29, group).text());
    add(m);
  }
  void message(bool sends, std::uint64_t peer, std::uint64_t size, std::initializer_list<std::uint64_t> after) {
    Message m = node(sends ? 5 : 6, "message", after);
    m.bytes(10, Message().bytes(1, sends ? "comm_dst" : "comm_src").number(7, peer).text());
    m.bytes(10, Message().bytes(1, "comm_size").number(13, size).text());
    add(m);
  }
  const std::string& text() const { return out_; }

 private:
  std::string out_;
  std::uint64_t nodes_ = 0;
};

Job job_of(const std::vector<Trace>& ranks, const ChakraGroups& groups = {}) {
  Job job;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const std::string name = fmt::format("w.{}.et", r);
    const auto recording = recording_of_chakra(name, ranks[r].text(), static_cast<int>(ranks.size()), groups);
    EXPECT_TRUE(recording) << recording.error().message;
    const Status added = add_recording(job, name, *recording);
    EXPECT_TRUE(added) << added.error().message;
  }
  return job;
}

// Calls take 50 µs.
Outcome outcome_of(const Job& job) {
  const auto found = run(job, {[](const Call&, const std::vector<Rank>&, Rank) { return Result<double>(50e-6); },
                               [](const Kernel& k, Rank) { return k.seconds; }});
  EXPECT_TRUE(found);
  EXPECT_TRUE(found->findings.empty()) << found->findings.front().text;
  return *found;
}

TEST(AChakraTrace, KeepsItsDependenciesAndHidesWhatNothingWaitsFor) {
  Trace t;
  t.compute(100, {});             // 1
  t.collective(0, 1 << 20, {1});  // 2: runs beside 3
  t.compute(30, {1});             // 3
  t.compute(40, {2, 3});          // 4: waits 20 µs for 2
  const Job job = job_of({t, t});
  const Outcome o = outcome_of(job);
  EXPECT_NEAR(o.ranks[0].total, 190e-6, 1e-9);
  EXPECT_NEAR(o.ranks[0].compute, 170e-6, 1e-9);
  EXPECT_NEAR(o.ranks[0].exposed, 20e-6, 1e-9);
}

TEST(AChakraTrace, MayListItsNodesInAnyOrderAndEndsWithItsLastCall) {
  Trace t;
  t.compute(40, {2});       // 1, after 2
  t.compute(100, {});       // 2
  t.collective(9, 0, {1});  // 3: a barrier at the end
  const Outcome o = outcome_of(job_of({t, t}));
  EXPECT_NEAR(o.ranks[1].total, 190e-6, 1e-9);
}

TEST(AChakraTrace, HasGroupsByNameAndSizesOfOneRanksInput) {
  Trace even, odd;
  even.collective(2, 1024, {}, "0");
  even.collective(7, 1024, {1}, "0");
  odd.collective(2, 1024, {}, "1");
  odd.collective(7, 1024, {1}, "1");
  const ChakraGroups groups = *parse_chakra_groups("g.json", R"({"0": [0, 2], "1": [1, 3]})");
  const Job job = job_of({even, odd, even, odd}, groups);
  ASSERT_EQ(job.groups.size(), 2u);
  EXPECT_EQ(job.groups[1].ranks, (std::vector<Rank>{1, 3}));
  const Call& gather = job.ranks[3].calls[0];
  EXPECT_EQ(gather.op, "all_gather");
  EXPECT_EQ(gather.count, 1024);
  EXPECT_EQ(gather.bytes, 2048);
  EXPECT_EQ(job.ranks[3].calls[1].op, "reduce_scatter");
  EXPECT_EQ(job.ranks[3].calls[1].count, 512);
  EXPECT_EQ(job.ranks[3].calls[1].bytes, 1024);
}

TEST(AChakraTrace, MatchesMessagesOfItsRanks) {
  Trace a, b;
  a.compute(100, {});
  a.message(true, 1, 4096, {1});
  a.message(false, 1, 4096, {1});
  b.message(false, 0, 4096, {});
  b.compute(10, {1});
  b.message(true, 0, 4096, {2});
  const Outcome o = outcome_of(job_of({a, b}));
  EXPECT_NEAR(o.ranks[1].total, 210e-6, 1e-9);
}

// Each rank of a ring sends first and receives behind it, as ASTRA-sim's custom collectives do.
TEST(AChakraTrace, BuffersItsSends) {
  std::vector<Trace> ring(4);
  for (std::uint64_t r = 0; r < 4; ++r) {
    ring[r].message(true, (r + 1) % 4, 4096, {});
    ring[r].message(false, (r + 3) % 4, 4096, {1});
    ring[r].message(true, (r + 1) % 4, 4096, {2});
    ring[r].message(false, (r + 3) % 4, 4096, {3});
  }
  EXPECT_NEAR(outcome_of(job_of(ring)).ranks[2].total, 100e-6, 1e-9);
}

TEST(AChakraTrace, IsRefusedInOneLineWhereItIsNone) {
  const auto said = [](const std::string& name, const std::string& bytes, const ChakraGroups& groups = {}) {
    const auto found = recording_of_chakra(name, bytes, 2, groups);
    return found ? std::string("read") : found.error().message;
  };
  Trace t;
  t.collective(0, 8, {}, "tp");
  EXPECT_EQ(said("w.et", t.text()), "w.et: which rank? Chakra traces are called PREFIX.0.et, PREFIX.1.et, …");
  EXPECT_EQ(said("w.2.et", t.text()), "w.2.et: rank 2 of 2 ranks");
  EXPECT_EQ(said("w.0.et", t.text().substr(0, t.text().size() - 1)), "w.0.et: no Chakra trace: message 1 is cut");
  EXPECT_EQ(said("w.0.et", std::string("\x02{}\x03") + "abc"), "w.0.et: no Chakra trace: message 2 is no node");
  EXPECT_EQ(said("w.0.et", ""), "w.0.et: a Chakra trace without nodes");
  EXPECT_EQ(said("w.0.et", t.text(), {{"dp", {0, 1}}}), "w.0.et: node 1: group 'tp' is not in the file of --groups");
  Trace circle;
  circle.compute(1, {2});
  circle.compute(1, {1});
  EXPECT_EQ(said("w.0.et", circle.text()), "w.0.et: node 1 depends on itself");
  Trace far;
  far.message(true, 7, 8, {});
  EXPECT_EQ(said("w.0.et", far.text()), "w.0.et: node 1: comm_dst is 7: there are ranks 0 to 1");
  EXPECT_FALSE(parse_chakra_groups("g.json", R"({"0": ["a"]})"));
}

}  // namespace
}  // namespace weft::rehearsal
