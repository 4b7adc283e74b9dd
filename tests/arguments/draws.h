#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "weft/communicator.h"

// Values that a caller may push into any argument: usual ones, those at the edges of types, and those outside of enums.
namespace weft::tests {

class Draws {
 public:
  explicit Draws(unsigned seed) : random_(seed) {}

  template <class T>
  T one_of(std::initializer_list<T> values) {
    return values.begin()[random_() % values.size()];
  }
  bool coin(unsigned of = 2) { return random_() % of == 0; }

  int integer() {
    return one_of({std::numeric_limits<int>::min(), -2, -1, 0, 1, 2, 3, 8, 255, 256, 65536, 0x20000000, 0x40000000,
                   1'000'000'000, std::numeric_limits<int>::max()});
  }
  // Sizes: small ones, for which there is memory, and those that no memory has.
  std::size_t count() {
    return coin() ? one_of<std::size_t>({0, 1, 3, 64})
                  : one_of<std::size_t>({std::size_t{1} << 48, (std::size_t{1} << 61) + 1, std::size_t{1} << 62,
                                         std::size_t{1} << 63, std::numeric_limits<std::size_t>::max()});
  }
  std::int64_t size() {
    return one_of<std::int64_t>({std::numeric_limits<std::int64_t>::min(), -4096, -1, 0, 1, 64, 4096, (1ll << 31) - 1,
                                 1ll << 31, 1ll << 32, (1ll << 47) + 1, std::numeric_limits<std::int64_t>::max()});
  }
  DataType type() { return static_cast<DataType>(coin() ? random_() % kDataTypes : one_of({14, 15, 99, 127, 255})); }
  ReduceOp op() { return static_cast<ReduceOp>(coin() ? random_() % kReduceOps : one_of({9, 10, 77, 255})); }
  Collective collective() {
    return static_cast<Collective>(coin(4) ? one_of({13, 14, 55, 255})
                                           : static_cast<int>(random_() % kCollectiveKinds));
  }
  std::optional<std::chrono::milliseconds> timeout() {
    if (coin()) return std::nullopt;
    return some_timeout();
  }
  std::chrono::milliseconds some_timeout() {
    using std::chrono::milliseconds;
    return one_of<milliseconds>({milliseconds::min(), milliseconds(-5), milliseconds(-1), milliseconds(0),
                                 milliseconds(1000), kMostTimeout, kMostTimeout + milliseconds(1),
                                 milliseconds::max()});
  }
  std::chrono::nanoseconds duration() {
    using std::chrono::nanoseconds;
    return one_of<nanoseconds>({nanoseconds::min(), nanoseconds(-1), nanoseconds(0), nanoseconds(1),
                                std::chrono::hours(1), nanoseconds::max()});
  }

 private:
  std::mt19937 random_;
};

inline bool right(std::optional<std::chrono::milliseconds> timeout) {
  return !timeout || (timeout->count() >= 0 && *timeout <= kMostTimeout);
}

// A call of a public function, or of several, with drawn arguments.
struct Try {
  std::vector<std::string> functions;  // as headers have them: "weft::Communicator::run"
  std::function<void(Draws&)> call;    // expects what must come
  int times = 60;
};

std::vector<Try> tries_of_communicators();
std::vector<Try> tries_of_queues();
std::vector<Try> tries_of_pgas();
std::vector<Try> tries_of_transfers();
std::vector<Try> tries_of_kv();
std::vector<Try> tries_of_gpus();
std::vector<Try> tries_of_values();

// The result is an error that blames the arguments and says something; nothing was done.
template <class R>
testing::AssertionResult refused(const R& result) {
  if (result) return testing::AssertionFailure() << "a call with wrong arguments was ok";
  const Error& error = result.error();
  if (error.blame != Blame::kInput || error.message.empty())
    return testing::AssertionFailure() << "blame " << static_cast<int>(error.blame) << ": " << error.message;
  return testing::AssertionSuccess();
}

}  // namespace weft::tests
