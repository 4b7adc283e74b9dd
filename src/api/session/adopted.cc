#include "api/session/adopted.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstring>
#include <fstream>
#include <map>
#include <string>

#include "base/mutex.h"

namespace weft::session {
namespace {

std::uintptr_t number(const void* p) { return reinterpret_cast<std::uintptr_t>(p); }

std::uintptr_t page_size() {
  static const auto bytes = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

// A line of /proc/self/maps.
struct Mapped {
  std::uintptr_t begin = 0, end = 0;
  std::string rights;
  std::uint64_t offset = 0, inode = 0;
  std::string path;

  bool readable() const { return rights[0] == 'r'; }
  bool writable() const { return readable() && rights[1] == 'w'; }
  bool is_private() const { return rights[3] == 'p'; }
};

std::map<std::uintptr_t, Mapped> mappings() {
  std::map<std::uintptr_t, Mapped> all;
  std::ifstream file("/proc/self/maps");
  for (std::string line; std::getline(file, line);) {
    Mapped m;
    char rights[5] = {};
    int path = 0;
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " %4s %" SCNx64 " %*x:%*x %" SCNu64 " %n", &m.begin, &m.end,
                    rights, &m.offset, &m.inode, &path) < 5)
      continue;
    m.rights = rights;
    m.path = line.substr(std::min(static_cast<std::size_t>(path), line.size()));
    all[m.begin] = std::move(m);
  }
  return all;
}

const Mapped* mapping_of(const std::map<std::uintptr_t, Mapped>& all, std::uintptr_t address) {
  const auto after = all.upper_bound(address);
  if (after == all.begin()) return nullptr;
  const Mapped& found = std::prev(after)->second;
  return address < found.end ? &found : nullptr;
}

struct Range {
  std::uintptr_t begin, end;
};

tl::unexpected<Error> refused(std::uintptr_t at, std::string_view why) {
  return bad_input("register_memory: the memory at {:#x} {}", at, why);
}

// Every byte is memory that a copy can replace: private, not a file's, and this thread does not run on it.
Status check_replaceable(const Range& range) {
  const auto all = mappings();
  for (std::uintptr_t at = range.begin; at < range.end;) {
    const Mapped* const m = mapping_of(all, at);
    if (m == nullptr) return refused(at, "is not mapped");
    if (!m->readable()) return refused(at, "cannot be read");
    if (!m->is_private()) return refused(at, "is shared already");
    if (!m->writable()) return refused(at, "cannot be written");
    if (m->inode != 0) return refused(at, "belongs to " + m->path);
    const bool runs_here = number(&all) >= at && number(&all) < std::min(m->end, range.end);
    if (m->path == "[stack]" || runs_here) return refused(at, "is a stack");
    at = m->end;
  }
  return {};
}

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__)
// The pages of the allocation that begins there, if malloc gave it a mapping of its own, as it does with large ones.
// Its two words before the allocation are the distance from the mapping's start, and the rest of its size with flags.
std::optional<Range> malloc_mapping(std::uintptr_t begin) {
  constexpr std::uintptr_t kWords = 2 * sizeof(std::size_t), kFlags = 7, kOwnMapping = 2;
  if (begin % page_size() < kWords) return std::nullopt;  // those words lie on another page
  const std::uintptr_t chunk = begin - kWords;
  std::size_t words[2];
  std::memcpy(words, reinterpret_cast<const void*>(chunk), sizeof words);
  if ((words[1] & kFlags) != kOwnMapping || words[0] > chunk) return std::nullopt;
  const Range range{chunk - words[0], chunk + (words[1] & ~kFlags)};
  const bool whole = range.begin % page_size() == 0 && range.end % page_size() == 0 && range.end > begin;
  return whole ? std::optional(range) : std::nullopt;
}
#else
std::optional<Range> malloc_mapping(std::uintptr_t) { return std::nullopt; }
#endif

// The pages with these bytes. Errors: other memory lies there, too, which others may write meanwhile.
Result<Range> pages_of(std::uintptr_t begin, std::uintptr_t bytes) {
  const std::uintptr_t page = page_size();
  if (begin % page == 0 && bytes % page == 0) return Range{begin, begin + bytes};
  WEFT_CHECK(check_replaceable({begin / page * page, begin + 1}));  // its words can be read
  const std::uintptr_t end = begin + bytes;
  if (const auto own = malloc_mapping(begin); own && own->end >= end)
    return Range{begin / page * page, (end + page - 1) / page * page};
  return bad_input(
      "register_memory: {} bytes at {:#x} share pages of {} B with other memory: take whole pages (mmap, "
      "aligned_alloc), allocate(), or an allocation of malloc that is a mapping of its own, from its start: above 32 "
      "MiB, or MALLOC_MMAP_THRESHOLD_",
      bytes, begin, page);
}

struct Table {
  Mutex mutex;
  std::map<std::uintptr_t, AdoptedPages*> ranges WEFT_GUARDED_BY(mutex);  // by their end
};
Table& table() {
  static auto* const all = new Table;  // calls may come while the process ends
  return *all;
}

}  // namespace

std::atomic<int> AdoptedPages::ranges_{0};

Result<std::shared_ptr<AdoptedPages>> AdoptedPages::adopt(const std::shared_ptr<exec::Executor>& executor, void* data,
                                                          std::size_t bytes) {
  const std::uintptr_t begin = number(data);
  if (data == nullptr) return bad_input("register_memory: the memory is null");
  if (bytes == 0 || bytes > ~begin - page_size())
    return bad_input("register_memory: {} bytes at {}: {}", bytes, fmt::ptr(data),
                     bytes == 0 ? "none" : "more than a process can have");
  if (executor->reaches(data, static_cast<Bytes>(bytes))) return nullptr;
  WEFT_TRY(const Range pages, pages_of(begin, bytes));
  WEFT_CHECK(check_replaceable(pages));
  if (!executor->capabilities().load_store || executor->votes().empty() || executor->ranks() == 1) return nullptr;
  const std::size_t size = pages.end - pages.begin;
  WEFT_TRY(void* const shared, executor->allocate(static_cast<Bytes>(size)));
  auto* const place = reinterpret_cast<std::byte*>(pages.begin);
  std::memcpy(shared, place, size);
  // mremap with an old size of 0 maps the pages of a shared mapping a second time.
  if (mremap(shared, 0, size, MREMAP_MAYMOVE | MREMAP_FIXED, place) != place) {
    const int error = errno;
    executor->deallocate(shared);
    return failure(Code::kSystem, Blame::kOperation, "register_memory: mremap of {} bytes: {}", size,
                   std::strerror(error));
  }
  auto adopted =
      std::make_shared<AdoptedPages>(executor, place, static_cast<std::byte*>(shared), static_cast<Bytes>(size));
  const MutexLock guard(table().mutex);
  table().ranges[pages.end] = adopted.get();
  ranges_.fetch_add(1, std::memory_order_release);
  return adopted;
}

AdoptedPages::AdoptedPages(const std::shared_ptr<exec::Executor>& executor, std::byte* place, std::byte* shared,
                           Bytes bytes)
    : executor_(executor), place_(place), shared_(shared), bytes_(bytes) {}

bool AdoptedPages::is_shared() const {
  const auto all = mappings();
  const Mapped* const there = mapping_of(all, number(shared_));
  if (there == nullptr) return false;
  for (std::uintptr_t at = number(place_); at < number(place_) + static_cast<std::uintptr_t>(bytes_);) {
    const Mapped* const here = mapping_of(all, at);
    if (here == nullptr || here->inode != there->inode || here->path != there->path) return false;
    const std::uint64_t shared_at = there->offset + (number(shared_) - there->begin) + (at - number(place_));
    if (here->offset + (at - here->begin) != shared_at) return false;
    at = here->end;
  }
  return true;
}

AdoptedPages::~AdoptedPages() {
  {
    const MutexLock guard(table().mutex);
    std::erase_if(table().ranges, [&](const auto& entry) { return entry.second == this; });
    ranges_.fetch_sub(1, std::memory_order_release);
  }
  if (owner_.inherited()) return;
  const auto size = static_cast<std::size_t>(bytes_);
  if (is_shared()) {
    void* const again = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (again == MAP_FAILED) return;  // the pages stay what they are, and the heap's
    std::memcpy(again, place_, size);
    if (mremap(again, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, place_) != place_) {
      munmap(again, size);
      return;
    }
  }
  if (const auto executor = executor_.lock()) executor->deallocate(shared_);
}

std::shared_ptr<const AdoptedPages> AdoptedPages::find(const void* data, Bytes bytes) {
  const auto* const first = static_cast<const std::byte*>(data);
  const MutexLock guard(table().mutex);
  const auto range = table().ranges.upper_bound(number(data));
  if (range == table().ranges.end()) return nullptr;
  const AdoptedPages& pages = *range->second;
  const bool inside = first >= pages.place_ && bytes <= pages.bytes_ - (first - pages.place_);
  return inside ? pages.weak_from_this().lock() : nullptr;
}

}  // namespace weft::session
