#include "apps/cli/reshard_values.h"

#include <cmath>
#include <functional>

#include "move/reshard/layout_json.h"
#include "move/reshard/meaning.h"
#include "move/reshard/receiver.h"

namespace weft::cli {
namespace {

std::size_t number_of(std::string_view tensor) { return std::hash<std::string_view>()(tensor); }

// Calls for every run of a rank's elements that has data: where it lies in the rank's memory in bytes, tensor, first
// element, elements, bytes of one.
void for_each_run(const reshard::Layout& layout, Rank rank, const auto& call) {
  const reshard::Memory memory = reshard::memory_of(layout, rank);
  for (std::size_t t = 0; t < layout.tensors.size(); ++t) {
    const std::int64_t e = layout.tensors[t].element_bytes;
    const reshard::Meaning meaning(layout.tensors[t], reshard::holding(layout, layout.tensors[t], rank));
    for (std::int64_t at = 0; at < meaning.elements();) {
      const auto segment = meaning.at(at);
      if (segment.tensor != nullptr)
        call(memory.offsets[t] + at * e, *segment.tensor, segment.first, segment.length, e);
      at += segment.length;
    }
  }
}

// The tensors of `t` that have names of their own, whole, on rank 0 of one.
std::vector<reshard::Tensor> whole_tensors(const reshard::Tensor& t) {
  std::vector<reshard::Tensor> all;
  const auto add = [&](const std::string& name, std::vector<std::int64_t> shape) {
    reshard::Box box{.rank = 0, .offset = std::vector<std::int64_t>(shape.size()), .shape = shape};
    all.push_back({.name = name,
                   .type = t.type,
                   .shape = std::move(shape),
                   .element_bytes = t.element_bytes,
                   .boxes = {std::move(box)}});
  };
  if (t.components.empty()) add(t.name, t.shape);
  for (const auto& c : t.components) {
    auto shape = t.shape;
    shape[static_cast<std::size_t>(t.concat_dim)] = c.size;
    add(c.name, std::move(shape));
  }
  return all;
}

}  // namespace

ReshardValues::ReshardValues(const reshard::Layout& from, const reshard::Converted* converted, double changed)
    : changed_(static_cast<std::uint64_t>(std::llround(changed * 0x1p32))) {
  if (converted == nullptr) return;
  for (const reshard::Conversion& c : converted->conversions)
    for (reshard::Tensor& t : whole_tensors(from.tensors[static_cast<std::size_t>(c.tensor)])) {
      std::string name = t.name;
      floats_.emplace(std::move(name), std::move(t));
    }
}

bool ReshardValues::changes(std::size_t tensor, std::int64_t byte) const {
  std::uint64_t x = (static_cast<std::uint64_t>(byte / kBlock) + 1) * 0x9e3779b97f4a7c15ULL ^ tensor;
  x ^= x >> 31;
  x *= 0xbf58476d1ce4e5b9ULL;
  return x >> 32 < changed_;
}

std::byte ReshardValues::byte_of(std::size_t tensor, std::int64_t i, int version) const {
  const std::size_t value = static_cast<std::size_t>(i) * 31 + static_cast<std::size_t>(i >> 12) * 7 + tensor;
  return static_cast<std::byte>(version > 1 && changes(tensor, i) ? ~value : value);
}

// -127/16 to 127/16 by sixteenths: exact in float32, bfloat16 and float16.
void ReshardValues::put_floats(const std::string& type, std::size_t tensor, std::int64_t first, std::int64_t count,
                               int version, std::byte* to) const {
  const auto size = static_cast<std::int64_t>(*reshard::element_bytes_of(type));
  std::vector<float> values(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    const auto steps = static_cast<std::int64_t>((static_cast<std::size_t>(first + i) * 31 + tensor) % 255) - 127;
    const float value = static_cast<float>(steps) / 16.0F;
    values[static_cast<std::size_t>(i)] = version > 1 && changes(tensor, (first + i) * size) ? -value : value;
  }
  (void)reshard::convert("float32", std::as_bytes(std::span(values)), type,
                         {to, static_cast<std::size_t>(count * size)});
}

void ReshardValues::fill(const reshard::Layout& layout, Rank rank, int version, std::byte* memory) const {
  for_each_run(layout, rank,
               [&](std::int64_t at, const std::string& name, std::int64_t first, std::int64_t n, std::int64_t e) {
                 const std::size_t tensor = number_of(name);
                 if (const auto f = floats_.find(name); f != floats_.end())
                   return put_floats(f->second.type, tensor, first, n, version, memory + at);
                 for (std::int64_t i = 0; i < n * e; ++i) memory[at + i] = byte_of(tensor, first * e + i, version);
               });
}

Result<ReshardValues::Expected> ReshardValues::expected(const reshard::Layout& to, int version) const {
  Expected expected;
  expected.values_ = this;
  expected.version_ = version;
  if (floats_.empty()) return expected;
  reshard::Layout whole{.name = "what is expected"};
  for (const auto& [name, tensor] : floats_) whole.tensors.push_back(tensor);
  WEFT_TRY(const auto converted, reshard::converted(whole, to));
  std::vector<std::byte> before(static_cast<std::size_t>(reshard::memory_of(whole, 0).bytes));
  fill(whole, 0, version, before.data());
  const reshard::Memory memory = reshard::memory_of(converted.layout, 0);
  expected.memory_.resize(static_cast<std::size_t>(memory.bytes));
  WEFT_CHECK(reshard::convert_parts(whole, converted, 0, before, expected.memory_));
  for (std::size_t t = 0; t < converted.layout.tensors.size(); ++t) {
    const reshard::Tensor& tensor = converted.layout.tensors[t];
    expected.converted_[tensor.name] = {expected.memory_.data() + memory.offsets[t],
                                        static_cast<std::size_t>(reshard::elements(tensor) * tensor.element_bytes)};
  }
  return expected;
}

std::int64_t ReshardValues::Expected::wrong(const reshard::Layout& to, Rank rank, const std::byte* memory) const {
  std::int64_t wrong = 0;
  for_each_run(to, rank,
               [&](std::int64_t at, const std::string& name, std::int64_t first, std::int64_t n, std::int64_t e) {
                 if (const auto c = converted_.find(name); c != converted_.end()) {
                   for (std::int64_t i = 0; i < n * e; ++i)
                     wrong += memory[at + i] != c->second[static_cast<std::size_t>(first * e + i)];
                   return;
                 }
                 const std::size_t tensor = number_of(name);
                 for (std::int64_t i = 0; i < n * e; ++i)
                   wrong += memory[at + i] != values_->byte_of(tensor, first * e + i, version_);
               });
  return wrong;
}

}  // namespace weft::cli
