#include "apps/rehearsal/trace.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <vector>

#include "machine/catalog/catalog.h"

namespace weft::rehearsal {
namespace {

using nlohmann::json;

constexpr double kSecond = 1e-6;    // of a trace's times, which are microseconds
constexpr double kAtOnce = 30;      // µs from the end of a call to the kernel that waited for it
constexpr double kSmallestGap = 1;  // µs
constexpr double kGiB = 1 << 30;

struct Event {
  std::string name, category;
  double start = 0, end = 0;
  const json* arguments = nullptr;
  double launched = 0;  // by the host
  int stream = 0;
};

double number(const json& object, const char* key, double otherwise = 0) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? found->get<double>() : otherwise;
}

std::string text(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

bool contains(const std::string& text, std::initializer_list<const char*> words) {
  return std::ranges::any_of(words, [&](const char* w) { return text.find(w) != std::string::npos; });
}

bool is_call(const Event& e) { return e.arguments->contains("Collective name"); }

// One trace on its way to a recording.
class Profile {
 public:
  Profile(const std::string& name, json trace) : name_(name), trace_(std::move(trace)) {}

  Result<std::string> recording() {
    WEFT_CHECK(read_head());
    read_events();
    if (kernels_.empty()) return bad_input("{}: no kernels of a GPU: profile with activities=[CPU, CUDA]", name_);
    choose_compute_stream();
    WEFT_CHECK(write_groups());
    WEFT_CHECK(write_events());
    if (!waits_told_)
      write({{"kind", "note"},
             {"text", "the trace has no cuda_sync events: a stream waits for a call where it was idle until its end"}});
    if (idle_ > 0)
      write({{"kind", "note"},
             {"text", fmt::format("{:.2f} ms in which the compute stream was idle without waiting for a call are kept",
                                  idle_ / 1e3)}});
    write({{"kind", "end"}});
    return out_;
  }

 private:
  void write(const json& line) { out_ += line.dump() + "\n"; }

  Status read_head() {
    const auto about = trace_.find("distributedInfo");
    const json none = json::object();
    const json& distributed = about != trace_.end() && about->is_object() ? *about : none;
    rank_ = static_cast<int>(number(distributed, "rank"));
    world_ = std::max(1, static_cast<int>(number(distributed, "world_size", 1)));
    const auto devices = trace_.find("deviceProperties");
    if (devices == trace_.end() || !devices->is_array() || devices->empty() || !devices->front().is_object())
      return bad_input("{}: no deviceProperties, which name the card that was traced", name_);
    auto card = card_of(text(devices->front(), "name"), number(devices->front(), "totalGlobalMem"));
    if (!card) return bad_input("{}: {}", name_, card.error().message);
    write({{"schema", "weft.rehearsal/1"},
           {"rank", rank_},
           {"world", world_},
           {"script", name_.substr(name_.find_last_of('/') + 1)},
           {"card", *card}});
    if (const auto groups = distributed.find("pg_config"); groups != distributed.end() && groups->is_array())
      for (const json& group : *groups)
        if (group.is_object()) configured_[text(group, "pg_name")] = &group;
    return {};
  }

  void read_events() {
    std::map<std::int64_t, double> launches;
    const json& events = trace_["traceEvents"];
    for (const json& e : events) {
      if (!e.is_object() || text(e, "ph") != "X") continue;
      const auto arguments = e.find("args");
      static const json kNone = json::object();
      Event event{.name = text(e, "name"),
                  .category = text(e, "cat"),
                  .start = number(e, "ts"),
                  .arguments = arguments != e.end() && arguments->is_object() ? &*arguments : &kNone};
      event.end = event.start + number(e, "dur");
      event.stream = static_cast<int>(number(*event.arguments, "stream", -1));
      if (event.category == "kernel" || event.category.starts_with("gpu_mem")) {
        kernels_.push_back(event);
      } else if (event.category == "cuda_sync" && event.arguments->contains("wait_on_stream")) {
        waits_.push_back(event);
      } else if (event.category == "cuda_runtime" || event.category == "cuda_driver") {
        if (event.arguments->contains("correlation"))
          launches.emplace(static_cast<std::int64_t>(number(*event.arguments, "correlation")), event.start);
      } else if (event.category == "cpu_op" && event.arguments->contains("External id")) {
        operators_[static_cast<std::int64_t>(number(*event.arguments, "External id"))] = event;
      } else if (event.category == "user_annotation") {
        (event.name.starts_with("ProfilerStep") ? steps_ : annotations_).push_back(event);
      }
    }
    const auto launched = [&](Event& e) {
      const auto found = launches.find(static_cast<std::int64_t>(number(*e.arguments, "correlation", -1)));
      e.launched = found == launches.end() ? e.start : found->second;
    };
    for (Event& e : kernels_) launched(e);
    for (Event& e : waits_) launched(e);
    std::ranges::stable_sort(kernels_, {}, &Event::launched);
    std::ranges::stable_sort(waits_, {}, &Event::launched);
    std::ranges::stable_sort(steps_, {}, &Event::start);
    waits_told_ = !waits_.empty();
  }

  // The stream with most time of kernels that are no calls.
  void choose_compute_stream() {
    std::map<int, double> busy;
    for (const Event& e : kernels_)
      if (!is_call(e)) busy[e.stream] += e.end - e.start;
    if (busy.empty()) return;
    compute_ = std::ranges::max_element(busy, {}, [](const auto& b) { return b.second; })->first;
  }

  int stream_of(int stream) const { return stream == compute_ ? 0 : stream + 1; }

  // "[0, 8, 16]" of a call, else the configuration of its group.
  Result<std::vector<int>> members(const Event& e) const {
    const auto size = static_cast<int>(number(*e.arguments, "Group size", 0));
    const std::string group = text(*e.arguments, "Process Group Name");
    json ranks = json::parse(text(*e.arguments, "Process Group Ranks"), nullptr, false);
    const auto known = configured_.find(group);
    if (!ranks.is_array() || static_cast<int>(ranks.size()) != size)
      ranks = known != configured_.end() && known->second->contains("ranks") ? (*known->second)["ranks"] : json();
    std::vector<int> all;
    if (ranks.is_array() && static_cast<int>(ranks.size()) == size) {
      for (const json& rank : ranks)
        if (rank.is_number_integer()) all.push_back(rank.get<int>());
    } else if (size == world_) {
      for (int r = 0; r < size; ++r) all.push_back(r);
    }
    if (static_cast<int>(all.size()) != size || all.empty())
      return bad_input("{}: the ranks of process group '{}' are not in the trace", name_, group);
    return all;
  }

  Status write_groups() {
    for (const Event& e : kernels_) {
      if (!is_call(e)) continue;
      const std::string group = text(*e.arguments, "Process Group Name");
      if (groups_.contains(group)) continue;
      WEFT_TRY(const std::vector<int> ranks, members(e));
      const int n = static_cast<int>(groups_.size()) + 1;
      groups_[group] = {n, ranks};
      write({{"kind", "group"}, {"group", n}, {"ranks", ranks}, {"line", ""}});
    }
    return {};
  }

  // The innermost annotation of the host at a time, "FSDP::post_backward"; else the operator's name.
  std::string line_of(const Event& e) const {
    const Event* best = nullptr;
    for (const Event& a : annotations_)
      if (a.start <= e.launched && e.launched < a.end && (best == nullptr || a.start >= best->start)) best = &a;
    return best == nullptr ? "" : best->name;
  }

  Status write_events() {
    std::size_t step = 0, wait = 0;
    for (const Event& e : kernels_) {
      for (; step < steps_.size() && steps_[step].start <= e.launched; ++step) write_step();
      for (; wait < waits_.size() && waits_[wait].launched <= e.launched; ++wait) write_told_wait(waits_[wait]);
      if (is_call(e)) {
        WEFT_CHECK(write_call(e));
      } else {
        if (e.stream == compute_) write_gap(e);
        write_kernel(e);
      }
    }
    wait_for_all();
    if (!steps_.empty()) write_step();
    return {};
  }

  void write_step() { write({{"kind", "step"}, {"stream", 0}, {"line", "ProfilerStep"}}); }

  void wait_for(std::int64_t id, int stream) {
    write({{"kind", "wait"}, {"id", id}, {"stream", stream}, {"host", false}, {"line", ""}});
  }

  void wait_for_all() {
    for (const auto& [id, call] : open_) wait_for(id, 0);
    open_.clear();
  }

  // A stream waits for all that another one had been given: its open calls.
  void write_told_wait(const Event& e) {
    const auto on = static_cast<int>(number(*e.arguments, "wait_on_stream", -1));
    for (auto call = open_.begin(); call != open_.end();) {
      if (call->second.stream != on || call->second.launched > e.launched) {
        ++call;
        continue;
      }
      wait_for(call->first, stream_of(e.stream));
      call = e.stream == compute_ ? open_.erase(call) : std::next(call);
    }
  }

  // What the compute stream did before a kernel: it waited for calls, or it was idle.
  void write_gap(const Event& e) {
    const double gap = busy_until_ > 0 ? e.start - busy_until_ : 0;
    bool waited = false;
    for (auto call = open_.begin(); call != open_.end();) {
      const double end = call->second.end;
      const bool before = end <= e.start && call->second.launched < e.launched;
      const bool idle = end > busy_until_ && e.start - end < kAtOnce;
      if (before && idle && gap > kSmallestGap) {
        waited = true;
        if (!waits_told_) {
          wait_for(call->first, 0);
          call = open_.erase(call);
          continue;
        }
      }
      ++call;
    }
    if (gap > kSmallestGap && !waited) {
      idle_ += gap;
      write({{"kind", "kernel"},
             {"op", "idle"},
             {"class", "idle"},
             {"seconds", gap * kSecond},
             {"stream", 0},
             {"line", ""}});
    }
    busy_until_ = std::max(busy_until_, e.end);
  }

  void write_kernel(const Event& e) {
    json line = {{"kind", "kernel"},
                 {"op", e.name.substr(0, 120)},
                 {"class", "memory"},
                 {"seconds", std::max(0.0, (e.end - e.start) * kSecond)},
                 {"stream", stream_of(e.stream)},
                 {"line", ""}};
    if (contains(e.name, {"flash", "fmha", "attention"}))
      line["class"] = contains(e.name, {"bwd", "backward"}) ? "attention_backward" : "attention";
    else if (contains(e.name, {"gemm", "cutlass", "xmma", "nvjet", "cublas", "Cijk_"}))
      line["class"] = "flops";
    const auto parent = operators_.find(static_cast<std::int64_t>(number(*e.arguments, "External id", -1)));
    if (line["class"] == "flops" && parent != operators_.end()) add_shape(parent->second, line);
    write(line);
  }

  // The product's shape, of an operator that was profiled with record_shapes=True.
  static void add_shape(const Event& parent, json& line) {
    const auto dims = parent.arguments->find("Input Dims");
    if (dims == parent.arguments->end() || !dims->is_array()) return;
    std::vector<std::vector<double>> shapes;
    for (const json& d : *dims) {
      if (!d.is_array() || d.size() < 2 || !std::ranges::all_of(d, [](const json& n) { return n.is_number(); }))
        continue;
      shapes.push_back(d.get<std::vector<double>>());
    }
    const bool product = parent.name == "aten::mm" || parent.name == "aten::addmm" || parent.name == "aten::bmm";
    if (!product || shapes.size() < 2) return;
    const auto& left = shapes[shapes.size() - 2];
    const auto& right = shapes.back();
    const double groups = left.size() == 3 ? left[0] : 1;
    const double m = left[left.size() - 2], k = left.back(), n = right.back();
    if (!(m > 0 && n > 0 && k > 0 && groups > 0)) return;
    line.update(
        {{"class", "gemm"}, {"m", m}, {"n", n}, {"k", k}, {"groups", groups}, {"flops", 2 * m * n * k * groups}});
  }

  Status write_call(const Event& e) {
    const std::string name = text(*e.arguments, "Collective name");
    const auto op = operation_of(name);
    if (!op) return bad_input("{}: no collective of torch.distributed is called '{}'", name_, name);
    const auto& [group, ranks] = groups_.at(text(*e.arguments, "Process Group Name"));
    const ElementType type = element_type_of(text(*e.arguments, "dtype"));
    const auto in = static_cast<std::int64_t>(number(*e.arguments, "In msg nelems"));
    const auto out = static_cast<std::int64_t>(number(*e.arguments, "Out msg nelems"));
    const bool by_output = *op == "reduce_scatter" || *op == "scatter" || *op == "recv";
    const std::int64_t count = by_output ? out : in;
    // One message or root has one size; the larger side of the others has that of all members at most.
    const bool grows = *op == "all_gather" || *op == "gather" || *op == "reduce_scatter" || *op == "scatter";
    const std::int64_t larger = grows ? count * static_cast<std::int64_t>(ranks.size()) : count;
    json line = {{"kind", "call"},
                 {"id", ++calls_},
                 {"op", *op},
                 {"group", group},
                 {"count", count},
                 {"type", *op == "barrier" ? "" : type.name},
                 {"bytes", larger * type.bytes},
                 {"stream", 0},
                 {"host", false},
                 {"line", line_of(e)}};
    const bool rooted = *op == "broadcast" || *op == "reduce" || *op == "gather" || *op == "scatter";
    if (*op == "send" || *op == "recv")
      line["peer"] = static_cast<int>(number(*e.arguments, *op == "send" ? "Dst Rank" : "Src Rank", -1));
    else if (rooted && e.arguments->contains("Src Rank"))
      line["root"] = static_cast<int>(number(*e.arguments, "Src Rank"));
    write(line);
    if (e.stream == compute_) {
      wait_for(calls_, 0);
      busy_until_ = std::max(busy_until_, e.end);
    } else {
      open_[calls_] = e;
    }
    return {};
  }

  const std::string& name_;
  json trace_;
  int rank_ = 0, world_ = 1, compute_ = -1;
  std::vector<Event> kernels_, waits_, steps_, annotations_;
  std::map<std::int64_t, Event> operators_;  // by external id
  std::map<std::string, const json*> configured_;
  std::map<std::string, std::pair<int, std::vector<int>>> groups_;
  std::map<std::int64_t, Event> open_;  // calls that no stream has waited for
  std::int64_t calls_ = 0;
  bool waits_told_ = false;
  double busy_until_ = 0, idle_ = 0;
  std::string out_;
};

}  // namespace

std::optional<std::string> operation_of(const std::string& name) {
  static const std::map<std::string, std::string> kNames = {{"allreduce", "all_reduce"},
                                                            {"allreduce_coalesced", "all_reduce"},
                                                            {"_allgather_base", "all_gather"},
                                                            {"_all_gather_base", "all_gather"},
                                                            {"all_reduce", "all_reduce"},
                                                            {"all_reduce_barrier", "barrier"},
                                                            {"all_gather", "all_gather"},
                                                            {"allgather_into_tensor_coalesced", "all_gather"},
                                                            {"_reduce_scatter_base", "reduce_scatter"},
                                                            {"reduce_scatter", "reduce_scatter"},
                                                            {"reduce_scatter_tensor_coalesced", "reduce_scatter"},
                                                            {"broadcast", "broadcast"},
                                                            {"_broadcast_oop", "broadcast"},
                                                            {"reduce", "reduce"},
                                                            {"gather", "gather"},
                                                            {"scatter", "scatter"},
                                                            {"all_to_all", "all_to_all"},
                                                            {"all_to_allv", "all_to_all"},
                                                            {"send", "send"},
                                                            {"recv", "recv"},
                                                            {"barrier", "barrier"}};
  const auto found = kNames.find(name);
  return found == kNames.end() ? std::nullopt : std::optional(found->second);
}

ElementType element_type_of(const std::string& name) {
  static const std::map<std::string, ElementType> kTypes = {
      {"BFloat16", {"bfloat16", 2}}, {"Half", {"half", 2}}, {"Float", {"float", 4}},
      {"Double", {"double", 8}},     {"Int", {"int32", 4}}, {"Long", {"int64", 8}},
      {"Byte", {"uint8", 1}},        {"Char", {"int8", 1}}, {"Bool", {"bool", 1}}};
  const auto found = kTypes.find(name);
  return found == kTypes.end() ? ElementType{"uint8", 1} : found->second;
}

bool is_profile(std::string_view text) {
  return text.substr(0, text.find_first_not_of(" \t\r\n") + 1).ends_with('{') &&
         text.find("\"traceEvents\"") != std::string_view::npos;
}

Result<std::string> recording_of_profile(const std::string& name, std::string_view text) {
  json trace = json::parse(text, nullptr, false);
  if (!trace.is_object() || !trace.contains("traceEvents") || !trace["traceEvents"].is_array())
    return bad_input("{}: no trace of torch.profiler: it is no JSON, or cut", name);
  return Profile(name, std::move(trace)).recording();
}

Result<std::string> card_of(const std::string& device, double memory) {
  WEFT_TRY(const auto catalog, topology::Catalog::shipped());
  const topology::Part* best = nullptr;
  double nearest = 0;
  for (const topology::Part& part : catalog.parts()) {
    const topology::Figure* size = part.figure("memory");
    const std::string model = part.name.substr(0, part.name.find('-'));
    if (part.kind != "accelerator" || size == nullptr || device.find(model) == std::string::npos) continue;
    const bool pcie = contains(part.name, {"PCIE", "NVL"}), said = contains(device, {"PCIe", "NVL"});
    const double away = std::abs(size->value * kGiB - memory) + (pcie != said ? 1e9 : 0);
    if (best == nullptr || away < nearest) best = &part, nearest = away;
  }
  if (best == nullptr) return bad_input("no card of the catalogue is called '{}'", device);
  return best->name;
}

}  // namespace weft::rehearsal
