#include "api/share_rates.h"

#include <cstring>

namespace weft::api {
namespace {

constexpr std::uint64_t kLargest = 4096;  // bytes of the text; a usual one has 400

// One message of the lane, waited for.
template <class Try>
Status until(exec::Executor& executor, Rank peer, const Try& done) {
  executor.moved();
  while (!done()) WEFT_CHECK(executor.pause([&] { return std::vector<Rank>{peer}; }));
  executor.moved();
  return {};
}

}  // namespace

// Down a binomial tree: rank r receives from the rank whose number lacks r's lowest bit.
Result<calibrate::Rates> share_rates(exec::Executor& executor, const calibrate::Rates& own) {
  fabric::Lane& lane = executor.lane();
  const Rank self = executor.rank(), ranks = executor.ranks();
  std::string text = calibrate::to_text(own);
  std::uint64_t length = text.size();
  const auto bytes_of_length = [&] { return reinterpret_cast<std::byte*>(&length); };
  const auto bytes_of_text = [&] { return reinterpret_cast<std::byte*>(text.data()); };
  Rank lowest = 1;
  while (lowest < ranks && (self & lowest) == 0) lowest *= 2;
  if (self != 0) {
    const Rank from = self - lowest;
    WEFT_CHECK(until(executor, from, [&] { return lane.receive(from, bytes_of_length(), sizeof length); }));
    if (length == 0 || length > kLargest)
      return failure(Code::kMismatch, Blame::kCommunicator, "rank {} sent no rates: {} bytes", from, length);
    text.resize(length);
    const auto bytes = static_cast<Bytes>(length);
    WEFT_CHECK(until(executor, from, [&] { return lane.receive(from, bytes_of_text(), bytes); }));
  }
  for (Rank bit = lowest / 2; bit > 0; bit /= 2) {
    const Rank to = self + bit;
    if (to >= ranks) continue;
    const auto bytes = static_cast<Bytes>(length);
    WEFT_CHECK(until(executor, to, [&] { return lane.send(to, bytes_of_length(), sizeof length); }));
    WEFT_CHECK(until(executor, to, [&] { return lane.send(to, bytes_of_text(), bytes); }));
    WEFT_CHECK(until(executor, to, [&] {
      return !lane.reads(bytes_of_length(), sizeof length) && !lane.reads(bytes_of_text(), bytes);
    }));
  }
  // All ranks, rank 0 too, choose by the rates as they read from the text. Equal text needs no parser, whose JSON
  // objects end the process where no memory is left.
  if (text == calibrate::to_text(own)) return calibrate::as_read(own);
  auto rates = calibrate::from_text(text);
  if (!rates) return failure(Code::kMismatch, Blame::kCommunicator, "rank 0's rates: {}", rates.error().message);
  return rates;
}

}  // namespace weft::api
