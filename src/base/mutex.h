#pragma once

#include <condition_variable>
#include <mutex>
#include <utility>

// Clang's thread-safety analysis (scripts/check-clang) checks what these say of mutexes. Other compilers read nothing
// of it.
#ifdef __clang__
#define WEFT_THREAD_SAFETY(...) __attribute__((__VA_ARGS__))
#else
#define WEFT_THREAD_SAFETY(...)
#endif
// A member that is used only where `mutex` is held.
#define WEFT_GUARDED_BY(mutex) WEFT_THREAD_SAFETY(guarded_by(mutex))
// A function, or a lambda, that is called only where the mutexes are held.
#define WEFT_REQUIRES(...) WEFT_THREAD_SAFETY(requires_capability(__VA_ARGS__))
// For a function whose locking the analysis cannot follow; a comment beside it says why it is right.
#define WEFT_UNCHECKED_LOCKING WEFT_THREAD_SAFETY(no_thread_safety_analysis)

namespace weft {

// std::mutex, as a capability that the analysis knows.
class WEFT_THREAD_SAFETY(capability("mutex")) Mutex {
 public:
  void lock() WEFT_THREAD_SAFETY(acquire_capability()) { mutex_.lock(); }
  void unlock() WEFT_THREAD_SAFETY(release_capability()) { mutex_.unlock(); }
  bool try_lock() WEFT_THREAD_SAFETY(try_acquire_capability(true)) { return mutex_.try_lock(); }

 private:
  friend class MutexLock;
  std::mutex mutex_;
};

// Holds a mutex as long as it lives.
class WEFT_THREAD_SAFETY(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) WEFT_THREAD_SAFETY(acquire_capability(mutex)) : lock_(mutex.mutex_) {}
  // Takes over a mutex that the caller has locked.
  MutexLock(Mutex& mutex, std::adopt_lock_t) WEFT_THREAD_SAFETY(requires_capability(mutex))
      : lock_(mutex.mutex_, std::adopt_lock) {}
  ~MutexLock() WEFT_THREAD_SAFETY(release_capability()) {}
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  // Waits as std::condition_variable does; the mutex is held when it returns, and while `until` is asked.
  template <class Until>
  void wait(std::condition_variable& changed, Until&& until) {
    changed.wait(lock_, std::forward<Until>(until));
  }
  template <class Duration, class Until>
  bool wait_for(std::condition_variable& changed, const Duration& longest, Until&& until) {
    return changed.wait_for(lock_, longest, std::forward<Until>(until));
  }

 private:
  std::unique_lock<std::mutex> lock_;
};

}  // namespace weft
