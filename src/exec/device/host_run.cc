#include "exec/device/host_run.h"

#include <memory>
#include <thread>
#include <vector>

#include "exec/device/host_machine.h"
#include "exec/device/run.h"

namespace weft::exec::device {

void run_on_host(std::span<const Frame> frames, DataType type, int threads) {
  std::vector<std::unique_ptr<HostBlock>> blocks;
  std::vector<std::thread> running;
  for (const Frame& frame : frames) {
    const int strands = reinterpret_cast<const ImageHeader*>(frame.image)->strands;
    for (int strand = 0; strand < strands; ++strand) {
      HostBlock& block = *blocks.emplace_back(std::make_unique<HostBlock>(threads));
      for (int thread = 0; thread < threads; ++thread)
        running.emplace_back([&frame, &block, type, strand, thread] {
          HostMachine machine(block, thread);
          with_type(type, [&]<class T>(T) { run_strand<T>(machine, frame, strand); });
        });
    }
  }
  for (std::thread& t : running) t.join();
}

}  // namespace weft::exec::device
