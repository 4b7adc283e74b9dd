#pragma once

#include <map>
#include <string>
#include <string_view>

#include "apps/launch/frames.h"

namespace weft::launch {

// Output of ranks on its way to stdout and stderr, in whole lines. With labels every line begins with its rank: "[3] ".
class LabelledOutput {
 public:
  // `ranks`: of the job; labels have the width of the largest.
  LabelledOutput(bool labels, Rank ranks);

  void add(FrameKind kind, Rank rank, std::string_view bytes);
  // What a rank has written behind its last newline, when nothing will follow.
  void finish(Rank rank);
  void finish(Rank rank, FrameKind kind);
  // A line of the launcher's own on stderr.
  void say(const std::string& line);

  bool full() const { return out_.size() + err_.size() > kMost; }
  PendingBytes& out() { return out_; }
  PendingBytes& err() { return err_; }

 private:
  static constexpr std::size_t kMost = std::size_t{1} << 20;
  static constexpr std::size_t kLongestLine = std::size_t{64} << 10;  // longer ones are cut

  void put(FrameKind kind, Rank rank, std::string_view line);

  const bool labels_;
  const std::size_t width_;
  std::map<std::pair<Rank, FrameKind>, std::string> begun_;  // lines without their end
  PendingBytes out_, err_;
};

}  // namespace weft::launch
