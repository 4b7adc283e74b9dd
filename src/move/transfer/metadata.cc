#include "move/transfer/metadata.h"

#include <cstring>

namespace weft::transfer {
namespace {

constexpr std::string_view kMagic = "weftxfr";
constexpr char kVersion = 3;
constexpr std::size_t kMostName = 64, kMac = sizeof(net::link::Digest);

net::link::Digest mac_of(std::string_view bytes, const net::link::Key& key) {
  return net::link::mac(key, {{reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()}});
}

template <class T>
void put(std::string& to, const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  to.append(reinterpret_cast<const char*>(&value), sizeof value);
}

class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}
  template <class T>
  void get(T& value) {
    const std::string_view text = take(sizeof value);
    if (whole_) std::memcpy(&value, text.data(), sizeof value);
  }
  std::string_view take(std::size_t n) {
    whole_ = whole_ && n <= bytes_.size();
    if (!whole_) return {};
    const std::string_view text = bytes_.substr(0, n);
    bytes_.remove_prefix(n);
    return text;
  }
  bool whole() const { return whole_; }
  bool at_end() const { return whole_ && bytes_.empty(); }

 private:
  std::string_view bytes_;
  bool whole_ = true;
};

void put_region(std::string& to, const RegionRecord& r) {
  put(to, r.region);
  put(to, r.address);
  put(to, r.bytes);
  put(to, r.page_bytes);
  put(to, r.fd);
  put(to, r.first_page);
  put(to, r.generation);
  put(to, static_cast<std::uint8_t>(!r.gpu ? 0 : r.gpu->shared ? 2 : 1));
  if (r.gpu) put(to, r.gpu->gpu);
  if (!r.gpu || !r.gpu->shared) return;
  put(to, r.gpu->handle);
  put(to, r.gpu->offset);
}
// False: it makes no sense.
bool get_region(Reader& from, RegionRecord& r) {
  from.get(r.region);
  from.get(r.address);
  from.get(r.bytes);
  from.get(r.page_bytes);
  from.get(r.fd);
  from.get(r.first_page);
  from.get(r.generation);
  std::uint8_t kind = 0;
  from.get(kind);
  if (kind == 0 || kind > 2) return kind == 0;
  from.get(r.gpu.emplace().gpu);
  if (kind == 1) return true;
  r.gpu->shared = true;
  from.get(r.gpu->handle);
  from.get(r.gpu->offset);
  return r.gpu->offset >= 0;
}

bool sensible(const RegionRecord& r, std::uint64_t pages) {
  if (r.bytes <= 0 || r.page_bytes < 0 || r.page_bytes > r.bytes) return false;
  const auto count = r.page_bytes == 0 ? 1 : static_cast<std::uint64_t>(r.bytes / r.page_bytes);
  return r.first_page <= pages && count <= pages - r.first_page &&
         r.address <= ~0ULL - static_cast<std::uint64_t>(r.bytes);
}

}  // namespace

std::string encode(const Metadata& m, const net::link::Key& key) {
  std::string bytes(kMagic);
  put(bytes, kVersion);
  put(bytes, m.nonce);
  put(bytes, m.process);
  put(bytes, m.control);
  put(bytes, m.pages);
  put(bytes, m.header);
  put(bytes, m.address);
  put(bytes, m.layout);
  put(bytes, static_cast<std::uint32_t>(m.name.size()));
  bytes += m.name;
  put(bytes, static_cast<std::uint8_t>(m.ucx));
  put(bytes, static_cast<std::uint8_t>(m.partial));
  put(bytes, static_cast<std::uint32_t>(m.regions.size()));
  for (const RegionRecord& r : m.regions) put_region(bytes, r);
  put(bytes, mac_of(bytes, key));
  return bytes;
}

Result<Metadata> decode(std::string_view bytes, const net::link::Key& key) {
  if (bytes.size() < kMagic.size() + 1 + kMac || bytes.substr(0, kMagic.size()) != kMagic)
    return bad_input("these {} bytes are no metadata of a transfer agent", bytes.size());
  if (bytes[kMagic.size()] != kVersion)
    return bad_input("the metadata has version {}, this agent reads version {}", int{bytes[kMagic.size()]},
                     int{kVersion});
  const std::string_view signed_part = bytes.substr(0, bytes.size() - kMac);
  net::link::Digest mac;
  std::memcpy(mac.data(), bytes.data() + signed_part.size(), kMac);
  if (!net::link::equal(mac, mac_of(signed_part, key)))
    return bad_input("the metadata is damaged, or its agent has another key");
  return decode_contents(signed_part.substr(kMagic.size() + 1));
}

Result<Metadata> decode_contents(std::string_view bytes) {
  Reader reader(bytes);
  Metadata m;
  reader.get(m.nonce);
  reader.get(m.process);
  reader.get(m.control);
  reader.get(m.pages);
  reader.get(m.header);
  reader.get(m.address);
  reader.get(m.layout);
  std::uint32_t count = 0;
  reader.get(count);
  m.name = reader.take(std::min<std::size_t>(count, kMostName + 1));
  bool good = reader.whole() && !m.name.empty() && m.name.size() <= kMostName;
  std::uint8_t ucx = 0, partial = 0;
  reader.get(ucx);
  reader.get(partial);
  m.ucx = ucx != 0;
  m.partial = partial != 0;
  good = good && ucx <= 1 && partial <= 1;
  reader.get(count);
  for (std::uint32_t i = 0; good && i < count; ++i) {
    good = get_region(reader, m.regions.emplace_back()) && reader.whole() && sensible(m.regions.back(), m.pages);
  }
  if (!good || !reader.at_end()) return bad_input("the metadata makes no sense");
  return m;
}

}  // namespace weft::transfer
