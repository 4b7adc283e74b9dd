#pragma once

#include <nanobind/nanobind.h>

namespace weft::python {

// The classes TransferAgent, TransferList and TransferRequest; weftcomm/transfer.py gives them types and documentation.
void add_transfer(nanobind::module_& m);

}  // namespace weft::python
