#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace weft::rehearsal {

// Chakra execution traces (MLCommons, schema/protobuf/et_def.proto; 0.0.4 and later): what ASTRA-sim's workloads are.

// True for "PREFIX.3.et", the trace of rank 3, and for what ends in ".et".
bool is_chakra(std::string_view name);
// Errors (bad input): the name says no rank.
Result<int> rank_of_chakra(const std::string& name);

// Members of the groups that a trace's pg_name names, as ASTRA-sim's comm_group.json has them: {"0": [0, 1], …}.
using ChakraGroups = std::map<std::string, std::vector<int>>;
// Errors (bad input): names the file and the group.
Result<ChakraGroups> parse_chakra_groups(const std::string& name, std::string_view text);

// One rank's trace as weft.rehearsal/1, in an order that keeps all dependencies: computing on one stream, each group's
// collectives and each peer's messages on streams of their own. A node that computes takes its recorded duration; one
// without has its FLOP and bytes (num_ops, tensor_size), which the machine's card times. `world`: ranks of the job; a
// call without pg_name is of all. comm_size is the input of a rank. Sends are
// buffered, as ASTRA-sim has them: what depends on one does not wait for its receiver. Errors (bad input): names the
// file, the node and what is wrong: no protobuf, a circle of dependencies, an unknown group, a rank that is none.
Result<std::string> recording_of_chakra(const std::string& name, std::string_view bytes, int world,
                                        const ChakraGroups& groups);

}  // namespace weft::rehearsal
