#include "apps/rehearsal/flight.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <map>

#include "apps/rehearsal/trace.h"

namespace weft::rehearsal {
namespace {

using nlohmann::json;

std::string text(const json& object, const char* key) {
  const auto at = object.find(key);
  if (at == object.end() || at->is_null()) return "";
  return at->is_string() ? at->get<std::string>() : at->dump();
}

std::int64_t integer(const json& object, const char* key, std::int64_t otherwise) {
  const auto at = object.find(key);
  return at != object.end() && at->is_number_integer() ? at->get<std::int64_t>() : otherwise;
}

// "0" of ["0", "default_pg"].
std::string group_name(const json& entry) {
  const auto at = entry.find("process_group");
  if (at == entry.end()) return "0";
  return at->is_array() && !at->empty()
             ? (at->front().is_string() ? at->front().get<std::string>() : at->front().dump())
             : text(entry, "process_group");
}

// Elements of all tensors of [[2, 3], …].
std::int64_t elements(const json& entry, const char* key) {
  const auto at = entry.find(key);
  std::int64_t sum = 0;
  if (at == entry.end() || !at->is_array()) return 0;
  for (const json& shape : *at) {
    if (!shape.is_array()) continue;
    std::int64_t product = 1;
    for (const json& n : shape) product *= n.is_number_integer() ? n.get<std::int64_t>() : 0;
    sum += product;
  }
  return sum;
}

std::string first_type(const json& entry) {
  for (const char* key : {"input_dtypes", "output_dtypes"})
    if (const auto at = entry.find(key); at != entry.end() && at->is_array() && !at->empty() && at->front().is_string())
      return at->front().get<std::string>();
  return "";
}

// "train.py:12", the innermost line that is not torch's.
std::string line_of(const json& entry) {
  const auto frames = entry.find("frames");
  if (frames == entry.end() || !frames->is_array()) return "";
  for (const json& frame : *frames) {
    const std::string file = text(frame, "filename");
    if (file.empty() || file.find("/torch/") != std::string::npos) continue;
    return fmt::format("{}:{}", file.substr(file.rfind('/') + 1), integer(frame, "line", 0));
  }
  return "";
}

int rank_of(const FlightRecord& record) {
  if (const auto rank = integer(record.dump, "rank", -1); rank >= 0) return static_cast<int>(rank);
  const std::string base = record.file.substr(record.file.rfind('/') + 1);
  const auto end = base.find_last_of("0123456789");
  if (end == std::string::npos) return -1;
  const auto begin = base.find_last_not_of("0123456789", end);
  return std::atoi(base.c_str() + (begin == std::string::npos ? 0 : begin + 1));
}

// Names and members of the groups, of all dumps: a rank knows those that it is in.
using Members = std::map<std::string, std::vector<int>>;
void add_members(const json& dump, Members& members) {
  const auto config = dump.find("pg_config");
  if (config == dump.end() || !config->is_object()) return;
  for (const auto& [key, group] : config->items()) {
    const std::string name = text(group, "name");
    const json ranks = json::parse(text(group, "ranks"), nullptr, false);
    if (!ranks.is_array() || ranks.empty()) continue;
    auto& known = members[name.empty() ? key : name];
    if (!known.empty()) continue;
    for (const json& rank : ranks)
      if (rank.is_number_integer()) known.push_back(rank.get<int>());
  }
}

// Collectives are counted per group; messages are not compared by number.
std::int64_t number_of(const json& entry) {
  const auto message = entry.find("is_p2p");
  if (message != entry.end() && message->is_boolean() && message->get<bool>()) return -1;
  return integer(entry, "collective_seq_id", -1);
}

class Record {
 public:
  Record(const FlightRecord& record, const Members& members, const std::map<std::string, std::int64_t>& first)
      : file_(record.file), dump_(record.dump), members_(members), first_(first), rank_(rank_of(record)) {}

  Result<std::string> recording() {
    int world = rank_ + 1;
    for (const auto& [name, ranks] : members_) world = std::max(world, 1 + std::ranges::max(ranks));
    if (rank_ < 0) return bad_input("{}: neither the dump nor its name has the number of a rank", file_);
    write({{"schema", "weft.rehearsal/1"}, {"rank", rank_}, {"world", world}, {"script", file_}});
    find_batches();
    for (std::size_t i = 0; i < dump_["entries"].size(); ++i) WEFT_CHECK(write_call(dump_["entries"][i], batches_[i]));
    for (std::int64_t id = 1; id <= calls_; ++id) write({{"kind", "wait"}, {"id", id}, {"stream", 0}});
    write({{"kind", "note"}, {"text", "a flight recorder has calls and no kernels: the time is communication alone"}});
    write({{"kind", "end"}});
    return out_;
  }

 private:
  void write(const json& line) { out_ += line.dump(-1, ' ', false, json::error_handler_t::replace) + "\n"; }

  // Messages that one "coalesced" call of their group sent together.
  void find_batches() {
    const json& entries = dump_["entries"];
    batches_.assign(entries.size(), 0);
    std::map<std::string, std::vector<std::size_t>> open;
    std::int64_t batch = 0;
    for (std::size_t i = 0; i < entries.size(); ++i) {
      const std::string name = text(entries[i], "profiling_name");
      auto& messages = open[group_name(entries[i])];
      if (name.find(":send") != std::string::npos || name.find(":recv") != std::string::npos) {
        messages.push_back(i);
        continue;
      }
      if (name.ends_with(":coalesced") && !messages.empty()) {
        ++batch;
        for (const std::size_t m : messages) batches_[m] = batch;
      }
      messages.clear();
    }
  }

  Result<int> group_of(const std::string& name, const std::vector<int>** ranks) {
    const auto known = members_.find(name);
    if (known == members_.end()) return bad_input("{}: pg_config has no members of group '{}'", file_, name);
    *ranks = &known->second;
    if (const auto made = groups_.find(name); made != groups_.end()) return made->second;
    const int number = static_cast<int>(groups_.size()) + 1;
    groups_.emplace(name, number);
    write({{"kind", "group"}, {"group", number}, {"ranks", known->second}});
    return number;
  }

  // The other end of "nccl:send 0->1" and "nccl:recv 1<-0", as ranks of the group; -1: it does not say.
  static int peer_of(const std::string& name) {
    const auto arrow = name.find_first_of("-<", name.find(' ') == std::string::npos ? name.size() : name.find(' '));
    if (arrow == std::string::npos || arrow + 2 >= name.size()) return -1;
    int peer = -1;
    std::from_chars(name.data() + arrow + 2, name.data() + name.size(), peer);
    return peer;
  }

  Status write_call(const json& entry, std::int64_t batch) {
    const std::string profiling = text(entry, "profiling_name");
    if (profiling.ends_with(":coalesced")) return {};
    const std::string name = group_name(entry);
    const std::int64_t number = number_of(entry);
    if (const auto first = first_.find(name); number >= 0 && first != first_.end() && number < first->second) return {};
    const auto colon = profiling.find(':');
    std::string called = profiling.substr(colon == std::string::npos ? 0 : colon + 1);
    called = called.substr(0, called.find(' '));
    const auto op = operation_of(called);
    if (!op) return bad_input("{}: no call of torch.distributed is recorded as '{}'", file_, profiling);
    const std::vector<int>* ranks = nullptr;
    WEFT_TRY(const int group, group_of(name, &ranks));
    const bool by_output = *op == "reduce_scatter" || *op == "scatter" || *op == "recv";
    const bool grows = *op == "all_gather" || *op == "gather" || *op == "reduce_scatter" || *op == "scatter";
    std::int64_t count = elements(entry, by_output ? "output_sizes" : "input_sizes");
    if (count == 0) count = elements(entry, by_output ? "input_sizes" : "output_sizes");
    const ElementType type = element_type_of(first_type(entry));
    const bool empty = *op == "barrier" || count == 0;
    json line = {{"kind", "call"},
                 {"id", ++calls_},
                 {"op", *op},
                 {"group", group},
                 {"count", empty ? 0 : count},
                 {"type", empty ? "" : type.name},
                 {"bytes", empty ? 0 : count * type.bytes * (grows ? static_cast<std::int64_t>(ranks->size()) : 1)},
                 {"stream", stream_of(name, *op == "send" || *op == "recv" ? profiling : "")},
                 {"host", false},
                 {"line", line_of(entry)}};
    if (*op == "send" || *op == "recv") {
      const int peer = peer_of(profiling);
      if (peer < 0 || static_cast<std::size_t>(peer) >= ranks->size())
        return bad_input("{}: '{}' names no rank of group '{}'", file_, profiling, name);
      line["peer"] = (*ranks)[static_cast<std::size_t>(peer)];
      if (batch > 0) line["batch"] = batch;
    }
    write(line);
    const std::string state = text(entry, "state");
    if (!state.empty() && state != "completed")
      write({{"kind", "note"},
             {"text", fmt::format("rank {}: {} of group '{}' was {} when the dump was made", rank_, *op, name, state)},
             {"line", line_of(entry)}});
    return {};
  }

  int stream_of(const std::string& group, const std::string& message) {
    return streams_.try_emplace(group + message, static_cast<int>(streams_.size()) + 1).first->second;
  }

  const std::string& file_;
  const json& dump_;
  const Members& members_;
  const std::map<std::string, std::int64_t>& first_;
  int rank_;
  std::vector<std::int64_t> batches_;  // of entries; 0: alone
  std::map<std::string, int> groups_, streams_;
  std::int64_t calls_ = 0;
  std::string out_;
};

}  // namespace

bool is_flight_record(const json& dump) {
  return dump.is_object() && dump.contains("entries") && dump["entries"].is_array() && dump.contains("pg_config");
}

Result<std::vector<std::string>> recordings_of_flight_records(const std::vector<FlightRecord>& records) {
  Members members;
  std::map<std::string, std::int64_t> first;
  for (const FlightRecord& record : records) {
    if (!is_flight_record(record.dump)) return bad_input("{}: no dump of a flight recorder", record.file);
    add_members(record.dump, members);
    std::map<std::string, std::int64_t> mine;
    for (const json& entry : record.dump["entries"])
      if (const auto number = number_of(entry); number >= 0) mine.try_emplace(group_name(entry), number);
    for (const auto& [group, number] : mine) first[group] = std::max(first[group], number);
  }
  std::vector<std::string> recordings;
  for (const FlightRecord& record : records) {
    WEFT_TRY(std::string one, Record(record, members, first).recording());
    recordings.push_back(std::move(one));
  }
  return recordings;
}

}  // namespace weft::rehearsal
