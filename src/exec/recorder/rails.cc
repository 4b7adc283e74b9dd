#include "exec/recorder/rails.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/tcp.h>
#include <net/if.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/unique_fd.h"

namespace weft::recorder {
namespace {

// TCP_ESTABLISHED, TCP_CLOSE_WAIT (the peer has closed its end) and TCP_LISTEN, which linux/tcp.h and netinet/tcp.h
// both define otherwise.
constexpr std::uint8_t kEstablished = 1, kCloseWait = 8, kListen = 10;

// The inodes of a process's sockets.
std::set<std::uint64_t> sockets_of(int pid) {
  std::set<std::uint64_t> inodes;
  std::error_code ignored;
  const std::string folder = "/proc/" + std::to_string(pid) + "/fd";
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    const std::string target = std::filesystem::read_symlink(entry.path(), ignored).string();
    constexpr std::string_view kSocket = "socket:[";
    if (target.starts_with(kSocket)) inodes.insert(std::strtoull(target.c_str() + kSocket.size(), nullptr, 10));
  }
  return inodes;
}

// The name of the interface that has an address, of 4 or 16 bytes.
std::string interface_of(int family, const void* address) {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return "?";
  std::string name = "?";
  for (const ifaddrs* i = all; i != nullptr && name == "?"; i = i->ifa_next) {
    if (i->ifa_addr == nullptr || i->ifa_addr->sa_family != family) continue;
    const void* const own = family == AF_INET
                                ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in*>(i->ifa_addr)->sin_addr)
                                : &reinterpret_cast<const sockaddr_in6*>(i->ifa_addr)->sin6_addr;
    if (std::memcmp(own, address, family == AF_INET ? 4 : 16) == 0) name = i->ifa_name;
    // 127.0.0.2 lies on lo as well, which has one address.
    if (family == AF_INET && (i->ifa_flags & IFF_LOOPBACK) != 0 && *static_cast<const std::uint8_t*>(address) == 127)
      name = i->ifa_name;
  }
  freeifaddrs(all);
  return name;
}

struct Question {
  nlmsghdr header{};
  inet_diag_req_v2 request{};
};

// One connection from this address, of 4 or 16 bytes.
void add(int family, const std::uint8_t (&from)[16], const tcp_info& info, std::map<std::string, Rail>& rails) {
  constexpr std::uint8_t kMapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  const bool mapped = family == AF_INET6 && std::memcmp(from, kMapped, sizeof kMapped) == 0;
  const std::string name = interface_of(mapped ? AF_INET : family, mapped ? from + sizeof kMapped : from);
  Rail& rail = rails[name];
  rail.interface = name;
  ++rail.connections;
  rail.out += static_cast<std::int64_t>(info.tcpi_bytes_acked);
  rail.in += static_cast<std::int64_t>(info.tcpi_bytes_received);
}

void add(const nlmsghdr& message, const std::set<std::uint64_t>& inodes, std::map<std::string, Rail>& rails) {
  const auto* const socket = static_cast<const inet_diag_msg*>(NLMSG_DATA(&message));
  if (!inodes.contains(socket->idiag_inode)) return;
  std::uint8_t address[16];
  std::memcpy(address, socket->id.idiag_src, sizeof address);
  tcp_info info{};
  auto left = static_cast<int>(message.nlmsg_len) - static_cast<int>(NLMSG_LENGTH(sizeof *socket));
  for (const auto* a = reinterpret_cast<const rtattr*>(socket + 1); RTA_OK(a, left); a = RTA_NEXT(a, left))
    if (a->rta_type == INET_DIAG_INFO)
      std::memcpy(&info, RTA_DATA(a), std::min(sizeof info, static_cast<std::size_t>(RTA_PAYLOAD(a))));
  add(socket->idiag_family, address, info, rails);
}

// A socket of this process, if it is a connection; one that its peer has reset still knows what it carried.
void add_own(int fd, std::map<std::string, Rail>& rails) {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0 || info.tcpi_state == kListen) return;
  sockaddr_storage name{};
  size = sizeof name;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&name), &size) != 0) return;
  std::uint8_t address[16] = {};
  if (name.ss_family == AF_INET)
    std::memcpy(address, &reinterpret_cast<const sockaddr_in*>(&name)->sin_addr, 4);
  else
    std::memcpy(address, &reinterpret_cast<const sockaddr_in6*>(&name)->sin6_addr, sizeof address);
  add(name.ss_family, address, info, rails);
}

// Asks the kernel for all established connections of a family.
void ask(int family, const std::set<std::uint64_t>& inodes, std::map<std::string, Rail>& rails) {
  const UniqueFd fd(socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  if (fd.get() < 0) return;
  Question question;
  question.header = {.nlmsg_len = sizeof question,
                     .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                     .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP,
                     .nlmsg_seq = 1,
                     .nlmsg_pid = 0};
  question.request.sdiag_family = static_cast<std::uint8_t>(family);
  question.request.sdiag_protocol = IPPROTO_TCP;
  question.request.idiag_ext = 1 << (INET_DIAG_INFO - 1);
  question.request.idiag_states = 1U << kEstablished | 1U << kCloseWait;
  if (send(fd.get(), &question, sizeof question, 0) != static_cast<ssize_t>(sizeof question)) return;
  alignas(nlmsghdr) char buffer[1 << 16];
  for (;;) {
    auto n = recv(fd.get(), buffer, sizeof buffer, 0);
    if (n <= 0) return;
    for (const auto* m = reinterpret_cast<const nlmsghdr*>(buffer); NLMSG_OK(m, n); m = NLMSG_NEXT(m, n)) {
      if (m->nlmsg_type == NLMSG_DONE || m->nlmsg_type == NLMSG_ERROR) return;
      add(*m, inodes, rails);
    }
  }
}

// Bits per second of an interface as its driver says it; 0: it does not.
double speed_of(const std::string& interface) {
  std::ifstream file("/sys/class/net/" + interface + "/speed");
  double megabits = 0;
  return file >> megabits && megabits > 0 ? megabits * 1e6 : 0;
}

bool is_device(const std::string& interface) {
  std::error_code ignored;
  return std::filesystem::exists("/sys/class/net/" + interface + "/device", ignored);
}

// Is the interface a device below a VLAN, a bond or a bridge among these, which carries what they carry?
bool below(const std::string& interface, const std::vector<Rail>& rails) {
  std::error_code ignored;
  return std::ranges::any_of(rails, [&](const Rail& rail) {
    return std::filesystem::exists("/sys/class/net/" + rail.interface + "/lower_" + interface, ignored);
  });
}

}  // namespace

void to_json(nlohmann::json& json, const Rail& rail) {
  json = {{"interface", rail.interface}, {"bits_per_second", rail.speed}, {"out", rail.out}, {"in", rail.in}};
}
void from_json(const nlohmann::json& json, Rail& rail) {
  json.at("interface").get_to(rail.interface);
  json.at("out").get_to(rail.out);
  json.at("in").get_to(rail.in);
  rail.speed = std::max(0.0, json.at("bits_per_second").get<double>());
}

std::vector<Rail> rails_of(int pid) {
  std::map<std::string, Rail> by_name;
  if (pid == getpid()) {
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", ignored))
      add_own(std::atoi(entry.path().filename().c_str()), by_name);
  } else if (const auto inodes = sockets_of(pid); !inodes.empty()) {
    for (const int family : {AF_INET, AF_INET6}) ask(family, inodes, by_name);
  }
  std::vector<Rail> rails;
  for (auto& [name, rail] : by_name) {
    rail.speed = speed_of(name);
    rails.push_back(std::move(rail));
  }
  return rails;
}

std::vector<Rail> with_idle(std::vector<Rail> rails) {
  const auto within = [](const Rail& rail) { return rail.interface == "lo"; };
  if (std::ranges::all_of(rails, within)) return rails;  // nothing left this machine
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return rails;
  for (const ifaddrs* i = all; i != nullptr; i = i->ifa_next) {
    if (i->ifa_addr == nullptr || (i->ifa_addr->sa_family != AF_INET && i->ifa_addr->sa_family != AF_INET6)) continue;
    constexpr unsigned kUp = IFF_UP | IFF_RUNNING;
    const std::string name = i->ifa_name;
    if ((i->ifa_flags & kUp) != kUp || (i->ifa_flags & IFF_LOOPBACK) != 0 || !is_device(name)) continue;
    if (std::ranges::find(rails, name, &Rail::interface) == rails.end() && !below(name, rails))
      rails.push_back({.interface = name, .speed = speed_of(name)});
  }
  freeifaddrs(all);
  return rails;
}

RailUse use_of(const std::vector<Rail>& rails) {
  RailUse use;
  double all_speed = 0;
  for (const Rail& rail : rails) {
    use.known = use.known && rail.speed > 0;
    use.bytes += rail.most();
    all_speed += rail.speed;
    if (rail.speed > 0) use.took = std::max(use.took, 8 * static_cast<double>(rail.most()) / rail.speed);
  }
  use.known = use.known && !rails.empty();
  if (use.known) use.least = 8 * static_cast<double>(use.bytes) / all_speed;
  return use;
}

}  // namespace weft::recorder
