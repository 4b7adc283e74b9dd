#pragma once

#include <functional>

#include "apps/training/answer.h"

namespace weft::cli {

// Errors (bad input): an option of the plan that the command line has `given`, and that another one leaves without
// effect. Both are named.
Status check_effect(const training::Words& words, const std::function<bool(const char* option)>& given);

}  // namespace weft::cli
