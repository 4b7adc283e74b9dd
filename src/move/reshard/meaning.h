#pragma once

#include "move/reshard/layout.h"

namespace weft::reshard {

// Says of every element of a rank's part which element of which tensor it is.
class Meaning {
 public:
  struct Segment {                        // elements that follow each other both here and in the tensor
    const std::string* tensor = nullptr;  // null: padding
    std::int64_t first = 0, length = 0;
  };

  // Owns: the holding. The tensor must outlive it.
  Meaning(const Tensor& tensor, Holding holding);

  const Holding& holding() const { return holding_; }
  std::int64_t elements() const { return elements_; }

  // Requires: 0 <= at < elements().
  Segment at(std::int64_t at) const;

  // Elements at equal distances: from `at` on, those of `count` pieces of `length` elements, `stride` apart.
  struct Run {
    Segment segment;         // of the first piece; its length is at most `length`
    std::int64_t count = 1;  // pieces from the first on that begin with a segment of this length
    std::int64_t step = 0;   // from one's first element in the tensor to the next one's
  };
  // Requires: all pieces lie in [0, elements()), stride > 0.
  Run run(std::int64_t at, std::int64_t length, std::int64_t stride, std::int64_t count) const;

 private:
  bool whole(std::size_t d) const;

  const Tensor& tensor_;
  Holding holding_;
  std::int64_t elements_, inner_ = 1;
  std::size_t row_ = 0;
};

}  // namespace weft::reshard
