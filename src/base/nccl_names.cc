#include "base/nccl_names.h"

#include <algorithm>
#include <cctype>

#include "base/text.h"

namespace weft::env {
namespace {

constexpr std::string_view kNames[] = {
    "NCCL_ALGO", "NCCL_PROTO", "NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS", "NCCL_SOCKET_IFNAME", "NCCL_DEBUG",
    "NCCL_DEBUG_FILE", "NCCL_DEBUG_SUBSYS", "NCCL_TOPO_FILE", "NCCL_TOPO_DUMP_FILE", "NCCL_BUFFSIZE",
    "NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE",
    // Without a meaning here: see without_meaning.
    "NCCL_NVLS_ENABLE", "NCCL_COLLNET_ENABLE", "NCCL_IB_DISABLE", "NCCL_IB_HCA", "NCCL_NET", "NCCL_NET_GDR_LEVEL",
    "NCCL_P2P_LEVEL", "NCCL_CROSS_NIC", "NCCL_SOCKET_NTHREADS", "NCCL_NSOCKS_PERTHREAD", "NCCL_NTHREADS"};

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

class Translation {
 public:
  Translation(const std::map<std::string, std::string>& nccl, Settings& settings) : nccl_(nccl), s_(settings) {}

  void algorithm() {
    const std::string* const value = given("NCCL_ALGO");
    if (value == nullptr) return;
    if (!s_.algorithm.empty()) return overruled("NCCL_ALGO", "WEFT_ALGO");
    const std::string word = lower(*value);
    if (word == "ring")
      s_.algorithm = "ring";
    else if (word == "tree")
      s_.algorithm = "tree";
    else
      return ignored("NCCL_ALGO",
                     "weft has Ring and Tree by NCCL's names; `weft algorithms` lists the others for WEFT_ALGO");
    understood("NCCL_ALGO", "WEFT_ALGO=" + s_.algorithm);
  }

  void protocol() {
    const std::string* const value = given("NCCL_PROTO");
    if (value == nullptr) return;
    if (!s_.protocol.empty()) return overruled("NCCL_PROTO", "WEFT_PROTO");
    const std::string word = lower(*value);
    for (const char* known : {"Simple", "LL", "LL128"})
      if (word == lower(known)) {
        s_.protocol = known;
        return understood("NCCL_PROTO", "WEFT_PROTO=" + s_.protocol);
      }
    ignored("NCCL_PROTO", "weft forces one protocol at a time: Simple, LL or LL128");
  }

  void channels() {
    const std::string* const low = given("NCCL_MIN_NCHANNELS");
    const std::string* const high = given("NCCL_MAX_NCHANNELS");
    if (low == nullptr && high == nullptr) return;
    const std::string names = low == nullptr    ? "NCCL_MAX_NCHANNELS"
                              : high == nullptr ? "NCCL_MIN_NCHANNELS"
                                                : "NCCL_MIN_NCHANNELS and NCCL_MAX_NCHANNELS";
    if (s_.channels != 0) return overruled(names, "WEFT_CHANNELS");
    const std::string& one = low != nullptr ? *low : *high;
    const auto count = parse_integer(names, one, 1, 64);
    const bool same = low != nullptr && high != nullptr && *low == *high;
    if (!count || (!same && !(high != nullptr && one == "1")))
      return ignored(names,
                     "weft chooses the number of channels, or takes it from WEFT_CHANNELS; a range has no meaning");
    s_.channels = *count;
    understood(names, fmt::format("WEFT_CHANNELS={}", s_.channels));
  }

  // "eth0", "=eth0" and "eth" are served by whichever interface has that name, or begins with it; see choose_interface.
  void interface() {
    const std::string* const value = given("NCCL_SOCKET_IFNAME");
    if (value == nullptr) return;
    if (!s_.interface.empty()) return overruled("NCCL_SOCKET_IFNAME", "WEFT_IFACE");
    const std::string name = value->front() == '=' ? value->substr(1) : *value;
    if (name.empty() || name.find_first_of("^,:") != std::string::npos)
      return ignored("NCCL_SOCKET_IFNAME", "weft listens on one interface, which WEFT_IFACE names; it excludes none");
    s_.interface = value->front() == '=' ? name : name + "*";
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

  void transports() {
    if (const std::string* const value = given("NCCL_SHM_DISABLE"); value != nullptr && *value == "1") {
      if (!s_.transport.empty())
        overruled("NCCL_SHM_DISABLE", "WEFT_TRANSPORT");
      else
        s_.transport = "tcp", understood("NCCL_SHM_DISABLE", "WEFT_TRANSPORT=tcp");
    }
    if (const std::string* const value = given("NCCL_P2P_DISABLE"); value != nullptr && *value == "1") {
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
    if (given("NCCL_BUFFSIZE") != nullptr) ignored("NCCL_BUFFSIZE", "weft's slots have the size that its plans need");
    constexpr std::pair<const char*, const char*> kOthers[] = {
        {"NCCL_NVLS_ENABLE", "weft uses a switch's sums where the machine has them"},
        {"NCCL_COLLNET_ENABLE", "weft uses a network's sums where the machine has them"},
        {"NCCL_IB_DISABLE", "WEFT_TRANSPORT names the transport; tcp leaves RDMA alone"},
        {"NCCL_IB_HCA", "UCX_NET_DEVICES names the NICs of transport ucx"},
        {"NCCL_NET", "WEFT_TRANSPORT names the transport"},
        {"NCCL_NET_GDR_LEVEL", "transport ucx decides about GPU Direct RDMA"},
        {"NCCL_P2P_LEVEL", "WEFT_DEVICE_PATH says whether GPUs reach each other"},
        {"NCCL_CROSS_NIC", "rings follow the rails of the machine"},
        {"NCCL_SOCKET_NTHREADS", "weft has no threads for its sockets"},
        {"NCCL_NSOCKS_PERTHREAD", "a connection of weft is one socket"},
        {"NCCL_NTHREADS", "kernels have the threads that their copies need"}};
    for (const auto& [name, why] : kOthers)
      if (given(name) != nullptr) ignored(name, why);
  }

 private:
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

void apply_nccl_names(const std::map<std::string, std::string>& nccl, Settings& settings) {
  Translation translation(nccl, settings);
  translation.algorithm();
  translation.protocol();
  translation.channels();
  translation.interface();
  translation.log();
  translation.transports();
  translation.without_meaning();
}

}  // namespace weft::env
