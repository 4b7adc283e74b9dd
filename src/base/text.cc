#include "base/text.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <optional>

namespace weft {
namespace {

// "" and "B" are 1; "K", "Ki" and "KiB" 2^10; "KB" and "kB" 10^3; likewise M, G, T.
std::optional<Bytes> unit_of(std::string_view unit) {
  if (unit.empty() || unit == "B") return 1;
  const auto power =
      std::string_view("KMGT").find(static_cast<char>(std::toupper(static_cast<unsigned char>(unit[0]))));
  if (power == std::string_view::npos) return std::nullopt;
  const std::string_view kind = unit.substr(1);
  const bool decimal = kind == "B";
  if (!decimal && !kind.empty() && kind != "i" && kind != "iB") return std::nullopt;
  Bytes bytes = 1;
  for (std::size_t i = 0; i <= power; ++i) bytes *= decimal ? 1000 : 1024;
  return bytes;
}

// What is wrong with a size whose unit is not known.
Result<Bytes> unknown_size(std::string_view text, std::string_view unit) {
  std::string upper(unit);
  if (upper.ends_with('b')) upper.back() = 'B';
  if (upper != unit && unit_of(upper))
    return bad_input("size '{}': b is a bit; 1M and 1MiB are 1048576 bytes, 1MB is 1000000", text);
  return bad_input("size '{}' is not a number of bytes such as 8, 64K, 1M or 1G", text);
}

std::string three_digits(double v, std::string_view unit) {
  const int decimals = v >= 100 ? 0 : v >= 10 ? 1 : 2;
  return fmt::format("{:.{}f} {}", v, decimals, unit);
}

// Bytes of the printable character in UTF-8 that `text` begins with; 0 for a control character (C0, DEL, C1) or for
// bytes that are no character (RFC 3629: no overlong forms, no surrogates, at most U+10FFFF).
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) -> unsigned {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0;
  };
  const auto more = [&](std::size_t i) { return (byte(i) & 0xc0) == 0x80; };
  const unsigned first = byte(0);
  if (first < 0x80) return first >= 0x20 && first != 0x7f ? 1 : 0;
  if (first >= 0xc2 && first <= 0xdf && more(1)) return first == 0xc2 && byte(1) < 0xa0 ? 0 : 2;
  if (first >= 0xe0 && first <= 0xef && more(1) && more(2)) {
    if ((first == 0xe0 && byte(1) < 0xa0) || (first == 0xed && byte(1) >= 0xa0)) return 0;
    return 3;
  }
  if (first >= 0xf0 && first <= 0xf4 && more(1) && more(2) && more(3)) {
    if ((first == 0xf0 && byte(1) < 0x90) || (first == 0xf4 && byte(1) >= 0x90)) return 0;
    return 4;
  }
  return 0;
}

}  // namespace

std::from_chars_result read_number(std::string_view text, double& value) {
#ifdef __cpp_lib_to_chars
  return std::from_chars(text.data(), text.data() + text.size(), value);
#else
  // strtod also takes leading blanks, '+' and hexadecimal digits, which from_chars leaves alone.
  const std::string copy(text.substr(0, 400));
  const std::size_t sign = copy.starts_with('-') ? 1 : 0;
  const bool begins = copy.size() > sign && (std::isalnum(static_cast<unsigned char>(copy[sign])) || copy[sign] == '.');
  const bool hexadecimal = copy.size() > sign + 1 && copy[sign] == '0' && (copy[sign + 1] | 0x20) == 'x';
  if (!begins) return {text.data(), std::errc::invalid_argument};
  if (hexadecimal) return value = sign != 0 ? -0.0 : 0.0, std::from_chars_result{text.data() + sign + 1, std::errc()};
  char* end = nullptr;
  const double read = std::strtod(copy.c_str(), &end);
  const char* rest = text.data() + (end - copy.c_str());
  if (end == copy.c_str()) return {text.data(), std::errc::invalid_argument};
  if (std::isinf(read) && (copy[sign] | 0x20) != 'i') return {rest, std::errc::result_out_of_range};
  value = read;
  return {rest, std::errc()};
#endif
}

Result<Bytes> parse_bytes(std::string_view text) {
  const char* const end = text.data() + text.size();
  std::int64_t whole = 0;
  double value = 0;
  std::from_chars_result read = std::from_chars(text.data(), end, whole);
  const bool fraction =
      read.ec == std::errc{} && read.ptr != end && std::string_view(".eE").find(*read.ptr) != std::string_view::npos;
  if (fraction) read = read_number(text, value);
  std::string_view unit(read.ptr, static_cast<std::size_t>(end - read.ptr));
  if (read.ec == std::errc{} && unit.size() > 1 && unit[0] == ' ')
    unit.remove_prefix(1);  // "64 KiB", as weft prints it
  const std::optional<Bytes> bytes = unit_of(unit);
  if (read.ec == std::errc::result_out_of_range) return bad_input("size '{}' is too large", text);
  if (read.ec != std::errc{} || whole < 0 || value < 0 || !bytes) return unknown_size(text, unit);
  value *= static_cast<double>(*bytes);
  if (value > 0x1p62 || whole > INT64_MAX / *bytes) return bad_input("size '{}' is too large", text);
  if (!fraction) return whole * *bytes;
  if (value != std::floor(value)) return bad_input("size '{}' is not a whole number of bytes", text);
  return static_cast<Bytes>(value);
}

Result<Bytes> parse_message(std::string_view what, std::string_view text) {
  const auto bytes = parse_bytes(text);
  if (!bytes) return bad_input("{}: {}", what, bytes.error().message);
  if (*bytes > kMostMessage) return bad_input("{} {} is more than 16T", what, text);
  return *bytes;
}

Result<std::int64_t> parse_integer(std::string_view what, std::string_view text, std::int64_t low, std::int64_t high) {
  std::int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || rest != end) return bad_input("{} '{}' is not a whole number", what, text);
  if (value < low || value > high) return bad_input("{} {} is outside {} … {}", what, value, low, high);
  return value;
}

std::string format_bytes(Bytes bytes) {
  constexpr std::string_view kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  int unit = 0;
  while (unit < 4 && bytes >= 1024 && bytes % 1024 == 0) bytes /= 1024, ++unit;
  return fmt::format("{} {}", bytes, kUnits[unit]);
}

std::string format_rate(BytesPerSecond rate) {
  return rate.gb() >= 1000 ? three_digits(rate.gb() / 1000, "TB/s") : three_digits(rate.gb(), "GB/s");
}

std::string format_duration(Duration d) {
  const double us = d.us();
  if (us < 1) return three_digits(us * 1e3, "ns");
  if (us < 1e3) return three_digits(us, "us");
  if (us < 1e6) return three_digits(us / 1e3, "ms");
  return three_digits(us / 1e6, "s");
}

std::string shown(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = utf8_length(text.substr(i));
    if (length == 0)
      fmt::format_to(std::back_inserter(out), "\\x{:02x}", static_cast<unsigned char>(text[i]));
    else
      out.append(text.substr(i, length));
    i += std::max<std::size_t>(length, 1);
  }
  return out;
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  char text[16];
  std::tm parts{};
  std::strftime(text, sizeof text, "%Y-%m-%d", gmtime_r(&now, &parts));
  return text;
}

}  // namespace weft
