// Ranks that call different things, as long as you like.
//   weft_disagreement [--cases N] [--seed S] [--over threads|shm|tcp|shm+tcp|ucx] [--deaths 1]
// --deaths 1: ranks are processes, which are killed, exit, leave, abort or are stopped at any step, and recover.
// Exit: 0 all answers were allowed; 1 one was not, a line says which, with its seed; 2 bad usage.
#include <fmt/format.h>

#include <cstring>
#include <map>

#include "base/text.h"
#include "net/ucx/ucx.h"
#include "tests/disagreement/case.h"

namespace {

using namespace weft::disagreement;

int usage(const char* argument) {
  fmt::print(stderr,
             "weft_disagreement: {}: --cases N, --seed S, --over threads|shm|tcp|shm+tcp|ucx, --keep-going 1, "
             "--deaths 1\n",
             argument);
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  std::int64_t cases = 10000, seed = 1, keep_going = 0, deaths = 0;
  std::vector<Over> over = {Over::kThreads, Over::kShm, Over::kTcp, Over::kMixed};
  if (weft::net::ucx::available()) over.push_back(Over::kUcx);
  const std::map<std::string_view, std::int64_t*> numbers{
      {"--cases", &cases}, {"--seed", &seed}, {"--keep-going", &keep_going}, {"--deaths", &deaths}};
  for (int i = 1; i < argc; i += 2) {
    if (i + 1 == argc) return usage(argv[i]);
    if (std::strcmp(argv[i], "--over") == 0) {
      const auto* const known = std::find_if(std::begin(kNames), std::end(kNames),
                                             [&](const char* name) { return std::strcmp(name, argv[i + 1]) == 0; });
      if (known == std::end(kNames)) return usage(argv[i + 1]);
      over = {static_cast<Over>(known - std::begin(kNames))};
      continue;
    }
    const auto found = numbers.find(argv[i]);
    if (found == numbers.end()) return usage(argv[i]);
    const auto value = weft::parse_integer(argv[i], argv[i + 1], 0, std::int64_t{1} << 50);
    if (!value) {
      fmt::print(stderr, "weft_disagreement: {}\n", value.error().message);
      return 2;
    }
    *found->second = *value;
  }
  if (deaths != 0) std::erase(over, Over::kThreads);
  if (over.empty()) return usage("--deaths: threads do not die alone");
  std::int64_t wrong = 0, differing = 0, mismatched = 0, explained = 0;
  std::map<std::string, int> by_change;
  for (std::int64_t i = 0; i < cases; ++i) {
    const auto drawn = static_cast<std::uint64_t>(seed + i);
    const Over transport = over[static_cast<std::size_t>(i) % over.size()];
    const Case c = deaths != 0 ? Case::draw_with_deaths(drawn, transport) : Case::draw(drawn, transport);
    const Verdict v = deaths != 0 ? live_in_processes(c) : live(c);
    differing += c.agrees ? 0 : 1, mismatched += v.mismatched ? 1 : 0, explained += v.explained ? 1 : 0;
    if (v.wrong.empty()) continue;
    ++wrong, ++by_change[c.change];
    fmt::print("{}\n  wrong: {}\n", c.text(), v.wrong);
    for (std::size_t r = 0; r < v.said.size(); ++r) fmt::print("  rank {} said: {}\n", r, v.said[r]);
    std::fflush(stdout);
    if (keep_going == 0) return 1;
  }
  fmt::print("{} cases from seed {}: {} differ, {} kMismatch, {} with both calls; {} wrong\n", cases, seed, differing,
             mismatched, explained, wrong);
  for (const auto& [change, count] : by_change) fmt::print("  {}: {}\n", change.empty() ? "nothing" : change, count);
  return wrong == 0 ? 0 : 1;
}
