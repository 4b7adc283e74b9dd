#include "move/kv/trace.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_map>
#include <utility>

#include "base/json_text.h"
#include "base/text.h"

namespace weft::kv {
namespace {

using nlohmann::json;

constexpr std::int64_t kMostTokens = std::int64_t{1} << 40;  // of a request
constexpr int kMostPriority = 1'000'000;
constexpr std::uint64_t kMostBlocks = std::uint64_t{1} << 32;
constexpr std::string_view kBlank = " \t\r\n";

// Gives blocks their numbers: by an id that the trace has, or by the block before and the tokens.
class Builder {
 public:
  explicit Builder(std::string form) { trace_.form = std::move(form); }

  void add_id(std::uint64_t id) {
    trace_.blocks.push_back(ids_.emplace(id, static_cast<std::uint32_t>(ids_.size())).first->second);
  }
  // The next block of this request, as bytes; equal chains of bytes are equal blocks.
  void add_content(std::string_view bytes) {
    const std::uint64_t begin = trace_.ends.empty() ? 0 : trace_.ends.back();
    const std::uint32_t before = trace_.blocks.size() == begin ? ~0U : trace_.blocks.back();
    std::string key(reinterpret_cast<const char*>(&before), sizeof before);
    key += bytes;
    trace_.blocks.push_back(
        contents_.emplace(std::move(key), static_cast<std::uint32_t>(contents_.size())).first->second);
  }
  Status add_new(std::uint64_t blocks, const std::string& file, std::size_t line) {
    if (blocks > kMostBlocks - 1 - trace_.blocks.size()) return bad_input("{}:{}: more than 2^32 blocks", file, line);
    for (std::uint64_t i = 0; i < blocks; ++i) trace_.blocks.push_back(fresh_++);
    return {};
  }
  void end_request(const Asked& asked) {
    trace_.ends.push_back(trace_.blocks.size());
    trace_.asked.push_back(asked);
  }
  Result<Trace> finish(const std::string& file) && {
    if (trace_.ends.empty()) return bad_input("{}: no requests", file);
    trace_.distinct = static_cast<std::uint32_t>(std::max({ids_.size(), contents_.size(), std::size_t{fresh_}}));
    return std::move(trace_);
  }

 private:
  Trace trace_;
  std::unordered_map<std::uint64_t, std::uint32_t> ids_;
  std::unordered_map<std::string, std::uint32_t> contents_;
  std::uint32_t fresh_ = 0;
};

// Lines that are not blank, with their numbers.
class Lines {
 public:
  explicit Lines(std::string_view text) : text_(text) {}
  bool next(std::string_view& line) {
    while (!text_.empty()) {
      const std::size_t end = std::min(text_.find('\n'), text_.size());
      line = text_.substr(0, end);
      text_.remove_prefix(std::min(end + 1, text_.size()));
      ++number_;
      if (line.find_first_not_of(kBlank) != std::string_view::npos) return true;
    }
    return false;
  }
  std::size_t number() const { return number_; }

 private:
  std::string_view text_;
  std::size_t number_ = 0;
};

bool whole_numbers(const json& list) {
  return std::all_of(list.begin(), list.end(), [](const json& id) {
    return id.is_number_unsigned() || (id.is_number_integer() && id.get<std::int64_t>() >= 0);
  });
}

// A count of tokens below a key that may be missing.
Result<std::int64_t> tokens_at(const json& request, const char* key, const std::string& where) {
  const auto at = request.find(key);
  if (at == request.end() || at->is_null()) return -1;
  if (!at->is_number_integer() || *at < 0 || *at > kMostTokens)
    return bad_input("{}: {}: {} is no number of tokens from 0 to {}", where, key, shown(at->dump()), kMostTokens);
  return at->get<std::int64_t>();
}

Result<Asked> asked_by(const json& request, const std::string& where, std::size_t line) {
  Asked asked{.line = static_cast<std::uint32_t>(line)};
  WEFT_TRY(asked.input, tokens_at(request, "input_length", where));
  WEFT_TRY(asked.output, tokens_at(request, "output_length", where));
  // Qwen-Bailian's lines, which know their chat, count seconds; Mooncake's milliseconds.
  const bool seconds = request.contains("chat_id");
  if (const auto at = request.find("timestamp"); at != request.end() && at->is_number()) {
    if (!(at->get<double>() >= 0))
      return bad_input("{}: timestamp: {} is no number of {} from 0", where, at->dump(), seconds ? "s" : "ms");
    asked.arrival = at->get<double>() * (seconds ? 1 : 1e-3);
  }
  if (const auto at = request.find("priority"); at != request.end() && !at->is_null()) {
    if (!at->is_number_integer() || *at < -kMostPriority || *at > kMostPriority)
      return bad_input("{}: priority: {} is no whole number from {} to {}", where, shown(at->dump()), -kMostPriority,
                       kMostPriority);
    asked.priority = at->get<int>();
  }
  return asked;
}

Result<Trace> parse_lines(std::string_view text, const std::string& file, std::size_t block_tokens) {
  std::optional<Builder> builder;
  bool by_tokens = false, by_lengths = false;
  Lines lines(text);
  std::vector<std::uint64_t> tokens;
  for (std::string_view line; lines.next(line);) {
    const json request = json::parse(line, nullptr, false);
    if (!request.is_object())
      return bad_input("{}:{}: no JSON object: {}", file, lines.number(), shown(line.substr(0, 40)));
    WEFT_TRY(Asked asked, asked_by(request, fmt::format("{}:{}", file, lines.number()), lines.number()));
    if (!builder) {
      by_tokens = request.contains("input_tok_ids") && !request.contains("hash_ids");
      by_lengths = !by_tokens && !request.contains("hash_ids") && asked.input >= 0;
      builder.emplace(by_tokens    ? "tokens of each prompt"
                      : by_lengths ? "lengths of prompts: no block comes twice"
                                   : "ids of blocks");
    }
    if (by_lengths) {
      if (asked.input < 0) return bad_input("{}:{}: input_length is missing", file, lines.number());
      WEFT_CHECK(builder->add_new(static_cast<std::uint64_t>(asked.input) / block_tokens, file, lines.number()));
      builder->end_request(asked);
      continue;
    }
    const char* const key = by_tokens ? "input_tok_ids" : "hash_ids";
    const auto found = request.find(key);
    if (found == request.end() || !found->is_array())
      return bad_input("{}:{}: {} is missing, or no list", file, lines.number(), key);
    if (!whole_numbers(*found))
      return bad_input("{}:{}: {} holds something that is no number from 0", file, lines.number(), key);
    if (by_tokens) {
      tokens.assign(found->begin(), found->end());
      if (asked.input < 0) asked.input = std::ssize(tokens);
      for (std::size_t at = 0; at + block_tokens <= tokens.size(); at += block_tokens)
        builder->add_content({reinterpret_cast<const char*>(tokens.data() + at), block_tokens * sizeof(std::uint64_t)});
    } else {
      for (const json& id : *found) builder->add_id(id.get<std::uint64_t>());
    }
    builder->end_request(asked);
  }
  if (!builder) return bad_input("{}: no requests", file);
  return std::move(*builder).finish(file);
}

Result<Trace> parse_conversations(std::string_view text, const std::string& file, std::size_t block_tokens) {
  constexpr std::size_t kTokenBytes = 4;
  WEFT_TRY(const json all, parse_json(file, text));
  if (!all.is_array()) return bad_input("{}: no JSON list of conversations", file);
  Builder builder("conversations, four bytes of text as a token");
  const std::size_t block = block_tokens * kTokenBytes;
  const auto tokens_of = [](std::string_view said) {
    return static_cast<std::int64_t>((said.size() + kTokenBytes - 1) / kTokenBytes);
  };
  for (std::size_t i = 0; i < all.size(); ++i) {
    const json& one = all[i];
    const auto turns = one.is_object() ? one.find("conversations") : one.end();
    if (!one.is_object() || turns == one.end() || !turns->is_array())
      return bad_input("{}: conversation {}: conversations is missing, or no list", file, i + 1);
    std::string prompt;
    std::optional<Asked> open;  // a person's turn that is not answered yet
    for (const json& turn : *turns) {
      if (!turn.is_object() || !turn.contains("from") || !turn.contains("value") || !turn["from"].is_string() ||
          !turn["value"].is_string())
        return bad_input("{}: conversation {}: a turn has \"from\" and \"value\", both text", file, i + 1);
      const auto& value = turn["value"].get_ref<const std::string&>();
      prompt += value;
      const auto& from = turn["from"].get_ref<const std::string&>();
      if (open) {
        if (from == "gpt" || from == "assistant") open->output = tokens_of(value);
        builder.end_request(*open);
        open.reset();
      }
      if (from != "human" && from != "user") continue;
      for (std::size_t at = 0; at + block <= prompt.size(); at += block)
        builder.add_content(std::string_view(prompt).substr(at, block));
      open = Asked{.input = tokens_of(prompt), .line = static_cast<std::uint32_t>(i + 1)};
    }
    if (open) builder.end_request(*open);
  }
  return std::move(builder).finish(file);
}

std::vector<std::string_view> cells_of(std::string_view line) {
  std::vector<std::string_view> cells;
  while (true) {
    const std::size_t comma = std::min(line.find(','), line.size());
    std::string_view cell = line.substr(0, comma);
    while (!cell.empty() && kBlank.find(cell.back()) != std::string_view::npos) cell.remove_suffix(1);
    cells.push_back(cell);
    if (comma == line.size()) return cells;
    line.remove_prefix(comma + 1);
  }
}

// Columns of a CSV by the names that traces give them, and what one arrival is in seconds; 0: a date and time.
struct Column {
  std::string_view name;
  double seconds = 1;
};
constexpr Column kInputs[] = {{"input_tokens"}, {"input_length"}, {"ContextTokens"}, {"Request tokens"}};
constexpr Column kOutputs[] = {{"output_tokens"}, {"output_length"}, {"GeneratedTokens"}, {"Response tokens"}};
constexpr Column kPriorities[] = {{"priority"}};
constexpr Column kArrivals[] = {{"arrival_s", 1}, {"timestamp", 1e-3}, {"TIMESTAMP", 0}, {"Timestamp", 1}};

// The first of `known` that is among the names, and where; null: none is.
std::pair<const Column*, std::size_t> column_of(std::span<const Column> known,
                                                const std::vector<std::string_view>& names) {
  for (const Column& column : known)
    if (const auto at = std::ranges::find(names, column.name); at != names.end())
      return {&column, static_cast<std::size_t>(at - names.begin())};
  return {nullptr, 0};
}

// "2023-11-16 18:15:46.6805900" in seconds since 1970.
std::optional<double> seconds_of_date(std::string_view text) {
  if (text.size() < 19 || (text[10] != ' ' && text[10] != 'T')) return std::nullopt;
  double part[6] = {};
  constexpr std::size_t kBegin[] = {0, 5, 8, 11, 14, 17}, kLength[] = {4, 2, 2, 2, 2, 2};
  for (std::size_t i = 0; i < 6; ++i) {
    const std::string_view word = i < 5 ? text.substr(kBegin[i], kLength[i]) : text.substr(17);
    const auto [end, error] = read_number(word, part[i]);
    const bool whole = end == word.data() + word.size();
    // A time zone may follow: all of a trace have the same.
    if (error != std::errc() || part[i] < 0 || (i < 5 && !whole)) return std::nullopt;
  }
  const std::chrono::year_month_day day{std::chrono::year(static_cast<int>(part[0])),
                                        std::chrono::month(static_cast<unsigned>(part[1])),
                                        std::chrono::day(static_cast<unsigned>(part[2]))};
  if (!day.ok()) return std::nullopt;
  const auto days = std::chrono::sys_days(day).time_since_epoch().count();
  return static_cast<double>(days) * 86400 + part[3] * 3600 + part[4] * 60 + part[5];
}

Result<double> arrival_of(const Column& column, std::string_view cell, const std::string& where) {
  if (column.seconds == 0) {
    if (const auto seconds = seconds_of_date(cell)) return *seconds;
    return bad_input("{}: {}: '{}' is no date and time like 2023-11-16 18:15:46.68", where, column.name, shown(cell));
  }
  double value = 0;
  const auto [end, error] = read_number(cell, value);
  if (cell.empty() || error != std::errc() || end != cell.data() + cell.size() || !(value >= 0) ||
      !std::isfinite(value))
    return bad_input("{}: {}: '{}' is no time from 0 in {}", where, column.name, shown(cell),
                     column.seconds < 1 ? "ms" : "s");
  return value * column.seconds;
}

Result<Trace> parse_lengths(std::string_view text, const std::string& file, std::size_t block_tokens) {
  Builder builder("lengths of prompts: no block comes twice");
  Lines lines(text);
  std::string_view line;
  lines.next(line);
  const auto names = cells_of(line);
  for (auto at = names.begin(); at != names.end(); ++at)
    if (std::find(names.begin(), at, *at) != at)
      return bad_input("{}:{}: there are two columns '{}'", file, lines.number(), shown(*at));
  const auto [input, input_at] = column_of(kInputs, names);
  const auto [output, output_at] = column_of(kOutputs, names);
  const auto [arrival, arrival_at] = column_of(kArrivals, names);
  const auto [priority, priority_at] = column_of(kPriorities, names);
  while (lines.next(line)) {
    const auto cells = cells_of(line);
    if (cells.size() != names.size())
      return bad_input("{}:{}: {} columns, not {}", file, lines.number(), cells.size(), names.size());
    const std::string where = fmt::format("{}:{}", file, lines.number());
    Asked asked{.line = static_cast<std::uint32_t>(lines.number())};
    WEFT_TRY(asked.input, parse_integer(fmt::format("{}: {}", where, input->name), cells[input_at], 0, kMostTokens));
    if (output != nullptr) {
      WEFT_TRY(asked.output,
               parse_integer(fmt::format("{}: {}", where, output->name), cells[output_at], 0, kMostTokens));
    }
    if (arrival != nullptr) {
      WEFT_TRY(asked.arrival, arrival_of(*arrival, cells[arrival_at], where));
    }
    if (priority != nullptr) {
      WEFT_TRY(const std::int64_t value,
               parse_integer(fmt::format("{}: priority", where), cells[priority_at], -kMostPriority, kMostPriority));
      asked.priority = static_cast<int>(value);
    }
    WEFT_CHECK(builder.add_new(static_cast<std::uint64_t>(asked.input) / block_tokens, file, lines.number()));
    builder.end_request(asked);
  }
  return std::move(builder).finish(file);
}

}  // namespace

Result<Trace> parse_trace(std::string_view text, const std::string& file, std::int64_t block_tokens) {
  if (block_tokens < 1 || block_tokens > (1 << 20))
    return bad_input("{} tokens in a block: 1 to {}", block_tokens, 1 << 20);
  const auto block = static_cast<std::size_t>(block_tokens);
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  if (text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF"))
    return bad_input("{}: text of 16 bits (UTF-16); UTF-8 is expected", file);
  const std::size_t begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return bad_input("{}: no requests", file);
  const std::string_view first = text.substr(begin, text.find('\n', begin) - begin);
  const auto names = cells_of(first);
  if (column_of(kInputs, names).first != nullptr) return parse_lengths(text, file, block);
  if (first[0] != '{' && first[0] != '[' && first.find_first_of(",;\t") != std::string_view::npos)
    return bad_input(
        "{}:1: no JSON, and no column of a CSV names input tokens (input_tokens, input_length, ContextTokens "
        "or Request tokens): {}",
        file, shown(first.substr(0, 60)));
  // A list that ends on its first line is a line that is no request.
  const bool list = first[0] == '[' && json::parse(text, nullptr, false).is_array();
  const bool conversations =
      list && (first.find('{') != std::string_view::npos || first.find(']') == std::string_view::npos);
  return conversations ? parse_conversations(text, file, block) : parse_lines(text, file, block);
}

}  // namespace weft::kv
