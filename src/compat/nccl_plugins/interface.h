#pragma once

#include <cstddef>
#include <cstdint>

// NCCL's published plugin interfaces, as far as weft's plugins use them, declared anew: names are weft's, layouts
// NCCL's. Source: NCCL 2.27 to 2.30, src/include/plugin (profiler v4 to v6, tuner v3 to v6); plugins/*/README.md says
// how the libraries and symbols are found. Checked against the headers by scripts/compare-nccl-plugins.
namespace weft::compat::plugins {

enum Answer : int { kOk = 0, kInternalError = 3 };  // ncclResult_t

// ncclDebugLogger_t. Levels: 2 warns, 3 informs.
using Logger = void (*)(int level, unsigned long flags, const char* file, int line, const char* format, ...);

// ---- profiler: libnccl-profiler-NAME.so, symbols ncclProfiler_v4 … ncclProfiler_v6

enum Event : std::uint64_t { kCollective = 1 << 1, kMessage = 1 << 2, kKernelChannel = 1 << 6, kCopyEngine = 1 << 12 };

struct CollectiveFields {
  std::uint64_t sequence;
  const char* function;  // "AllReduce"
  const void* send;
  void* receive;
  std::size_t count;
  int root;
  const char* type;  // "ncclFloat32"
  std::uint8_t channels, warps;
  const char* algorithm;  // "RING"
  const char* protocol;   // "SIMPLE"
};
struct MessageFields {
  const char* function;  // "Send", "Recv"
  void* buffer;
  const char* type;
  std::size_t count;
  int peer;
  std::uint8_t channels;
};
struct KernelChannelFields {
  std::uint8_t channel;
  std::uint64_t timer;  // of the GPU
};
struct CopyEngineFields {  // from v6 on
  std::uint64_t sequence;
  const char* function;
  const void* send;
  void* receive;
  std::size_t count;
  int root;
  const char* type;
};

// ncclProfilerEventDescr: v4 has a type of one byte, v5 and v6 of eight.
template <class Type>
struct Descriptor {
  Type type;
  void* parent;
  int rank;
  union {
    CollectiveFields collective;
    MessageFields message;
    KernelChannelFields kernel_channel;
    CopyEngineFields copy_engine;
  };
};

struct ProfilerV4 {
  const char* name;
  int (*init)(void** context, int* mask, const char* comm_name, std::uint64_t comm_id, int nodes, int ranks, int rank,
              Logger log);
  int (*start)(void* context, void** handle, Descriptor<std::uint8_t>* event);
  int (*stop)(void* handle);
  int (*state)(void* handle, int state, void* arguments);
  int (*finalize)(void* context);
};
struct ProfilerV5 {  // and v6
  const char* name;
  int (*init)(void** context, std::uint64_t comm_id, int* mask, const char* comm_name, int nodes, int ranks, int rank,
              Logger log);
  int (*start)(void* context, void** handle, Descriptor<std::uint64_t>* event);
  int (*stop)(void* handle);
  int (*state)(void* handle, int state, void* arguments);
  int (*finalize)(void* context);
};

// ---- tuner: libnccl-tuner-NAME.so, symbols ncclTunerPlugin_v3 … ncclTunerPlugin_v6

// ncclFunc_t of those that are tuned.
enum Function : int { kBroadcast, kReduce, kAllGather, kReduceScatter, kAllReduce };

// Entries of the table of costs: [algorithm][protocol], in NCCL's order of both. NCCL takes the least; what is not
// possible has kNotPossible and must keep it.
inline constexpr float kNotPossible = -1;

struct TunerV3 {
  const char* name;
  int (*init)(std::size_t ranks, std::size_t nodes, Logger log, void** context);
  int (*choose)(void* context, int function, std::size_t bytes, int pipelined, float** costs, int algorithms,
                int protocols, int* channels);
  int (*destroy)(void* context);
};
struct TunerV4 {
  const char* name;
  int (*init)(std::size_t ranks, std::size_t nodes, Logger log, void** context);
  int (*choose)(void* context, int function, std::size_t bytes, int pipelined, float** costs, int algorithms,
                int protocols, int registered, int* channels);
  int (*destroy)(void* context);
};
struct TunerV5 {
  const char* name;
  int (*init)(void** context, std::uint64_t comm_id, std::size_t ranks, std::size_t nodes, Logger log,
              void* nvlink_domains, void* constants);
  int (*choose)(void* context, int function, std::size_t bytes, int pipelined, float** costs, int algorithms,
                int protocols, int registered, int* channels);
  int (*finalize)(void* context);
};
struct TunerV6 {
  const char* name;
  int (*init)(void** context, std::uint64_t comm_id, std::size_t ranks, std::size_t nodes, Logger log,
              void* nvlink_domains, void* constants);
  int (*choose)(void* context, int function, std::size_t bytes, int pipelined, float** costs, int algorithms,
                int protocols, int registered, int* channels);
  int (*finalize)(void* context);
  int (*chunk_size)(void* context, int function, std::size_t bytes, int algorithm, int protocol, int channels,
                    std::size_t* chunk);  // may be null
};

}  // namespace weft::compat::plugins
