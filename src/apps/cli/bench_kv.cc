#include "apps/cli/bench_kv.h"
#include "apps/cli/bench_transfer.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <numeric>

#include "apps/cli/redis.h"
#include "apps/cli/some_bytes.h"
#include "base/counted.h"
#include "base/report/kv.h"
#include "base/text.h"
#include "net/bootstrap/unique_id.h"
#include "weft/kv.h"

namespace weft::cli {
namespace {

using report::KvBenchRow;
using Clock = std::chrono::steady_clock;

constexpr std::int64_t kBlockTokens = 16;
constexpr std::int64_t kCounts[] = {1, 4, 16, 64};  // blocks of a prompt
constexpr Bytes kMostPage = 16 << 20, kMostMoved = 512 << 20;
constexpr int kRounds = 7;
constexpr Bytes kUsualBlock = 2 << 20;  // of Llama-3-8B in bfloat16: 32 layers, 8 heads of 128, 128 KiB a token

struct Plan {
  Bytes page = 0;
  std::vector<std::int64_t> counts;
  bool check = false;
  std::optional<transfer::Network> network;  // nothing: shared memory
};

Result<Plan> plan_of(const BenchSpec& spec, const KvSpec& asked) {
  WEFT_TRY(const auto network, network_of("bench kv", spec.transport));
  if (!asked.model.empty() && !asked.block.empty()) return bad_input("--block and --model both give a block's size");
  Plan plan{.page = kUsualBlock, .check = spec.sweep.check, .network = network};
  if (!asked.model.empty()) {
    WEFT_TRY(plan.page, kv::block_bytes(asked.model, kBlockTokens));
  }
  if (!asked.block.empty()) {
    WEFT_TRY(plan.page, some_bytes("--block", asked.block));
  }
  if (plan.page < 8 || plan.page > kMostPage)
    return bad_input("bench kv has blocks of 8 B to {}, not {}", format_bytes(kMostPage), format_bytes(plan.page));
  for (const std::int64_t count : kCounts)
    if (count * plan.page <= kMostMoved) plan.counts.push_back(count);
  return plan;
}

// The other process: has the store, says where it serves, and ends when its pipe does.
[[noreturn]] void serve(const Plan& plan, const std::string& key, int to_parent, int from_parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const auto say = [&](const std::string& text) {
    if (write(to_parent, text.data(), text.size()) != static_cast<ssize_t>(text.size())) _exit(1);
  };
  auto agent = transfer::Agent::open({.name = "store",
                                      .key = key,
                                      .listen = plan.network ? "127.0.0.1:0" : "",
                                      .network = plan.network.value_or(transfer::Network::kTcp)});
  if (!agent) say("!" + agent.error().message), _exit(1);
  auto store =
      kv::Store::open(*agent, {.pages = 2 * plan.counts.back(), .page_bytes = plan.page, .block_tokens = kBlockTokens});
  if (!store) say("!" + store.error().message), _exit(1);
  auto server = kv::Server::open(*store, {.key = key});
  say(server ? "+" + server->address() : "!" + server.error().message);
  char byte = 0;
  while (read(from_parent, &byte, 1) < 0 && errno == EINTR) {
  }
  _exit(0);
}

// Owns: the other process.
class StoreProcess {
 public:
  StoreProcess(const Plan& plan, const std::string& key) {
    int up[2], down[2];
    if (pipe(up) != 0 || pipe(down) != 0) return;
    std::fflush(stdout);
    pid_ = fork();
    if (pid_ == 0) {
      close(up[0]);
      close(down[1]);
      serve(plan, key, up[1], down[0]);
    }
    close(up[1]);
    close(down[0]);
    in_ = UniqueFd(up[0]);
    out_ = UniqueFd(down[1]);
  }
  ~StoreProcess() {
    out_.reset();
    if (pid_ > 0) waitpid(pid_, nullptr, 0);
  }
  StoreProcess(const StoreProcess&) = delete;
  StoreProcess& operator=(const StoreProcess&) = delete;
  Result<std::string> address() const {
    char text[512];
    ssize_t n = 0;
    while ((n = read(in_.get(), text, sizeof text)) < 0 && errno == EINTR) {
    }
    if (n <= 1) return failure(Code::kPeerDied, Blame::kOperation, "the store's process has ended");
    const std::string said(text + 1, static_cast<std::size_t>(n) - 1);
    if (text[0] == '!') return failure(Code::kNoResources, Blame::kInput, "the store's process: {}", said);
    return said;
  }

 private:
  pid_t pid_ = -1;
  UniqueFd in_, out_;
};

double median(std::vector<double> times) {
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
  return times[times.size() / 2];
}

// A prompt's blocks, other ones in every repetition, into a store and out of it.
struct Bench {
  const Plan& plan;
  kv::Client& client;
  transfer::Registration mine;
  Redis* redis = nullptr;

  void fill(std::int64_t count, std::uint64_t number) const {
    for (std::int64_t block = 0; block < count; ++block)
      std::memset(mine.data + block * plan.page,
                  static_cast<int>(number * 7 + static_cast<std::uint64_t>(block)) & 0xff,
                  static_cast<std::size_t>(plan.page));
  }
  std::int64_t wrong(std::int64_t count, std::uint64_t number) const {
    std::int64_t errors = 0;
    for (Bytes at = 0; at < count * plan.page; ++at)
      errors += mine.data[at] != static_cast<std::byte>(number * 7 + static_cast<std::uint64_t>(at / plan.page));
    return errors;
  }
  Status put(bool to_redis, std::int64_t count, std::uint64_t number) {
    if (to_redis) return redis->put(keys(count, number), mine.data, static_cast<std::size_t>(plan.page));
    WEFT_TRY(const std::int64_t entered, client.put(salt(number), tokens(count), mine));
    if (entered != count)
      return failure(Code::kInternal, Blame::kOperation, "{} of {} were kept", entered, counted(count, "block"));
    return {};
  }
  Status get(bool from_redis, std::int64_t count, std::uint64_t number) {
    if (from_redis) return redis->get(keys(count, number), mine.data, static_cast<std::size_t>(plan.page));
    WEFT_TRY(const std::int64_t found, client.get(salt(number), tokens(count), mine));
    if (found != count * kBlockTokens)
      return failure(Code::kInternal, Blame::kOperation, "{} of {} tokens were found", found, count * kBlockTokens);
    return {};
  }
  static std::string salt(std::uint64_t number) { return std::to_string(number); }
  static std::vector<kv::Token> tokens(std::int64_t count) {
    std::vector<kv::Token> all(static_cast<std::size_t>(count * kBlockTokens));
    std::iota(all.begin(), all.end(), 0);
    return all;
  }
  // As long as a store's. As many prompts are there at a time as fit into the store, so that both servers use as much
  // memory.
  std::uint64_t prompts(std::int64_t count) const { return static_cast<std::uint64_t>(2 * plan.counts.back() / count); }
  std::vector<std::string> keys(std::int64_t count, std::uint64_t number) const {
    std::vector<std::string> all;
    for (std::int64_t block = 0; block < count; ++block)
      all.push_back(fmt::format("weft-bench-{:010}-{:010}", number % prompts(count), block));
    return all;
  }
};

struct Times {
  Duration put, get;
  std::int64_t errors = 0;
};

Result<Times> measure(Bench& b, bool redis, std::int64_t count, std::uint64_t& number) {
  const auto repetitions = std::clamp<std::int64_t>((Bytes{16} << 20) / (count * b.plan.page), 1, 500);
  std::vector<double> puts, gets;
  Times times;
  const auto timed = [&](std::vector<double>& into, auto&& call) -> Status {
    const auto begin = Clock::now();
    for (std::int64_t i = 0; i < repetitions; ++i) WEFT_CHECK(call());
    into.push_back(std::chrono::duration<double>(Clock::now() - begin).count() / static_cast<double>(repetitions));
    return {};
  };
  for (int round = 0; round < kRounds; ++round) {
    b.fill(count, number + static_cast<std::uint64_t>(repetitions));  // the last prompt's bytes
    WEFT_CHECK(timed(puts, [&] { return b.put(redis, count, ++number); }));
    if (b.plan.check) std::memset(b.mine.data, 0xee, static_cast<std::size_t>(count * b.plan.page));
    WEFT_CHECK(timed(gets, [&] { return b.get(redis, count, number); }));
    if (b.plan.check) times.errors += b.wrong(count, number);
  }
  for (std::uint64_t prompt = 0; redis && prompt < b.prompts(count); ++prompt)
    WEFT_CHECK(b.redis->remove(b.keys(count, prompt)));
  times.put = Duration::seconds(median(puts));
  times.get = Duration::seconds(median(gets));
  return times;
}

void print(const KvBenchRow& r, bool redis, bool check) {
  fmt::print("{:>10} {:>12} {:>12.1f} {:>12.1f} {:>9.2f} {:>9.2f}", r.tokens, r.bytes, r.put.us(), r.get.us(),
             r.gb_per_second(r.put), r.gb_per_second(r.get));
  if (redis)
    fmt::print(" {:>12.1f} {:>12.1f} {:>8.1f}x {:>7.1f}x", r.redis_put.us(), r.redis_get.us(), r.redis_put / r.put,
               r.redis_get / r.get);
  if (check) fmt::print(" {:>7}", r.errors);
  fmt::print("\n");
  std::fflush(stdout);
}

}  // namespace

Result<int> bench_kv(const BenchSpec& spec, const KvSpec& asked) {
  WEFT_TRY(const Plan plan, plan_of(spec, asked));
  std::optional<Redis> redis;
  if (!asked.redis.empty()) {
    WEFT_TRY(redis, Redis::connect(asked.redis));
  }
  std::array<std::uint8_t, 16> random{};
  net::link::fill_random(random);
  const std::string key = net::link::hexadecimal(random);
  const StoreProcess process(plan, key);
  WEFT_TRY(const std::string address, process.address());
  WEFT_TRY(auto agent, transfer::Agent::open({.name = "bench",
                                              .key = key,
                                              .network = plan.network.value_or(transfer::Network::kTcp),
                                              .only_network = plan.network.has_value()}));
  WEFT_TRY(auto client, kv::Client::connect(agent, {.address = address, .key = key}));
  WEFT_TRY(const auto mine, agent.allocate(plan.counts.back() * plan.page));
  report::KvBenchReport report{.block_bytes = plan.page, .block_tokens = kBlockTokens};
  WEFT_TRY(report.path, agent.explain(client.peer()));
  report.path = report.path.substr(report.path.find(": ") + 2);
  while (!report.path.empty() && report.path.back() == '\n') report.path.pop_back();
  if (redis) report.redis = redis->version();
  const bool prints = spec.json != "-";
  if (prints) {
    fmt::print("# blocks of {} tokens, {} B, of a store in another process; path: {}; checksums are compared\n",
               kBlockTokens, plan.page, report.path);
    fmt::print("# {:>8} {:>12} {:>12} {:>12} {:>9} {:>9}{}{}\n", "tokens", "size (B)", "put (us)", "get (us)",
               "put GB/s", "get GB/s",
               redis ? fmt::format(" {:>12} {:>12} {:>9} {:>8}", "redis put", "redis get", "put", "get") : "",
               plan.check ? "  #wrong" : "");
  }
  Bench bench{plan, client, mine, redis ? &*redis : nullptr};
  std::uint64_t number = 0;
  std::int64_t wrong = 0;
  for (const std::int64_t count : plan.counts) {
    KvBenchRow row{.tokens = count * kBlockTokens, .bytes = count * plan.page, .errors = plan.check ? 0 : -1};
    WEFT_TRY(const Times ours, measure(bench, false, count, number));
    row.put = ours.put;
    row.get = ours.get;
    std::int64_t errors = ours.errors;
    if (redis) {
      WEFT_TRY(const Times theirs, measure(bench, true, count, number));
      row.redis_put = theirs.put;
      row.redis_get = theirs.get;
      errors += theirs.errors;
    }
    if (plan.check) row.errors = errors;
    wrong += errors;
    if (prints) print(row, redis.has_value(), plan.check);
    report.rows.push_back(row);
  }
  if (!spec.json.empty()) WEFT_CHECK(write_json(spec.json, to_json(report)));
  return wrong == 0 ? 0 : kBadAnswer;
}

}  // namespace weft::cli
