#include "machine/cluster/wiring.h"

#include <charconv>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "machine/json_word.h"

namespace weft::topology {
namespace {

using nlohmann::json;

constexpr std::int64_t kMostLinks = 100'000;  // of one pair

// "0-3", "5" or a comma-separated list of those.
Result<std::vector<std::int32_t>> parse_numbers(std::string_view text) {
  constexpr std::int64_t kMost = 1'000'000;
  std::vector<std::int32_t> numbers;
  while (!text.empty()) {
    const std::string_view item = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), item.size() + 1));
    const std::size_t dash = item.find('-');
    WEFT_TRY(const std::int64_t first, parse_integer("device", item.substr(0, dash), 0, kMost));
    std::int64_t last = first;
    if (dash != std::string_view::npos) {
      WEFT_TRY(last, parse_integer("device", item.substr(dash + 1), first, kMost));
    }
    for (std::int64_t n = first; n <= last; ++n) numbers.push_back(static_cast<std::int32_t>(n));
  }
  return numbers;
}

class Wiring {
 public:
  Wiring(std::string_view file, const Catalog& catalog, const json& entry, Topology& node)
      : file_(file), catalog_(catalog), entry_(entry), node_(node) {}

  Status run(std::span<const std::int32_t> shape) {
    if (entry_.contains("mesh")) return mesh();
    if (entry_.contains("pairs")) return pairs();
    if (entry_.contains("torus")) return lattice(word(entry_, "torus"), shape, true);
    if (entry_.contains("grid")) return lattice(word(entry_, "grid"), shape, false);
    if (entry_.contains("edges")) return edges();
    return blocks();
  }

 private:
  Result<std::int32_t> count() const {
    const auto at = entry_.find("count");
    if (at == entry_.end() || !at->is_number_integer() || at->get<std::int64_t>() < 1 ||
        at->get<std::int64_t>() > kMostLinks)
      return bad_input("{}: {} has no count of 1 or more", file_, entry_.dump());
    return at->get<std::int32_t>();
  }

  Result<std::vector<DeviceId>> select(std::string_view text) const {
    const std::size_t digits = text.find_first_of("0123456789*");
    const std::string_view kind = text.substr(0, digits);
    const bool all = digits != std::string_view::npos && text[digits] == '*';
    std::vector<std::int32_t> wanted;
    if (!all && digits != std::string_view::npos) {
      WEFT_TRY(wanted, parse_numbers(text.substr(digits)));
    }
    std::vector<DeviceId> found;
    for (DeviceId id = 0; id < static_cast<DeviceId>(node_.devices().size()); ++id) {
      const Device& d = node_.device(id);
      if (name(d.kind) == kind && (all || std::ranges::find(wanted, d.index) != wanted.end())) found.push_back(id);
    }
    if (found.empty() || (!all && found.size() != wanted.size()))
      return bad_input("{}: '{}' selects {}", file_, text, found.empty() ? "no device" : "devices that are not there");
    return found;
  }

  Status connect(DeviceId a, DeviceId b, std::int32_t count) {
    if (a == b) return bad_input("{}: {} links a device to itself", file_, entry_.dump());
    const bool at_host = node_.device(a).kind == DeviceKind::kCpu || node_.device(b).kind == DeviceKind::kCpu;
    WEFT_TRY(Link link, catalog_.link(word(entry_, "part"), count, at_host));
    link.a = a;
    link.b = b;
    node_.connect(link);
    return {};
  }

  Status blocks() {
    WEFT_TRY(const std::int32_t n, count());
    WEFT_TRY(const auto from, select(word(entry_, "from")));
    WEFT_TRY(const auto to, select(word(entry_, "to")));
    for (std::size_t i = 0; i < from.size(); ++i) WEFT_CHECK(connect(from[i], to[i * to.size() / from.size()], n));
    return {};
  }

  Status mesh() {
    WEFT_TRY(const std::int32_t n, count());
    WEFT_TRY(const auto all, select(word(entry_, "mesh")));
    for (std::size_t i = 0; i < all.size(); ++i)
      for (std::size_t j = i + 1; j < all.size(); ++j) WEFT_CHECK(connect(all[i], all[j], n));
    return {};
  }

  Status pairs() {
    WEFT_TRY(const std::int32_t n, count());
    WEFT_TRY(const auto all, select(word(entry_, "pairs")));
    for (std::size_t i = 0; i + 1 < all.size(); i += 2) WEFT_CHECK(connect(all[i], all[i + 1], n));
    return {};
  }

  Status edges() {
    WEFT_TRY(const auto all, select(word(entry_, "of")));
    for (const json& edge : entry_.at("edges")) {
      const bool numbers = edge.is_array() && (edge.size() == 2 || edge.size() == 3) &&
                           std::ranges::all_of(edge, [](const json& v) { return v.is_number_unsigned(); });
      if (!numbers || edge[0] >= all.size() || edge[1] >= all.size())
        return bad_input("{}: edge {} is not two positions in '{}' and a count", file_, edge.dump(),
                         word(entry_, "of"));
      std::int32_t n = 1;
      if (edge.size() == 3) {
        n = edge[2].get<std::int32_t>();
      } else if (entry_.contains("count")) {
        WEFT_TRY(n, count());
      }
      WEFT_CHECK(connect(all[edge[0].get<std::size_t>()], all[edge[1].get<std::size_t>()], n));
    }
    return {};
  }

  Status lattice(std::string_view selection, std::span<const std::int32_t> shape, bool closed) {
    WEFT_TRY(const std::int32_t n, count());
    WEFT_TRY(const auto all, select(selection));
    std::size_t product = 1;
    for (const std::int32_t length : shape) product *= static_cast<std::size_t>(length);
    if (shape.empty() || product != all.size())
      return bad_input("{}: '{}' selects {} devices, the shape has {}", file_, selection, all.size(), product);
    for (std::size_t i = 0; i < all.size(); ++i) {
      std::string at;
      std::size_t stride = product;
      for (const std::int32_t length : shape) {
        const auto size = static_cast<std::size_t>(length);
        stride /= size;
        const std::size_t here = i / stride % size;
        at += fmt::format("{}{}", at.empty() ? "" : ",", here);
        if (here + 1 < size) WEFT_CHECK(connect(all[i], all[i + stride], n));
        // Once around: the last of a row to its first. With two the neighbour is there already.
        if (closed && size > 2 && here + 1 == size) WEFT_CHECK(connect(all[i], all[i - here * stride], n));
      }
      node_.set_fact(all[i], "at", at);
    }
    return {};
  }

  std::string_view file_;
  const Catalog& catalog_;
  const json& entry_;
  Topology& node_;
};

}  // namespace

Status add_links(std::string_view file, const Catalog& catalog, const json& entry, std::span<const std::int32_t> shape,
                 Topology& node) {
  return Wiring(file, catalog, entry, node).run(shape);
}

}  // namespace weft::topology
