#include "net/shm/program_data.h"

#include <link.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace weft::net::shm {
namespace {

constexpr std::uintptr_t kPage = 4096;
constexpr std::uintptr_t page_down(std::uintptr_t at) { return at / kPage * kPage; }
constexpr std::uintptr_t page_up(std::uintptr_t at) { return page_down(at + kPage - 1); }

struct Range {
  std::uintptr_t begin = 0, end = 0;
};

// The writable segment, less what the loader has made read-only after relocation. The first object is the executable.
int find_in(dl_phdr_info* object, size_t, void* found) {
  std::uintptr_t read_only_until = 0;
  Range& range = *static_cast<Range*>(found);
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = object->dlpi_phdr[i];
    const std::uintptr_t begin = object->dlpi_addr + part.p_vaddr, end = begin + part.p_memsz;
    if (part.p_type == PT_GNU_RELRO) read_only_until = page_down(end);
    if (part.p_type == PT_LOAD && (part.p_flags & PF_W) != 0) range = {page_down(begin), page_up(end)};
  }
  range.begin = std::max(range.begin, read_only_until);
  return 1;
}

// Into memory that is all zeros; pages that stay so are not touched. Word by word, as AddressSanitizer lets nobody else
// read what lies between the program's variables.
[[gnu::no_sanitize_address]] void copy(std::span<const std::byte> pages, std::byte* zeros) {
  using Word [[gnu::may_alias]] = std::uint64_t;
  const auto* from = reinterpret_cast<const Word*>(pages.data());
  auto* to = reinterpret_cast<Word*>(zeros);
  for (std::size_t i = 0; i < pages.size() / sizeof(Word); ++i)
    if (from[i] != 0) to[i] = from[i];
}

}  // namespace

std::span<std::byte> program_data() {
  Range range;
  dl_iterate_phdr(find_in, &range);
  if (range.begin >= range.end) return {};
  return {reinterpret_cast<std::byte*>(range.begin), range.end - range.begin};
}

Status share_program_data(std::span<std::byte> data, std::byte* shared) {
  copy(data, shared);
  // With an old size of zero, mremap makes a second mapping of the same shared pages (mremap(2)). Not by libc's
  // function: where UCX is loaded, its own stands in for that, and forgets the new address (libucm 1.13, ucm_mremap).
  if (syscall(SYS_mremap, shared, 0, data.size(), MREMAP_MAYMOVE | MREMAP_FIXED, data.data()) < 0)
    return failure(Code::kSystem, Blame::kProcess, "mremap of the program's data: {}", std::strerror(errno));
  return {};
}

}  // namespace weft::net::shm
