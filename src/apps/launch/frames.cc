#include "apps/launch/frames.h"

#include <limits.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace weft::launch {
namespace {

constexpr std::size_t kMostText = std::size_t{64} << 20;
constexpr std::size_t kMostNoise = std::size_t{1} << 20;

struct Head {
  std::uint32_t bytes = 0;
  FrameKind kind = FrameKind::kHello;
  Rank rank = -1;
};
static_assert(sizeof(Head) == 12);

}  // namespace

Result<std::optional<Frame>> FrameReader::next() {
  if (bytes_.size() < sizeof(Head)) return std::nullopt;
  Head head;
  std::memcpy(&head, bytes_.data(), sizeof head);
  if (head.bytes > kMostText || head.kind < FrameKind::kHello || head.kind > FrameKind::kDone)
    return failure(Code::kSystem, Blame::kInput, "bytes that are no frame");
  if (bytes_.size() < sizeof head + head.bytes) return std::nullopt;
  Frame frame{head.kind, head.rank, bytes_.substr(sizeof head, head.bytes)};
  bytes_.erase(0, sizeof head + head.bytes);
  return frame;
}

Result<std::optional<std::string>> FrameReader::greeting() {
  std::size_t at = bytes_.rfind(kGreeting, 0) == 0 ? 0 : bytes_.find(std::string("\n") += kGreeting);
  if (at != std::string::npos && at + kGreeting.size() < bytes_.size()) {
    if (bytes_[at] == '\n') ++at;
    const std::size_t begin = at + kGreeting.size(), end = bytes_.find('\n', begin);
    if (end == std::string::npos) return std::nullopt;
    std::string version = bytes_.substr(begin, end - begin);
    bytes_.erase(0, end + 1);
    return version;
  }
  if (bytes_.size() > kMostNoise)
    return failure(Code::kSystem, Blame::kInput, "its shell prints more than {} bytes before weft starts", kMostNoise);
  return std::nullopt;
}

std::string encode(const Frame& frame) {
  const Head head{static_cast<std::uint32_t>(frame.text.size()), frame.kind, frame.rank};
  std::string bytes(reinterpret_cast<const char*>(&head), sizeof head);
  return bytes += frame.text;
}

bool PendingBytes::write_some(int fd) {
  if (empty()) return true;
  const ssize_t n = write(fd, bytes_.data() + at_, std::min<std::size_t>(size(), PIPE_BUF));
  if (n < 0) return errno == EAGAIN || errno == EINTR;
  at_ += static_cast<std::size_t>(n);
  if (empty() || at_ > std::size_t{1} << 20) {
    bytes_.erase(0, at_);
    at_ = 0;
  }
  return true;
}

}  // namespace weft::launch
