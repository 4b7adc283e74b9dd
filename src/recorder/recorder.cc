#include "recorder/recorder.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <bit>
#include <cstring>

namespace weft::recorder {
namespace {

constexpr int kFewest = 16;
constexpr int kFirst = 64;  // communicators may be many, each with few operations: every page costs some 0.5 us
constexpr std::uint64_t kNever = ~std::uint64_t{0};

std::size_t bytes_for(int entries) { return sizeof(Header) + static_cast<std::size_t>(entries) * sizeof(Entry); }

template <std::size_t N>
void copy(char (&field)[N], const std::string& text) {
  std::strncpy(field, text.c_str(), N - 1);
}

// As many as the share of the free room allows that a record may take.
int affordable(const std::string& folder, int entries) {
  struct statvfs info {};
  if (statvfs(folder.c_str(), &info) != 0) return entries;
  const std::uint64_t share = info.f_bavail * info.f_frsize / 256;
  while (entries > kFewest && bytes_for(entries) > share) entries /= 2;
  return entries;
}

// Makes the pages of so many entries: a store must never find /dev/shm full.
bool make_room(int fd, int entries) { return posix_fallocate(fd, 0, static_cast<off_t>(bytes_for(entries))) == 0; }

// Room for `entries`, of which the first are made. Null: no room, or no folder.
void* map_shared(const std::string& folder, int entries, std::string& file) {
  std::uint64_t unique = 0;
  if (getentropy(&unique, sizeof unique) != 0) return nullptr;
  file = fmt::format("{}/{}-{:016x}", folder, getpid(), unique);
  const int fd = open(file.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return nullptr;
  void* at = MAP_FAILED;
  if (ftruncate(fd, static_cast<off_t>(bytes_for(entries))) == 0 && make_room(fd, std::min(entries, kFirst)))
    at = mmap(nullptr, bytes_for(entries), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (at != MAP_FAILED) return at;
  unlink(file.c_str());
  return nullptr;
}

// When this process was started; kept, but for a child of fork.
std::uint64_t own_start() {
  struct Known {
    int pid = 0;
    std::uint64_t started = 0;
  };
  thread_local Known known;
  if (known.pid != getpid()) known = {getpid(), facts_of(getpid()).started};
  return known.started;
}

}  // namespace

Result<std::string> own_folder() {
  const std::string folder = fmt::format("/dev/shm/weft-{}", geteuid());
  struct stat info {};
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    return failure(Code::kSystem, Blame::kProcess, "cannot make {}: {}", folder, std::strerror(errno));
  if (lstat(folder.c_str(), &info) != 0 || !S_ISDIR(info.st_mode) || info.st_uid != geteuid() ||
      (info.st_mode & 077) != 0)
    return failure(Code::kSystem, Blame::kProcess, "{} is not a folder of this user alone", folder);
  return folder;
}

std::unique_ptr<Recorder> Recorder::open(const Identity& identity, int entries) {
  entries = static_cast<int>(std::bit_floor(static_cast<unsigned>(std::max(entries, kFewest))));
  std::string file;
  void* memory = nullptr;
  if (const auto folder = own_folder()) {
    entries = affordable(*folder, entries);
    memory = map_shared(*folder, entries, file);
  }
  if (memory == nullptr) {
    file.clear();
    memory = mmap(nullptr, bytes_for(entries), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return nullptr;
  }
  auto recorder = std::unique_ptr<Recorder>(new Recorder(memory, bytes_for(entries), std::move(file)));
  recorder->set_entries(recorder->file_.empty() ? entries : std::min(entries, kFirst));
  Header& h = recorder->header();
  h.pid = getpid();
  h.process_started = own_start();
  h.rank = identity.rank;
  h.ranks = identity.ranks;
  h.anchor = Anchor::now();
  copy(h.job, identity.job);
  copy(h.group, identity.group);
  copy(h.transport, identity.transport);
  std::atomic_thread_fence(std::memory_order_release);
  h.magic = kMagic;
  return recorder;
}

Recorder::~Recorder() {
  if (!file_.empty()) unlink(file_.c_str());
  munmap(memory_, bytes_);
}

void Recorder::set_entries(int entries) {
  mask_ = static_cast<std::uint64_t>(entries) - 1;
  full_at_ = bytes_for(entries) < bytes_ ? static_cast<std::uint64_t>(entries) : kNever;
  header().entries.store(entries, std::memory_order_release);
}

void Recorder::grow() {
  const int twice = header().entries.load(std::memory_order_relaxed) * 2;
  const int fd = ::open(file_.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  const bool grown = fd >= 0 && make_room(fd, twice);
  if (fd >= 0) close(fd);
  if (grown)
    set_entries(twice);
  else
    full_at_ = kNever;
}

std::uint32_t Recorder::label(const Label& label) {
  Header& h = header();
  const int known = h.labels.load(std::memory_order_relaxed);
  for (int i = 0; i < known; ++i)
    if (std::memcmp(&h.label[i], &label, sizeof label) == 0) return static_cast<std::uint32_t>(i);
  if (known == kLabels - 1) copy(h.label[known].collective, "(other)");
  if (known >= kLabels - 1) return kLabels - 1;
  h.label[known] = label;
  h.labels.store(known + 1, std::memory_order_release);
  return static_cast<std::uint32_t>(known);
}

Status Recorder::trace(const TraceOptions& options, const Identity& identity) {
  WEFT_TRY(trace_, Trace::open(options, identity));
  return {};
}

void Recorder::trace_call() {
  if (!trace_->wants(Category::kCall)) return;
  constexpr auto kPlain = std::memory_order_relaxed;
  const Label& l = header().label[current_->label.load(kPlain)];
  std::string arguments = fmt::format("\"number\":{},\"count\":{},\"well\":{}", current_->number.load(kPlain),
                                      current_->count.load(kPlain), current_->state.load(kPlain) == State::kDone);
  if (l.algorithm[0] != 0)
    arguments += fmt::format(",\"type\":\"{}\",\"algorithm\":\"{}\",\"protocol\":\"{}\",\"channels\":{}", l.type,
                             l.algorithm, l.protocol, l.channels);
  trace_->call(l.collective, std::move(arguments), current_->started.load(kPlain), current_->finished.load(kPlain));
}

Snapshot Recorder::snapshot() const {
  Snapshot s = read(header(), static_cast<std::size_t>(header().entries.load(std::memory_order_relaxed)));
  s.program = facts_of(s.pid).program;
  return s;
}

}  // namespace weft::recorder
