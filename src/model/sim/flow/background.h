#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "machine/topology.h"
#include "model/sim/flow/carrier.h"

namespace weft::sim {

// What others send over the machine's links while a simulation runs, as data. A value type.
struct Background {
  // Asks for a constant rate, takes no more, and gets a fair share where others want the same links.
  struct Stream {
    topology::Path path;
    BytesPerSecond rate;  // raw link bytes
    std::uint8_t service = 0;
  };
  std::vector<Stream> streams;
  std::uint64_t seed = 1;  // of when bursts come
};

// One stream's loads, one after the other. As flows: endless, at its rate. As packets: bursts of kBurst bytes, as fast
// as the narrowest link goes, that are posted at random times (exponential intervals) which have its rate on average. A
// burst that is late does not delay the next ones' times, so that the stream catches up.
class BackgroundSource {
 public:
  static constexpr double kBurst = 64 << 10;  // bytes; a choice of the model's: some slices of a collective

  // `path`: of the stream, as resources, which is this way; must outlive this.
  BackgroundSource(const Background::Stream& stream, MaxMin::Way way, MaxMin::Path path, bool bursts)
      : way_(way),
        path_(path),
        service_(stream.service),
        bytes_(bursts ? kBurst : stream.rate.value()),
        cap_(bursts ? stream.path.rate.value() : stream.rate.value()),
        interval_(bursts ? kBurst / stream.rate.value() : 0) {}

  Carrier::Load load(std::int32_t number) const {
    return {.number = number, .way = way_, .path = path_, .bytes = bytes_, .cap = cap_, .service = service_};
  }
  // How long after `now`, when the last load is through, the next one starts.
  Duration pause(std::mt19937_64& random, Duration now) {
    if (interval_ <= 0) return {};
    due_ += Duration::seconds(std::exponential_distribution<double>(1 / interval_)(random));
    return std::max(Duration(), due_ - now);
  }

 private:
  MaxMin::Way way_;
  MaxMin::Path path_;
  std::uint8_t service_;
  double bytes_, cap_, interval_;
  Duration due_;
};

}  // namespace weft::sim
