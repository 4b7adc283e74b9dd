#pragma once

#include <map>
#include <span>
#include <string>

#include "move/reshard/convert.h"

namespace weft::cli {

// What a trial of a plan has in its tensors: elements that say which element of which tensor and which version they
// are, so that every rank can fill its own part and compare it. Elements that are to be converted are floats of few
// bits; all others are bytes.
class ReshardValues {
 public:
  static constexpr std::int64_t kBlock = 16 << 10;  // bytes of a tensor that change together

  // `from`: as the senders have it before they convert. `changed`: the share of blocks that are new in version 2.
  ReshardValues(const reshard::Layout& from, const reshard::Converted* converted, double changed);

  // One rank's parts of a layout as it is before conversion, in memory_of(layout, rank). Padding is left alone.
  void fill(const reshard::Layout& layout, Rank rank, int version, std::byte* memory) const;

  // Bytes of a rank of `to` that are not what version `version` has there. Conversions are made a second time, of whole
  // tensors in this process. Errors: those of convert_parts().
  class Expected {
   public:
    std::int64_t wrong(const reshard::Layout& to, Rank rank, const std::byte* memory) const;

   private:
    friend class ReshardValues;
    const ReshardValues* values_ = nullptr;
    int version_ = 1;
    std::vector<std::byte> memory_;
    std::map<std::string, std::span<const std::byte>, std::less<>> converted_;  // by name, whole
  };
  Result<Expected> expected(const reshard::Layout& to, int version) const;

 private:
  bool changes(std::size_t tensor, std::int64_t byte) const;
  std::byte byte_of(std::size_t tensor, std::int64_t i, int version) const;
  void put_floats(const std::string& type, std::size_t tensor, std::int64_t first, std::int64_t count, int version,
                  std::byte* to) const;

  std::map<std::string, reshard::Tensor, std::less<>> floats_;  // by name: what is converted, whole, as it is before
  std::uint64_t changed_;                                       // of 2^32
};

}  // namespace weft::cli
