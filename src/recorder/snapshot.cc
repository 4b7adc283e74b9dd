#include "recorder/snapshot.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <tuple>

namespace weft::recorder {
namespace {

constexpr std::int64_t kFresh = 1'000'000'000;  // a rank that waits says so 50 times as often

template <std::size_t N>
std::string text(const char (&field)[N]) {
  return {field, strnlen(field, N)};
}

// A record that is mapped for reading; not mapped: the file is none.
class Mapped {
 public:
  explicit Mapped(const std::string& file) {
    const int fd = open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    struct stat info {};
    if (fd >= 0 && fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_uid == geteuid() &&
        info.st_size >= static_cast<off_t>(sizeof(Header))) {
      bytes_ = static_cast<std::size_t>(info.st_size);
      if (void* at = mmap(nullptr, bytes_, PROT_READ, MAP_SHARED, fd, 0); at != MAP_FAILED) memory_ = at;
    }
    if (fd >= 0) close(fd);
  }
  ~Mapped() {
    if (memory_ != nullptr) munmap(memory_, bytes_);
  }
  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;

  // Null: no record, or not yet.
  const Header* header() const {
    const auto* h = static_cast<const Header*>(memory_);
    if (h == nullptr || h->magic != kMagic) return nullptr;
    const int entries = h->entries.load(std::memory_order_acquire);
    if (entries < 1 || bytes_ < sizeof(Header) + static_cast<std::size_t>(entries) * sizeof(Entry)) return nullptr;
    return h;
  }

 private:
  void* memory_ = nullptr;
  std::size_t bytes_ = 0;
};

// Nothing if the entry is written to meanwhile, or holds another operation.
std::optional<Operation> read(const Header& header, std::uint64_t number, const Timescale& scale) {
  const auto* entries = reinterpret_cast<const Entry*>(&header + 1);
  const Entry& e = entries[number % static_cast<std::uint64_t>(header.entries.load(std::memory_order_acquire))];
  if (e.number.load(std::memory_order_acquire) != number) return std::nullopt;
  const Label& label = header.label[e.label.load(std::memory_order_relaxed) % kLabels];
  Operation o{.number = number,
              .count = e.count.load(std::memory_order_relaxed),
              .collective = text(label.collective),
              .type = text(label.type),
              .algorithm = text(label.algorithm),
              .protocol = text(label.protocol),
              .channels = label.channels,
              .root = label.root,
              .started = scale.real(e.started.load(std::memory_order_relaxed))};
  if (const std::uint64_t finished = e.finished.load(std::memory_order_acquire); finished != 0) {
    o.finished = scale.real(finished);
    o.state = e.state.load(std::memory_order_relaxed);
  }
  std::atomic_thread_fence(std::memory_order_acquire);
  if (e.number.load(std::memory_order_relaxed) != number) return std::nullopt;
  return o;
}

template <class Do>
void each_record(const std::string& folder, const Do& act) {
  std::error_code ignored;
  for (const auto& file : std::filesystem::directory_iterator(folder, ignored)) {
    const Mapped mapped(file.path());
    const Header* header = mapped.header();
    if (header == nullptr) continue;
    const ProcessFacts facts = facts_of(header->pid);
    if (facts.started != header->process_started)
      unlink(file.path().c_str());
    else
      act(*header, facts);
  }
}

}  // namespace

ProcessFacts facts_of(int pid) {
  std::ifstream stat(fmt::format("/proc/{}/stat", pid));
  std::string line;
  std::getline(stat, line);
  const std::size_t open = line.find('('), close = line.rfind(')');  // a program's name may hold anything
  if (open == std::string::npos || close == std::string::npos || close + 2 >= line.size()) return {};
  ProcessFacts facts{.program = line.substr(open + 1, close - open - 1)};
  const char state = line[close + 2];
  if (state == 'Z' || state == 'X') return {};
  facts.state = state == 'T' || state == 't' ? Process::kStopped : Process::kRunning;
  std::size_t at = close + 1;
  for (int field = 2; at != std::string::npos && field < 21; ++field) at = line.find(' ', at + 1);
  if (at != std::string::npos) facts.started = std::strtoull(line.c_str() + at, nullptr, 10);
  return facts;
}

Snapshot read(const Header& header, std::size_t operations) {
  const Anchor now = Anchor::now();
  const Timescale scale(header.anchor, now);
  Snapshot s{.job = text(header.job),
             .group = text(header.group),
             .transport = text(header.transport),
             .rank = header.rank,
             .ranks = header.ranks,
             .pid = header.pid,
             .taken = now.real};
  const std::uint64_t begun = header.begun.load(std::memory_order_acquire);
  const auto entries = static_cast<std::uint64_t>(header.entries.load(std::memory_order_acquire));
  const std::uint64_t most = std::min<std::uint64_t>({begun, operations, entries});
  for (std::uint64_t n = begun - most + 1; n <= begun; ++n)
    if (auto operation = read(header, n, scale)) s.operations.push_back(std::move(*operation));
  const Waiting& w = header.waiting;
  const Rank peer = w.peer.load(std::memory_order_acquire) - 1;
  if (peer >= 0 && s.busy() && now.real - scale.real(w.said.load(std::memory_order_relaxed)) < kFresh)
    s.wait = Wait{peer, w.strand.load(std::memory_order_relaxed), w.step.load(std::memory_order_relaxed),
                  w.steps.load(std::memory_order_relaxed), scale.real(w.since.load(std::memory_order_relaxed))};
  return s;
}

std::vector<Snapshot> read_folder(const std::string& folder, std::size_t operations) {
  std::vector<Snapshot> all;
  each_record(folder, [&](const Header& header, const ProcessFacts& facts) {
    Snapshot& s = all.emplace_back(read(header, operations));
    s.process = facts.state;
    s.program = facts.program;
  });
  std::sort(all.begin(), all.end(), [](const Snapshot& a, const Snapshot& b) {
    return std::tie(a.job, a.group, a.rank, a.pid) < std::tie(b.job, b.group, b.rank, b.pid);
  });
  return all;
}

void sweep(const std::string& folder) {
  each_record(folder, [](const Header&, const ProcessFacts&) {});
}

}  // namespace weft::recorder
