#pragma once

#include <map>
#include <string>

#include "base/env.h"

namespace weft::env {

// The NCCL_* variables that weft understands, or knows that it cannot honour.
std::span<const std::string_view> nccl_names();

// What these variables mean in weft's own words, where weft's own variable does not say otherwise: changes `settings`,
// and leaves a sentence per variable, except for those of the log that are understood, in settings.nccl_understood or,
// if it cannot be honoured, in nccl_ignored. A variable of NCCL's with a value that NCCL does not know is one that
// cannot be honoured.
// NCCL_ALGO and NCCL_PROTO are lists as NCCL 2.32 reads them: "ring,tree", "^LL128", and of one function
// "ring;allreduce:tree,collnetdirect"; of several lists for a function the last one holds.
void apply_nccl_names(const std::map<std::string, std::string>& nccl, Settings& settings);

// What holds for a collective by weft's name ("all_reduce"); empty: every name may be chosen.
const NameFilter& filter_of(const std::map<std::string, NameFilter, std::less<>>& by_collective, std::string_view name);

// Is a NIC one of those that NCCL_IB_HCA allows? Its names are beginnings ("mlx5" means mlx5_0 and mlx5_1), "=" makes
// them whole; ports (":1") are not compared.
bool allows_nic(const NameFilter& nics, std::string_view name);

}  // namespace weft::env
