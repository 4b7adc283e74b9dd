#include "exec/device/host_run.h"

#include <memory>
#include <thread>
#include <vector>

#include "exec/device/host_machine.h"
#include "exec/device/run.h"

namespace weft::exec::device {

namespace {

// Threads of many blocks; they run until the end of its life.
class Blocks {
 public:
  explicit Blocks(int threads) : threads_(threads) {}
  ~Blocks() {
    for (std::thread& t : running_) t.join();
  }
  Blocks(const Blocks&) = delete;
  Blocks& operator=(const Blocks&) = delete;

  // `run` gets the machine of each thread of one more block.
  template <class Run>
  void add(Run run) {
    HostBlock& block = *blocks_.emplace_back(std::make_unique<HostBlock>(threads_));
    for (int thread = 0; thread < threads_; ++thread)
      running_.emplace_back([&block, run, thread] {
        HostMachine machine(block, thread);
        run(machine);
      });
  }

 private:
  const int threads_;
  std::vector<std::unique_ptr<HostBlock>> blocks_;
  std::vector<std::thread> running_;
};

}  // namespace

void run_on_host(std::span<const Frame> frames, DataType type, int threads) {
  Blocks blocks(threads);
  for (const Frame& frame : frames)
    for (int strand = 0; strand < reinterpret_cast<const ImageHeader*>(frame.image)->strands; ++strand)
      blocks.add([&frame, type, strand](HostMachine& machine) {
        with_type(type, [&]<class T>(T) { run_strand<T>(machine, frame, strand); });
      });
}

void run_on_host(const Exchange& exchange, int threads) {
  std::vector<ExchangeMemory> memories(static_cast<std::size_t>(exchange.count * exchange.blocks));
  Blocks blocks(threads);
  for (std::size_t b = 0; b < memories.size(); ++b)
    blocks.add([&exchange, &memory = memories[b], b = static_cast<int>(b)](HostMachine& machine) {
      ExchangeBlock(machine, memory, exchange, exchange.of[b / exchange.blocks], b % exchange.blocks).run();
    });
}

}  // namespace weft::exec::device
