#include "base/env.h"

#include <cstdlib>

#include "base/text.h"

namespace weft::env {
namespace {

constexpr Variable kTable[] = {
    {"WEFT_RANK", "number", "0", "this process's rank; set by `weft run`"},
    {"WEFT_SIZE", "number", "1", "the number of ranks; set by `weft run`"},
    {"WEFT_ID", "text", "none", "names the job; letters, digits, '-' and '_'; set by `weft run`"},
    {"WEFT_TIMEOUT_MS", "number", "30000", "how long a rank waits for a peer before the operation fails"},
    {"WEFT_HEAP", "size", "1G", "address space for registered memory, per rank"},
    {"WEFT_ALGO", "text", "chosen", "forces an algorithm, e.g. ring"},
    {"WEFT_PROTO", "text", "chosen", "forces a protocol, e.g. Simple"},
    {"WEFT_CHANNELS", "number", "chosen", "forces the number of channels"},
    {"WEFT_REPRODUCIBLE", "number", "0", "1: sums are taken in rank order, for the same bits on any fabric"},
    {"WEFT_RATES", "text", "typical",
     "rates of this machine that choices go by, the same on all ranks; set by `weft run`"},
};

std::string text(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

Result<std::int64_t> number(const char* name, std::int64_t fallback, std::int64_t low, std::int64_t high) {
  const std::string value = text(name);
  if (value.empty()) return fallback;
  return parse_integer(name, value, low, high);
}

}  // namespace

std::span<const Variable> table() { return kTable; }

Result<Settings> read() {
  constexpr std::int64_t kMaxRanks = 1 << 20;
  Settings s;
  if (!text("WEFT_SIZE").empty()) {
    WEFT_TRY(s.size, number("WEFT_SIZE", 1, 1, kMaxRanks));
    WEFT_TRY(s.rank, number("WEFT_RANK", 0, 0, *s.size - 1));
  }
  s.id = text("WEFT_ID");
  WEFT_TRY(s.timeout_ms, number("WEFT_TIMEOUT_MS", s.timeout_ms, 1, std::int64_t{1} << 40));
  if (const std::string heap = text("WEFT_HEAP"); !heap.empty()) {
    WEFT_TRY(s.heap_bytes, parse_bytes(heap));
    if (s.heap_bytes < 4096 || s.heap_bytes > Bytes{1} << 40) return bad_input("WEFT_HEAP {} is outside 4K … 1T", heap);
  }
  s.algorithm = text("WEFT_ALGO");
  s.protocol = text("WEFT_PROTO");
  WEFT_TRY(s.channels, number("WEFT_CHANNELS", 0, 0, 64));
  WEFT_TRY(const auto reproducible, number("WEFT_REPRODUCIBLE", 0, 0, 1));
  s.reproducible = reproducible == 1;
  s.rates = text("WEFT_RATES");
  return s;
}

}  // namespace weft::env
