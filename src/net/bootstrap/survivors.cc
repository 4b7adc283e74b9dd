#include "net/bootstrap/survivors.h"

#include <poll.h>

#include <future>

#include "net/bootstrap/reception.h"

namespace weft::net::bootstrap {
namespace {

constexpr Milliseconds kProbe{200};  // for a machine to say that nobody listens there

// Refused: nobody listens. Silence is no proof.
bool is_refused(const Address& at) {
  const auto fd = start_connect(at);
  if (!fd) return false;
  pollfd watched{fd->get(), POLLOUT, 0};
  return poll(&watched, 1, static_cast<int>(kProbe.count())) > 0 && connect_error(fd->get()) == ECONNREFUSED;
}

Result<Meeting> host_survivors(const Meeting& before, const Invitation& own) {
  const Absence absence = [&](Rank r) {
    return r != own.rank && is_refused(before.ranks[static_cast<std::size_t>(r)].data);
  };
  std::atomic<bool> stopped{false};
  auto served = std::async(std::launch::async, [&] {
    return receive_ranks(before.listener.get(), before.key, own.ranks, &absence, own.timeout, stopped);
  });
  auto meeting = meet(own);
  if (!meeting) stopped = true;
  const Status status = served.get();
  if (meeting && !status) return tl::make_unexpected(status.error());
  return meeting;
}

}  // namespace

Result<Meeting> meet_survivors(const Meeting& before, Invitation own) {
  own.ranks = static_cast<Rank>(before.ranks.size());
  own.survivors = true;
  own.id.key = before.key;
  for (Rank host = 0;; ++host) {
    own.id.addresses[0] = before.ranks[static_cast<std::size_t>(host)].data;
    if (host == own.rank) return host_survivors(before, own);
    auto meeting = meet(own);
    if (meeting || meeting.error().code == Code::kAborted) return meeting;
  }
}

}  // namespace weft::net::bootstrap
