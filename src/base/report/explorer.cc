#include "base/report/explorer.h"

#include <optional>

namespace weft::report {
namespace {

nlohmann::json runs(const std::vector<Explorer::Ranks>& ranks) {
  nlohmann::json all = nlohmann::json::array();
  for (const auto& r : ranks) all.push_back({r.first, r.count});
  return all;
}

nlohmann::json origins_of(const Explorer::Link& link) {
  nlohmann::json all = nlohmann::json::array();
  for (const auto& o : link.origins) all.push_back({{"of", o.of}, {"title", o.title}, {"date", o.date}});
  return all;
}

nlohmann::json phrase_of(const Explorer& e) {
  nlohmann::json all = nlohmann::json::array();
  for (const auto& p : e.phrase)
    all.push_back(p.word.empty() ? nlohmann::json{{"text", p.text}} : nlohmann::json{{"word", p.word}});
  return all;
}

nlohmann::json map_of(const Explorer& e) {
  if (!e.map) return nullptr;
  nlohmann::json levels = nlohmann::json::array();
  for (const auto& l : e.map->levels) levels.push_back({{"word", l.word}, {"count", l.count}, {"sizes", l.sizes}});
  return {{"levels", levels}, {"odd", e.map->odd}, {"node_svg", e.map->node_svg}, {"said", e.map->said}};
}

nlohmann::json steps_of(const Explorer& e) {
  nlohmann::json all = nlohmann::json::array();
  for (const auto& s : e.steps)
    all.push_back({{"name", s.name}, {"detail", s.detail}, {"GBps", s.GBps}, {"of_GiB", s.of_GiB}});
  return all;
}

nlohmann::json points_of(const std::vector<std::pair<Bytes, double>>& rates) {
  nlohmann::json points = nlohmann::json::array();
  for (const auto& [bytes, rate] : rates) points.push_back({bytes, rate});
  return points;
}

nlohmann::json devices_to_json(const Explorer& e) {
  using nlohmann::json;
  json devices = json::array();
  for (const auto& d : e.devices)
    devices.push_back({{"name", d.name}, {"kind", d.kind}, {"model", d.model}, {"said", d.said}});
  return devices;
}

nlohmann::json links_to_json(const Explorer& e) {
  using nlohmann::json;
  json links = json::array();
  for (const auto& l : e.links) {
    links.push_back({{"a", l.a},
                     {"b", l.b},
                     {"kind", l.kind},
                     {"count", l.count},
                     {"ab_GBps", l.ab_GBps},
                     {"ba_GBps", l.ba_GBps},
                     {"latency_ns", l.latency_ns},
                     {"said", l.said},
                     {"origins", origins_of(l)}});
    if (l.healthy)
      links.back()["healthy"] = {
          {"ab_GBps", l.healthy->ab_GBps}, {"ba_GBps", l.healthy->ba_GBps}, {"latency_ns", l.healthy->latency_ns}};
  }
  return links;
}

nlohmann::json paths_to_json(const Explorer& e) {
  using nlohmann::json;
  json paths = json::array();
  for (const auto& p : e.paths) {
    paths.push_back({{"from", p.from},
                     {"to", p.to},
                     {"type", p.type},
                     {"GBps", p.GBps},
                     {"latency_ns", p.latency_ns},
                     {"hops", p.hops},
                     {"bottleneck", p.bottleneck},
                     {"said", p.said}});
    if (p.healthy_GBps) paths.back()["healthy_GBps"] = *p.healthy_GBps;
    if (!p.via.empty()) paths.back()["via"] = p.via;
  }
  return paths;
}

nlohmann::json moves_to_json(const Explorer& e) {
  using nlohmann::json;
  json moves = json::array();
  for (const auto& m : e.moves) {
    moves.push_back({{"rank", m.rank},
                     {"lane", m.lane},
                     {"step", m.step},
                     {"text", m.text},
                     {"said", m.said},
                     {"chunk", m.chunk},
                     {"to", m.to},
                     {"keeps", m.keeps},
                     {"begin_us", m.begin_us},
                     {"end_us", m.end_us}});
    if (e.follows)
      moves.back()["held"] = runs(m.held);
    else
      moves.back()["holds"] = m.holds;
  }
  return moves;
}

template <class Value>
nlohmann::json or_null(const std::optional<Value>& value) {
  return value ? nlohmann::json(*value) : nlohmann::json(nullptr);
}

nlohmann::json machine_to_json(const Explorer& e) {
  return {{"name", e.machine},         {"svg", e.machine_svg},      {"said", e.machine_said},
          {"map", map_of(e)},          {"steps", steps_of(e)},      {"devices", devices_to_json(e)},
          {"links", links_to_json(e)}, {"paths", paths_to_json(e)}, {"left_out", e.left_out}};
}

nlohmann::json schedule_to_json(const Explorer& e) {
  using nlohmann::json;
  const json wrong = e.wrong ? json{{"rank", e.wrong->rank},          {"lane", e.wrong->lane},
                                    {"step", or_null(e.wrong->step)}, {"chunk", or_null(e.wrong->chunk)},
                                    {"peer", or_null(e.wrong->peer)}, {"text", e.wrong->text}}
                             : json(nullptr);
  return {{"collective", e.collective},
          {"algorithm", e.algorithm},
          {"protocol", e.protocol},
          {"when", e.when},
          {"source", e.source},
          {"verdict", e.verdict},
          {"played", e.played},
          {"proved", e.proved},
          {"wrong", wrong},
          {"follows", or_null(e.follows)},
          {"inputs", e.inputs},
          {"starts", runs(e.starts)},
          {"ends", runs(e.ends)},
          {"begins_said", e.begins_said},
          {"ended_said", e.ended_said},
          {"ranks", e.ranks},
          {"chunks", e.chunks},
          {"bytes", e.bytes},
          {"timed", e.timed},
          {"total_us", e.total_us},
          {"places", e.places},
          {"moves", moves_to_json(e)}};
}

}  // namespace

nlohmann::json curves_to_json(const Explorer& e) {
  using nlohmann::json;
  if (!e.has_curves) return nullptr;
  json measured = json::array(), candidates = json::array();
  for (const auto& m : e.measured)
    measured.push_back({{"name", m.name}, {"about", m.about}, {"busbw_GBps", points_of(m.busbw_GBps)}});
  for (const auto& c : e.curves)
    candidates.push_back({{"algorithm", c.algorithm},
                          {"protocol", c.protocol},
                          {"channels", c.channels},
                          {"chosen", c.chosen},
                          {"reason", c.reason},
                          {"busbw_GBps", points_of(c.busbw_GBps)}});
  return {{"candidates", candidates}, {"limit_GBps", e.limit_GBps}, {"limit", e.limit}, {"measured", measured}};
}

nlohmann::json to_json(const Explorer& e) {
  return {{"schema", "weft.explorer/1"},
          {"words",
           {{"collective", e.words.collective},
            {"on", e.words.on},
            {"bytes", e.words.bytes},
            {"dtype", e.words.type},
            {"algo", e.words.algorithm},
            {"proto", e.words.protocol},
            {"ranks", e.words.ranks},
            {"root", e.words.root},
            {"chunk", e.words.chunk},
            {"faults", e.words.faults}}},
          {"question", e.question},
          {"phrase", phrase_of(e)},
          {"answer", e.answer},
          {"command", e.command},
          {"time_us", e.time_us},
          {"busbw_GBps", e.busbw_GBps},
          {"least_us", e.least_us},
          {"low_us", e.low_us},
          {"high_us", e.high_us},
          {"healthy_us", or_null(e.healthy_us)},
          {"slowdown", or_null(e.slowdown)},
          {"machine", machine_to_json(e)},
          {"schedule", schedule_to_json(e)},
          {"curves", curves_to_json(e)}};
}

}  // namespace weft::report
