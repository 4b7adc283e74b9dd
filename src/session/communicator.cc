#include "weft/communicator.h"

#include <utility>

#include "base/result.h"
#include "session/session.h"

namespace weft {

Result<bool> Work::test() {
  session_->poll(*pending_);
  if (pending_->done && !pending_->status) return tl::make_unexpected(pending_->status.error());
  return pending_->done;
}

Status Work::wait() { return session_->wait(*pending_); }

Memory::Memory(Memory&& other) noexcept
    : session_(std::move(other.session_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

Memory& Memory::operator=(Memory&& other) noexcept {
  std::swap(session_, other.session_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

Memory::~Memory() {
  if (data_ != nullptr) session_->executor().deallocate(data_);
}

Rank Communicator::rank() const { return session_->executor().rank(); }
Rank Communicator::ranks() const { return session_->executor().ranks(); }
Status Communicator::run(const Request& request) { return session_->run(request); }

Result<Work> Communicator::start(const Request& request) {
  Work work;
  WEFT_TRY(work.pending_, session_->start(request));
  work.session_ = session_;
  return work;
}

Result<Work> Communicator::start(std::span<const Transfer> transfers) {
  Work work;
  WEFT_TRY(work.pending_, session_->start(transfers));
  work.session_ = session_;
  return work;
}

Status Communicator::exchange(std::span<const Transfer> transfers) {
  WEFT_TRY(Work work, start(transfers));
  return work.wait();
}

Result<Memory> Communicator::allocate(std::size_t bytes) {
  Memory memory;
  WEFT_TRY(memory.data_, session_->executor().allocate(static_cast<Bytes>(bytes)));
  memory.session_ = session_;
  memory.size_ = bytes;
  return memory;
}

Status Communicator::barrier() { return run({.collective = Collective::kBarrier}); }

Communicator::Choice Communicator::last_choice() const {
  const session::Prepared* last = session_->last();
  if (last == nullptr) return {};
  return {std::string(last->plan.algorithm->name), std::string(protocol::traits(last->plan.protocol).name),
          last->plan.channels};
}

Status Communicator::size_mismatch(std::size_t in, std::size_t out) {
  return bad_input("input of {} and output of {} elements do not fit each other", in, out);
}

}  // namespace weft
