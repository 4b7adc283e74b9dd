#include "base/nccl_names.h"

#include <algorithm>
#include <cctype>

#include "base/counted.h"
#include "base/text.h"

namespace weft::env {
namespace {

constexpr std::string_view kNames[] = {
    "NCCL_ALGO", "NCCL_PROTO", "NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS", "NCCL_MIN_CTAS", "NCCL_MAX_CTAS",
    "NCCL_SOCKET_IFNAME", "NCCL_DEBUG", "NCCL_DEBUG_FILE", "NCCL_DEBUG_SUBSYS", "NCCL_TOPO_FILE", "NCCL_TOPO_DUMP_FILE",
    "NCCL_BUFFSIZE", "NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE", "NCCL_SOCKET_NTHREADS", "NCCL_NSOCKS_PERTHREAD",
    "NCCL_IB_HCA", "NCCL_NET_GDR_LEVEL", "NCCL_P2P_LEVEL", "NCCL_MIN_NRINGS", "NCCL_MAX_NRINGS",
    // Without a meaning here: see without_meaning.
    "NCCL_NVLS_ENABLE", "NCCL_COLLNET_ENABLE", "NCCL_IB_DISABLE", "NCCL_NET", "NCCL_CROSS_NIC", "NCCL_NTHREADS"};

// A word of NCCL's lists and what weft calls it.
struct Word {
  std::string_view nccl;
  std::vector<std::string> weft;
};
const std::vector<Word> kAlgorithms = {{"Tree", {"tree"}},
                                       {"Ring", {"ring"}},
                                       {"CollNetDirect", {"collnet_direct"}},
                                       {"CollNetChain", {"collnet_chain"}},
                                       {"CollNet", {"collnet_direct", "collnet_chain"}},
                                       {"NVLS", {"nvls"}},
                                       {"NVLSTree", {"nvls_tree"}},
                                       {"PAT", {"pat"}}};
const std::vector<Word> kProtocols = {{"LL", {"LL"}}, {"LL128", {"LL128"}}, {"Simple", {"Simple"}}};

// NCCL's functions that lists may name.
const std::vector<Word> kFunctions = {{"Broadcast", {"broadcast"}},  {"Reduce", {"reduce"}},
                                      {"AllGather", {"all_gather"}}, {"ReduceScatter", {"reduce_scatter"}},
                                      {"AllReduce", {"all_reduce"}}, {"SendRecv", {"send_recv"}},
                                      {"Send", {"send_recv"}},       {"Recv", {"send_recv"}},
                                      {"AlltoAll", {"all_to_all"}},  {"Gather", {"gather"}},
                                      {"Scatter", {"scatter"}}};
constexpr std::string_view kEvery = "";  // function of a list that names none

constexpr std::int64_t kMostSockets = 16;  // WEFT_TCP_SOCKETS
constexpr std::int64_t kMostOfNccl = 64;   // NCCL's sockets of a connection

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front()))) text.remove_prefix(1);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) text.remove_suffix(1);
  return text;
}

std::vector<std::string_view> parts_of(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t end = std::min(text.find(separator), text.size());
    if (const std::string_view part = trimmed(text.substr(0, end)); !part.empty()) parts.push_back(part);
    if (end == text.size()) return parts;
    text.remove_prefix(end + 1);
  }
}

const Word* word_of(const std::vector<Word>& words, std::string_view text) {
  const auto found = std::ranges::find_if(
      words, [&](const Word& w) { return lower(std::string(w.nccl)) == lower(std::string(text)); });
  return found == words.end() ? nullptr : &*found;
}

// "ring,tree" or "^ll" as weft's names; words that NCCL does not have go into `unknown`.
NameFilter filter_from(std::string_view list, const std::vector<Word>& words, std::vector<std::string>& unknown) {
  NameFilter filter{.all_but = list.starts_with('^')};
  if (filter.all_but) list.remove_prefix(1);
  for (const std::string_view part : parts_of(list, ',')) {
    const Word* word = word_of(words, part);
    if (word == nullptr)
      unknown.emplace_back(part);
    else
      filter.names.insert(filter.names.end(), word->weft.begin(), word->weft.end());
  }
  return filter;
}

// "loc" … "sys" of a level's name or NCCL's older number; empty: neither.
std::string level_of(const std::string& value) {
  static constexpr std::string_view kNumbers[] = {"loc", "pix", "pxb", "phb", "sys"};
  const std::string word = lower(value);
  for (const std::string_view known : {"loc", "nvl", "pix", "pxb", "phb", "sys"})
    if (word == known) return word;
  if (word == "pxn") return "phb";
  const auto number = parse_integer("level", word, 0, std::int64_t{1} << 31);
  return number ? std::string(kNumbers[std::min<std::int64_t>(*number, 4)]) : "";
}

class Translation {
 public:
  Translation(const std::map<std::string, std::string>& nccl, Settings& settings) : nccl_(nccl), s_(settings) {}

  void algorithm() {
    list("NCCL_ALGO", "WEFT_ALGO", s_.algorithm, kAlgorithms, s_.nccl_algorithms);
    // What NCCL_ALGO=^NVLS,NVLSTree says, where that is not given.
    const std::string* const nvls = given("NCCL_NVLS_ENABLE");
    if (nvls == nullptr || *nvls != "0") return;
    if (given("NCCL_ALGO") != nullptr) return ignored("NCCL_NVLS_ENABLE", "NCCL_ALGO is given, too, and decides");
    if (!s_.algorithm.empty()) return overruled("NCCL_NVLS_ENABLE", "WEFT_ALGO");
    std::vector<std::string> unknown;
    s_.nccl_algorithms[std::string(kEvery)] = filter_from("^NVLS,NVLSTree", kAlgorithms, unknown);
    understood("NCCL_NVLS_ENABLE", "no algorithm whose switches sum within a node");
  }
  void protocol() { list("NCCL_PROTO", "WEFT_PROTO", s_.protocol, kProtocols, s_.nccl_protocols); }

  void channels() {
    // Thread blocks (CTAs) of a collective are its channels; of two bounds the narrower one holds.
    std::int64_t blocks = 0;
    channels_of("NCCL_MIN_NCHANNELS", "NCCL_MIN_NRINGS", s_.least_channels);
    if (channels_of("NCCL_MIN_CTAS", "NCCL_MIN_CTAS", blocks) > 0)
      s_.least_channels = std::max(s_.least_channels, blocks);
    channels_of("NCCL_MAX_NCHANNELS", "NCCL_MAX_NRINGS", s_.most_channels);
    if (channels_of("NCCL_MAX_CTAS", "NCCL_MAX_CTAS", blocks) > 0)
      s_.most_channels = s_.most_channels > 0 ? std::min(s_.most_channels, blocks) : blocks;
    const std::int64_t low = s_.least_channels;
    std::int64_t high = s_.most_channels;
    if (low > 0 && high > 0 && low > high) high = s_.most_channels = low;  // as NCCL has it
    if (low > 0 && low == high) s_.channels = low;
  }

  // A list of beginnings of names; "=" makes them whole names, "^" excludes them all. WEFT_IFACE has patterns.
  void interface() {
    const std::string* const value = given("NCCL_SOCKET_IFNAME");
    if (value == nullptr) return;
    if (!s_.interface.empty()) return overruled("NCCL_SOCKET_IFNAME", "WEFT_IFACE");
    std::string list = *value;
    const bool excludes = list.starts_with('^');
    if (excludes) list.erase(0, 1);
    const bool exact = list.starts_with('=');
    list.erase(0, std::min(list.find_first_not_of('='), list.size()));  // "==" means the same
    std::string own = excludes ? "^" : "";
    for (std::size_t at = 0; at <= list.size();) {
      const std::size_t comma = std::min(list.find(',', at), list.size());
      const std::string name = list.substr(at, std::min(list.find(':', at), comma) - at);  // ":0" is a port of RDMA
      if (name.empty()) return ignored("NCCL_SOCKET_IFNAME", "it has an entry without a name");
      own += (at > 0 ? "," : "") + name + (exact ? "" : "*");
      at = comma + 1;
    }
    s_.interface = own;
    understood("NCCL_SOCKET_IFNAME", "WEFT_IFACE=" + s_.interface);
  }

  void log() {
    if (const std::string* const value = given("NCCL_DEBUG")) {
      const auto level = parse_log_level("NCCL_DEBUG", *value);
      if (!level)
        ignored("NCCL_DEBUG", "there are VERSION, WARN, INFO and TRACE");
      else if (!s_.log_level_given)
        s_.log.level = *level;
    }
    if (const std::string* const value = given("NCCL_DEBUG_SUBSYS")) {
      const auto parts = parse_log_parts("NCCL_DEBUG_SUBSYS", *value);
      if (!parts)
        ignored("NCCL_DEBUG_SUBSYS",
                "weft knows INIT, COLL, P2P, SHM, NET, GRAPH, TUNING, ENV, BOOTSTRAP, PROXY, RAS, CALL and ALL of "
                "NCCL's names");
      else if (!s_.log_parts_given)
        s_.log.parts = *parts;
    }
    if (const std::string* const value = given("NCCL_DEBUG_FILE"))
      if (s_.log.file.empty()) s_.log.file = *value;
  }

  void sockets() {
    const auto count = [&](const char* name) -> std::int64_t {
      const std::string* const value = given(name);
      if (value == nullptr) return 0;
      const auto number = parse_integer(name, *value, 1, kMostOfNccl);
      if (!number) ignored(name, fmt::format("NCCL takes 1 to {}", kMostOfNccl));
      return number ? *number : 0;
    };
    const std::int64_t threads = count("NCCL_SOCKET_NTHREADS"), each = count("NCCL_NSOCKS_PERTHREAD");
    if (threads == 0 && each == 0) return;
    const std::string names = each == 0      ? "NCCL_SOCKET_NTHREADS"
                              : threads == 0 ? "NCCL_NSOCKS_PERTHREAD"
                                             : "NCCL_SOCKET_NTHREADS times NCCL_NSOCKS_PERTHREAD";
    if (s_.sockets != 1) return overruled(names, "WEFT_TCP_SOCKETS");
    const std::int64_t wanted = std::max<std::int64_t>(threads, 1) * std::max<std::int64_t>(each, 1);
    s_.sockets = static_cast<int>(std::min(wanted, kMostSockets));
    std::string meaning = fmt::format("WEFT_TCP_SOCKETS={}", s_.sockets);
    if (wanted > kMostOfNccl)
      meaning += fmt::format(": {} sockets of a connection are more than NCCL's {} and weft's {}", wanted, kMostOfNccl,
                             kMostSockets);
    else if (wanted > kMostSockets)
      meaning += fmt::format(", the most that weft opens for a connection, instead of {}", wanted);
    understood(names, meaning);
  }

  void network() {
    if (const std::string* const value = given("NCCL_IB_HCA")) {
      std::string_view list = *value;
      s_.nccl_nics.all_but = list.starts_with('^');
      if (s_.nccl_nics.all_but) list.remove_prefix(1);
      const bool whole = list.starts_with('=');
      if (whole) list.remove_prefix(1);
      for (const std::string_view part : parts_of(list, ','))
        s_.nccl_nics.names.push_back((whole ? "=" : "") + std::string(part));
      if (s_.nccl_nics.limits())
        ignored("NCCL_IB_HCA", "UCX_NET_DEVICES names the NICs of transport ucx");
      else
        ignored("NCCL_IB_HCA", "it names no NIC");
    }
    for (const auto& [name, level] :
         {std::pair("NCCL_NET_GDR_LEVEL", &s_.nccl_gdr), std::pair("NCCL_P2P_LEVEL", &s_.nccl_p2p)})
      if (const std::string* const value = given(name)) {
        *level = level_of(*value);
        if (level->empty()) ignored(name, "levels are LOC, NVL, PIX, PXB, PHB and SYS");
      }
    if (s_.nccl_gdr == "loc")
      ignored("NCCL_NET_GDR_LEVEL",
              "transport ucx decides about GPU Direct RDMA: UCX_IB_GPU_DIRECT_RDMA=no forbids it");
    else if (!s_.nccl_gdr.empty())
      ignored("NCCL_NET_GDR_LEVEL", "transport ucx decides about GPU Direct RDMA");
    if (s_.nccl_p2p == "loc" && !s_.device_path.empty())
      overruled("NCCL_P2P_LEVEL", "WEFT_DEVICE_PATH");
    else if (s_.nccl_p2p == "loc")
      s_.device_path = "host", understood("NCCL_P2P_LEVEL", "WEFT_DEVICE_PATH=host");
    else if (!s_.nccl_p2p.empty())
      ignored("NCCL_P2P_LEVEL", "GPUs whose driver opens their memory to each other use it, however far they are");
  }

  void buffers() {
    const std::string* const value = given("NCCL_BUFFSIZE");
    if (value == nullptr) return;
    constexpr std::int64_t kLeast = 8 * 64;  // a line for each of NCCL's steps
    const auto bytes = parse_integer("NCCL_BUFFSIZE", *value, kLeast, std::int64_t{1} << 40);
    if (!bytes) return ignored("NCCL_BUFFSIZE", "it is a number of bytes, 512 at least");
    s_.nccl_buffer = *bytes;
    understood("NCCL_BUFFSIZE", fmt::format("messages of protocol Simple of at most {}", format_bytes(*bytes / 4)));
  }

  void transports() {
    if (const std::string* const value = given("NCCL_SHM_DISABLE"); value != nullptr && *value == "1") {
      if (!s_.transport.empty())
        overruled("NCCL_SHM_DISABLE", "WEFT_TRANSPORT");
      else
        s_.transport = "tcp", understood("NCCL_SHM_DISABLE", "WEFT_TRANSPORT=tcp");
    }
    if (const std::string* const value = given("NCCL_P2P_DISABLE"); value != nullptr && *value == "1") {
      s_.nccl_p2p = "loc";
      if (!s_.device_path.empty())
        overruled("NCCL_P2P_DISABLE", "WEFT_DEVICE_PATH");
      else
        s_.device_path = "host", understood("NCCL_P2P_DISABLE", "WEFT_DEVICE_PATH=host");
    }
  }

  void without_meaning() {
    if (given("NCCL_TOPO_FILE") != nullptr)
      ignored("NCCL_TOPO_FILE", "weft looks at the machine itself; `weft explain --on FILE` answers for such a file");
    if (given("NCCL_TOPO_DUMP_FILE") != nullptr)
      ignored("NCCL_TOPO_DUMP_FILE", "`weft topo --json FILE` writes what weft sees");
    constexpr std::pair<const char*, const char*> kOthers[] = {
        {"NCCL_NVLS_ENABLE", "weft uses a switch's sums where the machine has them"},
        {"NCCL_COLLNET_ENABLE", "weft uses a network's sums where the machine has them"},
        {"NCCL_IB_DISABLE", "WEFT_TRANSPORT names the transport; tcp leaves RDMA alone"},
        {"NCCL_NET", "WEFT_TRANSPORT names the transport"},
        {"NCCL_CROSS_NIC", "rings follow the rails of the machine"},
        {"NCCL_NTHREADS", "kernels have the threads that their copies need"}};
    for (const auto& [name, why] : kOthers)
      if (const std::string* const value = given(name); value != nullptr)
        if (std::string_view(name) != "NCCL_NVLS_ENABLE" || *value != "0") ignored(name, why);
  }

 private:
  // One of NCCL's lists, into what weft may choose. What NCCL would refuse is a note, and the rest holds.
  void list(const std::string& name, const std::string& own_name, std::string& own, const std::vector<Word>& words,
            std::map<std::string, NameFilter, std::less<>>& into) {
    const std::string* const value = given(name);
    if (value == nullptr) return;
    if (!own.empty()) return overruled(name, own_name);
    std::vector<std::string> unknown, meanings;
    for (const std::string_view part : parts_of(*value, ';')) {
      const std::size_t colon = part.find(':');
      const std::string_view of = colon == std::string_view::npos ? kEvery : trimmed(part.substr(0, colon));
      const Word* const function = of == kEvery ? nullptr : word_of(kFunctions, of);
      if (of != kEvery && function == nullptr) {
        unknown.emplace_back(of);
        continue;
      }
      const NameFilter filter =
          filter_from(trimmed(colon == std::string_view::npos ? part : part.substr(colon + 1)), words, unknown);
      if (!filter.limits()) continue;
      const std::string collective(function == nullptr ? kEvery : function->weft.front());
      into[collective] = filter;
      meanings.push_back(fmt::format("{}{}", collective.empty() ? "" : collective + " by ", filter.text()));
    }
    if (meanings.size() == 1 && into.size() == 1 && into.begin()->first == kEvery &&
        into.begin()->second.names.size() == 1 && !into.begin()->second.all_but)
      understood(name, own_name + "=" + into.begin()->second.names.front());
    else if (!meanings.empty())
      understood(name, fmt::format("what may be chosen: {}", fmt::join(meanings, "; ")));
    if (unknown.empty()) return;
    std::vector<std::string_view> known;
    for (const Word& word : words) known.push_back(word.nccl);
    ignored(name, fmt::format("{} of it: NCCL has {}, and functions such as AllReduce before a colon",
                              fmt::join(unknown, ", "), fmt::join(known, ", ")));
  }

  // The number of one of these two names, the newer first; 0: neither.
  std::int64_t channels_of(const char* name, const char* older, std::int64_t& into) {
    const char* const set = given(name) != nullptr ? name : older;
    const std::string* const value = given(set);
    if (value == nullptr) return 0;
    if (s_.channels != 0) return overruled(set, "WEFT_CHANNELS"), 0;
    const auto count = parse_integer(set, *value, 1, 64);
    if (!count) return ignored(set, "it is a number of channels from 1 to 64"), 0;
    into = *count;
    understood(set,
               fmt::format("at {} {}", std::string_view(set).find("_MIN_") != std::string_view::npos ? "least" : "most",
                           counted(*count, "channel")));
    return into;
  }

  const std::string* given(const std::string& name) const {
    const auto found = nccl_.find(name);
    return found == nccl_.end() || found->second.empty() ? nullptr : &found->second;
  }
  std::string shown_value(const std::string& names) const {
    const auto found = nccl_.find(names);
    return found == nccl_.end() ? "" : "=" + found->second;
  }
  void understood(const std::string& name, const std::string& meaning) {
    s_.nccl_understood.push_back(fmt::format("{}{} is taken as {}", name, shown_value(name), meaning));
  }
  void overruled(const std::string& name, const std::string& by) {
    s_.nccl_understood.push_back(fmt::format("{}{} is overruled by {}", name, shown_value(name), by));
  }
  void ignored(const std::string& name, const std::string& why) {
    s_.nccl_ignored.push_back(fmt::format("{}{} has no effect: {}", name, shown_value(name), why));
  }

  const std::map<std::string, std::string>& nccl_;
  Settings& s_;
};

}  // namespace

std::span<const std::string_view> nccl_names() { return kNames; }

const NameFilter& filter_of(const std::map<std::string, NameFilter, std::less<>>& by_collective,
                            std::string_view name) {
  static const NameFilter kAny;
  auto found = by_collective.find(name);
  if (found == by_collective.end()) found = by_collective.find(kEvery);
  return found == by_collective.end() ? kAny : found->second;
}

bool allows_nic(const NameFilter& nics, std::string_view name) {
  if (!nics.limits()) return true;
  const bool listed = std::ranges::any_of(nics.names, [&](std::string_view one) {
    const bool whole = one.starts_with('=');
    if (whole) one.remove_prefix(1);
    one = one.substr(0, one.find(':'));
    return whole ? name == one : name.starts_with(one);
  });
  return listed != nics.all_but;
}

void apply_nccl_names(const std::map<std::string, std::string>& nccl, Settings& settings) {
  Translation translation(nccl, settings);
  translation.algorithm();
  translation.protocol();
  translation.channels();
  translation.interface();
  translation.sockets();
  translation.network();
  translation.buffers();
  translation.log();
  translation.transports();
  translation.without_meaning();
}

}  // namespace weft::env
