#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

namespace weft::ptx {

// Finds accesses to the same byte by two threads, one of them a store, one of them plain, that nothing orders: neither
// a barrier nor a release that an acquire has seen. By vector clocks, as FastTrack does (Flanagan and Freund, PLDI
// 2009), but a byte remembers four of its readers at most. Thread numbers count up until `clear`.
class Races {
 public:
  using Thread = std::uint32_t;

  // So many further threads, ordered behind all that has ended.
  Thread begin(std::size_t threads);
  void end(Thread first, std::size_t threads);
  void clear();

  // An earlier access that nothing orders with this one.
  struct Race {
    Thread thread;
    bool strong, wrote;
  };
  // `strong`: volatile, relaxed or an atomic.
  std::optional<Race> read(Thread thread, std::uintptr_t at, std::size_t bytes, bool strong);
  std::optional<Race> write(Thread thread, std::uintptr_t at, std::size_t bytes, bool strong);
  // `joins`: an atomic, which keeps what others have released there.
  void release(Thread thread, std::uintptr_t at, bool joins);
  void acquire(Thread thread, std::uintptr_t at);
  // A plain or relaxed store there: an acquire of it acquires nothing.
  void forget(std::uintptr_t at) { released_.erase(at); }
  void meet(const std::vector<Thread>& threads);
  void forget_bytes(std::uintptr_t at, std::size_t bytes);  // memory that is used anew

 private:
  using Clock = std::vector<std::uint32_t>;  // by thread; absent: 0
  using Shared = std::shared_ptr<const Clock>;
  struct Epoch {
    Thread thread = 0;
    std::uint32_t time = 0;  // 0: never
    bool strong = false;
  };
  struct Byte {
    Epoch write;
    std::array<Epoch, 4> reads;
  };
  static constexpr std::size_t kPage = 256;
  using Page = std::array<Byte, kPage>;

  struct One {
    Shared knows;
    std::uint32_t now = 1;
  };
  bool before(const Epoch& epoch, Thread thread) const;
  Byte& byte(std::uintptr_t at);
  static void join(Clock& into, const Clock& other);
  void add(Clock& into, Thread thread) const;

  std::vector<One> threads_;
  Shared ended_ = std::make_shared<Clock>();
  std::unordered_map<std::uintptr_t, Shared> released_;
  std::unordered_map<std::uintptr_t, std::unique_ptr<Page>> pages_;
  std::uintptr_t last_page_ = 0;
  Page* last_ = nullptr;
};

}  // namespace weft::ptx
