#include "apps/doctor/ras.h"

#include <fmt/format.h>

#include <algorithm>

#include "apps/doctor/line.h"

namespace weft::doctor {
namespace {

bool has(std::string_view text, std::string_view word) { return text.find(word) != std::string_view::npos; }

std::string node_of(std::string_view text) {
  const auto at = text.find(" on node ");
  if (at == std::string_view::npos) return "";
  const auto rest = text.substr(at + 9);
  return std::string(rest.substr(0, rest.find_first_of(" ,;")));
}

std::int64_t count_behind(std::string_view text, std::string_view word) {
  const auto at = text.find(word);
  if (at == std::string_view::npos) return -1;
  std::int64_t value = -1;
  for (const char c : text.substr(at + word.size(), 18)) {
    if (c < '0' || c > '9') break;
    value = std::max<std::int64_t>(value, 0) * 10 + (c - '0');
  }
  return value;
}

}  // namespace

void Ras::close() {
  if (!open_.counts.empty()) readings_[communicator_ + operation_].push_back(std::move(open_));
  open_ = {};
  count_ = -1;
}

bool Ras::line(std::string_view text, const std::string& file, int number) {
  while (!text.empty() && text[0] == ' ') text.remove_prefix(1);
  Fact fact{.file = file, .text = std::string(text), .host = node_of(text), .source = "ras", .line = number};
  // "#0-0 (27a079b828ff1a75) MISMATCH"
  if (text.starts_with('#') && number_at(text, 1) >= 0 && has(text, "(")) {
    close();
    const auto begin = text.find('('), end = text.find(')');
    communicator_ = end == std::string_view::npos ? "" : std::string(text.substr(begin + 1, end - begin - 1));
    status_ = end == std::string_view::npos ? "" : std::string(text.substr(std::min(end + 2, text.size())));
    return true;
  }
  if (text == "DEAD" || text == "INCOMPLETE" || text == "TIMEOUT" || text == "ERROR" || text == "ABORT") {
    close();
    status_ = text;
    return true;
  }
  if (has(text, "Communicator ranks have different ")) {
    close();
    operation_ = text.substr(text.find("different ") + 10);
    return true;
  }
  if (const auto count = has(text, "have not launched any operations") ? 0 : count_behind(text, "up to operation ");
      count >= 0) {
    count_ = count;
    open_.most = std::max(open_.most, count);
    if (const int rank = text.starts_with("Rank ") ? number_at(text, 5) : -1; rank >= 0) {
      fact.rank = rank;
      open_.counts[rank] = count;
      open_.facts[rank] = fact;
    }
    return true;
  }
  if (text.starts_with("Rank ") && has(text, "managed by process")) {
    fact.rank = number_at(text, 5);
    if (status_ == "MISMATCH" && count_ >= 0) {
      fact.text = fmt::format("{} (has launched up to operation {})", text, count_);
      open_.counts[fact.rank] = count_;
      open_.facts[fact.rank] = fact;
    } else if (status_ == "INCOMPLETE" || status_ == "TIMEOUT") {
      dead_.emplace_back("F088", fact);
    } else if (status_ == "ERROR" || status_ == "ABORT") {
      dead_.emplace_back("F089", fact);
    }
    return true;
  }
  if (text.starts_with("Process ") && has(text, "managing GPU")) {
    dead_.emplace_back(status_ == "DEAD" ? "F086" : "F088", fact);
    return true;
  }
  return has(text, "considered dead") || has(text, "Missing communicator data") || has(text, "RUNNING");
}

void Ras::finish(const Finder& found) const {
  for (const auto& [id, fact] : dead_) found(id, fact);
  auto readings = readings_;
  if (!open_.counts.empty()) readings[communicator_ + operation_].push_back(open_);
  for (const auto& [name, list] : readings) {
    const Reading& last = list.back();
    std::int64_t least = last.most;
    for (const auto& [rank, count] : last.counts) least = std::min(least, count);
    if (least == last.most) continue;
    for (const auto& [rank, count] : last.counts) {
      if (count != least) continue;
      const auto same = std::ranges::count_if(list, [&](const Reading& r) {
        const auto there = r.counts.find(rank);
        return there != r.counts.end() && there->second == count;
      });
      found(same >= 2 ? "F087" : "W02", last.facts.at(rank));
    }
  }
}

}  // namespace weft::doctor
