#include "net/tcp/frame.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cstring>
#include <random>

#include "net/tcp/crc32c.h"
#include "net/tcp/wire.h"

namespace weft::net::tcp {
namespace {

using messages::kEnd;
using messages::kSlotBytes;
using messages::kStreams;

Header sound(std::uint32_t sequence) {
  Header h{.sequence = sequence, .frame = {.flags = kEnd, .strand = 2, .length = 100, .number = 7, .total = 100}};
  seal(h);
  return h;
}

TEST(Frames, ASoundHeaderHasNoFault) { EXPECT_EQ(fault_of(sound(5), 5), ""); }

TEST(Frames, EveryFlippedBitIsFound) {
  for (std::size_t bit = 0; bit < sizeof(Header) * 8; ++bit) {
    Header h = sound(1);
    reinterpret_cast<std::uint8_t*>(&h)[bit / 8] ^= static_cast<std::uint8_t>(1 << bit % 8);
    EXPECT_NE(fault_of(h, 1), "") << "bit " << bit;
  }
}

TEST(Frames, ALostOrRepeatedFrameIsFound) {
  EXPECT_NE(fault_of(sound(6), 5).find("frame 6 instead of 5"), std::string::npos);
  EXPECT_NE(fault_of(sound(4), 5), "");
}

// Somebody who computes checksums rightly still leads nobody beyond a slot.
TEST(Frames, NoSealedHeaderLeadsBeyondASlot) {
  std::mt19937 random(7);
  int sounds = 0;
  for (int round = 0; round < 200000; ++round) {
    Header h = sound(1);
    const auto any = [&] { return random() % 2 == 0 ? random() : random() % (1u << 17); };
    Frame& f = h.frame;
    f.kind = static_cast<FrameKind>(1 + random() % 9);
    f.flags = static_cast<std::uint8_t>(random() % 8);
    f.strand = static_cast<std::uint16_t>(random() % 12);
    f.length = any();
    f.offset = any();
    f.total = random() % 2 == 0 ? f.offset + f.length : any();
    seal(h);
    if (!fault_of(h, 1).empty()) continue;
    ++sounds;
    ASSERT_LT(f.strand, kStreams);
    ASSERT_LE(std::uint64_t{f.offset} + f.length, static_cast<std::uint64_t>(kSlotBytes));
    ASSERT_LE(f.total, static_cast<std::uint64_t>(kSlotBytes));
    ASSERT_TRUE(f.kind == FrameKind::kData || f.length == 0);
  }
  EXPECT_GT(sounds, 100);
}

// Takes messages of one strand in order and keeps what they hold.
struct Collector final : Receiver {
  std::byte* place(Rank, const Frame& f) override {
    at = text.size();
    text.resize(at + f.length + 1);
    return reinterpret_cast<std::byte*>(text.data() + at);
  }
  bool arrived(Rank, const Frame& f, const std::byte*) override {
    if (f.kind == FrameKind::kData) text.resize(at + f.length);
    ++frames;
    return false;
  }
  void damaged(Rank, const std::string& what) override { problem = what; }
  void ended(Rank, const std::string&) override {}
  std::string text, problem;
  std::size_t at = 0;
  int frames = 0;
};

struct Pair {
  Splicer splicer;
  Wire one, other{0, nullptr};
  // `holds`: large frames of `one` are not copied.
  explicit Pair(bool holds = false) : one(1, holds ? &splicer : nullptr) {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    one.attach(bootstrap::UniqueFd(ends[0]), std::chrono::seconds(10));
    other.attach(bootstrap::UniqueFd(ends[1]), std::chrono::seconds(10));
  }
};

Frame data(std::size_t bytes) {
  return {.flags = kEnd,
          .length = static_cast<std::uint32_t>(bytes),
          .number = 1,
          .total = static_cast<std::uint32_t>(bytes)};
}

class AllSizes : public testing::TestWithParam<bool> {};

TEST_P(AllSizes, ArriveThroughAFullSocket) {
  Pair pair(GetParam());
  Collector got, back;
  std::mt19937 random(3);
  std::string all;
  std::deque<std::string> kept;  // memory of frames under way is the sender's
  for (int i = 0; i < 400; ++i) {
    kept.emplace_back(random() % 3 == 0 ? random() % 100000 : random() % 200, static_cast<char>('a' + i % 26));
    all += kept.back();
    pair.one.send(data(kept.back().size()), reinterpret_cast<const std::byte*>(kept.back().data()), Block(),
                  random() % 4 == 0);
    if (random() % 5 == 0) pair.other.receive(got);
  }
  while (!pair.one.flush()) {
    pair.other.receive(got);
    pair.other.confirm();
    pair.one.receive(back);
  }
  while (pair.other.receive(got)) {
  }
  EXPECT_EQ(got.problem, "");
  EXPECT_EQ(got.frames, 400);
  EXPECT_TRUE(got.text == all);
  EXPECT_EQ(back.frames, 0);  // confirmations are nobody's business but the wires'
}

INSTANTIATE_TEST_SUITE_P(Wires, AllSizes, testing::Bool(), [](const auto& i) { return i.param ? "Held" : "Copied"; });

TEST(Wires, LargeMemoryIsTheirsUntilThePeerHasReadIt) {
  Pair pair(true);
  Collector got, back;
  const std::string large(60000, 'L'), small(600, 's');
  const auto bytes = [](const std::string& text) { return reinterpret_cast<const std::byte*>(text.data()); };
  const auto touches = [&](const std::string& text) {
    return pair.one.touches(bytes(text), bytes(text) + text.size());
  };
  pair.one.send(data(large.size()), bytes(large), Block());
  pair.one.send(data(small.size()), bytes(small), Block());
  while (pair.other.receive(got)) {
  }
  ASSERT_EQ(got.text, large + small);
  EXPECT_TRUE(touches(large));
  EXPECT_FALSE(touches(small));
  EXPECT_FALSE(pair.one.wants_output());
  EXPECT_FALSE(pair.one.flush());
  ASSERT_TRUE(pair.other.owes_confirmation());
  pair.other.send(data(small.size()), bytes(small), Block());  // says it, too
  EXPECT_FALSE(pair.other.owes_confirmation());
  pair.one.receive(back);
  EXPECT_FALSE(touches(large));
  EXPECT_TRUE(pair.one.flush());
}

TEST(Wires, APeerThatClosesWhileLargeMemoryIsUnderWayIsAnEndAndNoSignal) {
  Pair pair(true);
  Collector back;
  const std::string large(1 << 20, 'L');
  pair.one.send(data(large.size()), reinterpret_cast<const std::byte*>(large.data()), Block());
  EXPECT_TRUE(pair.one.wants_output());
  pair.other.close();
  while (pair.one.wants_output()) pair.one.flush();
  pair.one.receive(back);
  EXPECT_TRUE(pair.one.ended());
}

// Streams that were mutated at seeded places: what arrives unnoticed is what was sent.
TEST(Wires, NoSeededMutationOfAStreamGoesUnnoticed) {
  std::string stream, sent;
  for (std::uint32_t i = 1; i <= 20; ++i) {
    const std::string payload(i * 13, static_cast<char>('A' + i));
    Header h{.sequence = i, .frame = data(payload.size())};
    h.payload_crc = crc32c(0, payload.data(), payload.size());
    seal(h);
    stream.append(reinterpret_cast<const char*>(&h), sizeof h).append(payload);
    sent += payload;
  }
  std::mt19937 random(11);
  for (int round = 0; round < 3000; ++round) {
    std::string mutated = stream;
    const std::size_t at = random() % mutated.size();
    switch (random() % 3) {
      case 0:
        mutated[at] = static_cast<char>(mutated[at] ^ (1 << random() % 8));
        break;
      case 1:
        mutated.erase(at, 1 + random() % 80);
        break;
      default:
        mutated.insert(at, mutated.substr(random() % mutated.size(), 1 + random() % 80));
    }
    Pair pair;
    Collector got;
    ASSERT_EQ(send(pair.one.fd(), mutated.data(), mutated.size(), 0), static_cast<ssize_t>(mutated.size()));
    pair.one.close();
    while (pair.other.receive(got)) {
    }
    // Frames before the damage have arrived; whatever was being written when it was found does not count as one.
    std::size_t whole = 0;
    for (int i = 1; i <= got.frames; ++i) whole += static_cast<std::size_t>(i) * 13;
    ASSERT_TRUE(pair.other.ended());
    ASSERT_EQ(got.text.substr(0, whole), sent.substr(0, whole)) << round;
    ASSERT_LT(got.frames, 21) << round;
  }
}

}  // namespace
}  // namespace weft::net::tcp
