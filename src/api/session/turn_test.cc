#include <gtest/gtest.h>

#include <thread>

#include "api/session/session.h"

namespace weft::session {
namespace {

TEST(Turn, IsNeverTakenWhileAnotherThreadVisits) {
  Session session(nullptr, 1, {});
  constexpr int kTurns = 200000, kVisits = 2000;
  int entered = 0;  // not atomic: only one thread is inside
  const auto visits = [&] {
    for (int i = 0; i < kVisits; ++i) {
      const Session::Visit visit(session);
      ++entered;
    }
  };
  std::thread one(visits), other(visits);
  for (int i = 0; i < kTurns; ++i) {
    const Session::Turn turn(session);
    ++entered;
  }
  one.join();
  other.join();
  EXPECT_EQ(entered, kTurns + 2 * kVisits);
}

TEST(Turn, WaitsForAVisitAndIsWaitedFor) {
  Session session(nullptr, 1, {});
  std::atomic<bool> visited = false, left = false;
  std::optional<Session::Turn> turn(session);
  std::thread visitor([&] {
    const Session::Visit visit(session);
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
  const Session::Turn next(session);
  EXPECT_FALSE(visited);
}

}  // namespace
}  // namespace weft::session
