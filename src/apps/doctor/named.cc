#include "apps/doctor/named.h"

#include <charconv>

#include "base/job_text.h"

namespace weft::doctor {

std::string peer_named(std::string_view line) {
  for (const std::string_view word : {"Got completion from peer ", "closed by remote peer ", "losed by peer [",
                                      "onnect to target: ", "onnect to segment: ", "onnect to ", "Call to recv from ",
                                      "HTTPConnectionPool(host='", " and ip: ", " and address: "})
    if (const auto at = line.find(word); at != std::string_view::npos) {
      auto begin = at + word.size();
      if (begin < line.size() && line[begin] == '(') ++begin;  // "connect to (node-3, 29500)"
      return std::string(line.substr(begin, line.find_first_of(" <,)]'", begin) - begin));
    }
  return "";
}

std::vector<int> missing_ranks(std::string_view line) {
  constexpr std::string_view kHorovod = "[missing ranks: ", kBarrier = " failed to pass monitoredBarrier";
  auto at = line.find(kHorovod);
  if (at != std::string_view::npos) {
    at += kHorovod.size();
  } else if (const auto end = line.find(kBarrier); end != std::string_view::npos) {
    at = line.rfind("Rank", end);
    if (at == std::string_view::npos) return {};
    at = line.find(' ', at) + 1;
  } else {
    return {};
  }
  std::vector<int> ranks;
  int rank = 0;
  for (const char* next = line.data() + at; next < line.data() + line.size();) {
    const auto [rest, error] = std::from_chars(next, line.data() + line.size(), rank);
    if (error != std::errc()) break;
    ranks.push_back(rank);
    next = rest;
    while (next < line.data() + line.size() && (*next == ',' || *next == ' ')) ++next;
  }
  return ranks;
}

std::size_t times_named(std::string_view line) {
  constexpr std::string_view kBegin = "(x", kOver = " over ";
  for (auto at = line.find(kBegin); at != std::string_view::npos; at = line.find(kBegin, at + 1)) {
    const int times = number_at(line, at + kBegin.size());
    const auto end = line.find_first_not_of("0123456789", at + kBegin.size());
    if (times > 0 && end != std::string_view::npos && line.substr(end).starts_with(kOver))
      return static_cast<std::size_t>(times);
  }
  return 1;
}

}  // namespace weft::doctor
