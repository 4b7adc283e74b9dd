#pragma once

#include "plan/tune/nccl/model.h"

namespace weft::tune::nccl {

// What NCCL sends from rank to rank, between ncclGroupStart and ncclGroupEnd: all_to_all, gather, scatter,
// send_receive.
bool is_grouped(Collective collective);

// A row for LL and one for Simple; the one that NCCL takes is chosen. It rates neither: there is nothing to compare,
// the protocol and the channels of a message follow from its bytes. Requires: is_grouped(collective); `bytes` of the
// whole message, as nccl-tests count it. Source: src/enqueue.cc (addP2pToPlan, scheduleP2pTasksToPlan) and
// src/graph/paths.cc (ncclTopoComputeP2pChannels) of 2.19.4 to 2.30.7.
std::vector<Row> grouped_rows(const System& system, Collective collective, Bytes bytes);

// Channels that NCCL connects to each peer which something is sent to, whatever a message takes of them.
int channels_to_peer(const System& system);

// "a peer's part of 128K on 16 channels of at most 16K each": by what rule the release chose.
std::string grouped_rule(const System& system, Collective collective, Bytes bytes);

}  // namespace weft::tune::nccl
