#include "apps/cli/reshard_senders.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>

#include "base/text.h"
#include "move/reshard/receiver.h"

namespace weft::cli {
namespace {

// Before the text of an answer: how long it is, and the numbers of a rank.
struct Header {
  std::uint32_t bytes = 0, region = 0;
  std::int64_t table = -1;
  double convert_seconds = 0;
};

bool put(int to, const void* data, std::size_t n) { return write(to, data, n) == static_cast<ssize_t>(n); }
void say(int to, Header header, const std::string& text) {
  header.bytes = static_cast<std::uint32_t>(text.size());
  if (!put(to, &header, sizeof header) || !put(to, text.data(), text.size())) _exit(1);
}

// One rank: its parts as they are, and the memory that receivers read, which are the same where nothing is converted.
struct Server {
  transfer::Agent agent;
  transfer::Registration memory;
  std::vector<std::byte> given;
  std::optional<reshard::Publisher> publisher;
  double convert_seconds = 0;

  Status write(const ReshardSenders::Job& job, Rank rank, int version) {
    std::byte* const parts = job.converted == nullptr ? memory.data : given.data();
    if (publisher) publisher->begin();
    job.values.fill(job.from, rank, version, parts);
    if (job.converted != nullptr) {
      const auto begin = std::chrono::steady_clock::now();
      WEFT_CHECK(reshard::convert_parts(job.from, *job.converted, rank, given,
                                        {memory.data, static_cast<std::size_t>(memory.bytes)}));
      convert_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    }
    return publisher ? publisher->publish(version) : Status();
  }
};

Result<Server> open(const ReshardSenders::Job& job, Rank rank) {
  WEFT_TRY(auto agent, transfer::Agent::open({.name = fmt::format("from{}", rank),
                                              .key = job.key,
                                              .listen = job.network ? "127.0.0.1:0" : "",
                                              .pages = kReshardPages,
                                              .network = job.network.value_or(transfer::Network::kTcp)}));
  Server server{.agent = std::move(agent), .memory = {}, .given = {}, .publisher = {}};
  const reshard::Layout& sent = job.converted == nullptr ? job.from : job.converted->layout;
  WEFT_TRY(server.memory, server.agent.allocate(reshard::memory_of(sent, rank).bytes));
  if (job.converted != nullptr) server.given.resize(static_cast<std::size_t>(reshard::memory_of(job.from, rank).bytes));
  if (job.versions) {
    WEFT_TRY(server.publisher, reshard::Publisher::open(server.agent, server.memory));
  }
  WEFT_CHECK(server.write(job, rank, 1));
  return server;
}

// Until the pipe ends. Says each rank's regions and metadata; a byte of the pipe asks for the next version.
[[noreturn]] void serve(const ReshardSenders::Job& job, int to_parent, int from_parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::vector<Server> servers;
  for (Rank r = 0; r < job.from.ranks; ++r) {
    auto server = open(job, r);
    if (!server) say(to_parent, {}, "!" + server.error().message), _exit(1);
    const auto metadata = server->agent.metadata();
    say(to_parent,
        {.region = server->memory.region,
         .table = server->publisher ? std::int64_t{server->publisher->table().region} : -1,
         .convert_seconds = server->convert_seconds},
        metadata ? "+" + *metadata : "!" + metadata.error().message);
    servers.push_back(std::move(*server));
  }
  for (char byte = 0;;) {
    const ssize_t n = read(from_parent, &byte, 1);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) _exit(0);
    Status done;
    for (Rank r = 0; r < job.from.ranks && done; ++r) done = servers[static_cast<std::size_t>(r)].write(job, r, 2);
    say(to_parent, {}, done ? "+" : "!" + done.error().message);
  }
}

}  // namespace

ReshardSenders::ReshardSenders(const Job& job) {
  int up[2], down[2];
  if (pipe(up) != 0 || pipe(down) != 0) return;
  std::fflush(stdout);
  pid_ = fork();
  if (pid_ == 0) {
    close(up[0]);
    close(down[1]);
    serve(job, up[1], down[0]);
  }
  close(up[1]);
  close(down[0]);
  in_ = UniqueFd(up[0]);
  out_ = UniqueFd(down[1]);
}

ReshardSenders::~ReshardSenders() {
  out_.reset();
  if (pid_ > 0) waitpid(pid_, nullptr, 0);
}

Result<ReshardSenders::Said> ReshardSenders::receive() const {
  Header header;
  std::string text;
  if (take(&header, sizeof header)) text.resize(header.bytes);
  if (text.empty() || !take(text.data(), text.size()))
    return failure(Code::kPeerDied, Blame::kOperation, "the senders' process has ended");
  if (text[0] == '!') return failure(Code::kNoResources, Blame::kInput, "the senders' process: {}", text.substr(1));
  Said said{.region = header.region, .convert_seconds = header.convert_seconds, .metadata = text.substr(1)};
  if (header.table >= 0) said.table = static_cast<std::uint32_t>(header.table);
  return said;
}

Status ReshardSenders::next_version() const {
  if (!put(out_.get(), "2", 1)) return failure(Code::kPeerDied, Blame::kOperation, "the senders' process has ended");
  WEFT_TRY(const Said said, receive());
  return {};
}

bool ReshardSenders::take(void* to, std::size_t n) const {
  for (std::size_t got = 0; got < n;) {
    const ssize_t here = read(in_.get(), static_cast<char*>(to) + got, n - got);
    if (here < 0 && errno == EINTR) continue;
    if (here <= 0) return false;
    got += static_cast<std::size_t>(here);
  }
  return true;
}

}  // namespace weft::cli
