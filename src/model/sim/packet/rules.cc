#include "model/sim/packet/rules.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/embedded.h"

namespace weft::embedded {
std::span<const File> packet_files();
}

namespace weft::sim {
namespace {

using nlohmann::json;
using topology::DeviceKind;
using topology::LinkKind;

// Throws std::runtime_error with the reason, as the next two; caught in parse.
void check_source(const json& entry) {
  if (!entry.contains("source") || !entry.contains("date"))
    throw std::runtime_error(fmt::format("entry without source and date: {}", entry.dump()));
}

double positive(const json& entry, const char* field) {
  const double value = entry.at(field).get<double>();
  if (!(value > 0)) throw std::runtime_error(fmt::format("{} is not positive: {}", field, entry.dump()));
  return value;
}

LinkRules link_rules(const json& entry) {
  check_source(entry);
  LinkRules rules{.link = entry.at("link"),
                  .networks = entry.value("networks", ""),
                  .payload = static_cast<Bytes>(positive(entry, "payload_B")),
                  .overhead = entry.at("overhead_B").get<Bytes>(),
                  .cut_through = !entry.value("store", false),
                  .side_by_side = entry.value("side_by_side", false)};
  const std::string control = entry.at("control");
  if (rules.overhead < 0) throw std::runtime_error("overhead_B below zero: " + entry.dump());
  if (control == "credits") {
    rules.round_trips = positive(entry, "round_trips");
  } else if (control == "pause") {
    rules.control = LinkRules::Control::kPause;
    rules.buffer = Duration::microseconds(positive(entry, "buffer_us"));
  } else {
    throw std::runtime_error("control is neither credits nor pause: " + entry.dump());
  }
  return rules;
}

CongestionRules congestion_rules(const json& entry) {
  check_source(entry);
  return {.name = entry.at("name"),
          .mark_from = Duration::microseconds(positive(entry, "mark_from_us")),
          .mark_full = Duration::microseconds(positive(entry, "mark_most_us")),
          .mark_most = positive(entry, "mark_most"),
          .notice_interval = Duration::microseconds(positive(entry, "notice_interval_us")),
          .gain = positive(entry, "gain"),
          .timer = Duration::microseconds(positive(entry, "timer_us")),
          .alpha_timer = Duration::microseconds(positive(entry, "alpha_timer_us")),
          .byte_counter = static_cast<Bytes>(positive(entry, "byte_counter_B")),
          .fast_steps = entry.at("fast_steps").get<int>(),
          .increase = positive(entry, "increase"),
          .clamps = entry.value("clamp_target", true)};
}

}  // namespace

PacketRules PacketRules::shipped() {
  const auto files = embedded::packet_files();
  WEFT_ASSERT(files.size() == 1);
  auto rules = parse(files[0].path, files[0].text);
  WEFT_ASSERT(rules.has_value(), "{}", rules.error().message);
  return *rules;
}

Result<PacketRules> PacketRules::parse(std::string_view file, std::string_view text) {
  PacketRules rules;
  try {
    const json root = json::parse(text);
    if (root.value("schema", "") != "weft.packets/1") return bad_input("{}: schema is not weft.packets/1", file);
    for (const json& entry : root.at("links")) rules.links.push_back(link_rules(entry));
    for (const json& entry : root.at("congestion")) rules.congestion.push_back(congestion_rules(entry));
    if (rules.congestion.empty()) throw std::runtime_error("congestion is empty");
    check_source(root.at("shared_buffer"));
    rules.alpha = positive(root.at("shared_buffer"), "alpha");
    check_source(root.at("timeout"));
    rules.timeout = Duration::microseconds(positive(root.at("timeout"), "after_us"));
    check_source(root.at("resume"));
    rules.resume_part = positive(root.at("resume"), "part");
    check_source(root.at("resend"));
    rules.resend = Duration::microseconds(positive(root.at("resend"), "after_us"));
  } catch (const std::exception& problem) {
    return bad_input("{}: {}", file, problem.what());
  }
  for (int kind = 0; kind <= static_cast<int>(LinkKind::kNetwork); ++kind) {
    const std::string_view link = topology::name(static_cast<LinkKind>(kind));
    if (std::ranges::none_of(rules.links, [&](const auto& r) { return r.link == link && r.networks.empty(); }))
      return bad_input("{}: nothing about links of kind {}", file, link);
  }
  return rules;
}

const CongestionRules& PacketRules::congestion_of(std::string_view name) const {
  const auto found = std::ranges::find(congestion, name, &CongestionRules::name);
  WEFT_REQUIRE(found != congestion.end(), "no parameters of congestion control are named {}", name);
  return *found;
}

const LinkRules& PacketRules::of(const topology::Topology& topology, const topology::Link& link) const {
  std::string_view network;
  for (const topology::DeviceId end : {link.a, link.b})
    if (topology.device(end).kind == DeviceKind::kNetworkSwitch) network = topology.device(end).model;
  const LinkRules* found = nullptr;
  for (const LinkRules& r : links)
    if (r.link == topology::name(link.kind) && network.starts_with(r.networks) &&
        (found == nullptr || r.networks.size() > found->networks.size()))
      found = &r;
  return *found;
}

}  // namespace weft::sim
