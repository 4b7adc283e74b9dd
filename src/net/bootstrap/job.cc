#include "net/bootstrap/job.h"

#include <fcntl.h>
#include <netdb.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <future>

#include "base/own_folder.h"
#include "base/text.h"
#include "net/bootstrap/secret.h"
#include "net/link/handshake.h"
#include "net/link/interfaces.h"
#include "weft/interrupt.h"

namespace weft::net::bootstrap {
namespace {

constexpr std::int64_t kMostRanks = 1 << 20;

using Variables = std::map<std::string, std::string>;

std::string value_of(const Variables& from, const std::string& name) {
  const auto found = from.find(name);
  return found == from.end() ? "" : found->second;
}

// Rank and ranks from two variables; nothing if either is unset.
Result<std::optional<Job>> numbered(const Variables& v, const std::string& launcher, const std::string& rank,
                                    const std::string& ranks) {
  if (!v.contains(rank) || !v.contains(ranks)) return std::nullopt;
  WEFT_TRY(const auto n, parse_integer(ranks, value_of(v, ranks), 1, kMostRanks));
  WEFT_TRY(const auto r, parse_integer(rank, value_of(v, rank), 0, n - 1));
  return Job{.rank = static_cast<Rank>(r), .ranks = static_cast<Rank>(n), .launcher = launcher};
}

// Meets at a known address, under a key made of the job's secret and of what distinguishes it from other jobs of the
// same secret. `one_host`: all ranks are on one host for certain; then the user's own key will do, which no other user
// can read. Errors (bad input): there is no secret; of secret_of() and user_key().
Status meet_at(Job& job, const env::Settings& s, const Address& at, const std::string& common, bool one_host) {
  WEFT_TRY(const Secret secret, secret_of(s));
  const std::string name = "weft job " + common;
  UniqueId id;
  id.addresses[0] = at;
  if (secret.kind == Secret::Kind::kNone) {
    id.key = sha256(name);
    job.guarded = false;
  } else {
    Key key = secret.key;
    if (secret.kind == Secret::Kind::kUnset) {
      if (!one_host)
        return bad_input(
            "ranks of {} that may be on several hosts need a key: export WEFT_KEY=$(openssl rand -hex 32) for all of "
            "them, or WEFT_KEY=none to let anybody join who reaches {}",
            job.launcher, at.text());
      WEFT_TRY(key, user_key());
      job.advice = fmt::format("; without WEFT_KEY ranks of one host use the key in {}", user_key_path());
    }
    id.key = mac(key, {{reinterpret_cast<const std::uint8_t*>(name.data()), name.size()}});
  }
  job.id = id;
  job.hosts = job.rank == 0;
  return {};
}

Status apply_store(Job& job, const env::Settings& s) {
  if (s.store.rfind("file:", 0) == 0 && s.store.size() > 5) {
    job.file = s.store.substr(5);
  } else if (s.store.rfind("tcp:", 0) == 0) {
    WEFT_TRY(const Address at, parse_address("WEFT_STORE", s.store.substr(4)));
    WEFT_CHECK(meet_at(job, s, at, fmt::format("{} {}", s.id, s.store), at.loopback()));
  } else {
    return bad_input("WEFT_STORE '{}' is neither file:PATH nor tcp:HOST:PORT", s.store);
  }
  job.local_name.clear();
  return {};
}

// torchrun: MASTER_PORT belongs to torch itself; weft meets at the next.
Status meet_at_master(Job& job, const env::Settings& s) {
  const Variables& v = s.launcher;
  WEFT_TRY(const auto port, parse_integer("MASTER_PORT", value_of(v, "MASTER_PORT"), 1, 65534));
  WEFT_TRY(const Address at, resolve("MASTER_ADDR", value_of(v, "MASTER_ADDR"), static_cast<std::uint16_t>(port + 1)));
  const bool one_host = at.loopback() || value_of(v, "LOCAL_WORLD_SIZE") == value_of(v, "WORLD_SIZE");
  return meet_at(job, s, at, fmt::format("{} {}", value_of(v, "TORCHELASTIC_RUN_ID"), port), one_host);
}

// Slurm: the first node of the step; one of its reserved ports, or one made of the job's number.
Status meet_at_first_node(Job& job, const env::Settings& s) {
  const Variables& v = s.launcher;
  WEFT_TRY(const std::string host, first_host(value_of(v, "SLURM_STEP_NODELIST")));
  std::int64_t port = 0;
  if (const std::string reserved = value_of(v, "SLURM_STEP_RESV_PORTS"); !reserved.empty()) {
    WEFT_TRY(port, parse_integer("SLURM_STEP_RESV_PORTS", reserved.substr(0, reserved.find_first_of("-,")), 1, 65535));
  } else {
    WEFT_TRY(const auto number, parse_integer("SLURM_JOB_ID", value_of(v, "SLURM_JOB_ID"), 0, std::int64_t{1} << 40));
    WEFT_TRY(const auto step, parse_integer("SLURM_STEP_ID", value_of(v, "SLURM_STEP_ID"), 0, std::int64_t{1} << 32));
    port = 20000 + (number * 31 + step) % 12000;
  }
  WEFT_TRY(const Address at, resolve("SLURM_STEP_NODELIST", host, static_cast<std::uint16_t>(port)));
  const bool one_host = value_of(v, "SLURM_STEP_NUM_NODES") == "1";
  return meet_at(job, s, at, fmt::format("{} {}", value_of(v, "SLURM_JOB_ID"), value_of(v, "SLURM_STEP_ID")), one_host);
}

// A name that only the ranks of one launcher on one machine can make: of their launcher's process, which everybody can
// look up, and of the user's key. Errors: of user_key().
Result<std::string> name_of_siblings(const std::string& launcher, const std::string& more) {
  const pid_t parent = getppid();
  std::ifstream stat(fmt::format("/proc/{}/stat", parent));
  std::string line, word, started;
  std::getline(stat, line);
  std::size_t at = line.rfind(')');  // the process's own name may hold anything
  for (int field = 2; at != std::string::npos && field < 22; ++field) at = line.find(' ', at + 1);
  if (at != std::string::npos) started = line.substr(at + 1, line.find(' ', at + 1) - at - 1);
  WEFT_TRY(const Key key, user_key());
  const std::string name = fmt::format("{} {} {} {}", launcher, more, parent, started);
  const Digest digest = mac(key, {{reinterpret_cast<const std::uint8_t*>(name.data()), name.size()}});
  return hexadecimal(digest).substr(0, 32);
}

auto no_place(const Job& job) {
  return bad_input("{} names no place for ranks of several machines to meet; set WEFT_STORE=file:PATH or tcp:HOST:PORT",
                   job.launcher);
}

// The canonical name of this host; its plain one where it has none.
std::string canonical_name() {
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  addrinfo hints{}, *found = nullptr;
  hints.ai_flags = AI_CANONNAME;
  if (getaddrinfo(name, nullptr, &hints, &found) != 0) return name;
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, freeaddrinfo);
  return found->ai_canonname == nullptr ? name : found->ai_canonname;
}

// Kubernetes' indexed jobs: the pod of index 0, whose name comes to be known when it has started.
Status meet_at_first_pod(Job& job, const env::Settings& s) {
  constexpr std::uint16_t kPort = 29717;
  WEFT_TRY(const Ports ports, ports_of(s));
  const auto deadline = std::chrono::steady_clock::now() + Milliseconds(s.timeout_ms);
  WEFT_TRY(const std::string host, first_pod(canonical_name(), job.rank));
  for (;;) {
    const auto at = resolve("JOB_COMPLETION_INDEX", host, ports.first != 0 ? ports.first : kPort);
    if (at) return meet_at(job, s, *at, fmt::format("{} {}", host, at->port), false);
    if (std::chrono::steady_clock::now() > deadline) return tl::make_unexpected(at.error());
    if (Interruptible::asked())
      return failure(Code::kAborted, Blame::kOperation, "interrupted: {}", at.error().message);
    std::this_thread::sleep_for(Milliseconds(200));
  }
}

Result<std::optional<Job>> own_job(const env::Settings& s) {
  if (!s.size) return std::nullopt;
  Job job{.rank = s.rank.value_or(0), .ranks = *s.size, .launcher = "WEFT_SIZE", .local_name = s.id};
  if (!s.join.empty()) {
    WEFT_TRY(job.id, UniqueId::parse("WEFT_JOIN", s.join));
    job.local_name.clear();
  } else if (s.rank_is_pod && s.id.empty() && s.store.empty()) {
    job.launcher = "Kubernetes";
    WEFT_CHECK(meet_at_first_pod(job, s));
  }
  return job;
}

Result<std::optional<Job>> foreign_job(const env::Settings& s) {
  const Variables& v = s.launcher;
  if (v.contains("MASTER_ADDR") && v.contains("MASTER_PORT")) {
    WEFT_TRY(auto job, numbered(v, "torchrun", "RANK", "WORLD_SIZE"));
    if (job) {
      if (s.store.empty()) WEFT_CHECK(meet_at_master(*job, s));
      return job;
    }
  }
  WEFT_TRY(auto job, numbered(v, "mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"));
  if (job) {
    if (value_of(v, "OMPI_COMM_WORLD_LOCAL_SIZE") == value_of(v, "OMPI_COMM_WORLD_SIZE")) {
      WEFT_TRY(job->local_name, name_of_siblings("openmpi", value_of(v, "PMIX_NAMESPACE")));
    } else if (s.store.empty()) {
      return no_place(*job);
    }
    return job;
  }
  // Slurm's own PMI (srun --mpi=pmi2) sets the first two names as MPICH's launcher does, but not the number on this
  // host.
  const bool of_slurm = v.contains("SLURM_STEP_NODELIST") && !v.contains("MPI_LOCALNRANKS");
  WEFT_TRY(job, of_slurm ? Result<std::optional<Job>>(std::nullopt) : numbered(v, "mpiexec", "PMI_RANK", "PMI_SIZE"));
  if (job) {
    if (value_of(v, "MPI_LOCALNRANKS") == value_of(v, "PMI_SIZE")) {
      WEFT_TRY(job->local_name, name_of_siblings("mpich", ""));
    } else if (s.store.empty()) {
      return no_place(*job);
    }
    return job;
  }
  WEFT_TRY(job, numbered(v, "srun", "SLURM_PROCID", "SLURM_NTASKS"));
  if (job && v.contains("SLURM_STEP_NODELIST")) {
    if (s.store.empty()) WEFT_CHECK(meet_at_first_node(*job, s));
    return job;
  }
  return std::nullopt;
}

// The id as a file that appears complete or not at all, for this user only.
Status leave_id(const std::string& path, const UniqueId& id) {
  const std::string draft = fmt::format("{}.{}", path, getpid());
  const UniqueFd fd(open(draft.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600));
  const std::string text = id.text();
  if (!fd.open() || write(fd.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
      rename(draft.c_str(), path.c_str()) != 0)
    return bad_input("WEFT_STORE: cannot write {}: {}", path, std::strerror(errno));
  return {};
}

// The id in a file that this user wrote for itself; empty while there is none. In a folder that everybody may write to,
// another user's file would name a place of that user's.
Result<std::string> read_id(const std::string& path) {
  WEFT_TRY(const std::string text, read_private_file("WEFT_STORE", path));
  return text.substr(0, text.find_first_of(" \t\r\n"));
}

// Runs the host beside the rank that opens it, for as long as the meeting takes.
Result<Meeting> host_and_meet(Host host, Invitation invitation) {
  invitation.id = host.id();
  auto served = std::async(std::launch::async, [&] { return host.serve(invitation.timeout); });
  auto meeting = meet(invitation);
  if (!meeting && meeting.error().code == Code::kAborted) host.stop();
  const Status status = served.get();
  if (meeting && !status) return tl::make_unexpected(status.error());
  return meeting;
}

// Through a file: it may be another job's that was killed, so a failure is final only when the file has not changed.
Result<Meeting> meet_by_file(const Job& job, Invitation invitation) {
  using Clock = std::chrono::steady_clock;
  const auto deadline = Clock::now() + invitation.timeout;
  std::optional<Error> problem;
  for (;;) {
    WEFT_TRY(const std::string text, read_id(job.file));
    if (!text.empty()) {
      WEFT_TRY(invitation.id, UniqueId::parse(job.file, text));
      invitation.timeout = std::max(Milliseconds(1), std::chrono::ceil<Milliseconds>(deadline - Clock::now()));
      invitation.reach = std::min(invitation.timeout, Milliseconds(300));
      auto meeting = meet(invitation);
      if (meeting || meeting.error().code == Code::kAborted) return meeting;
      problem = meeting.error();
      const bool unreached = problem->message.find("for the host") != std::string::npos;
      if (!unreached && read_id(job.file).value_or("") == text) return tl::make_unexpected(*problem);
    }
    if (Clock::now() >= deadline) break;
    if (Interruptible::asked())
      return failure(Code::kAborted, Blame::kOperation, "interrupted while rank 0 had yet to write {}", job.file);
    std::this_thread::sleep_for(Milliseconds(5));
  }
  if (problem) return tl::make_unexpected(*problem);
  return failure(Code::kTimeout, Blame::kCommunicator, "waited for rank 0 to write {}", job.file);
}

Result<Meeting> meet_as_described(const Job& job, const env::Settings& s) {
  WEFT_TRY(const Address arbiter, arbiter_of(s));
  WEFT_TRY(const Ports ports, ports_of(s));
  Invitation invitation{.id = {},
                        .rank = job.rank,
                        .ranks = job.ranks,
                        .interface = s.interface,
                        .node = s.node,
                        .timeout = Milliseconds(s.timeout_ms),
                        .aggregates = s.aggregates,
                        .arbiter = arbiter,
                        .protection = protection_of(s.secure),
                        .ports = ports,
                        .transport = s.transport};
  if (!job.file.empty()) {
    if (job.rank != 0) return meet_by_file(job, std::move(invitation));
    Address at = loopback();
    if (!s.interface.empty()) {
      WEFT_TRY(at, choose_interface(s.interface));
    }
    WEFT_TRY(Host host, Host::open(at, job.ranks, ports));
    WEFT_CHECK(leave_id(job.file, host.id()));
    auto meeting = host_and_meet(std::move(host), std::move(invitation));
    unlink(job.file.c_str());
    return meeting;
  }
  if (!job.id)
    return bad_input(
        "ranks started by {} have no place to meet over TCP; use weft run --transport tcp, or set WEFT_STORE",
        job.launcher);
  invitation.id = *job.id;
  if (!job.hosts) return meet(invitation);
  WEFT_TRY(Host host, Host::open(job.id->addresses[0], job.id->key, job.ranks));
  return host_and_meet(std::move(host), std::move(invitation));
}

}  // namespace

Result<Ports> ports_of(const env::Settings& settings) { return parse_ports("WEFT_PORTS", settings.ports); }

Result<Address> arbiter_of(const env::Settings& s) {
  if (s.arbiter.empty()) return Address{};
  return parse_address("WEFT_ARBITER", s.arbiter);
}

Result<std::string> first_host(const std::string& list) {
  const std::size_t open = list.find('['), comma = list.find(',');
  if (open == std::string::npos || comma < open) {
    if (list.empty() || comma == 0) return bad_input("SLURM_STEP_NODELIST '{}' is no list of hosts", list);
    return list.substr(0, comma);
  }
  const std::size_t close = list.find(']', open);
  const std::size_t digits = list.find_first_not_of("0123456789", open + 1);
  if (close == std::string::npos || digits == open + 1)
    return bad_input("SLURM_STEP_NODELIST '{}' is no list of hosts", list);
  return list.substr(0, open) + list.substr(open + 1, digits - open - 1);
}

Result<std::string> first_pod(const std::string& name, Rank index) {
  const std::size_t dot = std::min(name.find('.'), name.size());
  const std::string end = fmt::format("-{}", index);
  if (!name.substr(0, dot).ends_with(end))
    return bad_input(
        "JOB_COMPLETION_INDEX is {}, but this host is called {}; give the job a headless service (subdomain), or set "
        "WEFT_STORE",
        index, name);
  return name.substr(0, dot - end.size()) + "-0" + name.substr(dot);
}

Result<std::optional<Job>> job_of(const env::Settings& s) {
  WEFT_TRY(auto job, own_job(s));
  if (!job) {
    WEFT_TRY(job, foreign_job(s));
  }
  if (job && !s.store.empty() && s.join.empty()) WEFT_CHECK(apply_store(*job, s));
  return job;
}

Result<Meeting> meet(const Job& job, const env::Settings& s) {
  if (!job.guarded && !s.secure.empty())
    return bad_input("WEFT_SECURE={} needs a key that others do not have, and WEFT_KEY is none", s.secure);
  auto meeting = meet_as_described(job, s);
  if (meeting) {
    env::hide_secrets();
  } else if (meeting.error().message.find(kOtherKey) != std::string::npos) {
    Error error = meeting.error();
    error.message += job.advice;
    return tl::make_unexpected(error);
  }
  return meeting;
}

}  // namespace weft::net::bootstrap
