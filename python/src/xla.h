#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <functional>

#include "weft/communicator.h"

namespace weft::python {

// Performs an action on a communicator from a thread of XLA's, without the GIL.
using CallFromXla = std::function<Status(const std::function<Status(Communicator&)>& action)>;

// The number by which compiled programs of XLA name a communicator. Thread: any.
std::int64_t add_to_xla(CallFromXla call);
// Waits for a call that is under way; later ones are errors of the programs.
void remove_from_xla(std::int64_t number);

// What weftcomm/jax.py needs: the handler, as a capsule for jax.ffi, and the last error of a call, as an exception.
void add_xla(nanobind::module_& m);

}  // namespace weft::python
