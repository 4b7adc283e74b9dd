#include "compat/nixl_plugin/notifications.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "weft/transfer.h"

namespace weft::nixl {
namespace {

// Before each part: this word, the bytes of all parts, where this one begins.
constexpr std::string_view kPart{"\0weft:p\0", 8};
constexpr std::size_t kHead = kPart.size() + 2 * sizeof(std::uint64_t);

std::string number(std::uint64_t value) { return {reinterpret_cast<const char*>(&value), sizeof value}; }

std::uint64_t number_at(std::string_view message, std::size_t at) {
  std::uint64_t value = 0;
  std::memcpy(&value, message.data() + at, sizeof value);
  return value;
}

}  // namespace

std::deque<std::string> parts_of(std::string_view notification) {
  constexpr std::size_t kMost = transfer::Agent::kMostNotification, kStep = kMost - kHead;
  if (notification.size() <= kMost && !notification.starts_with(kPart)) return {std::string(notification)};
  std::deque<std::string> parts;
  for (std::size_t at = 0; at < notification.size(); at += kStep) {
    std::string& part = parts.emplace_back(kPart);
    part.append(number(notification.size())).append(number(at)).append(notification.substr(at, kStep));
  }
  return parts;
}

std::optional<std::string> Parts::take(const std::string& peer, std::string message) {
  if (!message.starts_with(kPart) || message.size() < kHead) return message;
  const std::uint64_t total = number_at(message, kPart.size()), at = number_at(message, kPart.size() + 8);
  std::string& whole = begun_[peer];
  if (at == 0) whole.clear();
  if (at != whole.size()) return std::nullopt;  // of one whose beginning was lost with a former self of the peer
  whole.append(message, kHead);
  if (whole.size() < total) return std::nullopt;
  std::string done = std::move(whole);
  begun_.erase(peer);
  return done;
}

}  // namespace weft::nixl
