#include "apps/explore/workload.h"

#include "apps/explore/json_words.h"
#include "apps/explore/serve.h"
#include "apps/explore/train.h"
#include "apps/serving/plan.h"
#include "base/models/model.h"

namespace weft::explore {
namespace {

using nlohmann::json;

Result<json> workload_answer(std::string_view text) {
  const json question = json::parse(text, nullptr, false);
  if (!question.is_object()) return bad_input("the question is not a JSON object");
  WEFT_TRY(const std::string asked, word(question, "ask", ""));
  if (asked == "words")
    return json{{"schema", "weft.explorer.workloads/1"},
                {"models", models::catalog_names()},
                {"engines", serving::engine_names()}};
  if (asked == "train" || asked == "plans") {
    WEFT_TRY(const training::Words words, train_words_of(question));
    return asked == "train" ? train(words) : plans(words);
  }
  if (asked == "serve" || asked == "frontier") {
    WEFT_TRY(const serving::Words words, serve_words_of(question));
    return asked == "serve" ? serve(words) : frontier(words);
  }
  return bad_input("ask: '{}' is none of frontier, plans, serve, train, words", asked);
}

}  // namespace

std::string ask_workload(std::string_view question) {
  const auto answer = workload_answer(question);
  return (answer ? *answer : json{{"schema", "weft.error/1"}, {"message", answer.error().message}})
      .dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace weft::explore
