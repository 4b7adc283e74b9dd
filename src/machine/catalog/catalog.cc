#include "machine/catalog/catalog.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "machine/json_word.h"

namespace weft::topology {
namespace {

using nlohmann::json;

constexpr std::string_view kFolder = "data/catalog/";
constexpr std::array<std::string_view, 19> kUnits = {"GB/s",    "Gb/s",  "GT/s", "ns",    "us",   "GB",   "GiB",
                                                     "TFLOP/s", "TOP/s", "bit",  "port",  "lane", "link", "engine",
                                                     "GPU",     "SM",    "CU",   "entry", "W"};
// What a rate counts: one direction of a link, both together, or all traffic of a memory.
constexpr std::array<std::string_view, 3> kDirections = {"each", "both", "total"};

bool known_unit(std::string_view unit) { return std::ranges::find(kUnits, unit) != kUnits.end(); }

// One {"value", "unit", "source"} of a part, whose own source counts where the figure names none; `sources` are the
// file's.
Result<Figure> read_figure(std::string_view where, const json& object, const json& sources, const std::string& own) {
  const auto value = object.find("value");
  if (value == object.end() || !value->is_number()) return bad_input("{}: no \"value\"", where);
  Figure figure{value->get<double>(), word(object, "unit"), word(object, "direction"), {}, {}, word(object, "note")};
  if (!known_unit(figure.unit)) return bad_input("{}: unit '{}' is missing or unknown", where, figure.unit);
  const bool rate = figure.unit == "GB/s" || figure.unit == "Gb/s";
  if (rate != (std::ranges::find(kDirections, figure.direction) != kDirections.end()))
    return bad_input("{}: a rate, and nothing else, has the direction each, both or total", where);
  const std::string key = object.contains("source") ? word(object, "source") : own;
  const auto source = sources.find(key);
  if (key.empty() || source == sources.end() || !source->is_object())
    return bad_input("{}: source '{}' is missing or not among the file's sources", where, key);
  figure.source = word(*source, "title");
  figure.date = word(*source, "date");
  if (figure.source.empty()) return bad_input("{}: source '{}' has no title", where, key);
  if (figure.date.size() < 4) return bad_input("{}: source '{}' has no date", where, key);
  return figure;
}

Result<Part> read_part(std::string_view file, const json& object, const json& sources) {
  if (!object.is_object()) return bad_input("{}: a part is not an object", file);
  Part part{word(object, "name"), word(object, "kind"), word(object, "title"), {}, {}};
  if (part.name.empty() || part.kind.empty() || part.title.empty())
    return bad_input("{}: part '{}' lacks a name, kind or title", file, part.name);
  for (const auto& [key, value] : object.items()) {
    const std::string where = fmt::format("{}: {}.{}", file, part.name, key);
    if (value.is_object()) {
      WEFT_TRY(part.figures[key], read_figure(where, value, sources, word(object, "source")));
    } else if (value.is_string()) {
      if (key != "name" && key != "kind" && key != "title" && key != "source")
        part.facts[key] = value.get<std::string>();
    } else {
      return bad_input("{}: a number stands in {{\"value\", \"unit\", \"source\"}}", where);
    }
  }
  return part;
}

Result<LinkKind> link_kind(const Part& part) {
  if (part.kind == "nvlink") return LinkKind::kNvlink;
  if (part.kind == "xgmi") return LinkKind::kXgmi;
  if (part.kind == "chip-link") return LinkKind::kChipLink;
  if (part.kind == "pcie") return LinkKind::kPcie;
  if (part.kind == "inter-socket") return LinkKind::kInterSocket;
  if (part.kind == "memory") return LinkKind::kMemory;
  if (part.kind == "network") return LinkKind::kNetwork;
  return bad_input("catalogue part '{}' is a {}, not a link", part.name, part.kind);
}

}  // namespace

const Figure* Part::figure(std::string_view key) const {
  const auto at = figures.find(std::string(key));
  return at == figures.end() ? nullptr : &at->second;
}

BytesPerSecond rate_of(const Figure& figure) {
  WEFT_REQUIRE(figure.unit == "GB/s" || figure.unit == "Gb/s", "unit {}", figure.unit);
  return figure.unit == "GB/s" ? BytesPerSecond::gigabytes(figure.value) : BytesPerSecond::gigabits(figure.value);
}

Duration duration_of(const Figure& figure) {
  WEFT_REQUIRE(figure.unit == "ns" || figure.unit == "us", "unit {}", figure.unit);
  return figure.unit == "ns" ? Duration::nanoseconds(figure.value) : Duration::microseconds(figure.value);
}

Result<Catalog> Catalog::load(std::span<const embedded::File> files) {
  Catalog catalog;
  for (const embedded::File& file : files) {
    if (!file.path.starts_with(kFolder)) continue;
    const json root = json::parse(file.text, nullptr, false);
    if (!root.is_object()) return bad_input("{}: not a JSON object", file.path);
    if (word(root, "schema") != "weft.catalog/1") return bad_input("{}: schema is not weft.catalog/1", file.path);
    const json sources = root.value("sources", json::object());
    for (const json& object : root.value("parts", json::array())) {
      WEFT_TRY(Part part, read_part(file.path, object, sources));
      if (catalog.find(part.name)) return bad_input("{}: part '{}' is there twice", file.path, part.name);
      catalog.parts_.push_back(std::move(part));
    }
  }
  return catalog;
}

const Result<Catalog>& Catalog::shipped() {
  static const Result<Catalog> catalog = load(embedded::files());
  return catalog;
}

const Part* Catalog::find(std::string_view name) const {
  const auto at = std::ranges::find(parts_, name, &Part::name);
  return at == parts_.end() ? nullptr : &*at;
}

const Part* Catalog::find(std::string_view kind, std::string_view key, std::string_view word) const {
  for (const Part& part : parts_) {
    const auto fact = part.facts.find(std::string(key));
    if (part.kind != kind || fact == part.facts.end()) continue;
    const std::string padded = fmt::format(" {} ", fact->second);
    if (padded.find(fmt::format(" {} ", word)) != std::string::npos) return &part;
  }
  return nullptr;
}

// "; there are pcie4, nvlink4" of a generation without its kind.
std::string Catalog::ending_in(std::string_view generation) const {
  std::string all;
  for (const Part& part : parts_)
    if ((part.kind == "pcie" || part.kind == "nvlink") && part.name.size() > generation.size() &&
        part.name.ends_with(generation))
      all += fmt::format("{}{}", all.empty() ? "; there are " : ", ", part.name);
  return generation.size() == 1 ? all : "";
}

Result<Link> Catalog::link(std::string_view name, std::int32_t count, bool at_host) const {
  const Part* part = find(name);
  if (!part) return bad_input("no catalogue part is called '{}'{}", name, ending_in(name));
  WEFT_TRY(const LinkKind kind, link_kind(*part));
  const auto number = [&](std::string_view key) -> Result<Figure> {
    if (const Figure* f = part->figure(key)) return *f;
    return bad_input("catalogue part '{}' has no {}", part->name, key);
  };
  WEFT_TRY(const Figure latency, number(kind == LinkKind::kPcie && at_host ? "host_latency" : "latency"));
  Link link{
      .kind = kind, .a = 0, .b = 0, .rate_ab = {}, .rate_ba = {}, .latency = duration_of(latency), .count = count};
  if (kind == LinkKind::kPcie) {
    WEFT_TRY(const Figure transfers, number("transfers"));
    WEFT_TRY(const Figure payload, number("payload"));
    WEFT_TRY(const Figure symbol, number("symbol"));
    // One bit per transfer and lane, of which payload/symbol is left by the line code.
    link.rate_ab = BytesPerSecond::gigabits(transfers.value * payload.value / symbol.value) * count;
  } else {
    WEFT_TRY(const Figure rate, number("rate"));
    link.rate_ab = rate_of(rate) * count;
  }
  link.rate_ba = link.rate_ab;
  return link;
}

Result<Link> Catalog::memory_link(std::string_view cpu_id) const {
  const Part* part = find("cpu", "id", cpu_id);
  if (!part) part = find("xeon-skylake");
  if (!part || !part->figure("channels") || !part->facts.contains("memory"))
    return bad_input("the catalogue does not say what memory '{}' has", cpu_id);
  return link(part->facts.at("memory"), static_cast<std::int32_t>(part->figure("channels")->value));
}

Result<Link> Catalog::socket_link(std::string_view cpu_id) const {
  const Part* part = find("cpu", "id", cpu_id);
  if (!part) part = find("xeon-skylake");
  if (!part || !part->figure("links") || !part->facts.contains("socket_link"))
    return bad_input("the catalogue does not say how the sockets of '{}' are joined", cpu_id);
  return link(part->facts.at("socket_link"), static_cast<std::int32_t>(part->figure("links")->value));
}

}  // namespace weft::topology
