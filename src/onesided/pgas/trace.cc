#include "onesided/pgas/trace.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <limits>
#include <optional>

namespace weft::pgas {
namespace {

using Kind = Event::Kind;

constexpr std::string_view kSchema = "weft.pgas_trace/1";
constexpr std::array<std::string_view, 11> kKinds = {"put",   "put_signal", "get",  "atomic", "fetch", "wait",
                                                     "fence", "quiet",      "meet", "load",   "store"};
constexpr std::array<std::string_view, 6> kComparisons = {"==", "!=", ">", ">=", "<", "<="};

// The words of a line, one after the other; remembers the first that does not fit.
class Words {
 public:
  explicit Words(std::string_view line) : rest_(line) {}

  std::string_view word() {
    const std::size_t begin = std::min(rest_.find_first_not_of(' '), rest_.size());
    const std::size_t end = std::min(rest_.find(' ', begin), rest_.size());
    const std::string_view found = rest_.substr(begin, end - begin);
    rest_.remove_prefix(end);
    return found;
  }
  bool at_end() const { return rest_.find_first_not_of(' ') == std::string_view::npos; }

  template <class T>
  T number(T low, T high, int base = 10) {
    return number_in(word(), low, high, base);
  }
  template <class T>
  T number_in(std::string_view text, T low, T high, int base = 10) {
    T value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
    if (error != std::errc() || end != text.data() + text.size() || value < low || value > high) wrong(text);
    return value;
  }
  // The number of a word in a list.
  std::size_t one_of(std::span<const std::string_view> list) {
    const std::string_view text = word();
    for (std::size_t i = 0; i < list.size(); ++i)
      if (list[i] == text) return i;
    wrong(text);
    return 0;
  }
  void expect(std::string_view expected) {
    if (const std::string_view text = word(); text != expected) wrong(text);
  }
  Place place() {
    const std::string_view text = word();
    const std::size_t colon = std::min(text.find(':'), text.size());
    const auto region = number_in<std::int32_t>(text.substr(0, colon), 0, 1000);
    const auto after = text.substr(std::min(colon + 1, text.size()));
    return {region, number_in<Bytes>(after, 0, kMost)};
  }
  Bytes bytes() { return number<Bytes>(0, kMost); }

  void wrong(std::string_view text) {
    if (!wrong_) wrong_ = text.empty() ? "the line ends too early" : fmt::format("'{}' does not fit", text);
  }
  const std::optional<std::string>& problem() const { return wrong_; }

 private:
  static constexpr Bytes kMost = Bytes{1} << 48;
  std::string_view rest_;
  std::optional<std::string> wrong_;
};

Event parse_event(Words& words, Rank ranks) {
  constexpr std::int64_t kLongest = std::int64_t{1} << 50;  // nanoseconds: 13 days
  Event e;
  e.begin = Duration::nanoseconds(static_cast<double>(words.number<std::int64_t>(0, kLongest)));
  e.end = Duration::nanoseconds(static_cast<double>(words.number<std::int64_t>(0, kLongest)));
  e.kind = static_cast<Kind>(words.one_of(kKinds));
  const auto value = [&] {
    e.valued = true;
    e.value = words.number<std::uint64_t>(0, std::numeric_limits<std::uint64_t>::max(), 16);
  };
  switch (e.kind) {
    case Kind::kFence:
    case Kind::kQuiet:
      break;
    case Kind::kWait:
      e.place = words.place();
      e.bytes = words.bytes();
      e.compare = static_cast<Compare>(words.one_of(kComparisons));
      value();
      break;
    case Kind::kMeet:
      e.collective = words.word();
      e.bytes = words.bytes();
      e.group = {words.number<Rank>(0, ranks - 1), words.number<Rank>(-ranks, ranks), words.number<Rank>(1, ranks)};
      if (const Rank last = e.group.job_rank(e.group.size - 1); last < 0 || last >= ranks) words.wrong("the group");
      break;
    default:
      e.peer = words.number<Rank>(0, ranks - 1);
      e.place = words.place();
      e.bytes = words.bytes();
      if (!words.at_end()) {
        words.expect("=");
        value();
      }
  }
  if (e.end < e.begin) words.wrong("an end before the begin");
  if (!words.at_end()) words.wrong(words.word());
  return e;
}

}  // namespace

std::string heading(Rank rank, Rank ranks) { return fmt::format("{} rank {} of {}\n", kSchema, rank, ranks); }

std::string to_line(const Event& e) {
  const auto ns = [](Duration d) { return d.ps() / 1000; };
  std::string line = fmt::format("{} {} {}", ns(e.begin), ns(e.end), kKinds[static_cast<std::size_t>(e.kind)]);
  const auto place = [&] { return fmt::format(" {}:{}", e.place.region, e.place.offset); };
  switch (e.kind) {
    case Kind::kFence:
    case Kind::kQuiet:
      break;
    case Kind::kWait:
      line +=
          fmt::format("{} {} {} {:x}", place(), e.bytes, kComparisons[static_cast<std::size_t>(e.compare)], e.value);
      break;
    case Kind::kMeet:
      line += fmt::format(" {} {} {} {} {}", e.collective, e.bytes, e.group.start, e.group.stride, e.group.size);
      break;
    default:
      line += fmt::format(" {}{} {}", e.peer, place(), e.bytes);
      if (e.valued) line += fmt::format(" = {:x}", e.value);
  }
  return line + "\n";
}

Result<RankTrace> parse_trace(std::string_view file, std::string_view text) {
  if (text.empty()) return bad_input("{}: not {}", file, kSchema);
  RankTrace trace;
  for (int number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    Words words(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (number == 1) {
      words.expect(kSchema);
      words.expect("rank");
      trace.rank = words.number<Rank>(0, 1 << 20);
      words.expect("of");
      trace.ranks = words.number<Rank>(trace.rank + 1, 1 << 20);
    } else {
      trace.events.push_back(parse_event(words, trace.ranks));
    }
    if (words.problem()) return bad_input("{}:{}: {}", file, number, *words.problem());
  }
  return trace;
}

}  // namespace weft::pgas
