#include "net/link/interfaces.h"

#include <fnmatch.h>
#include <ifaddrs.h>
#include <net/if.h>

#include <algorithm>
#include <memory>

#include "base/text.h"

namespace weft::net::link {
namespace {

bool in_subnet(const Address& address, const Address& subnet, int bits) {
  if (address.family != subnet.family) return false;
  for (int i = 0; i < bits; ++i) {
    const int mask = 0x80 >> i % 8;
    if ((address.ip[i / 8] & mask) != (subnet.ip[i / 8] & mask)) return false;
  }
  return true;
}

bool link_local(const Address& a) { return a.family == 6 && a.ip[0] == 0xfe && (a.ip[1] & 0xc0) == 0x80; }

// One entry of WEFT_IFACE.
struct Entry {
  std::string text;  // without ^
  bool excludes = false;
  Address subnet = {};  // if bits >= 0
  int bits = -1;

  bool fits(const Interface& i) const {
    if (bits >= 0) return in_subnet(i.address, subnet, bits);
    return !link_local(i.address) && fnmatch(text.c_str(), i.name.c_str(), 0) == 0;
  }
};

std::string none_fits(const Entry& e) {
  return e.bits >= 0 ? fmt::format("no interface that is up has an address in '{}'", e.text)
                     : fmt::format("no interface '{}' is up", e.text);
}

Result<Entry> parse_entry(const std::string& wanted, std::string text, bool excludes) {
  if (text.starts_with('^')) {
    excludes = true;
    text.erase(0, 1);
  }
  if (text.empty()) return bad_input("WEFT_IFACE: '{}' has an entry without a name", wanted);
  Entry entry{.text = text, .excludes = excludes};
  if (const auto slash = text.find('/'); slash != std::string::npos) {
    if (!parse_ip(text.substr(0, slash), entry.subnet)) return bad_input("WEFT_IFACE: '{}' is no subnet", text);
    WEFT_TRY(const auto n, parse_integer("WEFT_IFACE: prefix length of '" + text + "'", text.substr(slash + 1), 0,
                                         entry.subnet.family == 4 ? 32 : 128));
    entry.bits = static_cast<int>(n);
  } else if (parse_ip(text, entry.subnet)) {
    entry.bits = entry.subnet.family == 4 ? 32 : 128;
  }
  return entry;
}

Result<std::vector<Entry>> parse_entries(const std::string& wanted) {
  std::vector<Entry> entries;
  const bool all_exclude = wanted.starts_with('^');
  for (std::size_t at = 0; at <= wanted.size();) {
    const std::size_t comma = std::min(wanted.find(',', at), wanted.size());
    WEFT_TRY(entries.emplace_back(), parse_entry(wanted, wanted.substr(at, comma - at), all_exclude));
    at = comma + 1;
  }
  return entries;
}

std::string known(const std::vector<Interface>& all) {
  std::string text;
  for (const Interface& i : all) text += fmt::format("{}{}", text.empty() ? "" : ", ", i.text());
  return text.empty() ? "none" : text;
}

// Each interface once, in the order in which they came, with IPv4 first.
void add(std::vector<Interface>& chosen, const Interface& more) {
  const auto same = std::find_if(chosen.begin(), chosen.end(), [&](const Interface& i) { return i.name == more.name; });
  if (same == chosen.end())
    chosen.push_back(more);
  else if (same->address.family == 6 && more.address.family == 4)
    *same = more;
}

}  // namespace

std::string Interface::text() const { return fmt::format("{} {}", name, address.ip_text()); }

std::vector<Interface> interfaces() {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(all, freeifaddrs);
  std::vector<Interface> found;
  for (const ifaddrs* i = all; i != nullptr; i = i->ifa_next) {
    if (i->ifa_addr == nullptr || (i->ifa_flags & IFF_UP) == 0) continue;
    const int family = i->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    sockaddr_storage storage{};
    std::memcpy(&storage, i->ifa_addr, family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
    found.push_back({i->ifa_name, address_of(storage)});
  }
  return found;
}

std::string interface_with(const Address& address) {
  for (const Interface& i : interfaces())
    if (i.address.same_host(address)) return i.name;
  return "";
}

Result<std::vector<Interface>> choose_interfaces(const std::string& wanted) {
  WEFT_TRY(const auto entries, parse_entries(wanted));
  const auto all = interfaces();
  const auto is_excluded = [&](const Interface& i) {
    return std::any_of(entries.begin(), entries.end(), [&](const Entry& e) { return e.excludes && e.fits(i); });
  };
  std::vector<Interface> chosen;
  bool includes = false;
  for (const Entry& e : entries) {
    if (e.excludes) continue;
    includes = true;
    for (const Interface& i : all)
      if (e.fits(i) && !is_excluded(i)) add(chosen, i);
  }
  if (!includes)
    for (const Interface& i : all)
      if (!i.address.loopback() && !link_local(i.address) && !is_excluded(i)) add(chosen, i);
  if (chosen.empty() && entries.size() == 1 && includes)
    return bad_input("WEFT_IFACE: {}; there are {}", none_fits(entries.front()), known(all));
  if (chosen.empty()) return bad_input("WEFT_IFACE: '{}' leaves no interface; there are {}", wanted, known(all));
  if (chosen.size() > kMostRails)
    return bad_input("WEFT_IFACE: '{}' means {} interfaces, at most {} carry a job: {}", wanted, chosen.size(),
                     kMostRails, known(chosen));
  return chosen;
}

std::vector<std::string> missing_interfaces(const std::string& wanted) {
  std::vector<std::string> lines;
  const auto entries = wanted.empty() ? Result<std::vector<Entry>>() : parse_entries(wanted);
  const auto all = interfaces();
  for (const Entry& e : entries ? *entries : std::vector<Entry>())
    if (!e.excludes && std::none_of(all.begin(), all.end(), [&](const Interface& i) { return e.fits(i); }))
      lines.push_back(fmt::format("WEFT_IFACE: {} here; there are {}", none_fits(e), known(all)));
  return lines;
}

Result<Address> choose_interface(const std::string& wanted) {
  WEFT_TRY(const auto all, choose_interfaces(wanted));
  return all.front().address;
}

Result<UniqueFd> listen_on_rails(const std::vector<Address>& rails, Ports ports) {
  if (rails.size() == 1) return listen_on(rails.front(), ports);
  const bool any_v6 = std::any_of(rails.begin(), rails.end(), [](const Address& a) { return a.family == 6; });
  const Address any{.family = static_cast<std::uint8_t>(any_v6 ? 6 : 4), .port = rails.front().port};
  return listen_on(any, ports);
}

std::string Route::text() const {
  return from.family == 0 ? "" : fmt::format(" over {} to {}", from.ip_text(), to.ip_text());
}

Route route_of(const std::vector<Address>& own, const std::vector<Address>& peers, int lane) {
  constexpr int kSameNetwork4 = 24, kSameNetwork6 = 64;  // longer beginnings say no more
  const Address& to = peers[static_cast<std::size_t>(lane) % peers.size()];
  const auto nearness = [&](const Address& from) {
    const int most = to.family == 4 ? kSameNetwork4 : kSameNetwork6;
    int bits = 0;
    while (bits < most && in_subnet(from, to, bits + 1)) ++bits;
    return from.family == to.family ? bits : -1;
  };
  Route route{.to = to};
  int best = -1;
  for (std::size_t i = 0; i < own.size(); ++i) {
    const Address& from = own[(static_cast<std::size_t>(lane) + i) % own.size()];
    if (const int near = nearness(from); near > best) {
      best = near;
      route.from = from;
    }
  }
  route.from.port = 0;
  return route;
}

std::string text_of_route(int fd) {
  const Address here = local_address(fd);
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&storage), &length) != 0) return "";
  return fmt::format(" over {}, {} to {}", interface_with(here), here.ip_text(), address_of(storage).ip_text());
}

std::vector<std::string> describe_interfaces(const std::string& wanted, const std::vector<Address>& used) {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(all, freeifaddrs);
  std::vector<std::string> lines;
  for (const ifaddrs* i = all; i != nullptr; i = i->ifa_next) {
    if (i->ifa_addr == nullptr) continue;
    const int family = i->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    sockaddr_storage storage{};
    std::memcpy(&storage, i->ifa_addr, family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
    const Address a = address_of(storage);
    const bool same = std::any_of(used.begin(), used.end(), [&](const Address& u) { return a.same_host(u); });
    const std::string why =
        same ? (wanted.empty() ? "used: the meeting place is reached by it" : "used: WEFT_IFACE names it")
        : (i->ifa_flags & IFF_UP) == 0 ? "not used: it is down"
        : !wanted.empty()              ? fmt::format("not used: WEFT_IFACE is {}", wanted)
        : a.loopback()                 ? "not used: loopback reaches this host only"
                                       : "not used: the meeting place is not reached by it";
    lines.push_back(fmt::format("interface {} {}: {}", i->ifa_name, a.ip_text(), why));
  }
  return lines;
}

}  // namespace weft::net::link
