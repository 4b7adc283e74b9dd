#pragma once

#include <string>
#include <vector>

#include "apps/rehearsal/prices.h"
#include "apps/rehearsal/run.h"

namespace weft::rehearsal {

// Something that works and could be better. No finding: the exit status stays.
struct Hint {
  std::string rule;  // "unused_group", "could_be_one", "tiny_messages", "unaligned"
  std::string text, line;
};

// Groups that no rehearsed member uses; calls of one line that follow each other without a kernel of weight between
// them; lines whose calls are tiny and waited for; shards that are no multiple of 16 B. By rule and line, each once.
// Errors: those of the prices.
Result<std::vector<Hint>> hints_of(const Job& job, const Outcome& outcome, Prices& prices);

}  // namespace weft::rehearsal
