#include "plan/tune/nccl/choice.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "base/nearest_words.h"
#include "base/text.h"
#include "plan/collectives/registry.h"
#include "plan/tune/nccl/constants.h"

namespace weft::tune::nccl {
namespace {

constexpr std::string_view kWindows = ":symmetric";

// Names of weft's registry.
std::string_view weft_name(Algorithm a, Collective c) {
  static constexpr std::string_view kNames[] = {"tree",      "ring", "collnet_direct", "collnet_chain", "nvls",
                                                "nvls_tree", "pat",  "grouped"};
  switch (a) {
    case Algorithm::kSymmetricLL:
    case Algorithm::kSymmetricLLMulticast:
      return c == Collective::kAllReduce ? "one_shot" : "spread";
    case Algorithm::kSymmetric:
      return c == Collective::kAllReduce ? "two_shot" : "direct";
    case Algorithm::kSymmetricMulticast:
      return "nvls";
    default:
      return kNames[static_cast<int>(a)];
  }
}

// As NCCL_ALGO and NCCL_PROTO do: of the rows that are possible those of these names.
Status keep_named(const Question& q, std::vector<Row>& rows) {
  std::erase_if(rows, [](const Row& r) { return !r.possible; });
  if (!q.algorithm.empty()) {
    WEFT_TRY(const schedule::Algorithm* named, collectives::find_algorithm(q.task.collective, q.algorithm));
    std::erase_if(rows, [&](const Row& r) { return weft_name(r.algorithm, q.task.collective) != named->name; });
  }
  if (!q.protocol.empty()) {
    WEFT_TRY(const protocol::Protocol named, protocol::parse_protocol(q.protocol));
    std::erase_if(rows, [&](const Row& r) { return r.protocol != named; });
  }
  std::erase_if(rows, [&](const Row& r) {
    return (q.algorithm.empty() && !q.algorithms.allows(weft_name(r.algorithm, q.task.collective))) ||
           (q.protocol.empty() && !q.protocols.allows(protocol::traits(r.protocol).name));
  });
  return {};
}

// The one that NCCL would take of these.
const Row* best_of(const std::vector<Row>& rows) {
  const auto chosen = std::ranges::find_if(rows, &Row::chosen);
  const auto best = chosen != rows.end() ? chosen : std::ranges::min_element(rows, {}, &Row::time);
  return best == rows.end() ? nullptr : &*best;
}

// "2.29.2"; "2.29" has no patch, which is -1 then.
struct Version {
  int major = 0, minor = 0, patch = -1;
};
std::optional<Version> numbers_of(std::string_view text) {
  std::array<int, 3> numbers{0, 0, -1};
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), numbers[i]);
    if (problem != std::errc() || numbers[i] < 0 || numbers[i] > 99) return std::nullopt;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    if (text.empty() && i > 0) return Version{numbers[0], numbers[1], numbers[2]};
    if (text.empty() || text.front() != '.') return std::nullopt;
    text.remove_prefix(1);
  }
  return std::nullopt;
}

}  // namespace

Question forced(const Question& question, const Row& row) {
  Question q = question;
  q.algorithm = weft_name(row.algorithm, q.task.collective);
  q.protocol = protocol::traits(row.protocol).name;
  // Blocks of kernels for symmetric windows move more than a channel does: weft's model says how many channels do that.
  const bool own_blocks = row.algorithm == Algorithm::kSymmetric || row.algorithm == Algorithm::kSymmetricMulticast;
  q.channels = own_blocks ? 0 : row.channels;
  q.slice = row.slice;
  if (q.most_slice > 0 && row.protocol == protocol::Protocol::kSimple) q.slice = std::min(q.slice, q.most_slice);
  q.staging = row.staging;
  if (const auto found = collectives::find_algorithm(q.task.collective, q.algorithm); found && !own_blocks)
    q.channels = std::max(1, std::min(q.channels, q.can.max_strands / (*found)->connections_of_channel()));
  return q;
}

std::span<const int> releases() { return kReleases; }

std::string release_name(int release) {
  return release % 100 == 0 ? fmt::format("2.{}", release / 100) : fmt::format("2.{}.{}", release / 100, release % 100);
}

bool with_windows(std::string_view tuner) { return tuner.ends_with(kWindows); }

Result<int> release_of(std::string_view tuner) {
  if (with_windows(tuner)) tuner.remove_suffix(kWindows.size());
  constexpr int kNewest = *std::rbegin(kReleases), kOldest = *std::begin(kReleases);
  if (tuner == "nccl") return kNewest;
  const auto version = numbers_of(tuner.starts_with("nccl-") ? tuner.substr(5) : std::string_view());
  const std::string known = fmt::format("there are weft, nccl, and nccl-2.{} to nccl-2.{}, with or without the patch",
                                        kOldest / 100, kNewest / 100);
  if (!version || version->major != 2)
    return bad_input("unknown tuner '{}'; {}{}", tuner, did_you_mean(tuner, {"weft", "nccl"}), known);
  if (version->minor > kNewest / 100)
    return bad_input("tuner '{}': NCCL 2.{} chooses by rules that weft does not know (2.31 has a new tuner); {}", tuner,
                     version->minor, known);
  if (version->minor < kOldest / 100)
    return bad_input("tuner '{}': rules of NCCL before 2.{} are not known; {}", tuner, kOldest / 100, known);
  const int last = *std::ranges::find_if(kReleases, [&](int r) { return r / 100 == version->minor; });
  if (version->patch > last % 100)
    return bad_input("tuner '{}': the last NCCL 2.{} is {}", tuner, version->minor, release_name(last));
  return version->patch >= 0 ? version->minor * 100 + version->patch : last;
}

std::optional<int> nearest_release(std::string_view text) {
  const auto version = numbers_of(text);
  if (!version || version->major != 2) return std::nullopt;
  const int asked = version->minor * 100 + std::max(0, version->patch);
  if (version->patch < 0)
    for (const int last : kReleases)
      if (last / 100 == version->minor) return last;
  return std::clamp(asked, *std::begin(kReleases), *std::rbegin(kReleases));
}

std::vector<SameChoice> choices_by_release(const System& system, Collective collective, Bytes bytes) {
  std::vector<SameChoice> all;
  for (const int release : kReleases) {
    System s = system;
    s.release = release;
    const std::vector<Row> of = rows(s, collective, bytes);
    const Row* row = choice(of);
    if (row == nullptr) continue;
    const bool same = !all.empty() && all.back().row.algorithm == row->algorithm &&
                      all.back().row.protocol == row->protocol && all.back().row.channels == row->channels;
    if (!same) all.push_back({.first = release});
    all.back().last = release;
    all.back().row = *row;
  }
  return all;
}

const Row* choice(const std::vector<Row>& rows) {
  const auto found = std::ranges::find_if(rows, &Row::chosen);
  return found == rows.end() ? nullptr : &*found;
}

Result<Candidate> choose(const cost::MachineView& machine, const System& system, const Question& question) {
  const Collective collective = question.task.collective;
  if (!models(collective))
    return failure(Code::kUnsupported, Blame::kInput, "NCCL's tuner does not choose for {}",
                   schedule::name(collective));
  System asked = system;
  const auto bounded = [&](int channels) {
    if (question.most_channels > 0) channels = std::min(channels, question.most_channels);
    return std::max(channels, std::min(question.least_channels, kMostChannels));
  };
  asked.channels = bounded(system.channels);
  // A list of protocols that leaves LL128 in also skips NCCL's question whether its lines stay whole.
  if (question.protocols.limits() && question.protocols.allows("LL128")) asked.ll128 = true;
  std::vector<Row> all = rows(asked, collective, question.task.elements * question.task.element_bytes);
  const Row* row = choice(all);
  if (!question.algorithm.empty() || !question.protocol.empty() || question.algorithms.limits() ||
      question.protocols.limits()) {
    WEFT_CHECK(keep_named(question, all));
    row = best_of(all);
    const std::string by = question.algorithm.empty() ? question.algorithms.text() : question.algorithm,
                      with = question.protocol.empty() ? question.protocols.text() : question.protocol;
    if (row == nullptr)
      return failure(Code::kUnsupported, Blame::kInput, "NCCL cannot do {} by {}{}{} here", schedule::name(collective),
                     by, by.empty() || with.empty() ? "" : " ", with);
  }
  if (row == nullptr)
    return failure(Code::kUnsupported, Blame::kInput, "NCCL has nothing to choose on {} ranks", question.task.ranks);
  return tune::choose(machine, forced(question, *row));
}

}  // namespace weft::tune::nccl
