#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "model/sim/packet/delivery.h"

namespace weft::sim {

// What a user can change about a simulation with packets. A value type.
struct PacketOptions {
  bool virtual_queues = true;  // an input queue per output; else one per input, whose head blocks the others
  enum class Switching : std::uint8_t { kByLink, kCutThrough, kStore };
  Switching switching = Switching::kByLink;
  bool pause = true;                // PFC
  bool congestion_control = true;   // marking and DCQCN
  std::string congestion = "2015";  // whose parameters: a name of PacketRules::congestion
  Delivery::Recovery recovery = Delivery::Recovery::kGoBackN;
  Duration timeout;  // without an acknowledgement; none: by the rules
  double alpha = 0;  // of switches' shared buffers; 0: by the rules
  double bit_error_rate = 0;
  Bytes buffer = 0;                   // room per link direction (and class, where not shared); 0: by the rules
  Bytes payload = 0;                  // of every packet on every link; 0: by the rules
  std::vector<double> weights = {1};  // of the service classes; their number
  std::uint64_t seed = 1;

  // "voq=off,switching=store-and-forward,pfc=off,dcqcn=off,recovery=selective,timeout=100us,alpha=0.5,ber=1e-9,
  // buffer=64K,payload=1K,weights=4/1,seed=7";
  // may be empty.
  // Errors (bad input): names what cannot be read.
  static Result<PacketOptions> parse(std::string_view text);
};

}  // namespace weft::sim
