#include "move/reshard/convert.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <map>

namespace weft::reshard {
namespace {

constexpr std::int64_t kBlock = 128;
constexpr float kLargest = 448;  // of float8_e4m3fn

// A float with fewer bits: `exponent` and `mantissa` bits besides the sign. To the nearest, ties to even.
std::uint32_t narrowed(float value, int exponent, int mantissa, std::uint32_t largest, bool saturates) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = bits >> 31 << (exponent + mantissa);
  const std::uint32_t all = (1U << (exponent + mantissa)) - 1;
  if (std::isnan(value)) return sign | all;
  const int bias = (1 << (exponent - 1)) - 1;
  const float magnitude = std::fabs(value);
  const int power = std::max(magnitude == 0 ? -bias : std::ilogb(std::min(magnitude, 3e38F)), 1 - bias);
  const double steps = std::ldexp(static_cast<double>(magnitude), mantissa - power);  // of the last bit
  const auto rounded = static_cast<std::uint64_t>(std::nearbyint(std::min(steps, 1e15)));
  // Steps beyond 2^(mantissa + 1) carry into the exponent by themselves.
  const std::uint64_t code = rounded + (static_cast<std::uint64_t>(power + bias - 1) << mantissa);
  if (code > largest) return sign | (saturates ? largest : largest + 1);
  return sign | static_cast<std::uint32_t>(code);
}

float widened(std::uint32_t code, int exponent, int mantissa) {
  const int bias = (1 << (exponent - 1)) - 1;
  const auto power = static_cast<int>(code >> mantissa & ((1U << exponent) - 1));
  const auto rest = static_cast<float>(code & ((1U << mantissa) - 1));
  const float sign = code >> (exponent + mantissa) != 0 ? -1.0F : 1.0F;
  if (power == (1 << exponent) - 1) return rest == 0 ? sign * INFINITY : NAN;
  if (power == 0) return sign * std::ldexp(rest, 1 - bias - mantissa);
  return sign * std::ldexp(rest + static_cast<float>(1U << mantissa), power - bias - mantissa);
}

std::uint16_t to_bfloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>(bits >> 16 | 0x40);
  return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

template <class T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}
template <class T>
void store(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof value);
}

using Read = float (*)(const std::byte*);
using Write = void (*)(std::byte*, float);
struct Type {
  std::string_view name;
  std::size_t bytes;
  Read read;
  Write write;
};
constexpr Type kTypes[] = {
    {"float32", 4, [](const std::byte* at) { return load<float>(at); }, [](std::byte* at, float v) { store(at, v); }},
    {"bfloat16", 2,
     [](const std::byte* at) { return std::bit_cast<float>(std::uint32_t{load<std::uint16_t>(at)} << 16); },
     [](std::byte* at, float v) { store(at, to_bfloat16(v)); }},
    {"float16", 2, [](const std::byte* at) { return widened(load<std::uint16_t>(at), 5, 10); },
     [](std::byte* at, float v) { store(at, static_cast<std::uint16_t>(narrowed(v, 5, 10, 0x7bff, false))); }},
    // Codes are read by no exponent of its own for infinities: 0x7f is the one NaN.
    {"float8_e4m3fn", 1,
     [](const std::byte* at) {
       const auto code = load<std::uint8_t>(at);
       if ((code & 0x7f) == 0x7f) return NAN;
       const float high = (code & 0x78) == 0x78 ? std::ldexp(static_cast<float>((code & 7) + 8), 5) : 0;
       return high != 0 ? (code & 0x80 ? -high : high) : widened(code, 4, 3);
     },
     [](std::byte* at, float v) { store(at, static_cast<std::uint8_t>(narrowed(v, 4, 3, 0x7e, true))); }},
};

Result<const Type*> type_of(const std::string& name) {
  for (const Type& t : kTypes)
    if (t.name == name) return &t;
  return bad_input("elements of {}: float32, bfloat16, float16 and float8_e4m3fn are converted", name);
}

tl::unexpected<Error> problem(const Layout& layout, const Tensor& t, const std::string& what) {
  return bad_input("{}: tensor {}: {}", layout.name, t.name, what);
}

// The scales as the ranks have them that have the tensor: split alike, where its shards begin and end at blocks.
Result<Tensor> scales_of(const Layout& from, const Tensor& t, const std::string& name, const Tensor& wanted,
                         const std::vector<std::int64_t>& shape) {
  const auto blocks = [](std::int64_t n) { return (n + kBlock - 1) / kBlock; };
  if (t.shape.size() != 2 || shape != std::vector{blocks(t.shape[0]), blocks(t.shape[1])})
    return problem(from, t,
                   fmt::format("scales {} have shape [{}]: one per block of 128 x 128 of [{}] is wanted", name,
                               fmt::join(shape, ", "), fmt::join(t.shape, ", ")));
  if (wanted.element_bytes != 4) return problem(from, t, fmt::format("scales {} are no float32", name));
  Tensor scales{.name = name, .type = "float32", .shape = shape, .element_bytes = 4};
  for (Rank r = 0; r < from.ranks; ++r) {
    const Holding h = holding(from, t, r);
    if (!h.present || h.local_elements() == 0) continue;
    Box box{.rank = r, .offset = {}, .shape = {}};
    for (std::size_t d = 0; d < 2; ++d) {
      const DimensionPart& part = h.dims[d];
      if (part.intervals.size() != 1 || part.intervals[0].length != part.extent)
        return problem(from, t, fmt::format("rank {}: a part with scales is one box without padding", r));
      const auto [global, length, local] = part.intervals[0];
      if (global % kBlock != 0 || ((global + length) % kBlock != 0 && global + length != t.shape[d]))
        return problem(from, t,
                       fmt::format("rank {}: rows {} to {} of dimension {} cut a block of 128 that shares a scale", r,
                                   global, global + length - 1, d));
      box.offset.push_back(global / kBlock);
      box.shape.push_back(blocks(length));
    }
    scales.boxes.push_back(std::move(box));
  }
  return scales;
}

// One rank's part of a tensor with a scale per block.
void convert_scaled(const Type& from, const Type& to, std::int64_t rows, std::int64_t columns, const std::byte* in,
                    std::byte* out, std::byte* scales) {
  const auto at = [&](std::int64_t r, std::int64_t c) { return static_cast<std::size_t>(r * columns + c); };
  std::size_t block = 0;
  for (std::int64_t r0 = 0; r0 < rows; r0 += kBlock)
    for (std::int64_t c0 = 0; c0 < columns; c0 += kBlock) {
      const std::int64_t r1 = std::min(r0 + kBlock, rows), c1 = std::min(c0 + kBlock, columns);
      float largest = 0;
      for (std::int64_t r = r0; r < r1; ++r)
        for (std::int64_t c = c0; c < c1; ++c) {
          const float v = std::fabs(from.read(in + at(r, c) * from.bytes));
          if (std::isfinite(v)) largest = std::max(largest, v);
        }
      const float scale = largest == 0 ? 1.0F : largest / kLargest;
      store(scales + 4 * block++, scale);
      for (std::int64_t r = r0; r < r1; ++r)
        for (std::int64_t c = c0; c < c1; ++c)
          to.write(out + at(r, c) * to.bytes, from.read(in + at(r, c) * from.bytes) / scale);
    }
}

}  // namespace

Status convert(const std::string& from, std::span<const std::byte> in, const std::string& to,
               std::span<std::byte> out) {
  WEFT_TRY(const Type* const a, type_of(from));
  WEFT_TRY(const Type* const b, type_of(to));
  const std::size_t n = in.size() / a->bytes;
  if (out.size() / b->bytes != n)
    return bad_input("{} elements of {} for {} of {}", n, from, out.size() / b->bytes, to);
  for (std::size_t i = 0; i < n; ++i) b->write(out.data() + i * b->bytes, a->read(in.data() + i * a->bytes));
  return {};
}

namespace {

// The second layout's wish for a name, be it a tensor or a component of one.
struct Wanted {
  const Tensor* tensor = nullptr;
  std::vector<std::int64_t> shape;
};
using AllWanted = std::map<std::string, Wanted, std::less<>>;

AllWanted all_wanted(const Layout& to) {
  AllWanted wanted;
  for (const Tensor& t : to.tensors) {
    if (t.components.empty()) wanted[t.name] = {&t, t.shape};
    for (const auto& c : t.components) {
      auto shape = t.shape;
      shape[static_cast<std::size_t>(t.concat_dim)] = c.size;
      wanted[c.name] = {&t, std::move(shape)};
    }
  }
  return wanted;
}

// The tensor of the second layout that says the type of `t`; null: none wants it. Errors: components that are wanted
// with different types.
Result<const Tensor*> type_giver(const Layout& from, const Tensor& t, const AllWanted& wanted) {
  const Tensor* giver = nullptr;
  std::string_view first;
  const auto look = [&](const std::string& name) -> Status {
    const auto found = wanted.find(name);
    if (found == wanted.end()) return {};
    if (giver != nullptr && giver->type != found->second.tensor->type)
      return problem(from, t,
                     fmt::format("its parts {} and {} are wanted as {} and {}: they are converted together", first,
                                 name, giver->type, found->second.tensor->type));
    giver = found->second.tensor;
    first = name;
    return {};
  };
  if (t.components.empty()) WEFT_CHECK(look(t.name));
  for (const auto& c : t.components) WEFT_CHECK(look(c.name));
  return giver;
}

}  // namespace

Result<Converted> converted(const Layout& from, const Layout& to) {
  WEFT_CHECK(check(from));
  WEFT_CHECK(check(to));
  const AllWanted wanted = all_wanted(to);
  Converted c{.layout = from};
  for (std::size_t i = 0; i < from.tensors.size(); ++i) {
    const Tensor& t = from.tensors[i];
    WEFT_TRY(const Tensor* const giver, type_giver(from, t, wanted));
    if (giver == nullptr || giver->type == t.type || t.type.empty() || giver->type.empty()) continue;
    Conversion one{.tensor = static_cast<std::int32_t>(i), .from = t.type, .to = giver->type};
    for (const std::string& type : {one.from, one.to})
      if (const auto known = type_of(type); !known) return problem(from, t, known.error().message);
    const std::string scales_name = t.name + "_scale_inv";
    if (std::ranges::find(from.tensors, scales_name, &Tensor::name) != from.tensors.end())
      return problem(from, t,
                     fmt::format("has scales {} already: they are neither taken off nor made anew", scales_name));
    if (const auto scales = wanted.find(scales_name); scales != wanted.end()) {
      const Wanted& s = scales->second;
      WEFT_TRY(Tensor made, scales_of(from, t, scales->first, *s.tensor, s.shape));
      one.scales = static_cast<std::int32_t>(c.layout.tensors.size());
      c.layout.tensors.push_back(std::move(made));
    }
    Tensor& changed = c.layout.tensors[i];
    changed.type = giver->type;
    changed.element_bytes = giver->element_bytes;
    c.conversions.push_back(std::move(one));
  }
  return c;
}

Status convert_parts(const Layout& from, const Converted& converted, Rank rank, std::span<const std::byte> in,
                     std::span<std::byte> out) {
  const Memory before = memory_of(from, rank), after = memory_of(converted.layout, rank);
  if (static_cast<std::int64_t>(in.size()) < before.bytes || static_cast<std::int64_t>(out.size()) < after.bytes)
    return bad_input("rank {}: memory of {} and {} B for parts of {} and {} B", rank, in.size(), out.size(),
                     before.bytes, after.bytes);
  for (std::size_t i = 0; i < from.tensors.size(); ++i) {
    if (before.offsets[i] < 0) continue;
    const Holding h = holding(from, from.tensors[i], rank);
    const auto n = static_cast<std::size_t>(h.local_elements());
    const auto one = std::ranges::find(converted.conversions, static_cast<std::int32_t>(i), &Conversion::tensor);
    const std::byte* const a = in.data() + before.offsets[i];
    std::byte* const b = out.data() + after.offsets[i];
    const auto bytes = [n](const Tensor& t) { return n * static_cast<std::size_t>(t.element_bytes); };
    if (one == converted.conversions.end()) {
      std::memcpy(b, a, bytes(from.tensors[i]));
    } else if (one->scales < 0) {
      WEFT_CHECK(convert(one->from, {a, bytes(from.tensors[i])}, one->to, {b, bytes(converted.layout.tensors[i])}));
    } else if (n > 0) {
      WEFT_TRY(const Type* const source, type_of(one->from));
      WEFT_TRY(const Type* const target, type_of(one->to));
      convert_scaled(*source, *target, h.dims[0].extent, h.dims[1].extent, a, b,
                     out.data() + after.offsets[static_cast<std::size_t>(one->scales)]);
    }
  }
  return {};
}

}  // namespace weft::reshard
