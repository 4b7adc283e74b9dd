#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weft::doctor {

// A table of perftest (ib_write_bw, ib_read_lat and their siblings): one pair of NICs, no collective.
struct PairTable {
  struct Row {
    std::int64_t bytes = 0;
    double gigabytes = 0;     // per second, on average; 0: a table of latencies
    double microseconds = 0;  // typical; 0: a table of bandwidths
  };
  std::string test;        // "RDMA_Write BW Test"
  std::string device;      // "mlx5_0"; empty: not said
  std::string link;        // "IB", "Ethernet"
  bool both_ways = false;  // bidirectional: rates count both directions
  bool gpu = false;        // memory of a GPU was used
  int pairs = 1;           // whose bandwidths are added up (osu_mbw_mr)
  std::vector<Row> rows;
};
// None: the text has no such table.
std::optional<PairTable> read_perftest(std::string_view text);

}  // namespace weft::doctor
