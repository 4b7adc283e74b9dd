#include "apps/doctor/line.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>

namespace weft::doctor {
namespace {

bool digit(char c) { return c >= '0' && c <= '9'; }

constexpr std::size_t kLongestPrefix = 96;

// Days and seconds of a date that exists; nothing otherwise.
std::optional<Moment> moment(int year, int month, int day, int hour, int minute, double second, bool has_year) {
  namespace ch = std::chrono;
  const ch::year_month_day date(ch::year(year), ch::month(static_cast<unsigned>(month)),
                                ch::day(static_cast<unsigned>(day)));
  if (!date.ok() || hour > 23 || minute > 59 || second > 61) return std::nullopt;
  const double days = static_cast<double>(ch::sys_days(date).time_since_epoch().count());
  Moment m{.seconds = days * 86400 + hour * 3600 + minute * 60 + second, .has_year = has_year};
  m.shown = has_year ? fmt::format("{:04}-{:02}-{:02} {:02}:{:02}:{:06.3f}", year, month, day, hour, minute, second)
                     : fmt::format("{:02}-{:02} {:02}:{:02}:{:06.3f}", month, day, hour, minute, second);
  return m;
}

constexpr int kLeapYear = 1972;  // of moments without a year, so that February has 29 days

struct TimeOfDay {
  int hour = 0, minute = 0;
  double second = 0;
  std::size_t end = 0;
};
// "10:00:00.123" or "10:00:00,123".
std::optional<TimeOfDay> time_of_day(std::string_view t, std::size_t at) {
  if (at + 8 > t.size() || t[at + 2] != ':' || t[at + 5] != ':') return std::nullopt;
  for (const std::size_t i : {0, 1, 3, 4, 6, 7})
    if (!digit(t[at + i])) return std::nullopt;
  TimeOfDay time{number_at(t.substr(at, 2), 0), number_at(t.substr(at + 3, 2), 0),
                 static_cast<double>(number_at(t.substr(at + 6, 2), 0)), at + 8};
  if (time.end < t.size() && (t[time.end] == '.' || t[time.end] == ',')) {
    double unit = 0.1;
    for (++time.end; time.end < t.size() && digit(t[time.end]); ++time.end, unit /= 10)
      time.second += unit * (t[time.end] - '0');
  }
  return time;
}

int month_of(std::string_view name) {
  constexpr std::array<std::string_view, 12> kMonths = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                        "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const auto at = std::ranges::find(kMonths, name);
  return at == kMonths.end() ? -1 : static_cast<int>(at - kMonths.begin()) + 1;
}

std::optional<Moment> iso_at(std::string_view t, std::size_t at) {
  if (at + 19 > t.size() || t[at + 4] != '-' || t[at + 7] != '-' || (t[at + 10] != ' ' && t[at + 10] != 'T'))
    return std::nullopt;
  for (const std::size_t i : {0, 1, 2, 3, 5, 6, 8, 9})
    if (!digit(t[at + i])) return std::nullopt;
  const auto time = time_of_day(t, at + 11);
  if (!time) return std::nullopt;
  auto m = moment(number_at(t.substr(at, 4), 0), number_at(t.substr(at + 5, 2), 0), number_at(t.substr(at + 8, 2), 0),
                  time->hour, time->minute, time->second, true);
  // "+02:00"
  if (const std::string_view zone = t.substr(time->end); m && zone.size() >= 6 && (zone[0] == '+' || zone[0] == '-') &&
                                                         digit(zone[1]) && digit(zone[2]) && zone[3] == ':' &&
                                                         digit(zone[4]))
    m->seconds -= (zone[0] == '+' ? 1 : -1) * (number_at(zone.substr(1, 2), 0) * 3600.0 + number_at(zone, 4) * 60.0);
  return m;
}

// "Jan  6 10:00:00" at `at`, with " 2025" behind it in dmesg -T.
std::optional<Moment> unix_at(std::string_view t, std::size_t at) {
  if (at + 15 > t.size()) return std::nullopt;
  const int month = month_of(t.substr(at, 3));
  if (month < 0 || t[at + 3] != ' ') return std::nullopt;
  const int day = number_at(t.substr(at + 4, 2), t[at + 4] == ' ' ? 1 : 0);
  const auto time = time_of_day(t, at + 7);
  if (!time || day < 0) return std::nullopt;
  int year = -1;
  if (time->end + 5 <= t.size() && t[time->end] == ' ') year = number_at(t.substr(time->end + 1, 4), 0);
  const bool has_year = year >= 1990 && year < 2100;
  return moment(has_year ? year : kLeapYear, month, day, time->hour, time->minute, time->second, has_year);
}

// "E429 13:55:49.384372190": month and day without a blank.
std::optional<Moment> glog_at(std::string_view t, std::size_t at) {
  if (std::string_view("IWEF").find(t[at]) == std::string_view::npos ||
      (at > 0 && t[at - 1] != '[' && t[at - 1] != ' '))
    return std::nullopt;
  std::size_t digits = 0;
  while (at + 1 + digits < t.size() && digit(t[at + 1 + digits]) && digits < 5) ++digits;
  if ((digits != 3 && digits != 4) || at + 1 + digits >= t.size() || t[at + 1 + digits] != ' ') return std::nullopt;
  const int both = number_at(t.substr(at + 1, digits), 0);
  const auto time = time_of_day(t, at + digits + 2);
  if (!time) return std::nullopt;
  return moment(kLeapYear, both / 100, both % 100, time->hour, time->minute, time->second, false);
}

}  // namespace

std::optional<Moment> moment_of(std::string_view line) {
  const std::string_view head = line.substr(0, kLongestPrefix);
  for (std::size_t at = 0; at + 14 < head.size(); ++at) {
    const char c = head[at];
    std::optional<Moment> m;
    if (digit(c) && (at == 0 || !digit(head[at - 1])))
      m = iso_at(head, at);
    else if (c >= 'A' && c <= 'Z')
      (m = unix_at(head, at)) || (m = glog_at(head, at));
    if (m) return m;
  }
  return std::nullopt;
}

Moment with_year(const Moment& m, int year) {
  namespace ch = std::chrono;
  const auto first = [](int y) {
    return static_cast<double>(ch::sys_days(ch::year(y) / 1 / 1).time_since_epoch().count()) * 86400;
  };
  // The year of the other moments may have no 29th of February: a day is then taken off.
  double seconds = m.seconds - first(kLeapYear);
  constexpr double kFirstOfMarch = 60 * 86400.0;
  if (!ch::year(year).is_leap() && seconds >= kFirstOfMarch) seconds -= 86400;
  Moment changed{.seconds = first(year) + seconds, .shown = fmt::format("{:04}-{}", year, m.shown)};
  return changed;
}

Process process_of(std::string_view line) {
  const auto nccl = line.find(" NCCL ");
  if (nccl == std::string_view::npos) return {};
  for (std::size_t at = 0; at < nccl;) {
    const auto end = std::min(line.find(' ', at), nccl);
    const std::string_view word = line.substr(at, end - at);
    const auto first = word.find(':'), second = first == std::string_view::npos ? first : word.find(':', first + 1);
    // Times of day look alike, but for their host.
    if (second != std::string_view::npos && number_at(word, first + 1) >= 0 && number_at(word, second + 1) >= 0 &&
        !std::ranges::all_of(word.substr(0, first), digit)) {
      Process process{word.substr(0, first), std::string(word.substr(0, second))};
      if (end + 1 < nccl && line[end + 1] == '[') {
        const auto close = line.find(']', end);
        if (close != std::string_view::npos && close < nccl + 1) process.key += line.substr(end + 1, close - end);
      }
      return process;
    }
    at = end + 1;
  }
  return {};
}

std::string_view syslog_host(std::string_view line) {
  const auto kernel = line.substr(0, kLongestPrefix).find(" kernel:");
  if (kernel == std::string_view::npos || kernel == 0) return {};
  const auto begin = line.rfind(' ', kernel - 1);
  return begin == std::string_view::npos ? line.substr(0, kernel) : line.substr(begin + 1, kernel - begin - 1);
}

std::string_view source_of(std::string_view line) {
  const auto has = [&](std::string_view word) { return line.find(word) != std::string_view::npos; };
  if (has("NVRM") || has("SXid") || has("mlx5_core") || has("kernel:") || has("oom-kill")) return "dmesg";
  if (has(" NCCL ") || has("RCCL")) return "nccl";
  if (has("ProcessGroup") || has("Watchdog") || has("torch") || has("[rank") || has("[Rank")) return "pytorch";
  return "tool";
}

}  // namespace weft::doctor
