#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// Notifications of any size over weft's queues, whose messages have at most Agent::kMostNotification bytes. The form is
// that of python/weftcomm/nixl/_notifications.py, so that both kinds of agents understand each other.
namespace weft::nixl {

// The messages that carry a notification, in order.
std::deque<std::string> parts_of(std::string_view notification);

// Puts parts together again, by peer.
class Parts {
 public:
  // The notification that this message completes; nothing: more parts are to come.
  std::optional<std::string> take(const std::string& peer, std::string message);

 private:
  std::map<std::string, std::string> begun_;
};

}  // namespace weft::nixl
