#pragma once

#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "tests/ptx/machine.h"

// Kernels by the host's address, as programs that nvcc has compiled register them. Thread: any.
namespace weft::host_cuda {

class Registry {
 public:
  static Registry& get();

  // `fatbin`: as the compiler has laid it out, which stays. Returns the handle for add.
  void** add_binary(const void* fatbin);
  void add_kernel(void** binary, const void* function, const char* name);
  // Decodes it when it is first asked for. Errors: no such kernel, no plain PTX, what the interpreter does not know.
  Result<const ptx::Kernel*> kernel(const void* function);

 private:
  struct Binary {
    std::string text;  // PTX of all its parts; empty: none that is plain
    std::unique_ptr<ptx::Module> module;
  };
  struct Function {
    Binary* binary;
    std::string name;
    const ptx::Kernel* kernel = nullptr;
  };
  std::mutex mutex_;
  std::vector<std::unique_ptr<Binary>> binaries_;
  std::unordered_map<const void*, Function> functions_;
};

}  // namespace weft::host_cuda
