#include "exec/recorder/record_pool.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <bit>

#include "exec/recorder/snapshot.h"

namespace weft::recorder {
namespace {

constexpr int kFewest = 16;
constexpr int kPlaces = 64;  // a bit each

// Is that at most the share of the free room that a record may take?
bool affordable(const std::string& folder, std::size_t bytes) {
  struct statvfs info {};
  return statvfs(folder.c_str(), &info) != 0 || bytes <= info.f_bavail * info.f_frsize / 256;
}

}  // namespace

class Room::File {
 public:
  // Null: no folder, or no room.
  static std::shared_ptr<File> make(Layout layout) {
    const auto folder = own_folder();
    std::uint64_t unique = 0;
    if (!folder || getentropy(&unique, sizeof unique) != 0) return nullptr;
    const std::string path = fmt::format("{}/{}-{:016x}", *folder, getpid(), unique);
    const int fd = open(path.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) return nullptr;
    const std::size_t place = layout.bytes(), bytes = kFirstPlace + kPlaces * place;
    void* at = MAP_FAILED;
    if (ftruncate(fd, static_cast<off_t>(bytes)) == 0 && posix_fallocate(fd, 0, kFirstPlace) == 0)
      at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (at == MAP_FAILED) {
      unlink(path.c_str());
      return nullptr;
    }
    auto* const header = new (at) FileHeader{.process_started = facts_of(getpid()).started,
                                             .place_bytes = place,
                                             .labels_at = layout.labels_at(),
                                             .pid = getpid(),
                                             .places = kPlaces};
    header->magic.store(kMagic, std::memory_order_release);
    return std::shared_ptr<File>(new File(*folder, path, static_cast<std::byte*>(at), bytes, place));
  }
  ~File() {
    unlink(path_.c_str());
    munmap(memory_, bytes_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  bool has_room() {
    const MutexLock guard(mutex_);
    return !free_.empty();
  }
  // Requires: has_room(), and nobody else takes.
  void* take() {
    const MutexLock guard(mutex_);
    void* const at = free_.back();
    free_.pop_back();
    return at;
  }
  // The next record expects zeros; a place that cannot be cleared is not used again.
  void give_back(void* at, bool has_pages) {
    if (has_pages) {
      static_cast<Header*>(at)->magic.store(0, std::memory_order_release);
      header().used.fetch_and(~bit(at), std::memory_order_release);
      if (madvise(at, place_bytes_, MADV_REMOVE) != 0) return;
    }
    const MutexLock guard(mutex_);
    free_.push_back(at);
  }
  void use(void* at) { header().used.fetch_or(bit(at), std::memory_order_release); }
  bool make_pages(std::byte* at, std::size_t bytes, std::size_t size) {
    if (!affordable(folder_, size)) return false;
    const std::size_t before = reinterpret_cast<std::uintptr_t>(at) % Layout::kPage;
    if (madvise(at - before, before + bytes, MADV_POPULATE_WRITE) == 0) return true;
    if (errno != EINVAL) return false;  // else the kernel is older than that
    const int fd = open(path_.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    const bool made = fd >= 0 && posix_fallocate(fd, static_cast<off_t>(at - memory_), static_cast<off_t>(bytes)) == 0;
    if (fd >= 0) close(fd);
    return made;
  }

 private:
  File(std::string folder, std::string path, std::byte* memory, std::size_t bytes, std::size_t place)
      : folder_(std::move(folder)), path_(std::move(path)), memory_(memory), bytes_(bytes), place_bytes_(place) {
    for (int i = kPlaces - 1; i >= 0; --i) free_.push_back(memory + kFirstPlace + static_cast<std::size_t>(i) * place);
  }
  FileHeader& header() const { return *reinterpret_cast<FileHeader*>(memory_); }
  std::uint64_t bit(const void* place) const {
    const auto offset = static_cast<std::size_t>(static_cast<const std::byte*>(place) - memory_) - kFirstPlace;
    return std::uint64_t{1} << offset / place_bytes_;
  }

  const std::string folder_, path_;
  std::byte* const memory_;
  const std::size_t bytes_, place_bytes_;
  Mutex mutex_;
  std::vector<void*> free_ WEFT_GUARDED_BY(mutex_);
};

Room::Room(Layout layout) : bytes_(layout.bytes()) {
  memory_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory_ == MAP_FAILED) memory_ = nullptr;
}

Room::~Room() {
  if (memory_ == nullptr) return;
  if (file_ != nullptr)
    file_->give_back(memory_, has_pages_);
  else
    munmap(memory_, bytes_);
}

bool Room::make_pages(std::size_t at, std::size_t bytes, std::size_t size) {
  if (file_ == nullptr) return true;
  if (!file_->make_pages(static_cast<std::byte*>(memory_) + at, bytes, size)) return false;
  if (!std::exchange(has_pages_, true)) file_->use(memory_);
  return true;
}

RecordPool::RecordPool(int entries)
    : layout_{static_cast<int>(std::bit_floor(static_cast<unsigned>(std::max(entries, kFewest))))} {}

std::shared_ptr<Room::File> RecordPool::file_with_room() {
  std::erase_if(files_, [](const auto& file) { return file.expired(); });
  for (const auto& known : files_)
    if (auto file = known.lock(); file != nullptr && file->has_room()) return file;
  auto made = Room::File::make(layout_);
  if (made != nullptr) files_.push_back(made);
  return made;
}

Room RecordPool::take(int& entries) {
  const MutexLock guard(mutex_);
  if (auto file = file_with_room()) {
    Room room(file, file->take());
    for (entries = std::min(entries, layout_.entries); entries >= kFewest; entries /= 2)
      if (const std::size_t bytes = Layout::bytes_for(entries); room.make_pages(0, bytes, bytes)) return room;
  }
  entries = layout_.entries;
  return Room(layout_);
}

}  // namespace weft::recorder
