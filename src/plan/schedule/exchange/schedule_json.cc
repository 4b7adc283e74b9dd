#include "plan/schedule/exchange/schedule_json.h"
#include "base/json_text.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace weft::schedule {
namespace {

using nlohmann::json;

constexpr std::string_view kSchema = "weft.schedule/1";
constexpr const char* kBuffers[] = {"in", "out", "scratch"};
constexpr int kDeepest = 8;  // the form has six levels
constexpr std::int64_t kAnything = INT32_MAX;

// Compact: one step a line.
std::string text_of(const Operand& o) {
  const std::string group = fmt::format("[{},{},{}]", o.peer, o.count, o.stride);
  const std::string lane = o.lane == Operand::kSameLane ? "" : fmt::format(",\"lane\":{}", o.lane);
  switch (o.kind) {
    case Operand::Kind::kMessage:
      return fmt::format("{{\"peer\":{}{}{}}}", o.peer, lane, o.open ? ",\"more\":true" : "");
    case Operand::Kind::kAggregation:
      return fmt::format("{{\"group\":{}{}}}", group, lane);
    default:
      break;
  }
  const char* buffer = kBuffers[static_cast<int>(o.buffer)];
  if (o.kind == Operand::Kind::kRemote) return fmt::format("{{\"{}\":{},\"of\":{}}}", buffer, o.chunk, o.peer);
  if (o.kind == Operand::Kind::kMulticast) return fmt::format("{{\"{}\":{},\"of\":{}}}", buffer, o.chunk, group);
  return fmt::format("{{\"{}\":{}}}", buffer, o.chunk);
}

std::string text_of(const Operands& side) {
  std::string text;
  for (const Operand& o : side) {
    if (!text.empty()) text += ',';
    text += text_of(o);
  }
  return text;
}

std::string text_of(const Step& step) {
  if (step.kind == Step::Kind::kSignal) return fmt::format("{{\"signal\":{}}}", step.peer);
  if (step.kind == Step::Kind::kWait) return fmt::format("{{\"wait\":{}}}", step.peer);
  return fmt::format("{{\"move\":{},\"from\":[{}],\"to\":[{}]}}", step.chunk, text_of(step.sources),
                     text_of(step.destinations));
}

class Reader {
 public:
  Reader(std::string_view name, const json& root) : name_(name), root_(root) {}

  Result<Document> run() {
    if (!root_.is_object()) return bad_input("{}: it is no JSON object", name_);
    if (root_.value("schema", json()) != kSchema) return bad_input("{}: its schema is not {}", name_, kSchema);
    if (const json* title = find(root_, "name"); title != nullptr && title->is_string())
      document_.name = title->get<std::string>();
    WEFT_CHECK(read_shape());
    const json* strands = find(root_, "strands");
    if (strands == nullptr || !strands->is_array()) return bad_input("{}: 'strands' is no list", name_);
    std::int64_t steps = 0;
    for (const json& strand : *strands) {
      if (!strand.is_array()) return bad_input("{}: strand {} is no list", name_, s().strands.size());
      if ((steps += static_cast<std::int64_t>(strand.size())) > limits::kMoves)
        return bad_input("{}: more than {} steps", name_, limits::kMoves);
    }
    WEFT_CHECK(named(check_size(s().shape.ranks, s().lanes, s().shape.chunks, s().scratch, steps)));
    for (const json& strand : *strands) {
      auto& to = s().strands.emplace_back();
      for (const json& step : strand) {
        const auto read = read_step(step);
        if (!read)
          return bad_input("{}: strand {} step {}: {}", name_, s().strands.size() - 1, to.size(), read.error().message);
        to.push_back(*read);
      }
    }
    WEFT_CHECK(read_orders());
    WEFT_CHECK(named(check(s())));
    return std::move(document_);
  }

 private:
  Schedule& s() { return document_.schedule; }
  Status named(const Status& status) const {
    if (!status) return bad_input("{}: {}", name_, status.error().message);
    return {};
  }

  static const json* find(const json& object, const char* key) {
    if (!object.is_object()) return nullptr;
    const auto at = object.find(key);
    return at == object.end() ? nullptr : &*at;
  }
  static Result<std::int64_t> integer(const json& value, const char* key, std::int64_t low, std::int64_t high) {
    if (!value.is_number_integer()) return bad_input("'{}' is no whole number", key);
    const std::int64_t n = value.is_number_unsigned() && value.get<std::uint64_t>() > std::uint64_t{INT64_MAX}
                               ? INT64_MAX
                               : value.get<std::int64_t>();
    if (n < low || n > high) return bad_input("{} {} is outside {} … {}", key, n, low, high);
    return n;
  }
  Result<std::int64_t> top(const char* key, std::int64_t low, std::int64_t high) const {
    const json* value = find(root_, key);
    auto n = value == nullptr ? bad_input("'{}' is missing", key) : integer(*value, key, low, high);
    if (!n) return bad_input("{}: {}", name_, n.error().message);
    return *n;
  }
  Result<bool> flag(const char* key) const {
    const json* value = find(root_, key);
    if (value == nullptr || !value->is_boolean()) return bad_input("{}: '{}' is neither true nor false", name_, key);
    return value->get<bool>();
  }

  Status read_shape() {
    const json* word = find(root_, "collective");
    if (word == nullptr || !word->is_string()) return bad_input("{}: 'collective' is missing", name_);
    const auto collective = parse_collective(word->get<std::string>());
    if (!collective) return bad_input("{}: {}", name_, collective.error().message);
    WEFT_TRY(const std::int64_t ranks, top("ranks", 1, limits::kRanks));
    WEFT_TRY(const std::int64_t root, top("root", 0, ranks - 1));
    WEFT_TRY(const std::int64_t chunks, top("chunks", 0, limits::kCells));
    WEFT_TRY(const std::int64_t scratch, top("scratch", 0, limits::kCells));
    WEFT_TRY(const std::int64_t lanes, top("lanes", 1, limits::kLanes));
    WEFT_TRY(const std::int64_t slots, top("slots", 1, limits::kMoves));
    WEFT_TRY(document_.in_place, flag("in_place"));
    WEFT_TRY(document_.out_of_place, flag("out_of_place"));
    if (!document_.in_place && !document_.out_of_place)
      return bad_input("{}: it works neither in place nor out of place", name_);
    document_.slots = static_cast<int>(slots);
    s() = {.shape = {*collective, static_cast<Rank>(ranks), static_cast<Rank>(root), static_cast<int>(chunks)},
           .scratch = static_cast<int>(scratch),
           .lanes = static_cast<int>(lanes),
           .strands = {},
           .orders = {}};
    return {};
  }

  static Result<Group> read_group(const json& value, const char* key) {
    if (!value.is_array() || value.size() != 3) return bad_input("'{}' is no [first, count, stride]", key);
    WEFT_TRY(const std::int64_t first, integer(value[0], key, 0, limits::kRanks));
    WEFT_TRY(const std::int64_t count, integer(value[1], key, 1, limits::kRanks));
    WEFT_TRY(const std::int64_t stride, integer(value[2], key, 1, limits::kRanks));
    return Group{static_cast<Rank>(first), static_cast<Rank>(count), static_cast<Rank>(stride)};
  }

  static Result<int> read_lane(const json& value) {
    const json* lane = find(value, "lane");
    if (lane == nullptr) return Operand::kSameLane;
    WEFT_TRY(const std::int64_t n, integer(*lane, "lane", 0, limits::kLanes - 1));
    return static_cast<int>(n);
  }

  static Result<Operand> read_operand(const json& value) {
    WEFT_TRY(const int lane, read_lane(value));
    if (const json* peer = find(value, "peer")) {
      WEFT_TRY(const std::int64_t rank, integer(*peer, "peer", 0, limits::kRanks));
      return from(static_cast<Rank>(rank), lane).continued(value.value("more", json()) == json(true));
    }
    if (const json* group = find(value, "group")) {
      WEFT_TRY(const Group g, read_group(*group, "group"));
      return sum_of(g, lane);
    }
    for (const Buffer buffer : {Buffer::kIn, Buffer::kOut, Buffer::kScratch}) {
      const char* key = kBuffers[static_cast<int>(buffer)];
      const json* chunk = find(value, key);
      if (chunk == nullptr) continue;
      WEFT_TRY(const std::int64_t c, integer(*chunk, key, 0, kAnything));
      const Operand local{.buffer = buffer, .chunk = static_cast<std::int32_t>(c)};
      const json* of = find(value, "of");
      if (of == nullptr) return local;
      if (of->is_array()) {
        WEFT_TRY(const Group g, read_group(*of, "of"));
        return everywhere(g, local);
      }
      WEFT_TRY(const std::int64_t rank, integer(*of, "of", 0, limits::kRanks));
      return at(static_cast<Rank>(rank), local);
    }
    return bad_input("an operand is none of in, out, scratch, peer, group");
  }

  static Result<Operands> read_side(const json& step, const char* key) {
    const json* side = find(step, key);
    if (side == nullptr || !side->is_array()) return bad_input("'{}' is no list of operands", key);
    Operands operands;
    for (const json& value : *side) {
      WEFT_TRY(const Operand o, read_operand(value));
      operands.push_back(o);
    }
    return operands;
  }

  static Result<Step> read_step(const json& value) {
    if (const json* chunk = find(value, "move")) {
      WEFT_TRY(const std::int64_t c, integer(*chunk, "move", 0, kAnything));
      WEFT_TRY(auto sources, read_side(value, "from"));
      WEFT_TRY(auto destinations, read_side(value, "to"));
      return move(static_cast<int>(c), std::move(sources), std::move(destinations));
    }
    for (const char* word : {"signal", "wait"}) {
      const json* peer = find(value, word);
      if (peer == nullptr) continue;
      WEFT_TRY(const std::int64_t rank, integer(*peer, word, 0, limits::kRanks));
      return *word == 's' ? signal(static_cast<Rank>(rank)) : wait(static_cast<Rank>(rank));
    }
    return bad_input("it is none of move, signal, wait");
  }

  Status read_orders() {
    const json* orders = find(root_, "orders");
    if (orders == nullptr) return {};
    if (!orders->is_array()) return bad_input("{}: 'orders' is no list", name_);
    for (const json& order : *orders) {
      if (!order.is_array() || order.size() != 4)
        return bad_input("{}: order {} is no [strand, step, lane, after]", name_, s().orders.size());
      std::int32_t n[4];
      for (std::size_t i = 0; i < 4; ++i) {
        const auto value = integer(order[i], "it", 0, kAnything);
        if (!value) return bad_input("{}: order {}: {}", name_, s().orders.size(), value.error().message);
        n[i] = static_cast<std::int32_t>(*value);
      }
      s().orders.push_back({n[0], n[1], n[2], n[3]});
    }
    std::ranges::sort(s().orders);
    return {};
  }

  std::string_view name_;
  const json& root_;
  Document document_;
};

// Before anything is stored: how deep and how many values, counted from brackets and commas. Those in strings count
// too.
Status bounded(std::string_view name, std::string_view text) {
  if (text.size() > limits::kBytes)
    return bad_input("{}: {} bytes are more than the {} MiB read at most", name, text.size(), limits::kBytes >> 20);
  int depth = 0;
  std::int64_t values = 0;
  for (const char c : text) {
    depth += (c == '[' || c == '{') - (c == ']' || c == '}');
    if (depth > kDeepest) return bad_input("{}: nested deeper than {}", name, kDeepest);
    values += c == '[' || c == '{' || c == ',';
  }
  if (values > limits::kElements * 4) return bad_input("{}: more than {} values", name, limits::kElements * 4);
  return {};
}

}  // namespace

std::string to_schedule_json(const Document& d) {
  const Schedule& s = d.schedule;
  std::string strands, orders;
  for (const auto& strand : s.strands) {
    std::string steps;
    for (const Step& step : strand) steps += (steps.empty() ? "\n    " : ",\n    ") + text_of(step);
    strands += fmt::format("{}\n   [{}]", strands.empty() ? "" : ",", steps);
  }
  for (const Order& o : s.orders)
    orders += fmt::format("{}[{},{},{},{}]", orders.empty() ? "" : ",", o.strand, o.step, o.lane, o.after);
  return fmt::format(
      "{{\n \"schema\": \"{}\",\n \"name\": {},\n \"collective\": \"{}\",\n \"ranks\": {},\n \"root\": {},\n "
      "\"chunks\": "
      "{},\n \"scratch\": {},\n \"lanes\": {},\n \"slots\": {},\n \"in_place\": {},\n \"out_of_place\": {},\n "
      "\"strands\": [{}],\n \"orders\": [{}]\n}}\n",
      kSchema, json(d.name).dump(-1, ' ', true, json::error_handler_t::replace), name(s.shape.collective),
      s.shape.ranks, s.shape.root, s.shape.chunks, s.scratch, s.lanes, d.slots, d.in_place, d.out_of_place, strands,
      orders);
}

Result<Document> parse_schedule_json(std::string_view name, std::string_view text) {
  WEFT_CHECK(bounded(name, text));
  WEFT_TRY(const json root, parse_json(name, text));
  return Reader(name, root).run();
}

}  // namespace weft::schedule
