#include "apps/serving/requests.h"

#include <algorithm>
#include <cmath>

#include "base/text_file.h"
#include "move/kv/trace.h"

namespace weft::serving {
namespace {

// Rounds of a closed loop: benchmarks send about ten requests per client; more than a few thousand change nothing.
constexpr std::int64_t kRounds = 10, kLeastRounds = 4, kMostRequests = 4096;
constexpr std::uintmax_t kLargestTrace = std::uintmax_t{1} << 30;  // bytes
constexpr std::int64_t kMostTokens = 100'000'000;                  // of a request
constexpr std::uint64_t kStep = 0x9E3779B97F4A7C15ull;             // of SplitMix64
constexpr double kLongest = 1e9;                                   // s: times beyond lose the length of an iteration

// SplitMix64: the same numbers on every machine.
std::uint64_t mixed(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

}  // namespace

// The generator counts its state up by kStep, so states of neighbouring seeds must not lie kStep apart: they are mixed.
Source::Source(const Load& load) : load_(&load), state_((kStep + 1) ^ mixed(load.seed - 1)) {
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

double Source::uniform() { return static_cast<double>(mixed(state_ += kStep) >> 11) * 0x1.0p-53; }

std::int64_t Source::length(std::int64_t longest) {
  const double low = load_->spread * static_cast<double>(longest);
  return std::max<std::int64_t>(1, std::llround(low + uniform() * (static_cast<double>(longest) - low)));
}

void Source::advance() {
  if (!load_->trace.empty())
    arrival_ = made_ < count_ ? load_->trace[static_cast<std::size_t>(made_)].arrival : 0;
  else if (load_->rate > 0)
    arrival_ += (load_->even ? 1 : -std::log(1 - uniform())) / load_->rate;
}

Request Source::next(double now) {
  Request r;
  if (!load_->trace.empty()) {
    r = load_->trace[static_cast<std::size_t>(made_)];
  } else {
    r.input = length(load_->input);
    r.output = length(load_->output);
    if (load_->urgent > 0) r.priority = uniform() < load_->urgent ? -1 : 0;
    r.arrival = load_->concurrency > 0 ? now : arrival_;
  }
  ++made_;
  if (load_->concurrency == 0) advance();
  return r;
}

namespace {

// Blocks of a trace that has their ids: the smallest power of two of tokens that no prompt contradicts.
std::shared_ptr<const Prefixes> prefixes_of(kv::Trace& read) {
  if (read.blocks.size() == read.distinct) return nullptr;
  auto found = std::make_shared<Prefixes>();
  double most = 1;
  for (std::size_t r = 0; r < read.requests(); ++r)
    if (const auto blocks = read.of(r).size(); blocks > 0)
      most = std::max(most, static_cast<double>(read.asked[r].input) / static_cast<double>(blocks));
  while (static_cast<double>(found->block_tokens) < most) found->block_tokens *= 2;
  found->blocks = std::move(read.blocks);
  found->distinct = read.distinct;
  return found;
}

}  // namespace

Result<ReadTrace> read_trace(const std::string& file, double scale) {
  WEFT_TRY(const std::string text, read_text_file(file, kLargestTrace));
  return parse_trace(file, text, scale);
}

Result<ReadTrace> parse_trace(const std::string& file, const std::string& text, double scale) {
  WEFT_TRY(kv::Trace read, kv::parse_trace(text, file));
  ReadTrace trace;
  trace.requests.reserve(read.requests());
  for (std::size_t i = 0; i < read.requests(); ++i) {
    const kv::Asked& asked = read.asked[i];
    const std::string where = fmt::format("{}:{}", file, asked.line);
    if (asked.arrival < 0)
      return bad_input("{}: no arrival (arrival_s, timestamp in ms, TIMESTAMP as a date or Timestamp in s)", where);
    for (const auto& [name, tokens] : {std::pair{"input", asked.input}, {"output", asked.output}}) {
      if (tokens < 0) return bad_input("{}: the number of {} tokens is missing", where, name);
      if (tokens < 1 || tokens > kMostTokens)
        return bad_input("{}: {} {} tokens: 1 to {}", where, tokens, name, kMostTokens);
    }
    Request r;
    r.input = asked.input, r.output = asked.output, r.arrival = asked.arrival, r.line = asked.line;
    r.priority = asked.priority;
    r.first_block = i == 0 ? 0 : read.ends[i - 1];
    r.blocks = static_cast<std::uint32_t>(read.ends[i] - r.first_block);
    trace.requests.push_back(r);
  }
  trace.prefixes = prefixes_of(read);
  // Whole blocks only, as engines keep them.
  for (Request& r : trace.requests) {
    const std::int64_t whole = trace.prefixes ? r.input / trace.prefixes->block_tokens : 0;
    r.blocks = static_cast<std::uint32_t>(std::min<std::int64_t>(r.blocks, whole));
  }
  std::ranges::stable_sort(trace.requests, {}, &Request::arrival);
  const double first = trace.requests.front().arrival;
  for (Request& r : trace.requests) {
    r.arrival = (r.arrival - first) / scale;
    if (!(r.arrival <= kLongest))
      return bad_input("{}:{}: arrives {:.3g} s after the first request: at most {:g} s", file, r.line, r.arrival,
                       kLongest);
  }
  return trace;
}

}  // namespace weft::serving
