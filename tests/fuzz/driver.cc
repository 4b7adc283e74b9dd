// A fuzzer for compilers without libFuzzer: g++ marks every branch (-fsanitize-coverage=trace-pc) and comparison, and
// this file mutates inputs and keeps those that reach something new. It takes libFuzzer's arguments that matter:
//
//   fuzz_NAME [-runs=N] [-max_total_time=S] [-seed=N] [-max_len=N] [-timeout=S] [-artifact_prefix=DIR/] CORPUS... |
//   FILE
//
// Files alone are run once each. An input that ends the process, or takes longer than -timeout seconds, is left as
// crash-HASH or timeout-HASH. Exit: 0 nothing was found; the sanitizer's status otherwise.

#include <sanitizer/common_interface_defs.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

// Written by the instrumented code: how often each pair of branches was taken, and pairs of integers that it compared.
constexpr std::size_t kEdges = 1 << 16, kPairs = 256;
std::array<std::uint8_t, kEdges> edges;
std::uintptr_t last_place = 0;
struct Pair {
  std::uint64_t a, b;
};
std::array<Pair, kPairs> pairs;
std::size_t pairs_seen = 0;

inline void compared(std::uint64_t a, std::uint64_t b) {
  if (a != b) pairs[pairs_seen++ % kPairs] = {a, b};
}

}  // namespace

extern "C" {
void __sanitizer_cov_trace_pc() {
  const auto place = reinterpret_cast<std::uintptr_t>(__builtin_return_address(0));
  std::uint8_t& count = edges[(place ^ last_place) % kEdges];
  if (count < 255) ++count;
  last_place = place >> 1;
}
void __sanitizer_cov_trace_cmp1(std::uint8_t, std::uint8_t) {}
void __sanitizer_cov_trace_const_cmp1(std::uint8_t, std::uint8_t) {}
void __sanitizer_cov_trace_cmp2(std::uint16_t a, std::uint16_t b) { compared(a, b); }
void __sanitizer_cov_trace_const_cmp2(std::uint16_t a, std::uint16_t b) { compared(a, b); }
void __sanitizer_cov_trace_cmp4(std::uint32_t a, std::uint32_t b) { compared(a, b); }
void __sanitizer_cov_trace_const_cmp4(std::uint32_t a, std::uint32_t b) { compared(a, b); }
void __sanitizer_cov_trace_cmp8(std::uint64_t a, std::uint64_t b) { compared(a, b); }
void __sanitizer_cov_trace_const_cmp8(std::uint64_t a, std::uint64_t b) { compared(a, b); }
void __sanitizer_cov_trace_cmpf(float, float) {}
void __sanitizer_cov_trace_cmpd(double, double) {}
void __sanitizer_cov_trace_switch(std::uint64_t value, std::uint64_t* cases) {
  for (std::uint64_t i = 0; i < cases[0] && i < 8; ++i) compared(cases[2 + i], value);
}
}

namespace {

using Clock = std::chrono::steady_clock;

struct Options {
  long runs = -1;
  double seconds = 0;
  unsigned seed = 1;
  std::size_t longest = 4096;
  unsigned timeout = 25;
  std::string artifacts;
  std::vector<std::string> paths;
};

std::string current;  // the input under way, for what ends the process
Options options;

void leave(const char* kind) {
  const std::string name = options.artifacts + kind + "-" + std::to_string(std::hash<std::string>()(current));
  if (std::FILE* const file = std::fopen(name.c_str(), "wb")) {
    std::fwrite(current.data(), 1, current.size(), file);
    std::fclose(file);
    std::fprintf(stderr, "the input is in %s\n", name.c_str());
  }
}

void run(const std::string& input) {
  current = input;
  alarm(options.timeout);
  // A copy of its own size, so that reading one byte too many is found.
  const std::vector<std::uint8_t> bytes(input.begin(), input.end());
  LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  alarm(0);
}

class Fuzzer {
 public:
  explicit Fuzzer(std::vector<std::string> corpus) : random_(options.seed) {
    for (std::string& text : corpus) {
      collect_words(text);
      if (text.size() <= 4 * options.longest && try_input(text)) continue;
      inputs_.push_back(std::move(text));
    }
    if (inputs_.empty()) inputs_.push_back("");
  }

  void explore() {
    const auto begin = Clock::now();
    auto said = begin;
    for (; options.runs < 0 || done_ < options.runs;) {
      if (done_ % 64 == 0) {
        const auto now = Clock::now();
        const double seconds = std::chrono::duration<double>(now - begin).count();
        if (options.seconds > 0 && seconds >= options.seconds) break;
        if (now - said > std::chrono::seconds(30)) {
          say(seconds);
          said = now;
        }
      }
      // Half of the time what was found last: it leads on.
      const std::size_t n = inputs_.size();
      const std::size_t from = draw(2) == 0 ? 0 : n - std::min<std::size_t>(n, 16);
      std::string text = inputs_[from + draw(n - from)];
      for (std::size_t edit = 0, edits = 1 + draw(5); edit < edits; ++edit) mutate(text);
      if (text.size() > options.longest) text.resize(options.longest);
      try_input(text);
    }
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    say(seconds);
    std::fprintf(stderr, "Done %ld runs in %.0f second(s)\n", done_, seconds);
  }

 private:
  std::size_t draw(std::size_t below) { return below == 0 ? 0 : random_() % below; }

  void say(double seconds) const {
    std::fprintf(stderr, "#%ld cov: %zu corp: %zu exec/s: %.0f\n", done_, covered_, inputs_.size(),
                 seconds > 0 ? static_cast<double>(done_) / seconds : 0);
  }

  // Runs it; true, and kept, if it reached what no input before had reached as often.
  bool try_input(const std::string& text) {
    edges.fill(0);
    last_place = 0;
    run(text);
    ++done_;
    bool fresh = false;
    for (std::size_t at = 0; at < kEdges; at += 8) {
      std::uint64_t eight;
      std::memcpy(&eight, &edges[at], 8);
      if (eight == 0) continue;
      for (std::size_t i = at; i < at + 8; ++i) {
        if (edges[i] == 0) continue;
        const auto often = static_cast<std::uint8_t>(1u << std::min(7, 31 - __builtin_clz(edges[i])));  // 1, 2, 4, …
        if ((reached_[i] & often) != 0) continue;
        if (reached_[i] == 0) ++covered_;
        reached_[i] |= often;
        fresh = true;
      }
    }
    if (fresh) inputs_.push_back(text);
    return fresh;
  }

  void collect_words(const std::string& text) {
    std::size_t begin = 0;
    const auto is_word = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_' || c == '-' || c >= 128; };
    for (std::size_t i = 0; i <= text.size(); ++i) {
      if (i < text.size() && is_word(static_cast<unsigned char>(text[i]))) continue;
      if (i > begin && i - begin < 40 && words_.size() < 5000) words_.push_back(text.substr(begin, i - begin));
      begin = i + 1;
    }
    std::sort(words_.begin(), words_.end());
    words_.erase(std::unique(words_.begin(), words_.end()), words_.end());
  }

  void mutate(std::string& text) {
    static const std::array<std::string, 16> kNumbers = {"0",
                                                         "-1",
                                                         "1",
                                                         "4294967296",
                                                         "9223372036854775807",
                                                         "9223372036854775808",
                                                         "18446744073709551615",
                                                         "1e308",
                                                         "1e-320",
                                                         "nan",
                                                         "2147483647",
                                                         "-9223372036854775808",
                                                         "0x7f",
                                                         "1e400",
                                                         "65536",
                                                         "0.5"};
    const std::size_t at = draw(text.size() + 1);
    switch (draw(11)) {
      case 0:
        if (at < text.size()) text[at] = static_cast<char>(random_() % 256);
        break;
      case 1:
        if (at < text.size()) text[at] = static_cast<char>(text[at] ^ (1 << draw(8)));
        break;
      case 2:
        text.erase(at, 1 + draw(1 + draw(64)));
        break;
      case 3:
        text.insert(at, text.substr(draw(text.size() + 1), 1 + draw(1 + draw(128))));
        break;
      case 4:
        text.insert(at, 1, static_cast<char>(random_() % 256));
        break;
      case 5:
        if (!words_.empty()) text.insert(at, words_[draw(words_.size())]);
        break;
      case 6: {  // a number becomes another
        const std::size_t digit = text.find_first_of("0123456789", at);
        if (digit == std::string::npos) break;
        std::size_t end = digit;
        while (end < text.size() && std::isdigit(static_cast<unsigned char>(text[end])) != 0) ++end;
        text.replace(digit, end - digit, kNumbers[draw(kNumbers.size())]);
        break;
      }
      case 7: {  // a word becomes another
        if (words_.empty()) break;
        const std::string& old = words_[draw(words_.size())];
        const std::size_t found = text.find(old, at);
        if (found != std::string::npos) text.replace(found, old.size(), words_[draw(words_.size())]);
        break;
      }
      case 8: {  // the head of this one, the tail of another
        const std::string& other = inputs_[draw(inputs_.size())];
        text = text.substr(0, at) + other.substr(draw(other.size() + 1));
        break;
      }
      case 9:
        text.resize(at);
        break;
      case 10: {  // what the code compared with
        const Pair& pair = pairs[draw(std::min(pairs_seen + 1, kPairs))];
        const std::size_t width = std::size_t{1} << draw(4);
        const std::string from(reinterpret_cast<const char*>(&pair.a), width);
        const std::size_t found = text.find(from, at);
        if (found != std::string::npos) text.replace(found, width, reinterpret_cast<const char*>(&pair.b), width);
        break;
      }
    }
  }

  std::mt19937_64 random_;
  std::vector<std::string> inputs_, words_;
  std::array<std::uint8_t, kEdges> reached_{};
  std::size_t covered_ = 0;
  long done_ = 0;
};

std::string text_of(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

bool parse(const std::string& argument) {
  const std::size_t equal = argument.find('=');
  const std::string name = argument.substr(0, equal);
  const std::string value = equal == std::string::npos ? "" : argument.substr(equal + 1);
  const double number = std::strtod(value.c_str(), nullptr);
  if (name == "-runs")
    options.runs = static_cast<long>(number);
  else if (name == "-max_total_time")
    options.seconds = number;
  else if (name == "-seed")
    options.seed = static_cast<unsigned>(number);
  else if (name == "-max_len")
    options.longest = static_cast<std::size_t>(number);
  else if (name == "-timeout")
    options.timeout = static_cast<unsigned>(number);
  else if (name == "-artifact_prefix")
    options.artifacts = value;
  else if (argument.front() == '-')
    return false;
  else
    options.paths.push_back(argument);
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i)
    if (!parse(argv[i])) {
      std::fprintf(stderr, "%s: unknown argument %s\n", argv[0], argv[i]);
      return 2;
    }
  __sanitizer_set_death_callback([] { leave("crash"); });
  signal(SIGABRT, [](int) {
    leave("crash");
    signal(SIGABRT, SIG_DFL);
    raise(SIGABRT);
  });
  signal(SIGALRM, [](int) {
    leave("timeout");
    _exit(70);
  });
  std::vector<std::string> corpus;
  bool folder = options.paths.empty();
  for (const std::string& path : options.paths) {
    if (!std::filesystem::is_directory(path)) {
      corpus.push_back(text_of(path));
      continue;
    }
    folder = true;
    for (const auto& entry : std::filesystem::directory_iterator(path)) corpus.push_back(text_of(entry.path()));
  }
  std::sort(corpus.begin(), corpus.end());
  if (folder) {
    Fuzzer(std::move(corpus)).explore();
  } else {
    for (const std::string& text : corpus) run(text);
  }
}
