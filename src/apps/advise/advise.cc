#include "apps/advise/advise.h"

#include <algorithm>
#include <cmath>

#include "apps/advise/machines.h"

namespace weft::advise {
namespace {

Status check(const Words& w) {
  for (const auto& [name, value] : {std::pair{"--rate", w.rate},
                                    {"--tokens", w.tokens},
                                    {"--deadline", w.deadline},
                                    {"--budget", w.budget},
                                    {"--ttft", w.ttft},
                                    {"--tpot", w.tpot}})
    if (!(value >= 0) || !std::isfinite(value)) return bad_input("{} {}: a number above 0", name, value);
  for (const double price : w.prices)
    if (!(price >= 0) || !std::isfinite(price)) return bad_input("--price {}: of a GPU-hour, not below 0", price);
  if (w.rate > 0 && w.tokens > 0) return bad_input("weft advise takes only one of --rate and --tokens");
  if (w.rate <= 0 && w.tokens <= 0)
    return bad_input("weft advise needs the work: --rate R requests/s to serve, or --tokens N to train on");
  if (w.rate > 0 && w.deadline > 0) return bad_input("--deadline has no effect with --rate; it is for --tokens");
  if (w.tokens > 0 && (w.ttft > 0 || w.tpot > 0)) return bad_input("--ttft and --tpot are for --rate");
  if (w.tokens > 0 && !w.engines.empty()) return bad_input("--engine is for --rate");
  if (w.rate > 0 && (w.global_batch > 0 || w.seq > 0)) return bad_input("--global-batch and --seq are for --tokens");
  if (w.rate > 1e6) return bad_input("--rate {}: at most 1000000 requests/s", w.rate);
  if (w.global_batch < 0 || w.seq < 0) return bad_input("--global-batch and --seq: from 1");
  if (w.largest < 1 || w.largest > 131072) return bad_input("--max-gpus {}: 1 to 131072", w.largest);
  return {};
}

}  // namespace

Result<report::Advice> advise(const Words& words, const Prices& prices, const Progress& progress) {
  WEFT_CHECK(check(words));
  report::Advice advice{.serves = words.rate > 0,
                        .model = words.model,
                        .currency = prices.currency,
                        .rate = words.rate,
                        .goal_ttft = words.ttft,
                        .goal_tpot = words.tpot,
                        .tokens = words.tokens,
                        .deadline = words.deadline,
                        .budget = words.budget,
                        .percentile = words.percentile};
  WEFT_CHECK(advice.serves ? advise_serving(words, prices, progress, advice)
                           : advise_training(words, prices, progress, advice));
  for (report::AdviceRow& row : advice.rows) row.command = with_price(row.command, row);
  return advice;
}

}  // namespace weft::advise
