#include "onesided/rma/line.h"

#include <algorithm>
#include <cstring>

#include "net/link/dial.h"
#include "onesided/rma/record.h"

namespace weft::net::rma {

Status Line::open(const link::Address& peer, const link::Key& key, const link::Sealing& sealing, Rank self, Rank to,
                  std::chrono::milliseconds timeout) {
  peer_ = to;
  auto dialled = link::dial(
      {.to = peer, .key = key, .claim = {.purpose = link::kOneSided, .from = self, .to = to}, .timeout = timeout});
  if (!dialled) {
    const Error& e = dialled.error();
    if (e.blame == Blame::kProcess) return tl::make_unexpected(e);
    return failure(e.code == Code::kTimeout ? Code::kTimeout : Code::kPeerDied, Blame::kCommunicator, "PE {} at {}: {}",
                   to, peer.text(), e.message);
  }
  fd_ = std::move(dialled->fd);
  if (sealing.on()) {
    const MutexLock guard(mutex_);
    sealer_.emplace(sealing, dialled->session_key, link::Sealer::Side::kOpener, true);
    opener_.emplace(sealing, dialled->session_key, link::Sealer::Side::kAcceptor, false);
  }
  return {};
}

Status Line::ask(const Request& request, std::span<const std::byte> payload, std::span<std::byte> answer) {
  const MutexLock guard(mutex_);
  WEFT_CHECK(send(request, payload));
  if (answer.empty()) {
    unacknowledged_ = true;
    return {};
  }
  return receive(answer);
}

Status Line::begin_flush() {
  mutex_.lock();
  return unacknowledged_ ? send({.kind = Request::Kind::kFlush}, {}) : Status{};
}

Status Line::end_flush() {
  const MutexLock guard(mutex_, std::adopt_lock);
  if (!unacknowledged_) return {};
  unacknowledged_ = false;
  Word answer = 0;
  return receive(std::as_writable_bytes(std::span(&answer, 1)));
}

// A link that is cut ends the wait: see end_when_cut().
Status Line::check(link::Outcome outcome) const {
  if (outcome == link::Outcome::kDone) return {};
  return failure(Code::kPeerDied, Blame::kCommunicator, "PE {} has ended", peer_);
}

// Sealed, the request is a record, and the payload is one for every kRecordBytes.
Status Line::send(const Request& request, std::span<const std::byte> payload) {
  const auto head = std::as_bytes(std::span(&request, 1));
  if (!sealer_) return check(link::send_all(fd_.get(), head, payload, {}));
  record_.clear();
  append_record(*sealer_, head, record_);
  while (!payload.empty()) {
    const std::size_t bytes = std::min(payload.size(), kRecordBytes);
    append_record(*sealer_, payload.first(bytes), record_);
    payload = payload.subspan(bytes);
    if (payload.empty()) break;
    WEFT_CHECK(check(link::send_all(fd_.get(), record_, {}, {})));
    record_.clear();
  }
  return check(link::send_all(fd_.get(), record_, {}, {}));
}

Status Line::receive(std::span<std::byte> into) {
  if (!opener_) return check(link::receive_all(fd_.get(), into, {}));
  while (!into.empty()) {
    const std::size_t bytes = std::min(into.size(), kRecordBytes);
    record_.resize(bytes + link::Sealer::kTagBytes);
    WEFT_CHECK(check(link::receive_all(fd_.get(), record_, {})));
    if (!open_record(*opener_, record_.data(), bytes))
      return failure(Code::kAborted, Blame::kCommunicator, "what came from PE {} was changed on its way", peer_);
    std::memcpy(into.data(), record_.data(), bytes);
    into = into.subspan(bytes);
  }
  return {};
}

}  // namespace weft::net::rma
