#include <benchmark/benchmark.h>

#include <vector>

#include "net/tcp/crc32c.h"

namespace weft::net::tcp {
namespace {

void instruction(benchmark::State& state) {
  std::vector<char> data(static_cast<std::size_t>(state.range(0)), 7);
  for (auto _ : state) benchmark::DoNotOptimize(crc32c(0, data.data(), data.size()));
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
void portable(benchmark::State& state) {
  std::vector<char> data(static_cast<std::size_t>(state.range(0)), 7);
  for (auto _ : state) benchmark::DoNotOptimize(crc32c_portable(0, data.data(), data.size()));
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(instruction)->Arg(56)->Arg(1024)->Arg(16 << 10)->Arg(256 << 10);
BENCHMARK(portable)->Arg(256 << 10);

}  // namespace
}  // namespace weft::net::tcp
