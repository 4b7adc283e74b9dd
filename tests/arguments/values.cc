#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/arguments/draws.h"
#include "weft/cuda.h"
#include "weft/transfer.h"

namespace weft::tests {
namespace {

void enumerations(Draws& d) {
  const DataType type = d.type();
  EXPECT_EQ(is_known(type), size_of(type) > 0);
  const ReduceOp op = d.op();
  EXPECT_EQ(is_known(op), static_cast<int>(op) < 9);
  EXPECT_EQ(is_known(d.one_of({Collective(kCollectiveKinds), Collective(255)})), false);
  EXPECT_EQ(applies(DataType::kFloat16, ReduceOp::kXor), false);
  EXPECT_EQ(is_float(DataType::kUint64), false);
  EXPECT_EQ(data_type_of<double>(), DataType::kFloat64);
  EXPECT_EQ(Scalar::of(std::int64_t{1} << 62).integer, std::int64_t{1} << 62);
  for (const double value : {1e300, -1e300, std::nan(""), HUGE_VAL}) EXPECT_EQ(Scalar::of(value).integer, 0);
  EXPECT_EQ(Scalar::of(-3).integer, -3);
}

void costs_and_states(Draws& d) {
  using namespace transfer;
  EXPECT_EQ(name(static_cast<State>(d.one_of({6, 99, 255}))), "unknown");
  EXPECT_EQ(name(static_cast<Path>(d.one_of({7, 99, 255}))), "unknown");
  EXPECT_TRUE(is_terminal(State::kExpired));
  Costs costs;
  EXPECT_FALSE(costs.of(Path::kTcp).known());
  EXPECT_EQ(costs.of(Path::kTcp).us(d.size(), d.size()), 0);
  EXPECT_GE(gpus(), 0);
  EXPECT_FALSE(measure_costs("/nowhere/at/all"));
  const transfer::Request none;
  EXPECT_EQ(none.state(), State::kFailed);
  EXPECT_EQ(none.error().blame, Blame::kInput);
  EXPECT_EQ(none.moved_bytes(), 0);
  EXPECT_EQ(none.posted(), none.progressed());
  EXPECT_EQ(Prepared().elements() + Prepared().element_bytes(), 0);
}

// Without a GPU, or with ranks on the host: WEFT_DEVICE=host.
void gpus_that_are_not_there(Draws& d) {
  const std::vector<int> devices{d.one_of({-1, 99, std::numeric_limits<int>::max()})};
  EXPECT_TRUE(!cuda::Communicator::open(devices) && !cuda::Communicator::open({}, {}));
  setenv("WEFT_DEVICE", "host", 1);
  const std::vector<int> one{0};
  auto opened = cuda::Communicator::open(one);
  if (!opened) return;  // the runtime was opened for real GPUs before
  cuda::Communicator c = std::move(opened->front());
  std::vector<float> data(64);
  int place = 0;
  const Request wrong{.collective = d.collective(),
                      .in = data.data(),
                      .out = data.data(),
                      .count = d.count(),
                      .type = d.type(),
                      .op = d.op(),
                      .channels = d.integer()};
  if (!is_known(wrong.collective) || wrong.channels < 0 || wrong.channels > 255) {
    EXPECT_TRUE(refused(c.start(wrong, &place)));
    EXPECT_TRUE(refused(c.prepare(wrong)));
  }
  const Transfer nobody{Transfer::Direction::kSend, 7, data.data(), 1, DataType::kFloat32};
  EXPECT_TRUE(refused(c.start(std::span(&nobody, 1), &place)));
  const cuda::Communicator taken = std::move(c);
  EXPECT_EQ(c.rank(), -1);
  EXPECT_EQ(c.ranks(), 0);
  EXPECT_TRUE(refused(c.start(Request(), &place)));
  EXPECT_TRUE(refused(c.start(std::span<const Transfer>(), &place)));
  EXPECT_TRUE(refused(c.prepare(Request())));
  EXPECT_TRUE(refused(c.status()));
  EXPECT_TRUE(refused(c.abort()));
  EXPECT_EQ(c.last_choice().channels, 0);
  const std::vector<cuda::Call> calls{{.communicator = c, .request = {}, .stream = &place}};
  EXPECT_TRUE(refused(cuda::start(calls)));
  EXPECT_TRUE(refused(cuda::start_copies(calls)));
  const std::vector<cuda::Exchange> exchanges{{.communicator = c, .transfers = {}, .stream = &place}};
  EXPECT_TRUE(refused(cuda::start(exchanges)));
  EXPECT_TRUE(refused(cuda::Window::allocate({}, 64)));
  EXPECT_TRUE(refused(cuda::Window::allocate(std::span(&c, 1), 64)));
  void* memory = nullptr;
  EXPECT_TRUE(refused(cuda::Window::open(std::span(&taken, 1), std::span(&memory, 1), 64)));
  auto window = cuda::Window::allocate(std::span(&taken, 1), 64);
  ASSERT_TRUE(window) << window.error().message;
  cuda::Window own = std::move(window->front());
  const cuda::Window other = std::move(own);
  EXPECT_EQ(own.data(), nullptr);
  EXPECT_EQ(own.size(), 0u);
  EXPECT_EQ(own.heap().bases, nullptr);
}

}  // namespace

std::vector<Try> tries_of_values() {
  return {
      {{"weft::size_of", "weft::is_known", "weft::is_float", "weft::applies", "weft::data_type_of", "weft::Scalar::of"},
       enumerations},
      {{"weft::transfer::name", "weft::transfer::is_terminal", "weft::transfer::PathCost::known",
        "weft::transfer::PathCost::us", "weft::transfer::Costs::of", "weft::transfer::gpus",
        "weft::transfer::measure_costs", "weft::transfer::Request::state", "weft::transfer::Request::error",
        "weft::transfer::Request::moved_bytes", "weft::transfer::Request::posted",
        "weft::transfer::Request::progressed", "weft::transfer::Prepared::elements",
        "weft::transfer::Prepared::element_bytes"},
       costs_and_states,
       4},
  };
}

std::vector<Try> tries_of_gpus() {
  return {{{"weft::cuda::Communicator::open", "weft::cuda::Communicator::rank", "weft::cuda::Communicator::ranks",
            "weft::cuda::Communicator::start", "weft::cuda::Communicator::prepare", "weft::cuda::Communicator::status",
            "weft::cuda::Communicator::abort", "weft::cuda::Communicator::last_choice", "weft::cuda::Window::open",
            "weft::cuda::Window::allocate", "weft::cuda::Window::data", "weft::cuda::Window::size",
            "weft::cuda::Window::heap", "weft::cuda::start", "weft::cuda::start_copies", "weft::cuda::Call::member",
            "weft::cuda::Exchange::member"},
           gpus_that_are_not_there,
           40}};
}

}  // namespace weft::tests
