#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/name_filter.h"
#include "base/result.h"
#include "base/units.h"

namespace weft::env {

// Every environment variable weft reads. `weft run --help` prints this table.
struct Variable {
  std::string_view name;
  std::string_view type;      // "number", "size", "text"
  std::string_view fallback;  // what holds when it is unset
  std::string_view meaning;
};
std::span<const Variable> table();

// The variables that launchers set for their processes (torchrun, Open MPI, MPICH, Slurm).
std::span<const std::string_view> launcher_names();

// The variables' values, read once and handed down; nothing else in weft looks at the environment.
struct Settings {
  std::optional<Rank> rank;  // WEFT_RANK
  std::optional<Rank> size;  // WEFT_SIZE
  bool rank_is_pod = false;  // the rank is JOB_COMPLETION_INDEX, as WEFT_RANK is not set
  std::string id;            // WEFT_ID
  std::int64_t timeout_ms = 30000;
  bool timeout_given = false;              // WEFT_TIMEOUT_MS is set
  Bytes symmetric_bytes = Bytes{1} << 30;  // WEFT_SYMMETRIC_SIZE, SHMEM_SYMMETRIC_SIZE
  Bytes heap_bytes = Bytes{1} << 30;
  std::string algorithm, protocol;  // forced for every call that does not force its own
  std::int64_t channels = 0;
  std::int64_t least_channels = 0, most_channels = 0;  // NCCL_MIN_NCHANNELS, NCCL_MAX_NCHANNELS; 0: as chosen
  // NCCL_ALGO and NCCL_PROTO, in weft's names, by collective: "all_reduce"; see filter_of.
  std::map<std::string, NameFilter, std::less<>> nccl_algorithms, nccl_protocols;
  Bytes nccl_buffer = 0;                                   // NCCL_BUFFSIZE; 0: as plans need
  NameFilter nccl_nics;                                    // NCCL_IB_HCA: beginnings of names, "=NAME": whole names
  std::string nccl_gdr, nccl_p2p;                          // NCCL_NET_GDR_LEVEL, NCCL_P2P_LEVEL: "loc" … "sys"
  bool reproducible = false;                               // WEFT_REPRODUCIBLE
  std::string rates;                                       // WEFT_RATES
  std::string cache_folder;                                // for what is measured once; empty: none
  Log::Options log;                                        // WEFT_DEBUG, WEFT_DEBUG_SUBSYS, WEFT_DEBUG_FILE
  bool log_level_given = false, log_parts_given = false;   // … which NCCL's names then do not change
  std::vector<std::string> nccl_understood, nccl_ignored;  // a sentence per NCCL_* name: see nccl_names.h
  std::string calibration;                                 // WEFT_CALIBRATION
  std::string transport;                                   // WEFT_TRANSPORT: see check_transport; empty: shm+tcp
  std::string device;                                      // WEFT_DEVICE: "cuda" (as if empty), "host"
  std::string device_path;                                 // WEFT_DEVICE_PATH: "host", or empty
  std::string interface, node, ports;                      // WEFT_IFACE, WEFT_NODE, WEFT_PORTS
  std::string store, join, key;                 // WEFT_STORE, WEFT_JOIN, WEFT_KEY: where and as whom ranks meet
  std::string secure;                           // WEFT_SECURE: "mac", "encrypt", empty: off
  std::string arbiter;                          // WEFT_ARBITER
  int sockets = 1;                              // WEFT_TCP_SOCKETS
  std::string zero_copy;                        // WEFT_TCP_ZEROCOPY: "on", "off", empty: by adapter
  bool aggregates = false;                      // WEFT_TCP_AGGREGATION
  int record_entries = 4096;                    // WEFT_RECORD
  std::string record_folder;                    // WEFT_RECORD_DIR
  std::string trace, trace_events;              // WEFT_TRACE, WEFT_TRACE_EVENTS
  std::string pgas_trace;                       // WEFT_PGAS_TRACE
  std::map<std::string, std::string> launcher;  // those of launcher_names() that are set
};

// Variables of this process whose names begin with one of these.
std::vector<std::pair<std::string, std::string>> starting_with(std::initializer_list<std::string_view> prefixes);
// One variable; nothing: it is not set.
std::optional<std::string> value_of(const std::string& name);
// Where programs are looked up: PATH.
std::string search_path();
// The addresses of the ssh connection that this process was started through; empty: without ssh.
struct SshConnection {
  std::string client, server;
};
SshConnection ssh_connection(const Settings& settings);

// The ways for processes to reach each other; the empty text comes first.
std::span<const std::string_view> transports();
std::uint8_t number_of_transport(const std::string& transport);  // its place there; 0 for an unknown one

// Is this a way for processes to reach each other, or empty? Errors (bad input): names `what` and the value.
Status check_transport(const std::string& what, const std::string& transport);

// Errors (bad input): names the variable and its value; of WEFT_KEY and WEFT_JOIN not the value.
Result<Settings> read();

// Overwrites the values of WEFT_KEY and WEFT_JOIN in this process's environment, so that neither programs that it
// starts nor /proc/PID/environ have them. The variables stay set, with empty values: nothing moves that another thread
// may be reading. read() still returns the values in this process, until the variables are set anew or unset. Thread:
// any.
void hide_secrets();

}  // namespace weft::env
