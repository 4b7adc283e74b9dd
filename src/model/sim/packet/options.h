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
  double loss = 0;  // of every packet on every link that drops packets: a part
  // kSpray: packets take the shortest ways across a network's switches in turn (Ultra Ethernet); kAdaptive: each takes
  // the way with the least queued (Spectrum-X). Messages of several senders or receivers take their one way.
  enum class Spread : std::uint8_t { kFlow, kSpray, kAdaptive };
  Spread spread = Spread::kFlow;
  bool recovery_given = false;        // else packets that are spread are taken in any order
  std::int64_t reorder = 128;         // packets by which one may be late before its receiver reports it missing
  Bytes buffer = 0;                   // room per link direction (and class, where not shared); 0: by the rules
  Bytes payload = 0;                  // of every packet on every link; 0: by the rules
  std::vector<double> weights = {1};  // of the service classes; their number
  std::uint64_t seed = 1;
  std::vector<std::string> given;  // as it was written: "loss=0.1%"

  // "voq=off,switching=store-and-forward,pfc=off,dcqcn=off,recovery=selective,timeout=100us,alpha=0.5,ber=1e-9,
  // loss=0.1%,spread=spray,reorder=64,buffer=64K,payload=1K,weights=4/1,seed=7";
  // may be empty.
  // Errors (bad input): names what cannot be read.
  static Result<PacketOptions> parse(std::string_view text);
};

}  // namespace weft::sim
