#include "move/transfer/fence.h"

#include <gtest/gtest.h>
#include <ucontext.h>

#include <array>
#include <functional>
#include <optional>
#include <string>

// Every interleaving of the protocol's shared accesses, with the copier killed before any of them.
namespace weft::transfer {
namespace {

// Runs in a context of its own, from one access to the next. A killed one is never run again.
class Actor {
 public:
  explicit Actor(std::function<void(Actor&)> body) : body_(std::move(body)) {
    getcontext(&own_);
    own_.uc_stack.ss_sp = stack_.data();
    own_.uc_stack.ss_size = stack_.size();
    own_.uc_link = &back_;
    const auto self = reinterpret_cast<std::uintptr_t>(this);
    makecontext(&own_, reinterpret_cast<void (*)()>(&Actor::enter), 2, static_cast<unsigned>(self >> 32),
                static_cast<unsigned>(self));
  }
  Actor(const Actor&) = delete;
  Actor& operator=(const Actor&) = delete;
  // Before every shared access.
  void step() { swapcontext(&own_, &back_); }
  // Runs it up to its next access.
  void advance() { swapcontext(&back_, &own_); }
  void kill() { killed_ = ended_ = true; }
  bool ended() const { return ended_; }
  bool killed() const { return killed_; }
  bool blocked = false;  // waits for the other actor

 private:
  static void enter(unsigned high, unsigned low) {
    auto* const self = reinterpret_cast<Actor*>(std::uintptr_t{high} << 32 | low);
    self->body_(*self);
    self->ended_ = true;
  }
  std::function<void(Actor&)> body_;
  bool ended_ = false, killed_ = false;
  std::vector<char> stack_ = std::vector<char>(64 << 10);
  ucontext_t own_{}, back_{};
};

constexpr std::uint64_t kOld = 7, kNew = 8;
constexpr int kOriginal = 1, kLate = 2, kNext = 3;

struct World {
  PageWord page{};
  std::array<PinWord, 1> pins{};
  int data[2] = {kOriginal, kOriginal};
  std::optional<std::array<int, 2>> delivered;  // to a reader of the old generation
  bool given_out = false;
};

enum class Copier { kWriter, kReader };
struct Mutation {
  bool pins = true, looks_before = true, looks_after = true, waits = true;
};

void copy(World& w, Actor& self, Copier kind, const Mutation& m) {
  const auto step = [&] { self.step(); };
  if (m.pins) pin(w.pins[0], 0, step);
  if (!m.looks_before || holds(w.page, kOld, step)) {
    std::array<int, 2> got{};
    for (std::size_t i = 0; i < 2; ++i) {
      step();
      if (kind == Copier::kWriter)
        w.data[i] = kLate;
      else
        got[i] = w.data[i];
    }
    if (kind == Copier::kReader && (!m.looks_after || holds(w.page, kOld, step))) w.delivered = got;
  }
  if (m.pins) unpin(w.pins[0], step);
}

void reassign(World& w, Actor& self, const Actor& copier, const Mutation& m) {
  const auto step = [&] { self.step(); };
  const auto pin_of = [&](std::uint32_t slot) -> PinWord& { return w.pins[slot]; };
  step();
  w.page.generation.store(kNew);
  Grace grace = Grace::begin(1, 0, pin_of, step);
  while (m.waits && !grace.over(
                        pin_of, [&](std::uint32_t) { return copier.killed(); }, step))
    self.blocked = true;
  w.given_out = true;
  for (int& word : w.data) {
    step();
    word = kNext;
  }
}

// Nothing, or what went wrong.
std::optional<std::string> judge(const World& w) {
  if (!w.given_out) return "the page was never given out again";
  if (w.data[0] != kNext || w.data[1] != kNext) return "a late writer changed the next owner's page";
  if (w.delivered && ((*w.delivered)[0] != kOriginal || (*w.delivered)[1] != kOriginal))
    return "a reader of the old generation was given the next owner's bytes";
  return std::nullopt;
}

struct Explored {
  int runs = 0, bad = 0;
};

// Depth first over all choices: advance the copier, advance the owner, kill the copier.
Explored explore(Copier kind, const Mutation& mutation, bool stops_at_first = false) {
  Explored explored;
  std::vector<std::pair<int, int>> path;  // choice, of how many
  for (;;) {
    World world;
    world.page.generation.store(kOld);
    {
      Actor copier([&](Actor& self) { copy(world, self, kind, mutation); });
      Actor owner([&](Actor& self) { reassign(world, self, copier, mutation); });
      for (std::size_t depth = 0; !owner.ended(); ++depth) {
        std::vector<int> choices;
        if (!owner.blocked || copier.ended()) choices.push_back(0);
        if (!copier.ended()) choices.insert(choices.end(), {1, 2});
        if (depth == path.size()) path.push_back({0, static_cast<int>(choices.size())});
        switch (choices[static_cast<std::size_t>(path[depth].first)]) {
          case 0:
            owner.advance();
            break;
          case 1:
            owner.blocked = false;
            copier.advance();
            break;
          default:
            owner.blocked = false;
            copier.kill();
        }
      }
      while (!copier.ended()) copier.advance();
    }
    ++explored.runs;
    if (judge(world)) ++explored.bad;
    if (stops_at_first && explored.bad > 0) return explored;
    while (!path.empty() && path.back().first + 1 == path.back().second) path.pop_back();
    if (path.empty()) return explored;
    ++path.back().first;
  }
}

TEST(Fence, NoInterleavingLetsALateWriterChangeTheNextOwnersPage) {
  const Explored all = explore(Copier::kWriter, {});
  EXPECT_GT(all.runs, 400);
  EXPECT_EQ(all.bad, 0);
}

TEST(Fence, NoInterleavingGivesAReaderOfTheOldGenerationTheNextOwnersBytes) {
  const Explored all = explore(Copier::kReader, {});
  EXPECT_GT(all.runs, 400);
  EXPECT_EQ(all.bad, 0);
}

TEST(Fence, EveryPartOfTheProtocolIsNeeded) {
  EXPECT_GT(explore(Copier::kWriter, {.pins = false}, true).bad, 0) << "without pins";
  EXPECT_GT(explore(Copier::kWriter, {.looks_before = false}, true).bad, 0) << "without the look before the copy";
  EXPECT_GT(explore(Copier::kWriter, {.waits = false}, true).bad, 0) << "without waiting for pins";
  EXPECT_GT(explore(Copier::kReader, {.pins = false, .looks_after = false}, true).bad, 0)
      << "without the look after the copy";
}

TEST(Fence, APinThatWasRenewedIsNotWaitedForAgain) {
  PinWord word{};
  const auto pin_of = [&](std::uint32_t) -> PinWord& { return word; };
  pin(word, 3);
  Grace grace = Grace::begin(1, 3, pin_of);
  EXPECT_FALSE(grace.over(pin_of, [](std::uint32_t) { return false; }));
  unpin(word);
  pin(word, 3);
  EXPECT_TRUE(grace.over(pin_of, [](std::uint32_t) { return false; }));
}

}  // namespace
}  // namespace weft::transfer
