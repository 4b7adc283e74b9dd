// backend="weft" of torch.distributed: a c10d::Backend over include/weft. The headers beside this file are its parts;
// they are compiled as one, for torch's headers take most of a compiler's time. Written for torch 2.13 to 2.15: what
// only the newer one has stands behind its feature macros, or overrides without the word `override`; see
// docs/pytorch.md.
#include <pybind11/chrono.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/extension.h>

#include "allocator.h"
#include "channel.h"
#include "collectives.h"
#include "elastic.h"
#include "lost_ranks.h"
#include "reconfigure.h"
#include "window.h"

namespace weft::torch_adapter {
namespace {

// Messages between two ranks, and the life of the group.
class Backend final : public Collectives {
 public:
  static c10::intrusive_ptr<Backend> join(c10::intrusive_ptr<c10d::Store> store, int rank, int size,
                                          c10::intrusive_ptr<GroupOptions> options) {
    if (waits_for_reconfigure(*options))
      return c10::make_intrusive<Backend>(std::move(store), rank, size, std::move(options));
    const GroupKey key(first_keys() + "all", *options);
    auto met = meet(*store, key, rank, size, *options, options->timeout);
    if (!met) {
      if (const auto raised = raised_by_handler()) std::rethrow_exception(raised);
      raise(met.error());
    }
    if (rank == 0) forget_key(*store, key);
    auto group = c10::make_intrusive<Backend>(std::move(store), std::move(met->communicator), std::move(options));
    group->channels_prefix_ = c10::str("weft/", met->id, "/");
    return group;
  }
  static c10::intrusive_ptr<c10d::Backend> join_as_backend(c10::intrusive_ptr<c10d::Store> store, int rank, int size,
                                                           c10::intrusive_ptr<GroupOptions> options) {
    return join(std::move(store), rank, size, std::move(options));
  }

  using Collectives::Collectives;
  // Ends the threads first: what is queued may call this object.
  ~Backend() override {
    const WithoutPythonsLock waits;
    close();
    former_any_source_.clear();
    any_source_.reset();
    channels_.clear();
    former_channels_.clear();
  }

  void abort() override {
    Core::abort();
    ++interruptions_;
    const std::lock_guard guard(channels_mutex_);
    for (auto& [key, channel] : channels_) channel->abort();
  }
  void end_channels() override {
    constexpr std::chrono::seconds kGrace{1};
    const std::lock_guard guard(channels_mutex_);
    for (auto& [key, channel] : channels_) channel->close(kGrace);
    if (any_source_) any_source_->close();
  }
  bool supportsShrinking() const override { return true; }
  // Makes a group of the ranks that still live and call this; those that are excluded are not waited for.
  c10::intrusive_ptr<c10d::Backend> shrink(const std::vector<std::int64_t>& excluded, int,
                                           const c10::intrusive_ptr<c10d::Backend::Options>&) override {
    for (const auto r : excluded) {
      TORCH_CHECK_VALUE(r != getRank(), "weft: rank ", r, " is excluded and cannot shrink");
      TORCH_CHECK_VALUE(r >= 0 && r < getSize(), "weft: shrink: there is no rank ", r, " of ", getSize());
    }
    check_members(false);
    ++shrunk_;
    auto rest = lane()->communicator().shrink(std::vector<Rank>(excluded.begin(), excluded.end()));
    if (!rest) raise(rest.error());
    auto group = c10::make_intrusive<Backend>(store_, std::move(*rest), options_);
    group->channels_prefix_ = c10::str(channels_prefix_, "shrunk-", shrunk_, "/");
    return group;
  }
#ifdef C10D_BACKEND_HAS_RECONFIGURE
  bool supportsReconfigure() const override { return true; }
  c10d::ReconfigureHandle get_reconfigure_handle() const override { return handle_; }
  // Gives the group the members that the handles name, in their order; they meet through the store, each with the same
  // uuid and handles. What still runs ends with an error first. Returns when all have come; numbers of calls begin
  // anew. Errors: RuntimeError: wrong handles, a uuid that was used before; DistBackendError: members that did not come
  // within the timeout. After an error in the meeting the group has no members, and reconfigure() may be called again.
  c10::intrusive_ptr<c10d::Work> reconfigure(const c10d::ReconfigureOptions& wanted) override {
    TORCH_CHECK(on_queue_ != this, "weft: reconfigure() cannot be called in a callback of the group's own calls");
    Members members = members_of(wanted, handle_);
    TORCH_CHECK(uuids_.insert(wanted.uuid).second, "weft: uuid ", wanted.uuid, kUsed);
    const WithoutPythonsLock waits;
    leave();
    end_messages(c10::str("weft/reconfigure/", wanted.uuid, "/"));
    auto communicator =
        meet_again(*store_, wanted.uuid, members, wanted.timeout.value_or(options_->timeout), *options_);
    if (!communicator) raise(communicator.error());
    rank_ = members.rank;
    size_ = static_cast<int>(members.handles.size());
    record_as(c10::str("/", wanted.uuid), std::move(members.ranks));
    adopt(std::move(*communicator));
    return ended_work();
  }
#endif
#ifdef C10D_BACKEND_HAS_WINDOW
  // True: all ranks share memory, which a communicator over TCP or UCX does not give.
  bool supportsWindow() const override { return shares_memory(*this); }
  // Collective. Errors: see Window.
  c10::intrusive_ptr<c10d::Window> new_window(const std::optional<Tensor>& tensor) override {
    check_members(false);
    const WithoutPythonsLock waits;
    auto window = c10::make_intrusive<Window>(c10::intrusive_ptr<Collectives>::unsafe_reclaim_from_nonowning(this));
    if (tensor) window->tensor_register(*tensor, true);
    return window;
  }
#endif
  c10::intrusive_ptr<c10d::Work> send(Tensors& tensors, int to, int tag) override {
    const Tensor t = only(tensors);
    const Tensor flat = t.contiguous();
    auto job = message(OpType::SEND, "weft:send", t, c10::str(" ", getRank(), "->", to));
    move(to, true, job, flat, tag, {});
    return job;
  }
  c10::intrusive_ptr<c10d::Work> recv(Tensors& tensors, int from, int tag) override {
    const Tensor t = only(tensors);
    auto job = message(OpType::RECV, "weft:recv", t, c10::str(" ", getRank(), "<-", from));
    job->set_source(from);
    if (t.is_contiguous()) {
      move(from, false, job, t, tag, {});
    } else {
      const Tensor flat = at::empty(t.sizes(), t.options());
      move(from, false, job, flat, tag, [t, flat] { overwrite(t, flat); });
    }
    return job;
  }
  // Asks every rank's channel in turn until one offers a message with this tag. The flight record leaves it out: its
  // analyser wants to know the sender.
  c10::intrusive_ptr<c10d::Work> recvAnysource(Tensors& tensors, int tag) override {
    const Tensor t = only(tensors);
    auto job = message(OpType::RECVANYSOURCE, "weft:recvAnySource", t, {});
    any_source().start(std::function<Status(Communicator&)>(
        [this, job, t, tag, members = members_.load(), since = interruptions_.load()](Communicator&) -> Status {
          const auto until = std::chrono::steady_clock::now() + job->getTimeout();
          while (std::chrono::steady_clock::now() < until && interruptions_ == since) {
            for (int peer = 0; peer < getSize(); ++peer) {
              if (!announced(peer)) continue;
              std::optional<Status> ended;
              channel(peer, false)->now(job->getTimeout(), [&](Result<Channel*> c) {
                if (c && *c == nullptr) return;
                if (!c) return void(ended = tl::make_unexpected(c.error()));
                const auto offers = (*c)->offers(tag);
                if (!offers)
                  ended = tl::make_unexpected(offers.error());
                else if (*offers)
                  job->set_source(peer), ended = receive_into(**c, t, tag, job->getTimeout());
              });
              if (ended) return end_message(job, members, in_group(*ended, {peer, false, tag})), Status{};
            }
            std::this_thread::sleep_for(std::chrono::microseconds(50));
          }
          const std::string call = c10::str("rank ", getRank(), ": recv from any rank with tag ", tag);
          Error error{Code::kTimeout, Blame::kOperation,
                      c10::str(call, ": waited ", job->getTimeout().count(), " ms, and none has come")};
          if (interruptions_ != since) error = {Code::kAborted, Blame::kOperation, "weft: " + call + ": aborted"};
          end_message(job, members, tl::make_unexpected(std::move(error)));
          return {};
        }));
    return job;
  }

 private:
  // `after`: once the message has been moved, if it was.
  void move(int peer, bool sends, const c10::intrusive_ptr<Job>& job, const Tensor& flat, int tag,
            std::function<void()> after) {
    const auto messages = channel(peer, sends);
    const Route route{peer, sends, tag};
    if (const auto lost = sends ? lost_.known(peer) : std::nullopt) {
      job->begin();
      return end_message(job, members_, in_group(tl::make_unexpected(*lost), route));
    }
    const auto end = [this, job, route, after = std::move(after), members = members_.load()](const Status& s) {
      if (s && after) after();
      end_message(job, members, in_group(s, route));
    };
    const auto number = messages->start({flat, tag, job->getTimeout(), [job] { job->begin(); }, end});
    if (coalesces()) messages->hurry();  // the caller waits for all, and not for this one
    job->moved_by([weak = std::weak_ptr<Messages>(messages), n = number](milliseconds limit) {
      const auto messages = weak.lock();
      if (!messages) return false;
      if (limit > milliseconds(0)) return messages->help(n, limit);
      return messages->hurry(), false;
    });
  }
  // An error of the communicator that this rank has with another one, with the group's numbers of ranks and the call.
  // Where the other one is lost to the group, too, the words of that count, which say why.
  Status in_group(const Status& s, const Route& route) {
    if (s || s.error().code == Code::kInvalidArgument) return s;
    const bool may_be_lost = s.error().code != Code::kMismatch && s.error().code != Code::kInternal;
    auto lost = may_be_lost ? this->lost(route.peer) : std::nullopt;
    Error e = lost ? std::move(*lost) : with_numbers_of_group(s.error(), route, getRank());
    if (route.peer != getRank()) lost_.note(route.peer, e);
    e.message = c10::str("rank ", getRank(), ": ", route.sends ? "send to" : "recv from", " rank ", route.peer,
                         " with tag ", route.tag, ": ", e.message);
    return tl::make_unexpected(std::move(e));
  }
  // Why this rank cannot be talked to any more, as far as messages or the group's communicator have found that out;
  // null: it can be, or nobody knows.
  std::optional<Error> lost(int peer) {
    if (peer == getRank()) return std::nullopt;
    if (auto known = lost_.known(peer)) return known;
    const Status group = broken();
    return group ? std::nullopt : lost_.note(peer, without_call(group.error()));
  }
  // `members`: as when the message was asked for.
  void end_message(const c10::intrusive_ptr<Job>& job, int members, const Status& status) {
    if (members == members_) after_failure(status);
    job->end(as_exception(status));
  }
  // Ends what moves between the members so far; later messages meet by keys with this prefix. A channel that nobody at
  // the other end has opened only ends when its time is up: it is kept until then.
  void end_messages(const std::string& prefix) {
    ++interruptions_, ++members_;
    const std::lock_guard guard(channels_mutex_);
    for (auto& [key, channel] : channels_) {
      channel->abort();
      former_channels_.push_back(std::move(channel));
    }
    channels_.clear();
    lost_.clear();
    channels_prefix_ = prefix;
    former_any_source_.push_back(std::move(any_source_));
  }
  // `route`: as Job's; empty: the message is not recorded.
  c10::intrusive_ptr<Job> message(OpType type, const char* own, const Tensor& t, const std::string& route) {
    check_members(false);
    const Task task{.type = type, .title = title(own), .inputs = {t}, .results = {t}};
    RecordedGroup* const group = route.empty() ? nullptr : recorded();
    auto job = c10::make_intrusive<Job>(getRank(), task, ++sequence_, group, options_->timeout, endings_, route);
    note(job);
    return job;
  }
  static Status receive_into(Channel& c, const Tensor& t, int tag, milliseconds timeout) {
    const Tensor flat = t.is_contiguous() ? t : at::empty(t.sizes(), t.options());
    if (const auto s = c.receive(flat, tag, std::nullopt, timeout); !s) return tl::make_unexpected(s.error());
    if (!t.is_contiguous()) overwrite(t, flat);
    return {};
  }

  std::string channel_key(int from, int to) const { return c10::str(channels_prefix_, from, "-", to); }
  bool announced(int peer) {
    std::string key;
    {
      const std::lock_guard guard(channels_mutex_);
      if (peer == getRank()) return channels_.contains({peer, true});
      key = channel_key(peer, getRank());
    }
    return store_->check({key});
  }
  std::shared_ptr<Messages> channel(int peer, bool sends) {
    TORCH_CHECK_VALUE(peer >= 0 && peer < getSize(), "weft: rank ", peer, " is not one of ", getSize());
    const std::lock_guard guard(channels_mutex_);
    auto& found = channels_[{peer, sends}];
    if (!found && peer == getRank()) {
      open_both_ends_here();
    } else if (!found) {
      const std::string key = sends ? channel_key(getRank(), peer) : channel_key(peer, getRank());
      found = std::make_shared<Messages>(
          [this, key, peer, sends, store = store_, options = options_](milliseconds timeout) -> Result<Communicator> {
            const auto peer_is_lost = [&] { return lost(peer).has_value(); };
            auto met = meet(*store, GroupKey(key), sends ? 0 : 1, 2, *options, timeout, peer_is_lost);
            if (!met) return tl::make_unexpected(met.error());
            met->communicator.set_timeout(options->timeout);
            return std::move(met->communicator);
          },
          sends);
    }
    return found;
  }
  // Messages of this rank to itself.
  void open_both_ends_here() {
    auto ends = Communicator::threads(2);
    if (!ends) raise(ends.error());
    for (const bool sends : {true, false}) {
      auto end = std::make_shared<Communicator>(std::move((*ends)[sends ? 0 : 1]));
      end->set_timeout(options_->timeout);
      channels_[{getRank(), sends}] =
          std::make_shared<Messages>([end](milliseconds) -> Result<Communicator> { return std::move(*end); }, sends);
    }
  }
  Queue& any_source() {
    const std::lock_guard guard(channels_mutex_);
    if (!any_source_) any_source_ = std::make_unique<Queue>(std::move(Communicator::threads(1).value().front()));
    return *any_source_;
  }

  std::atomic<int> members_{0};                 // how often they have changed
  std::atomic<int> interruptions_{0};           // calls of abort() and reconfigure()
  std::mutex channels_mutex_;                   // of what follows
  std::string channels_prefix_ = first_keys();  // of keys in the store: no two groups have the same
  int shrunk_ = 0;                              // calls of shrink(), the same number on all ranks
  std::vector<std::shared_ptr<Messages>> former_channels_;
  std::map<std::pair<int, bool>, std::shared_ptr<Messages>> channels_;
  LostRanks lost_;
  std::unique_ptr<Queue> any_source_;                      // uses the channels
  std::vector<std::unique_ptr<Queue>> former_any_source_;  // likewise
#ifdef C10D_BACKEND_HAS_RECONFIGURE
  const std::string handle_ = new_handle(*options_, getRank());
  std::set<std::int64_t> uuids_;  // of all reconfigure() calls
#endif
};

}  // namespace
}  // namespace weft::torch_adapter

namespace weft::torch_adapter {
namespace {

namespace py = pybind11;

milliseconds to_milliseconds(double seconds) { return milliseconds(static_cast<std::int64_t>(seconds * 1000)); }

void bind_options(py::module_& m) {
  py::class_<GroupOptions, c10d::Backend::Options, c10::intrusive_ptr<GroupOptions>>(m, "Options")
      .def(py::init([](double seconds, bool reproducible, std::string algorithm, std::string transport) {
             auto o = c10::make_intrusive<GroupOptions>(to_milliseconds(seconds));
             o->reproducible = reproducible;
             o->algorithm = std::move(algorithm);
             o->transport = std::move(transport);
             return o;
           }),
           py::arg("timeout") = 1800.0, py::arg("reproducible") = false, py::arg("algorithm") = "",
           py::arg("transport") = "")
      .def_readwrite("reproducible", &GroupOptions::reproducible)
      .def_readwrite("algorithm", &GroupOptions::algorithm)
      .def_readwrite("transport", &GroupOptions::transport);
}

// The class of weft's groups. It has the constructors and options of torch's own for gloo, in whose place _gloo.py puts
// it.
void bind_gloo(py::module_& m) {
  py::class_<Backend, c10d::Backend, c10::intrusive_ptr<Backend>> gloo(m, "ProcessGroupWeft");
  py::class_<GlooDevice>(gloo, "Device").def("__repr__", [](const GlooDevice& d) {
    return "<weft instead of gloo's device, interface '" + d.interface + "'>";
  });
  py::class_<GlooOptions, GroupOptions, c10::intrusive_ptr<GlooOptions>> options(gloo, "_Options");
  options.def(py::init([] { return c10::make_intrusive<GlooOptions>(); }))
      .def_readwrite("_threads", &GlooOptions::threads)
      .def_readwrite("threads", &GlooOptions::threads)
      .def_readwrite("_devices", &GlooOptions::devices)
      .def_readwrite("devices", &GlooOptions::devices);
  gloo.attr("Options") = options;
  gloo.def(py::init([](const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                       const c10::intrusive_ptr<GlooOptions>& o) {
             if (!o->devices.empty()) o->interface = o->devices.back().interface;
             return Backend::join(store, rank, size, o);
           }),
           py::arg("store"), py::arg("rank"), py::arg("size"), py::arg("options"),
           py::call_guard<py::gil_scoped_release>())
      .def(py::init([](const c10::intrusive_ptr<c10d::Store>& store, int rank, int size, milliseconds timeout,
                       bool enable_reconfigure) {
             auto o = c10::make_intrusive<GlooOptions>();
             o->timeout = timeout;
#ifdef C10D_BACKEND_HAS_RECONFIGURE
             o->enable_reconfigure = enable_reconfigure;
#else
             TORCH_CHECK(!enable_reconfigure, "weft: this torch has no reconfigure()");
#endif
             return Backend::join(store, rank, size, std::move(o));
           }),
           py::arg("store"), py::arg("rank"), py::arg("size"), py::arg("timeout") = GlooOptions().timeout,
           py::arg("enable_reconfigure") = false, py::call_guard<py::gil_scoped_release>())
      .def_property_readonly("options", &Backend::options)
      .def("_set_default_timeout", &Backend::setTimeout, py::arg("timeout"), py::call_guard<py::gil_scoped_release>());
  gloo.def_static(
      "create_device",
      [](std::string hostname, std::string interface, std::optional<bool>) {
        TORCH_CHECK(!hostname.empty() || !interface.empty(),
                    "makeDeviceForInterface(): interface or hostname can't be empty");
        return GlooDevice{std::move(hostname), std::move(interface)};
      },
      py::arg("hostname") = "", py::arg("interface") = "", py::arg("lazy_init") = std::nullopt);
  gloo.def_static(
      "create_default_device", [](std::optional<bool>) { return GlooDevice{}; }, py::arg("lazy_init") = std::nullopt);
  bind_elastic(m, gloo);
}

}  // namespace
}  // namespace weft::torch_adapter

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  namespace adapter = weft::torch_adapter;
  adapter::py::module_::import("torch.distributed");  // has the base classes
  adapter::bind_options(m);
  adapter::bind_gloo(m);
  m.def("flight_record",
        [](bool only_active) { return pybind11::bytes(adapter::FlightRecord::of_process().pickled(only_active)); });
  m.def(
      "place_tensors",
      [](const adapter::Backend& group) {
        const auto lane = group.lane();
        TORCH_CHECK_VALUE(lane, "weft: the group has no communicator");
        return adapter::RegisteredAllocator::of_process().on(lane);
      },
      pybind11::arg("group"));
  m.def(
      "place_tensors_no_more", [](int user) { adapter::RegisteredAllocator::of_process().off(user); },
      pybind11::arg("user"));
  m.def("carried", [] {
    std::vector<std::tuple<std::string, std::string, int, int>> all;
    for (const auto& c : adapter::Backend::carried()) all.emplace_back(c.name, c.asked_for, c.rank, c.size);
    return all;
  });
  m.def("abort_all", &adapter::Backend::abort_all, pybind11::arg("why"),
        pybind11::call_guard<pybind11::gil_scoped_release>());
  m.def("end_threads", &adapter::Backend::end_threads, pybind11::call_guard<pybind11::gil_scoped_release>());
  m.def("join", &adapter::Backend::join_as_backend, pybind11::arg("store"), pybind11::arg("rank"),
        pybind11::arg("size"), pybind11::arg("options"), pybind11::call_guard<pybind11::gil_scoped_release>());
}
