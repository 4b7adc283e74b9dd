#include <gtest/gtest.h>

#include <array>
#include <stdexcept>

#include "tests/arguments/draws.h"
#include "weft/queue.h"

namespace weft::tests {
namespace {

Communicator alone() { return std::move(Communicator::threads(1).value().front()); }

void queued_calls(Draws& d) {
  Queue queue(alone());
  std::array<float, 64> data{};
  const Request r{.in = data.data(), .out = data.data(), .count = d.count(), .timeout = d.timeout()};
  const bool is_right = r.count <= 64 && right(r.timeout);
  const Queue::Handle handle = queue.start(r);
  EXPECT_TRUE(handle.wait_for(kMostTimeout));
  EXPECT_TRUE(handle.wait_for(d.some_timeout()));
  EXPECT_TRUE(handle.done());
  EXPECT_EQ(bool(handle.wait()), is_right);
  std::vector<Transfer> transfers{{Transfer::Direction::kSend, d.integer(), data.data(), 3, DataType::kFloat32}};
  EXPECT_TRUE(refused(queue.start(transfers).wait()));  // nothing receives it
  EXPECT_TRUE(refused(queue.start(std::function<Status(Communicator&)>()).wait()));
}

void functions_that_throw(Draws&) {
  Queue queue(alone());
  const auto thrown = queue.start([](Communicator&) -> Status { throw std::runtime_error("from a call"); });
  EXPECT_NE(thrown.wait().error().message.find("from a call"), std::string::npos);
  const auto thrown_back = queue.start([](Communicator& c) { return c.barrier(); },
                                       [](const Status&) { throw std::runtime_error("from a callback"); });
  EXPECT_NE(thrown_back.wait().error().message.find("from a callback"), std::string::npos);
  const auto number = queue.start([](Communicator&) -> Status { throw 7; });
  EXPECT_EQ(number.wait().error().code, Code::kInternal);
  EXPECT_TRUE(queue.start([](Communicator& c) { return c.barrier(); }).wait());  // it goes on
}

void empty_queues_and_handles(Draws& d) {
  const Queue::Handle none;
  EXPECT_TRUE(none.done());
  EXPECT_TRUE(none.wait_for(d.some_timeout()));
  EXPECT_TRUE(refused(none.wait()));
  Queue first(alone());
  Queue second(std::move(first));
  EXPECT_TRUE(refused(first.start([](Communicator& c) { return c.barrier(); }).wait()));
  EXPECT_TRUE(refused(first.start(Request()).wait()));
  first.abort();
  first.close();
  second.close();
  second.close();
  EXPECT_TRUE(refused(second.start([](Communicator& c) { return c.barrier(); }).wait()));
  second.abort();
  first = std::move(second);
  Queue of_nothing{Communicator(nullptr)};
  EXPECT_TRUE(refused(of_nothing.start([](Communicator& c) { return c.barrier(); }).wait()));
}

// A callback may close and destroy the queue that it was called by.
void queues_that_end_on_their_own_thread(Draws&) {
  auto queue = std::make_shared<Queue>(alone());
  Queue* const plain = queue.get();
  const auto handle = plain->start([](Communicator& c) { return c.barrier(); },
                                   [queue = std::move(queue)](const Status&) { queue->close(); });
  EXPECT_TRUE(handle.wait());
}

}  // namespace

std::vector<Try> tries_of_queues() {
  return {
      {{"weft::Queue::Queue", "weft::Queue::start", "weft::Queue::Handle::done", "weft::Queue::Handle::wait_for",
        "weft::Queue::Handle::wait"},
       queued_calls},
      {{"weft::Queue::start"}, functions_that_throw, 3},
      {{"weft::Queue::~Queue", "weft::Queue::operator=", "weft::Queue::abort", "weft::Queue::close"},
       empty_queues_and_handles,
       8},
      {{"weft::Queue::close"}, queues_that_end_on_their_own_thread, 20},
  };
}

}  // namespace weft::tests
