#pragma once

#include <nanobind/nanobind.h>

#include <memory>

#include "lane.h"

namespace weft::python {

// A handler for NumPy's allocations (NEP 49): arrays lie in the communicator's registered memory as long as it has some
// left. NumPy keeps it as long as an array that it has allocated. Thread: holds the GIL.
nanobind::object numpy_handler(std::weak_ptr<Lane> lane);

// NumPy allocates by this handler in this context from now on; returns the one before. Raises: ImportError without
// NumPy, Failed where its version has no handlers.
nanobind::object set_numpy_handler(nanobind::object handler);

}  // namespace weft::python
