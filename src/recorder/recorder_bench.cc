#include <benchmark/benchmark.h>

#include "recorder/recorder.h"

namespace weft::recorder {
namespace {

// What an operation pays for its record.
void BM_RecordAnOperation(benchmark::State& state) {
  const auto recorder = Recorder::open({.job = "bench", .group = "world", .transport = "none"}, 4096);
  const auto label = recorder->label({"all_reduce", "float", "ring", "Simple", 1, -1});
  std::uint64_t number = 0;
  for (auto _ : state) {
    recorder->begin(++number, 1, label);
    recorder->end(true);
  }
}
BENCHMARK(BM_RecordAnOperation);

}  // namespace
}  // namespace weft::recorder
