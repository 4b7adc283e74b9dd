// Ranks that call different things, as long as you like.
//   weft_disagreement [--cases N] [--seed S] [--over threads|shm|tcp|shm+tcp|ucx] [--deaths 1] [--trees 1]
//                   [--jobs N]
// --deaths 1: ranks are processes, which are killed, exit, leave, abort or are stopped at any step, and recover.
// --trees 1: ranks are processes that run programs of communicators, of which some ranks are killed: tree.h.
// --jobs N: processes that share the cases (8).
// Exit: 0 all answers were allowed; 1 one was not, one hung, or something was left behind: a line says which, with the
// seed; 2 bad usage.
#include <fmt/format.h>

#include <cstring>
#include <map>

#include "base/text.h"
#include "net/ucx/ucx.h"
#include "tests/disagreement/many.h"

namespace {

using namespace weft::disagreement;

int usage(const char* argument) {
  fmt::print(stderr,
             "weft_disagreement: {}: --cases N, --seed S, --over threads|shm|tcp|shm+tcp|ucx, --keep-going 1, "
             "--deaths 1, --trees 1, --jobs N\n",
             argument);
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  Many many{.over = {Over::kThreads, Over::kShm, Over::kTcp, Over::kMixed}, .jobs = 8};
  std::int64_t keep_going = 0, deaths = 0, trees = 0, jobs = many.jobs;
  if (weft::net::ucx::available()) many.over.push_back(Over::kUcx);
  const std::map<std::string_view, std::int64_t*> numbers{{"--cases", &many.cases},      {"--seed", &many.seed},
                                                          {"--keep-going", &keep_going}, {"--deaths", &deaths},
                                                          {"--trees", &trees},           {"--jobs", &jobs}};
  for (int i = 1; i < argc; i += 2) {
    if (i + 1 == argc) return usage(argv[i]);
    if (std::strcmp(argv[i], "--over") == 0) {
      const auto* const known = std::find_if(std::begin(kNames), std::end(kNames),
                                             [&](const char* name) { return std::strcmp(name, argv[i + 1]) == 0; });
      if (known == std::end(kNames)) return usage(argv[i + 1]);
      many.over = {static_cast<Over>(known - std::begin(kNames))};
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
  many.deaths = deaths != 0, many.trees = trees != 0, many.keep_going = keep_going != 0,
  many.jobs = static_cast<int>(std::min<std::int64_t>(jobs, 256));
  if (many.deaths || many.trees) std::erase(many.over, Over::kThreads);
  if (many.over.empty()) return usage("--deaths: threads do not die alone");
  return live_many(many) ? 0 : 1;
}
