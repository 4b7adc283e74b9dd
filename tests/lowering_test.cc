// Properties of lowered programs that need all ranks of a real algorithm at once.

#include <gtest/gtest.h>

#include <map>
#include <tuple>

#include "plan/collectives/registry.h"
#include "plan/schedule/lower/lower.h"

namespace weft::schedule {
namespace {

using protocol::End;
using protocol::Memory;
using protocol::Operation;
using protocol::Protocol;

struct Case {
  Task task;
  Plan plan;
  std::vector<Program> programs;  // by rank

  std::string label() const {
    return fmt::format("{} {} on {} ranks, {} elements of {} B, {}, {} channels, slice {}{}", plan.algorithm->name,
                       name(task.collective), task.ranks, task.elements, task.element_bytes,
                       protocol::traits(plan.protocol).name, plan.channels, plan.slice_bytes,
                       plan.staged ? ", staged" : "");
  }
};

// Bytes of a rank's buffer.
Bytes size_of(Memory memory, Rank rank, const Case& c) {
  if (memory == Memory::kScratch) return c.plan.scratch_bytes;
  const RankContext context{.ranks = c.task.ranks, .ranks_per_node = c.task.ranks_per_node};
  const Layout layout({c.task.collective, c.task.ranks, c.task.root, c.plan.algorithm->chunks_for(context)},
                      c.task.elements, c.task.element_bytes);
  return layout.buffer_bytes(static_cast<Buffer>(memory), rank);
}

// Calls `check` on every algorithm, rank count, message and way to cut it that is worth looking at.
template <class Check>
void for_all_cases(Check&& check) {
  for (const Algorithm& algorithm : collectives::algorithms()) {
    for (const Rank ranks : {1, 2, 3, 7, 8}) {
      for (const Bytes count : {0, 1, 3, 17, 1009, 65537}) {  // primes and other uneven sizes
        for (const Bytes element : {4, 8}) {
          for (const int channels : {1, 3}) {
            for (const bool small : {false, true}) {  // small slices and little scratch: many rounds
              if (small && count > 2000) continue;
              for (const bool staged : {false, true}) {
                if (staged && !algorithm.needs.memory()) continue;
                Case c;
                c.task = {.collective = algorithm.collective,
                          .ranks = ranks,
                          .root = ranks / 2,
                          .ranks_per_node = ranks,
                          .elements = divides(algorithm.collective, ranks, count) ? count : count * ranks,
                          .element_bytes = element};
                if (algorithm.collective == Collective::kBarrier) c.task.elements = 0;
                const auto protocol = !algorithm.needs.messages ? Protocol::kDirect
                                      : small                   ? Protocol::kLL64
                                                                : Protocol::kSimple;
                const RankContext context{.ranks = ranks, .ranks_per_node = ranks, .staged = staged};
                const Bytes little = Bytes{64} * channels * algorithm.scratch_for(context) * 2;
                c.plan = make_plan(c.task, algorithm, protocol, channels,
                                   {.load_store = true,
                                    .max_strands = 64,
                                    .max_slice = Bytes{512} << 10,
                                    .scratch_bytes = small ? little : Bytes{1} << 20},
                                   !staged);
                if (small) c.plan.slice_bytes = 56 * 4;
                if (const Cut cut = cut_of(c.task, c.plan); cut.piece > 0 && cut.round == 0) continue;
                for (Rank r = 0; r < ranks; ++r) c.programs.push_back(lower(c.task, c.plan, r));
                SCOPED_TRACE(c.label());
                check(c);
                if (testing::Test::HasFailure()) return;
              }
            }
          }
        }
      }
    }
  }
}

template <class Visit>
void for_all_operations(const Case& c, Visit&& visit) {
  for (Rank r = 0; r < c.task.ranks; ++r)
    for (std::size_t strand = 0; strand < c.programs[static_cast<std::size_t>(r)].size(); ++strand)
      for (const Operation& o : c.programs[static_cast<std::size_t>(r)][strand]) visit(r, static_cast<int>(strand), o);
}

TEST(Lowering, WritesEveryByteOfEveryOutput) {
  for_all_cases([](const Case& c) {
    std::map<Rank, std::map<Bytes, Bytes>> written;  // rank -> begin -> end, in its output
    for_all_operations(c, [&](Rank self, int, const Operation& o) {
      for (const End& end : o.destinations) {
        if (end.kind == End::Kind::kMessage || end.memory != Memory::kOut) continue;
        Bytes& until = written[end.kind == End::Kind::kRemote ? end.peer : self][end.offset];
        until = std::max(until, end.offset + o.bytes);
      }
    });
    for (Rank r = 0; r < c.task.ranks; ++r) {
      if (routed(c.task.collective)) {  // the rows of tokens that come, and no others
        const schedule::Layout layout = layout_of(c.task, c.plan);
        for (schedule::ChunkId token = 0; token < layout.chunks(); ++token) {
          if (c.task.collective == Collective::kCombine && layout.shape().block_of(token) != r)
            continue;  // no place here
          const Bytes begin = layout.offset(Buffer::kOut, token), end = begin + layout.chunk_bytes(token);
          Bytes at = begin;
          for (const auto& [from, until] : written[r])
            if (from <= at) at = std::max(at, std::min(until, end));
          const bool comes = holds(layout.shape(), Buffer::kOut, token, r);
          if (begin < end) ASSERT_EQ(at > begin, comes) << "rank " << r << " token " << token;
          if (comes) ASSERT_EQ(at, end) << "rank " << r << " token " << token;
        }
        continue;
      }
      Bytes at = 0;
      for (const auto& [begin, end] : written[r]) {
        ASSERT_LE(begin, at) << "rank " << r;  // no gap
        at = std::max(at, end);
      }
      EXPECT_EQ(at, size_of(Memory::kOut, r, c)) << "rank " << r;
    }
  });
}

TEST(Lowering, BothEndsOfEveryConnectionSeeTheSameMessageSizes) {
  using Connection = std::tuple<Rank, Rank, int>;  // from, to, strand
  for_all_cases([](const Case& c) {
    std::map<Connection, std::vector<Bytes>> sent, received;
    const auto note = [](std::vector<Bytes>& messages, const End& end, Bytes bytes) {
      if (end.offset == 0) messages.push_back(0);
      ASSERT_EQ(end.offset, messages.back()) << "a gap in a message";
      messages.back() += bytes;
    };
    for_all_operations(c, [&](Rank self, int, const Operation& o) {
      for (const End& end : o.destinations)
        if (end.kind == End::Kind::kMessage) note(sent[{self, end.peer, end.strand}], end, o.bytes);
      for (const End& end : o.sources)
        if (end.kind == End::Kind::kMessage) note(received[{end.peer, self, end.strand}], end, o.bytes);
    });
    EXPECT_EQ(sent, received);
  });
}

TEST(Lowering, StaysInsideEveryBufferAndEverySlice) {
  for_all_cases([](const Case& c) {
    for_all_operations(c, [&](Rank self, int strand, const Operation& o) {
      if (o.kind != Operation::Kind::kMove) return;
      ASSERT_EQ(o.bytes % c.task.element_bytes, 0);
      for (const auto* side : {&o.sources, &o.destinations}) {
        for (const End& end : *side) {
          if (end.kind == End::Kind::kMessage) {
            ASSERT_LE(end.offset + o.bytes, c.plan.slice_bytes);
            ASSERT_GT(end.offset + o.bytes, 0);
            ASSERT_EQ(end.strand / c.plan.algorithm->connections_of_channel(), strand / c.plan.algorithm->lanes)
                << "leaves its channel";
          } else {
            ASSERT_GE(end.offset, 0);
            const Rank owner = end.kind == End::Kind::kRemote ? end.peer : self;
            ASSERT_LE(end.offset + o.bytes, size_of(end.memory, owner, c)) << "memory " << static_cast<int>(end.memory);
          }
        }
      }
    });
  });
}

TEST(Lowering, SendsAndSignalsNothingForAnEmptyMessage) {
  for_all_cases([](const Case& c) {
    if (c.task.elements > 0 || c.task.collective == Collective::kBarrier) return;
    for_all_operations(c, [](Rank, int, const Operation&) { ADD_FAILURE() << "an operation"; });
  });
}

// Runs all programs with nothing but counters: messages in flight per connection, signals under way.
class SlotModel {
 public:
  explicit SlotModel(const Case& c) : case_(c), slots_(protocol::traits(c.plan.protocol).slots) {}

  // The operations that never came to run.
  std::size_t left_over() {
    std::vector<std::vector<std::size_t>> next;
    for (const Program& p : case_.programs) next.emplace_back(p.size(), 0);
    std::size_t left = 0;
    for (bool moved = true; moved;) {
      moved = false;
      left = 0;
      for (std::size_t r = 0; r < next.size(); ++r)
        for (std::size_t s = 0; s < next[r].size(); ++s) {
          const auto& operations = case_.programs[r][s];
          while (next[r][s] < operations.size() &&
                 run(static_cast<Rank>(r), static_cast<int>(s), operations[next[r][s]]))
            ++next[r][s], moved = true;
          left += operations.size() - next[r][s];
        }
    }
    return left;
  }

 private:
  bool run(Rank self, int strand, const Operation& o) {
    if (o.kind == Operation::Kind::kSignal) return ++signals_[{self, o.peer, strand}], true;
    if (o.kind == Operation::Kind::kWait) {
      int& here = signals_[{o.peer, self, strand}];
      return here > 0 && here-- > 0;
    }
    for (const End& end : o.sources)
      if (end.kind == End::Kind::kMessage && flight_[{end.peer, self, end.strand}] == 0) return false;
    for (const End& end : o.destinations)
      if (end.kind == End::Kind::kMessage && end.offset == 0 && flight_[{self, end.peer, end.strand}] == slots_)
        return false;
    for (const End& end : o.sources)
      if (end.kind == End::Kind::kMessage && end.last) --flight_[{end.peer, self, end.strand}];
    for (const End& end : o.destinations)
      if (end.kind == End::Kind::kMessage && end.last) ++flight_[{self, end.peer, end.strand}];
    return true;
  }

  const Case& case_;
  int slots_;
  std::map<std::tuple<Rank, Rank, int>, int> flight_, signals_;
};

TEST(Lowering, EndsWithTheSlotsThatTheProtocolHas) {
  for_all_cases([](const Case& c) { EXPECT_EQ(SlotModel(c).left_over(), 0u); });
}

}  // namespace
}  // namespace weft::schedule
