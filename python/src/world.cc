#include "world.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <thread>

#include "array.h"
#include "call.h"
#include "communicator.h"
#include "failed.h"
#include "weft/interrupt.h"
#include "weft/pgas.h"

namespace nb = nanobind;

namespace weft::python {
namespace {

// Misuse of weft::pgas::World ends the process. Here every address is checked against the blocks that were allocated,
// so that misuse becomes an exception.
class PyWorld {
 public:
  explicit PyWorld(pgas::World world) : world_(std::move(world)), team_(world_.team()) {
    team_.set_interrupt(signal_raised());
  }

  Rank rank() const { return world_.rank(); }
  Rank size() const { return world_.ranks(); }

  // Collective. Symmetric memory as an array of bytes, which keeps the job's memory mapped.
  nb::object allocate(std::size_t bytes) {
    enter("window");
    const std::size_t room = std::max<std::size_t>(bytes, 1);
    void* const memory = check(released([&] { return world_.allocate(room); }), "window");
    blocks_[reinterpret_cast<std::uintptr_t>(memory)] = room;
    const nb::capsule owner(new pgas::World(world_), [](void* p) noexcept { delete static_cast<pgas::World*>(p); });
    return nb::cast(nb::ndarray<nb::numpy, std::uint8_t>(memory, {bytes}, owner));
  }
  // Collective.
  void free(std::uintptr_t memory) {
    enter("free");
    if (blocks_.erase(memory) == 0) throw Failed(invalid("the window has been freed"), "free");
    check(released([&] { return world_.free(reinterpret_cast<void*>(memory)); }), "free");
  }

  void put(std::uintptr_t to, std::uintptr_t from, std::size_t bytes, Rank rank) {
    void* const at = symmetric(to, bytes, rank, "put");
    released([&] { return world_.put(at, reinterpret_cast<const void*>(from), bytes, rank), 0; });
  }
  void get(std::uintptr_t to, std::uintptr_t from, std::size_t bytes, Rank rank) {
    const void* const at = symmetric(from, bytes, rank, "get");
    released([&] { return world_.get(reinterpret_cast<void*>(to), at, bytes, rank), 0; });
  }
  void put_signal(std::uintptr_t to, std::uintptr_t from, std::size_t bytes, std::uintptr_t signal, std::uint64_t value,
                  bool adds, Rank rank) {
    constexpr const char* kCall = "put_signal";
    void* const at = symmetric(to, bytes, rank, kCall);
    auto* const flag = static_cast<std::uint64_t*>(symmetric(signal, sizeof(std::uint64_t), rank, kCall));
    released([&] {
      return world_.put_signal(at, reinterpret_cast<const void*>(from), bytes, flag, value,
                               adds ? pgas::SignalOp::kAdd : pgas::SignalOp::kSet, rank),
             0;
    });
  }
  // The old value of an integer of 4 or 8 bytes, as unsigned bits.
  std::uint64_t atomic(int op, std::uintptr_t at, int bytes, std::uint64_t operand, std::uint64_t compare, Rank rank) {
    void* const word = symmetric(at, static_cast<std::size_t>(bytes), rank, "atomic");
    return released([&]() -> std::uint64_t {
      const auto known = static_cast<pgas::AtomicOp>(op);
      if (bytes == 4)
        return world_.atomic(known, static_cast<const std::uint32_t*>(word), static_cast<std::uint32_t>(operand), rank,
                             static_cast<std::uint32_t>(compare));
      return world_.atomic(known, static_cast<const std::uint64_t*>(word), operand, rank, compare);
    });
  }

  void fence() {
    enter("fence");
    released([&] { return world_.fence(), 0; });
  }
  void quiet() {
    enter("quiet");
    released([&] { return world_.quiet(), 0; });
  }
  void barrier() {
    enter("barrier");
    check(released([&] { return world_.barrier(); }), "barrier");
  }
  // See prepare().
  nb::object call(int kind, nb::object in, nb::object out, nb::object op, Rank root, bool wait, nb::object options) {
    if (!wait) throw Failed(invalid("a world's calls wait; communicators also start calls"), "call");
    Call call = prepare({rank(), size()}, kind, std::move(in), std::move(out), std::move(op), root, std::move(options));
    enter(call.operation);
    check(released([&] { return call.run(team_); }), call.operation);
    return std::move(call.result);
  }

 private:
  void enter(const char* operation) const {
    if (was_forked(forks_)) throw Failed(invalid("this process was forked after the world had connected"), operation);
  }
  // Errors: Failed (bad input): no such rank; memory that is in no window.
  void* symmetric(std::uintptr_t at, std::size_t bytes, Rank rank, const char* operation) const {
    enter(operation);
    if (rank < 0 || rank >= size())
      throw Failed(invalid("rank " + std::to_string(rank) + " is not one of " + std::to_string(size()) + " ranks"),
                   operation);
    auto block = blocks_.upper_bound(at);
    if (block == blocks_.begin() || at + bytes > std::prev(block)->first + std::prev(block)->second)
      throw Failed(invalid("the window has been freed"), operation);
    return reinterpret_cast<void*>(at);
  }

  pgas::World world_;
  pgas::Team team_;
  std::map<std::uintptr_t, std::size_t> blocks_;  // bytes by address
  const int forks_ = forks_so_far();
};

}  // namespace

void add_world(nb::module_& m) {
  nb::class_<PyWorld>(m, "World")
      .def_prop_ro("rank", &PyWorld::rank)
      .def_prop_ro("size", &PyWorld::size)
      .def("allocate", &PyWorld::allocate, nb::arg("bytes"))
      .def("free", &PyWorld::free, nb::arg("memory"))
      .def("put", &PyWorld::put, nb::arg("to"), nb::arg("source"), nb::arg("bytes"), nb::arg("rank"))
      .def("get", &PyWorld::get, nb::arg("to"), nb::arg("source"), nb::arg("bytes"), nb::arg("rank"))
      .def("put_signal", &PyWorld::put_signal, nb::arg("to"), nb::arg("source"), nb::arg("bytes"), nb::arg("signal"),
           nb::arg("value"), nb::arg("adds"), nb::arg("rank"))
      .def("atomic", &PyWorld::atomic, nb::arg("op"), nb::arg("at"), nb::arg("bytes"), nb::arg("operand"),
           nb::arg("compare"), nb::arg("rank"))
      .def("fence", &PyWorld::fence)
      .def("quiet", &PyWorld::quiet)
      .def("barrier", &PyWorld::barrier)
      .def("call", &PyWorld::call, nb::arg("kind"), nb::arg("input").none(), nb::arg("output").none(),
           nb::arg("op").none(), nb::arg("root"), nb::arg("wait"), nb::arg("options").none());
  m.def("world", [] {
    const Interruptible scope(signal_raised());
    return std::make_unique<PyWorld>(check(released([] { return pgas::World::from_environment(); }), "world"));
  });
  m.def("world_threads", [](Rank ranks) {
    nb::list all;
    for (pgas::World& world : check(released([&] { return pgas::World::threads(ranks); }), "world_threads"))
      all.append(nb::cast(std::make_unique<PyWorld>(std::move(world))));
    return all;
  });
}

}  // namespace weft::python
