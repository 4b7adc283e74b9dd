#pragma once

#include <nlohmann/json.hpp>

#include "plan/tune/nccl/choice.h"
#include "plan/tune/nccl/search.h"
#include "plan/tune/tune.h"

namespace weft::cli {

// NCCL's choice for a question, beside weft's.
struct NcclView {
  std::string unavailable;  // why there is nothing else here; empty: there is
  tune::nccl::System system;
  std::vector<tune::nccl::Row> rows;
  std::vector<tune::nccl::SameChoice> by_release;
  std::string rule;         // by which it chose, where it compares nothing
  tune::Candidate by_weft;  // NCCL's choice as weft times it; possible or with the reason
};

NcclView ask_nccl(const cost::MachineView& machine, const tune::Question& question);

// `best`: weft's own choice.
void print_nccl(const NcclView& nccl, const tune::Candidate& best);
nlohmann::json nccl_json(const NcclView& nccl, const tune::Candidate& best);

}  // namespace weft::cli
