#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <string>
#include <vector>

#include "weft/types.h"

namespace weft::python {

// The memory of a Python object for the time of a call: by the buffer protocol, or by DLPack from the CPU. Inputs that
// are not contiguous in C order are copied, outputs must be contiguous. Owns: a reference to the memory.
// Errors: Failed (bad input) that says what is wrong.
class Array {
 public:
  enum class Use { kInput, kOutput, kMemory };  // kMemory: as an output, but that nothing need be communicated
  // `operation`: of the errors.
  Array(nanobind::handle object, Use use, const char* operation);
  Array(Array&& other) noexcept;
  Array& operator=(Array&&) = delete;
  ~Array();

  void* data() const { return data_; }
  // Of weft's elements: a complex number is two of them.
  std::size_t count() const { return count_; }
  DataType type() const { return type_; }
  bool is_bool() const { return is_bool_; }
  // How many of weft's elements one of the array's is.
  std::size_t parts() const { return parts_; }

 private:
  bool by_buffer(nanobind::handle object, Use use);
  void by_dlpack(nanobind::handle object, Use use);
  [[noreturn]] void refuse(const std::string& text) const;

  const char* operation_;
  void* data_ = nullptr;
  std::size_t count_ = 0;
  DataType type_ = DataType::kFloat32;
  bool is_bool_ = false;
  std::size_t parts_ = 1;
  bool has_view_ = false;
  Py_buffer view_{};
  nanobind::object keeps_;
  std::vector<std::byte> copy_;
};

// NumPy's name of an object's element type, such as "float64"; of an object without one: `otherwise`, or its own type.
std::string name_of_type(nanobind::handle object, const std::string& otherwise);

}  // namespace weft::python
