#include "move/kv/tier.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "move/transfer/copy.h"

namespace weft::kv {
namespace {

constexpr std::int64_t kMostSlots = 1 << 24;
constexpr std::uint64_t kMagic = 0x31726569'74766b77;  // "wkvtier1"

std::uint32_t crc(const void* data, std::size_t bytes) {
  return transfer::checksum(static_cast<const std::byte*>(data), bytes);
}

Error broken(const std::string& file, const char* what, int code) {
  const bool full = code == ENOSPC || code == EDQUOT || code == EFBIG;
  return {full ? Code::kNoResources : Code::kSystem, Blame::kOperation,
          fmt::format("{}: {}: {}", file, what, std::strerror(code))};
}

// Everything, at a place. Errors: as errno says; a short file reads as zeros.
int write_all(int fd, const void* data, std::size_t bytes, off_t at) {
  for (std::size_t done = 0; done < bytes;) {
    const ssize_t n = pwrite(fd, static_cast<const char*>(data) + done, bytes - done, at + static_cast<off_t>(done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    done += static_cast<std::size_t>(n);
  }
  return 0;
}
int read_all(int fd, void* data, std::size_t bytes, off_t at) {
  std::memset(data, 0, bytes);
  for (std::size_t done = 0; done < bytes;) {
    const ssize_t n = pread(fd, static_cast<char*>(data) + done, bytes - done, at + static_cast<off_t>(done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    if (n == 0) return 0;
    done += static_cast<std::size_t>(n);
  }
  return 0;
}

}  // namespace

struct Tier::Header {
  std::uint64_t magic = kMagic;
  std::int64_t slots = 0;
  Bytes page_bytes = 0;
  std::uint8_t layout[32] = {};  // SHA-256
  std::uint32_t unused = 0;
  std::uint32_t crc = 0;  // of all before
};

Result<Tier> Tier::open(transfer::Agent& agent, const TierOptions& options) {
  static_assert(sizeof(Header) == sizeof(Record), "the index is a table");
  Tier tier(agent, options);
  TierOptions& o = tier.options_;
  if (o.page_bytes < 1) return bad_input("{}: blocks of {} B: at least 1", o.file, o.page_bytes);
  struct stat data {
  }, index{};
  const bool there = ::stat(o.file.c_str(), &data) == 0;
  const bool indexed = ::stat((o.file + ".index").c_str(), &index) == 0 && index.st_size > 0;
  if (!there && indexed)
    return bad_input("{} is missing beside its index: remove {}.index to begin with an empty tier", o.file, o.file);
  tier.slots_of_file_ = o.slots == 0;
  if (o.slots == 0) o.slots = there ? data.st_size / o.page_bytes : 0;
  if (o.slots < 1 || o.slots > kMostSlots)  // before a file is made
    return bad_input("{}: {} blocks of {} B{}; a tier has 1 to {}", o.file, o.slots, o.page_bytes,
                     tier.slots_of_file_ ? ", as many as the file has room for" : "", kMostSlots);
  tier.data_fd_ = UniqueFd(::open(o.file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  struct stat known {};
  if (!tier.data_fd_.open() || fstat(tier.data_fd_.get(), &known) != 0)
    return bad_input("{}: {}", o.file, std::strerror(errno));
  if (!S_ISREG(known.st_mode)) return bad_input("{} is not a regular file", o.file);
  WEFT_CHECK(tier.open_index());
  // Room for all slots now: a disk that is too small is found at the start, not by the block that does not fit.
  if (const int code = posix_fallocate(tier.data_fd_.get(), 0, o.slots * o.page_bytes); code != 0)
    return tl::make_unexpected(
        broken(o.file, fmt::format("no room for {} blocks of {} B", o.slots, o.page_bytes).c_str(), code));
  const auto index_bytes = static_cast<off_t>((o.slots + 1) * static_cast<std::int64_t>(sizeof(Record)));
  if (const int code = posix_fallocate(tier.index_fd_.get(), 0, index_bytes); code != 0)
    return tl::make_unexpected(broken(o.file + ".index", fmt::format("no room for {} entries", o.slots).c_str(), code));
  WEFT_TRY(tier.data_, agent.add_file(o.file));
  WEFT_CHECK(tier.read_records());
  if (o.check) WEFT_CHECK(tier.check_contents());
  return tier;
}

Status Tier::open_index() {
  const std::string file = options_.file + ".index";
  index_fd_ = UniqueFd(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!index_fd_.open()) return bad_input("{}: {}", file, std::strerror(errno));
  if (flock(index_fd_.get(), LOCK_EX | LOCK_NB) != 0) return bad_input("{}: another store uses it", file);
  Header mine{.slots = options_.slots, .page_bytes = options_.page_bytes};
  const auto layout = net::link::sha256(options_.layout);
  std::memcpy(mine.layout, layout.data(), sizeof mine.layout);
  mine.crc = crc(&mine, offsetof(Header, crc));
  struct stat known {};
  Header found;
  if (fstat(index_fd_.get(), &known) != 0) return tl::make_unexpected(broken(file, "fstat", errno));
  if (known.st_size > 0) {
    if (const int code = read_all(index_fd_.get(), &found, sizeof found, 0); code != 0)
      return tl::make_unexpected(broken(file, "reading", code));
    if (found.magic != kMagic || found.crc != crc(&found, offsetof(Header, crc)))
      return bad_input("{} is no index of a tier, or its header is damaged: remove it to begin with an empty tier",
                       file);
    if (found.page_bytes != mine.page_bytes)
      return bad_input("{}: blocks of {} B, not of {}", file, found.page_bytes, mine.page_bytes);
    if (std::memcmp(found.layout, mine.layout, sizeof mine.layout) != 0)
      return bad_input("{}: its blocks have another layout, or other numbers of tokens, than '{}'", file,
                       options_.layout);
    if (found.slots != mine.slots && slots_of_file_)
      return bad_input("{} has room for {} blocks, and its index says {}: was the file cut off?", options_.file,
                       mine.slots, found.slots);
    if (found.slots != mine.slots)
      return bad_input("{}: the tier was made for {} blocks, not {}", file, found.slots, mine.slots);
    return {};
  }
  change("header");
  if (const int code = write_all(index_fd_.get(), &mine, sizeof mine, 0); code != 0)
    return tl::make_unexpected(broken(file, "writing", code));
  return sync(index_fd_.get(), file);
}

Status Tier::read_records() {
  const std::string file = options_.file + ".index";
  records_.resize(static_cast<std::size_t>(options_.slots));
  if (const int code = read_all(index_fd_.get(), records_.data(), records_.size() * sizeof(Record), sizeof(Header));
      code != 0)
    return tl::make_unexpected(broken(file, "reading", code));
  kept_.emplace(static_cast<std::uint32_t>(options_.slots), options_.slots);
  std::vector<std::uint32_t> order;
  for (std::uint32_t slot = 0; slot < records_.size(); ++slot) {
    Record& r = records_[slot];
    const bool never = std::all_of(reinterpret_cast<const char*>(&r), reinterpret_cast<const char*>(&r + 1),
                                   [](char c) { return c == 0; });
    const bool whole = r.crc == crc(&r, offsetof(Record, crc)) && r.valid <= 1;
    if (whole && r.valid == 1) {
      order.push_back(slot);
      continue;
    }
    damaged_ += !never && !whole;
    r = {};
    free_.push_back(slot);
  }
  std::reverse(free_.begin(), free_.end());
  std::sort(order.begin(), order.end(),
            [&](std::uint32_t a, std::uint32_t b) { return records_[a].sequence < records_[b].sequence; });
  for (const std::uint32_t slot : order) {
    sequence_ = std::max(sequence_, records_[slot].sequence);
    // Of two records of one block the later one counts; no order of changes makes two, but a damaged disk might.
    if (const auto twin = index_.find(records_[slot].key); twin != index_.end()) {
      kept_->remove(twin->second);
      WEFT_CHECK(drop(twin->second));
      ++damaged_;
    }
    index_[records_[slot].key] = slot;
    kept_->touch(slot);
  }
  recovered_ = blocks();
  return {};
}

Status Tier::check_contents() {
  std::vector<std::byte> page(static_cast<std::size_t>(options_.page_bytes));
  const auto all = index_;
  for (const auto& [key, slot] : all) {
    if (const int code = read_all(data_fd_.get(), page.data(), page.size(), slot * options_.page_bytes); code != 0)
      return tl::make_unexpected(broken(options_.file, "reading", code));
    if (crc(page.data(), page.size()) == records_[slot].checksum) continue;
    kept_->remove(slot);
    WEFT_CHECK(drop(slot));
    ++damaged_;
    --recovered_;
  }
  return {};
}

Status Tier::sync(int fd, const std::string& file) const {
  if (options_.sync && fdatasync(fd) != 0) return tl::make_unexpected(broken(file, "fdatasync", errno));
  return {};
}

Status Tier::write_record(std::uint32_t slot) {
  Record& r = records_[slot];
  r.crc = crc(&r, offsetof(Record, crc));
  const std::string file = options_.file + ".index";
  const auto at = static_cast<off_t>(sizeof(Header) + std::size_t{slot} * sizeof(Record));
  if (const int code = write_all(index_fd_.get(), &r, sizeof r, at); code != 0)
    return tl::make_unexpected(broken(file, "writing", code));
  return sync(index_fd_.get(), file);
}

// The slot becomes free here and in the file. If the file cannot be written, the slot is not used again.
Status Tier::drop(std::uint32_t slot) {
  index_.erase(records_[slot].key);
  records_[slot] = {.sequence = ++sequence_};
  change("free record");
  WEFT_CHECK(write_record(slot));
  free_.push_back(slot);
  return {};
}

Status Tier::move(transfer::Op op, const transfer::Registration& memory, std::uint32_t page, std::uint32_t slot) {
  const auto row = [&](const transfer::Registration& region, std::uint32_t index) {
    return std::vector<transfer::Rows>{{region.region, index * options_.page_bytes, options_.page_bytes}};
  };
  WEFT_TRY(const auto local, agent_->prepare("", row(memory, page)));
  WEFT_TRY(const auto remote, agent_->prepare("", row(data_, slot)));
  WEFT_TRY(auto request, agent_->make(op, local, remote));
  WEFT_CHECK(agent_->post(request));
  if (agent_->wait(request) != transfer::State::kDone) return tl::make_unexpected(request.error());
  return {};
}

Status Tier::put(const BlockKey& key, const transfer::Registration& memory, std::uint32_t page) {
  if (const auto known = index_.find(key); known != index_.end()) {
    kept_->touch(known->second);
    return {};
  }
  if (free_.empty()) {
    const std::uint32_t victim = kept_->evict([](std::uint32_t) { return false; });
    if (victim == kNone)
      return failure(Code::kNoResources, Blame::kOperation, "{}: no slot can be written to", options_.file);
    WEFT_CHECK(drop(victim));
  }
  const std::uint32_t slot = free_.back();
  const auto bytes = static_cast<std::size_t>(options_.page_bytes);
  const std::uint32_t sum = crc(memory.data + bytes * page, bytes);
  change("block");
  WEFT_CHECK(move(transfer::Op::kWrite, memory, page, slot));
  WEFT_CHECK(sync(data_fd_.get(), options_.file));
  free_.pop_back();
  records_[slot] = {.key = key, .sequence = ++sequence_, .checksum = sum, .valid = 1};
  change("record");
  if (const Status written = write_record(slot); !written) {
    records_[slot] = {};
    free_.push_back(slot);
    return written;
  }
  index_[key] = slot;
  kept_->touch(slot);
  return {};
}

Status Tier::get(const BlockKey& key, const transfer::Registration& memory, std::uint32_t page) {
  const std::uint32_t slot = index_.at(key);
  WEFT_CHECK(move(transfer::Op::kRead, memory, page, slot));
  const auto bytes = static_cast<std::size_t>(options_.page_bytes);
  if (crc(memory.data + bytes * page, bytes) == records_[slot].checksum) {
    kept_->touch(slot);
    return {};
  }
  kept_->remove(slot);
  WEFT_CHECK(drop(slot));
  return failure(Code::kMismatch, Blame::kOperation, "{}: block {} does not hold what was written: it has been dropped",
                 options_.file, slot);
}

}  // namespace weft::kv
