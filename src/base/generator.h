#pragma once

#include <coroutine>
#include <utility>

namespace weft {

// A lazy sequence: a coroutine that `co_yield`s values of T one at a time.
// Owns: its coroutine frame. Thread: one at a time; may move between threads while it is not running.
template <class T>
class Generator {
 public:
  struct promise_type {
    const T* value = nullptr;
    Generator get_return_object() { return Generator(std::coroutine_handle<promise_type>::from_promise(*this)); }
    std::suspend_always initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    // A yielded temporary lives until the coroutine is resumed, so its address is enough.
    std::suspend_always yield_value(const T& v) noexcept {
      value = &v;
      return {};
    }
    void return_void() noexcept {}
    void unhandled_exception() { throw; }  // out of next(); the sequence has ended
  };

  Generator() = default;
  explicit Generator(std::coroutine_handle<promise_type> handle) : handle_(handle) {}
  Generator(Generator&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Generator& operator=(Generator&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Generator() {
    if (handle_) handle_.destroy();
  }

  // Runs to the next value. Returns null at the end; the pointer is valid until the next call.
  const T* next() {
    if (!handle_ || handle_.done()) return nullptr;
    handle_.resume();
    return handle_.done() ? nullptr : handle_.promise().value;
  }

 private:
  std::coroutine_handle<promise_type> handle_;
};

}  // namespace weft
