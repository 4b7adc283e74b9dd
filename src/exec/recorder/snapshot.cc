#include "exec/recorder/snapshot.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <tuple>

#include "exec/recorder/record_pool.h"

namespace weft::recorder {
namespace {

constexpr std::int64_t kFresh = 1'000'000'000;  // a rank that waits says so 50 times as often

template <std::size_t N>
std::string text(const char (&field)[N]) {
  return {field, strnlen(field, N)};
}

// A file of records that is mapped for reading; not mapped: it is none.
class Mapped {
 public:
  explicit Mapped(const std::string& path) {
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    struct stat info {};
    if (fd >= 0 && fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_uid == geteuid() &&
        info.st_size >= static_cast<off_t>(kFirstPlace)) {
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

  // Null: no records, or not yet.
  const FileHeader* file() const {
    const auto* f = static_cast<const FileHeader*>(memory_);
    if (f == nullptr || f->magic.load(std::memory_order_acquire) != kMagic) return nullptr;
    if (f->places < 0 || f->places > 64 || f->place_bytes < Layout{1}.bytes() || f->labels_at < Layout::bytes_for(1) ||
        f->place_bytes > bytes_ || f->labels_at > f->place_bytes - kLabels * sizeof(Kind))
      return nullptr;
    if (static_cast<std::uint64_t>(f->places) > (bytes_ - kFirstPlace) / f->place_bytes) return nullptr;
    return f;
  }
  // Null: no record there.
  const Header* header(int place) const {
    const FileHeader& f = *static_cast<const FileHeader*>(memory_);
    if ((f.used.load(std::memory_order_acquire) >> place & 1) == 0) return nullptr;
    const auto* h = reinterpret_cast<const Header*>(static_cast<const std::byte*>(memory_) + kFirstPlace +
                                                    static_cast<std::size_t>(place) * f.place_bytes);
    if (h->magic.load(std::memory_order_acquire) != kMagic) return nullptr;
    const int entries = h->entries.load(std::memory_order_acquire);
    return entries >= 1 && Layout::bytes_for(entries) <= f.labels_at && h->labels_at == f.labels_at ? h : nullptr;
  }

 private:
  void* memory_ = nullptr;
  std::size_t bytes_ = 0;
};

const Kind* kinds_of(const Header& header) {
  return reinterpret_cast<const Kind*>(reinterpret_cast<const std::byte*>(&header) + header.labels_at);
}

std::vector<Sum> sums_of(const Header& header, const Timescale& scale) {
  std::vector<Sum> sums;
  const int labels = std::clamp(header.labels.load(std::memory_order_acquire), 0, kLabels);
  for (int i = 0; i < labels; ++i) {
    const auto& [label, tally] = kinds_of(header)[i];
    const auto elements = static_cast<double>(tally.elements.load(std::memory_order_relaxed));
    sums.push_back({.collective = text(label.collective),
                    .type = text(label.type),
                    .algorithm = text(label.algorithm),
                    .protocol = text(label.protocol),
                    .channels = label.channels,
                    .calls = tally.calls.load(std::memory_order_relaxed),
                    .failed = tally.failed.load(std::memory_order_relaxed),
                    .bytes = elements * label.unit,
                    .seconds = scale.seconds(tally.ticks.load(std::memory_order_relaxed))});
  }
  return sums;
}

// Nothing if the entry is written to meanwhile, or holds another operation.
std::optional<Operation> read(const Header& header, std::uint64_t number, std::uint64_t entries,
                              const Timescale& scale) {
  const Entry& e = reinterpret_cast<const Entry*>(&header + 1)[number % entries];
  if (e.number.load(std::memory_order_acquire) != number) return std::nullopt;
  const Label& label = label_of(header, e.label.load(std::memory_order_relaxed));
  const std::uint64_t started = e.started.load(std::memory_order_relaxed);
  Operation o{.number = number,
              .count = e.count.load(std::memory_order_relaxed),
              .collective = text(label.collective),
              .type = text(label.type),
              .algorithm = text(label.algorithm),
              .protocol = text(label.protocol),
              .channels = label.channels,
              .root = label.root,
              .started = scale.real(started != 0 ? started : ticks())};
  if (const std::uint64_t finished = e.finished.load(std::memory_order_acquire); finished != 0) {
    o.finished = scale.real(finished);
    o.state = e.state.load(std::memory_order_relaxed);
  }
  std::atomic_thread_fence(std::memory_order_acquire);
  if (e.number.load(std::memory_order_relaxed) != number) return std::nullopt;
  return o;
}

// Empty: the rank waits for no message with a tag, or began another wait while this was read.
std::optional<TaggedWait> read(const Tagged& tagged, const Timescale& scale) {
  const std::uint32_t waits = tagged.waits.load(std::memory_order_acquire);
  if (waits == Tagged::kNone) return std::nullopt;
  const std::uint64_t since = tagged.since.load(std::memory_order_relaxed);
  const TaggedWait wait{.sends = waits == Tagged::kSend,
                        .peer = tagged.peer.load(std::memory_order_relaxed),
                        .tag = tagged.tag.load(std::memory_order_relaxed),
                        .bytes = tagged.bytes.load(std::memory_order_relaxed),
                        .since = scale.real(since)};
  std::atomic_thread_fence(std::memory_order_acquire);
  if (tagged.waits.load(std::memory_order_relaxed) != waits || tagged.since.load(std::memory_order_relaxed) != since)
    return std::nullopt;
  return wait;
}

// A process that was killed between making its file and marking it as one leaves a name without a header.
bool begun_by_a_dead_process(const std::filesystem::path& path) {
  const std::string name = path.filename();
  int pid = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
  if (error != std::errc() || pid <= 0 || end == name.data() + name.size() || *end != '-') return false;
  struct stat info {};
  return lstat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && info.st_uid == geteuid() &&
         facts_of(pid).started == 0;
}

template <class Do>
void each_record(const std::string& folder, const Do& act) {
  std::error_code ignored;
  for (const auto& file : std::filesystem::directory_iterator(folder, ignored)) {
    const Mapped mapped(file.path());
    const FileHeader* const header = mapped.file();
    if (header == nullptr) {
      if (begun_by_a_dead_process(file.path())) unlink(file.path().c_str());
      continue;
    }
    const ProcessFacts facts = facts_of(header->pid);
    if (facts.started != header->process_started) {
      unlink(file.path().c_str());
      continue;
    }
    for (int place = 0; place < header->places; ++place)
      if (const Header* record = mapped.header(place)) act(*record, facts);
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

const Label& label_of(const Header& header, std::uint32_t label) {
  static constexpr Label kOther{.collective = "(other)", .channels = 0, .root = -1};
  if (label >=
      std::min<std::uint32_t>(static_cast<std::uint32_t>(header.labels.load(std::memory_order_acquire)), kLabels))
    return kOther;
  return kinds_of(header)[label].label;
}

std::string TaggedWait::text() const {
  const std::string whom = peer < 0 ? "any rank" : fmt::format("rank {}", peer);
  return fmt::format("a {} of {} B {} {} with {}", sends ? "send" : "receive", bytes, sends ? "to" : "from", whom,
                     tag < 0 ? "any tag" : fmt::format("tag {}", tag));
}

std::string Snapshot::doing() const {
  if (tagged) return tagged->text();
  return busy() ? fmt::format("{} #{}", last()->collective, last()->number) : "";
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
             .opened = header.anchor.real,
             .taken = now.real};
  const std::uint64_t begun = header.begun.load(std::memory_order_acquire);
  const auto entries = static_cast<std::uint64_t>(header.entries.load(std::memory_order_acquire));
  const std::uint64_t most = std::min<std::uint64_t>({begun, operations, entries});
  for (std::uint64_t n = begun - most + 1; n <= begun; ++n)
    if (auto operation = read(header, n, entries, scale)) s.operations.push_back(std::move(*operation));
  const Waiting& w = header.waiting;
  const Rank peer = w.peer.load(std::memory_order_acquire) - 1;
  if (peer >= 0 && s.busy() && now.real - scale.real(w.said.load(std::memory_order_relaxed)) < kFresh)
    s.wait = Wait{peer, w.strand.load(std::memory_order_relaxed), w.step.load(std::memory_order_relaxed),
                  w.steps.load(std::memory_order_relaxed), scale.real(w.since.load(std::memory_order_relaxed))};
  s.sums = sums_of(header, scale);
  s.sends = header.tagged.sends.load(std::memory_order_relaxed);
  s.receives = header.tagged.receives.load(std::memory_order_relaxed);
  s.tagged = read(header.tagged, scale);
  return s;
}

std::vector<Snapshot> read_folder(const std::string& folder, std::size_t operations) {
  std::vector<Snapshot> all;
  each_record(folder, [&](const Header& header, const ProcessFacts& facts) {
    Snapshot s = read(header, operations);
    if (header.magic.load(std::memory_order_acquire) != kMagic) return;  // its communicator has ended meanwhile
    s.process = facts.state;
    s.program = facts.program;
    all.push_back(std::move(s));
  });
  std::sort(all.begin(), all.end(), [](const Snapshot& a, const Snapshot& b) {
    return std::tie(a.job, a.group, a.rank, a.pid) < std::tie(b.job, b.group, b.rank, b.pid);
  });
  return all;
}

std::vector<Snapshot> read_process(const std::string& folder, int pid) {
  std::vector<Snapshot> all;
  std::error_code ignored;
  for (const auto& file : std::filesystem::directory_iterator(folder, ignored)) {
    const Mapped mapped(file.path());
    const FileHeader* const header = mapped.file();
    if (header == nullptr || header->pid != pid) continue;
    for (int place = 0; place < header->places; ++place)
      if (const Header* record = mapped.header(place)) all.push_back(read(*record, 1));
  }
  return all;
}

void sweep(const std::string& folder) {
  each_record(folder, [](const Header&, const ProcessFacts&) {});
}

}  // namespace weft::recorder
