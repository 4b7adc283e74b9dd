// Plans of move/reshard, their receivers and publishers, as thinly as Python allows. What waits releases the GIL.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "communicator.h"
#include "failed.h"
#include "move/reshard/convert.h"
#include "move/reshard/prove.h"
#include "move/reshard/read.h"
#include "move/reshard/receiver.h"
#include "transfer.h"

namespace nb = nanobind;

namespace weft::python {
namespace {

using reshard::Layout;
using reshard::Plan;
using Agent = std::shared_ptr<SharedAgent>;
// The number, address and bytes of a region.
using Place = std::tuple<std::uint32_t, std::uint64_t, std::int64_t>;
// The agent's name of a sender, its region and its table's region.
using Peer = std::tuple<std::string, std::uint32_t, std::optional<std::uint32_t>>;

transfer::Registration region_of(const Place& p) {
  return {.region = std::get<0>(p), .data = reinterpret_cast<std::byte*>(std::get<1>(p)), .bytes = std::get<2>(p)};
}
reshard::Receiver::Peer peer_of(const Peer& p) { return {std::get<0>(p), std::get<1>(p), std::get<2>(p)}; }

// Two layouts and the plan between them; with conversions, from what the senders have converted.
struct SharedPlan {
  Layout given;  // the first layout as the senders have it
  std::optional<reshard::Converted> converted;
  std::optional<Plan> plan;
};
using Shared = std::shared_ptr<SharedPlan>;

Shared make(const std::string& from, const std::string& to, bool same_ranks, bool convert) {
  auto layouts = check(reshard::read_layouts(from, to), "Plan");
  auto shared = std::make_shared<SharedPlan>();
  shared->given = layouts.first;
  if (convert) {
    shared->converted = check(reshard::converted(layouts.first, layouts.second), "Plan");
    layouts.first = shared->converted->layout;
  }
  Result<Plan> plan = [&] {
    const nb::gil_scoped_release released;
    return Plan::make(std::move(layouts.first), std::move(layouts.second), {.same_ranks = same_ranks});
  }();
  shared->plan = check(std::move(plan), "Plan");
  return shared;
}

// A rank's tensors as (name, type, offset in bytes, shape of its part, element bytes); then the bytes of all.
nb::tuple parts_of(const Layout& layout, Rank rank) {
  if (rank < 0 || rank >= layout.ranks)
    throw Failed(invalid("rank " + std::to_string(rank) + " of " + std::to_string(layout.ranks)), "parts");
  const reshard::Memory memory = reshard::memory_of(layout, rank);
  nb::list list;
  for (std::size_t t = 0; t < layout.tensors.size(); ++t) {
    if (memory.offsets[t] < 0) continue;
    const reshard::Tensor& tensor = layout.tensors[t];
    nb::list shape;
    for (const auto& dim : reshard::holding(layout, tensor, rank).dims) shape.append(dim.extent);
    list.append(nb::make_tuple(tensor.name, tensor.type, memory.offsets[t], nb::tuple(shape), tensor.element_bytes));
  }
  return nb::make_tuple(list, memory.bytes);
}

const Layout& layout_of(const SharedPlan& s, const std::string& which) {
  return which == "given" ? s.given : which == "from" ? s.plan->from() : s.plan->to();
}

struct SharedReceiver {
  Shared plan;
  Agent agent;
  reshard::Receiver receiver;
};
struct SharedPublisher {
  Agent agent;
  reshard::Publisher publisher;
};

void add_plan(nb::module_& m) {
  nb::class_<SharedPlan>(m, "ReshardPlan")
      .def("pairs",
           [](const SharedPlan& s) {
             nb::list list;
             for (const auto& p : s.plan->pairs()) list.append(nb::make_tuple(p.sender, p.receiver, p.bytes, p.pieces));
             return list;
           })
      .def("ranks", [](const SharedPlan& s, const std::string& which) { return layout_of(s, which).ranks; })
      .def("parts",
           [](const SharedPlan& s, const std::string& which, Rank rank) { return parts_of(layout_of(s, which), rank); })
      .def("patterns", [](const SharedPlan& s) { return s.plan->patterns(); })
      .def("unwanted", [](const SharedPlan& s) { return s.plan->unwanted(); })
      .def("convert", [](const SharedPlan& s, Rank rank, const Place& in, const Place& out) {
        const transfer::Registration a = region_of(in), b = region_of(out);
        if (!s.converted) throw Failed(invalid("the plan was made without convert=True"), "convert");
        const Status done = [&] {
          const nb::gil_scoped_release released;
          return reshard::convert_parts(s.given, *s.converted, rank, {a.data, static_cast<std::size_t>(a.bytes)},
                                        {b.data, static_cast<std::size_t>(b.bytes)});
        }();
        check(done, "convert");
      });
  m.def("reshard_plan", &make);
}

}  // namespace

void add_reshard(nb::module_& m) {
  add_plan(m);
  nb::class_<SharedReceiver>(m, "ReshardReceiver")
      .def("begin", [](SharedReceiver& s, std::int64_t version) { s.receiver.begin(version); })
      .def("pull",
           [](SharedReceiver& s, double seconds) {
             Status done;
             {
               const nb::gil_scoped_release released;
               done = s.receiver.pull(milliseconds_of(seconds, "pull"));
             }
             check(done, "pull");
           })
      .def("returned", [](SharedReceiver& s, Rank rank, const Peer& peer) { s.receiver.returned(rank, peer_of(peer)); })
      .def_prop_ro("arrived", [](const SharedReceiver& s) { return s.receiver.arrived_bytes(); })
      .def_prop_ro("lost", [](const SharedReceiver& s) {
        return std::vector<Rank>(s.receiver.lost().begin(), s.receiver.lost().end());
      });
  m.def("reshard_receiver",
        [](const Shared& plan, Rank rank, const Agent& agent, const Place& memory, const std::vector<Peer>& peers) {
          std::vector<reshard::Receiver::Peer> all;
          for (const Peer& p : peers) all.push_back(peer_of(p));
          return std::make_shared<SharedReceiver>(SharedReceiver{
              plan, agent, reshard::Receiver(*plan->plan, rank, agent->agent, region_of(memory), std::move(all))});
        });
  nb::class_<SharedPublisher>(m, "ReshardPublisher")
      .def("begin", [](SharedPublisher& s) { s.publisher.begin(); })
      .def("publish",
           [](SharedPublisher& s, std::int64_t version) {
             Status done;
             {
               const nb::gil_scoped_release released;
               done = s.publisher.publish(version);
             }
             check(done, "publish");
           })
      .def_prop_ro("table", [](const SharedPublisher& s) { return s.publisher.table().region; });
  m.def("reshard_publisher", [](const Agent& agent, const Place& memory, std::int64_t block_bytes) {
    return std::make_shared<SharedPublisher>(SharedPublisher{
        agent, check(reshard::Publisher::open(agent->agent, region_of(memory), block_bytes), "Publisher")});
  });
}

}  // namespace weft::python
