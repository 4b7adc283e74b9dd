#include "communicator.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>
#include <pthread.h>

#include <atomic>
#include <list>
#include <optional>
#include <thread>

#include "call.h"
#include "dropped_lanes.h"
#include "lane.h"
#include "numpy_memory.h"
#include "registration.h"
#include "weft/interrupt.h"
#include "weft/unique_id.h"
#include "work.h"
#include "xla.h"

namespace nb = nanobind;

namespace weft::python {
namespace {

std::thread::id main_thread() {
  static const std::thread::id id = std::this_thread::get_id();  // of the import
  return id;
}

// Grows in a child that was forked: what the parent has connected is not the child's.
std::atomic<int> forks{0};

// `parts`: as Array's.
nb::object as_tuple(const Received& r, std::size_t parts) { return nb::make_tuple(r.source, r.tag, r.count / parts); }

class Tagged;

class Comm {
 public:
  explicit Comm(Communicator c) : lane_(std::make_shared<Lane>(std::move(c))) {
    lane_->communicator().set_interrupt(signal_raised());
  }
  // Does not wait for calls that are under way: their Works stand for them.
  ~Comm() {
    const nb::gil_scoped_release released;
    if (number_ != 0) remove_from_xla(number_);
    const bool idle = lane_->idle();
    if (!idle && dropped_.empty()) {
      dropped_lanes().add(std::move(lane_));
      return;
    }
    if (!idle) lane_->abort();  // messages that nobody waits for use arrays that end here
    lane_->close();
  }
  Comm(const Comm&) = delete;
  Comm& operator=(const Comm&) = delete;

  Rank rank() { return lane_->communicator().rank(); }
  Rank size() { return lane_->communicator().ranks(); }

  // One collective; see prepare().
  nb::object call(int kind, nb::object in, nb::object out, nb::object op, Rank root, bool wait, nb::object options) {
    Call call = prepare({rank(), size()}, kind, std::move(in), std::move(out), std::move(op), root, std::move(options));
    const char* operation = call.operation;
    const Inside inside(*this, operation);
    if (wait && lane_->idle()) [[likely]] {
      dropped_arrays_->clear();
      check(released([&] { return call.run(lane_->communicator()); }), operation);
      return std::move(call.result);
    }
    auto queued = std::make_shared<Queued>();
    queued->arrays = std::move(call.arrays);
    nb::object result = std::move(call.result);
    return queue(std::move(queued), std::move(result), wait, operation,
                 [r = call.request, lists = std::move(call.lists)](Communicator& c) mutable {
                   lists.into(r);
                   return c.run(r);
                 });
  }

  nb::object transfer(bool sends, nb::object data, Rank peer, bool wait) {
    const char* operation = sends ? "send" : "receive";
    auto queued = std::make_shared<Queued>();
    queued->arrays.emplace_back(data, sends ? Array::Use::kInput : Array::Use::kOutput, operation);
    const Array& array = queued->arrays[0];
    const Transfer t{sends ? Transfer::Direction::kSend : Transfer::Direction::kReceive, peer, array.data(),
                     array.count(), array.type()};
    const Inside inside(*this, operation);
    if (wait && lane_->idle()) {
      check(released([&] { return lane_->communicator().exchange({&t, 1}); }), operation);
      return sends ? nb::none() : data;
    }
    return queue(std::move(queued), sends ? nb::none() : std::move(data), wait, operation, [t](Communicator& c) {
      return c.exchange({&t, 1});
    });
  }

  // A message with a tag; of a send only the count means something.
  nb::object tagged(bool sends, nb::object data, Rank peer, std::int32_t tag, std::optional<double> seconds) {
    const char* operation = sends ? "send" : "receive";
    const Array array(data, sends ? Array::Use::kInput : Array::Use::kOutput, operation);
    const auto timeout = message_timeout(seconds, operation);
    const auto received =
        check(direct(operation,
                     [&](Communicator& c) -> Result<Received> {
                       if (!sends) return c.receive(array.data(), array.count(), array.type(), peer, tag, timeout);
                       const Status sent = c.send(array.data(), array.count(), array.type(), peer, tag, timeout);
                       if (!sent) return tl::make_unexpected(sent.error());
                       return Received{.count = array.count()};
                     }),
              operation);
    return as_tuple(received, array.parts());
  }
  std::unique_ptr<Tagged> start_tagged(bool sends, nb::object data, Rank peer, std::int32_t tag,
                                       std::optional<double> seconds);

  std::unique_ptr<Comm> split(int color, int key) {
    return made(direct("split", [&](Communicator& c) { return c.split(color, key); }), "split");
  }
  std::unique_ptr<Comm> shrink(const std::vector<Rank>& without) {
    return made(direct("shrink", [&](Communicator& c) { return c.shrink(without); }), "shrink");
  }
  // `id`: of a MeetingPlace; only rank 0's counts, the others may pass an empty one.
  std::unique_ptr<Comm> grow(const std::string& id, Rank size) {
    const UniqueId place = id.empty() ? UniqueId{} : check(UniqueId::parse(id), "grow");
    return made(direct("grow", [&](Communicator& c) { return c.grow(place, size); }), "grow");
  }
  nb::tuple agree(std::uint64_t bits) {
    const Agreement a = check(direct("agree", [&](Communicator& c) { return c.agree(bits); }), "agree");
    nb::list ended;
    for (const Rank r : a.ended) ended.append(r);
    return nb::make_tuple(a.bits, ended);
  }
  void finalize() {
    check(direct("finalize", [](Communicator& c) { return c.finalize(); }), "finalize");
  }
  void status() {
    check(direct("status", [](Communicator& c) { return c.status(); }), "status");
  }
  void monitored_barrier(double seconds) {
    const auto timeout = milliseconds_of(seconds, "monitored_barrier");
    check(direct("monitored_barrier", [&](Communicator& c) { return c.monitored_barrier(timeout); }),
          "monitored_barrier");
  }
  void abort(const std::string& why) {
    const nb::gil_scoped_release released;
    lane_->abort(why);
  }
  void close() {
    const nb::gil_scoped_release released;
    lane_->close();
  }
  bool idle() { return lane_->idle(); }
  // The number by which programs of XLA name it.
  std::int64_t number() {
    if (number_ == 0)
      number_ = add_to_xla([this](const std::function<Status(Communicator&)>& action) -> Status {
        try {
          const Inside inside(*this, "call");
          if (!lane_->idle()) lane_->close();  // what is queued comes first
          return action(lane_->communicator());
        } catch (const Failed& refused) {
          return tl::make_unexpected(refused.error);
        }
      });
    return number_;
  }
  // The timeout is in seconds; 0: no limit.
  void set_timeout(double seconds) {
    const auto timeout = milliseconds_of(seconds, "set_timeout");
    check(direct("set_timeout", [&](Communicator& c) { return c.set_timeout(timeout); }), "set_timeout");
  }
  nb::tuple last_choice() {
    const auto choice = lane_->communicator().last_choice();
    return nb::make_tuple(choice.algorithm, choice.protocol, choice.channels);
  }
  // Registered memory, as an array of bytes.
  nb::object allocate(std::size_t bytes) {
    auto* memory = new Memory(check(lane_->communicator().allocate(std::max<std::size_t>(bytes, 1)), "empty"));
    const nb::capsule owner(memory, [](void* p) noexcept { delete static_cast<Memory*>(p); });
    return nb::cast(nb::ndarray<nb::numpy, std::uint8_t>(memory->data(), {bytes}, owner));
  }
  // After all that was started, for nobody may write the memory meanwhile.
  Registration register_memory(nb::handle array) {
    auto registered =
        std::make_unique<RegisteredArray>(Array(array, Array::Use::kMemory, "register"), RegisteredMemory());
    const Array& memory = registered->array;
    registered->memory = check(
        direct(
            "register",
            [&](Communicator& c) { return c.register_memory(memory.data(), memory.count() * size_of(memory.type())); }),
        "register");
    return {std::move(registered), dropped_arrays_};
  }
  void release(Registration& registration) {
    if (!registration.registered()) return;
    check(direct("release", [&](Communicator&) { return registration.registered()->memory = {}, Status(); }),
          "release");
    registration.registered().reset();
  }
  // NumPy allocates in registered memory from now on, in this context; returns the handler before.
  nb::object place_arrays() {
    if (!handler_.is_valid()) handler_ = numpy_handler(lane_);
    return set_numpy_handler(handler_);
  }

 private:
  // A second thread inside the communicator is an error of the program: it gets an exception instead of a mismatch.
  class Inside {
   public:
    Inside(Comm& comm, const char* operation) : comm_(comm) {
      if (comm.forks_ != forks.load(std::memory_order_relaxed))
        throw Failed(invalid("this process was forked after the communicator had connected"), operation);
      if (comm.inside_.exchange(true))
        throw Failed(invalid("another thread is inside a call of this communicator"), operation);
    }
    ~Inside() { comm_.inside_ = false; }

   private:
    Comm& comm_;
  };

  template <class Action>
  std::invoke_result_t<Action, Communicator&> direct(const char* operation, Action action) {
    const Inside inside(*this, operation);
    if (!lane_->idle()) released([&] { return lane_->close(), 0; });  // what is queued comes first
    dropped_arrays_->clear();
    return released([&] { return action(lane_->communicator()); });
  }

  // Requires: an Inside.
  template <class Action>
  nb::object queue(std::shared_ptr<Queued> queued, nb::object result, bool wait, const char* operation, Action action) {
    Queue::Handle handle = lane_->queue(std::move(action), [queued](const Status&) mutable {
      const nb::gil_scoped_acquire held;
      queued->ended = true;
      queued->arrays.clear();
      for (const nb::object& callback : std::exchange(queued->callbacks, {})) {
        try {
          callback();
        } catch (nb::python_error& e) {
          e.discard_as_unraisable("a callback of weftcomm");
        }
      }
      queued.reset();
    });
    Started work(std::move(handle), std::move(queued), std::move(result), operation);
    return wait ? work.result() : nb::cast(std::move(work));
  }

  std::unique_ptr<Comm> made(Result<Communicator> c, const char* operation) {
    Communicator made = check(std::move(c), operation);
    return made ? std::make_unique<Comm>(std::move(made)) : nullptr;
  }

  // A started message that Python has dropped. Its array belongs to it until it is done.
  struct Dropped {
    Array array;
    Message message;
  };
  void keep(Dropped dropped) { dropped_.push_back(std::move(dropped)); }
  // Releases the arrays of dropped messages that are done. Requires: an Inside, and nothing queued.
  void release_dropped() {
    std::erase_if(dropped_, [](Dropped& d) {
      const auto done = d.message.test();
      return !done || *done;
    });
  }

  std::list<Dropped> dropped_;  // ends after the communicator
  const std::shared_ptr<DroppedArrays> dropped_arrays_ = std::make_shared<DroppedArrays>();
  std::shared_ptr<Lane> lane_;
  nb::object handler_;  // of place_arrays(), from its first call on
  std::atomic<bool> inside_{false};
  std::int64_t number_ = 0;  // 0: no program of XLA's knows this communicator
  const int forks_ = forks.load();

  friend class Tagged;
};

// A started message with a tag. Its array is kept until it is done.
class Tagged {
 public:
  Tagged(Comm& comm, Array array, Message message, const char* operation)
      : comm_(comm), array_(std::move(array)), message_(std::move(message)), operation_(operation) {}

  ~Tagged() {
    if (!outcome_) comm_.keep({std::move(array_), std::move(message_)});
  }
  Tagged(const Tagged&) = delete;
  Tagged& operator=(const Tagged&) = delete;

  // Moves it on, unless a queued call of the communicator does so.
  bool done() {
    if (outcome_) return true;
    const Comm::Inside inside(comm_, operation_);
    if (!comm_.lane_->idle()) return false;
    const auto tested = released([&] { return message_.test(); });
    if (!tested) {
      outcome_ = tl::make_unexpected(tested.error());
    } else if (*tested) {
      outcome_ = released([&] { return message_.wait(); });
    }
    return outcome_.has_value();
  }
  // False: not done within `seconds`; less than 0: waits until it is done.
  bool wait(double seconds) {
    using Clock = std::chrono::steady_clock;
    constexpr std::chrono::microseconds kBriefly{100};
    const auto until = Clock::now() + (seconds < 0 ? kMostTimeout : milliseconds_of(seconds, operation_));
    for (auto asked = Clock::now(); !done();) {
      const auto now = Clock::now();
      if (now >= until) return false;
      if (now - asked > kSignals) {
        asked = now;
        if (PyErr_CheckSignals() != 0) throw nb::python_error();
      }
      released([&] { return std::this_thread::sleep_for(kBriefly), 0; });
    }
    return true;
  }
  nb::object result() {
    if (!outcome_) outcome_ = comm_.direct(operation_, [&](Communicator&) { return message_.wait(); });
    return as_tuple(check(*outcome_, operation_), array_.parts());
  }

 private:
  Comm& comm_;  // Python keeps it
  Array array_;
  Message message_;
  const char* operation_;
  std::optional<Result<Received>> outcome_;
};

std::unique_ptr<Tagged> Comm::start_tagged(bool sends, nb::object data, Rank peer, std::int32_t tag,
                                           std::optional<double> seconds) {
  const char* operation = sends ? "send" : "receive";
  Array array(data, sends ? Array::Use::kInput : Array::Use::kOutput, operation);
  const auto timeout = message_timeout(seconds, operation);
  {
    const Inside inside(*this, operation);
    if (lane_->idle()) release_dropped();
  }
  Message message =
      check(direct(operation,
                   [&](Communicator& c) {
                     return sends ? c.start_send(array.data(), array.count(), array.type(), peer, tag, timeout)
                                  : c.start_receive(array.data(), array.count(), array.type(), peer, tag, timeout);
                   }),
            operation);
  return std::make_unique<Tagged>(*this, std::move(array), std::move(message), operation);
}

struct Meeting {
  explicit Meeting(Rank ranks) : place(check(MeetingPlace::open(ranks), "MeetingPlace")) {}
  MeetingPlace place;
};

}  // namespace

bool was_forked(int since) { return forks.load(std::memory_order_relaxed) != since; }
int forks_so_far() { return forks.load(); }

std::function<bool()> signal_raised() {
  return [main = main_thread()] {
    if (std::this_thread::get_id() != main || Py_IsInitialized() == 0) return false;
    const nb::gil_scoped_acquire held;
    return PyErr_CheckSignals() != 0;
  };
}

void add_communicator(nb::module_& m) {
  main_thread();
  pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1); });
  nb::class_<Started>(m, "Work")
      .def("done", &Started::done)
      .def("wait", &Started::wait, nb::arg("seconds"))
      .def("result", &Started::result)
      .def("when_done", &Started::when_done, nb::arg("callback"));
  nb::class_<Tagged>(m, "Tagged")
      .def("done", &Tagged::done)
      .def("wait", &Tagged::wait, nb::arg("seconds"))
      .def("result", &Tagged::result);
  nb::class_<Meeting>(m, "MeetingPlace").def(nb::init<Rank>()).def_prop_ro("id", [](const Meeting& p) {
    return p.place.id().text();
  });
  nb::class_<Registration>(m, "Registration").def_prop_ro("shared", &Registration::shared);
  nb::class_<Comm>(m, "Communicator")
      .def_prop_ro("rank", &Comm::rank)
      .def_prop_ro("size", &Comm::size)
      .def("call", &Comm::call, nb::arg("kind"), nb::arg("input").none(), nb::arg("output").none(),
           nb::arg("op").none(), nb::arg("root"), nb::arg("wait"), nb::arg("options").none())
      .def("transfer", &Comm::transfer, nb::arg("sends"), nb::arg("data").none(), nb::arg("peer"), nb::arg("wait"))
      .def("tagged", &Comm::tagged, nb::arg("sends"), nb::arg("data").none(), nb::arg("peer"), nb::arg("tag"),
           nb::arg("seconds").none())
      .def("start_tagged", &Comm::start_tagged, nb::arg("sends"), nb::arg("data").none(), nb::arg("peer"),
           nb::arg("tag"), nb::arg("seconds").none(), nb::keep_alive<0, 1>())
      .def("grow", &Comm::grow, nb::arg("id"), nb::arg("size"))
      .def("split", &Comm::split, nb::arg("color"), nb::arg("key"))
      .def("shrink", &Comm::shrink, nb::arg("without") = std::vector<Rank>())
      .def("agree", &Comm::agree, nb::arg("bits"))
      .def("finalize", &Comm::finalize)
      .def("status", &Comm::status)
      .def("monitored_barrier", &Comm::monitored_barrier, nb::arg("seconds"))
      .def("abort", &Comm::abort, nb::arg("why") = "")
      .def("close", &Comm::close)
      .def("idle", &Comm::idle)
      .def("number", &Comm::number)
      .def("set_timeout", &Comm::set_timeout, nb::arg("seconds"))
      .def("last_choice", &Comm::last_choice)
      .def("allocate", &Comm::allocate, nb::arg("bytes"))
      .def("register_memory", &Comm::register_memory, nb::arg("array").none())
      .def("release", &Comm::release, nb::arg("registration"))
      .def("place_arrays", &Comm::place_arrays);
  m.def("set_numpy_handler", &set_numpy_handler, nb::arg("handler"));
  m.def("end_dropped", [] { released([] { return dropped_lanes().end(), 0; }); });
  m.def("from_environment", [] {
    const Interruptible scope(signal_raised());
    return std::make_unique<Comm>(check(released([] { return Communicator::from_environment(); }), "init"));
  });
  m.def("threads", [](Rank ranks) {
    nb::list all;
    for (Communicator& c : check(released([&] { return Communicator::threads(ranks); }), "threads"))
      all.append(nb::cast(std::make_unique<Comm>(std::move(c))));
    return all;
  });
  m.def("connect", [](const std::string& id, Rank rank, Rank size, const std::string& transport, double seconds) {
    const UniqueId parsed = check(UniqueId::parse(id), "connect");
    const auto timeout = milliseconds_of(seconds, "connect");
    const Interruptible scope(signal_raised());
    return std::make_unique<Comm>(check(released([&] {
                                          return Communicator::connect(parsed, rank, size,
                                                                       {.transport = transport, .timeout = timeout});
                                        }),
                                        "connect"));
  });
}

}  // namespace weft::python
