#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "tests/ptx/memory.h"

// Carries kernels out on the host, as nvcc compiled them: the text of PTX, warp by warp, in an order drawn from a seed.
namespace weft::ptx {

struct Dim {
  std::uint32_t x = 1, y = 1, z = 1;
  std::uint64_t count() const { return std::uint64_t{x} * y * z; }
};

struct Kernel;

// A parameter's place among a kernel's, in bytes.
struct Parameter {
  std::size_t offset, size;
};

// One text of PTX and the memory of its variables. Kernels are decoded when they are first asked for.
// Owns: its kernels.
class Module {
 public:
  static Result<std::unique_ptr<Module>> read(std::string text);
  ~Module();

  // Errors: kNotFound; kUnsupported: an instruction that this machine does not know.
  Result<const Kernel*> kernel(const std::string& name);

 private:
  struct Text;
  explicit Module(std::unique_ptr<Text> text);
  std::unique_ptr<Text> text_;
};

const std::vector<Parameter>& parameters(const Kernel& kernel);
std::size_t parameter_bytes(const Kernel& kernel);

struct Options {
  std::uint64_t seed = 1;
  bool races = false;  // report accesses to the same byte, one of them a plain write, that nothing orders
  std::size_t most_threads = 1 << 16;  // on the machine at once; a grid's further blocks wait for room
};

// Bytes that kernels have loaded from and stored to memory that is not a block's or a thread's own, in sectors of 32
// bytes; those that an instruction's lanes share count once.
struct Traffic {
  std::uint64_t loaded = 0, stored = 0;
};

// All grids that run. Thread: one at a time.
class Machine {
 public:
  using Number = std::uint64_t;  // of a grid

  // `memory`: outlives the machine.
  Machine(const Memory& memory, const Options& options);
  ~Machine();

  // `parameters`: as many bytes as parameter_bytes. All blocks of a cooperative grid are there at once.
  Number start(const Kernel& kernel, Dim grid, Dim block, std::span<const std::byte> parameters,
               std::size_t dynamic_shared);
  // Whether the grid has ended; forgets it if so.
  bool done(Number grid);
  bool idle() const;  // no grid runs
  // Every warp that can go on does so for some instructions.
  void step();

  const Traffic& traffic() const;
  // What went wrong first: an access outside of memory, a race, a barrier that can never be passed. Empty: nothing.
  // Afterwards no grid goes on.
  const std::string& fault() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace weft::ptx
