#include "apps/explore/json_words.h"

#include <algorithm>

#include "base/text.h"

namespace weft::explore {
namespace {

using nlohmann::json;

const json* given(const json& question, const char* key) {
  const auto at = question.find(key);
  return at == question.end() || at->is_null() ? nullptr : &*at;
}

}  // namespace

Result<std::string> word(const json& question, const char* key, std::string otherwise) {
  const json* at = given(question, key);
  if (at == nullptr) return otherwise;
  if (!at->is_string()) return bad_input("{}: {} is not a text", key, at->dump());
  return at->get<std::string>();
}

Result<std::int64_t> number(const json& question, const char* key, std::int64_t otherwise) {
  const json* at = given(question, key);
  if (at == nullptr) return otherwise;
  if (!at->is_number_integer()) return bad_input("{}: {} is not a whole number", key, at->dump());
  return at->get<std::int64_t>();
}

Result<double> real(const json& question, const char* key, double otherwise) {
  const json* at = given(question, key);
  if (at == nullptr) return otherwise;
  if (!at->is_number()) return bad_input("{}: {} is not a number", key, at->dump());
  return at->get<double>();
}

Result<std::vector<std::string>> faults_of(const json& question) {
  std::vector<std::string> found;
  const json* faults = given(question, "faults");
  if (faults == nullptr) return found;
  if (!faults->is_array()) return bad_input("faults: {} is not a list of texts", faults->dump());
  for (const json& fault : *faults) {
    if (!fault.is_string()) return bad_input("faults: {} is not a text", fault.dump());
    found.push_back(fault.get<std::string>());
  }
  return found;
}

json phrase_of(std::string_view sentence) {
  json phrase = json::array();
  for (std::size_t at = 0; at < sentence.size();) {
    const std::size_t open = std::min(sentence.find('{', at), sentence.size());
    if (open > at) phrase.push_back({{"text", sentence.substr(at, open - at)}});
    if (open == sentence.size()) break;
    const std::size_t close = sentence.find('}', open);
    phrase.push_back({{"word", sentence.substr(open + 1, close - open - 1)}});
    at = close + 1;
  }
  return phrase;
}

}  // namespace weft::explore
