// The extension module weftcomm._core: include/weft and the commands' answers, as thinly as Python allows. Shapes,
// types by name and documentation are in weftcomm/*.py.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "array.h"
#include "cli/answers.h"
#include "failed.h"
#include "lane.h"
#include "schedule/collective.h"
#include "schedule/element.h"
#include "transfer.h"
#include "weft/unique_id.h"

namespace nb = nanobind;
using namespace std::chrono_literals;

namespace weft::python {
namespace {

// How long a wait for a queued call goes on before it looks for signals.
constexpr auto kSignals = 50ms;

// Grows in a child that was forked: what the parent has connected is not the child's.
std::atomic<int> forks{0};

// A call of a queue. Its arrays are kept until it has ended.
struct Queued {
  std::vector<Array> arrays;
  std::vector<nb::object> callbacks;
  bool ended = false;
};

class Started {
 public:
  Started(Queue::Handle handle, std::shared_ptr<Queued> queued, nb::object result, const char* operation)
      : handle_(std::move(handle)), queued_(std::move(queued)), result_(std::move(result)), operation_(operation) {}

  bool done() const { return handle_.done(); }
  // False: not done within `seconds`; less than 0: waits until it is done.
  bool wait(double seconds) const {
    const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    for (;;) {
      bool over = false;
      {
        const nb::gil_scoped_release released;
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
        over = handle_.wait_for(seconds < 0 ? kSignals : std::clamp<std::chrono::milliseconds>(left, 0ms, kSignals));
      }
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
      if (over) return true;
      if (seconds >= 0 && std::chrono::steady_clock::now() >= until) return false;
    }
  }
  nb::object result() const {
    wait(-1);
    Status status;
    {
      const nb::gil_scoped_release released;
      status = handle_.wait();
    }
    check(status, operation_);
    return result_;
  }
  // Called with no arguments on the queue's thread when the call is done; at once if it is.
  void when_done(nb::object callback) {
    if (queued_->ended)
      callback();
    else
      queued_->callbacks.push_back(std::move(callback));
  }

 private:
  Queue::Handle handle_;
  std::shared_ptr<Queued> queued_;  // under the GIL
  nb::object result_;
  const char* operation_;
};

// Of booleans: what their reduction is on bytes of 0 and 1.
ReduceOp op_of_bool(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return ReduceOp::kOr;
    case ReduceOp::kProd:
      return ReduceOp::kAnd;
    case ReduceOp::kAvg:
    case ReduceOp::kPremulSum:
      throw Failed(invalid("booleans have no average and are not multiplied"), "all_reduce");
    default:
      return op;
  }
}

class Comm {
 public:
  explicit Comm(Communicator c) : lane_(std::move(c)) {
    lane_.communicator().set_interrupt([main = main_thread()] {
      if (std::this_thread::get_id() != main || Py_IsInitialized() == 0) return false;
      const nb::gil_scoped_acquire held;
      return PyErr_CheckSignals() != 0;
    });
  }
  ~Comm() {
    const nb::gil_scoped_release released;
    lane_.close();
  }
  Comm(const Comm&) = delete;
  Comm& operator=(const Comm&) = delete;

  static std::thread::id main_thread() {
    static const std::thread::id id = std::this_thread::get_id();  // of the import
    return id;
  }

  Rank rank() { return lane_.communicator().rank(); }
  Rank size() { return lane_.communicator().ranks(); }

  // One collective. `in`, `out`: arrays or None; counts: elements of the parts of the uneven ones, or None.
  nb::object call(int kind, nb::object in, nb::object out, nb::object op, Rank root, bool wait, nb::object options) {
    Request r;
    r.collective = static_cast<Collective>(kind);
    r.root = root;
    const char* operation = schedule::name(r.collective).data();
    std::vector<Array> arrays;
    arrays.reserve(2);
    const bool same = in.ptr() == out.ptr();
    const Array* input = nullptr;
    const Array* output = nullptr;
    if (!in.is_none()) {
      // An object that is input and output is looked at once.
      arrays.emplace_back(in, same ? Array::Use::kOutput : Array::Use::kInput);
      input = &arrays.back();
    }
    if (!out.is_none()) {
      if (!same) arrays.emplace_back(out, Array::Use::kOutput);
      output = &arrays.back();
    }
    if (input != nullptr && output != nullptr && input->type() != output->type())
      throw Failed(invalid("input and output differ in their element type"), operation);
    const Array* any = input != nullptr ? input : output;
    if (any != nullptr) r.type = any->type();
    if (!op.is_none()) {
      r.op = check(schedule::parse_op(nb::cast<std::string>(op)), operation);
      if (any != nullptr && any->is_bool()) r.op = op_of_bool(r.op);
    }
    r.in = input != nullptr ? input->data() : nullptr;
    r.out = output != nullptr ? output->data() : nullptr;
    std::vector<std::size_t> counts, receive_counts;
    if (!options.is_none()) set_options(r, nb::cast<nb::dict>(options), counts, receive_counts);
    if (counts.empty())
      set_count(r, input, output, operation);
    else
      check_counts(r, input, output, operation);
    nb::object result = out.is_none() ? nb::none() : out;
    return go(std::move(arrays), std::move(result), wait, operation,
              [r, counts = std::move(counts), receive_counts = std::move(receive_counts)](Communicator& c) mutable {
                r.counts = counts;
                r.receive_counts = receive_counts;
                return c.run(r);
              });
  }

  nb::object transfer(bool sends, nb::object data, Rank peer, bool wait) {
    std::vector<Array> arrays;
    arrays.emplace_back(data, sends ? Array::Use::kInput : Array::Use::kOutput);
    const Transfer t{sends ? Transfer::Direction::kSend : Transfer::Direction::kReceive, peer, arrays[0].data(),
                     arrays[0].count(), arrays[0].type()};
    return go(std::move(arrays), sends ? nb::none() : data, wait, sends ? "send" : "receive", [t](Communicator& c) {
      return c.exchange({&t, 1});
    });
  }

  std::unique_ptr<Comm> split(int color, int key) {
    return made(direct([&](Communicator& c) { return c.split(color, key); }), "split");
  }
  std::unique_ptr<Comm> shrink() {
    return made(direct([](Communicator& c) { return c.shrink(); }), "shrink");
  }
  nb::tuple agree(std::uint64_t bits) {
    const Agreement a = check(direct([&](Communicator& c) { return c.agree(bits); }), "agree");
    nb::list ended;
    for (const Rank r : a.ended) ended.append(r);
    return nb::make_tuple(a.bits, ended);
  }
  void finalize() {
    check(direct([](Communicator& c) { return c.finalize(); }), "finalize");
  }
  void status() {
    check(direct([](Communicator& c) { return c.status(); }), "status");
  }
  void monitored_barrier(double seconds) {
    const auto timeout = std::chrono::ceil<std::chrono::milliseconds>(std::chrono::duration<double>(seconds));
    check(direct([&](Communicator& c) { return c.monitored_barrier(timeout); }), "monitored_barrier");
  }
  void abort() {
    const nb::gil_scoped_release released;
    lane_.abort();
  }
  void close() {
    const nb::gil_scoped_release released;
    lane_.close();
  }
  bool idle() { return lane_.idle(); }
  // The timeout is in seconds; 0: no limit.
  void set_timeout(double seconds) {
    const auto timeout = std::chrono::ceil<std::chrono::milliseconds>(std::chrono::duration<double>(seconds));
    direct([&](Communicator& c) { return c.set_timeout(timeout), Status{}; });
  }
  nb::tuple last_choice() {
    const auto choice = lane_.communicator().last_choice();
    return nb::make_tuple(choice.algorithm, choice.protocol, choice.channels);
  }
  // Registered memory, as an array of bytes.
  nb::object allocate(std::size_t bytes) {
    auto* memory = new Memory(check(lane_.communicator().allocate(std::max<std::size_t>(bytes, 1)), "empty"));
    const nb::capsule owner(memory, [](void* p) noexcept { delete static_cast<Memory*>(p); });
    return nb::cast(nb::ndarray<nb::numpy, std::uint8_t>(memory->data(), {bytes}, owner));
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

  template <class Call>
  std::invoke_result_t<Call, Communicator&> direct(Call call) {
    const Inside inside(*this, "call");
    const nb::gil_scoped_release released;
    if (!lane_.idle()) lane_.close();  // what is queued comes first
    return call(lane_.communicator());
  }

  template <class Call>
  nb::object go(std::vector<Array> arrays, nb::object result, bool wait, const char* operation, Call call) {
    const Inside inside(*this, operation);
    if (wait && lane_.idle()) [[likely]] {
      Status status;
      {
        const nb::gil_scoped_release released;
        status = call(lane_.communicator());
      }
      check(status, operation);
      return result;
    }
    auto queued = std::make_shared<Queued>();
    queued->arrays = std::move(arrays);
    Queue::Handle handle = lane_.queue(std::move(call), [queued](const Status&) mutable {
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

  static void set_options(Request& r, const nb::dict& options, std::vector<std::size_t>& counts,
                          std::vector<std::size_t>& receive_counts) {
    for (const auto& [key, value] : options) {
      const std::string name = nb::cast<std::string>(key);
      if (name == "reproducible")
        r.reproducible = nb::cast<bool>(value);
      else if (name == "algorithm")
        r.algorithm = nb::cast<std::string>(value);
      else if (name == "protocol")
        r.protocol = nb::cast<std::string>(value);
      else if (name == "channels")
        r.channels = nb::cast<int>(value);
      else if (name == "scalar")
        r.scalar = nb::isinstance<nb::int_>(value) ? Scalar::of(nb::cast<std::int64_t>(value))
                                                   : Scalar::of(nb::cast<double>(value));
      else if (name == "counts")
        counts = nb::cast<std::vector<std::size_t>>(value);
      else if (name == "receive_counts")
        receive_counts = nb::cast<std::vector<std::size_t>>(value);
      else
        throw Failed(invalid("unknown option " + name), "call");
    }
  }

  // Elements of the message or of one part, after a check that input and output fit each other.
  void set_count(Request& r, const Array* in, const Array* out, const char* operation) {
    const auto n = static_cast<std::size_t>(size());
    const bool is_root = rank() == r.root;
    const std::size_t ins = in != nullptr ? in->count() : 0, outs = out != nullptr ? out->count() : 0;
    const auto fits = [&](std::size_t small, std::size_t large) {
      if (small * n != large)
        throw Failed(invalid("input of " + std::to_string(ins) + " and output of " + std::to_string(outs) +
                             " elements do not fit each other on " + std::to_string(n) + " ranks"),
                     operation);
    };
    switch (r.collective) {
      case Collective::kBarrier:
        return;
      case Collective::kAllGather:
        return fits(ins, outs), void(r.count = ins);
      case Collective::kGather:
        if (is_root) fits(ins, outs);
        return void(r.count = ins);
      case Collective::kReduceScatter:
        return fits(outs, ins), void(r.count = outs);
      case Collective::kScatter:
        if (is_root) fits(outs, ins);
        return void(r.count = outs);
      case Collective::kAllToAll:
        if (ins != outs || ins % n != 0)
          throw Failed(invalid("input of " + std::to_string(ins) + " and output of " + std::to_string(outs) +
                               " elements must be equal and divisible by " + std::to_string(n) + " ranks"),
                       operation);
        return void(r.count = ins / n);
      case Collective::kReduce:
        if (is_root && ins != outs) break;
        return void(r.count = ins);
      default:
        if (ins != outs) break;
        return void(r.count = ins);
    }
    throw Failed(invalid("input of " + std::to_string(ins) + " and output of " + std::to_string(outs) +
                         " elements do not fit each other"),
                 operation);
  }

  void check_counts(const Request& r, const Array* in, const Array* out, const char* operation) const {
    (void)r;
    if (in == nullptr || out == nullptr) throw Failed(invalid("input and output are needed"), operation);
  }

  std::unique_ptr<Comm> made(Result<Communicator> c, const char* operation) {
    Communicator made = check(std::move(c), operation);
    return made ? std::make_unique<Comm>(std::move(made)) : nullptr;
  }

  Lane lane_;
  std::atomic<bool> inside_{false};
  const int forks_ = forks.load();
};

template <class Make>
auto released(Make make) {
  const nb::gil_scoped_release released;
  return make();
}

struct Meeting {
  explicit Meeting(Rank ranks) : place(check(MeetingPlace::open(ranks), "MeetingPlace")) {}
  MeetingPlace place;
};

}  // namespace
}  // namespace weft::python

NB_MODULE(_core, m) {
  using namespace weft;
  using namespace weft::python;
  Comm::main_thread();
  pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1); });
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
      const nb::object maker = nb::module_::import_("weftcomm._core").attr("_error_maker");
      const nb::object e = maker(name_of(f.error.code), f.error.message.c_str(), f.operation.c_str(), ranks, calls,
                                 f.error.field.c_str());
      PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(e.ptr())), e.ptr());
    }
  });
  nb::class_<Started>(m, "Work")
      .def("done", &Started::done)
      .def("wait", &Started::wait, nb::arg("seconds"))
      .def("result", &Started::result)
      .def("when_done", &Started::when_done, nb::arg("callback"));
  nb::class_<Meeting>(m, "MeetingPlace").def(nb::init<Rank>()).def_prop_ro("id", [](const Meeting& p) {
    return p.place.id().text();
  });
  nb::class_<Comm>(m, "Communicator")
      .def_prop_ro("rank", &Comm::rank)
      .def_prop_ro("size", &Comm::size)
      .def("call", &Comm::call, nb::arg("kind"), nb::arg("input").none(), nb::arg("output").none(),
           nb::arg("op").none(), nb::arg("root"), nb::arg("wait"), nb::arg("options").none())
      .def("transfer", &Comm::transfer, nb::arg("sends"), nb::arg("data"), nb::arg("peer"), nb::arg("wait"))
      .def("split", &Comm::split, nb::arg("color"), nb::arg("key"))
      .def("shrink", &Comm::shrink)
      .def("agree", &Comm::agree, nb::arg("bits"))
      .def("finalize", &Comm::finalize)
      .def("status", &Comm::status)
      .def("monitored_barrier", &Comm::monitored_barrier, nb::arg("seconds"))
      .def("abort", &Comm::abort)
      .def("close", &Comm::close)
      .def("idle", &Comm::idle)
      .def("set_timeout", &Comm::set_timeout, nb::arg("seconds"))
      .def("last_choice", &Comm::last_choice)
      .def("allocate", &Comm::allocate, nb::arg("bytes"));
  add_transfer(m);
  m.def("from_environment", [] {
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
    const auto timeout = std::chrono::ceil<std::chrono::milliseconds>(std::chrono::duration<double>(seconds));
    return std::make_unique<Comm>(check(released([&] {
                                          return Communicator::connect(parsed, rank, size,
                                                                       {.transport = transport, .timeout = timeout});
                                        }),
                                        "connect"));
  });
  m.def("answer", [](const std::vector<std::string>& arguments) {
    return check(released([&]() -> Result<std::string> {
                   auto json = cli::answer(arguments);
                   if (!json) return tl::make_unexpected(json.error());
                   return json->dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
                 }),
                 "answer");
  });
}
