#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <thread>

#include "move/transfer/state.h"
#include "net/tcp/crc32c.h"

// What an agent has registered: regions, and the pages of those that are fenced.
namespace weft::transfer {
namespace {

// Whether this process has the memory. msync() with MS_ASYNC looks the mappings up, and does nothing else.
bool is_mapped(void* data, Bytes bytes) {
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(data), first = begin / page * page;
  const auto length = static_cast<std::size_t>(begin + static_cast<std::uintptr_t>(bytes) - first);
  return msync(reinterpret_cast<void*>(first), length, MS_ASYNC) == 0 || errno != ENOMEM;
}

#ifndef MADV_COLLAPSE
constexpr int MADV_COLLAPSE = 25;  // Linux 6.1
#endif
constexpr std::uintptr_t kHugePage = 2 << 20;
constexpr std::uintptr_t kMostCollapsed = 1 << 30;  // 0.4 to 0.5 s (bench/results/2026-11-28-transfers-plain.md)

// The kernel walks page tables when it copies memory of another process: by huge pages it takes half as long. A machine
// that has them switched off (never) keeps small ones; so does memory that cannot have them.
void prefer_huge_pages(void* data, Bytes bytes) {
  static const bool allowed = [] {
    std::string said;
    return std::getline(std::ifstream("/sys/kernel/mm/transparent_hugepage/enabled"), said) &&
           said.find("[never]") == std::string::npos;
  }();
  const auto begin = reinterpret_cast<std::uintptr_t>(data), end = begin + static_cast<std::uintptr_t>(bytes);
  const std::uintptr_t first = (begin + kHugePage - 1) / kHugePage * kHugePage, last = end / kHugePage * kHugePage;
  if (!allowed || first >= last) return;
  madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);  // of what is touched from here on
  if (last - first <= kMostCollapsed) madvise(reinterpret_cast<void*>(first), last - first, MADV_COLLAPSE);
}

// Requests whose parts are moved by threads: these touch no memory that is registered no more.
void stop_objects(const detail::AgentState& state) {
  for (const auto& weak : state.works) {
    const auto work = weak.lock();
    if (work == nullptr || work->state != State::kRunning || work->jobs.empty()) continue;
    const Target* const own = work->local->closed() != nullptr ? work->local->closed() : work->remote->closed();
    if (own != nullptr)
      work->stop(State::kFailed, {Code::kInvalidArgument, Blame::kOperation,
                                  fmt::format("region {} is registered no more", own->region)});
  }
}

}  // namespace

namespace detail {

Result<std::shared_ptr<Gpu>> AgentState::gpus() {
  if (gpu == nullptr) {
    WEFT_TRY(gpu, Gpu::open());
  }
  return gpu;
}

Status AgentState::check_new(const void* data, Bytes bytes, Bytes page_bytes) const {
  if (bytes <= 0 || page_bytes < 0 || (page_bytes > 0 && bytes % page_bytes != 0))
    return bad_input("{} bytes in pages of {} bytes: a region has at least one byte, and whole pages or none (0)",
                     bytes, page_bytes);
  if (!numbers.any_left()) return bad_input("{} regions are registered: an agent has no more", kMostRegions);
  if (data == nullptr) return {};
  const auto begin = reinterpret_cast<std::uintptr_t>(data), end = begin + static_cast<std::uintptr_t>(bytes);
  if (end < begin) return bad_input("{} bytes at {} leave the address space", bytes, data);
  const auto behind = by_address.lower_bound(end);
  if (behind == by_address.begin()) return {};
  const Region& r = *std::prev(behind)->second;  // regions are disjoint: the others end before it begins
  if (reinterpret_cast<std::uintptr_t>(r.data) + static_cast<std::uintptr_t>(r.bytes) <= begin) return {};
  return bad_input("{} bytes at {} overlap region {} of {} bytes at {}", bytes, data, r.id, r.bytes,
                   static_cast<const void*>(r.data));
}

Result<Registration> AgentState::add(std::shared_ptr<Region> r) {
  r->pages = r->fenced() ? static_cast<std::uint64_t>(r->bytes / r->page_bytes) : 1;
  const auto place = page_words.allocate(static_cast<Bytes>(r->pages));
  if (!place)
    return failure(Code::kNoResources, Blame::kInput, "{} pages: this agent has been opened for {} in all regions",
                   r->pages, options.pages);
  r->first_page = static_cast<std::uint64_t>(*place);
  r->id = numbers.take();
  for (std::uint64_t i = 0; i < r->pages; ++i) numbers.begin(segment.page(r->first_page + i));
  if (!r->fenced()) {
    r->generation = next_generation(segment.page(r->first_page), 0xffff);
  } else {
    r->generation = numbers.floor();
    for (std::uint64_t i = r->pages; i-- > 0;) r->free.push_back(static_cast<std::uint32_t>(i));
  }
  auto target = std::make_shared<Target>();
  target->region = r->id;
  target->path = r->object != nullptr   ? Path::kObject
                 : r->data == nullptr   ? Path::kFile
                 : r->copier != nullptr ? Path::kGpu
                                        : Path::kDirect;
  target->object = r->object;
  target->objects = objects.get();
  target->copier = r->copier;
  target->gpu = r->gpu;
  target->base = r->data;
  target->address = reinterpret_cast<std::uint64_t>(r->data);
  target->fd = r->file.get();
  target->direct_fd = r->direct.open() ? r->direct.get() : -1;
  target->io = file_io.get();
  target->file = r->name;
  target->bytes = r->bytes;
  target->page_bytes = r->page_bytes;
  target->generation = r->generation;
  target->pages = &segment.page(r->first_page);
  target->why_not.fill("the memory is this agent's own");
  target->why_not[static_cast<std::size_t>(target->path)].clear();
  target->why = r->copier != nullptr ? fmt::format("gpu memory: this agent's, of GPU {}", r->gpu)
                : r->data != nullptr ? "direct: this agent's memory"
                : r->object != nullptr
                    ? "object: " + r->name
                    : fmt::format("file: {}{}", file_io->how(), r->direct.open() ? ", O_DIRECT" : "");
  self->targets[r->id] = std::move(target);
  if (r->data != nullptr) by_address[reinterpret_cast<std::uintptr_t>(r->data)] = r.get();
  regions.add(r);
  return Registration{r->id, r->data, r->bytes, r->page_bytes, r->gpu};
}

void AgentState::drain(Region& region) const {
  while (!region.draining.empty() && over(region.draining.front().grace)) {
    region.free.push_back(region.draining.front().page);
    region.draining.pop_front();
  }
}

// Places of peers that have left or ended become free again, when their notifications have been taken.
void AgentState::sweep() const {
  for (std::uint32_t i = kOwnSlot + 1; i < kSlots; ++i) {
    Slot& slot = segment.slot(i);
    const std::uint64_t owner = slot.owner.load();
    if (owner == 0 || slot.head.load() != slot.tail.load()) continue;
    if (slot.left.load() == 0 && !process_ended(owner)) continue;
    if (slot.head.load() != slot.tail.load()) continue;  // the last words before it left
    if (pinned(slot.pin) != 0) unpin(slot.pin);
    slot.left.store(0);
    slot.owner.store(0);
  }
}

}  // namespace detail

Result<Registration> Agent::allocate(std::int64_t bytes, std::int64_t page_bytes) {
  WEFT_CHECK(detail::usable(state_));
  const std::lock_guard guard(state_->mutex);
  WEFT_CHECK(state_->check_new(nullptr, bytes, page_bytes));
  auto region = std::make_shared<Region>();
  WEFT_TRY(region->memory, make_shared_memory(bytes, true));
  region->data = region->memory.mapping.data();
  region->bytes = bytes;
  region->page_bytes = page_bytes;
  return state_->add(std::move(region));
}

Result<std::shared_ptr<void>> Agent::hold(const Registration& registration) const {
  WEFT_CHECK(detail::usable(state_));
  const std::lock_guard guard(state_->mutex);
  WEFT_TRY(auto region, state_->region(registration));
  return std::shared_ptr<void>(std::move(region));
}

Result<Registration> Agent::add_memory(void* data, std::int64_t bytes, std::int64_t page_bytes) {
  WEFT_CHECK(detail::usable(state_));
  if (data != nullptr && bytes > 0) prefer_huge_pages(data, bytes);  // before the lock: it takes longer than a copy
  const std::lock_guard guard(state_->mutex);
  if (data == nullptr) return bad_input("memory at address 0");
  WEFT_CHECK(state_->check_new(data, bytes, page_bytes));
  if (!is_mapped(data, bytes)) return bad_input("{} bytes at {}: part of this memory is not there", bytes, data);
  auto region = std::make_shared<Region>();
  region->data = static_cast<std::byte*>(data);
  region->bytes = bytes;
  region->page_bytes = page_bytes;
  return state_->add(std::move(region));
}

Result<Registration> Agent::allocate_gpu(std::int64_t bytes, std::int64_t page_bytes, int gpu) {
  WEFT_CHECK(detail::usable(state_));
  const std::lock_guard guard(state_->mutex);
  WEFT_CHECK(state_->check_new(nullptr, bytes, page_bytes));
  auto region = std::make_shared<Region>();
  WEFT_TRY(region->copier, state_->gpus());
  WEFT_TRY(region->gpu_memory, region->copier->allocate(gpu, bytes));
  region->gpu = gpu;
  region->data = static_cast<std::byte*>(region->gpu_memory.get());
  region->bytes = bytes;
  region->page_bytes = page_bytes;
  return state_->add(std::move(region));
}

Result<Registration> Agent::add_gpu_memory(void* data, std::int64_t bytes, std::int64_t page_bytes, int gpu) {
  WEFT_CHECK(detail::usable(state_));
  const std::lock_guard guard(state_->mutex);
  if (data == nullptr) return bad_input("memory at address 0");
  WEFT_CHECK(state_->check_new(data, bytes, page_bytes));
  auto region = std::make_shared<Region>();
  WEFT_TRY(region->copier, state_->gpus());
  WEFT_CHECK(region->copier->check(gpu, data));
  region->gpu = gpu;
  region->data = static_cast<std::byte*>(data);
  region->bytes = bytes;
  region->page_bytes = page_bytes;
  return state_->add(std::move(region));
}

namespace {

constexpr std::chrono::seconds kMostLook{30};

Result<net::object::Place> place_of(const ObjectPlace& given) {
  net::object::Place place;
  if (given.key_id.empty()) {
    WEFT_TRY(place, net::object::place_of_environment());
  } else {
    place.credentials = {given.key_id, given.secret, given.session};
  }
  if (!given.endpoint.empty()) place.endpoint = given.endpoint;
  if (!given.region.empty()) place.region = given.region;
  if (!given.authorities.empty()) place.authorities = given.authorities;
  return place;
}

// Opened again through the descriptor: the same file, whatever has happened to its name.
UniqueFd past_the_cache(int fd) {
  const int access = fcntl(fd, F_GETFL) & O_ACCMODE;
  return UniqueFd(::open(fmt::format("/proc/self/fd/{}", fd).c_str(), access | O_CLOEXEC | O_NONBLOCK | O_DIRECT));
}

}  // namespace

Result<Registration> Agent::add_file(const std::string& path, std::int64_t page_bytes, std::int64_t bytes,
                                     bool past_cache) {
  WEFT_CHECK(detail::usable(state_));
  const UniqueFd file(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK));
  if (!file.open()) return bad_input("file {}: {}", path, std::strerror(errno));
  return add_open_file(file.get(), page_bytes, bytes, past_cache, path);
}

Result<Registration> Agent::add_open_file(int descriptor, std::int64_t page_bytes, std::int64_t bytes, bool past_cache,
                                          const std::string& name) {
  WEFT_CHECK(detail::usable(state_));
  const std::lock_guard guard(state_->mutex);
  if (bytes < 0) return bad_input("a file's region of {} bytes: 0 is the file as it is", bytes);
  auto region = std::make_shared<Region>();
  region->name = name.empty() ? fmt::format("of descriptor {}", descriptor) : name;
  region->file = UniqueFd(fcntl(descriptor, F_DUPFD_CLOEXEC, 0));
  struct stat known {};
  if (!region->file.open() || fstat(region->file.get(), &known) != 0)
    return bad_input("file {}: {}", region->name, std::strerror(errno));
  if (!S_ISREG(known.st_mode)) return bad_input("file {} is not a regular file", region->name);
  region->bytes = std::max<std::int64_t>(known.st_size, bytes);
  region->page_bytes = page_bytes;
  WEFT_CHECK(state_->check_new(nullptr, region->bytes, page_bytes));
  if (past_cache) region->direct = past_the_cache(region->file.get());
  if (state_->file_io == nullptr) {
    WEFT_TRY(state_->file_io, FileIo::open());
  }
  return state_->add(std::move(region));
}

Result<Registration> Agent::add_object(const std::string& url, std::int64_t bytes, const ObjectPlace& place) {
  WEFT_CHECK(detail::usable(state_));
  if (bytes < 0) return bad_input("an object's region of {} bytes: 0 is the object as it is", bytes);
  auto region = std::make_shared<Region>();
  region->object = std::make_shared<Object>();
  WEFT_TRY(region->object->name, net::object::parse_name(url));
  WEFT_TRY(region->object->place, place_of(place));
  region->name = url;
  region->bytes = bytes;
  if (bytes == 0) {
    WEFT_CHECK(ObjectIo::look(*region->object, kMostLook));
    region->bytes = region->object->known()->bytes;
    if (region->bytes == 0) return bad_input("object {} is empty", url);
  }
  const std::lock_guard guard(state_->mutex);
  WEFT_CHECK(state_->check_new(nullptr, region->bytes, 0));
  if (state_->objects == nullptr) {
    WEFT_TRY(state_->objects, ObjectIo::open());
  }
  return state_->add(std::move(region));
}

Status Agent::deregister(const Registration& registration, std::chrono::milliseconds limit) {
  WEFT_CHECK(detail::usable(state_));
  std::unique_lock guard(state_->mutex);
  WEFT_TRY(const auto region, state_->region(registration));
  if (!region->closing) {
    for (std::uint64_t i = 0; i < region->pages; ++i) state_->numbers.end(state_->segment.page(region->first_page + i));
    region->closing = state_->begin_grace(region->id);
    if (const auto own = state_->self->targets.find(region->id); own != state_->self->targets.end())
      own->second->closed = true;
    ++state_->self->closings;
    stop_objects(*state_);
  }
  constexpr std::chrono::milliseconds kMost = std::chrono::hours(24 * 365 * 100);
  if (limit.count() < 0 || limit > kMost)
    return bad_input("deregister: a limit of {} ms: it is 0 to {} ms (100 years)", limit.count(), kMost.count());
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (!state_->over(*region->closing)) {
    if (std::chrono::steady_clock::now() > deadline) {
      const std::uint64_t owner = state_->segment.slot(region->closing->seen().front().slot).owner.load();
      return failure(Code::kTimeout, Blame::kOperation, "region {}: process {} is still copying", region->id,
                     pid_of(owner));
    }
    guard.unlock();
    std::this_thread::sleep_for(std::chrono::microseconds(50));
    guard.lock();
  }
  if (state_->regions.find(region->id) != region) return {};  // another thread was first
  state_->self->targets.erase(region->id);
  state_->regions.remove(region->id);
  state_->by_address.erase(reinterpret_cast<std::uintptr_t>(region->data));
  state_->page_words.release(static_cast<Bytes>(region->first_page));
  state_->numbers.give_back(region->id);
  return {};
}

Result<Page> Agent::acquire(const Registration& registration, std::uint16_t tag) {
  WEFT_CHECK(detail::usable(state_));
  const std::lock_guard guard(state_->mutex);
  WEFT_TRY(const auto region, state_->region(registration));
  if (!region->fenced() || region->closing || tag == 0)
    return bad_input("region {}: pages are of fenced regions that are open, for owners from 1", region->id);
  if (region->free.empty()) state_->drain(*region);
  if (region->free.empty())
    return failure(Code::kNoResources, Blame::kOperation, "region {}: no page is free, {} are still being copied",
                   region->id, region->draining.size());
  const std::uint32_t index = region->free.back();
  region->free.pop_back();
  PageWord& page = state_->segment.page(region->first_page + index);
  page.sealed.store(0);
  return Page{index, next_generation(page, tag)};
}

Status Agent::release(const Registration& registration, Page page) {
  WEFT_CHECK(detail::usable(state_));
  const std::lock_guard guard(state_->mutex);
  WEFT_TRY(const auto region, state_->region(registration));
  if (!region->fenced() || page.index >= region->pages)
    return bad_input("region {} has no page {}", region->id, page.index);
  PageWord& word = state_->segment.page(region->first_page + page.index);
  if (page.generation >> 48 == 0 || word.generation.load() != page.generation)
    return bad_input("page {} of region {} is not out with this generation", page.index, region->id);
  next_generation(word, 0);
  region->draining.push_back({page.index, state_->begin_grace(region->id)});
  state_->drain(*region);
  return {};
}

std::int64_t Agent::free_pages(const Registration& registration) {
  if (state_ == nullptr) return 0;
  const std::lock_guard guard(state_->mutex);
  const auto region = state_->regions.find(registration.region);
  if (region == nullptr) return 0;
  state_->drain(*region);
  return static_cast<std::int64_t>(region->free.size());
}

Status Agent::seal(const Registration& registration, Page page) {
  WEFT_CHECK(detail::usable(state_));
  const std::lock_guard guard(state_->mutex);
  WEFT_TRY(const auto region, state_->region(registration));
  if (!region->fenced() || page.index >= region->pages || region->data == nullptr)
    return bad_input("region {} has no page {} in memory", region->id, page.index);
  PageWord& word = state_->segment.page(region->first_page + page.index);
  if (word.generation.load() != page.generation)
    return bad_input("page {} of region {} is not out with this generation", page.index, region->id);
  const auto size = static_cast<std::size_t>(region->page_bytes);
  const std::byte* const data = region->data + size * page.index;
  std::uint32_t sum = 0;
  if (region->copier != nullptr) {
    WEFT_TRY(sum, region->copier->checksum(region->gpu, data, region->page_bytes));
  } else {
    sum = net::tcp::crc32c(0, data, size);
  }
  word.checksum.store(sum);
  word.sealed.store(1);
  return {};
}

bool Agent::sealed(const Registration& registration, Page page) const {
  if (state_ == nullptr) return false;
  const std::lock_guard guard(state_->mutex);
  const auto region = state_->regions.find(registration.region);
  if (region == nullptr || !region->fenced() || page.index >= region->pages) return false;
  const PageWord& word = state_->segment.page(region->first_page + page.index);
  return word.generation.load() == page.generation && word.sealed.load() != 0;
}

}  // namespace weft::transfer
