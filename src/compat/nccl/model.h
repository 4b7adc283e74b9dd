#pragma once

#include <span>

#include "compat/nccl/group.h"
#include "plan/schedule/lower/plan.h"

// What weft would do with operations, and how long its model says that takes, without doing them.
namespace weft::compat::nccl {

// The plan that a collective gets, with what its request forces. Errors: nothing serves.
Result<schedule::Plan> plan_of(const Operation& operation);

// The time of operations that begin together: those of one communicator one after the other, messages side by side.
// Errors: of the model, which need not know a machine's GPUs.
Result<Duration> estimate(std::span<const Operation> operations);

}  // namespace weft::compat::nccl
