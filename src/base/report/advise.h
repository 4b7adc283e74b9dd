#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace weft::report {

inline constexpr double kHoursOfMonth = 730;

// One machine's answer to a question of advice: its best plan, or why it has none. Times in milliseconds where they are
// of a request or a token.
struct AdviceRow {
  std::string machine, card, plan, engine, library, limit;
  std::string command;  // prints the row's figures
  std::string reason;   // why it is not the first, or has no plan
  std::int64_t gpus = 0, nodes = 0;
  bool holds = false;  // goals, deadline and budget
  bool owned = false;  // --have
  double per_gpu_hour = 0, hourly = 0, kilowatts = 0;
  std::string price_source, power_source;
  double money = 0;              // training: of the whole run; serving: per million output tokens
  double ttft = 0, tpot = 0;     // serving, at the percentile
  double tokens_per_second = 0;  // serving: output, of all GPUs; training: of all GPUs
  double days = 0, mfu = 0;      // training
};

// The first row's plan on a cheaper network.
struct AdviceFabric {
  std::string fabric, command, refused;
  double change = 0;  // of a training step or a token's time: +0.04 takes 4 % longer
};

// From this size on the answer is another one.
struct AdviceTurn {
  double size = 0;  // requests/s, or GPUs
  std::string answer, command;
};

struct Advice {
  bool serves = false;
  std::string model, precision, currency;
  // The question: requests/s and goals in ms, or tokens, days and money. 0: not asked.
  double rate = 0, goal_ttft = 0, goal_tpot = 0, tokens = 0, deadline = 0, budget = 0;
  std::int64_t percentile = 50, input = 0, output = 0;
  std::vector<AdviceRow> rows;  // those that hold first, the cheapest first
  std::vector<AdviceFabric> fabrics;
  std::string fabric_note;  // where no network lies between an engine's GPUs
  std::vector<AdviceTurn> turns;
};

// A few sentences and a table.
std::string in_words(const Advice& advice);
// weft.advise/1, the stable form.
nlohmann::json to_json(const Advice& advice);

}  // namespace weft::report
