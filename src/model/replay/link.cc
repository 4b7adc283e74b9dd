#include "model/replay/link.h"

#include <algorithm>
#include <map>

#include "onesided/pgas/wait.h"

namespace weft::replay {
namespace {

using pgas::Event;
using Kind = Event::Kind;

// A write to one word, and where in its rank's program it stands.
struct Write {
  Duration begin;
  Rank writer = -1;
  std::size_t index = 0;
  const Event* event = nullptr;
};

struct Word {
  std::vector<Write> writes;  // by time
  std::size_t consumed = 0;   // by waits so far
};

using WordKey = std::pair<Rank, pgas::Place>;

bool writes_word(const Event& e) {
  if (e.kind == Kind::kPut) return e.bytes == 4 || e.bytes == 8;
  return e.kind == Kind::kPutSignal || e.kind == Kind::kAtomic || e.kind == Kind::kFetch;
}

bool accepts(const Event& wait, const Event& write) {
  if (!write.valued) return false;
  const auto compare = [&](auto sample) {
    using T = decltype(sample);
    return pgas::holds(static_cast<T>(write.value), wait.compare, static_cast<T>(wait.value));
  };
  return wait.bytes == 4 ? compare(std::int32_t{}) : compare(std::int64_t{});
}

std::map<WordKey, Word> words_of(const pgas::Program& program) {
  std::map<WordKey, Word> words;
  for (std::size_t r = 0; r < program.size(); ++r)
    for (std::size_t i = 0; i < program[r].size(); ++i)
      if (const Event& e = program[r][i]; writes_word(e))
        words[{e.peer, e.place}].writes.push_back({e.begin, static_cast<Rank>(r), i, &e});
  for (auto& [key, word] : words)
    std::stable_sort(word.writes.begin(), word.writes.end(),
                     [](const Write& a, const Write& b) { return a.begin < b.begin; });
  return words;
}

// The writes that ended this wait, in order of time.
std::span<const Write> ended_by(Word& word, const Event& wait) {
  const std::size_t first = word.consumed;
  std::size_t end = first;
  for (; end < word.writes.size() && word.writes[end].begin <= wait.end; ++end) {
    if (!accepts(wait, *word.writes[end].event)) continue;
    ++end;
    break;
  }
  word.consumed = end;
  return {word.writes.data() + first, end - first};
}

}  // namespace

LinkedProgram link(const pgas::Program& program) {
  LinkedProgram linked;
  for (const auto& events : program) {
    auto& steps = linked.ranks.emplace_back();
    Duration before = events.empty() ? Duration() : events.front().begin;
    for (const Event& e : events) {
      steps.push_back({.event = &e, .gap = std::max(Duration(), e.begin - before)});
      before = e.end;
    }
  }
  auto words = words_of(program);
  struct Pending {
    Step* wait;
    const Write* write;
  };
  std::vector<Pending> pending;
  for (std::size_t r = 0; r < program.size(); ++r)
    for (Step& step : linked.ranks[r]) {
      if (step.event->kind != Kind::kWait) continue;
      const auto word = words.find({static_cast<Rank>(r), step.event->place});
      if (word == words.end()) {
        ++linked.unexplained;
        continue;
      }
      for (const Write& w : ended_by(word->second, *step.event)) {
        if (w.writer == static_cast<Rank>(r)) continue;  // its own: the order of the program is enough
        linked.ranks[static_cast<std::size_t>(w.writer)][w.index].announced = true;
        pending.push_back({&step, &w});
      }
    }
  // Announced writes of one rank to another are numbered as they stand in the program.
  std::map<const Event*, std::int64_t> numbers;
  for (const auto& steps : linked.ranks) {
    std::map<Rank, std::int64_t> announced;
    for (const Step& step : steps)
      if (step.announced) numbers[step.event] = ++announced[step.event->peer];
  }
  for (const auto& [wait, write] : pending) wait->needs.push_back({write->writer, numbers.at(write->event)});
  return linked;
}

}  // namespace weft::replay
