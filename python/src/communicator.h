#pragma once

#include <nanobind/nanobind.h>

#include <functional>

namespace weft::python {

// The classes Communicator, Work, Tagged and MeetingPlace; weftcomm/_communicator.py gives them types and
// documentation.
void add_communicator(nanobind::module_& m);

// Has this process been forked since forks_so_far() gave `since`? What its parent has connected is not its own.
int forks_so_far();
bool was_forked(int since);

// A function for set_interrupt of communicators and teams: has a signal's handler raised? Only the thread that imported
// the module runs handlers; on others the answer is no.
std::function<bool()> signal_raised();

// Calls `make` without the GIL.
template <class Make>
auto released(Make make) {
  const nanobind::gil_scoped_release without;
  return make();
}

}  // namespace weft::python
