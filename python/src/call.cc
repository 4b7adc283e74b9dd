#include "call.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "failed.h"
#include "plan/schedule/collective.h"
#include "plan/schedule/element.h"

namespace nb = nanobind;

namespace weft::python {
namespace {

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

// Of complex numbers: what is the same for both parts.
void check_op_of_complex(ReduceOp op, const char* operation) {
  if (op != ReduceOp::kSum && op != ReduceOp::kAvg && op != ReduceOp::kPremulSum)
    throw Failed(invalid("complex numbers have sum, avg and premul_sum only"), operation);
}

// In one line of ASCII: where it is cut off, no character is cut in two.
std::string repr_of(nb::handle value) {
  const auto ascii = nb::steal<nb::str>(PyObject_ASCII(value.ptr()));
  if (!ascii.is_valid()) throw nb::python_error();
  std::string text = ascii.c_str();
  std::replace(text.begin(), text.end(), '\n', ' ');
  constexpr std::size_t kMost = 80;
  if (text.size() > kMost) text = text.substr(0, kMost - 3) + "...";
  return text;
}

// The limits of an integer type.
std::pair<nb::int_, nb::int_> limits_of(DataType type) {
  const bool is_signed = type <= DataType::kInt64;
  const auto bits = static_cast<int>(8 * size_of(type));
  const std::uint64_t all = ~std::uint64_t{0} >> (64 - bits);
  if (!is_signed) return {nb::int_(0), nb::int_(all)};
  return {nb::int_(-static_cast<std::int64_t>(all >> 1) - 1), nb::int_(static_cast<std::int64_t>(all >> 1))};
}

// What a contribution is multiplied by: the type of the elements holds it as it is. Errors: Failed (bad input).
Scalar scalar_of(nb::handle value, DataType type, const char* operation) {
  const auto refuse = [&](const std::string& why) {
    throw Failed(invalid("scalar " + repr_of(value) + ": " + why), operation);
  };
  if (is_float(type)) {
    if (PyBool_Check(value.ptr())) refuse("it is a number");
    const Py_complex number = PyComplex_AsCComplex(value.ptr());
    if (PyErr_Occurred() != nullptr) {
      const bool large = PyErr_ExceptionMatches(PyExc_OverflowError) != 0;
      PyErr_Clear();
      refuse(large ? "it is more than a double holds" : "it is a number");
    }
    if (number.imag != 0) refuse("it is a real number; multiply the array by a complex one, and take sum");
    return Scalar::of(number.real);
  }
  if (!PyIndex_Check(value.ptr()) || PyBool_Check(value.ptr())) refuse("of integers it is a whole number");
  const nb::object whole = nb::steal(PyNumber_Index(value.ptr()));
  if (!whole.is_valid()) throw nb::python_error();
  const auto [low, high] = limits_of(type);
  if (whole < low || whole > high) refuse("the elements' type holds " + repr_of(low) + " to " + repr_of(high));
  if (type == DataType::kUint64) return Scalar::of(static_cast<std::int64_t>(nb::cast<std::uint64_t>(whole)));
  return Scalar::of(nb::cast<std::int64_t>(whole));
}

// What an option has to be, for messages.
std::string wanted(const std::string& name) {
  if (name == "reproducible") return "True or False";
  if (name == "algorithm") return "a name, a file, an Algorithm or a Schedule";
  if (name == "protocol") return "a name";
  if (name == "channels") return "a whole number of 32 bits";
  return "a list of whole numbers from 0 on";
}

// Python's name of an operation that weft's own texts call mulsum.
constexpr const char* kPremulSum = "premul_sum";
ReduceOp op_of(nb::handle value, const char* operation) {
  if (!nb::isinstance<nb::str>(value))
    throw Failed(invalid("op " + repr_of(value) + ": it is a name, such as 'sum'"), operation);
  std::string name;
  if (!nb::try_cast(value, name)) name.clear();  // no Unicode
  if (name == kPremulSum) return ReduceOp::kPremulSum;
  const auto known = schedule::parse_op(name);
  if (!known)
    throw Failed(invalid("op " + repr_of(value) + ": there are sum, prod, min, max, avg, and, or, xor, premul_sum"),
                 operation);
  return *known;
}

void set_experts(Call& call, const nb::bytes& table) {
  call.lists.experts.resize(table.size() / sizeof(std::int32_t));
  std::memcpy(call.lists.experts.data(), table.data(), call.lists.experts.size() * sizeof(std::int32_t));
}

void set_option(Call& call, const std::string& name, nb::handle value) {
  Request& r = call.request;
  if (name == "reproducible")
    r.reproducible = nb::cast<bool>(value);
  else if (name == "algorithm")
    r.algorithm = nb::cast<std::string>(value);
  else if (name == "protocol")
    r.protocol = nb::cast<std::string>(value);
  else if (name == "channels")
    r.channels = nb::cast<int>(value);
  else if (name == "scalar")
    r.scalar = scalar_of(value, r.type, call.operation);
  else if (name == "counts")
    call.lists.counts = nb::cast<std::vector<std::size_t>>(value);
  else if (name == "receive_counts")
    call.lists.receive_counts = nb::cast<std::vector<std::size_t>>(value);
  else if (name == "experts")
    set_experts(call, nb::cast<nb::bytes>(value));
  else if (name == "per_token")
    r.per_token = nb::cast<int>(value);
  else if (name == "expert_count")
    r.expert_count = nb::cast<int>(value);
  else
    throw Failed(invalid("unknown option " + name), call.operation);
}

void set_options(Call& call, const nb::dict& options) {
  for (const auto& [key, value] : options) {
    const std::string name = nb::cast<std::string>(key);
    try {
      set_option(call, name, value);
    } catch (const std::bad_cast&) {
      throw Failed(invalid("option " + name + " " + repr_of(value) + ": it is " + wanted(name)), call.operation);
    }
  }
}

// Elements of the message or of one part, after a check that input and output fit each other.
void set_count(Request& r, const Array* in, const Array* out, Place place, const char* operation) {
  const auto n = static_cast<std::size_t>(place.ranks);
  const bool is_root = place.rank == r.root;
  const auto elements = [](const Array* a) { return a != nullptr ? a->count() / a->parts() : 0; };
  const std::size_t ins = elements(in), outs = elements(out);
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
    case Collective::kDispatch:
      return fits(ins, outs), void(r.count = ins);
    case Collective::kGather:
      if (is_root) fits(ins, outs);
      return void(r.count = ins);
    case Collective::kReduceScatter:
    case Collective::kCombine:
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

// Of uneven collectives: do input and output have what the counts say?
void check_counts(const Call& call, const Array* in, const Array* out, Place place) {
  const auto refuse = [&](const std::string& why) { throw Failed(invalid(why), call.operation); };
  if (in == nullptr || out == nullptr) refuse("input and output are needed");
  const auto n = static_cast<std::size_t>(place.ranks);
  const bool pairs = call.request.collective == Collective::kAllToAllV;
  if (call.lists.counts.size() != n || (pairs && call.lists.receive_counts.size() != n))
    refuse("counts of " + std::to_string(n) + " ranks are needed");
  const auto all_of = [](const std::vector<std::size_t>& counts) {
    std::size_t all = 0;
    for (const std::size_t count : counts) all = count > ~std::size_t{0} - all ? ~std::size_t{0} : all + count;
    return all;
  };
  const std::size_t mine = call.lists.counts[static_cast<std::size_t>(place.rank)], all = all_of(call.lists.counts);
  const std::size_t ins = call.request.collective == Collective::kAllGatherV ? mine : all;
  const std::size_t outs = pairs                                                ? all_of(call.lists.receive_counts)
                           : call.request.collective == Collective::kAllGatherV ? all
                                                                                : mine;
  const std::size_t has_in = in->count() / in->parts(), has_out = out->count() / out->parts();
  if (has_in != ins || has_out != outs)
    refuse("counts say " + std::to_string(ins) + " elements of input and " + std::to_string(outs) + " of output, not " +
           std::to_string(has_in) + " and " + std::to_string(has_out));
}

}  // namespace

Call prepare(Place place, int kind, nb::object in, nb::object out, nb::object op, Rank root, nb::object options) {
  Call call;
  Request& r = call.request;
  if (kind < 0 || kind >= kCollectiveKinds)
    throw Failed(invalid("collective " + std::to_string(kind) + " is none"), call.operation);
  r.collective = static_cast<Collective>(kind);
  r.root = root;
  call.operation = schedule::name(r.collective).data();
  call.arrays.reserve(2);
  const bool same = in.ptr() == out.ptr();
  const bool written = r.collective != Collective::kBroadcast || place.rank != root;
  const Array* input = nullptr;
  const Array* output = nullptr;
  if (!in.is_none()) {
    // An object that is input and output is looked at once.
    call.arrays.emplace_back(in, same && written ? Array::Use::kOutput : Array::Use::kInput, call.operation);
    input = &call.arrays.back();
  }
  if (!out.is_none()) {
    if (!same) call.arrays.emplace_back(out, Array::Use::kOutput, call.operation);
    output = &call.arrays.back();
  }
  if (input != nullptr && output != nullptr && (input->type() != output->type() || input->parts() != output->parts()))
    throw Failed(invalid("the input is of " + name_of_type(in, {}) + " and the output of " + name_of_type(out, {})),
                 call.operation);
  const Array* any = input != nullptr ? input : output;
  if (any != nullptr) r.type = any->type();
  if (!op.is_none()) {
    r.op = op_of(op, call.operation);
    if (any != nullptr && any->is_bool()) r.op = op_of_bool(r.op);
    if (any != nullptr && any->parts() > 1) check_op_of_complex(r.op, call.operation);
  }
  r.in = input != nullptr ? input->data() : nullptr;
  r.out = output != nullptr ? output->data() : nullptr;
  if (!options.is_none()) set_options(call, nb::cast<nb::dict>(options));
  if (r.scalar.has_value() != (r.op == ReduceOp::kPremulSum))
    throw Failed(invalid(r.scalar ? "scalar= goes with op premul_sum" : "op premul_sum needs scalar="), call.operation);
  if (schedule::uneven(r.collective))
    check_counts(call, input, output, place);
  else
    set_count(r, input, output, place, call.operation);
  if (any != nullptr && any->parts() > 1) {
    r.count *= any->parts();
    for (std::size_t& c : call.lists.counts) c *= any->parts();
    for (std::size_t& c : call.lists.receive_counts) c *= any->parts();
  }
  call.result = std::move(out);
  return call;
}

}  // namespace weft::python
