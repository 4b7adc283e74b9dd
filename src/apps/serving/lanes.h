#pragma once

#include <string>
#include <vector>

#include "apps/serving/engine.h"

namespace weft::serving {

// A recorded run as a picture has it: time cut into equal columns.
struct Lanes {
  struct Engine {
    std::string name;  // "engine 0"; of pools apart "prefill 1", "decode 0"
    std::vector<double> reads,
        decodes;  // by column: the share of its time in iterations that read prompts, that only decode
  };
  double seconds = 0;
  std::vector<Engine> engines;
  std::size_t left_out = 0;  // engines beyond `most`
  // The largest of all engines by column; below 0: no iteration begins in it.
  std::vector<double> waiting, running, used;
};

// `apart`: prefill and decode engines are different ones. Requires: a recorded run, columns > 0.
Lanes lanes_of(const Run& run, bool apart, std::size_t columns, std::size_t most);

}  // namespace weft::serving
