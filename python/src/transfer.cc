// Agents of weft/transfer.h, as thinly as Python allows.
#include "transfer.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <optional>

#include "failed.h"
#include "weft/stripe.h"

namespace nb = nanobind;
using namespace std::chrono_literals;

namespace weft::python {
namespace {

using transfer::Agent;
using transfer::Op;
using transfer::Prepared;
using transfer::Registration;
using transfer::State;

// How long a wait goes on before it looks for signals.
constexpr auto kSignals = 50ms;

template <class T>
using Column = nb::ndarray<const T, nb::shape<-1>, nb::c_contig, nb::device::cpu>;
template <class T, int kColumns>
using Table = nb::ndarray<const T, nb::shape<-1, kColumns>, nb::c_contig, nb::device::cpu>;

template <class T>
std::span<const T> span_of(const std::optional<Column<T>>& column) {
  return column ? std::span<const T>(column->data(), column->shape(0)) : std::span<const T>();
}

std::chrono::milliseconds milliseconds(double seconds) { return milliseconds_of(seconds, "transfer"); }

nb::bytes bytes_of(const std::string& text) { return nb::bytes(text.data(), text.size()); }
std::string_view view_of(const nb::bytes& bytes) { return {bytes.c_str(), bytes.size()}; }

class Request {
 public:
  Request(std::shared_ptr<SharedAgent> shared, transfer::Request request)
      : shared_(std::move(shared)), request_(std::move(request)) {}

  int post(const std::optional<nb::bytes>& notify) {
    std::optional<std::string> text;
    if (notify) text = view_of(*notify);
    Status status;
    {
      const nb::gil_scoped_release released;
      status = shared_->agent.post(request_, text);
    }
    check(status, "post");
    return state();
  }
  int poll() {
    const nb::gil_scoped_release released;
    return static_cast<int>(shared_->agent.poll(request_));
  }
  // Until it has ended, at most `seconds`; less than 0: without a limit. Data moves meanwhile.
  int wait(double seconds) {
    using Clock = std::chrono::steady_clock;
    const auto until = Clock::now() + (seconds < 0 ? kSignals : milliseconds_of(seconds, "wait"));
    for (;;) {
      State state;
      {
        const nb::gil_scoped_release released;
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
        state = shared_->agent.wait(
            request_, seconds < 0 ? kSignals : std::clamp<std::chrono::milliseconds>(left, 0ms, kSignals));
      }
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
      if (state != State::kRunning || (seconds >= 0 && Clock::now() >= until)) return static_cast<int>(state);
    }
  }
  nb::tuple estimate() const {
    const auto e = check(shared_->agent.estimate(request_), "estimate");
    return nb::make_tuple(e.us, e.error);
  }
  std::string explain() const { return shared_->agent.explain(request_); }
  void cancel() { check(shared_->agent.cancel(request_), "cancel"); }
  int state() const { return static_cast<int>(request_.state()); }
  std::int64_t moved_bytes() const { return request_.moved_bytes(); }
  nb::tuple error() const { return nb::make_tuple(name_of(request_.error().code), request_.error().message); }
  double progressed() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - request_.progressed()).count();
  }

 private:
  std::shared_ptr<SharedAgent> shared_;
  transfer::Request request_;
};

using Described = std::tuple<std::uint32_t, std::uint64_t, std::int64_t, std::int64_t, int>;

Described described(const Registration& r) {
  return {r.region, reinterpret_cast<std::uint64_t>(r.data), r.bytes, r.page_bytes, r.gpu};
}

// Rows: region, offset, bytes, stride, count.
TransferList prepare(const std::shared_ptr<SharedAgent>& shared, const std::string& peer,
                     const Table<std::int64_t, 5>& table) {
  std::vector<transfer::Rows> rows;
  rows.reserve(table.shape(0));
  for (std::size_t i = 0; i < table.shape(0); ++i) {
    const std::int64_t* const r = table.data() + 5 * i;
    if (r[0] < 0 || r[0] > 0xffffffff) throw Failed(invalid("region " + std::to_string(r[0])), "prepare");
    rows.push_back({static_cast<std::uint32_t>(r[0]), r[1], r[2], r[3], r[4]});
  }
  return {shared, check(shared->agent.prepare(peer, rows), "prepare")};
}

// Rows: address, bytes, stride, count.
TransferList prepare_addresses(const std::shared_ptr<SharedAgent>& shared, const std::string& peer,
                               const Table<std::uint64_t, 4>& table) {
  std::vector<transfer::Extent> extents;
  extents.reserve(table.shape(0));
  for (std::size_t i = 0; i < table.shape(0); ++i) {
    const std::uint64_t* const r = table.data() + 4 * i;
    constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
    if (r[1] > kMost || r[2] > kMost || r[3] > kMost)
      throw Failed(invalid("a size of more than 63 bits in row " + std::to_string(i)), "prepare");
    extents.push_back(
        {r[0], static_cast<std::int64_t>(r[1]), static_cast<std::int64_t>(r[2]), static_cast<std::int64_t>(r[3])});
  }
  return {shared, check(shared->agent.prepare_addresses(peer, extents), "prepare")};
}

Request make(const std::shared_ptr<SharedAgent>& shared, bool writes, const TransferList& local,
             const TransferList& remote, const std::optional<Column<std::uint32_t>>& local_blocks,
             const std::optional<Column<std::uint32_t>>& remote_blocks,
             const std::optional<Column<std::uint64_t>>& generations, const nb::bytes& notify, double deadline,
             bool verify) {
  const transfer::RequestOptions options{.local_blocks = span_of(local_blocks),
                                         .remote_blocks = span_of(remote_blocks),
                                         .generations = span_of(generations),
                                         .notify = std::string(view_of(notify)),
                                         .deadline = milliseconds(deadline),
                                         .verify = verify};
  return {shared,
          check(shared->agent.make(writes ? Op::kWrite : Op::kRead, local.prepared, remote.prepared, options), "make")};
}

// Each source as (name, list, elements, generations, verify, start in us, bytes per us).
nb::list read_striped(const std::shared_ptr<SharedAgent>& shared, const TransferList& local, std::int64_t block_bytes,
                      const nb::list& sources, double seconds) {
  std::vector<transfer::StripeSource> all;
  for (const nb::handle source : sources) {
    const auto row = nb::cast<nb::tuple>(source);
    all.push_back({.name = nb::cast<std::string>(row[0]),
                   .list = nb::cast<const TransferList&>(row[1]).prepared,
                   .elements = nb::cast<std::vector<std::int64_t>>(row[2]),
                   .generations = nb::cast<std::vector<std::uint64_t>>(row[3]),
                   .verify = nb::cast<bool>(row[4]),
                   .start_us = nb::cast<double>(row[5]),
                   .bytes_per_us = nb::cast<double>(row[6])});
  }
  Result<std::vector<transfer::StripeShare>> shares = [&] {
    const nb::gil_scoped_release released;
    return transfer::read_striped(shared->agent, local.prepared, block_bytes, all, milliseconds(seconds));
  }();
  nb::list list;
  for (const auto& s : check(std::move(shares), "read_striped"))
    list.append(nb::make_tuple(s.name, s.blocks, s.hedged, s.failed, s.problem));
  return list;
}

std::string load(const std::shared_ptr<SharedAgent>& shared, const nb::bytes& metadata) {
  const std::string bytes(view_of(metadata));
  Result<std::string> name = [&] {
    const nb::gil_scoped_release released;
    return shared->agent.load(bytes);
  }();
  return check(std::move(name), "load");
}

void deregister(const std::shared_ptr<SharedAgent>& shared, std::uint32_t region, double seconds) {
  Status status;
  {
    const nb::gil_scoped_release released;
    status = shared->agent.deregister({region}, milliseconds(seconds));
  }
  check(status, "deregister");
}

void notify(const std::shared_ptr<SharedAgent>& s, const std::string& peer, const nb::bytes& bytes) {
  Status sent;
  {
    const nb::gil_scoped_release released;
    sent = s->agent.notify(peer, view_of(bytes));
  }
  check(sent, "notify");
}

nb::list notifications(const std::shared_ptr<SharedAgent>& shared) {
  nb::list all;
  for (const auto& n : shared->agent.notifications()) all.append(nb::make_tuple(n.peer, bytes_of(n.bytes)));
  return all;
}

std::shared_ptr<SharedAgent> open(const std::string& name, const std::string& key, const std::string& listen,
                                  const std::string& layout, std::int64_t pages, const std::string& network,
                                  bool only_network) {
  if (!network.empty() && network != "tcp" && network != "ucx")
    throw Failed(invalid("network is tcp, ucx or empty, not '" + network + "'"), "Agent");
  return std::make_shared<SharedAgent>(check(Agent::open({.name = name,
                                                          .key = key,
                                                          .listen = listen,
                                                          .layout = layout,
                                                          .pages = pages,
                                                          .network = network == "tcp"   ? transfer::Network::kTcp
                                                                     : network == "ucx" ? transfer::Network::kUcx
                                                                                        : transfer::Network::kAny,
                                                          .only_network = only_network}),
                                             "Agent"));
}

std::vector<Registration> regions_of(const std::vector<std::uint32_t>& numbers) {
  std::vector<Registration> regions;
  for (const std::uint32_t n : numbers) regions.push_back({n});
  return regions;
}

using Self = std::shared_ptr<SharedAgent>;

void add_agent(nb::module_& m) {
  nb::class_<SharedAgent>(m, "TransferAgent")
      .def("allocate", [](const Self& s, std::int64_t bytes,
                          std::int64_t page) { return described(check(s->agent.allocate(bytes, page), "allocate")); })
      .def("add_memory",
           [](const Self& s, std::uint64_t address, std::int64_t bytes, std::int64_t page) {
             return described(check(s->agent.add_memory(reinterpret_cast<void*>(address), bytes, page), "add_memory"));
           })
      .def("allocate_gpu",
           [](const Self& s, std::int64_t bytes, std::int64_t page, int gpu) {
             return described(check(s->agent.allocate_gpu(bytes, page, gpu), "allocate_gpu"));
           })
      .def("add_gpu_memory",
           [](const Self& s, std::uint64_t address, std::int64_t bytes, std::int64_t page, int gpu) {
             return described(
                 check(s->agent.add_gpu_memory(reinterpret_cast<void*>(address), bytes, page, gpu), "add_memory"));
           })
      .def("add_file",
           [](const Self& s, const std::string& path, std::int64_t page, std::int64_t bytes, bool past_cache) {
             return described(check(s->agent.add_file(path, page, bytes, past_cache), "add_file"));
           })
      .def(
          "add_open_file",
          [](const Self& s, int file, std::int64_t page, std::int64_t bytes, bool past_cache, const std::string& name) {
            return described(check(s->agent.add_open_file(file, page, bytes, past_cache, name), "add_open_file"));
          })
      .def("add_object",
           [](const Self& s, const std::string& url, std::int64_t bytes, const std::string& endpoint,
              const std::string& region, const std::string& key_id, const std::string& secret,
              const std::string& session, const std::string& authorities) {
             Result<Registration> added = [&] {
               const nb::gil_scoped_release released;
               return s->agent.add_object(url, bytes, {endpoint, region, key_id, secret, session, authorities});
             }();
             return described(check(std::move(added), "add_object"));
           })
      .def("hold",
           [](const Self& s, std::uint32_t region) {
             auto* const held = new std::shared_ptr<void>(check(s->agent.hold({region}), "hold"));
             return nb::capsule(held, [](void* p) noexcept { delete static_cast<std::shared_ptr<void>*>(p); });
           })
      .def("deregister", &deregister)
      .def("acquire",
           [](const Self& s, std::uint32_t region, std::uint16_t tag) {
             const auto page = check(s->agent.acquire({region}, tag), "acquire");
             return nb::make_tuple(page.index, page.generation);
           })
      .def("release",
           [](const Self& s, std::uint32_t region, std::uint32_t index, std::uint64_t generation) {
             check(s->agent.release({region}, {index, generation}), "release");
           })
      .def("seal",
           [](const Self& s, std::uint32_t region, std::uint32_t index, std::uint64_t generation) {
             check(s->agent.seal({region}, {index, generation}), "seal");
           })
      .def("free_pages", [](const Self& s, std::uint32_t region) { return s->agent.free_pages({region}); })
      .def(
          "metadata",
          [](const Self& s, const std::optional<std::vector<std::uint32_t>>& regions) {
            return bytes_of(check(regions ? s->agent.metadata(regions_of(*regions)) : s->agent.metadata(), "metadata"));
          },
          nb::arg("regions").none())
      .def("load", &load)
      .def("set_costs", [](const Self& s, const transfer::Costs& costs) { s->agent.set_costs(costs); })
      .def("forget", [](const Self& s, const std::string& peer) { check(s->agent.forget(peer), "forget"); })
      .def("check", [](const Self& s, const std::string& peer) { check(s->agent.check(peer), "check"); })
      .def("explain", [](const Self& s, const std::string& peer) { return check(s->agent.explain(peer), "explain"); })
      .def("prepare", &prepare)
      .def("prepare_addresses", &prepare_addresses)
      .def("make", &make, nb::arg("writes"), nb::arg("local"), nb::arg("remote"), nb::arg("local_blocks").none(),
           nb::arg("remote_blocks").none(), nb::arg("generations").none(), nb::arg("notify"), nb::arg("deadline"),
           nb::arg("verify"))
      .def("notify", &notify)
      .def("notifications", &notifications)
      .def("read_striped", &read_striped);
}

}  // namespace

void add_transfer(nb::module_& m) {
  add_agent(m);
  m.def("open_transfer_agent", &open);
  nb::class_<transfer::Costs>(m, "TransferCosts")
      .def("us",
           [](const transfer::Costs& c, const std::string& path, std::int64_t elements,
              std::int64_t bytes) -> std::optional<double> {
             for (std::size_t i = 0; i < c.paths.size(); ++i)
               if (path == name(static_cast<transfer::Path>(i)))
                 return c.paths[i].known() ? std::optional<double>(c.paths[i].us(elements, bytes)) : std::nullopt;
             throw Failed(invalid("there is no path '" + path + "'"), "us");
           });
  m.def("transfer_gpus", &transfer::gpus);
  m.def("measure_transfer_costs", [](const std::string& folder) {
    Result<transfer::Costs> costs = [&] {
      const nb::gil_scoped_release released;
      return transfer::measure_costs(folder);
    }();
    return check(std::move(costs), "measure_costs");
  });
  nb::class_<TransferList>(m, "TransferList").def_prop_ro("elements", [](const TransferList& l) {
    return l.prepared.elements();
  });
  nb::class_<Request>(m, "TransferRequest")
      .def("post", &Request::post, nb::arg("notify").none())
      .def("poll", &Request::poll)
      .def("wait", &Request::wait)
      .def("cancel", &Request::cancel)
      .def("estimate", &Request::estimate)
      .def("explain", &Request::explain)
      .def_prop_ro("state", &Request::state)
      .def_prop_ro("moved_bytes", &Request::moved_bytes)
      .def_prop_ro("error", &Request::error)
      .def_prop_ro("seconds_since_progress", &Request::progressed);
}

}  // namespace weft::python
