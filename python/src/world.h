#pragma once

#include <nanobind/nanobind.h>

namespace weft::python {

// The class World: symmetric memory and one-sided operations; weftcomm/_window.py gives it types and documentation.
void add_world(nanobind::module_& m);

}  // namespace weft::python
