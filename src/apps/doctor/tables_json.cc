#include "apps/doctor/tables_json.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "apps/doctor/cells.h"
#include "base/text.h"

namespace weft::doctor {
namespace {

using nlohmann::json;

constexpr double kMostBytes = static_cast<double>(kMostMessage);

// Numbers may be written as text: "0", "-1", "N/A".
double value_of(const json& object, const char* key, double otherwise = 0) {
  const auto at = object.find(key);
  if (at == object.end()) return otherwise;
  if (at->is_number()) return at->get<double>();
  return at->is_string() ? number(at->get_ref<const std::string&>()).value_or(otherwise) : otherwise;
}

std::string text_of(const json& object, const char* key) {
  const auto at = object.find(key);
  return at != object.end() && at->is_string() ? at->get<std::string>() : "";
}

// "AllReduce", "all_reduce_perf", "./build/all_reduce_perf" to weft's name; empty: none.
std::string collective_of(std::string_view name) {
  std::string letters;
  for (const char c : name.substr(name.rfind('/') == std::string_view::npos ? 0 : name.rfind('/') + 1))
    if (std::isalpha(static_cast<unsigned char>(c)) != 0)
      letters += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  constexpr std::pair<std::string_view, const char*> kNames[] = {
      {"allreduce", "all_reduce"}, {"allgather", "all_gather"}, {"reducescatter", "reduce_scatter"},
      {"alltoall", "all_to_all"},  {"broadcast", "broadcast"},  {"sendrecv", "send_receive"},
      {"reduce", "reduce"},        {"gather", "gather"},        {"scatter", "scatter"}};
  for (const auto& [theirs, ours] : kNames)
    if (letters.starts_with(theirs)) return ours;
  return "";
}

std::optional<PerfTable::Row> row_of(const json& object, double bytes) {
  if (!object.is_object() || !(bytes >= 1 && bytes <= kMostBytes)) return std::nullopt;
  const std::string operation = text_of(object, "redop");
  return PerfTable::Row{.bytes = static_cast<std::int64_t>(bytes),
                        .root = static_cast<int>(value_of(object, "root", -1)),
                        .reduces = !operation.empty() && operation != "none"};
}

std::int64_t wrong_of(double count) { return count >= 1 && count < kMostBytes ? static_cast<std::int64_t>(count) : 0; }

// {"results": [{"size": …, "out_of_place": {"time", "alg_bw", "bus_bw", "nwrong"}, "in_place": {…}}]}
void read_results(const json& root, PerfTable& table) {
  for (const json& result : root["results"]) {
    if (!result.is_object()) continue;
    auto row = row_of(result, value_of(result, "size"));
    if (!row) continue;
    const json none = json::object();
    const auto half = [&](const char* key) -> const json& {
      const auto at = result.find(key);
      return at != result.end() && at->is_object() ? *at : none;
    };
    const json &out = half("out_of_place"), &in = half("in_place");
    row->microseconds = value_of(out, "time"), row->in_place = value_of(in, "time");
    const json& rated = row->microseconds > 0 ? out : in;
    row->algbw = value_of(rated, "alg_bw"), row->busbw = value_of(rated, "bus_bw");
    row->wrong = wrong_of(value_of(out, "nwrong")) + wrong_of(value_of(in, "nwrong"));
    table.rows.push_back(*row);
  }
  if (const auto config = root.find("config"); config != root.end() && config->is_object())
    for (const char* key : {"nranks", "nRanks", "total_ranks", "ranks"})
      table.ranks = std::max(table.ranks, static_cast<std::int64_t>(value_of(*config, key)));
  const auto devices = root.find("devices");
  if (devices == root.end() || !devices->is_array()) return;
  for (const json& device : *devices) {
    if (!device.is_object()) continue;
    const auto rank = static_cast<std::int64_t>(value_of(device, "rank", -1));
    if (rank >= 0 && rank < 1'000'000) table.listed.insert(rank), table.ranks = std::max(table.ranks, rank + 1);
    if (const std::string host = text_of(device, "hostname"); !host.empty()) table.hosts.insert(host);
    if (const std::string gpu = text_of(device, "device_name"); !gpu.empty()) ++table.gpus[table.gpu = gpu];
  }
}

// {"benchmark": [{"33554432": {"oop_time": …, "ip_time": …}}]}
void read_benchmark(const json& root, PerfTable& table) {
  for (const json& part : root["benchmark"]) {
    if (!part.is_object()) continue;
    for (const auto& [size, result] : part.items()) {
      auto row = row_of(result, number(size).value_or(0));
      if (!row) continue;
      row->microseconds = value_of(result, "oop_time"), row->in_place = value_of(result, "ip_time");
      row->algbw = value_of(result, "oop_algbw"), row->busbw = value_of(result, "oop_busbw");
      row->wrong = wrong_of(value_of(result, "oop_error")) + wrong_of(value_of(result, "ip_error"));
      table.rows.push_back(*row);
    }
  }
}

// {"name": "AllReduce", "size": …, "inPlace": 0, "time": …, "algBw": …, "busBw": …, "gpus": 4, "#wrong": "0"}
bool read_line(const json& object, PerfTable& table) {
  if (!object.is_object() || !object.contains("busBw") || !object.contains("size")) return false;
  auto row = row_of(object, value_of(object, "size"));
  if (!row) return false;
  const bool in_place = value_of(object, "inPlace") != 0;
  const auto same = std::ranges::find_if(table.rows, [&](const auto& other) {
    return other.bytes == row->bytes && (in_place ? other.in_place : other.microseconds) == 0;
  });
  PerfTable::Row& own = same != table.rows.end() ? *same : table.rows.emplace_back(*row);
  (in_place ? own.in_place : own.microseconds) = value_of(object, "time");
  if (own.busbw == 0 || !in_place) own.algbw = value_of(object, "algBw"), own.busbw = value_of(object, "busBw");
  own.wrong += wrong_of(value_of(object, "#wrong"));
  table.ranks = std::max(table.ranks, static_cast<std::int64_t>(value_of(object, "gpus")));
  if (table.collective.empty()) table.named = text_of(object, "name"), table.collective = collective_of(table.named);
  return true;
}

void name_by_command(const json& root, PerfTable& table) {
  const auto args = root.find("args");
  if (args == root.end()) return;
  std::string command = args->is_string() ? args->get<std::string>() : "";
  if (args->is_array() && !args->empty() && args->front().is_string()) command = args->front().get<std::string>();
  command = command.substr(0, command.find(' '));
  table.collective = collective_of(command);
  if (!table.collective.empty()) table.named = command;
}

}  // namespace

std::optional<PerfTable> read_json_table(std::string_view text) {
  const auto start = text.find_first_not_of(" \t\r\n");
  if (start == std::string_view::npos || (text[start] != '{' && text[start] != '[')) return std::nullopt;
  PerfTable table;
  const json root = json::parse(text, nullptr, false);
  if (root.is_object() && root.contains("results") && root["results"].is_array()) {
    name_by_command(root, table);
    read_results(root, table);
  } else if (root.is_object() && root.contains("benchmark") && root["benchmark"].is_array()) {
    name_by_command(root, table);
    read_benchmark(root, table);
  } else if (root.is_array() || root.is_object()) {
    for (const json& object : root.is_array() ? root : json::array({root}))
      if (!read_line(object, table)) leave_out(table, 0, "no row");
  } else {
    for (const std::string_view line : cut(text, '\n'))
      if (line.find('{') != std::string_view::npos && !read_line(json::parse(line, nullptr, false), table))
        leave_out(table, 0, "no row");
  }
  if (table.rows.empty()) return std::nullopt;
  std::erase_if(table.rows, [](const auto& row) { return row.microseconds <= 0 && row.in_place <= 0; });
  return table;
}

}  // namespace weft::doctor
