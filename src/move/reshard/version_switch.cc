#include "move/reshard/version_switch.h"

#include <algorithm>

#include "base/text.h"

namespace weft::reshard {
namespace {

constexpr std::string_view kArrived = "weft.reshard arrived ", kSwitch = "weft.reshard switch ";

}  // namespace

VersionSwitch::VersionSwitch(transfer::Agent& agent, Rank rank, std::vector<std::string> members)
    : agent_(agent), rank_(rank), members_(std::move(members)), arrived_(members_.size()), sent_(members_.size()) {}

Status VersionSwitch::arrived(std::int64_t version) {
  auto& mine = arrived_.at(static_cast<std::size_t>(rank_));
  mine = std::max(mine, version);
  return progress();
}

Status VersionSwitch::progress() {
  Status status;
  // Each other rank is sent what it does not know; one that cannot be reached does not keep the others from it.
  const auto send = [&](std::size_t to, std::string_view what, std::int64_t version) {
    if (sent_[to] >= version) return;
    const Status sent = agent_.notify(members_[to], fmt::format("{}{}", what, version));
    if (sent)
      sent_[to] = version;
    else if (status)
      status = sent;
  };
  if (rank_ != 0) {
    send(0, kArrived, arrived_[static_cast<std::size_t>(rank_)]);
    return status;
  }
  version_ = std::max(version_, *std::min_element(arrived_.begin(), arrived_.end()));
  for (std::size_t r = 1; r < members_.size(); ++r) send(r, kSwitch, version_);
  return status;
}

Result<bool> VersionSwitch::take(const transfer::Notification& notification) {
  const std::string_view prefix = rank_ == 0 ? kArrived : kSwitch;
  const auto from = std::find(members_.begin(), members_.end(), notification.peer);
  if (!notification.bytes.starts_with(prefix) || from == members_.end() || (rank_ != 0 && from != members_.begin()))
    return false;
  const auto version =
      parse_integer("version", std::string_view(notification.bytes).substr(prefix.size()), 0, INT64_MAX);
  if (!version) return false;
  if (rank_ != 0) {
    version_ = std::max(version_, *version);
    return true;
  }
  auto& arrived = arrived_[static_cast<std::size_t>(from - members_.begin())];
  arrived = std::max(arrived, *version);
  WEFT_CHECK(progress());
  return true;
}

}  // namespace weft::reshard
