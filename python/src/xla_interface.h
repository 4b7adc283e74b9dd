#pragma once

#include <cstddef>
#include <cstdint>

// The part of XLA's C interface for foreign functions that one handler on the CPU needs, laid out as jaxlib's
// include/xla/ffi/api/c_api.h has it in versions 0.1 to 0.3; python/tests/test_jax.py compares both. XLA gives each
// struct's size in its first member: a later minor version only adds members at a struct's end.
namespace weft::python::xla {

struct Extension {
  std::size_t size;
  int kind;
  Extension* next;
};
inline constexpr int kMetadataExtension = 1;

struct Version {
  std::size_t size;
  Extension* extensions;
  int major, minor;
};

struct Metadata {
  std::size_t size;
  Version version;
  std::uint32_t traits;
};

struct MetadataExtension {
  Extension base;
  Metadata* metadata;
};

struct Error;
struct ErrorArguments {
  std::size_t size;
  Extension* extensions;
  const char* message;
  int code;  // absl's status codes
};

struct Api {
  std::size_t size;
  Extension* extensions;
  Version version;
  const void* internal;
  Error* (*make_error)(ErrorArguments*);
};

// xla.PrimitiveType
enum class Type : int {
  kBool = 1,
  kInt8 = 2,
  kInt16 = 3,
  kInt32 = 4,
  kInt64 = 5,
  kUint8 = 6,
  kUint16 = 7,
  kUint32 = 8,
  kUint64 = 9,
  kFloat16 = 10,
  kFloat32 = 11,
  kFloat64 = 12,
  kComplex64 = 15,
  kBfloat16 = 16,
  kToken = 17,
  kComplex128 = 18,
  kFloat8E5M2 = 19,
  kFloat8E4M3 = 20,  // E4M3FN
};

struct Buffer {
  std::size_t size;
  Extension* extensions;
  Type type;
  void* data;
  std::int64_t rank;
  std::int64_t* dimensions;
};

struct Buffers {
  std::size_t size;
  Extension* extensions;
  std::int64_t count;
  int* kinds;
  void** values;  // Buffer*, where the kind is 1, the only one
};

struct ByteSpan {
  const char* data;
  std::size_t size;
};

struct Array {
  Type type;
  std::size_t count;
  void* data;
};

inline constexpr int kArrayAttribute = 1;
struct Attributes {
  std::size_t size;
  Extension* extensions;
  std::int64_t count;
  int* kinds;
  ByteSpan** names;
  void** values;
};

inline constexpr int kExecute = 3;
struct CallFrame {
  std::size_t size;
  Extension* extensions;
  const Api* api;
  void* context;
  int stage;
  Buffers arguments, results;
  Attributes attributes;
};

}  // namespace weft::python::xla
