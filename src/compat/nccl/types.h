#pragma once

#include "compat/nccl/nccl.h"
#include "weft/communicator.h"

namespace weft::compat::nccl {

// Errors (bad input): a number that is no type or operation.
Result<DataType> type_of(ncclDataType_t type);
Result<ReduceOp> op_of(ncclRedOp_t op);
// One element of this type as what contributions are multiplied by.
Scalar scalar_from(DataType type, const void* element);

}  // namespace weft::compat::nccl
