#include "net/tcp/frame.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cstring>
#include <optional>
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
  std::byte* place(Rank, ContextId, const Frame& f) override {
    at = text.size();
    text.resize(at + f.length + 1);
    return reinterpret_cast<std::byte*>(text.data() + at);
  }
  bool arrived(Rank, ContextId, const Frame& f, const std::byte*) override {
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
    one.attach(UniqueFd(ends[0]), std::chrono::seconds(10));
    other.attach(UniqueFd(ends[1]), std::chrono::seconds(10));
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
    return pair.one.touches(0, bytes(text), bytes(text) + text.size());
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

// --- sealed connections, with somebody between the two ranks ---

struct Sealed {
  link::Protection protection;
  bool aes;
};

std::string name_of(const testing::TestParamInfo<Sealed>& i) {
  return std::string(i.param.protection == link::Protection::kMac ? "Mac" : "Encrypt") +
         (i.param.aes ? "Aes" : "ChaCha");
}

// Two wires whose greetings are done; what one sends does not reach the other but through the test.
class Relayed : public testing::TestWithParam<Sealed> {
 protected:
  using Handshake = link::Handshake;

  void SetUp() override {
    int ends[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    const UniqueFd a(ends[0]), b(ends[1]);
    link::Key key{};
    link::fill_random(key);
    Handshake opener(Handshake::Role::kOpener, key, {.purpose = link::kData});
    Handshake acceptor(Handshake::Role::kAcceptor, key);
    while (opener.advance(a.get()) == Handshake::State::kRunning) {
      acceptor.advance(b.get());
      if (acceptor.proved() && acceptor.state() == Handshake::State::kRunning) acceptor.accept();
    }
    one.emplace(1, nullptr, &blocks);
    other.emplace(0, nullptr, &blocks);
    got = {};
    attach(*one, middle_of_one, opener);
    attach(*other, middle_of_other, acceptor);
  }
  void attach(Wire& wire, UniqueFd& middle, const Handshake& greeting) {
    int ends[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    middle = UniqueFd(ends[1]);
    wire.seal_by({GetParam().protection, GetParam().aes}, greeting);
    wire.attach(UniqueFd(ends[0]), std::chrono::seconds(10));
  }
  // All that `one` sends of this message.
  std::string sent(const std::string& text) {
    kept.push_back(text);
    one->send(data(text.size()), reinterpret_cast<const std::byte*>(kept.back().data()), Block());
    return drained(middle_of_one.get());
  }
  static std::string drained(int fd) {
    std::string all(std::size_t{1} << 20, 0);
    const ssize_t n = recv(fd, all.data(), all.size(), MSG_DONTWAIT);
    all.resize(static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
    return all;
  }
  void pass_on(const std::string& bytes) {
    ASSERT_EQ(send(middle_of_other.get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
    while (other->receive(got)) {
    }
  }

  messages::Blocks blocks{kSlotBytes};
  std::deque<std::string> kept;
  UniqueFd middle_of_one, middle_of_other;
  std::optional<Wire> one, other;
  Collector got;
};

TEST_P(Relayed, WhatIsPassedOnInAnyPiecesArrives) {
  std::mt19937 random(5);
  std::string all;
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{15}, std::size_t{4096},
                                  std::size_t{70000}, static_cast<std::size_t>(kSlotBytes)}) {
    const std::string text(bytes, static_cast<char>('a' + bytes % 26));
    all += text;
    const std::string wire = sent(text);
    EXPECT_EQ(wire.size(), sizeof(Header) + 16 + bytes + (bytes > 0 ? 16 : 0));
    for (std::size_t at = 0; at < wire.size();) {
      const std::size_t piece = std::min<std::size_t>(1 + random() % (bytes > 5000 ? 30000 : 7), wire.size() - at);
      pass_on(wire.substr(at, piece));
      at += piece;
    }
  }
  EXPECT_EQ(got.problem, "");
  EXPECT_EQ(got.frames, 6);
  EXPECT_TRUE(got.text == all);
}

TEST_P(Relayed, OnlyEncryptionHidesTheBytes) {
  const std::string text = "a text that is easily recognised";
  const bool readable = sent(text).find(text) != std::string::npos;
  EXPECT_EQ(readable, GetParam().protection == link::Protection::kMac);
}

// Frames before they have a connection wait for its key.
TEST_P(Relayed, FramesThatWereQueuedBeforeTheGreetingArriveToo) {
  Wire early(1, nullptr, &blocks);
  const std::string text(3000, 'q');
  early.send(data(text.size()), reinterpret_cast<const std::byte*>(text.data()), Block());
  EXPECT_FALSE(early.idle());
  link::Handshake opener(link::Handshake::Role::kOpener, {}), acceptor(link::Handshake::Role::kAcceptor, {});
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
  while (opener.advance(ends[0]) == Handshake::State::kRunning) {
    acceptor.advance(ends[1]);
    if (acceptor.proved() && acceptor.state() == Handshake::State::kRunning) acceptor.accept();
  }
  const link::Sealing sealing{GetParam().protection, GetParam().aes};
  Wire late(0, nullptr, &blocks);
  early.seal_by(sealing, opener);
  early.attach(UniqueFd(ends[0]), std::chrono::seconds(10));
  late.seal_by(sealing, acceptor);
  late.attach(UniqueFd(ends[1]), std::chrono::seconds(10));
  while (late.receive(got)) {
  }
  EXPECT_EQ(got.problem, "");
  EXPECT_TRUE(got.text == text);
}

TEST_P(Relayed, EveryFlippedBitIsAnErrorAndNoMessage) {
  const std::size_t whole = sent(std::string(40, 'x')).size();
  for (std::size_t bit = 0; bit < whole * 8; bit += 3) {
    SetUp();
    std::string wire = sent(std::string(40, 'x'));
    wire[bit / 8] = static_cast<char>(wire[bit / 8] ^ (1 << bit % 8));
    pass_on(wire);
    ASSERT_EQ(got.frames, 0) << "bit " << bit;
    ASSERT_NE(got.problem.find("tag does not fit"), std::string::npos) << "bit " << bit << ": " << got.problem;
    ASSERT_TRUE(other->ended());
  }
}

TEST_P(Relayed, ARepeatedFrameIsAnError) {
  const std::string wire = sent("once");
  pass_on(wire);
  EXPECT_EQ(got.frames, 1);
  pass_on(wire);
  EXPECT_EQ(got.frames, 1);
  EXPECT_NE(got.problem.find("frame 2: the tag does not fit"), std::string::npos) << got.problem;
}

TEST_P(Relayed, AFrameThatIsLeftOutIsAnError) {
  const std::string first = sent("first"), second = sent("second"), third = sent("third");
  pass_on(first + third);
  EXPECT_EQ(got.frames, 1);
  EXPECT_NE(got.problem.find("frame 2: the tag does not fit"), std::string::npos) << got.problem;
}

TEST_P(Relayed, AFrameThatIsSentBackToItsSenderIsAnError) {
  const std::string wire = sent("mirror");
  ASSERT_EQ(send(middle_of_one.get(), wire.data(), wire.size(), 0), static_cast<ssize_t>(wire.size()));
  while (one->receive(got)) {
  }
  EXPECT_EQ(got.frames, 0);
  EXPECT_NE(got.problem.find("the tag does not fit"), std::string::npos) << got.problem;
}

INSTANTIATE_TEST_SUITE_P(Wires, Relayed,
                         testing::Values(Sealed{link::Protection::kMac, true}, Sealed{link::Protection::kMac, false},
                                         Sealed{link::Protection::kEncrypt, true},
                                         Sealed{link::Protection::kEncrypt, false}),
                         name_of);

}  // namespace
}  // namespace weft::net::tcp
