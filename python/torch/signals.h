#pragma once

#include <Python.h>
#include <pybind11/pybind11.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <exception>

// Signals that come while a thread of torch's is inside weft.
namespace weft::torch_adapter {

// Has a signal's handler raised? Only the process's first thread runs handlers; on others the answer is no.
inline bool signal_raised() {
  if (Py_IsInitialized() == 0 || syscall(SYS_gettid) != getpid()) return false;
  const pybind11::gil_scoped_acquire held;
  return PyErr_CheckSignals() != 0;
}

// What a handler has raised on this thread, as an exception; null: nothing.
inline std::exception_ptr raised_by_handler() {
  if (Py_IsInitialized() == 0 || syscall(SYS_gettid) != getpid()) return nullptr;
  const pybind11::gil_scoped_acquire held;
  return PyErr_Occurred() != nullptr ? std::make_exception_ptr(pybind11::error_already_set()) : nullptr;
}

}  // namespace weft::torch_adapter
