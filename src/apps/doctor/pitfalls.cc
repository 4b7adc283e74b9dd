#include "apps/doctor/pitfalls.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "base/text.h"
#include "machine/import/hostlist.h"
#include "machine/import/text_lines.h"

namespace weft::doctor {
namespace {

constexpr std::size_t kMostKept = 100'000, kMostNamed = 16;
constexpr int kMostSockets = 64;  // of a connection: NCCL's net_socket.cc, NCCL 2.4 on

bool has(std::string_view text, std::string_view word) { return text.find(word) != std::string_view::npos; }

// A number behind the last `key` of a text in lower case, and its unit: "reserved: 70.1 gib" is 70.1 and "gib".
struct Amount {
  double value = 0;
  std::string_view unit;
};
std::optional<Amount> amount_behind(std::string_view text, std::string_view key) {
  for (std::size_t at = text.rfind(key); at != std::string_view::npos; at = at == 0 ? at : text.rfind(key, at - 1)) {
    const bool starts = at == 0 || text[at - 1] < 'a' || text[at - 1] > 'z';
    std::string_view rest = text.substr(at + key.size());
    while (!rest.empty() && std::string_view(" :=|(\t'\"").find(rest.front()) != std::string_view::npos)
      rest.remove_prefix(1);
    Amount amount;
    const auto [end, error] = read_number(rest, amount.value);
    if (starts && error == std::errc()) {
      rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
      while (rest.starts_with(' ')) rest.remove_prefix(1);
      for (const std::string_view unit : {"gib", "mib", "kib", "gb", "mb", "kb"})
        if (rest.starts_with(unit)) amount.unit = unit;
      return amount;
    }
    if (at == 0) break;
  }
  return std::nullopt;
}

// In MiB, near enough for a comparison; nothing: no unit is named.
std::optional<double> mebibytes(const Amount& amount, std::string_view line) {
  std::string_view unit = amount.unit;
  if (unit.empty()) unit = has(line, "(mb)") ? "mb" : has(line, "(gb)") ? "gb" : "";
  if (unit.empty()) return amount.value > 1e8 ? std::optional(amount.value / 1048576) : std::nullopt;
  return amount.value * (unit[0] == 'g' ? 1024 : unit[0] == 'm' ? 1 : 1.0 / 1024);
}

std::optional<Amount> first_of(std::string_view text, std::initializer_list<std::string_view> keys) {
  for (const std::string_view key : keys)
    if (const auto amount = amount_behind(text, key)) return amount;
  return std::nullopt;
}

// Bytes of NCCL's types by number: int8, uint8, int32, uint32, int64, uint64, half, float, double, bfloat16, two of 8
// bits.
std::int64_t bytes_of_type(int type) {
  constexpr int kBytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  return type >= 0 && type < static_cast<int>(std::size(kBytes)) ? kBytes[type] : 4;
}

std::string_view value_behind(std::string_view text, std::string_view key) {
  const auto at = text.find(key);
  if (at == std::string_view::npos) return {};
  std::string_view rest = text.substr(at + key.size());
  if (rest.starts_with('"')) rest.remove_prefix(1);
  return rest.substr(0, rest.find_first_of(" \t\"'"));
}

}  // namespace

const std::vector<std::string_view>& Pitfalls::words() {
  static const std::vector<std::string_view> kWords = {
      "eserved",  "Max_CA",      "Init COMPLETE", "Destroy COMPLETE", "SOCKET_NTHREADS", "NSOCKS_PERTHREAD",
      "opCount ", "SwitchName=", "NODELIST=",     "NodeList=",        "register",        " nRanks "};
  return kWords;
}

void Pitfalls::line(const Line& line, const Process& process, const std::string& file, int number) {
  const std::string_view text = line.text;
  Seen seen{std::string(text.substr(0, 300)), file, number, line.rank};
  const std::string of = !process.key.empty() ? process.key : line.rank >= 0 ? fmt::format("{}", line.rank) : file;
  if (has(text, "SOCKET_NTHREADS") || has(text, "NSOCKS_PERTHREAD")) return sockets(text, of, std::move(seen));
  if (has(text, "eserved") || has(text, "Max_CA")) return memory(text, of, std::move(seen));
  if (has(text, " COMPLETE")) communicators(text, process, seen);
  if (has(text, "opCount ")) return collective(text, seen);
  if (has(text, "SwitchName=") || has(text, "NODELIST=") || has(text, "NodeList=")) return placement(text, seen);
  registration(text, seen);
}

// "NCCL_SOCKET_NTHREADS set by environment to 16." and "export NCCL_NSOCKS_PERTHREAD=8".
void Pitfalls::sockets(std::string_view text, const std::string& of, Seen seen) {
  if (sockets_.size() >= kMostKept && !sockets_.contains(of)) return;
  Sockets& s = sockets_[of];
  for (const auto& [name, value] :
       {std::pair("NCCL_SOCKET_NTHREADS", &s.threads), std::pair("NCCL_NSOCKS_PERTHREAD", &s.each)})
    for (const std::string_view between : {"=", "=\"", "='", " set by environment to ", ": ", "\": \""})
      if (const int number = number_behind(text, fmt::format("{}{}", name, between)); number > 0) *value = number;
  s.seen = std::move(seen);
}

// "Reserved: 70.10GB, Allocated: 20.30GB", Megatron's report of memory, DeepSpeed's MA and CA, rows of
// torch.cuda.memory_summary().
void Pitfalls::memory(std::string_view original, const std::string& of, Seen seen) {
  if (has(original, "by PyTorch") || has(original, "already allocated")) return;  // see memory.h
  const std::string text = topology::lower(original);
  const auto reserved = first_of(
      text, {"max_ca", "max reserved", "max_memory_reserved", "memory_reserved", "reserved memory", "reserved"});
  const auto allocated = first_of(text, {"max_ma", "max allocated", "max_memory_allocated", "peak allocated",
                                         "memory_allocated", "allocated memory", "allocated"});
  if (memory_.size() >= kMostKept && !memory_.contains(of)) return;
  Memory& m = memory_[of];
  const auto take = [&](const std::optional<Amount>& amount, double& into) {
    if (!amount) return;
    const auto known = mebibytes(*amount, text);
    into = known.value_or(amount->value);
    m.unit = known ? "MiB" : "";
  };
  if (reserved && allocated && reserved->value < 0) return;
  take(reserved, m.reserved);
  take(allocated, m.allocated);
  m.seen = std::move(seen);
}

void Pitfalls::communicators(std::string_view text, const Process& process, Seen seen) {
  if (process.key.empty() || (communicators_.size() >= kMostKept && !communicators_.contains(process.key))) return;
  Communicators& c = communicators_[process.key];
  if (has(text, "Init COMPLETE")) {
    ++c.made;
    if (c.ended > 0) ++c.again;
    if (const int rank = number_behind(text, " rank "); rank >= 0 && c.seen.rank < 0) seen.rank = rank;
    c.seen = std::move(seen);
  } else if (has(text, "Destroy COMPLETE") || has(text, "Abort COMPLETE")) {
    ++c.ended;
  }
}

// "AllReduce: opCount 1f sendbuff 0x… recvbuff 0x… count 25088 datatype 7 op 0 root 0 comm 0x… [nranks=8]".
void Pitfalls::collective(std::string_view text, const Seen& seen) {
  constexpr std::int64_t kSmall = 64 << 10;
  const bool gradients = has(text, "AllReduce: ") || has(text, "ReduceScatter: ") || has(text, "AllGather: ");
  const int count = number_behind(text, " count ");
  if (!gradients || count < 0) return;
  ++calls_;
  if (count * bytes_of_type(number_behind(text, " datatype ")) > kSmall) return;
  if (++small_calls_ == 1) small_ = seen;
}

// Lines of Slurm's topology.conf, and the nodes that a job was given.
void Pitfalls::placement(std::string_view text, const Seen& seen) {
  if (const std::string_view name = value_behind(text, "SwitchName="); !name.empty()) {
    const auto expanded = [](std::string_view list) {
      auto names = topology::expand_hostlist(list);
      return names ? *std::move(names) : std::vector<std::string>();
    };
    if (const auto nodes = value_behind(text, " Nodes="); !nodes.empty())
      for (std::string& node : expanded(nodes)) below_[std::string(name)].insert(std::move(node));
    for (std::string& inner : expanded(value_behind(text, " Switches="))) inner_.insert(std::move(inner));
    return;
  }
  for (const char* key : {"SLURM_JOB_NODELIST=", "SLURM_NODELIST=", "SLURM_STEP_NODELIST=", " NodeList="})
    if (const auto list = value_behind(text, key); !list.empty() && list != "(null)")
      if (auto names = topology::expand_hostlist(list)) {
        nodes_ = *std::move(names);
        nodes_seen_ = seen;
      }
}

// "rank 3 successfully registered …", "rank 3 - IPC registering buffer …" of NCCL_DEBUG_SUBSYS=REG; and the number of
// ranks, so that those without a line can be named.
void Pitfalls::registration(std::string_view text, const Seen& seen) {
  if (const int ranks = std::max(number_behind(text, " nRanks "), number_behind(text, " nranks ")); ranks > 0) {
    if (ranks > job_ranks_) job_ranks_ = ranks, ranks_.clear();
    if (const int rank = number_behind(text, " rank "); rank >= 0 && ranks == job_ranks_) ranks_.insert(rank);
  }
  if (!has(text, "register") || has(text, "deregister") || has(text, "failed")) return;
  const bool done = has(text, "registered") || has(text, "registering buffer") || has(text, " register userbuff");
  const int rank = number_behind(text, " rank ");
  if (!done || rank < 0 || !has(text, "NCCL")) return;
  if (registered_.insert(rank).second && registered_.size() == 1) registered_seen_ = seen;
}

void Pitfalls::finish(const Finder& found) const {
  const auto emit = [&](std::string_view id, const Seen& seen, std::string text, const char* source) {
    found(id, {.file = seen.file,
               .text = "weft: " + std::move(text),
               .source = source,
               .line = seen.line,
               .rank = seen.rank});
  };
  for (const auto& [of, s] : sockets_)
    if (std::max(s.threads, 1) * std::max(s.each, 1) > kMostSockets) {
      emit("P01", s.seen,
           fmt::format("sockets: {} threads times {} sockets are {} for a connection, NCCL opens {}",
                       std::max(s.threads, 1), std::max(s.each, 1), std::max(s.threads, 1) * std::max(s.each, 1),
                       kMostSockets),
           "nccl");
      break;
    }
  constexpr double kFarAbove = 2, kLeastMiB = 1024;
  for (const auto& [of, m] : memory_)
    if (m.allocated > 0 && m.reserved >= kFarAbove * m.allocated &&
        (m.unit.empty() || m.reserved - m.allocated >= kLeastMiB))
      emit("P03", m.seen,
           fmt::format("reserved is {:.1f} times what is allocated: {}", m.reserved / m.allocated, m.seen.text),
           "pytorch");
  report_communicators(found);
  constexpr std::int64_t kEnough = 64;
  if (calls_ >= kEnough && small_calls_ * 10 >= calls_ * 9)
    emit("P08", small_, fmt::format("small messages: {} of {} collectives are of 64 KiB or less", small_calls_, calls_),
         "nccl");
  report_placement(found);
  report_registration(found);
}

void Pitfalls::report_communicators(const Finder& found) const {
  constexpr int kOften = 8, kMany = 64;
  for (const auto& [of, c] : communicators_) {
    if (c.again < kOften && c.made - c.ended < kMany) continue;
    const std::string text =
        c.again >= kOften
            ? fmt::format("weft: communicators: {} made by one process, {} of them after one was destroyed", c.made,
                          c.again)
            : fmt::format("weft: communicators: {} at once in one process", c.made - c.ended);
    found("P04", {.file = c.seen.file, .text = text, .source = "nccl", .line = c.seen.line, .rank = c.seen.rank});
  }
}

// Leaves that the job's nodes hang at, against the fewest that would hold them.
void Pitfalls::report_placement(const Finder& found) const {
  if (nodes_.size() < 2 || below_.size() < 2) return;
  std::set<std::string> used;
  std::size_t known = 0;
  for (const std::string& node : nodes_)
    for (const auto& [leaf, nodes] : below_)
      if (nodes.contains(node)) used.insert(leaf), ++known;
  std::vector<std::size_t> sizes;
  for (const auto& [leaf, nodes] : below_) sizes.push_back(nodes.size());
  std::ranges::sort(sizes, std::greater());
  std::size_t fewest = 0;
  for (std::size_t room = 0; room < nodes_.size() && fewest < sizes.size(); ++fewest) room += sizes[fewest];
  if (known < nodes_.size() || used.size() <= fewest) return;
  found("P09", {.file = nodes_seen_.file,
                .text = fmt::format("weft: scattered: {} nodes at {} leaf switches ({}); {} would hold them",
                                    nodes_.size(), used.size(), fmt::join(used, ", "), fewest),
                .source = "tool",
                .line = nodes_seen_.line});
}

void Pitfalls::report_registration(const Finder& found) const {
  const auto ranks = static_cast<std::size_t>(std::max(job_ranks_, 0));
  if (registered_.empty() || ranks < 2 || ranks_.size() < ranks || registered_.size() >= ranks) return;
  std::vector<int> without;
  for (const int rank : ranks_)
    if (!registered_.contains(rank)) without.push_back(rank);
  const std::size_t all = without.size();
  without.resize(std::min(all, kMostNamed));
  found("P10", {.file = registered_seen_.file,
                .text = fmt::format("weft: registered on {} of {} ranks; not on {}{}", registered_.size(), ranks,
                                    fmt::join(without, " "), all > kMostNamed ? " …" : ""),
                .source = "nccl",
                .line = registered_seen_.line,
                .rank = without.empty() ? -1 : without.front()});
}

}  // namespace weft::doctor
