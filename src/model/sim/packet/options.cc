#include "model/sim/packet/options.h"

#include <algorithm>
#include <optional>

#include "base/quantity.h"
#include "base/text.h"
#include "model/sim/flow/carrier.h"

namespace weft::sim {
namespace {

Result<bool> parse_switch(std::string_view key, std::string_view value) {
  if (value == "on") return true;
  if (value == "off") return false;
  return bad_input("--level packet: {}={}: on or off", key, value);
}

Result<double> parse_probability(std::string_view key, std::string_view value) {
  double p = 0;
  const auto [end, error] = read_number(value, p);
  // Above, packets of some KiB would hardly ever arrive.
  constexpr double kMost = 1e-5;
  if (error != std::errc() || end != value.data() + value.size() || !(p >= 0 && p <= kMost))
    return bad_input("--level packet: {}={}: a probability from 0 to {}", key, value, kMost);
  return p;
}

// "0.1%".
Result<double> parse_loss(std::string_view value) {
  double percent = 0;
  const bool sign = value.ends_with('%');
  const std::string_view digits = value.substr(0, value.size() - (sign ? 1 : 0));
  const auto [end, error] = read_number(digits, percent);
  constexpr double kMost = 10;  // per cent
  if (!sign || error != std::errc() || end != digits.data() + digits.size() || !(percent >= 0 && percent <= kMost))
    return bad_input("--level packet: loss={}: per cent of the packets from 0% to {}%, e.g. 0.1%", value, kMost);
  return percent / 100;
}

Result<PacketOptions::Spread> parse_spread(std::string_view value) {
  if (value == "flow") return PacketOptions::Spread::kFlow;
  if (value == "spray") return PacketOptions::Spread::kSpray;
  if (value == "adaptive") return PacketOptions::Spread::kAdaptive;
  return bad_input("--level packet: spread={}: flow, spray or adaptive", value);
}

Result<Bytes> parse_size(std::string_view key, std::string_view value, Bytes least, Bytes most) {
  auto bytes = parse_bytes(value);
  if (!bytes || *bytes < least || *bytes > most)
    return bad_input("--level packet: {}={}: a size from {} to {}", key, value, format_bytes(least),
                     format_bytes(most));
  return bytes;
}

Result<Duration> parse_timeout(std::string_view value) {
  const Duration kLeast = Duration::microseconds(1), kMost = Duration::seconds(10);
  const auto timeout = duration_of(value);
  if (!timeout || *timeout < kLeast || *timeout > kMost)
    return bad_input("--level packet: timeout={}: a time from 1us to 10s", value);
  return *timeout;
}

Result<double> parse_alpha(std::string_view value) {
  double alpha = 0;
  const auto [end, error] = read_number(value, alpha);
  constexpr double kLeast = 1e-3, kMost = 1e3;
  if (error != std::errc() || end != value.data() + value.size() || !(alpha >= kLeast && alpha <= kMost))
    return bad_input("--level packet: alpha={}: a number from {} to {}", value, kLeast, kMost);
  return alpha;
}

Result<PacketOptions::Switching> parse_switching(std::string_view value) {
  if (value == "cut-through") return PacketOptions::Switching::kCutThrough;
  if (value == "store-and-forward") return PacketOptions::Switching::kStore;
  return bad_input("--level packet: switching={}: cut-through or store-and-forward", value);
}

// "8/1": of class 0, of class 1, …
Result<std::vector<double>> parse_weights(std::string_view value) {
  std::vector<double> weights;
  for (std::size_t at = 0; at <= value.size();) {
    const std::size_t slash = std::min(value.find('/', at), value.size());
    WEFT_TRY(const auto weight, parse_integer("--level packet: weights", value.substr(at, slash - at), 1, 1'000'000));
    weights.push_back(static_cast<double>(weight));
    at = slash + 1;
  }
  if (weights.size() > kMostClasses)
    return bad_input("--level packet: weights={}: at most {} classes", value, kMostClasses);
  return weights;
}

Status set(PacketOptions& options, std::string_view key, std::string_view value) {
  if (key == "voq") {
    WEFT_TRY(options.virtual_queues, parse_switch(key, value));
  } else if (key == "pfc") {
    WEFT_TRY(options.pause, parse_switch(key, value));
  } else if (key == "dcqcn") {
    options.congestion_control = value != "off";
    if (value == "2015" || value == "2019")
      options.congestion = value;
    else if (value != "on" && value != "off")
      return bad_input("--level packet: dcqcn={}: on, off, or whose parameters: 2015, 2019", value);
  } else if (key == "recovery") {
    if (value != "go-back-n" && value != "selective")
      return bad_input("--level packet: recovery={}: go-back-n or selective", value);
    options.recovery_given = true;
    options.recovery = value == "selective" ? Delivery::Recovery::kSelective : Delivery::Recovery::kGoBackN;
  } else if (key == "timeout") {
    WEFT_TRY(options.timeout, parse_timeout(value));
  } else if (key == "alpha") {
    WEFT_TRY(options.alpha, parse_alpha(value));
  } else if (key == "switching") {
    WEFT_TRY(options.switching, parse_switching(value));
  } else if (key == "ber") {
    WEFT_TRY(options.bit_error_rate, parse_probability(key, value));
  } else if (key == "loss") {
    WEFT_TRY(options.loss, parse_loss(value));
  } else if (key == "spread") {
    WEFT_TRY(options.spread, parse_spread(value));
  } else if (key == "reorder") {
    WEFT_TRY(options.reorder, parse_integer("--level packet: reorder", value, 0, 1'000'000));
  } else if (key == "buffer") {
    WEFT_TRY(options.buffer, parse_size(key, value, 1, Bytes{1} << 30));
  } else if (key == "payload") {
    WEFT_TRY(options.payload, parse_size(key, value, 16, Bytes{64} << 10));
  } else if (key == "weights") {
    WEFT_TRY(options.weights, parse_weights(value));
  } else if (key == "seed") {
    WEFT_TRY(const auto seed, parse_integer("--level packet: seed", value, 0, 1'000'000'000));
    options.seed = static_cast<std::uint64_t>(seed);
  } else {
    return bad_input(
        "--level packet: unknown '{}'; there are voq, switching, pfc, dcqcn, recovery, timeout, alpha, ber, loss, "
        "spread, reorder, buffer, payload, weights, seed",
        key);
  }
  return {};
}

}  // namespace

Result<PacketOptions> PacketOptions::parse(std::string_view text) {
  PacketOptions options;
  bool reorder = false;
  while (!text.empty()) {
    const std::string_view one = text.substr(0, text.find(','));
    const std::size_t equals = one.find('=');
    if (equals == std::string_view::npos) return bad_input("--level packet: '{}' is not KEY=VALUE", one);
    WEFT_CHECK(set(options, one.substr(0, equals), one.substr(equals + 1)));
    options.given.emplace_back(one);
    text.remove_prefix(std::min(text.size(), one.size() + 1));
    reorder |= one.starts_with("reorder=");
  }
  if (reorder && (options.spread == PacketOptions::Spread::kFlow ||
                  (options.recovery_given && options.recovery == Delivery::Recovery::kGoBackN)))
    return bad_input("--level packet: reorder={}: goes with spread=spray or adaptive, without recovery=go-back-n",
                     options.reorder);
  return options;
}

}  // namespace weft::sim
