#include "xla.h"

#include <nanobind/stl/string.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "communicator.h"
#include "failed.h"
#include "plan/schedule/collective.h"
#include "plan/schedule/element.h"
#include "xla_interface.h"

namespace nb = nanobind;

namespace weft::python {
namespace {

// What one call is, as weftcomm/jax.py writes it into the program: the attribute `call`, an array of int64.
struct Words {
  // to: also a root; tag: less than 0: none; reproducible: 0 or 1
  std::int64_t communicator, kind, op, to, source, tag, reproducible;
};
static_assert(sizeof(Words) == 7 * sizeof(std::int64_t));
// Kinds beyond those of weft::Collective.
constexpr std::int64_t kSend = 100, kReceive = 101, kExchange = 102;

struct Elements {
  DataType type;
  std::size_t parts = 1;  // a complex number is two elements
};

std::optional<Elements> elements_of(xla::Type type) {
  using xla::Type;
  switch (type) {
    case Type::kBool:
    case Type::kUint8:
      return Elements{DataType::kUint8};
    case Type::kInt8:
      return Elements{DataType::kInt8};
    case Type::kInt16:
      return Elements{DataType::kInt16};
    case Type::kInt32:
      return Elements{DataType::kInt32};
    case Type::kInt64:
      return Elements{DataType::kInt64};
    case Type::kUint16:
      return Elements{DataType::kUint16};
    case Type::kUint32:
      return Elements{DataType::kUint32};
    case Type::kUint64:
      return Elements{DataType::kUint64};
    case Type::kFloat16:
      return Elements{DataType::kFloat16};
    case Type::kFloat32:
      return Elements{DataType::kFloat32};
    case Type::kFloat64:
      return Elements{DataType::kFloat64};
    case Type::kBfloat16:
      return Elements{DataType::kBfloat16};
    case Type::kFloat8E4M3:
      return Elements{DataType::kFloat8E4M3};
    case Type::kFloat8E5M2:
      return Elements{DataType::kFloat8E5M2};
    case Type::kComplex64:
      return Elements{DataType::kFloat32, 2};
    case Type::kComplex128:
      return Elements{DataType::kFloat64, 2};
    case Type::kToken:
      break;
  }
  return std::nullopt;
}

// The first buffer that is no token: an input or an output.
struct Operand {
  void* data = nullptr;
  std::size_t count = 0;  // of weft's elements
  DataType type = DataType::kUint8;
};

Result<Operand> operand(const xla::Buffers& buffers) {
  for (std::int64_t i = 0; i < buffers.count; ++i) {
    const auto& buffer = *static_cast<const xla::Buffer*>(buffers.values[i]);
    if (buffer.type == xla::Type::kToken) continue;
    const auto elements = elements_of(buffer.type);
    if (!elements)
      return tl::make_unexpected(
          invalid("XLA's type " + std::to_string(static_cast<int>(buffer.type)) + " cannot be communicated"));
    std::size_t count = elements->parts;
    for (std::int64_t d = 0; d < buffer.rank; ++d) count *= static_cast<std::size_t>(buffer.dimensions[d]);
    return Operand{buffer.data, count, elements->type};
  }
  return Operand{};
}

Status collective(Communicator& c, const Words& words, const Operand& in, const Operand& out) {
  Request r;
  r.collective = static_cast<Collective>(words.kind);
  r.op = static_cast<ReduceOp>(words.op);
  r.root = static_cast<Rank>(words.to);
  if (r.collective == Collective::kBarrier) return c.barrier();
  r.type = in.type;
  r.in = in.data;
  r.out = out.data;
  r.reproducible = words.reproducible != 0;
  r.count = std::min(in.count, out.count);  // of a part, where one of both has the parts of all ranks
  if (r.collective == Collective::kAllToAll) r.count = in.count / static_cast<std::size_t>(c.ranks());
  return c.run(r);
}

// With a tag.
Status message(Communicator& c, const Words& words, const Operand& in, const Operand& out) {
  const auto tag = static_cast<std::int32_t>(words.tag);
  if (words.kind == kSend) return c.send(in.data, in.count, in.type, static_cast<Rank>(words.to), tag);
  const auto received = c.receive(out.data, out.count, out.type, static_cast<Rank>(words.source), tag);
  if (!received) return tl::make_unexpected(received.error());
  if (received->count == out.count) return {};
  return tl::make_unexpected(Error{Code::kMismatch, Blame::kOperation,
                                   "receive: rank " + std::to_string(received->source) + " sent " +
                                       std::to_string(received->count) + " elements, not " +
                                       std::to_string(out.count)});
}

Status perform(Communicator& c, const Words& words, const Operand& in, const Operand& out) {
  if (words.kind < kCollectiveKinds) return collective(c, words, in, out);
  if (words.tag >= 0) return message(c, words, in, out);
  const std::array both{
      Transfer{Transfer::Direction::kSend, static_cast<Rank>(words.to), in.data, in.count, in.type},
      Transfer{Transfer::Direction::kReceive, static_cast<Rank>(words.source), out.data, out.count, out.type}};
  if (words.kind == kSend) return c.exchange({both.data(), 1});
  if (words.kind == kReceive) return c.exchange({both.data() + 1, 1});
  return c.exchange(both);
}

const char* operation_of(const Words& words) {
  if (words.kind < kCollectiveKinds) return schedule::name(static_cast<Collective>(words.kind)).data();
  return words.kind == kSend ? "send" : words.kind == kReceive ? "receive" : "send_receive";
}

// The communicators of this process that programs have been compiled for.
class Callees {
 public:
  std::int64_t add(CallFromXla call) {
    const std::lock_guard guard(mutex_);
    all_[++last_] = std::make_shared<Callee>(std::move(call));
    return last_;
  }
  void remove(std::int64_t number) {
    std::shared_ptr<Callee> removed;
    {
      const std::lock_guard guard(mutex_);
      removed = std::move(all_.extract(number).mapped());
    }
    const std::lock_guard guard(removed->mutex);
    removed->call = nullptr;
  }
  Status call(std::int64_t number, const std::function<Status(Communicator&)>& action) {
    std::shared_ptr<Callee> found;
    {
      const std::lock_guard guard(mutex_);
      if (const auto at = all_.find(number); at != all_.end()) found = at->second;
    }
    if (!found) return gone();
    const std::lock_guard guard(found->mutex);
    return found->call ? found->call(action) : gone();
  }
  // The error of a call, kept until Python asks: XLA's own errors are a text.
  void keep(Failed failed) {
    const std::lock_guard guard(mutex_);
    failed_ = std::move(failed);
  }
  std::optional<Failed> take() {
    const std::lock_guard guard(mutex_);
    return std::exchange(failed_, std::nullopt);
  }

 private:
  struct Callee {
    explicit Callee(CallFromXla c) : call(std::move(c)) {}
    std::mutex mutex;
    CallFromXla call;  // null: the communicator has ended
  };
  static Status gone() {
    return tl::make_unexpected(invalid("the communicator that this program was compiled for has been dropped"));
  }

  std::mutex mutex_;
  std::int64_t last_ = 0;
  std::map<std::int64_t, std::shared_ptr<Callee>> all_;
  std::optional<Failed> failed_;
};
Callees& callees() {
  static Callees all;
  return all;
}

// absl's code that JAX shows before the text.
int absl_code(Code code) {
  constexpr int kCancelled = 1, kInvalidArgument = 3, kDeadlineExceeded = 4, kResourceExhausted = 8, kAborted = 10,
                kInternal = 13, kUnavailable = 14;
  switch (code) {
    case Code::kInvalidArgument:
    case Code::kMismatch:
      return kInvalidArgument;
    case Code::kTimeout:
      return kDeadlineExceeded;
    case Code::kNoResources:
      return kResourceExhausted;
    case Code::kAborted:
      return kAborted;
    case Code::kPeerDied:
    case Code::kPeerLeft:
      return kUnavailable;
    case Code::kLeftOut:
      return kCancelled;
    default:
      return kInternal;
  }
}

xla::Error* failure(const xla::Api& api, const std::string& text, int code) {
  xla::ErrorArguments arguments{sizeof(xla::ErrorArguments), nullptr, text.c_str(), code};
  return api.make_error(&arguments);
}

const Words* words_of(const xla::Attributes& attributes) {
  if (attributes.count != 1 || attributes.kinds[0] != xla::kArrayAttribute) return nullptr;
  const auto& array = *static_cast<const xla::Array*>(attributes.values[0]);
  if (array.type != xla::Type::kInt64 || array.count * sizeof(std::int64_t) != sizeof(Words)) return nullptr;
  return static_cast<const Words*>(array.data);
}

xla::Error* execute(const xla::CallFrame& frame) {
  const Words* words = words_of(frame.attributes);
  if (words == nullptr) return failure(*frame.api, "weft: the program was compiled by another version of weftcomm", 13);
  const auto in = operand(frame.arguments), out = operand(frame.results);
  const Status status =
      !in    ? tl::make_unexpected(in.error())
      : !out ? tl::make_unexpected(out.error())
             : callees().call(words->communicator, [&](Communicator& c) { return perform(c, *words, *in, *out); });
  if (status) return nullptr;
  const std::string text = std::string("weft: ") + name_of(status.error().code) + ": " + operation_of(*words) + ": " +
                           status.error().message;
  callees().keep(Failed(status.error(), operation_of(*words)));
  return failure(*frame.api, text, absl_code(status.error().code));
}

// XLA calls it to ask for the version, for every stage of a program, and for each execution.
xla::Error* handle(xla::CallFrame* frame) {
  if (frame->extensions != nullptr && frame->extensions->kind == xla::kMetadataExtension) {
    auto& metadata = *reinterpret_cast<xla::MetadataExtension*>(frame->extensions)->metadata;
    // Any minor version will do, for the members above stay where they are.
    metadata.version = {sizeof(xla::Version), nullptr, 0, frame->api != nullptr ? frame->api->version.minor : 1};
    metadata.traits = 0;
    return nullptr;
  }
  return frame->stage == xla::kExecute ? execute(*frame) : nullptr;
}

}  // namespace

std::int64_t add_to_xla(CallFromXla call) { return callees().add(std::move(call)); }
void remove_from_xla(std::int64_t number) { callees().remove(number); }

void add_xla(nb::module_& m) {
  m.def("xla_handler", [] { return nb::capsule(reinterpret_cast<void*>(&handle)); });
  m.def("reduce_op",
        [](const std::string& name) { return static_cast<int>(check(schedule::parse_op(name), "all_reduce")); });
  m.def("raise_xla_failure", [] {
    if (auto failed = callees().take()) throw Failed(std::move(*failed));
  });
}

}  // namespace weft::python
