#pragma once

#include <nanobind/nanobind.h>

#include <vector>

#include "array.h"
#include "weft/communicator.h"

namespace weft::python {

// A request points into these beside the arrays. Moves keep what it points to valid.
struct Lists {
  std::vector<std::size_t> counts, receive_counts;
  std::vector<std::int32_t> experts;

  void into(Request& request) const {
    request.counts = counts;
    request.receive_counts = receive_counts;
    request.experts = experts;
  }
};

// A collective call as Python gave it: the request, the arrays that it points into, and what the call returns. Moves
// keep the request valid. Requires: the GIL.
struct Call {
  Request request;
  const char* operation = "call";
  std::vector<Array> arrays;
  nanobind::object result;
  Lists lists;

  Status run(auto& group) {
    lists.into(request);
    return group.run(request);
  }
};

// Who calls.
struct Place {
  Rank rank = 0, ranks = 1;
};

// `in`, `out`: arrays or None; `options`: None or a dict, of which `counts` are the elements of the parts of the uneven
// collectives, and `experts` the bytes of the table of dispatch and combine. Errors: Failed (bad input) and those of
// Array.
Call prepare(Place place, int kind, nanobind::object in, nanobind::object out, nanobind::object op, Rank root,
             nanobind::object options);

}  // namespace weft::python
