#include "apps/cli/check_matrix.h"

#include <algorithm>
#include <cmath>

#include "apps/cli/commands.h"
#include "base/text.h"
#include "machine/routes.h"

namespace weft::cli {
namespace {

// Copies carry 75 to 95 % of a link's rate: headers, acknowledgements, credits.
constexpr double kGoodShare = 0.7;
// Below this part of the median of its kind a rate is another one, not noise.
constexpr double kOdd = 0.75;
constexpr std::size_t kMostNamed = 8;

// GPUs whose tables name the machine.
struct Known {
  std::string_view gpu, machine;
};
constexpr Known kKnown[] = {{"GB300", "gb300-nvl72"},       {"GB200", "gb200-nvl72"}, {"GH200", "gh200"},
                            {"H100 80GB HBM3", "dgx-h100"}, {"H200", "hgx-h200"},     {"B200", "hgx-b200"},
                            {"B300", "hgx-b300"},           {"A100-SXM", "dgx-a100"}, {"V100-SXM3", "dgx2"},
                            {"V100-SXM2", "dgx1-v100"},     {"MI300X", "mi300x"}};

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

struct Pair {
  std::size_t from, to;
  double rate;
};
std::vector<Pair> pairs_of(const doctor::PairMatrix& matrix) {
  std::vector<Pair> pairs;
  for (std::size_t row = 0; row < matrix.rates.size(); ++row)
    for (std::size_t column = 0; column < matrix.rates[row].size(); ++column)
      if (matrix.rates[row][column] > 0) pairs.push_back({row, column, matrix.rates[row][column]});
  return pairs;
}

struct Verdict {
  std::string title, words;
  double middle = 0, least = 0, most = 0, model = 0;
  bool slow = false;
};

std::string named(const doctor::PairMatrix& matrix, const std::vector<Pair>& pairs) {
  std::string all;
  for (std::size_t i = 0; i < std::min(pairs.size(), kMostNamed); ++i)
    all += fmt::format(
        "{}{} {:.1f}", i > 0 ? ", " : "",
        matrix.host ? fmt::format("GPU {}", pairs[i].to) : fmt::format("{} to {}", pairs[i].from, pairs[i].to),
        pairs[i].rate);
  return pairs.size() > kMostNamed ? fmt::format("{} and {} more", all, pairs.size() - kMostNamed) : all;
}

// The slowest link's rate between two GPUs of a machine, GB/s; 0: the machine has no such GPUs.
double wire(const Machine& machine, topology::Routes& routes, std::size_t from, std::size_t to) {
  const auto gpus = machine.view->topology().devices_of(topology::DeviceKind::kGpu);
  if (from >= gpus.size() || to >= gpus.size()) return 0;
  const double rate = routes.path(gpus[from], gpus[to]).rate.value() * 1e-9;
  return std::isfinite(rate) ? rate : 0;
}

Verdict against_machine(const doctor::PairMatrix& matrix, const std::vector<Pair>& pairs, const Machine& machine) {
  Verdict verdict{.title = matrix.title};
  topology::Routes routes(machine.view->topology());
  std::vector<Pair> slow;
  std::vector<double> wires;
  for (const Pair& pair : pairs) {
    const double rate = (matrix.both_ways ? 2 : 1) * wire(machine, routes, pair.from, pair.to);
    if (rate <= 0) continue;
    wires.push_back(rate);
    if (pair.rate < kGoodShare * rate) slow.push_back(pair);
  }
  verdict.model = median(wires);
  verdict.slow = !slow.empty();
  verdict.words = slow.empty() ? "what the links should carry"
                               : fmt::format("slow, {} of {} pairs carry less than {:.0f} % of their links: {}",
                                             slow.size(), pairs.size(), 100 * kGoodShare, named(matrix, slow));
  return verdict;
}

// Pairs of one matrix among themselves. A few below all others are odd; half of them below the other half is a machine
// with two kinds of pairs.
Verdict among_themselves(const doctor::PairMatrix& matrix, const std::vector<Pair>& pairs) {
  Verdict verdict{.title = matrix.title};
  std::vector<double> rates;
  for (const Pair& pair : pairs) rates.push_back(pair.rate);
  const double middle = median(rates);
  std::vector<Pair> odd;
  for (const Pair& pair : pairs)
    if (pair.rate < kOdd * middle) odd.push_back(pair);
  verdict.slow = !odd.empty();
  verdict.words = odd.empty() ? "no pair is below the others"
                              : fmt::format("{} of {} below three quarters of the median: {}", odd.size(), pairs.size(),
                                            named(matrix, odd));
  return verdict;
}

// Peer access that is slower than the way through the host's memory.
std::string_view peer_access(const doctor::PairMatrices& read) {
  double direct = 0, staged = 0;
  for (const doctor::PairMatrix& matrix : read.all) {
    if (matrix.host || matrix.both_ways) continue;
    std::vector<double> rates;
    for (const Pair& pair : pairs_of(matrix))
      if (pair.from != pair.to) rates.push_back(pair.rate);
    (matrix.staged ? staged : direct) = std::max(matrix.staged ? staged : direct, median(rates));
  }
  if (direct <= 0 || staged <= 0 || direct > 0.9 * staged) return "";
  return "Peer access is slower than the way through the host's memory: ACS on the PCIe switches or an IOMMU that "
         "translates (weft doctor; lspci -vvv | grep ACSCtl), or P2P writes across sockets; NCCL_P2P_LEVEL=PXB or "
         "NCCL_P2P_DISABLE=1 avoids it.";
}

constexpr const char* kPeerCauses =
    "causes: a link that is down or trained narrower (nvidia-smi nvlink -s, lspci LnkSta), ACS or an IOMMU, pairs of "
    "different sockets, other work on these GPUs, clocks";
constexpr const char* kHostCauses =
    "causes: a PCIe link of fewer lanes or a lower speed (nvidia-smi -q | grep -A8 'GPU Link'), memory of the other "
    "socket (numactl), other work";

nlohmann::json as_json(const Verdict& verdict) {
  return {{"title", verdict.title},    {"median_GBps", verdict.middle}, {"least_GBps", verdict.least},
          {"most_GBps", verdict.most}, {"links_GBps", verdict.model},   {"slow", verdict.slow},
          {"verdict", verdict.words}};
}

}  // namespace

std::string_view machine_with(std::string_view gpu) {
  const auto* at =
      std::ranges::find_if(kKnown, [&](const Known& known) { return gpu.find(known.gpu) != std::string_view::npos; });
  return at == std::end(kKnown) ? std::string_view() : at->machine;
}

Result<int> check_matrices(const std::string& file, const std::string& on, const std::string& json,
                           const doctor::PairMatrices& read) {
  const std::string name = !on.empty() ? on : read.gpus.empty() ? "" : std::string(machine_with(read.gpus.front()));
  std::optional<Machine> machine;
  if (!name.empty()) {
    WEFT_TRY(machine, load_machine(name));
  }
  bool slow = !read.waived.empty();
  std::vector<Verdict> verdicts;
  for (const doctor::PairMatrix& matrix : read.all) {
    const std::vector<Pair> pairs = pairs_of(matrix);
    if (pairs.empty()) continue;
    const bool links = machine && !matrix.host && !matrix.staged;
    Verdict verdict = links ? against_machine(matrix, pairs, *machine) : among_themselves(matrix, pairs);
    if (links && verdict.model <= 0) verdict = among_themselves(matrix, pairs);
    std::vector<double> rates;
    for (const Pair& pair : pairs) rates.push_back(pair.rate);
    verdict.middle = median(rates);
    verdict.least = std::ranges::min(rates), verdict.most = std::ranges::max(rates);
    slow = slow || (verdict.slow && !matrix.staged);
    verdicts.push_back(std::move(verdict));
  }
  if (verdicts.empty() && read.waived.empty()) return bad_input("{}: a table between pairs without a rate", file);
  const std::string_view peers = peer_access(read);
  slow = slow || !peers.empty();
  if (json != "-") {
    fmt::print("Bandwidths between pairs, not of a collective; {}.\n",
               machine ? fmt::format("held against {}{}", machine->name, on.empty() ? " (guessed from the GPU)" : "")
                       : "held against each other: which machine it is, the file does not say (--on MACHINE)");
    for (const std::string& test : read.waived)
      fmt::print("{} was waived: the GPUs cannot reach each other's memory (nvidia-smi topo -p2p r; weft doctor).\n",
                 shown(test));
    if (read.apart > 0)
      fmt::print(
          "Without peer access: {} of the directions between two GPUs; their copies go through the host's memory "
          "(nvidia-smi topo -p2p r says why).\n",
          read.apart);
    for (const Verdict& v : verdicts) {
      fmt::print("\n{}\n  {:.1f} GB/s in the median, {:.1f} to {:.1f}{}: {}\n", shown(v.title), v.middle, v.least,
                 v.most, v.model > 0 ? fmt::format("; links of {:.1f}", v.model) : "", v.words);
      if (v.slow) fmt::print("  {}\n", v.title.find("CPU(row)") == std::string::npos ? kPeerCauses : kHostCauses);
    }
    if (!peers.empty()) fmt::print("\n{}\n", peers);
  }
  if (!json.empty()) {
    nlohmann::json all = nlohmann::json::array();
    for (const Verdict& v : verdicts) all.push_back(as_json(v));
    WEFT_CHECK(write_json(json, {{"schema", "weft.check_matrix/1"},
                                 {"machine", machine ? machine->name : ""},
                                 {"waived", read.waived},
                                 {"without_peer_access", read.apart},
                                 {"peer_access", peers},
                                 {"slow", slow},
                                 {"matrices", all}}));
  }
  return slow ? kBadAnswer : 0;
}

}  // namespace weft::cli
