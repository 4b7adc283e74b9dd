#pragma once

#include <memory>
#include <thread>

#include "base/env.h"
#include "net/bootstrap/meeting.h"

namespace weft::net::bootstrap {

// A rank of a job, as the environment describes it: who it is, and where the ranks find each other.
struct Job {
  Rank rank = 0, ranks = 1;
  std::string launcher;        // for messages: "weft run", "torchrun", …
  std::string local_name;      // not empty: all ranks are on this machine and meet under this name
  std::optional<UniqueId> id;  // … or at this address
  bool hosts = false;          // and this rank opens it
  std::string file;            // … or through this file, in which rank 0 leaves the id
  bool guarded = true;         // only processes with a secret can join
  std::string advice;          // for a rank that turns out to have another key than the host; may be empty
};

// Nothing: not part of a job. What weft's own variables say comes before other launchers'.
// Errors (bad input): variables that contradict each other or do not parse; a job of more than one machine whose
// launcher names no place to meet, or that has no key (secret.h).
Result<std::optional<Job>> job_of(const env::Settings& settings);

// WEFT_PORTS: where meeting places and ranks may listen. Errors (bad input).
Result<Ports> ports_of(const env::Settings& settings);

// Where the arbiter of the job listens; family 0: there is none. Errors (bad input).
Result<Address> arbiter_of(const env::Settings& settings);

// The first host of a Slurm list such as "node[03-05,9],login1". Errors (bad input).
Result<std::string> first_host(const std::string& list);

// The name of the pod of index 0, made of that of index `index`: "train-3.train.default.svc" ->
// "train-0.train.default.svc". Errors (bad input): the name does not end its first part with the index.
Result<std::string> first_pod(const std::string& name, Rank index);

// Opens the meeting place if that is this rank's task, and joins. Errors: of meet(); of the file, naming it.
Result<Meeting> meet(const Job& job, const env::Settings& settings);

}  // namespace weft::net::bootstrap
