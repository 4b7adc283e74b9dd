#include "apps/serving/requests.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/text_file.h"

namespace weft::serving {
namespace {

// Rounds of a closed loop: benchmarks send about ten requests per client; more than a few thousand change nothing.
constexpr std::int64_t kRounds = 10, kLeastRounds = 4, kMostRequests = 4096;

}  // namespace

Source::Source(const Load& load) : load_(&load), state_(load.seed * 0x9E3779B97F4A7C15ull + 1) {
  if (!load.trace.empty())
    count_ = std::ssize(load.trace);
  else if (load.requests > 0)
    count_ = load.requests;
  else if (load.concurrency > 0)
    count_ = load.concurrency * std::clamp(kMostRequests / load.concurrency, kLeastRounds, kRounds);
  else
    count_ = 2000;
  if (load.concurrency == 0) advance();
}

// SplitMix64: the same numbers on every machine.
double Source::uniform() {
  std::uint64_t z = (state_ += 0x9E3779B97F4A7C15ull);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1.0p-53;
}

std::int64_t Source::length(std::int64_t longest) {
  const double low = load_->spread * static_cast<double>(longest);
  return std::max<std::int64_t>(1, std::llround(low + uniform() * (static_cast<double>(longest) - low)));
}

void Source::advance() {
  if (!load_->trace.empty())
    arrival_ = made_ < count_ ? load_->trace[static_cast<std::size_t>(made_)].arrival : 0;
  else if (load_->rate > 0)
    arrival_ += -std::log(1 - uniform()) / load_->rate;
}

Request Source::next(double now) {
  Request r;
  if (!load_->trace.empty()) {
    r = load_->trace[static_cast<std::size_t>(made_)];
  } else {
    r.input = length(load_->input);
    r.output = length(load_->output);
    r.arrival = load_->concurrency > 0 ? now : arrival_;
  }
  ++made_;
  if (load_->concurrency == 0) advance();
  return r;
}

Result<std::vector<Request>> read_trace(const std::string& file, double scale) {
  WEFT_TRY(const std::string text, read_text_file(file));
  return parse_trace(file, text, scale);
}

Result<std::vector<Request>> parse_trace(const std::string& file, const std::string& text, double scale) {
  std::vector<Request> trace;
  std::istringstream lines(text);
  std::string line;
  std::vector<std::string> columns;
  const auto split = [](const std::string& row) {
    std::vector<std::string> cells;
    std::istringstream parts(row);
    for (std::string cell; std::getline(parts, cell, ',');) {
      while (!cell.empty() && (cell.back() == '\r' || cell.back() == ' ')) cell.pop_back();
      cells.push_back(cell);
    }
    return cells;
  };
  int number = 0;
  for (double first = -1; std::getline(lines, line);) {
    ++number;
    if (line.empty() || line == "\r") continue;
    double arrival = 0, input = 0, output = 0;
    if (line[0] == '{') {
      const auto row = nlohmann::json::parse(line, nullptr, false);
      const auto value = [&](const char* key) {
        return row.is_object() && row.contains(key) && row[key].is_number() ? row[key].get<double>() : -1.0;
      };
      arrival = value("timestamp") / 1e3, input = value("input_length"), output = value("output_length");
    } else if (columns.empty()) {
      columns = split(line);
      continue;
    } else {
      const auto cells = split(line);
      const auto value = [&](std::initializer_list<const char*> names) {
        for (const char* name : names) {
          const auto at = std::ranges::find(columns, name) - columns.begin();
          if (at < std::ssize(cells)) {
            char* end = nullptr;
            const std::string& cell = cells[static_cast<std::size_t>(at)];
            const double number = std::strtod(cell.c_str(), &end);
            return cell.empty() || *end != '\0' ? -1.0 : number;
          }
        }
        return -1.0;
      };
      arrival = value({"arrival_s"});
      if (arrival < 0) arrival = value({"timestamp"}) / 1e3;
      input = value({"input_tokens", "input_length", "ContextTokens"});
      output = value({"output_tokens", "output_length", "GeneratedTokens"});
    }
    if (!(arrival >= 0) || !(input >= 1 && input < 1e8) || !(output >= 1 && output < 1e8))
      return bad_input("{}:{}: no arrival (arrival_s, or timestamp in ms), input tokens and output tokens above 0",
                       file, number);
    if (first < 0) first = arrival;
    Request r;
    r.input = static_cast<std::int64_t>(input), r.output = static_cast<std::int64_t>(output);
    r.arrival = (arrival - first) / scale;
    trace.push_back(r);
  }
  if (trace.empty()) return bad_input("{}: an empty trace", file);
  std::ranges::stable_sort(trace, {}, &Request::arrival);
  return trace;
}

}  // namespace weft::serving
