#include "apps/launch/hosts.h"

#include <algorithm>

#include "base/text.h"
#include "base/text_file.h"

namespace weft::launch {
namespace {

constexpr std::int64_t kMostRanksOfAHost = 4096;

// What ssh could take for an option, or a shell for more than a word, is no host.
bool is_host(const std::string& name) {
  constexpr std::string_view kPunctuation = "._-@:%";
  return !name.empty() && name.front() != '-' && name.front() != '@' &&
         std::all_of(name.begin(), name.end(), [&](unsigned char c) {
           return std::isalnum(c) != 0 || kPunctuation.find(static_cast<char>(c)) != std::string_view::npos;
         });
}

Result<Rank> count_of(const std::string& what, const std::string& text) {
  WEFT_TRY(const std::int64_t ranks, parse_integer(what, text, 1, kMostRanksOfAHost));
  return static_cast<Rank>(ranks);
}

// "name", "name:4", "[v6]:4"; an IPv6 address without brackets has no number.
Result<HostRanks> parse_host(const std::string& what, const std::string& text) {
  HostRanks host{.name = text};
  const std::size_t open = text.find('['), close = text.find(']');
  std::string number;
  if (open != std::string::npos && close != std::string::npos && open < close) {
    host.name = text.substr(0, open) + text.substr(open + 1, close - open - 1);
    number = text.substr(close + 1);
    if (!number.empty() && number.front() != ':') return bad_input("{}: '{}' is no host", what, text);
  } else if (std::count(text.begin(), text.end(), ':') == 1) {
    host.name = text.substr(0, text.find(':'));
    number = text.substr(text.find(':'));
  }
  if (!is_host(host.name)) return bad_input("{}: '{}' is no host", what, text);
  if (!number.empty()) {
    WEFT_TRY(host.ranks, count_of(fmt::format("{}: ranks of {}", what, host.name), number.substr(1)));
  }
  return host;
}

void add(std::vector<HostRanks>& hosts, HostRanks host) {
  const auto same = std::find_if(hosts.begin(), hosts.end(), [&](const HostRanks& h) { return h.name == host.name; });
  if (same == hosts.end())
    hosts.push_back(std::move(host));
  else
    same->ranks = std::max<Rank>(same->ranks, 1) + std::max<Rank>(host.ranks, 1);
}

std::vector<std::string> split(const std::string& text, std::string_view separators) {
  std::vector<std::string> words;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find_first_of(separators, at), text.size());
    words.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

// One line of a hostfile, without its comment.
Result<HostRanks> parse_line(const std::string& what, const std::string& line) {
  std::vector<std::string> words = split(line, " \t\r");
  std::erase(words, "");
  WEFT_TRY(HostRanks host, parse_host(what, words.front()));
  for (std::size_t i = 1; i < words.size(); ++i) {
    if (words[i].rfind("slots=", 0) != 0) return bad_input("{}: '{}' is not slots=N", what, words[i]);
    WEFT_TRY(host.ranks, count_of(what + ": slots", words[i].substr(6)));
  }
  return host;
}

}  // namespace

Result<std::vector<HostRanks>> parse_hosts(const std::string& list) {
  std::vector<HostRanks> hosts;
  for (const std::string& part : split(list, ",")) {
    WEFT_TRY(HostRanks host, parse_host("--hosts", part));
    add(hosts, std::move(host));
  }
  return hosts;
}

Result<std::vector<HostRanks>> read_hostfile(const std::string& path) {
  WEFT_TRY(const std::string text, read_text_file(path));
  std::vector<HostRanks> hosts;
  int number = 0;
  for (std::string line : split(text, "\n")) {
    ++number;
    line = line.substr(0, line.find('#'));
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    WEFT_TRY(HostRanks host, parse_line(fmt::format("{}:{}", path, number), line));
    add(hosts, std::move(host));
  }
  if (hosts.empty()) return bad_input("{}: names no host", path);
  return hosts;
}

Result<std::vector<HostRanks>> place_ranks(const std::vector<HostRanks>& hosts, Rank ranks) {
  std::vector<HostRanks> placed = hosts;
  const bool none_given = std::all_of(hosts.begin(), hosts.end(), [](const HostRanks& h) { return h.ranks == 0; });
  const auto count = static_cast<Rank>(hosts.size());
  Rank places = 0;
  for (Rank i = 0; i < count; ++i) {
    HostRanks& h = placed[static_cast<std::size_t>(i)];
    if (ranks > 0 && none_given)
      h.ranks = ranks / count + (i < ranks % count ? 1 : 0);
    else
      h.ranks = std::max<Rank>(h.ranks, 1);
    if (ranks > 0) h.ranks = std::min(h.ranks, ranks - places);
    places += h.ranks;
  }
  if (ranks > places) return bad_input("-n {}: the hosts have places for {} ranks", ranks, places);
  std::erase_if(placed, [](const HostRanks& h) { return h.ranks == 0; });
  return placed;
}

}  // namespace weft::launch
