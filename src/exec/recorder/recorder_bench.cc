#include <benchmark/benchmark.h>

#include "exec/recorder/recorder.h"

namespace weft::recorder {
namespace {

// The cost of an operation's record.
void BM_RecordAnOperation(benchmark::State& state) {
  RecordPool pool(4096);
  const auto recorder = Recorder::open({.job = "bench", .group = "world", .transport = "none"}, pool);
  const auto label = recorder->label({"all_reduce", "float", "ring", "Simple", 1, -1});
  std::uint64_t number = 0;
  for (auto _ : state) {
    recorder->begin(++number, 1, label);
    recorder->end(true);
  }
}
BENCHMARK(BM_RecordAnOperation);

// The cost of opening a communicator's record, beside others.
void BM_OpenARecord(benchmark::State& state) {
  RecordPool pool(4096);
  const auto first = Recorder::open({.job = "bench", .group = "world", .transport = "none"}, pool);
  for (auto _ : state) Recorder::open({.job = "bench", .group = "split 1 color 0", .transport = "none"}, pool);
}
BENCHMARK(BM_OpenARecord);

}  // namespace
}  // namespace weft::recorder
