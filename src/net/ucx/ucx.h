#pragma once

#include "net/messages/world.h"

// The fabric of ranks that UCX joins. What UCX uses for it (verbs, shared memory, TCP) is its own choice, and that of
// its own environment variables.
namespace weft::net::ucx {

fabric::Capabilities capabilities();

// Errors (bad input): this weft was built without UCX, or the library is not there. Thread: any.
Status available();

// UCX in this process: what its workers have in common.
// Thread: any, one at a time per context.
class Context;

// Errors: of available(); kNoResources, kSystem: what UCX says.
Result<std::shared_ptr<Context>> open_context();

// A rank of those who have met. Errors: kNoResources, kSystem.
Result<std::unique_ptr<messages::World>> open(std::shared_ptr<Context> context, bootstrap::Meeting meeting, Rank rank,
                                              messages::WaitPolicy::Limits limits);

}  // namespace weft::net::ucx
