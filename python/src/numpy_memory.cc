#include "numpy_memory.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "failed.h"
#include "registered_pool.h"

namespace nb = nanobind;

namespace weft::python {
namespace {

// NumPy 1.22 and later expect this in a capsule of this name (NEP 49, numpy/ndarraytypes.h: PyDataMem_Handler).
constexpr char kCapsule[] = "mem_handler";
struct Handler {
  char name[127] = "weft";
  std::uint8_t version = 1;
  RegisteredPool* pool = nullptr;
  void* (*allocate)(void*, std::size_t) = nullptr;
  void* (*allocate_zeros)(void*, std::size_t, std::size_t) = nullptr;
  void* (*resize)(void*, void*, std::size_t) = nullptr;
  void (*release)(void*, void*, std::size_t) = nullptr;
};

RegisteredPool& pool_of(void* context) { return *static_cast<RegisteredPool*>(context); }

void* allocate(void* context, std::size_t bytes) {
  if (void* const block = pool_of(context).take(bytes)) return block;
  return std::malloc(std::max<std::size_t>(bytes, 1));
}

void* allocate_zeros(void* context, std::size_t count, std::size_t each) {
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(count, each, &bytes)) return nullptr;
  if (void* const block = pool_of(context).take(bytes)) return std::memset(block, 0, bytes);
  return std::calloc(std::max<std::size_t>(bytes, 1), 1);
}

void release(void* context, void* memory, std::size_t) {
  if (!pool_of(context).give_back(memory)) std::free(memory);
}

void* resize(void* context, void* memory, std::size_t bytes) {
  const auto room = pool_of(context).room(memory);
  if (!room) return std::realloc(memory, std::max<std::size_t>(bytes, 1));
  if (bytes <= *room && bytes > *room / 2) return memory;
  void* const moved = allocate(context, bytes);
  if (moved == nullptr) return nullptr;
  std::memcpy(moved, memory, std::min(*room, bytes));
  release(context, memory, 0);
  return moved;
}

// PyArray_API[304] of NumPy's table of functions: PyDataMem_SetHandler, since 1.22.
using SetHandler = PyObject* (*)(PyObject*);
constexpr int kSetHandler = 304, kVersion = 211;  // PyArray_GetNDArrayCFeatureVersion: 0xf in 1.22

SetHandler set_handler() {
  nb::object module;
  try {
    module = nb::module_::import_("numpy._core._multiarray_umath");
  } catch (nb::python_error&) {  // NumPy 1
    module = nb::module_::import_("numpy.core._multiarray_umath");
  }
  auto* const table = static_cast<void**>(PyCapsule_GetPointer(nb::object(module.attr("_ARRAY_API")).ptr(), nullptr));
  if (table == nullptr) throw nb::python_error();
  if (reinterpret_cast<unsigned (*)()>(table[kVersion])() < 0xf)
    throw Failed(invalid("NumPy before 1.22 has no handlers of memory"), "allocations");
  return reinterpret_cast<SetHandler>(table[kSetHandler]);
}

}  // namespace

nb::object numpy_handler(std::weak_ptr<Lane> lane) {
  auto* const handler = new Handler{.pool = new RegisteredPool(std::move(lane)),
                                    .allocate = allocate,
                                    .allocate_zeros = allocate_zeros,
                                    .resize = resize,
                                    .release = release};
  PyObject* const capsule = PyCapsule_New(handler, kCapsule, [](PyObject* of) {
    auto* const ended = static_cast<Handler*>(PyCapsule_GetPointer(of, kCapsule));
    delete ended->pool;
    delete ended;
  });
  if (capsule == nullptr) throw nb::python_error();
  return nb::steal(capsule);
}

nb::object set_numpy_handler(nb::object handler) {
  static const SetHandler set = set_handler();
  PyObject* const before = set(handler.ptr());
  if (before == nullptr) throw nb::python_error();
  return nb::steal(before);
}

}  // namespace weft::python
