#include "tests/disagreement/many.h"

#include "tests/disagreement/tree.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <new>

#include "tests/processes.h"

namespace weft::disagreement {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kMostJobs = 256;
constexpr std::int64_t kBlock = 50;             // cases that a worker takes at once
constexpr std::int64_t kWarmUp = 200;           // cases of a worker after which it must not grow
constexpr std::int64_t kGrowth_kib = 64 << 10;  // of a worker's memory that is no leak: arenas of as many threads

// A page that the workers and this process share.
struct Shared {
  struct Worker {
    std::atomic<std::int64_t> seed, began_ms;  // of the case that it lives through
    std::atomic<std::int64_t> done, descriptors_before, descriptors_after, kib_before, kib_after;
    std::atomic<bool> has_children;  // at its end
  };
  std::atomic<std::int64_t> next, wrong, differing, mismatched, explained, by_timeout;
  std::atomic<bool> stop;
  std::array<Worker, kMostJobs> workers;
};

std::int64_t now_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now().time_since_epoch()).count();
}

std::int64_t entries_of(const char* folder) {
  std::error_code ignored;
  return std::distance(std::filesystem::directory_iterator(folder, ignored), {});
}

std::int64_t resident_kib() {
  std::int64_t pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

// Files in shared memory that ranks of process `pid` have made and not removed.
std::vector<std::string> left_in_shared_memory(pid_t pid) {
  std::vector<std::string> left;
  const std::string mine = fmt::format("-{}-", pid);
  std::error_code ignored;
  for (const auto& file : std::filesystem::directory_iterator("/dev/shm", ignored))
    if (const std::string name = file.path().filename(); name.starts_with("weft-") && name.find(mine) != name.npos)
      left.push_back(name);
  return left;
}

class Worker {
 public:
  Worker(const Many& many, Shared& shared, int number)
      : many_(many), shared_(shared), self_(shared.workers[static_cast<std::size_t>(number)]) {}

  void work() {
    while (!shared_.stop) {
      const std::int64_t begin = shared_.next.fetch_add(kBlock);
      if (begin >= many_.cases) break;
      for (std::int64_t i = begin; i < std::min(begin + kBlock, many_.cases) && !shared_.stop; ++i) one(i);
    }
    self_.seed = -1;
    self_.descriptors_after = entries_of("/proc/self/fd"), self_.kib_after = resident_kib();
    self_.has_children = waitpid(-1, nullptr, WNOHANG) >= 0;
  }

 private:
  void one(std::int64_t i) {
    const Over over = many_.over[static_cast<std::size_t>(i) % many_.over.size()];
    const auto seed = static_cast<std::uint64_t>(many_.seed + i);
    self_.began_ms = now_ms(), self_.seed = many_.seed + i;
    const Case c = many_.deaths ? Case::draw_with_deaths(seed, over) : Case::draw(seed, over);
    const Verdict v = many_.trees ? live_tree(seed, over) : many_.deaths ? live_in_processes(c) : live(c);
    shared_.differing += c.agrees ? 0 : 1, shared_.mismatched += v.mismatched ? 1 : 0;
    shared_.explained += v.explained ? 1 : 0, shared_.by_timeout += v.by_timeout ? 1 : 0;
    if (++self_.done == kWarmUp)
      self_.descriptors_before = entries_of("/proc/self/fd"), self_.kib_before = resident_kib();
    if (v.wrong.empty()) return;
    ++shared_.wrong;
    if (!many_.keep_going) shared_.stop = true;
    std::string text = fmt::format("{}\n  wrong: {}\n", many_.trees ? "" : c.text(), v.wrong);
    for (std::size_t r = 0; r < v.said.size(); ++r) text += fmt::format("  rank {} said: {}\n", r, v.said[r]);
    fmt::print("{}", text);
    std::fflush(stdout);
  }

  const Many& many_;
  Shared& shared_;
  Shared::Worker& self_;
};

// Prints what a worker has left behind. Returns whether it was nothing.
bool left_nothing(const Shared::Worker& w, pid_t pid) {
  bool nothing = true;
  const auto complain = [&](const std::string& what) { fmt::print("left behind: {}\n", what), nothing = false; };
  for (const std::string& file : left_in_shared_memory(pid)) complain("/dev/shm/" + file);
  if (w.has_children) complain("a process");
  if (w.done <= 2 * kWarmUp) return nothing;
  if (w.descriptors_after > w.descriptors_before + 2)
    complain(fmt::format("{} descriptors after {} cases, {} after {}", w.descriptors_before, kWarmUp,
                         w.descriptors_after, w.done));
  if (w.kib_after > w.kib_before + kGrowth_kib)
    complain(fmt::format("{} KiB of memory after {} cases, {} after {}", w.kib_before, kWarmUp, w.kib_after, w.done));
  return nothing;
}

}  // namespace

bool live_many(const Many& many) {
  void* const page = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return false;
  Shared& shared = *new (page) Shared{};
  const int jobs = std::clamp(many.jobs, 1, kMostJobs);
  std::vector<std::unique_ptr<tests::Process>> workers;
  for (int j = 0; j < jobs; ++j)
    workers.push_back(std::make_unique<tests::Process>([&, j](tests::Report& report) {
      Worker(many, shared, j).work();
      report.say("done");
    }));

  bool right = true;
  const std::int64_t began = now_ms();
  std::int64_t reported = began;
  for (int j = 0; j < jobs; ++j) {
    const auto at = static_cast<std::size_t>(j);
    while (!workers[at]->has_word(std::chrono::milliseconds(500))) {
      for (std::size_t other = 0; other < workers.size(); ++other) {
        const Shared::Worker& w = shared.workers[other];
        if (workers[other] == nullptr || w.began_ms == 0 || w.seed < 0) continue;
        if (now_ms() - w.began_ms < many.hang_s * 1000) continue;
        fmt::print("the case of seed {} hangs\n", w.seed.load());
        right = false, shared.stop = true;
        workers[other]->send(SIGKILL);
      }
      if (now_ms() - reported > 60000) {
        reported = now_ms();
        fmt::print(stderr, "{} cases in {} s\n", std::min(shared.next.load(), many.cases), (reported - began) / 1000);
      }
    }
    const pid_t pid = workers[at]->pid();
    const tests::Outcome outcome = workers[at]->join();
    if (outcome.said != "done") {
      fmt::print("a worker {} in the case of seed {}\n", outcome.how(), shared.workers[at].seed.load());
      right = false, shared.stop = true;
    }
    right &= left_nothing(shared.workers[at], pid);
    workers[at].reset();
  }
  std::int64_t done = 0;
  for (const Shared::Worker& w : shared.workers) done += w.done;
  fmt::print("{} cases from seed {}: {} differ, {} kMismatch, {} with both calls, {} noticed by a timeout; {} wrong\n",
             done, many.seed, shared.differing.load(), shared.mismatched.load(), shared.explained.load(),
             shared.by_timeout.load(), shared.wrong.load());
  right &= shared.wrong == 0;
  munmap(page, sizeof(Shared));
  return right;
}

}  // namespace weft::disagreement
