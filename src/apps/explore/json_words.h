#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace weft::explore {

// A word of a question by its key, or `otherwise` where the question does not have it. Errors (bad input): names the
// key whose value has another type.
Result<std::string> word(const nlohmann::json& question, const char* key, std::string otherwise);
Result<std::int64_t> number(const nlohmann::json& question, const char* key, std::int64_t otherwise);
Result<double> real(const nlohmann::json& question, const char* key, double otherwise);
Result<std::vector<std::string>> faults_of(const nlohmann::json& question);

// "How long is a step of {model}?" as a list of texts and words, [{"text": "How long is a step of "}, {"word":
// "model"}, …]: the question as a sentence whose words the page can change.
nlohmann::json phrase_of(std::string_view sentence);

}  // namespace weft::explore
