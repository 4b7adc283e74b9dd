#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace weft::kv {

// When a request came and how long it was; what the file does not say is below 0.
struct Asked {
  double arrival = -1;                   // s
  std::int64_t input = -1, output = -1;  // tokens
  int priority = 0;                      // lower goes first
  std::uint32_t line = 0;                // of the file; of a conversation: its number
};

// Requests, each with the blocks of its prompt in order; equal numbers are equal prefixes. Numbers count from 0.
struct Trace {
  std::vector<std::uint32_t> blocks;  // of all requests
  std::vector<std::uint64_t> ends;    // of each request's, in `blocks`
  std::vector<Asked> asked;           // of all requests
  std::uint32_t distinct = 0;
  std::string form;  // how the blocks were found, in a few words

  std::size_t requests() const { return ends.size(); }
  std::span<const std::uint32_t> of(std::size_t request) const {
    const std::uint64_t begin = request == 0 ? 0 : ends[request - 1];
    return {blocks.data() + begin, static_cast<std::size_t>(ends[request] - begin)};
  }
};

// One of these forms; how the file begins says which:
//   a line of JSON per request with "hash_ids", one for each block of a prefix (Mooncake, Qwen-Bailian), and
//   "timestamp"
//     (ms), "input_length", "output_length" as far as they are there; without "hash_ids" no block comes twice
//   a line of JSON per request with "input_tok_ids", its prompt's tokens (ShareGPT as LLMServingSim writes it)
//   JSON: a list of conversations, each with "conversations" of {"from", "value"} (ShareGPT): a request for each turn
//   of
//     a person, whose prompt is everything before it; four bytes of text count as one token
//   CSV with columns of input tokens, and of output tokens and arrival as far as they are there; lengths only, so that
//     no block comes twice: input_tokens, output_tokens, arrival_s; input_length, output_length, timestamp (ms);
//     ContextTokens, GeneratedTokens, TIMESTAMP (a date, Azure); Request tokens, Response tokens, Timestamp (s,
//     BurstGPT)
// A column or key "priority" (whole numbers; lower goes first, as vLLM counts) is read in CSV and in lines of JSON.
// A byte order mark of UTF-8 is passed over.
// `block_tokens`: where tokens are cut into blocks; whole blocks only, as a store keeps them. Errors (bad input): names
// file and line.
Result<Trace> parse_trace(std::string_view text, const std::string& file, std::int64_t block_tokens = 16);

}  // namespace weft::kv
