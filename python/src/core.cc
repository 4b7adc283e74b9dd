// The extension module weftcomm._core: include/weft and the commands' answers, as thinly as Python allows. Shapes,
// types by name and documentation are in weftcomm/*.py.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "apps/cli/answers.h"
#include "communicator.h"
#include "failed.h"
#include "plan/schedule/collective.h"
#include "plan/schedule/exchange/written.h"
#include "transfer.h"
#include "world.h"
#include "xla.h"

namespace nb = nanobind;

namespace weft::python {
namespace {

void add_errors(nb::module_& m) {
  // The function that makes an exception of (code, message, operation, ranks, calls, field); see _errors.py.
  m.def("make_errors_with",
        [](nb::object maker) { nb::module_::import_("weftcomm._core").attr("_error_maker") = maker; });
  nb::register_exception_translator([](const std::exception_ptr& p, void*) {
    try {
      std::rethrow_exception(p);
    } catch (const Failed& f) {
      nb::list ranks, calls;
      for (const auto r : f.error.ranks) ranks.append(r);
      for (const auto& c : f.error.calls) calls.append(c.c_str());
      try {
        const nb::object maker = nb::module_::import_("weftcomm._core").attr("_error_maker");
        const nb::object e = maker(name_of(f.error.code), f.error.message.c_str(), f.operation.c_str(), ranks, calls,
                                   f.error.field.c_str());
        PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(e.ptr())), e.ptr());
      } catch (nb::python_error& raised) {
        raised.restore();  // by the handler of a signal that came during the call: it runs with the first Python text
      }
    }
  });
}

// What the command writes with --json and with --svg, and schedules that are texts.
void add_commands(nb::module_& m) {
  m.def("answer", [](const std::vector<std::string>& arguments) {
    return check(released([&]() -> Result<std::string> {
                   auto json = cli::answer(arguments);
                   if (!json) return tl::make_unexpected(json.error());
                   return json->dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
                 }),
                 "answer");
  });
  m.def("picture", [](const std::vector<std::string>& arguments) {
    return check(released([&] { return cli::picture(arguments); }), "picture");
  });
  m.def("name_schedule", [](const std::string& name, const std::string& text) {
    check(released([&] { return schedule::name_schedule(name, text); }), "schedule");
  });
  // A tuple: the name, the blocks of a message on `ranks` ranks, whether it has a root, whether it may be in place.
  m.def("collective", [](const std::string& name, Rank ranks) {
    const Collective c = check(schedule::parse_collective(name), "schedule");
    return nb::make_tuple(std::string(schedule::name(c)), schedule::blocks(c, ranks), schedule::rooted(c),
                          schedule::may_be_in_place(c));
  });
}

}  // namespace
}  // namespace weft::python

NB_MODULE(_core, m) {
  nb::set_leak_warnings(false);  // objects of a module's namespace live until the interpreter has ended
  using namespace weft::python;
  add_errors(m);
  add_communicator(m);
  add_world(m);
  add_transfer(m);
  add_kv(m);
  add_reshard(m);
  add_xla(m);
  add_commands(m);
}
