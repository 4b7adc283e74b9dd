#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/units.h"

// The protocol between the launcher and the agent on a host, through ssh: a line with the agent's version, then frames
// in both directions. A frame is a head of 12 bytes (length of the text, kind, rank; as this processor stores them) and
// a text.
namespace weft::launch {

enum class FrameKind : std::uint32_t {
  kHello = 1,  // agent: JSON: how it is reached
  kJob,        // launcher: JSON: what to run
  kReady,      // agent: JSON: where ranks meet, from the agent that was asked to open a place
  kStart,      // launcher: JSON: where ranks meet
  kSignal,     // launcher: a signal's number, as the frame's rank
  kOutput,     // agent: what a rank wrote to stdout
  kErrors,     // agent: … to stderr
  kEnded,      // agent: JSON: how a rank ended
  kGoesOn,     // agent: ranks have asked the arbiter who goes on
  kProblem,    // agent: why it cannot do what it was asked; it ends
  kDone,       // agent: all ranks have ended, and what they had started
};

struct Frame {
  FrameKind kind = FrameKind::kHello;
  Rank rank = -1;
  std::string text;
};

inline constexpr std::string_view kGreeting = "weft-agent ";  // begins the line; the version follows

// Takes bytes as they come and gives whole frames.
class FrameReader {
 public:
  void add(std::string_view bytes) { bytes_ += bytes; }
  // Nothing: more bytes are needed. Errors (kSystem): bytes that no frame begins with.
  Result<std::optional<Frame>> next();
  // The version in the greeting; nothing yet. What a login shell prints before it is skipped. Errors (kSystem): too
  // much of that.
  Result<std::optional<std::string>> greeting();

 private:
  std::string bytes_;
};

std::string encode(const Frame& frame);

// Bytes on their way into a pipe that may be full.
class PendingBytes {
 public:
  void add(std::string_view bytes) { bytes_ += bytes; }
  bool empty() const { return at_ == bytes_.size(); }
  std::size_t size() const { return bytes_.size() - at_; }
  // Writes what fits without blocking. Requires: poll() has said that `fd` takes bytes, which then takes PIPE_BUF of
  // them. False: nobody reads there any more.
  bool write_some(int fd);

 private:
  std::string bytes_;
  std::size_t at_ = 0;
};

}  // namespace weft::launch
