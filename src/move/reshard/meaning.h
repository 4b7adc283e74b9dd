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

 private:
  bool whole(std::size_t d) const;

  const Tensor& tensor_;
  Holding holding_;
  std::int64_t elements_, inner_ = 1;
  std::size_t row_ = 0;
};

}  // namespace weft::reshard
