#include "tests/ptx/races.h"

#include <algorithm>

namespace weft::ptx {

Races::Thread Races::begin(std::size_t threads) {
  const auto first = static_cast<Thread>(threads_.size());
  threads_.resize(threads_.size() + threads, One{ended_, 1});
  return first;
}

void Races::end(Thread first, std::size_t threads) {
  auto all = std::make_shared<Clock>(*ended_);
  const Clock* last = nullptr;
  for (Thread t = first; t < first + threads; ++t) {
    if (threads_[t].knows.get() != last) join(*all, *(last = threads_[t].knows.get()));
    add(*all, t);
  }
  ended_ = std::move(all);
}

void Races::clear() { *this = Races(); }

std::optional<Races::Race> Races::read(Thread thread, std::uintptr_t at, std::size_t bytes, bool strong) {
  const Epoch now{thread, threads_[thread].now, strong};
  for (std::uintptr_t a = at; a < at + bytes; ++a) {
    Byte& b = byte(a);
    if (!(strong && b.write.strong) && !before(b.write, thread)) return Race{b.write.thread, b.write.strong, true};
    Epoch* place = &b.reads[a % b.reads.size()];
    for (Epoch& r : b.reads)
      if (r.time == 0 || r.thread == thread || before(r, thread)) {
        place = &r;
        break;
      }
    *place = now;
  }
  return {};
}

std::optional<Races::Race> Races::write(Thread thread, std::uintptr_t at, std::size_t bytes, bool strong) {
  const Epoch now{thread, threads_[thread].now, strong};
  for (std::uintptr_t a = at; a < at + bytes; ++a) {
    Byte& b = byte(a);
    if (!(strong && b.write.strong) && !before(b.write, thread)) return Race{b.write.thread, b.write.strong, true};
    for (const Epoch& r : b.reads)
      if (!(strong && r.strong) && !before(r, thread)) return Race{r.thread, r.strong, false};
    b.reads = {};
    b.write = now;
  }
  return {};
}

void Races::release(Thread thread, std::uintptr_t at, bool joins) {
  auto clock = std::make_shared<Clock>(*threads_[thread].knows);
  add(*clock, thread);
  if (const auto there = released_.find(at); joins && there != released_.end()) join(*clock, *there->second);
  released_[at] = std::move(clock);
  ++threads_[thread].now;
}

void Races::acquire(Thread thread, std::uintptr_t at) {
  const auto there = released_.find(at);
  if (there == released_.end()) return;
  auto clock = std::make_shared<Clock>(*threads_[thread].knows);
  join(*clock, *there->second);
  threads_[thread].knows = std::move(clock);
}

void Races::meet(const std::vector<Thread>& threads) {
  auto all = std::make_shared<Clock>();
  const Clock* last = nullptr;
  for (const Thread t : threads) {
    if (threads_[t].knows.get() != last) join(*all, *(last = threads_[t].knows.get()));
    add(*all, t);
  }
  for (const Thread t : threads) {
    threads_[t].knows = all;
    ++threads_[t].now;
  }
}

void Races::forget_bytes(std::uintptr_t at, std::size_t bytes) {
  for (std::uintptr_t a = at; a < at + bytes; ++a) byte(a) = {};
}

bool Races::before(const Epoch& epoch, Thread thread) const {
  if (epoch.time == 0 || epoch.thread == thread) return true;
  const Clock& knows = *threads_[thread].knows;
  return epoch.thread < knows.size() && epoch.time <= knows[epoch.thread];
}

Races::Byte& Races::byte(std::uintptr_t at) {
  const std::uintptr_t page = at / kPage + 1;
  if (page != last_page_) {
    auto& found = pages_[page];
    if (!found) found = std::make_unique<Page>();
    last_page_ = page, last_ = found.get();
  }
  return (*last_)[at % kPage];
}

void Races::join(Clock& into, const Clock& other) {
  if (into.size() < other.size()) into.resize(other.size());
  for (std::size_t i = 0; i < other.size(); ++i) into[i] = std::max(into[i], other[i]);
}

void Races::add(Clock& into, Thread thread) const {
  if (into.size() <= thread) into.resize(threads_.size());
  into[thread] = std::max(into[thread], threads_[thread].now);
}

}  // namespace weft::ptx
