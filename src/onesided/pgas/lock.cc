#include "onesided/pgas/lock.h"

#include "onesided/pgas/remote.h"

namespace weft::pgas {
namespace {

using Word = std::uint64_t;
constexpr Word kTicket = Word{1} << 32;
constexpr Word kLower = kTicket - 1;

Word drawn(Word word) { return word >> 32; }
Word served(Word word) { return word & kLower; }

template <AtomicOp op>
Word on_home(const Space& space, const char* call, long* lock, Word operand = 0, Word compare = 0) {
  static_assert(sizeof(long) == sizeof(Word));
  return atomic<op>(space, call, reinterpret_cast<const Word*>(lock), operand, compare, 0);
}

}  // namespace

void set_lock(const Space& space, const Watch& watch, const char* call, long* lock) {
  const Word ticket = drawn(on_home<AtomicOp::kAdd>(space, call, lock, kTicket));
  Idler idler(space, watch, call);
  while (served(on_home<AtomicOp::kFetch>(space, call, lock)) != ticket) idler.pause();
}

bool try_lock(const Space& space, const char* call, long* lock) {
  const Word word = on_home<AtomicOp::kFetch>(space, call, lock);
  if (drawn(word) != served(word)) return false;
  return on_home<AtomicOp::kCompareSwap>(space, call, lock, word + kTicket, word) == word;
}

void clear_lock(const Space& space, const char* call, long* lock) {
  quiet(space);  // what was done under the lock comes before its release
  for (;;) {
    const Word word = on_home<AtomicOp::kFetch>(space, call, lock);
    if (drawn(word) == served(word)) space.misuse(call, "the lock is not held");
    const Word next = (served(word) + 1) & kLower;
    const Word after = drawn(word) == next ? 0 : (word & ~kLower) | next;
    if (on_home<AtomicOp::kCompareSwap>(space, call, lock, after, word) == word) return;
  }
}

}  // namespace weft::pgas
