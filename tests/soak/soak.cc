// Makes checked collectives of random kind, size, type, operation and rank subset, over all transports, while ranks are
// killed, stopped and added. Not a unit test: as long as you like.
//   soak [--calls N] [--seconds N] [--seed N] [--per-episode N]
// Exit: 0 all were right, 1 something was wrong (a line says what, with the seed of its episode), 2 bad usage.
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <map>
#include <string_view>

#include "base/text.h"
#include "tests/soak/episode.h"

namespace {

using Clock = std::chrono::steady_clock;

struct Options {
  std::int64_t calls = 1000000, seconds = 0, seed = 1, per_episode = 3000;
};

int read(int argc, char** argv, Options& options) {
  constexpr std::int64_t kMost = std::int64_t{1} << 50;
  const std::map<std::string_view, std::int64_t*> known{{"--calls", &options.calls},
                                                        {"--seconds", &options.seconds},
                                                        {"--seed", &options.seed},
                                                        {"--per-episode", &options.per_episode}};
  for (int i = 1; i < argc; i += 2) {
    const auto option = known.find(argv[i]);
    if (option == known.end() || i + 1 == argc) {
      fmt::print(stderr, "soak: {}: --calls, --seconds, --seed or --per-episode and a number\n", argv[i]);
      return 2;
    }
    const auto value = weft::parse_integer(argv[i], argv[i + 1], 1, kMost);
    if (!value) {
      fmt::print(stderr, "soak: {}\n", value.error().message);
      return 2;
    }
    *option->second = *value;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (const int code = read(argc, argv, options); code != 0) return code;
  const auto start = Clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  std::int64_t checked = 0, shrunk = 0, grown = 0, episodes = 0;
  while (checked < options.calls && (options.seconds == 0 || seconds() < static_cast<double>(options.seconds))) {
    const auto seed = static_cast<std::uint64_t>(options.seed + episodes++);
    const auto episode = weft::soak::Episode::draw(seed, options.per_episode);
    const auto outcome = weft::soak::run(episode);
    checked += outcome.checked;
    shrunk += outcome.shrunk;
    grown += outcome.grown;
    fmt::print("{}; {} checked, {} shrunk, {} grown\n", episode.text(), outcome.checked, outcome.shrunk, outcome.grown);
    std::fflush(stdout);
    if (!outcome.wrong.empty()) {
      fmt::print(stderr, "soak: {}: {}\n", episode.text(), outcome.wrong);
      return 1;
    }
  }
  fmt::print("{} collectives were right in {} jobs, {} times after ranks had died, {} ranks joined; {:.0f} s\n",
             checked, episodes, shrunk, grown, seconds());
  return 0;
}
