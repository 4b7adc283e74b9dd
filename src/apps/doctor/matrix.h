#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace weft::doctor {

// Bandwidths between pairs of GPUs, or between the host and each GPU, as nvbandwidth and CUDA's
// p2pBandwidthLatencyTest print them.
struct PairMatrix {
  std::string title;
  bool host = false;                       // between the host and the GPUs: one row
  bool both_ways = false;                  // rates count both directions
  bool staged = false;                     // without peer access: through the host's memory
  std::vector<std::vector<double>> rates;  // GB/s by row and column; 0: not measured, or within one GPU
};
struct PairMatrices {
  std::vector<PairMatrix> all;
  std::vector<std::string> waived;  // tests that nvbandwidth left out, as it could not map the memory of a peer
  std::vector<std::string> gpus;    // models, as they are listed
  std::size_t apart = 0;            // pairs of devices of which one "CANNOT Access Peer" the other
};
// Empty: the text has none.
PairMatrices read_matrices(std::string_view text);

}  // namespace weft::doctor
