#include "kv/trace.h"

#include <charconv>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "base/text.h"

namespace weft::kv {
namespace {

// A line of the form in which the traces are published: hash_ids is a flat list of numbers that fit into 63 bits. The
// parser of JSON looks at the line's form; this reads the numbers.
bool append_ids(const nlohmann::json& ids, std::vector<std::uint64_t>& to) {
  for (const auto& id : ids) {
    if (!id.is_number_integer() || (id.is_number_integer() && !id.is_number_unsigned() && id.get<std::int64_t>() < 0))
      return false;
    to.push_back(id.get<std::uint64_t>());
  }
  return true;
}

}  // namespace

Result<Trace> parse_trace(std::string_view text, const std::string& file) {
  Trace trace;
  std::unordered_map<std::uint64_t, std::uint32_t> numbers;
  std::vector<std::uint64_t> ids;
  for (std::size_t line = 1; !text.empty(); ++line) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view one = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (one.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const nlohmann::json request = nlohmann::json::parse(one, nullptr, false);
    if (!request.is_object()) return bad_input("{}:{}: no JSON object: {}", file, line, shown(one.substr(0, 40)));
    const auto found = request.find("hash_ids");
    if (found == request.end() || !found->is_array())
      return bad_input("{}:{}: hash_ids is missing, or no list", file, line);
    ids.clear();
    if (!append_ids(*found, ids))
      return bad_input("{}:{}: hash_ids holds something that is no number from 0", file, line);
    for (const std::uint64_t id : ids)
      trace.blocks.push_back(numbers.emplace(id, static_cast<std::uint32_t>(numbers.size())).first->second);
    trace.ends.push_back(trace.blocks.size());
  }
  if (trace.ends.empty()) return bad_input("{}: no requests", file);
  trace.distinct = static_cast<std::uint32_t>(numbers.size());
  return trace;
}

}  // namespace weft::kv
