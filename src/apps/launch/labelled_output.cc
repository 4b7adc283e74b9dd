#include "apps/launch/labelled_output.h"

namespace weft::launch {

LabelledOutput::LabelledOutput(bool labels, Rank ranks)
    : labels_(labels), width_(fmt::format("{}", ranks - 1).size()) {}

void LabelledOutput::put(FrameKind kind, Rank rank, std::string_view line) {
  PendingBytes& to = kind == FrameKind::kErrors ? err_ : out_;
  if (labels_) to.add(fmt::format("[{:>{}}] ", rank, width_));
  to.add(line);
  to.add("\n");
}

void LabelledOutput::add(FrameKind kind, Rank rank, std::string_view bytes) {
  std::string& begun = begun_[{rank, kind}];
  begun += bytes;
  std::size_t at = 0;
  for (std::size_t end; (end = begun.find('\n', at)) != std::string::npos; at = end + 1)
    put(kind, rank, std::string_view(begun).substr(at, end - at));
  begun.erase(0, at);
  if (begun.size() <= kLongestLine) return;
  put(kind, rank, begun);
  begun.clear();
}

void LabelledOutput::finish(Rank rank) {
  for (const FrameKind kind : {FrameKind::kOutput, FrameKind::kErrors}) finish(rank, kind);
}

void LabelledOutput::finish(Rank rank, FrameKind kind) {
  const auto found = begun_.find({rank, kind});
  if (found == begun_.end()) return;
  if (!found->second.empty()) put(kind, rank, found->second);
  begun_.erase(found);
}

void LabelledOutput::say(const std::string& line) { err_.add("weft: " + line + "\n"); }

}  // namespace weft::launch
