// backend="weft" of torch.distributed: a c10d::Backend over include/weft. One file, for torch's headers take most of a
// compiler's time. Written for torch 2.13; see docs/pytorch.md.
#include <torch/csrc/autograd/python_variable.h>
#include <torch/extension.h>

#include <ATen/core/ivalue.h>
#include <c10/util/Exception.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include <deque>
#include <map>
#include <numeric>

#include "../src/lane.h"
#include "weft/unique_id.h"

namespace weft::torch_adapter {
namespace {

using at::Tensor;
using c10d::OpType;
using std::chrono::milliseconds;
using Tensors = std::vector<Tensor>;

// --- errors ---

[[noreturn]] void raise(const Error& error) {
  switch (error.code) {
    case Code::kInvalidArgument:
      C10_THROW_ERROR(ValueError, error.message);
    case Code::kUnsupported:
      C10_THROW_ERROR(NotImplementedError, error.message);
    case Code::kTimeout:  // torch's own tests look for these words
      C10_THROW_ERROR(DistBackendError, c10::str("weft: Timed out in ", error.message));
    default:
      C10_THROW_ERROR(DistBackendError, error.message);
  }
}
void check(const Status& status) {
  if (!status) raise(status.error());
}
std::exception_ptr as_exception(const Status& status) {
  if (status) return nullptr;
  try {
    raise(status.error());
  } catch (...) {
    return std::current_exception();
  }
}
Status invalid(std::string text) {
  return tl::make_unexpected(Error{Code::kInvalidArgument, Blame::kInput, std::move(text)});
}

// --- element types and operations ---

std::optional<DataType> data_type(at::ScalarType type) {
  switch (type) {
    case at::kChar:
      return DataType::kInt8;
    case at::kShort:
      return DataType::kInt16;
    case at::kInt:
      return DataType::kInt32;
    case at::kLong:
      return DataType::kInt64;
    case at::kByte:
    case at::kBool:
      return DataType::kUint8;
    case at::kUInt16:
      return DataType::kUint16;
    case at::kUInt32:
      return DataType::kUint32;
    case at::kUInt64:
      return DataType::kUint64;
    case at::kHalf:
      return DataType::kFloat16;
    case at::kBFloat16:
      return DataType::kBfloat16;
    case at::kFloat:
      return DataType::kFloat32;
    case at::kDouble:
      return DataType::kFloat64;
    case at::kFloat8_e4m3fn:
      return DataType::kFloat8E4M3;
    case at::kFloat8_e5m2:
      return DataType::kFloat8E5M2;
    default:
      return std::nullopt;
  }
}

// How a tensor's elements cross: as numbers of `type`, `factor` for each element.
struct Elements {
  DataType type;
  std::size_t factor;
};
// Where nothing is computed, every type crosses, as bytes if need be.
Elements moved(const Tensor& t) {
  if (const auto type = data_type(t.scalar_type())) return {*type, 1};
  return {DataType::kUint8, static_cast<std::size_t>(t.element_size())};
}

struct Reduction {
  Elements elements;
  ReduceOp op = ReduceOp::kSum;
  std::optional<Scalar> scalar = {};
};
Reduction reduction(const c10d::ReduceOp& asked, const Tensor& t) {
  Reduction r{moved(t)};
  const bool is_bool = t.scalar_type() == at::kBool;
  if (t.is_complex()) {
    using C = c10d::ReduceOp;
    TORCH_CHECK_VALUE(asked.op_ == C::SUM || asked.op_ == C::AVG || asked.op_ == C::PREMUL_SUM,
                      "weft: complex numbers have SUM, AVG and PREMUL_SUM only");
    r.elements = {t.scalar_type() == at::kComplexDouble ? DataType::kFloat64 : DataType::kFloat32, 2};
    TORCH_CHECK_VALUE(t.scalar_type() != at::kComplexHalf, "weft: ComplexHalf is not reduced");
  } else {
    TORCH_CHECK_VALUE(data_type(t.scalar_type()), "weft: elements of type ", t.scalar_type(), " are not reduced");
  }
  switch (asked.op_) {
    case c10d::ReduceOp::SUM:
      r.op = is_bool ? ReduceOp::kOr : ReduceOp::kSum;
      break;
    case c10d::ReduceOp::AVG:
      TORCH_CHECK_VALUE(!is_bool, "weft: booleans have no average");
      r.op = ReduceOp::kAvg;
      break;
    case c10d::ReduceOp::PRODUCT:
      r.op = is_bool ? ReduceOp::kAnd : ReduceOp::kProd;
      break;
    case c10d::ReduceOp::MIN:
      r.op = ReduceOp::kMin;
      break;
    case c10d::ReduceOp::MAX:
      r.op = ReduceOp::kMax;
      break;
    case c10d::ReduceOp::BAND:
      r.op = ReduceOp::kAnd;
      break;
    case c10d::ReduceOp::BOR:
      r.op = ReduceOp::kOr;
      break;
    case c10d::ReduceOp::BXOR:
      r.op = ReduceOp::kXor;
      break;
    case c10d::ReduceOp::PREMUL_SUM: {
      r.op = ReduceOp::kPremulSum;
      const auto* factor = static_cast<const c10d::PreMulSumSupplement*>(asked.supplement_.get());
      TORCH_CHECK_VALUE(factor != nullptr, "weft: PREMUL_SUM needs a factor");
      r.scalar =
          Scalar::of(factor->tensor_factor.defined() ? factor->tensor_factor.item<double>() : factor->double_factor);
      break;
    }
    default:
      TORCH_CHECK_VALUE(false, "weft: unknown reduction");
  }
  TORCH_CHECK_VALUE(applies(r.elements.type, r.op), "weft: BAND, BOR and BXOR are for integers, not for ",
                    t.scalar_type());
  return r;
}

void check_dense(const Tensor& t) {
  TORCH_CHECK_VALUE(t.device().is_cpu(), "weft: the tensor is on ", t.device(), ", but backend weft is for the CPU");
  TORCH_CHECK_VALUE(t.layout() == at::kStrided, "weft: the tensor is not dense");
}
void check_dense(const Tensors& ts) {
  for (const Tensor& t : ts) check_dense(t);
}
const Tensor& only(const Tensors& ts) {
  TORCH_CHECK_VALUE(ts.size() == 1, "weft: one tensor is expected, not ", ts.size());
  check_dense(ts[0]);
  return ts[0];
}

// --- work ---

// A collective, ready to run. `call` runs once; `after` copies results to where the caller wants them.
struct Task {
  OpType type;
  const char* title;  // "weft:all_reduce"
  Tensors inputs;     // for the profiler
  Tensors results;
  std::function<Status(Communicator&)> call;
  std::function<void()> after = {};
  milliseconds timeout = c10d::kUnsetTimeout;
  bool async = true;
};

class Job final : public c10d::Work {
 public:
  Job(int rank, const Task& task, std::uint64_t number)
      : Work(rank, task.type, task.title, task.inputs), results_(task.results), number_(number) {}

  // Called once, on the thread that carried the task out.
  void end(std::exception_ptr problem) {
    c10::intrusive_ptr<c10::ivalue::Future> future;
    {
      const std::lock_guard guard(future_mutex_);
      ended_ = true;
      problem_ = problem;
      future = future_;
    }
    finish(problem);
    if (future) settle(*future);
  }
  Tensors result() override { return results_; }
  int sourceRank() const override { return source_; }
  void set_source(int rank) { source_ = rank; }
  std::uint64_t getSequencenumber() const override { return number_; }
  void abort() override {}
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override {
    c10::intrusive_ptr<c10::ivalue::Future> future;
    bool ended = false;
    {
      const std::lock_guard guard(future_mutex_);
      if (future_) return future_;
      future = future_ = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
      ended = ended_;
    }
    if (ended) settle(*future);
    return future;
  }

 private:
  void settle(c10::ivalue::Future& future) {
    if (problem_)
      future.setError(problem_);
    else
      future.markCompleted(c10::IValue(results_));
  }

  Tensors results_;
  std::uint64_t number_;
  std::atomic<int> source_{-1};
  std::mutex future_mutex_;
  bool ended_ = false;
  std::exception_ptr problem_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

std::exception_ptr carry_out(Communicator& c, const Task& task) {
  const at::NoGradGuard no_gradients;
  try {
    const Status status = task.call(c);
    if (!status) return as_exception(status);
    if (task.after) task.after();
    return nullptr;
  } catch (...) {
    return std::current_exception();
  }
}

// Messages of one rank to one other: a communicator of two of their own, so that they need not keep to the order of
// collectives or of other pairs. A header of tag and bytes precedes every message; what a receive does not ask for is
// kept for a later one. Thread: all calls of a channel run one after the other on its lane.
class Channel {
 public:
  Channel(Communicator c, bool sends) : communicator_(std::move(c)), peer_(1 - communicator_.rank()), sends_(sends) {}

  bool sends() const { return sends_; }
  Status send(const Tensor& data, int tag) {
    std::int64_t header[2] = {tag, static_cast<std::int64_t>(data.nbytes())};
    if (auto s = transfer(Transfer::Direction::kSend, header, 16); !s) return s;
    return transfer(Transfer::Direction::kSend, data.data_ptr(), data.nbytes());
  }
  Status receive(const Tensor& data, int tag) {
    for (auto at = kept_.begin(); at != kept_.end(); ++at)
      if (at->tag == tag) {
        const Kept found = std::move(*at);
        kept_.erase(at);
        if (found.bytes.size() != data.nbytes()) return differs(found.bytes.size(), data);
        std::memcpy(data.data_ptr(), found.bytes.data(), found.bytes.size());
        return {};
      }
    for (;;) {
      std::int64_t header[2];
      if (auto s = take_header(header); !s) return s;
      const auto bytes = static_cast<std::size_t>(header[1]);
      if (header[0] == tag && bytes == data.nbytes())
        return transfer(Transfer::Direction::kReceive, data.data_ptr(), bytes);
      Kept kept{static_cast<int>(header[0]), std::vector<std::byte>(bytes)};
      if (auto s = transfer(Transfer::Direction::kReceive, kept.bytes.data(), bytes); !s) return s;
      if (header[0] == tag) return differs(bytes, data);
      kept_.push_back(std::move(kept));
    }
  }
  // Is a message with this tag here, or about to be? Does not wait.
  Result<bool> offers(int tag) {
    for (const Kept& k : kept_)
      if (k.tag == tag) return true;
    for (;;) {
      if (!announced_) {
        const Transfer t{Transfer::Direction::kReceive, peer_, next_, 16, DataType::kUint8};
        auto started = communicator_.start({&t, 1});
        if (!started) return tl::make_unexpected(started.error());
        announced_ = *started;
      }
      const auto here = announced_->test();
      if (!here || !*here) return here;
      if (next_[0] == tag) return true;
      Kept kept{static_cast<int>(next_[0]), std::vector<std::byte>(static_cast<std::size_t>(next_[1]))};
      announced_.reset();
      if (auto s = transfer(Transfer::Direction::kReceive, kept.bytes.data(), kept.bytes.size()); !s)
        return tl::make_unexpected(s.error());
      kept_.push_back(std::move(kept));
    }
  }
  Communicator& communicator() { return communicator_; }

 private:
  struct Kept {
    int tag;
    std::vector<std::byte> bytes;
  };
  static Status differs(std::size_t bytes, const Tensor& data) {
    return invalid(c10::str("weft: recv of ", data.nbytes(), " bytes, but the message has ", bytes));
  }
  Status take_header(std::int64_t (&header)[2]) {
    if (announced_) {
      if (auto s = announced_->wait(); !s) return s;
      announced_.reset();
      std::memcpy(header, next_, sizeof header);
      return {};
    }
    return transfer(Transfer::Direction::kReceive, header, 16);
  }
  Status transfer(Transfer::Direction direction, void* data, std::size_t bytes) {
    if (bytes == 0) return {};
    const Transfer t{direction, peer_, data, bytes, DataType::kUint8};
    return communicator_.exchange({&t, 1});
  }

  Communicator communicator_;
  Rank peer_;
  bool sends_;
  std::deque<Kept> kept_;
  std::int64_t next_[2] = {};            // the header that `announced_` receives
  std::optional<weft::Work> announced_;  // null: none is being received ahead
};

// A thread on which the messages of one channel move, in the order in which they were asked for.
class ChannelThread {
 public:
  using Open = std::function<Result<Communicator>()>;
  ChannelThread(Open open, bool sends) : open_(std::move(open)), sends_(sends), queue_(alone()) {}

  void start(std::function<void(Result<Channel*>)> job) {
    queue_.start([this, job = std::move(job)](Communicator&) -> Status {
      const std::lock_guard guard(mutex_);
      job(channel());
      return {};
    });
  }
  // The channel if nothing uses it now and it is open, or `open_too`; null otherwise.
  template <class Use>
  auto now(Use use) {
    const std::unique_lock guard(mutex_, std::try_to_lock);
    return use(guard.owns_lock() ? channel() : Result<Channel*>(nullptr));
  }
  void abort() {
    if (opened_.load(std::memory_order_acquire)) channel_->communicator().abort();
  }

 private:
  static Communicator alone() { return std::move(Communicator::threads(1).value().front()); }
  Result<Channel*> channel() {
    if (!channel_) {
      auto made = open_();
      if (!made) return tl::make_unexpected(made.error());
      channel_.emplace(std::move(*made), sends_);
      opened_.store(true, std::memory_order_release);
    }
    return &*channel_;
  }

  std::mutex mutex_;  // of the channel
  Open open_;
  bool sends_;
  std::optional<Channel> channel_;
  std::atomic<bool> opened_{false};
  Queue queue_;  // last: its thread uses all the others
};

// --- the backend ---

class Backend final : public c10d::Backend {
 public:
  struct Options final : c10d::Backend::Options {
    explicit Options(milliseconds timeout) : c10d::Backend::Options("weft", timeout) {}
    bool reproducible = false;
    std::string algorithm, transport;
  };

  static c10::intrusive_ptr<c10d::Backend> join(c10::intrusive_ptr<c10d::Store> store, int rank, int size,
                                                c10::intrusive_ptr<Options> options) {
    auto communicator = meet(*store, "weft/all", rank, size, options->transport, options->timeout);
    if (!communicator) raise(communicator.error());
    return c10::make_intrusive<Backend>(std::move(store), std::move(*communicator), std::move(options));
  }

  Backend(c10::intrusive_ptr<c10d::Store> store, Communicator communicator, c10::intrusive_ptr<Options> options)
      : c10d::Backend(communicator.rank(), communicator.ranks()),
        store_(std::move(store)),
        options_(std::move(options)),
        timeout_(options_->timeout),
        lane_(std::move(communicator)) {
    lane_.communicator().set_timeout(timeout_);
  }
  ~Backend() override { lane_.close(); }

  const std::string getBackendName() const override { return "weft"; }
  c10::intrusive_ptr<c10d::Backend::Options> getBackendOptions() override { return options_; }
  void setTimeout(milliseconds timeout) override { options_->timeout = timeout; }
  void setSequenceNumberForGroup() override {}
  std::uint64_t getSequenceNumberForGroup() override { return sequence_; }
  c10d::ErrorType getError() override {
    const Status status = lane_.communicator().status();
    if (status) return c10d::ErrorType::SUCCESS;
    return status.error().code == Code::kTimeout ? c10d::ErrorType::TIMEOUT : c10d::ErrorType::COMM_ERROR;
  }
  void abort() override {
    lane_.abort();
    const std::lock_guard guard(channels_mutex_);
    for (auto& [key, channel] : channels_) channel->abort();
  }
  void shutdown() override {
    const std::lock_guard guard(mutex_);
    lane_.close();
  }
  bool supportsShrinking() const override { return true; }
  // Makes a group of the ranks that still live and call this.
  c10::intrusive_ptr<c10d::Backend> shrink(const std::vector<std::int64_t>& excluded, int,
                                           const c10::intrusive_ptr<c10d::Backend::Options>&) override {
    for (const auto r : excluded) TORCH_CHECK_VALUE(r != getRank(), "weft: rank ", r, " is excluded and cannot shrink");
    auto rest = lane_.communicator().shrink();
    if (!rest) raise(rest.error());
    return c10::make_intrusive<Backend>(store_, std::move(*rest), options_);
  }
  bool supportsTensorAlloc(c10::DeviceIndex) override { return true; }
  // Registered memory: collectives on it need no intermediate copy.
  Tensor allocateTensor(long size, at::TensorOptions options) override {
    const auto type = c10::typeMetaToScalarType(options.dtype());
    auto memory = lane_.communicator().allocate(static_cast<std::size_t>(size) * c10::elementSize(type));
    if (!memory) raise(memory.error());
    auto owner = std::make_shared<Memory>(std::move(*memory));
    return at::from_blob(
        owner->data(), {size}, [owner](void*) {}, options.device(at::kCPU));
  }

  c10::intrusive_ptr<c10d::Work> broadcast(Tensors& tensors, const c10d::BroadcastOptions& o) override {
    const Tensor& t = only(tensors);
    const Tensor flat = t.contiguous();
    const auto e = moved(t);
    return start({.type = OpType::BROADCAST,
                  .title = "weft:broadcast",
                  .inputs = {t},
                  .results = {t},
                  .call = call({.collective = Collective::kBroadcast,
                                .in = flat.data_ptr(),
                                .out = flat.data_ptr(),
                                .count = flat.numel() * e.factor,
                                .type = e.type,
                                .root = root(o.rootRank)},
                               {flat}),
                  .after = copy_back(t, flat),
                  .timeout = o.timeout,
                  .async = o.asyncOp});
  }

  c10::intrusive_ptr<c10d::Work> allreduce(Tensors& tensors, const c10d::AllreduceOptions& o) override {
    if (tensors.size() == 1 && tensors[0].layout() == at::kSparse) return allreduce_sparse(tensors, o);
    return reduce_all(tensors, o, OpType::ALLREDUCE, "weft:all_reduce");
  }
  c10::intrusive_ptr<c10d::Work> allreduce_coalesced(Tensors& tensors,
                                                     const c10d::AllreduceCoalescedOptions& o) override {
    return reduce_all(tensors, o, OpType::ALLREDUCE_COALESCED, "weft:all_reduce_coalesced");
  }

  // The sum of COO tensors: every rank gets all indices and values, and adds those of equal indices.
  c10::intrusive_ptr<c10d::Work> allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& o) override {
    TORCH_CHECK_VALUE(tensors.size() == 1, "weft: one sparse tensor is expected");
    TORCH_CHECK_VALUE(o.reduceOp.op_ == c10d::ReduceOp::SUM, "weft: sparse tensors have SUM only");
    const Tensor t = tensors[0];
    TORCH_CHECK_VALUE(t.device().is_cpu(), "weft: the tensor is on ", t.device(), ", but backend weft is for the CPU");
    return start(
        {.type = OpType::_ALLREDUCE_SPARSE,
         .title = "weft:sparse_all_reduce",
         .inputs = {t},
         .results = {t},
         .call = [t, n = getSize()](Communicator& c) -> Status {
           const Tensor mine = t.coalesce();
           const Tensor values = mine.values().contiguous(), indices = mine.indices().t().contiguous();
           std::int64_t rows = mine._nnz();
           std::vector<std::int64_t> all_rows(n);
           if (auto s = c.all_gather<std::int64_t>({&rows, 1}, all_rows); !s) return s;
           const std::int64_t total = std::accumulate(all_rows.begin(), all_rows.end(), std::int64_t{0});
           const auto gather = [&](const Tensor& part, Tensor& all) -> Status {
             auto sizes = part.sizes().vec();
             sizes[0] = total;
             all = at::empty(sizes, part.options());
             const auto e = moved(part);
             const std::size_t row = part.numel() / std::max<std::int64_t>(rows, 1) * e.factor;
             std::size_t elements = e.factor;
             for (std::size_t d = 1; d < sizes.size(); ++d) elements *= sizes[d];
             (void)row;
             std::vector<std::size_t> counts;
             for (const auto r : all_rows) counts.push_back(r * elements);
             if (all.numel() == 0) return {};
             return c.run({.collective = Collective::kAllGatherV,
                           .in = part.data_ptr(),
                           .out = all.data_ptr(),
                           .counts = counts,
                           .type = e.type});
           };
           Tensor all_indices, all_values;
           if (auto s = gather(indices, all_indices); !s) return s;
           if (auto s = gather(values, all_values); !s) return s;
           const Tensor sum =
               at::sparse_coo_tensor(all_indices.t().contiguous(), all_values, t.sizes(), t.options()).coalesce();
           Tensor(t).copy_(sum);
           return {};
         },
         .timeout = o.timeout,
         .async = o.asyncOp});
  }

  c10::intrusive_ptr<c10d::Work> reduce(Tensors& tensors, const c10d::ReduceOptions& o) override {
    const Tensor& t = only(tensors);
    const bool is_root = o.rootRank == getRank();
    const Tensor flat = t.contiguous();
    const auto r = reduction(o.reduceOp, t);
    return start({.type = OpType::REDUCE,
                  .title = "weft:reduce",
                  .inputs = {t},
                  .results = {t},
                  .call = call({.collective = Collective::kReduce,
                                .in = flat.data_ptr(),
                                .out = is_root ? flat.data_ptr() : nullptr,
                                .count = flat.numel() * r.elements.factor,
                                .type = r.elements.type,
                                .op = r.op,
                                .scalar = r.scalar,
                                .root = root(o.rootRank)},
                               {flat}),
                  .after = is_root ? copy_back(t, flat) : nullptr,
                  .timeout = o.timeout,
                  .async = o.asyncOp});
  }

  c10::intrusive_ptr<c10d::Work> allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                                           const c10d::AllgatherOptions& o) override {
    const Tensor& in = only(inputs);
    TORCH_CHECK_VALUE(outputs.size() == 1, "weft: one list of outputs is expected");
    return start(gather_list(outputs[0], in, o, OpType::ALLGATHER, "weft:all_gather"));
  }
  c10::intrusive_ptr<c10d::Work> _allgather_base(Tensor& output, Tensor& input,
                                                 const c10d::AllgatherOptions& o) override {
    return start(gather_flat(output, input, o));
  }
  // One call for every pair of input and list of outputs: outputs[i][rank] is rank's inputs[i].
  c10::intrusive_ptr<c10d::Work> allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                                                     const c10d::AllgatherOptions& o) override {
    TORCH_CHECK_VALUE(outputs.size() == static_cast<std::size_t>(getSize()),
                      "weft: a list of outputs for every rank is expected");
    std::vector<Task> tasks;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      check_dense(inputs[i]);
      Tensors parts;
      for (const Tensors& of_rank : outputs) {
        TORCH_CHECK_VALUE(of_rank.size() == inputs.size(), "weft: an output for every input is expected");
        parts.push_back(of_rank[i]);
      }
      tasks.push_back(gather_list(parts, inputs[i], o, OpType::ALLGATHER_COALESCED, "weft:all_gather"));
    }
    return start(joined(std::move(tasks), OpType::ALLGATHER_COALESCED, "weft:all_gather_coalesced", o.asyncOp));
  }
  c10::intrusive_ptr<c10d::Work> allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                                 const c10d::AllgatherOptions& o) override {
    TORCH_CHECK_VALUE(outputs.size() == inputs.size(), "weft: an output for every input is expected");
    std::vector<Task> tasks;
    for (std::size_t i = 0; i < inputs.size(); ++i) tasks.push_back(gather_flat(outputs[i], inputs[i], o));
    return start(joined(std::move(tasks), OpType::_ALLGATHER_BASE, "weft:all_gather_into_tensor_coalesced", o.asyncOp));
  }

  c10::intrusive_ptr<c10d::Work> gather(std::vector<Tensors>& outputs, Tensors& inputs,
                                        const c10d::GatherOptions& o) override {
    const Tensor& t = only(inputs);
    const bool is_root = o.rootRank == getRank();
    TORCH_CHECK_VALUE(outputs.size() == (is_root ? 1 : 0), "weft: gather has outputs on its root only");
    const Tensor in = t.contiguous();
    const auto e = moved(t);
    Tensors parts = is_root ? outputs[0] : Tensors();
    Tensor all;
    if (is_root) {
      check_parts(parts, t);
      all = at::empty({getSize() * t.numel()}, t.options());
    }
    return start({.type = OpType::GATHER,
                  .title = "weft:gather",
                  .inputs = {t},
                  .results = parts,
                  .call = call({.collective = Collective::kGather,
                                .in = in.data_ptr(),
                                .out = is_root ? all.data_ptr() : nullptr,
                                .count = in.numel() * e.factor,
                                .type = e.type,
                                .root = root(o.rootRank)},
                               {in, all}),
                  .after = is_root ? cut(all, parts) : nullptr,
                  .timeout = o.timeout,
                  .async = o.asyncOp});
  }

  c10::intrusive_ptr<c10d::Work> scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                         const c10d::ScatterOptions& o) override {
    const Tensor& t = only(outputs);
    const bool is_root = o.rootRank == getRank();
    TORCH_CHECK_VALUE(inputs.size() == (is_root ? 1 : 0), "weft: scatter has inputs on its root only");
    Tensor all;
    if (is_root) {
      check_parts(inputs[0], t);
      all = joined_flat(inputs[0], t);
    }
    const Tensor out = t.is_contiguous() ? t : at::empty(t.sizes(), t.options());
    const auto e = moved(t);
    return start({.type = OpType::SCATTER,
                  .title = "weft:scatter",
                  .inputs = is_root ? inputs[0] : Tensors(),
                  .results = {t},
                  .call = call({.collective = Collective::kScatter,
                                .in = is_root ? all.data_ptr() : nullptr,
                                .out = out.data_ptr(),
                                .count = out.numel() * e.factor,
                                .type = e.type,
                                .root = root(o.rootRank)},
                               {all, out}),
                  .after = copy_back(t, out),
                  .timeout = o.timeout,
                  .async = o.asyncOp});
  }

  c10::intrusive_ptr<c10d::Work> reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                                const c10d::ReduceScatterOptions& o) override {
    const Tensor& out = only(outputs);
    TORCH_CHECK_VALUE(inputs.size() == 1 && inputs[0].size() == static_cast<std::size_t>(getSize()),
                      "weft: one input for every rank is expected");
    check_dense(inputs[0]);
    const Tensor all = joined_flat(inputs[0], out);
    const auto r = reduction(o.reduceOp, out);
    std::vector<std::size_t> counts;
    bool even = true;
    for (const Tensor& part : inputs[0]) {
      counts.push_back(part.numel() * r.elements.factor);
      even = even && part.numel() == out.numel();
    }
    TORCH_CHECK_VALUE(inputs[0][getRank()].numel() == out.numel(), "weft: the output has another size than its part");
    const Tensor to = out.is_contiguous() ? out : at::empty(out.sizes(), out.options());
    return start({.type = OpType::REDUCE_SCATTER,
                  .title = "weft:reduce_scatter",
                  .inputs = inputs[0],
                  .results = {out},
                  .call = call({.collective = even ? Collective::kReduceScatter : Collective::kReduceScatterV,
                                .in = all.data_ptr(),
                                .out = to.data_ptr(),
                                .count = to.numel() * r.elements.factor,
                                .type = r.elements.type,
                                .op = r.op,
                                .scalar = r.scalar},
                               {all, to}, even ? std::vector<std::size_t>() : counts),
                  .after = copy_back(out, to),
                  .timeout = o.timeout,
                  .async = o.asyncOp});
  }
  c10::intrusive_ptr<c10d::Work> _reduce_scatter_base(Tensor& output, Tensor& input,
                                                      const c10d::ReduceScatterOptions& o) override {
    return start(scatter_flat(output, input, o));
  }
  c10::intrusive_ptr<c10d::Work> reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                                 const c10d::ReduceScatterOptions& o) override {
    TORCH_CHECK_VALUE(outputs.size() == inputs.size(), "weft: an output for every input is expected");
    std::vector<Task> tasks;
    for (std::size_t i = 0; i < inputs.size(); ++i) tasks.push_back(scatter_flat(outputs[i], inputs[i], o));
    return start(joined(std::move(tasks), OpType::REDUCE_SCATTER_TENSOR_COALESCED,
                        "weft:reduce_scatter_tensor_coalesced", o.asyncOp));
  }

  c10::intrusive_ptr<c10d::Work> alltoall_base(Tensor& output, Tensor& input, std::vector<std::int64_t>& out_rows,
                                               std::vector<std::int64_t>& in_rows,
                                               const c10d::AllToAllOptions& o) override {
    check_dense(output), check_dense(input);
    TORCH_CHECK_VALUE(output.scalar_type() == input.scalar_type(), "weft: input and output differ in their type");
    const Tensor in = input.contiguous();
    const Tensor out = output.is_contiguous() ? output : at::empty(output.sizes(), output.options());
    const auto e = moved(input);
    Request r{.in = in.data_ptr(), .out = out.data_ptr(), .type = e.type};
    std::vector<std::size_t> counts, receive;
    if (out_rows.empty() && in_rows.empty()) {
      TORCH_CHECK_VALUE(input.numel() == output.numel() && (input.dim() == 0 || input.size(0) % getSize() == 0),
                        "weft: axis 0 cannot be cut into ", getSize(), " equal parts");
      r.collective = Collective::kAllToAll;
      r.count = in.numel() / getSize() * e.factor;
    } else {
      r.collective = Collective::kAllToAllV;
      counts = elements_of(in_rows, input, e.factor);
      receive = elements_of(out_rows, output, e.factor);
    }
    return start({.type = OpType::ALLTOALL_BASE,
                  .title = "weft:all_to_all",
                  .inputs = {input},
                  .results = {output},
                  .call = call(r, {in, out}, counts, receive),
                  .after = copy_back(output, out),
                  .timeout = o.timeout,
                  .async = o.asyncOp});
  }
  c10::intrusive_ptr<c10d::Work> alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& o) override {
    check_dense(outputs), check_dense(inputs);
    const auto n = static_cast<std::size_t>(getSize());
    TORCH_CHECK_VALUE(outputs.size() == n && inputs.size() == n, "weft: one tensor for every rank is expected");
    const Tensor in = joined_flat(inputs, inputs[0]);
    std::int64_t total = 0;
    std::vector<std::size_t> counts, receive;
    const auto e = moved(inputs[0]);
    for (const Tensor& t : inputs) counts.push_back(t.numel() * e.factor);
    for (const Tensor& t : outputs) receive.push_back(t.numel() * e.factor), total += t.numel();
    const Tensor out = at::empty({total}, inputs[0].options());
    return start(
        {.type = OpType::ALLTOALL,
         .title = "weft:all_to_all",
         .inputs = inputs,
         .results = outputs,
         .call =
             call({.collective = Collective::kAllToAllV, .in = in.data_ptr(), .out = out.data_ptr(), .type = e.type},
                  {in, out}, counts, receive),
         .after = cut(out, outputs),
         .timeout = o.timeout,
         .async = o.asyncOp});
  }

  c10::intrusive_ptr<c10d::Work> barrier(const c10d::BarrierOptions& o) override {
    return start({.type = OpType::BARRIER,
                  .title = "weft:barrier",
                  .call = [](Communicator& c) { return c.barrier(); },
                  .timeout = o.timeout,
                  .async = o.asyncOp});
  }
  void monitoredBarrier(const c10d::BarrierOptions& o, bool) override {
    const milliseconds timeout = o.timeout == c10d::kUnsetTimeout ? options_->timeout : o.timeout;
    start({.type = OpType::BARRIER,
           .title = "weft:monitored_barrier",
           .call = [timeout](Communicator& c) { return c.monitored_barrier(timeout); },
           .async = false});
  }

  c10::intrusive_ptr<c10d::Work> send(Tensors& tensors, int to, int tag) override {
    const Tensor t = only(tensors);
    const Tensor flat = t.contiguous();
    auto job = c10::make_intrusive<Job>(
        getRank(), Task{.type = OpType::SEND, .title = "weft:send", .inputs = {t}, .results = {t}}, ++sequence_);
    channel(to, true).start([job, flat, tag](Result<Channel*> c) {
      job->end(as_exception(c ? (*c)->send(flat, tag) : Status(tl::make_unexpected(c.error()))));
    });
    return job;
  }
  c10::intrusive_ptr<c10d::Work> recv(Tensors& tensors, int from, int tag) override {
    const Tensor t = only(tensors);
    auto job = c10::make_intrusive<Job>(
        getRank(), Task{.type = OpType::RECV, .title = "weft:recv", .inputs = {t}, .results = {t}}, ++sequence_);
    job->set_source(from);
    channel(from, false).start([job, t, tag](Result<Channel*> c) {
      job->end(as_exception(c ? receive_into(**c, t, tag) : Status(tl::make_unexpected(c.error()))));
    });
    return job;
  }
  // Asks every rank's channel in turn until one offers a message with this tag.
  c10::intrusive_ptr<c10d::Work> recvAnysource(Tensors& tensors, int tag) override {
    const Tensor t = only(tensors);
    auto job = c10::make_intrusive<Job>(
        getRank(), Task{.type = OpType::RECVANYSOURCE, .title = "weft:recv", .inputs = {t}, .results = {t}},
        ++sequence_);
    any_source().start(std::function<Status(Communicator&)>([this, job, t, tag](Communicator&) -> Status {
      const auto until = std::chrono::steady_clock::now() + options_->timeout;
      while (std::chrono::steady_clock::now() < until) {
        for (int peer = 0; peer < getSize(); ++peer) {
          if (peer == getRank() || !announced(peer)) continue;
          std::optional<Status> ended;
          channel(peer, false).now([&](Result<Channel*> c) {
            if (c && *c == nullptr) return;
            if (!c) return void(ended = tl::make_unexpected(c.error()));
            const auto offers = (*c)->offers(tag);
            if (!offers)
              ended = tl::make_unexpected(offers.error());
            else if (*offers)
              job->set_source(peer), ended = receive_into(**c, t, tag);
          });
          if (ended) return job->end(as_exception(*ended)), Status{};
        }
        std::this_thread::sleep_for(std::chrono::microseconds(50));
      }
      job->end(as_exception(tl::make_unexpected(
          Error{Code::kTimeout, Blame::kOperation,
                c10::str("weft: recv from any rank timed out after ", options_->timeout.count(), " ms")})));
      return {};
    }));
    return job;
  }

 private:
  // Joins `size` ranks that meet by what rank 0 writes into the store.
  static Result<Communicator> meet(c10d::Store& store, const std::string& key, int rank, int size,
                                   const std::string& transport, milliseconds timeout) {
    const ConnectOptions options{.transport = transport, .timeout = timeout};
    std::optional<MeetingPlace> place;
    std::string text;
    if (rank == 0) {
      auto opened = MeetingPlace::open(size, options);
      if (!opened) return tl::make_unexpected(opened.error());
      place.emplace(std::move(*opened));
      text = place->id().text();
      store.set(key, text);
    } else {
      text = store.get_to_str(key);
    }
    auto id = UniqueId::parse(text);
    if (!id) return tl::make_unexpected(id.error());
    return Communicator::connect(*id, rank, size, options);
  }

  static Status receive_into(Channel& c, const Tensor& t, int tag) {
    if (t.is_contiguous()) return c.receive(t, tag);
    const at::NoGradGuard no_gradients;
    const Tensor flat = at::empty(t.sizes(), t.options());
    const Status s = c.receive(flat, tag);
    if (s) Tensor(t).copy_(flat);
    return s;
  }

  std::string channel_key(int from, int to) const { return c10::str("weft/", from, "-", to); }
  bool announced(int peer) { return store_->check({channel_key(peer, getRank())}); }
  ChannelThread& channel(int peer, bool sends) {
    TORCH_CHECK_VALUE(peer >= 0 && peer < getSize(), "weft: rank ", peer, " is not one of ", getSize());
    TORCH_CHECK_VALUE(peer != getRank(), "weft: a rank cannot send to itself");
    const std::lock_guard guard(channels_mutex_);
    auto& found = channels_[{peer, sends}];
    if (!found) {
      const std::string key = sends ? channel_key(getRank(), peer) : channel_key(peer, getRank());
      found = std::make_unique<ChannelThread>(
          [store = store_, key, sends, transport = options_->transport, timeout = options_->timeout] {
            auto c = meet(*store, key, sends ? 0 : 1, 2, transport, timeout);
            if (c) c->set_timeout(timeout);
            return c;
          },
          sends);
    }
    return *found;
  }
  Queue& any_source() {
    const std::lock_guard guard(channels_mutex_);
    if (!any_source_) any_source_ = std::make_unique<Queue>(std::move(Communicator::threads(1).value().front()));
    return *any_source_;
  }

  Rank root(std::int64_t r) const {
    TORCH_CHECK_VALUE(r >= 0 && r < getSize(), "weft: root ", r, " is not one of ", getSize(), " ranks");
    return static_cast<Rank>(r);
  }

  // A call of the communicator that keeps its tensors, and what its spans refer to.
  std::function<Status(Communicator&)> call(Request r, Tensors keeps, std::vector<std::size_t> counts = {},
                                            std::vector<std::size_t> receive = {}) const {
    r.reproducible = options_->reproducible;
    if (r.collective == Collective::kAllReduce) r.algorithm = options_->algorithm;
    if (counts.empty() && r.count == 0 && receive.empty())
      return
          [keeps = std::move(keeps)](Communicator& c) { return c.barrier(); };  // empty tensors: in step all the same
    return [r, keeps = std::move(keeps), counts = std::move(counts),
            receive = std::move(receive)](Communicator& c) mutable {
      r.counts = counts;
      r.receive_counts = receive;
      return c.run(r);
    };
  }
  static std::function<void()> copy_back(const Tensor& to, const Tensor& from) {
    if (to.is_same(from) || (to.is_contiguous() && to.data_ptr() == from.data_ptr())) return {};
    return [to, from] { Tensor(to).copy_(from.view(to.sizes())); };
  }
  static std::function<void()> cut(const Tensor& all, const Tensors& parts) {
    return [all, parts] {
      std::int64_t at = 0;
      for (const Tensor& part : parts) {
        if (part.numel() > 0) Tensor(part).copy_(all.narrow(0, at, part.numel()).view(part.sizes()));
        at += part.numel();
      }
    };
  }
  void check_parts(const Tensors& parts, const Tensor& like) const {
    TORCH_CHECK_VALUE(parts.size() == static_cast<std::size_t>(getSize()),
                      "weft: one tensor for every rank is expected");
    for (const Tensor& t : parts) {
      check_dense(t);
      TORCH_CHECK_VALUE(t.numel() == like.numel() && t.scalar_type() == like.scalar_type(),
                        "weft: all tensors must have the same size and type");
    }
  }
  static Tensor joined_flat(const Tensors& parts, const Tensor& like) {
    Tensors flat;
    for (const Tensor& t : parts) {
      TORCH_CHECK_VALUE(t.scalar_type() == like.scalar_type(), "weft: all tensors must have the same type");
      flat.push_back(t.contiguous().view({-1}));
    }
    return flat.size() == 1 ? flat[0] : at::cat(flat);
  }
  std::vector<std::size_t> elements_of(const std::vector<std::int64_t>& rows, const Tensor& t,
                                       std::size_t factor) const {
    const auto n = static_cast<std::size_t>(getSize());
    const std::int64_t first = t.dim() == 0 ? 1 : t.size(0);
    std::vector<std::int64_t> split = rows;
    if (split.empty()) {
      TORCH_CHECK_VALUE(first % getSize() == 0, "weft: axis 0 cannot be cut into ", n, " equal parts");
      split.assign(n, first / getSize());
    }
    TORCH_CHECK_VALUE(split.size() == n, "weft: ", split.size(), " split sizes for ", n, " ranks");
    TORCH_CHECK_VALUE(std::accumulate(split.begin(), split.end(), std::int64_t{0}) == first,
                      "weft: split sizes do not add up to axis 0");
    std::size_t row = factor;
    for (std::int64_t d = 1; d < t.dim(); ++d) row *= t.size(d);
    std::vector<std::size_t> counts;
    for (const auto s : split) counts.push_back(s * row);
    return counts;
  }

  template <class O>
  c10::intrusive_ptr<c10d::Work> reduce_all(const Tensors& tensors, const O& o, OpType type, const char* title) {
    check_dense(tensors);
    if (tensors.size() == 1) return start(reduce_one(tensors[0], o, type, title));
    std::vector<Task> tasks;
    for (const Tensor& t : tensors) tasks.push_back(reduce_one(t, o, type, title));
    return start(joined(std::move(tasks), type, title, o.asyncOp));
  }
  template <class O>
  Task reduce_one(const Tensor& t, const O& o, OpType type, const char* title) {
    const Tensor flat = t.contiguous();
    const auto r = reduction(o.reduceOp, t);
    return {.type = type,
            .title = title,
            .inputs = {t},
            .results = {t},
            .call = call({.collective = Collective::kAllReduce,
                          .in = flat.data_ptr(),
                          .out = flat.data_ptr(),
                          .count = flat.numel() * r.elements.factor,
                          .type = r.elements.type,
                          .op = r.op,
                          .scalar = r.scalar},
                         {flat}),
            .after = copy_back(t, flat),
            .timeout = o.timeout,
            .async = o.asyncOp};
  }
  Task gather_list(const Tensors& outputs, const Tensor& t, const c10d::AllgatherOptions& o, OpType type,
                   const char* title) {
    const auto n = static_cast<std::size_t>(getSize());
    TORCH_CHECK_VALUE(outputs.size() == n, "weft: one output for every rank is expected");
    check_dense(outputs);
    const Tensor in = t.contiguous();
    const auto e = moved(t);
    std::vector<std::size_t> counts;
    std::int64_t total = 0;
    bool even = true;
    for (const Tensor& out : outputs) {
      TORCH_CHECK_VALUE(out.scalar_type() == t.scalar_type(), "weft: input and outputs differ in their type");
      counts.push_back(out.numel() * e.factor);
      total += out.numel();
      even = even && out.numel() == t.numel();
    }
    TORCH_CHECK_VALUE(outputs[getRank()].numel() == t.numel(),
                      "weft: this rank's output has another size than its input");
    const Tensor all = at::empty({total}, t.options());
    return {.type = type,
            .title = title,
            .inputs = {t},
            .results = outputs,
            .call = call({.collective = even ? Collective::kAllGather : Collective::kAllGatherV,
                          .in = in.data_ptr(),
                          .out = all.data_ptr(),
                          .count = in.numel() * e.factor,
                          .type = e.type},
                         {in, all}, even ? std::vector<std::size_t>() : counts),
            .after = cut(all, outputs),
            .timeout = o.timeout,
            .async = o.asyncOp};
  }
  Task gather_flat(const Tensor& output, const Tensor& input, const c10d::AllgatherOptions& o) {
    check_dense(output), check_dense(input);
    TORCH_CHECK_VALUE(output.scalar_type() == input.scalar_type(), "weft: input and output differ in their type");
    TORCH_CHECK_VALUE(output.numel() == input.numel() * getSize(), "weft: the output must have ", getSize(),
                      " times the elements of the input");
    const Tensor in = input.contiguous();
    const Tensor out = output.is_contiguous() ? output : at::empty(output.sizes(), output.options());
    const auto e = moved(input);
    return {.type = OpType::_ALLGATHER_BASE,
            .title = "weft:_all_gather_base",
            .inputs = {input},
            .results = {output},
            .call = call({.collective = Collective::kAllGather,
                          .in = in.data_ptr(),
                          .out = out.data_ptr(),
                          .count = in.numel() * e.factor,
                          .type = e.type},
                         {in, out}),
            .after = copy_back(output, out),
            .timeout = o.timeout,
            .async = o.asyncOp};
  }
  Task scatter_flat(const Tensor& output, const Tensor& input, const c10d::ReduceScatterOptions& o) {
    check_dense(output), check_dense(input);
    TORCH_CHECK_VALUE(output.scalar_type() == input.scalar_type(), "weft: input and output differ in their type");
    TORCH_CHECK_VALUE(input.numel() == output.numel() * getSize(), "weft: the input must have ", getSize(),
                      " times the elements of the output");
    const Tensor in = input.contiguous();
    const Tensor out = output.is_contiguous() ? output : at::empty(output.sizes(), output.options());
    const auto r = reduction(o.reduceOp, input);
    return {.type = OpType::_REDUCE_SCATTER_BASE,
            .title = "weft:_reduce_scatter_base",
            .inputs = {input},
            .results = {output},
            .call = call({.collective = Collective::kReduceScatter,
                          .in = in.data_ptr(),
                          .out = out.data_ptr(),
                          .count = out.numel() * r.elements.factor,
                          .type = r.elements.type,
                          .op = r.op,
                          .scalar = r.scalar},
                         {in, out}),
            .after = copy_back(output, out),
            .timeout = o.timeout,
            .async = o.asyncOp};
  }
  // Several tasks as one, one after the other.
  static Task joined(std::vector<Task> tasks, OpType type, const char* title, bool async) {
    Task all{.type = type, .title = title, .async = async};
    for (const Task& t : tasks) {
      all.inputs.insert(all.inputs.end(), t.inputs.begin(), t.inputs.end());
      all.results.insert(all.results.end(), t.results.begin(), t.results.end());
      all.timeout = t.timeout;
    }
    all.call = [tasks = std::move(tasks)](Communicator& c) -> Status {
      for (const Task& t : tasks) {
        if (auto s = t.call(c); !s) return s;
        if (t.after) t.after();
      }
      return {};
    };
    return all;
  }

  // Carries the task out here, if its caller waits for it and nothing is queued, or if the caller is a callback on the
  // queue's own thread; else queues it.
  c10::intrusive_ptr<c10d::Work> start(Task task) {
    auto job = c10::make_intrusive<Job>(getRank(), task, ++sequence_);
    if (on_queue_ == this) {
      set_timeout(task.timeout);
      job->end(carry_out(lane_.communicator(), task));
      return job;
    }
    std::unique_lock guard(mutex_);
    if (!task.async && lane_.idle()) {
      set_timeout(task.timeout);
      const std::exception_ptr problem = carry_out(lane_.communicator(), task);
      guard.unlock();
      job->end(problem);
      if (problem) std::rethrow_exception(problem);
      return job;
    }
    const bool async = task.async;
    lane_.queue([this, job, task = std::move(task)](Communicator& c) mutable -> Status {
      set_timeout(task.timeout);
      const std::exception_ptr problem = carry_out(c, task);
      task = {};
      on_queue_ = this;
      job->end(problem);
      on_queue_ = nullptr;
      job.reset();
      return {};
    });
    guard.unlock();
    if (!async) job->wait();
    return job;
  }
  void set_timeout(milliseconds timeout) {
    const milliseconds wanted = timeout == c10d::kUnsetTimeout ? options_->timeout : timeout;
    if (wanted == timeout_) return;
    timeout_ = wanted;
    lane_.communicator().set_timeout(wanted);
  }

  static thread_local const Backend* on_queue_;  // whose queue this thread is, while callbacks run on it

  c10::intrusive_ptr<c10d::Store> store_;
  c10::intrusive_ptr<Options> options_;
  std::atomic<std::uint64_t> sequence_{0};
  milliseconds timeout_;  // what the communicator has now; the thread that runs a task
  std::mutex mutex_;      // of the lane
  python::Lane lane_;
  std::mutex channels_mutex_;
  std::map<std::pair<int, bool>, std::unique_ptr<ChannelThread>> channels_;
  std::unique_ptr<Queue> any_source_;  // uses the channels
};

thread_local const Backend* Backend::on_queue_ = nullptr;

}  // namespace
}  // namespace weft::torch_adapter

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  namespace py = pybind11;
  using weft::torch_adapter::Backend;
  py::module_::import("torch.distributed");  // has the base classes
  py::class_<Backend::Options, c10d::Backend::Options, c10::intrusive_ptr<Backend::Options>>(m, "Options")
      .def(py::init([](double seconds, bool reproducible, std::string algorithm, std::string transport) {
             auto o = c10::make_intrusive<Backend::Options>(
                 std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000)));
             o->reproducible = reproducible;
             o->algorithm = std::move(algorithm);
             o->transport = std::move(transport);
             return o;
           }),
           py::arg("timeout") = 1800.0, py::arg("reproducible") = false, py::arg("algorithm") = "",
           py::arg("transport") = "")
      .def_readwrite("reproducible", &Backend::Options::reproducible)
      .def_readwrite("algorithm", &Backend::Options::algorithm)
      .def_readwrite("transport", &Backend::Options::transport);
  m.def("join", &Backend::join, py::arg("store"), py::arg("rank"), py::arg("size"), py::arg("options"),
        py::call_guard<py::gil_scoped_release>());
}
