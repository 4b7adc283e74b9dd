#include "array.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <bit>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "failed.h"

namespace nb = nanobind;

namespace weft::python {
namespace {

DataType integer(bool is_signed, Py_ssize_t bytes) {
  const int size = std::countr_zero(static_cast<std::size_t>(bytes));
  return static_cast<DataType>(static_cast<int>(is_signed ? DataType::kInt8 : DataType::kUint8) + size);
}

// The element type for a letter of Python's struct module; nothing: weft has none.
std::optional<DataType> type_of(char letter, Py_ssize_t bytes) {
  switch (letter) {
    case 'b':
    case 'h':
    case 'i':
    case 'l':
    case 'q':
    case 'n':
      return integer(true, bytes);
    case 'B':
    case 'c':
    case '?':
    case 'H':
    case 'I':
    case 'L':
    case 'Q':
    case 'N':
      return integer(false, bytes);
    case 'e':
      return DataType::kFloat16;
    case 'f':
      return DataType::kFloat32;
    case 'd':
      return DataType::kFloat64;
    default:
      return std::nullopt;
  }
}

// Types that the buffer protocol has no letter for, by their NumPy name (package ml_dtypes).
std::optional<DataType> type_by_name(const std::string& name) {
  if (name == "bfloat16") return DataType::kBfloat16;
  if (name == "float8_e4m3fn") return DataType::kFloat8E4M3;
  if (name == "float8_e5m2") return DataType::kFloat8E5M2;
  return std::nullopt;
}

std::string what(Array::Use use) { return use == Array::Use::kMemory ? "the memory" : "the output"; }

}  // namespace

std::string name_of_type(nb::handle object, const std::string& otherwise) {
  if (!nb::hasattr(object, "dtype"))
    return otherwise.empty() ? nb::type_name(object.type()).c_str() : "'" + otherwise + "'";
  const nb::object type = object.attr("dtype");
  const bool has_name = nb::hasattr(type, "name") && !type.attr("name").is_none();
  const bool has_fields = nb::hasattr(type, "fields") && !type.attr("fields").is_none();
  return nb::str(has_name && !has_fields ? type.attr("name") : type).c_str();
}

void Array::refuse(const std::string& text) const { throw Failed(invalid(text), operation_); }

Array::Array(nb::handle object, Use use, const char* operation) : operation_(operation) {
  try {
    if (!by_buffer(object, use)) by_dlpack(object, use);
  } catch (...) {
    if (has_view_) PyBuffer_Release(&view_);
    throw;
  }
}

Array::Array(Array&& other) noexcept
    : operation_(other.operation_),
      data_(other.data_),
      count_(other.count_),
      type_(other.type_),
      is_bool_(other.is_bool_),
      parts_(other.parts_),
      has_view_(std::exchange(other.has_view_, false)),
      view_(other.view_),
      keeps_(std::move(other.keeps_)),
      copy_(std::move(other.copy_)) {}

Array::~Array() {
  if (has_view_) PyBuffer_Release(&view_);
}

bool Array::by_buffer(nb::handle object, Use use) {
  if (!PyObject_CheckBuffer(object.ptr())) return false;
  const int writable = use != Use::kInput ? PyBUF_WRITABLE : 0;
  std::optional<DataType> named;
  if (PyObject_GetBuffer(object.ptr(), &view_, PyBUF_FULL_RO | writable) != 0) {
    PyErr_Clear();
    const std::string name =
        nb::hasattr(object, "dtype") ? nb::cast<std::string>(object.attr("dtype").attr("name")) : std::string();
    named = type_by_name(name);
    if (!named) {
      if (use != Use::kInput && PyObject_GetBuffer(object.ptr(), &view_, PyBUF_FULL_RO) == 0) {
        PyBuffer_Release(&view_);
        refuse(what(use) + " is read-only");
      }
      PyErr_Clear();
      refuse("element type " + name_of_type(object, name) + " cannot be communicated");
    }
    // The bytes of a contiguous array; others are copied first.
    const bool contiguous = nb::cast<bool>(object.attr("flags")["C_CONTIGUOUS"]);
    if (!contiguous && use != Use::kInput) refuse(what(use) + " is not contiguous in C order");
    const nb::object source = contiguous ? nb::borrow(object) : object.attr("copy")("C");
    keeps_ = source.attr("reshape")(-1).attr("view")("uint8");
    if (PyObject_GetBuffer(keeps_.ptr(), &view_, PyBUF_FULL_RO | writable) != 0) throw nb::python_error();
  }
  has_view_ = true;
  data_ = view_.buf;
  if (named) {
    type_ = *named;
    count_ = static_cast<std::size_t>(view_.len / size_of(type_));
    return true;
  }
  const char* format = view_.format == nullptr ? "B" : view_.format;
  const char order = *format;
  if (std::strchr("@=<>!", order) != nullptr && order != '\0') ++format;
  const bool plain = std::strcmp(Py_TYPE(object.ptr())->tp_name, "numpy.ndarray") == 0;  // spares two look-ups
  if (!plain && nb::hasattr(object, "filled") && nb::hasattr(object, "mask"))
    refuse("a masked array cannot be communicated: give it without its mask (filled(), or data and mask apart)");
  if (*format == 'O') refuse("an array of Python objects cannot be communicated: give it a numeric dtype");
  parts_ = *format == 'Z' ? 2 : 1;
  if (parts_ == 2) ++format;
  const auto number_bytes = view_.itemsize / static_cast<Py_ssize_t>(parts_);
  const auto type = format[0] != '\0' && format[1] == '\0' ? type_of(*format, number_bytes) : std::nullopt;
  if (!type)
    refuse("element type " + name_of_type(object, (parts_ == 2 ? "Z" : "") + std::string(format)) +
           " cannot be communicated");
  if ((order == '>' || order == '!') && view_.itemsize > 1)
    refuse("an array of another byte order cannot be communicated: convert it with astype(dtype.newbyteorder('='))");
  type_ = *type;
  is_bool_ = *format == '?';
  count_ = static_cast<std::size_t>(view_.len / number_bytes);
  if (PyBuffer_IsContiguous(&view_, 'C') != 0) return true;
  if (use != Use::kInput) refuse(what(use) + " is not contiguous in C order");
  try {
    copy_.resize(static_cast<std::size_t>(view_.len));
  } catch (const std::bad_alloc&) {
    throw Failed({Code::kNoResources, Blame::kOperation,
                  "no memory for a copy of " + std::to_string(view_.len) + " bytes, as the array is not contiguous"},
                 operation_);
  }
  if (PyBuffer_ToContiguous(copy_.data(), &view_, view_.len, 'C') != 0) throw nb::python_error();
  data_ = copy_.data();
  return true;
}

void Array::by_dlpack(nb::handle object, Use use) {
  if (!nb::hasattr(object, "__dlpack__")) {
    const std::string type = nb::type_name(object.type()).c_str();
    refuse((use == Use::kInput ? type + " is no array" : what(use) + " is of type " + type + ", which is no array") +
           ": neither the buffer protocol nor DLPack");
  }
  nb::object source = nb::borrow(object);
  if (nb::hasattr(object, "is_contiguous") && !nb::cast<bool>(object.attr("is_contiguous")())) {
    if (use != Use::kInput) refuse(what(use) + " is not contiguous in C order");
    source = object.attr("contiguous")();
  }
  using Any = nb::ndarray<nb::ro, nb::c_contig>;
  Any array;
  try {
    array = nb::cast<Any>(source);
  } catch (const nb::cast_error&) {
    refuse(std::string(nb::type_name(object.type()).c_str()) + " gives no contiguous memory by DLPack");
  }
  if (array.device_type() != nb::device::cpu::value) refuse("the array is not in the CPU's memory");
  const nb::dlpack::dtype type = array.dtype();
  const auto code = static_cast<nb::dlpack::dtype_code>(type.code);
  parts_ = code == nb::dlpack::dtype_code::Complex ? 2 : 1;
  const int bytes = type.bits / 8 / static_cast<int>(parts_);
  const bool floats = code == nb::dlpack::dtype_code::Float || parts_ == 2;
  if (code == nb::dlpack::dtype_code::Int)
    type_ = integer(true, bytes);
  else if (code == nb::dlpack::dtype_code::UInt)
    type_ = integer(false, bytes);
  else if (code == nb::dlpack::dtype_code::Bool)
    type_ = DataType::kUint8, is_bool_ = true;
  else if (code == nb::dlpack::dtype_code::Bfloat)
    type_ = DataType::kBfloat16;
  else if (floats && bytes == 2)
    type_ = DataType::kFloat16;
  else if (floats && bytes == 4)
    type_ = DataType::kFloat32;
  else if (floats && bytes == 8)
    type_ = DataType::kFloat64;
  else
    refuse("an element type of DLPack that cannot be communicated");
  data_ = const_cast<void*>(array.data());
  count_ = array.size() * parts_;
  keeps_ = nb::cast(std::move(array));
}

}  // namespace weft::python
