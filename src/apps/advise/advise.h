#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "apps/advise/prices.h"
#include "base/report/advise.h"
#include "base/result.h"

namespace weft::advise {

// A question as it is typed.
struct Words {
  std::string model, precision;      // precision: empty: the model's own; training: bf16
  std::vector<std::string> on;       // machines to choose from; a name without nodes= may have as many as it takes
  std::vector<std::string> have;     // machines that are there: their price is 0, their size is fixed
  std::vector<double> prices;        // of a GPU-hour, one for all of `on` or one for each; empty: the table's
  std::vector<std::string> engines;  // empty: all
  double rate = 0;                   // requests/s to serve; 0: train
  std::int64_t input = 1024, output = 1024;
  double ttft = 0, tpot = 0;  // ms; 0: not asked
  std::int64_t percentile = 90;
  double tokens = 0;                       // to train on; 0: serve
  double deadline = 0, budget = 0;         // days; money of the run, or of a month of serving. 0: not asked
  std::int64_t global_batch = 0, seq = 0;  // sequences, tokens; 0: 4 Mi tokens a step, the model's
  std::int64_t largest = 4096;             // GPUs that are looked at
};

using Progress = std::function<void(const std::string& what)>;

// Which machine, how many GPUs, which plan and engine: by weft serve --best and weft train --best, every figure with
// the command that prints it. Errors (bad input): neither or both of rate and tokens; a number that is none; an unknown
// model, machine or engine; no price for any machine.
Result<report::Advice> advise(const Words& words, const Prices& prices, const Progress& progress = {});

}  // namespace weft::advise
