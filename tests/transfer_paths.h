#pragma once

#include <string>
#include <utility>

#include "net/ucx/ucx.h"
#include "weft/transfer.h"

// The paths between agents that tests take by name: "tcp" and "ucx" although both are on this machine; any other name
// is the path that the agents choose.
namespace weft::tests {

inline transfer::Options by(const std::string& path, transfer::Options options) {
  if (path != "tcp" && path != "ucx") return options;
  options.network = path == "ucx" ? transfer::Network::kUcx : transfer::Network::kTcp;
  options.only_network = true;
  return options;
}

// Of an agent that peers reach by TCP, and by UCX where that is there.
inline transfer::Options by_any(transfer::Options options) {
  options.network = net::ucx::available() ? transfer::Network::kUcx : transfer::Network::kTcp;
  return options;
}

// Why the path is not there; empty: it is.
inline std::string missing(const std::string& path) {
  const Status there = net::ucx::available();
  return path != "ucx" || there ? "" : there.error().message;
}

}  // namespace weft::tests
