#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/result.h"
#include "plan/schedule/exchange/document.h"
#include "plan/schedule/schedule.h"

namespace weft::schedule::mscclpp {

using Where = std::tuple<Rank, Buffer, ChunkId>;  // a rank's slot or chunk

// Members of a plan's objects; what is missing or of another type is the given value, empty, an empty list.
std::int64_t number(const nlohmann::json& object, const char* key, std::int64_t otherwise);
std::string word(const nlohmann::json& object, const char* key);
const nlohmann::json& list(const nlohmann::json& object, const char* key);

// One operation of one thread block, as it stands in the file; bodies of pipelines are taken in place.
struct Op {
  const nlohmann::json* op = nullptr;
  Rank gpu = 0;
  int block = 0, number = 0;
};

// The ranks of a switch channel, and its buffer: "i", "o" or "s".
struct Switch {
  Group group;
  std::string type;
};

// A plan's sizes, and which chunks and slots its references name.
class PlanCells {
 protected:
  explicit PlanCells(std::string_view name) : file_(name) {}

  Schedule& schedule() { return document_.schedule; }
  Shape& shape() { return document_.schedule.shape; }

  // Name, collective, gpus, and the size of every buffer.
  Status read_sizes(const nlohmann::json& root);
  const nlohmann::json& block_of(const Op& op) const;
  // The channel that a thread block calls by a number of its own.
  Result<std::int64_t> channel(const Op& op, const std::string& type, std::int64_t index) const;
  Result<Switch> switch_of(const Op& op, std::int64_t id) const;
  // The part of a buffer's reference that one thread block handles: [first, first + count) in parts of chunks.
  std::pair<std::int64_t, std::int64_t> range(const Op& op, const nlohmann::json& reference) const;
  // The place that a reference names at its i-th part.
  Result<Where> place(const Op& op, const nlohmann::json& reference, std::int64_t i) const;
  Result<Where> cell(const Op& op, Rank rank, const std::string& type, const nlohmann::json& reference,
                     std::int64_t i) const;
  // An exchange in place leaves in a slot of the input what belongs there of the output.
  Where as_written(const Where& where) const;

  std::string file_;
  Document document_;
  std::vector<const nlohmann::json*> gpus_;
  std::int64_t parts_ = 1;  // chunks are cut so that each thread block of a group has whole ones

 private:
  Status read_head(const nlohmann::json& root);
  void find_parts(const nlohmann::json& ops, int depth);
};

}  // namespace weft::schedule::mscclpp
