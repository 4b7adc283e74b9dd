#include "onesided/rma/connection.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "net/link/bytes.h"
#include "onesided/pgas/remote.h"
#include "onesided/rma/record.h"

namespace weft::net::rma {
namespace {

constexpr const char* kCall = "serving a peer";

template <class T>
Word apply(pgas::AtomicOp op, std::byte* at, Word operand, Word compare) {
  return pgas::with_op(op, [&](auto known) -> Word {
    return pgas::detail::apply<known()>(at, static_cast<T>(operand), static_cast<T>(compare));
  });
}

}  // namespace

Server::Connection::Connection(UniqueFd fd, const link::Handshake& greeting, const link::Sealing& sealing,
                               const pgas::Space& space, std::atomic<bool>& left)
    : fd_(std::move(fd)), space_(space), peer_(greeting.claim().from), left_(left) {
  if (!sealing.on()) return;
  sealer_.emplace(sealing, greeting.session_key(), link::Sealer::Side::kAcceptor, true);
  opener_.emplace(sealing, greeting.session_key(), link::Sealer::Side::kOpener, false);
}

void Server::Connection::advance() {
  while (open()) {
    if (sends() && !send_answer()) return;
    work();
    if (sends()) continue;
    if (!receive()) return;
  }
}

// False: the socket takes no more now.
bool Server::Connection::send_answer() {
  while (sends()) {
    if (sealer_ && record_.empty()) {
      // A copy: the program may store to the memory while the record is under way.
      const std::size_t bytes = std::min(answer_.size(), kRecordBytes);
      append_record(*sealer_, answer_.first(bytes), record_);
      answer_ = answer_.subspan(bytes);
      record_sent_ = 0;
    }
    const auto next = sealer_ ? std::span<const std::byte>(record_).subspan(record_sent_) : answer_;
    const link::Moved moved = link::send_now(fd_.get(), next.data(), next.size());
    if (moved.over) close();
    if (moved.bytes == 0) return false;
    if (!sealer_) {
      answer_ = answer_.subspan(moved.bytes);
    } else if ((record_sent_ += moved.bytes) == record_.size()) {
      record_.clear();
    }
  }
  return true;
}

// More of a large put to where it belongs, else of anything into the buffer. False: there is nothing now.
bool Server::Connection::receive() {
  const bool direct = landing_.size() >= kBuffer && !opener_;
  if (!direct && begin_ == end_) begin_ = end_ = 0;
  if (!direct && end_ == kBuffer) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  const std::span<std::byte> into = direct ? landing_ : std::span(buffer_).subspan(end_);
  const link::Moved moved = link::receive_now(fd_.get(), into.data(), into.size());
  if (moved.over) close();
  if (direct)
    landing_ = landing_.subspan(moved.bytes);
  else
    end_ += moved.bytes;
  return moved.bytes > 0;
}

void Server::Connection::open_next(std::size_t bytes) {
  if (opener_ && !open_record(*opener_, buffer_.data() + begin_, bytes))
    space_.misuse(kCall, fmt::format("what came from PE {} was changed on its way", peer_));
}

// Uses what has come, up to a request that has to be answered first.
void Server::Connection::work() {
  while (!sends()) {
    if (!request_) {
      if (end_ - begin_ < with_tag(sizeof(Request))) return;
      open_next(sizeof(Request));
      std::memcpy(&request_.emplace(), buffer_.data() + begin_, sizeof(Request));
      begin_ += with_tag(sizeof(Request));
      if (request_->kind == Request::Kind::kPut)
        landing_ = {memory(request_->bytes), static_cast<std::size_t>(request_->bytes)};
    }
    if (!landing_.empty()) {
      // A single word is stored whole: the owner may be looking at it.
      if (request_->bytes <= 8 && end_ - begin_ < landing_.size()) return;
      const std::size_t n = std::min(landing_.size(), opener_ ? kRecordBytes : end_ - begin_);
      if (end_ - begin_ < with_tag(n)) return;
      open_next(n);
      std::memcpy(landing_.data(), buffer_.data() + begin_, n);
      begin_ += with_tag(n);
      landing_ = landing_.subspan(n);
      if (!landing_.empty() && !opener_) return;
      if (!landing_.empty()) continue;
    }
    carry_out();
    request_.reset();
  }
}

std::byte* Server::Connection::memory(std::int64_t bytes) const {
  std::byte* const at = space_.own({request_->region, request_->offset}, bytes);
  if (at == nullptr)
    space_.misuse(kCall, fmt::format("PE {} asks for {} bytes at {} of region {}, which is not there", peer_, bytes,
                                     request_->offset, request_->region));
  return at;
}

void Server::Connection::carry_out() {
  const Request& r = *request_;
  const auto answer_word = [this](Word word) {
    word_ = word;
    answer_ = std::as_bytes(std::span(&word_, 1));
  };
  switch (r.kind) {
    case Request::Kind::kPut:
      std::atomic_thread_fence(std::memory_order_release);  // before whatever this peer asks for next
      return;
    case Request::Kind::kGet:
      answer_ = {memory(r.bytes), static_cast<std::size_t>(r.bytes)};
      return;
    case Request::Kind::kUpdate:
    case Request::Kind::kFetch: {
      if (r.op > static_cast<std::uint8_t>(pgas::AtomicOp::kXor) || (r.bytes != 4 && r.bytes != 8))
        space_.misuse(kCall, fmt::format("PE {} asks for atomic operation {} on {} bytes", peer_, r.op, r.bytes));
      const auto op = static_cast<pgas::AtomicOp>(r.op);
      std::byte* const at = memory(r.bytes);
      const Word old = r.bytes == 4 ? apply<std::uint32_t>(op, at, r.operand, r.compare)
                                    : apply<std::uint64_t>(op, at, r.operand, r.compare);
      if (r.kind == Request::Kind::kFetch) answer_word(old);
      return;
    }
    case Request::Kind::kFlush:
      return answer_word(0);
    case Request::Kind::kEnd:
      std::fflush(nullptr);
      std::_Exit(static_cast<int>(r.bytes));
  }
  space_.misuse(kCall, fmt::format("PE {} asks for {}, which there is not", peer_, static_cast<int>(r.kind)));
}

}  // namespace weft::net::rma
