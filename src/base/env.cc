#include "base/env.h"

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <mutex>

#include "base/nccl_names.h"
#include "base/text.h"
#include "weft/communicator.h"

namespace weft::env {
namespace {

constexpr Variable kTable[] = {
    {"WEFT_RANK", "number", "0", "this process's rank; set by `weft run`"},
    {"WEFT_SIZE", "number", "1", "the number of ranks; set by `weft run`"},
    {"WEFT_ID", "text", "none", "names the job; letters, digits, '-' and '_'; set by `weft run`"},
    {"WEFT_TIMEOUT_MS", "number", "30000",
     "how long a rank waits for a peer before the operation fails; 0: as long as it lives"},
    {"WEFT_HEAP", "size", "1G", "address space for registered memory, per rank"},
    {"WEFT_SYMMETRIC_SIZE", "size", "1G", "address space of the symmetric heap, per rank; also SHMEM_SYMMETRIC_SIZE"},
    {"WEFT_ALGO", "text", "chosen", "forces an algorithm, e.g. ring"},
    {"WEFT_PROTO", "text", "chosen", "forces a protocol, e.g. Simple"},
    {"WEFT_CHANNELS", "number", "chosen", "forces the number of channels"},
    {"WEFT_REPRODUCIBLE", "number", "0", "1: sums are taken in rank order, for the same bits on any fabric"},
    {"WEFT_RATES", "text", "measured",
     "rates of this machine that choices go by; rank 0's count: JSON (set by `weft run`), a file of weft calibrate "
     "--json, or none for typical ones; unset: measured once, and kept in $XDG_CACHE_HOME/weft or ~/.cache/weft"},
    {"WEFT_DEBUG", "text", "none",
     "WARN: what weft works around silently; INFO: also what it finds, chooses and connects; TRACE: also every call"},
    {"WEFT_DEBUG_SUBSYS", "text", "ALL", "INIT, NET, PATH, PLAN, CALL, FAULT, e.g. NET,PLAN; ^CALL: all but CALL"},
    {"WEFT_DEBUG_FILE", "text", "stderr", "file for these lines; %r is the rank, %p the process, %h the host"},
    {"WEFT_CALIBRATION", "text", "as shipped", "file with the constants of modelled machines (weft calibrate --from)"},
    {"WEFT_TRANSPORT", "text", "by place",
     "shm, tcp, ucx, shm+tcp or shm+ucx (within a machine, across); unset: shm+tcp"},
    {"WEFT_DEVICE", "text", "cuda",
     "what libnccl.so.2 and weft/cuda.h work on: cuda, host (its memory, streams as queues), or host:2: GPU 2 to other "
     "processes"},
    {"WEFT_DEVICE_PATH", "text", "by place",
     "host: libnccl.so.2 goes through host memory where kernels could serve; kernels: also where processes share a "
     "GPU and so take turns (slow, for tests)"},
    {"WEFT_STORE", "text", "none", "where ranks of other launchers meet: file:PATH or tcp:HOST:PORT"},
    {"WEFT_KEY", "text", "by place",
     "a secret of the job, the same on all ranks: at least 32 hexadecimal digits (openssl rand -hex 32), or file:PATH "
     "of a file that has them; none: everybody who reaches the meeting place may join; unset: on one host the user's "
     "own key"},
    {"WEFT_SECURE", "text", "off",
     "what tcp sends: mac (authenticated), encrypt (also encrypted), off; the same on all ranks"},
    {"WEFT_JOIN", "text", "none", "unique id of the job, with its key; set by `weft run --transport tcp`"},
    {"WEFT_ARBITER", "text", "none",
     "host:port of a place that decides which ranks go on after a failure; without one a quorum; set by `weft run`"},
    {"WEFT_IFACE", "text", "by route",
     "interfaces that tcp uses, all at once: names, patterns, subnets, ^ to exclude, e.g. eth0,eth1 or ^docker0 or "
     "10.1.0.0/16"},
    {"WEFT_PORTS", "text", "any", "ports that meeting places and ranks listen on: 20000-20100"},
    {"WEFT_NODE", "text", "detected", "names the machine: ranks of one name share memory"},
    {"WEFT_BIND", "text", "one each", "processors of each rank of weft run: core, numa, nic, gpu, none, lists 0-3:4-7"},
    {"WEFT_REPORT_BINDINGS", "number", "0", "1: weft run prints on which processors each rank runs"},
    {"WEFT_TCP_SOCKETS", "number", "1",
     "connections between two ranks, per interface of WEFT_IFACE; large messages are spread over them"},
    {"WEFT_TCP_ZEROCOPY", "text", "by link",
     "on or off: large messages leave from where they lie, where the kernel can do that; unset: over real adapters"},
    {"WEFT_TCP_AGGREGATION", "number", "0", "1: rank 0 hosts a node that sums messages, as SHARP's switches do"},
    {"WEFT_TUNER_MACHINE", "text", "none",
     "machine for which libnccl-tuner-weft.so chooses, e.g. dgx-h100; the same on all hosts of the job"},
    {"WEFT_RECORD", "number", "4096", "operations that the flight recorder keeps per communicator; 0: none"},
    {"WEFT_RECORD_DIR", "text", "none", "folder where ranks leave their record when their communicator breaks"},
    {"WEFT_TRACE", "text", "none",
     "file of every rank's timeline; %r is the rank, %p the process, %g the communicator"},
    {"WEFT_TRACE_EVENTS", "text", "call,wait", "what it holds: call, wait, move (every slice), all"},
    {"WEFT_AS_GLOO", "number", "0", "1: torch's groups of backend gloo are weft's (docs/pytorch.md)"},
    {"WEFT_PGAS_TRACE", "text", "none", "file for one-sided operations, one per rank: FILE.RANK (weft replay)"},
};

constexpr std::string_view kTransports[] = {"", "shm", "tcp", "ucx", "shm+tcp", "shm+ucx"};

constexpr std::string_view kLauncher[] = {
    "RANK",
    "WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
    "LOCAL_WORLD_SIZE",
    "TORCHELASTIC_RUN_ID",  // torchrun
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "OMPI_COMM_WORLD_LOCAL_SIZE",
    "PMIX_NAMESPACE",  // Open MPI
    "PMI_RANK",
    "PMI_SIZE",
    "MPI_LOCALNRANKS",  // MPICH
    "SLURM_PROCID",
    "SLURM_NTASKS",
    "SLURM_JOB_ID",
    "SLURM_STEP_ID",
    "SLURM_STEP_NODELIST",
    "SLURM_STEP_NUM_NODES",
    "SLURM_STEP_RESV_PORTS",  // Slurm
    "JOB_COMPLETION_INDEX",   // Kubernetes' indexed jobs
    "SSH_CONNECTION",         // sshd
};

std::string text(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// The secrets of the job that this process is a rank of. A process has one environment, and so one of these.
struct Hidden {
  std::mutex mutex;
  std::map<std::string, std::string> values;  // by mutex
};
Hidden& hidden() {
  static Hidden instance;
  return instance;
}

// As text(), and what hide_secrets() has taken from the environment.
std::string secret(const char* name) {
  const char* value = std::getenv(name);
  Hidden& known = hidden();
  const std::lock_guard guard(known.mutex);
  if (value == nullptr || *value != 0) {
    known.values.erase(name);
    return value == nullptr ? "" : value;
  }
  const auto found = known.values.find(name);
  return found == known.values.end() ? "" : found->second;
}

Result<std::int64_t> number(const char* name, std::int64_t fallback, std::int64_t low, std::int64_t high) {
  const std::string value = text(name);
  if (value.empty()) return fallback;
  return parse_integer(name, value, low, high);
}

Result<Bytes> size(const char* name, const std::string& value) {
  const Result<Bytes> bytes = parse_bytes(value);
  if (!bytes) return bad_input("{}: {}", name, bytes.error().message);
  return bytes;
}

}  // namespace

std::span<const Variable> table() { return kTable; }
std::span<const std::string_view> launcher_names() { return kLauncher; }

void hide_secrets() {
  for (const char* name : {"WEFT_KEY", "WEFT_JOIN"}) {
    char* const value = std::getenv(name);
    if (value == nullptr || *value == 0) continue;
    Hidden& known = hidden();
    const std::lock_guard guard(known.mutex);
    known.values[name] = value;
    explicit_bzero(value, std::strlen(value));
  }
}

std::vector<std::pair<std::string, std::string>> starting_with(std::initializer_list<std::string_view> prefixes) {
  std::vector<std::pair<std::string, std::string>> found;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view line = *entry;
    const std::size_t equals = line.find('=');
    if (equals == std::string_view::npos) continue;
    for (const std::string_view prefix : prefixes)
      if (line.substr(0, equals).starts_with(prefix))
        found.emplace_back(line.substr(0, equals), line.substr(equals + 1));
  }
  return found;
}

std::optional<std::string> value_of(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

std::string search_path() { return value_of("PATH").value_or("/usr/local/bin:/usr/bin:/bin"); }

// "CLIENT PORT SERVER PORT"
SshConnection ssh_connection(const Settings& settings) {
  const auto found = settings.launcher.find("SSH_CONNECTION");
  if (found == settings.launcher.end()) return {};
  const std::string& line = found->second;
  const std::size_t client = line.find(' '), port = line.find(' ', client + 1), server = line.find(' ', port + 1);
  if (client == std::string::npos || port == std::string::npos || server == std::string::npos) return {};
  return {.client = line.substr(0, client), .server = line.substr(port + 1, server - port - 1)};
}

std::span<const std::string_view> transports() { return kTransports; }

std::uint8_t number_of_transport(const std::string& transport) {
  for (std::uint8_t i = 0; i < std::size(kTransports); ++i)
    if (kTransports[i] == transport) return i;
  return 0;
}

Status check_transport(const std::string& what, const std::string& transport) {
  if (transport.empty() || number_of_transport(transport) != 0) return {};
  return bad_input("{} '{}': there are {}", what, transport, fmt::join(std::span(kTransports).subspan(1), ", "));
}

namespace {

// Each reads some of the variables; together they read all.

Status read_place(Settings& s) {
  constexpr std::int64_t kMaxRanks = 1 << 20;
  // A pod of a Kubernetes indexed job knows its index, but not how many there are.
  const bool indexed = !text("JOB_COMPLETION_INDEX").empty() && text("WEFT_RANK").empty();
  s.rank_is_pod = indexed;
  for (const auto& [set, unset] : {std::pair{"WEFT_RANK", "WEFT_SIZE"}, std::pair{"WEFT_SIZE", "WEFT_RANK"}})
    if (!text(set).empty() && text(unset).empty() && !indexed)
      return bad_input("{} is {}, but {} is not set: a launcher sets both", set, text(set), unset);
  if (!text("WEFT_SIZE").empty()) {
    WEFT_TRY(s.size, number("WEFT_SIZE", 1, 1, kMaxRanks));
    WEFT_TRY(s.rank, number(indexed ? "JOB_COMPLETION_INDEX" : "WEFT_RANK", 0, 0, *s.size - 1));
  }
  return {};
}

Status read_memory(Settings& s) {
  if (const std::string heap = text("WEFT_HEAP"); !heap.empty()) {
    WEFT_TRY(s.heap_bytes, size("WEFT_HEAP", heap));
    if (s.heap_bytes < 4096 || s.heap_bytes > Bytes{1} << 40) return bad_input("WEFT_HEAP {} is outside 4K … 1T", heap);
  }
  for (const char* name : {"SHMEM_SYMMETRIC_SIZE", "WEFT_SYMMETRIC_SIZE"}) {
    const std::string value = text(name);
    if (value.empty()) continue;
    WEFT_TRY(s.symmetric_bytes, size(name, value));
    if (s.symmetric_bytes < 4096 || s.symmetric_bytes > Bytes{1} << 40)
      return bad_input("{} {} is outside 4K … 1T", name, value);
  }
  return {};
}

Status read_choice(Settings& s) {
  s.algorithm = text("WEFT_ALGO");
  s.protocol = text("WEFT_PROTO");
  WEFT_TRY(s.channels, number("WEFT_CHANNELS", 0, 0, 64));
  WEFT_TRY(const auto reproducible, number("WEFT_REPRODUCIBLE", 0, 0, 1));
  s.reproducible = reproducible == 1;
  WEFT_CHECK(number("WEFT_AS_GLOO", 0, 0, 1));
  s.rates = text("WEFT_RATES");
  return {};
}

Status read_log(Settings& s) {
  WEFT_TRY(s.log.level, parse_log_level("WEFT_DEBUG", text("WEFT_DEBUG")));
  WEFT_TRY(s.log.parts, parse_log_parts("WEFT_DEBUG_SUBSYS", text("WEFT_DEBUG_SUBSYS")));
  s.log.file = text("WEFT_DEBUG_FILE");
  s.log_level_given = !text("WEFT_DEBUG").empty();
  s.log_parts_given = !text("WEFT_DEBUG_SUBSYS").empty();
  return {};
}

Status read_transport(Settings& s) {
  s.calibration = text("WEFT_CALIBRATION");
  s.transport = text("WEFT_TRANSPORT");
  WEFT_CHECK(check_transport("WEFT_TRANSPORT", s.transport));
  s.device = text("WEFT_DEVICE");
  if (!s.device.empty() && s.device != "cuda" && s.device != "host" && s.device.rfind("host:", 0) != 0)
    return bad_input("WEFT_DEVICE '{}' is neither cuda nor host", s.device);
  s.device_path = text("WEFT_DEVICE_PATH");
  if (!s.device_path.empty() && s.device_path != "host" && s.device_path != "kernels")
    return bad_input("WEFT_DEVICE_PATH '{}' is neither host nor kernels", s.device_path);
  return {};
}

Status read_network(Settings& s) {
  s.interface = text("WEFT_IFACE");
  s.node = text("WEFT_NODE");
  s.ports = text("WEFT_PORTS");
  s.store = text("WEFT_STORE");
  s.join = secret("WEFT_JOIN");
  s.key = secret("WEFT_KEY");
  s.secure = text("WEFT_SECURE");
  if (s.secure == "off") s.secure.clear();
  if (!s.secure.empty() && s.secure != "mac" && s.secure != "encrypt")
    return bad_input("WEFT_SECURE '{}': there are off, mac and encrypt", s.secure);
  s.arbiter = text("WEFT_ARBITER");
  WEFT_TRY(const std::int64_t sockets, number("WEFT_TCP_SOCKETS", 1, 1, 16));
  s.sockets = static_cast<int>(sockets);
  s.zero_copy = text("WEFT_TCP_ZEROCOPY");
  if (!s.zero_copy.empty() && s.zero_copy != "on" && s.zero_copy != "off")
    return bad_input("WEFT_TCP_ZEROCOPY '{}' is neither on nor off", s.zero_copy);
  WEFT_TRY(const auto aggregates, number("WEFT_TCP_AGGREGATION", 0, 0, 1));
  s.aggregates = aggregates == 1;
  return {};
}

Status read_record(Settings& s) {
  WEFT_TRY(const std::int64_t entries, number("WEFT_RECORD", 4096, 0, 1 << 24));
  s.record_entries = static_cast<int>(entries);
  s.record_folder = text("WEFT_RECORD_DIR");
  s.trace = text("WEFT_TRACE");
  s.trace_events = text("WEFT_TRACE_EVENTS");
  if (s.trace_events.empty()) s.trace_events = "call,wait";
  s.pgas_trace = text("WEFT_PGAS_TRACE");
  return {};
}

}  // namespace

Result<Settings> read() {
  Settings s;
  WEFT_CHECK(read_place(s));
  s.id = text("WEFT_ID");
  WEFT_TRY(s.timeout_ms, number("WEFT_TIMEOUT_MS", s.timeout_ms, 0, kMostTimeout.count()));
  if (s.timeout_ms == 0) s.timeout_ms = kMostTimeout.count();
  s.timeout_given = !text("WEFT_TIMEOUT_MS").empty();
  WEFT_CHECK(read_memory(s));
  WEFT_CHECK(read_choice(s));
  if (const std::string cache = text("XDG_CACHE_HOME"); cache.starts_with("/"))
    s.cache_folder = cache + "/weft";
  else if (const std::string home = text("HOME"); home.starts_with("/"))
    s.cache_folder = home + "/.cache/weft";
  WEFT_CHECK(read_log(s));
  WEFT_CHECK(read_transport(s));
  WEFT_CHECK(read_network(s));
  WEFT_CHECK(read_record(s));
  for (const std::string_view name : kLauncher)
    if (const std::string value = text(name.data()); !value.empty()) s.launcher[std::string(name)] = value;
  std::map<std::string, std::string> nccl;
  for (const std::string_view name : nccl_names())
    if (const std::string value = text(name.data()); !value.empty()) nccl[std::string(name)] = value;
  apply_nccl_names(nccl, s);
  return s;
}

}  // namespace weft::env
