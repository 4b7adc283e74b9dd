#include "apps/rehearsal/chakra.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <queue>
#include <set>

#include "apps/rehearsal/protobuf.h"
#include "base/json_text.h"

namespace weft::rehearsal {
namespace {

using nlohmann::json;

// et_def.proto's NodeType.
enum class Type : std::uint8_t { kMetadata = 1, kLoad, kStore, kCompute, kSend, kReceive, kCollective, kStorage };

struct Node {
  std::uint64_t id = 0;
  std::string name;
  int type = 0;
  double microseconds = 0;
  std::vector<std::uint64_t> after;       // ids
  std::map<std::string, double> numbers;  // attributes
  std::string group;                      // pg_name

  bool is(Type t) const { return type == static_cast<int>(t); }
  bool call() const { return is(Type::kCollective) || is(Type::kSend) || is(Type::kReceive); }
  double number(const char* key, double otherwise = 0) const {
    const auto found = numbers.find(key);
    return found == numbers.end() ? otherwise : found->second;
  }
};

// et_def.proto's CollectiveCommType, as torch.distributed names the operations.
constexpr const char* kOperations[] = {"all_reduce", "reduce",     "all_gather",     "gather",         "scatter",
                                       "broadcast",  "all_to_all", "reduce_scatter", "reduce_scatter", "barrier"};

std::int64_t zigzag(std::uint64_t value) {
  return static_cast<std::int64_t>(value >> 1) ^ -static_cast<std::int64_t>(value & 1);
}

// An attribute that is one number or one text; lists are left out.
bool read_attribute(std::string_view bytes, Node& node) {
  ProtobufReader in(bytes);
  std::string name;
  std::optional<double> number;
  std::string text;
  while (const auto field = in.next()) {
    switch (field->number) {
      case 1:
        name = field->bytes;
        break;
      case 3:
        number = field->as_double();
        break;
      case 5:
        number = field->as_float();
        break;
      case 7:
      case 9:
        number = static_cast<double>(static_cast<std::int64_t>(field->value));
        break;
      case 11:
      case 13:
      case 19:
      case 21:
      case 27:
        number = static_cast<double>(field->value);
        break;
      case 15:
      case 17:
        number = static_cast<double>(zigzag(field->value));
        break;
      case 23:
        number = static_cast<double>(static_cast<std::int32_t>(field->value));
        break;
      case 25:
        number = static_cast<double>(static_cast<std::int64_t>(field->value));
        break;
      case 29:
        text = field->bytes;
        break;
      default:
        break;
    }
  }
  if (number) node.numbers[name] = *number;
  if (name == "pg_name") node.group = number ? fmt::format("{:.0f}", *number) : text;
  return !in.broken();
}

// Numbers of a repeated field: packed, or one at a time.
bool read_ids(const ProtobufReader::Field& field, std::vector<std::uint64_t>& ids) {
  if (field.bytes.empty()) {
    ids.push_back(field.value);
    return true;
  }
  ProtobufReader in(field.bytes);
  while (!in.empty()) {
    const auto id = in.varint();
    if (!id) return false;
    ids.push_back(*id);
  }
  return true;
}

bool read_node(std::string_view bytes, Node& node) {
  ProtobufReader in(bytes);
  bool whole = true;
  while (const auto field = in.next()) {
    if (field->number == 1) node.id = field->value;
    if (field->number == 2) node.name = field->bytes.substr(0, 120);
    if (field->number == 3) node.type = static_cast<int>(field->value);
    if (field->number == 4 || field->number == 5) whole = whole && read_ids(*field, node.after);
    if (field->number == 7) node.microseconds = static_cast<double>(field->value);
    if (field->number == 10) whole = whole && read_attribute(field->bytes, node);
  }
  return whole && !in.broken();
}

class Converter {
 public:
  Converter(const std::string& name, int rank, int world, const ChakraGroups& groups)
      : name_(name), rank_(rank), world_(world), groups_(groups) {}

  Result<std::string> recording(std::string_view bytes) {
    WEFT_CHECK(read(bytes));
    WEFT_CHECK(order());
    write({{"schema", "weft.rehearsal/1"},
           {"rank", rank_},
           {"world", world_},
           {"script", name_.substr(name_.find_last_of('/') + 1)}});
    WEFT_CHECK(write_groups());
    for (const std::size_t i : order_) WEFT_CHECK(write_node(i));
    for (std::size_t i = 0; i < nodes_.size(); ++i)  // the run ends when the last call has
      if (nodes_[i].call() && !waited_.contains(i)) write({{"kind", "wait"}, {"id", i}, {"stream", 0}, {"line", ""}});
    for (const auto& [what, count] : left_out_) write({{"kind", "note"}, {"text", fmt::format("{} {}", count, what)}});
    write({{"kind", "end"}});
    return out_;
  }

 private:
  void write(const json& line) { out_ += line.dump(-1, ' ', false, json::error_handler_t::replace) + "\n"; }

  // Each message behind its length; the first one is the file's metadata.
  Status read(std::string_view bytes) {
    ProtobufReader in(bytes);
    for (bool head = true; !in.empty(); head = false) {
      const auto length = in.varint();
      const auto message = length ? in.take(*length) : std::nullopt;
      if (!message) return bad_input("{}: no Chakra trace: message {} is cut", name_, nodes_.size() + 1);
      if (head) continue;
      Node node;
      if (!read_node(*message, node))
        return bad_input("{}: no Chakra trace: message {} is no node", name_, nodes_.size() + 2);
      if (!at_.emplace(node.id, nodes_.size()).second) return bad_input("{}: node {} twice", name_, node.id);
      nodes_.push_back(std::move(node));
    }
    if (nodes_.empty()) return bad_input("{}: a Chakra trace without nodes", name_);
    return {};
  }

  // The smallest id first of those whose dependencies are done.
  Status order() {
    std::vector<int> open(nodes_.size());
    std::vector<std::vector<std::size_t>> then(nodes_.size());
    for (std::size_t i = 0; i < nodes_.size(); ++i)
      for (const std::uint64_t id : nodes_[i].after) {
        const auto before = at_.find(id);
        if (before == at_.end()) {
          ++left_out_["dependencies on nodes that the trace does not have"];
          continue;
        }
        ++open[i], then[before->second].push_back(i);
        before_[i].push_back(before->second);
      }
    using Next = std::pair<std::uint64_t, std::size_t>;
    std::priority_queue<Next, std::vector<Next>, std::greater<>> ready;
    for (std::size_t i = 0; i < nodes_.size(); ++i)
      if (open[i] == 0) ready.emplace(nodes_[i].id, i);
    while (!ready.empty()) {
      const std::size_t i = ready.top().second;
      ready.pop();
      order_.push_back(i);
      for (const std::size_t next : then[i])
        if (--open[next] == 0) ready.emplace(nodes_[next].id, next);
    }
    if (order_.size() == nodes_.size()) return {};
    const auto stuck = std::ranges::find_if(open, [](int n) { return n > 0; }) - open.begin();
    return bad_input("{}: node {} depends on itself", name_, nodes_[static_cast<std::size_t>(stuck)].id);
  }

  Status write_groups() {
    for (const Node& node : nodes_) {
      if (!node.call() || numbers_.contains(group_of(node))) continue;
      std::vector<int> ranks;
      if (const auto known = groups_.find(node.group); !group_of(node).empty() && known != groups_.end()) {
        ranks = known->second;
      } else if (group_of(node).empty() || groups_.empty()) {
        for (int r = 0; r < world_; ++r) ranks.push_back(r);
        if (!group_of(node).empty()) ++left_out_["groups without members (--groups FILE), taken to be all ranks"];
      } else {
        return bad_input("{}: node {}: group '{}' is not in the file of --groups", name_, node.id, node.group);
      }
      const int n = static_cast<int>(numbers_.size()) + 1;
      numbers_[group_of(node)] = {n, static_cast<int>(ranks.size())};
      write({{"kind", "group"}, {"group", n}, {"ranks", ranks}, {"line", ""}});
    }
    return {};
  }
  // Messages name their peers by the job's ranks.
  static std::string group_of(const Node& node) { return node.is(Type::kCollective) ? node.group : ""; }

  int stream_of(const Node& node) {
    const std::string key = node.is(Type::kCollective) ? "group " + node.group
                            : node.is(Type::kSend)     ? fmt::format("to {:.0f}", node.number("comm_dst"))
                            : node.is(Type::kReceive)  ? fmt::format("from {:.0f}", node.number("comm_src"))
                                                       : "";
    return key.empty() ? 0 : streams_.emplace(key, static_cast<int>(streams_.size()) + 1).first->second;
  }

  // What a node waits for of those before it: their work, or, of a node without any, what that waits for. Chakra's
  // sends are buffered: what depends on one needs what the send needs, not its receiver.
  void settle(std::size_t i) {
    std::vector<std::size_t> all;
    for (const std::size_t before : before_[i]) {
      if (timed(nodes_[before]) && !nodes_[before].is(Type::kSend))
        all.push_back(before);
      else
        all.insert(all.end(), before_[before].begin(), before_[before].end());  // settled earlier
    }
    std::ranges::sort(all);
    all.erase(std::ranges::unique(all).begin(), all.end());
    before_[i] = std::move(all);
  }

  // Work of a stream that another stream waits for is marked behind it; a call is waited for by its number.
  void wait_for(std::size_t before, int stream) {
    if (nodes_[before].call()) {
      write({{"kind", "wait"}, {"id", before}, {"stream", stream}, {"host", false}, {"line", ""}});
      waited_.insert(before);
    } else if (stream != 0) {
      write({{"kind", "wait_event"}, {"event", before}, {"stream", stream}});
    }
  }
  static bool timed(const Node& node) {
    return node.call() || node.is(Type::kCompute) || node.is(Type::kLoad) || node.is(Type::kStore);
  }

  Status write_node(std::size_t i) {
    const Node& node = nodes_[i];
    settle(i);
    if (!timed(node)) {
      if (!node.is(Type::kMetadata)) ++left_out_[fmt::format("nodes of type {}, which take no time", node.type)];
      return {};
    }
    const int stream = stream_of(node);
    for (const std::size_t before : before_[i]) wait_for(before, stream);
    if (node.call()) return write_call(i, stream);
    const double flops = node.number("num_ops"), bytes = node.number("tensor_size");
    json kernel = {{"kind", "kernel"}, {"op", node.name}, {"stream", 0}, {"line", ""}};
    if (node.microseconds > 0)
      kernel.update({{"class", "fixed"}, {"seconds", node.microseconds * 1e-6}});
    else
      kernel.update({{"class", flops > 0 ? "flops" : "memory"},
                     {"flops", std::max(0.0, flops)},
                     {"bytes", std::max(0.0, bytes)}});
    write(kernel);
    write({{"kind", "record"}, {"event", i}, {"stream", 0}});
    return {};
  }

  Status write_call(std::size_t i, int stream) {
    const Node& node = nodes_[i];
    const auto& [group, members] = numbers_.at(group_of(node));
    const double size = node.number("comm_size");
    if (!(size >= 0 && size < 1e15)) return bad_input("{}: node {}: comm_size {} is no size", name_, node.id, size);
    json call = {{"kind", "call"}, {"id", i},         {"group", group}, {"stream", stream},
                 {"host", false},  {"type", "uint8"}, {"line", ""}};
    if (node.is(Type::kCollective)) {
      const double type = node.number("comm_type", -1);
      if (!(type >= 0 && type < std::size(kOperations)))
        return bad_input("{}: node {}: comm_type {} is none of 0 to {}", name_, node.id, type,
                         std::size(kOperations) - 1);
      const std::string op = kOperations[static_cast<std::size_t>(type)];
      const bool gathers = op == "all_gather" || op == "gather", scatters = op == "reduce_scatter" || op == "scatter";
      const auto count = static_cast<std::int64_t>(scatters ? size / members : size);
      call.update({{"op", op}, {"count", count}, {"bytes", gathers || scatters ? count * members : count}});
      if (op == "barrier") call["type"] = "";
      if (op == "broadcast" || op == "reduce" || op == "gather" || op == "scatter")
        call["root"] = static_cast<int>(node.number("root"));
    } else {
      const bool sends = node.is(Type::kSend);
      const double peer = node.number(sends ? "comm_dst" : "comm_src", -1);
      if (!(peer >= 0 && peer < world_))
        return bad_input("{}: node {}: {} is {:g}: there are ranks 0 to {}", name_, node.id,
                         sends ? "comm_dst" : "comm_src", peer, world_ - 1);
      call.update({{"op", sends ? "send" : "recv"},
                   {"count", static_cast<std::int64_t>(size)},
                   {"bytes", static_cast<std::int64_t>(size)},
                   {"peer", static_cast<int>(peer)}});
    }
    write(call);
    return {};
  }

  const std::string& name_;
  int rank_, world_;
  const ChakraGroups& groups_;
  std::vector<Node> nodes_;
  std::map<std::uint64_t, std::size_t> at_;  // by id
  std::map<std::size_t, std::vector<std::size_t>> before_;
  std::vector<std::size_t> order_;
  std::map<std::string, std::pair<int, int>> numbers_;  // of groups, and their members
  std::map<std::string, int> streams_;
  std::set<std::size_t> waited_;
  std::map<std::string, int> left_out_;
  std::string out_;
};

}  // namespace

bool is_chakra(std::string_view name) { return name.ends_with(".et"); }

Result<int> rank_of_chakra(const std::string& name) {
  const std::string_view stem = std::string_view(name).substr(0, name.size() - 3);
  const std::string_view digits = stem.substr(stem.find_last_of("./") + 1);
  int rank = -1;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), rank);
  if (error != std::errc() || end != digits.data() + digits.size() || rank < 0)
    return bad_input("{}: which rank? Chakra traces are called PREFIX.0.et, PREFIX.1.et, …", name);
  return rank;
}

Result<ChakraGroups> parse_chakra_groups(const std::string& name, std::string_view text) {
  WEFT_TRY(const json file, parse_json(name, text));
  if (!file.is_object()) return bad_input("{}: no JSON object of groups like {{\"0\": [0, 1]}}", name);
  ChakraGroups groups;
  for (const auto& [group, ranks] : file.items()) {
    if (!ranks.is_array() || ranks.empty() ||
        !std::ranges::all_of(ranks, [](const json& r) { return r.is_number_unsigned() && r < (1 << 20); }))
      return bad_input("{}: group '{}' is no list of ranks", name, group);
    groups[group] = ranks.get<std::vector<int>>();
  }
  return groups;
}

Result<std::string> recording_of_chakra(const std::string& name, std::string_view bytes, int world,
                                        const ChakraGroups& groups) {
  WEFT_TRY(const int rank, rank_of_chakra(name));
  for (const auto& [group, ranks] : groups)
    if (const int most = *std::ranges::max_element(ranks); most >= world) world = most + 1;
  if (rank >= world) return bad_input("{}: rank {} of {} ranks", name, rank, world);
  return Converter(name, rank, world, groups).recording(bytes);
}

}  // namespace weft::rehearsal
