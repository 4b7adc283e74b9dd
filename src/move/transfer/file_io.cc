#include "move/transfer/file_io.h"

#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>

#include "move/transfer/segment.h"
#include "net/link/socket.h"

namespace weft::transfer {
namespace {

Error failed(const FileIo::Piece& piece, int code) {
  const bool full = code == ENOSPC || code == EDQUOT || code == EFBIG;
  return {full ? Code::kNoResources : Code::kSystem, Blame::kOperation,
          fmt::format("{} {} B at {}: {}", piece.writes ? "writing" : "reading", piece.bytes, piece.offset,
                      code == 0 ? "the file ends there" : std::strerror(code))};
}

// What is left of a piece after part of it.
FileIo::Piece rest_of(FileIo::Piece piece, Bytes done) {
  piece.memory += done;
  piece.bytes -= done;
  piece.offset += done;
  return piece;
}

// The rings that the kernel shares. Submissions are filled in order; only this side moves their tail and the
// completions' head, only the kernel the others.
class Uring final : public FileIo {
 public:
  // Nothing: the kernel has none or forbids it; `why` says so.
  static std::unique_ptr<Uring> open(std::string& why) {
    io_uring_params params{};
    auto ring = std::unique_ptr<Uring>(new Uring());
    ring->fd_ = UniqueFd(static_cast<int>(syscall(SYS_io_uring_setup, kDepth, &params)));
    if (!ring->fd_.open() || !ring->map(params)) {
      why = std::strerror(errno);
      return nullptr;
    }
    return ring;
  }

  Status run(std::span<const Piece> pieces) override {
    if (broken_) return tl::make_unexpected(*broken_);
    std::deque<Piece> again;  // parts that were left over
    std::size_t next = 0;
    std::optional<Error> wrong;
    const auto more = [&] { return !wrong && (next < pieces.size() || !again.empty()); };
    while (more() || under_way_ > 0) {
      while (more() && under_way_ < kDepth) {
        if (again.empty()) {
          submit(pieces[next++]);
        } else {
          submit(again.front());
          again.pop_front();
        }
      }
      // A later run would execute the entries that the ring still holds then, on memory that may be gone.
      if (const int code = enter(); code != 0)
        wrong = broken_ = Error{Code::kSystem, Blame::kOperation, fmt::format("io_uring: {}", std::strerror(code))};
      reap([&](const Piece& piece, int result) {
        if (result == -EINTR || result == -EAGAIN) return again.push_back(piece);
        if (result <= 0) {
          if (!wrong) wrong = failed(piece, -result);
        } else if (result < piece.bytes) {
          again.push_back(rest_of(piece, result));
        }
      });
    }
    if (wrong) return tl::make_unexpected(*wrong);
    return {};
  }
  const std::string& how() const override { return how_; }

 private:
  bool map(const io_uring_params& p) {
    const auto place = [this](std::size_t bytes, std::uint64_t at) {
      void* const memory =
          mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd_.get(), static_cast<off_t>(at));
      return memory == MAP_FAILED ? Mapping() : Mapping(static_cast<std::byte*>(memory), bytes);
    };
    submissions_ = place(p.sq_off.array + p.sq_entries * sizeof(unsigned), IORING_OFF_SQ_RING);
    completions_ = place(p.cq_off.cqes + p.cq_entries * sizeof(io_uring_cqe), IORING_OFF_CQ_RING);
    entries_ = place(p.sq_entries * sizeof(io_uring_sqe), IORING_OFF_SQES);
    if (submissions_.data() == nullptr || completions_.data() == nullptr || entries_.data() == nullptr) return false;
    const auto at = [](const Mapping& m, unsigned offset) { return reinterpret_cast<unsigned*>(m.data() + offset); };
    sq_tail_ = at(submissions_, p.sq_off.tail);
    sq_mask_ = *at(submissions_, p.sq_off.ring_mask);
    sq_array_ = at(submissions_, p.sq_off.array);
    cq_head_ = at(completions_, p.cq_off.head);
    cq_tail_ = at(completions_, p.cq_off.tail);
    cq_mask_ = *at(completions_, p.cq_off.ring_mask);
    sqes_ = reinterpret_cast<io_uring_sqe*>(entries_.data());
    cqes_ = reinterpret_cast<io_uring_cqe*>(completions_.data() + p.cq_off.cqes);
    for (unsigned i = kDepth; i-- > 0;) free_.push_back(i);
    return true;
  }

  // Requires: under_way_ < kDepth.
  void submit(const Piece& piece) {
    const unsigned place = free_.back();
    free_.pop_back();
    pieces_[place] = piece;
    const unsigned tail = *sq_tail_, slot = tail & sq_mask_;
    io_uring_sqe& e = sqes_[slot];
    std::memset(&e, 0, sizeof e);
    e.opcode = piece.writes ? IORING_OP_WRITE : IORING_OP_READ;
    e.fd = piece.fd;
    e.addr = reinterpret_cast<std::uint64_t>(piece.memory);
    e.len = static_cast<unsigned>(std::min<Bytes>(piece.bytes, Bytes{1} << 30));
    e.off = static_cast<std::uint64_t>(piece.offset);
    e.user_data = place;
    sq_array_[slot] = slot;
    std::atomic_ref(*sq_tail_).store(tail + 1, std::memory_order_release);
    ++to_submit_;
    ++under_way_;
  }

  // Hands submissions over and waits for a completion. Errors: errno.
  int enter() {
    while (true) {
      const long n = syscall(SYS_io_uring_enter, fd_.get(), to_submit_, under_way_ > 0 ? 1 : 0, IORING_ENTER_GETEVENTS,
                             nullptr, 0);
      if (n >= 0) {
        to_submit_ -= static_cast<unsigned>(n);
        return 0;
      }
      // Busy or interrupted: what has completed makes room.
      if (errno == EINTR || errno == EAGAIN || errno == EBUSY) return 0;
      const int code = errno;
      under_way_ -= to_submit_;  // these were never seen
      to_submit_ = 0;
      return code;
    }
  }

  template <class F>
  void reap(F&& done) {
    unsigned head = *cq_head_;
    while (head != std::atomic_ref(*cq_tail_).load(std::memory_order_acquire)) {
      const io_uring_cqe& e = cqes_[head & cq_mask_];
      const auto place = static_cast<unsigned>(e.user_data);
      const int result = e.res;
      std::atomic_ref(*cq_head_).store(++head, std::memory_order_release);
      --under_way_;
      free_.push_back(place);
      done(pieces_[place], result);
    }
  }

  UniqueFd fd_;
  Mapping submissions_, completions_, entries_;
  unsigned *sq_tail_ = nullptr, *sq_array_ = nullptr, *cq_head_ = nullptr, *cq_tail_ = nullptr;
  unsigned sq_mask_ = 0, cq_mask_ = 0;
  io_uring_sqe* sqes_ = nullptr;
  io_uring_cqe* cqes_ = nullptr;
  Piece pieces_[kDepth];
  std::vector<unsigned> free_;
  unsigned under_way_ = 0, to_submit_ = 0;
  std::optional<Error> broken_;
  std::string how_ = "io_uring";
};

int carry_out(const FileIo::Piece& piece) {
  for (Bytes done = 0; done < piece.bytes;) {
    const auto left = static_cast<std::size_t>(piece.bytes - done);
    const ssize_t n = piece.writes ? pwrite(piece.fd, piece.memory + done, left, piece.offset + done)
                                   : pread(piece.fd, piece.memory + done, left, piece.offset + done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    if (n == 0) return -1;
    done += n;
  }
  return 0;
}

// Threads that take pieces one after the other; they sleep between runs.
class Threads final : public FileIo {
 public:
  explicit Threads(const std::string& why) : how_(fmt::format("{} threads ({})", kThreads, why)) {
    for (unsigned i = 0; i < kThreads; ++i) threads_.emplace_back([this] { work(); });
  }
  ~Threads() override {
    {
      const std::lock_guard guard(mutex_);
      ends_ = true;
    }
    begin_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  Status run(std::span<const Piece> pieces) override {
    std::unique_lock guard(mutex_);
    pieces_ = pieces;
    next_ = 0;
    left_ = pieces.size();
    wrong_.reset();
    begin_.notify_all();
    ended_.wait(guard, [this] { return left_ == 0; });
    pieces_ = {};
    if (wrong_) return tl::make_unexpected(*wrong_);
    return {};
  }
  const std::string& how() const override { return how_; }

 private:
  void work() {
    std::unique_lock guard(mutex_);
    while (true) {
      begin_.wait(guard, [this] { return ends_ || next_ < pieces_.size(); });
      if (ends_) return;
      const Piece piece = pieces_[next_++];
      const bool skips = wrong_.has_value();
      guard.unlock();
      const int code = skips ? 0 : carry_out(piece);
      guard.lock();
      if (code != 0 && !wrong_) wrong_ = failed(piece, code < 0 ? 0 : code);
      if (--left_ == 0) ended_.notify_one();
    }
  }

  std::mutex mutex_;
  std::condition_variable begin_, ended_;
  std::span<const Piece> pieces_;  // the rest: by mutex_
  std::size_t next_ = 0, left_ = 0;
  std::optional<Error> wrong_;
  bool ends_ = false;
  std::string how_;
  std::vector<std::thread> threads_;
};

}  // namespace

Result<std::unique_ptr<FileIo>> FileIo::open(bool by_threads) {
  std::string why = "asked for";
  if (!by_threads) {
    if (auto ring = Uring::open(why)) return std::unique_ptr<FileIo>(std::move(ring));
    why = "io_uring: " + why;
  }
  try {
    return std::unique_ptr<FileIo>(new Threads(why));
  } catch (const std::system_error& problem) {
    return failure(Code::kNoResources, Blame::kOperation, "threads for files: {}", problem.what());
  }
}

}  // namespace weft::transfer
