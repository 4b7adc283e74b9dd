#include "apps/doctor/dump.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <initializer_list>
#include <optional>

#include "base/counted.h"
#include "base/job_text.h"
#include "base/json_text.h"

namespace weft::doctor {
namespace {

using nlohmann::json;

constexpr std::size_t kHead = std::size_t{4} << 20;  // of a text, by which a dump is known

json parsed(std::string_view text) {
  json value = json::parse(text, nullptr, false);
  return value.is_discarded() ? json::parse(without_infinities(text), nullptr, false) : value;
}

std::string place(std::string_view text, std::size_t at) {
  const TextPlace place = place_of(text, at);
  return fmt::format("line {}, column {}", place.line, place.column);
}

// Walks over JSON: knows whether it stands in a text, and how deep.
class Walk {
 public:
  void step(char c) {
    if (quoted_) {
      quoted_ = escaped_ || c != '"';
      escaped_ = !escaped_ && c == '\\';
    } else if (c == '"') {
      quoted_ = true;
    } else if (c == '{' || c == '[') {
      ++depth_;
    } else if (c == '}' || c == ']') {
      --depth_;
    }
  }
  bool quoted() const { return quoted_; }
  int depth() const { return depth_; }

 private:
  bool quoted_ = false, escaped_ = false;
  int depth_ = 0;
};

// The list of "entries" begins here, behind its bracket.
std::optional<std::size_t> list_of_entries(std::string_view text) {
  constexpr std::string_view kKey = "\"entries\"";
  Walk walk;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (!walk.quoted() && walk.depth() == 1 && text.substr(at).starts_with(kKey)) {
      const auto bracket = text.find_first_not_of(" \t\r\n:", at + kKey.size());
      if (bracket != std::string_view::npos && text[bracket] == '[') return bracket + 1;
      return std::nullopt;
    }
    walk.step(text[at]);
  }
  return std::nullopt;
}

// The entries one by one.
class Salvage {
 public:
  explicit Salvage(std::string_view text) : text_(text) {}

  Dump dump() {
    const auto begin = list_of_entries(text_);
    Dump out{.document = {{"entries", json::array()}}};
    if (!begin) {
      out.damage = fmt::format("{}: cut off or no JSON, in front of its entries", place(text_, text_.size()));
      return out;
    }
    const std::size_t end = entries(*begin, out);
    for (const std::string& rest : {std::string(text_.substr(0, *begin)) + "]}",
                                    "{\"entries\":[]" + std::string(text_.substr(std::min(end, text_.size())))})
      if (const json around = parsed(rest); around.is_object())
        for (const auto& [key, value] : around.items())
          if (key != "entries") out.document[key] = value;
    return out;
  }

 private:
  // Returns where the list ends, behind its bracket.
  std::size_t entries(std::size_t at, Dump& out) {
    json& list = out.document["entries"];
    std::size_t begin = at, bad = 0;
    std::string first_bad;
    const auto take = [&](std::size_t end) {
      const std::string_view one = text_.substr(begin, end - begin);
      if (one.find_first_not_of(" \t\r\n") == std::string_view::npos) return;
      if (json entry = parsed(one); !entry.is_discarded())
        list.push_back(std::move(entry));
      else if (++bad == 1)
        first_bad = place(text_, begin + one.find_first_not_of(" \t\r\n"));
    };
    Walk walk;
    for (; at < text_.size(); ++at) {
      const char c = text_[at];
      if (!walk.quoted() && walk.depth() == 0 && (c == ',' || c == ']')) {
        take(at);
        begin = at + 1;
        if (c == ']') break;
      }
      walk.step(c);
    }
    if (bad > 0)
      out.damage = fmt::format("{}: no JSON; {} of {} entries left out", first_bad, bad, bad + list.size());
    else if (at >= text_.size())
      out.damage =
          fmt::format("{}: cut off behind {}", place(text_, text_.size()), counted(list.size(), "whole entry"));
    return at + 1;
  }

  std::string_view text_;
};

}  // namespace

bool looks_like_dump(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos || text[first] != '{') return false;
  const auto head = text.substr(first, kHead);
  const auto has = [&](std::initializer_list<std::string_view> keys) {
    return std::ranges::any_of(keys, [&](std::string_view key) { return head.find(key) != std::string_view::npos; });
  };
  return has({"\"pg_config\"", "\"nccl_version\"", "\"pg_status\"", "\"collective_seq_id\""}) ||
         (has({"\"entries\""}) && has({"\"record_id\"", "\"profiling_name\"", "\"version\""}));
}

Dump read_dump(std::string_view text) {
  json whole = parsed(text);
  if (whole.is_discarded()) return Salvage(text).dump();
  Dump dump{.document = whole.is_object() ? std::move(whole) : json::object()};
  json& entries = dump.document["entries"];
  if (entries.is_array()) return dump;
  dump.damage =
      fmt::format("\"entries\" is {}, not a list", entries.is_null() ? "null or missing" : entries.type_name());
  entries = json::array();
  return dump;
}

int rank_in_name(const std::string& file) {
  const std::string base = std::filesystem::path(file).filename().string();
  if (const auto at = base.rfind("rank"); at != std::string::npos)
    for (const std::size_t skip : {4, 5})
      if (const int rank = number_at(base, at + skip); rank >= 0) return rank;
  const std::size_t end = base.find_last_of("0123456789");
  if (end == std::string::npos) return -1;
  std::size_t begin = end;
  while (begin > 0 && base[begin - 1] >= '0' && base[begin - 1] <= '9') --begin;
  return number_at(base, begin);
}

}  // namespace weft::doctor
