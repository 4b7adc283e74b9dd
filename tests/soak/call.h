#pragma once

#include <cstdint>
#include <string>

#include "weft/communicator.h"

namespace weft::soak {

// Numbers that follow from a seed (SplitMix64): the same on all ranks and machines.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
  }
  std::uint64_t below(std::uint64_t limit) { return next() % limit; }

 private:
  std::uint64_t state_;
};

// One collective of random kind, type, operation, root and size, blocking or started and waited for, in place or not.
struct Call {
  Collective collective;
  DataType type;
  ReduceOp op;
  Rank root;
  std::size_t count;
  bool in_place, started;
  std::uint64_t salt;  // of the data

  static Call draw(Random& random, Rank ranks);
  std::string text() const;
};

// Makes the call with inputs that every rank can compute, and checks every element of this rank's result. Inputs are
// small whole numbers, so that every type and order of summation gives the exact result.
// Errors: the call's. The text is empty, or says which element is wrong.
Result<std::string> make(const Call& call, Communicator& comm);

}  // namespace weft::soak
