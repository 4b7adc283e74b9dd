#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "core.h"

// What weftcomm_torch.elastic is built on: groups that go on without the ranks that have ended, and take in new ones.
// Members meet by an id, not by torch's store.
namespace weft::torch_adapter {

inline ConnectOptions connect_options(const GroupOptions& wanted) {
  return {.transport = wanted.transport, .interface = wanted.interface, .timeout = wanted.timeout};
}

template <class T>
T value_or_raise(Result<T> result) {
  if (result) return std::move(*result);
  if (const auto raised = raised_by_handler()) std::rethrow_exception(raised);
  raise(result.error());
}

// `Group`: the class of weft's groups, which is made over a communicator.
template <class Group, class... Bases>
void bind_elastic(pybind11::module_& m, pybind11::class_<Group, Bases...>& group) {
  namespace py = pybind11;
  using Pointer = c10::intrusive_ptr<Group>;
  using Store = c10::intrusive_ptr<c10d::Store>;
  using Options = c10::intrusive_ptr<GroupOptions>;
  py::class_<MeetingPlace>(m, "Place")
      .def(py::init([](int ranks, const Options& options) {
             return value_or_raise(MeetingPlace::open(ranks, connect_options(*options)));
           }),
           py::arg("ranks"), py::arg("options"))
      .def_property_readonly("id", [](const MeetingPlace& place) { return place.id().text(); });
  group.def_static(
      "connected",
      [](const Store& store, const std::string& id, int rank, int size, const Options& options) {
        const auto parsed = value_or_raise(UniqueId::parse(id));
        const Interruptible scope([] { return signal_raised(); });
        return c10::make_intrusive<Group>(
            store, value_or_raise(Communicator::connect(parsed, rank, size, connect_options(*options))), options);
      },
      py::arg("store"), py::arg("id"), py::arg("rank"), py::arg("size"), py::arg("options"),
      py::call_guard<py::gil_scoped_release>());
  group.def(
      "shrunk",
      [](Group& self, const Store& store, const std::vector<Rank>& without) {
        return c10::make_intrusive<Group>(store, value_or_raise(self.quiet()->communicator().shrink(without)),
                                          self.options());
      },
      py::arg("store"), py::arg("without") = std::vector<Rank>{}, py::call_guard<py::gil_scoped_release>());
  group.def(
      "grown",
      [](Group& self, const Store& store, const std::string& id, int size) -> Pointer {
        // Only rank 0's id counts.
        const auto parsed = id.empty() ? UniqueId{} : value_or_raise(UniqueId::parse(id));
        const Interruptible scope([] { return signal_raised(); });
        return c10::make_intrusive<Group>(store, value_or_raise(self.quiet()->communicator().grow(parsed, size)),
                                          self.options());
      },
      py::arg("store"), py::arg("id"), py::arg("size"), py::call_guard<py::gil_scoped_release>());
  group.def(
      "ordered",
      [](Group& self, const Store& store, int key) {
        return c10::make_intrusive<Group>(store, value_or_raise(self.quiet()->communicator().split(0, key)),
                                          self.options());
      },
      py::arg("store"), py::arg("key"), py::call_guard<py::gil_scoped_release>());
  group.def("whole", &Group::whole, py::call_guard<py::gil_scoped_release>());
  group.def("failure", &Group::failure);
  group.def(
      "agree",
      [](Group& self, bool yes) {
        const Agreement all = value_or_raise(self.quiet()->communicator().agree(yes ? 1 : 0));
        return std::pair(all.bits == 1, all.ended);
      },
      py::arg("yes"), py::call_guard<py::gil_scoped_release>());
}

}  // namespace weft::torch_adapter
