#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <utility>

#include "weft/transfer.h"

namespace weft::python {

// An agent and what Python lends it. Requests, lists and stores hold it, so that it ends last.
struct SharedAgent {
  explicit SharedAgent(transfer::Agent a) : agent(std::move(a)) {}
  ~SharedAgent() {
    const nanobind::gil_scoped_release released;
    { const transfer::Agent ended = std::move(agent); }
  }
  transfer::Agent agent;
};

struct TransferList {
  std::shared_ptr<SharedAgent> shared;
  transfer::Prepared prepared;
};

// The classes TransferAgent, TransferList and TransferRequest; weftcomm/transfer.py gives them types and documentation.
void add_transfer(nanobind::module_& m);
// The classes KvStore, KvServer, KvClient, KvLease and KvWriting, for weftcomm/kv.py.
void add_kv(nanobind::module_& m);
// The classes ReshardPlan, ReshardReceiver and ReshardPublisher, for weftcomm/reshard.py.
void add_reshard(nanobind::module_& m);

}  // namespace weft::python
