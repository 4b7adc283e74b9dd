#pragma once

#include "apps/serving/point.h"
#include "machine/machine.h"
#include "plan/cost/shipped.h"

// For tests: a small model on one machine, whose collectives are asked once.
namespace weft::serving {

inline Place& place() {
  static const cost::MachineView view = [] {
    auto topology = topology::load_machine("hgx-h200");
    return std::move(*cost::shipped_view(std::move(*topology)));
  }();
  static Place p = std::move(*Place::open(view));
  return p;
}

inline Question question(const char* engine = "vllm") {
  Question q;
  q.shape = *load_shape("llama-3.1-8b");
  q.engine = *load_engine(engine);
  q.load = {.input = 512, .output = 128, .concurrency = 8};
  return q;
}

}  // namespace weft::serving
