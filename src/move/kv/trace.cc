#include "move/kv/trace.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "base/text.h"

namespace weft::kv {
namespace {

using nlohmann::json;

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
  void add_new(std::uint64_t blocks) {
    for (std::uint64_t i = 0; i < blocks; ++i) trace_.blocks.push_back(fresh_++);
  }
  void end_request() { trace_.ends.push_back(trace_.blocks.size()); }
  std::uint64_t blocks() const { return trace_.blocks.size(); }
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

Result<Trace> parse_lines(std::string_view text, const std::string& file, std::size_t block_tokens) {
  std::optional<Builder> builder;
  bool by_tokens = false;
  Lines lines(text);
  std::vector<std::uint64_t> tokens;
  for (std::string_view line; lines.next(line);) {
    const json request = json::parse(line, nullptr, false);
    if (!request.is_object())
      return bad_input("{}:{}: no JSON object: {}", file, lines.number(), shown(line.substr(0, 40)));
    if (!builder) {
      by_tokens = request.contains("input_tok_ids") && !request.contains("hash_ids");
      builder.emplace(by_tokens ? "tokens of each prompt" : "ids of blocks");
    }
    const char* const key = by_tokens ? "input_tok_ids" : "hash_ids";
    const auto found = request.find(key);
    if (found == request.end() || !found->is_array())
      return bad_input("{}:{}: {} is missing, or no list", file, lines.number(), key);
    if (!whole_numbers(*found))
      return bad_input("{}:{}: {} holds something that is no number from 0", file, lines.number(), key);
    if (by_tokens) {
      tokens.assign(found->begin(), found->end());
      for (std::size_t at = 0; at + block_tokens <= tokens.size(); at += block_tokens)
        builder->add_content({reinterpret_cast<const char*>(tokens.data() + at), block_tokens * sizeof(std::uint64_t)});
    } else {
      for (const json& id : *found) builder->add_id(id.get<std::uint64_t>());
    }
    builder->end_request();
  }
  if (!builder) return bad_input("{}: no requests", file);
  return std::move(*builder).finish(file);
}

Result<Trace> parse_conversations(std::string_view text, const std::string& file, std::size_t block_tokens) {
  constexpr std::size_t kTokenBytes = 4;
  const json all = json::parse(text, nullptr, false);
  if (!all.is_array()) return bad_input("{}: no JSON list of conversations", file);
  Builder builder("conversations, four bytes of text as a token");
  const std::size_t block = block_tokens * kTokenBytes;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const json& one = all[i];
    const auto turns = one.is_object() ? one.find("conversations") : one.end();
    if (!one.is_object() || turns == one.end() || !turns->is_array())
      return bad_input("{}: conversation {}: conversations is missing, or no list", file, i + 1);
    std::string prompt;
    for (const json& turn : *turns) {
      if (!turn.is_object() || !turn.contains("from") || !turn.contains("value") || !turn["from"].is_string() ||
          !turn["value"].is_string())
        return bad_input("{}: conversation {}: a turn has \"from\" and \"value\", both text", file, i + 1);
      prompt += turn["value"].get_ref<const std::string&>();
      const auto& from = turn["from"].get_ref<const std::string&>();
      if (from != "human" && from != "user") continue;
      for (std::size_t at = 0; at + block <= prompt.size(); at += block)
        builder.add_content(std::string_view(prompt).substr(at, block));
      builder.end_request();
    }
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

Result<Trace> parse_lengths(std::string_view text, const std::string& file, std::size_t block_tokens) {
  Builder builder("lengths of prompts: no block comes twice");
  Lines lines(text);
  std::string_view line;
  lines.next(line);
  const auto names = cells_of(line);
  const auto column = static_cast<std::size_t>(std::find(names.begin(), names.end(), "ContextTokens") - names.begin());
  while (lines.next(line)) {
    const auto cells = cells_of(line);
    if (cells.size() != names.size())
      return bad_input("{}:{}: {} columns, not {}", file, lines.number(), cells.size(), names.size());
    WEFT_TRY(const std::int64_t tokens, parse_integer(fmt::format("{}:{}: ContextTokens", file, lines.number()),
                                                      cells[column], 0, std::int64_t{1} << 40));
    const std::uint64_t blocks = static_cast<std::uint64_t>(tokens) / block_tokens;
    if (blocks > kMostBlocks - 1 - builder.blocks())
      return bad_input("{}:{}: more than 2^32 blocks", file, lines.number());
    builder.add_new(blocks);
    builder.end_request();
  }
  return std::move(builder).finish(file);
}

}  // namespace

Result<Trace> parse_trace(std::string_view text, const std::string& file, std::int64_t block_tokens) {
  if (block_tokens < 1 || block_tokens > (1 << 20))
    return bad_input("{} tokens in a block: 1 to {}", block_tokens, 1 << 20);
  const auto block = static_cast<std::size_t>(block_tokens);
  const std::size_t begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return bad_input("{}: no requests", file);
  const std::string_view first = text.substr(begin, text.find('\n', begin) - begin);
  const auto names = cells_of(first);
  if (std::find(names.begin(), names.end(), "ContextTokens") != names.end()) return parse_lengths(text, file, block);
  // A list that ends on its first line is a line that is no request.
  const bool list = first[0] == '[' && json::parse(text, nullptr, false).is_array();
  const bool conversations =
      list && (first.find('{') != std::string_view::npos || first.find(']') == std::string_view::npos);
  return conversations ? parse_conversations(text, file, block) : parse_lines(text, file, block);
}

}  // namespace weft::kv
