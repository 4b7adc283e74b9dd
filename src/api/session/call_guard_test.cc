#include <gtest/gtest.h>

#include <optional>
#include <thread>

#include "api/session/call_guard.h"

namespace weft::session {
namespace {

TEST(Turn, IsNeverTakenWhileAnotherThreadVisits) {
  CallGuard guard;
  constexpr int kTurns = 200000, kVisits = 2000;
  int entered = 0;  // not atomic: only one thread is inside
  const auto visits = [&] {
    for (int i = 0; i < kVisits; ++i) {
      const CallGuard::Visit visit(guard);
      ++entered;
    }
  };
  std::thread one(visits), other(visits);
  for (int i = 0; i < kTurns; ++i) {
    const CallGuard::Turn turn(guard);
    ++entered;
  }
  one.join();
  other.join();
  EXPECT_EQ(entered, kTurns + 2 * kVisits);
}

TEST(Turn, WaitsForAVisitAndIsWaitedFor) {
  CallGuard guard;
  std::atomic<bool> visited = false, left = false;
  std::optional<CallGuard::Turn> turn(guard);
  std::thread visitor([&] {
    const CallGuard::Visit visit(guard);
    EXPECT_TRUE(left);
    visited = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    visited = false;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_FALSE(visited);
  left = true;
  turn.reset();
  visitor.join();
  const CallGuard::Turn next(guard);
  EXPECT_FALSE(visited);
}

}  // namespace
}  // namespace weft::session
