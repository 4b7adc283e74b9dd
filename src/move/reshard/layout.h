#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"

// Layouts as data: how tensors are spread over ranks. All counts of rows and elements are of one tensor's dimension.
namespace weft::reshard {

// Ranks in a grid; the last axis varies fastest in `ranks`.
struct Mesh {
  struct Axis {
    std::string name;
    std::int64_t size = 1;
    bool operator==(const Axis&) const = default;
  };
  std::string name;
  std::vector<Axis> axes;
  std::vector<Rank> ranks;  // as many as the axes' sizes multiply to, each once

  bool operator==(const Mesh&) const = default;
};

// One axis of the mesh splits one dimension. Splits of the same dimension apply one after the other, each to what the
// one before has left of it.
struct Split {
  enum class Kind : std::uint8_t {
    kShard,        // chunks of ceil(n / k) rows as torch.chunk and DTensor: the last ranks may have fewer or none
    kBlockCyclic,  // blocks of `block` rows, dealt out in turn
    kInterleaved,  // parts, each sharded for itself: fused QKV, gate and up
  };
  // A part of an interleaved dimension. `copies`: this many neighbours on the axis hold the same rows of it, as heads
  // of keys and values where there are fewer heads than ranks.
  struct Part {
    std::int64_t size = 0, copies = 1;
    bool operator==(const Part&) const = default;
  };
  int axis = 0, dim = 0;
  Kind kind = Kind::kShard;
  std::int64_t block = 1;   // block-cyclic
  std::int64_t copies = 1;  // shard: as of a part
  std::vector<Part> parts;  // interleaved
  bool even = false;        // an uneven split is an error, as in Megatron and vLLM

  bool operator==(const Split&) const = default;
};

// The part of a tensor that one rank holds, where it is listed instead of computed.
struct Box {
  Rank rank = 0;
  std::vector<std::int64_t> offset, shape;
  bool operator==(const Box&) const = default;
};

// A tensor of a layout. Every rank's part lies row-major in memory of its own.
struct Tensor {
  // One of the tensors whose concatenation along a dimension this one is: q, k and v of a fused projection.
  struct Component {
    std::string name;
    std::int64_t size = 0;  // rows along concat_dim
    bool operator==(const Component&) const = default;
  };
  std::string name;
  std::string type = {};            // of its elements, as type_named() has it; empty: only their size is known
  std::vector<std::int64_t> shape;  // global; no dimensions: one element
  std::int64_t element_bytes = 1;
  int mesh = 0;                      // ranks of no axis that splits a dimension hold copies
  std::vector<Split> splits;         // in the order in which they apply
  std::vector<std::int64_t> padded;  // empty, or per dimension at least its size: rows beyond it exist and hold nothing
  std::vector<Box> boxes;            // not empty: these instead of mesh and splits, at most one per rank
  int concat_dim = 0;
  std::vector<Component> components;  // empty: the tensor is its own

  bool operator==(const Tensor&) const = default;
};

struct Layout {
  std::string name;  // the file it was read from; errors begin with it
  Rank ranks = 1;
  std::vector<Mesh> meshes;
  std::vector<Tensor> tensors;
};

// Rows [global, global + length) of a dimension, which lie from row `local` on in a rank's part.
struct Interval {
  std::int64_t global = 0, length = 0, local = 0;
  auto operator<=>(const Interval&) const = default;
};
// What a rank holds along one dimension. `extent`: rows of its part, those of padding included.
struct DimensionPart {
  std::vector<Interval> intervals;  // by growing `local`; none overlaps another
  std::int64_t extent = 0;
  auto operator<=>(const DimensionPart&) const = default;
  std::int64_t rows() const;
};
// What a rank holds of a tensor: the product of its dimensions' parts. No value in `dims` for a tensor without
// dimensions.
struct Holding {
  bool present = false;  // false: the rank has no part of the tensor at all
  std::vector<DimensionPart> dims;
  bool operator==(const Holding&) const = default;

  std::int64_t elements() const;        // with data
  std::int64_t local_elements() const;  // with those of padding
};

// Errors (bad input) in one line that begins with the layout's name and names the tensor: ranks outside of the layout,
// a split that fits no dimension, parts that do not add up, boxes outside of the tensor or that overlap in part, sizes
// beyond 2^62 bytes.
Status check(const Layout& layout);

// Requires: check() has passed; 0 <= rank < layout.ranks.
Holding holding(const Layout& layout, const Tensor& tensor, Rank rank);

// Elements of the whole tensor. Requires: check() has passed.
std::int64_t elements(const Tensor& tensor);

// The tensor without its name, as text: tensors of one layout with equal texts are spread alike.
std::string spread_key(const Tensor& tensor);

}  // namespace weft::reshard
