#pragma once

#include <torch/csrc/distributed/c10d/TraceUtils.h>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/FlightRecorder.hpp>
#include <tuple>
#include <utility>
#include <vector>

// The last calls of this process's groups, in the form of torch's flight recorder, which torch's analyser
// (torch.distributed.flight_recorder.fr_trace) reads. torch exports no recorder for groups of the CPU.
namespace weft::torch_adapter {

// A group as the analyser identifies it: by its name, and by the ranks of the job that are in it.
struct RecordedGroup {
  std::string name, description;
  std::vector<std::uint64_t> ranks;
  std::uint64_t number = 0;       // in the order in which this process made its groups
  std::uint64_t collectives = 0;  // the number of the last collective, equal on all ranks
  std::uint64_t messages = 0;     // the number of the last message
};

// Thread: any.
class FlightRecord {
 public:
  using Ticket = std::optional<std::uint64_t>;

  // The process's own. TORCH_FR_BUFFER_SIZE: the number of calls that are kept, 2000 unless set; 0: none.
  static FlightRecord& of_process() {
    static FlightRecord* const record = new FlightRecord;  // outlives the threads of groups
    return *record;
  }

  // `name`: as in "weft:all_reduce"; of messages with both ranks, "weft:send 0->1". Counts the call in its group.
  Ticket called(RecordedGroup& group, const std::string& name, bool is_message, const std::vector<at::Tensor>& inputs,
                const std::vector<at::Tensor>& outputs, std::chrono::milliseconds timeout) {
    const std::lock_guard guard(mutex_);
    ++(is_message ? group.messages : group.collectives);
    if (limit_ == 0) return {};
    if (entries_.size() == limit_) entries_.pop_front();
    Entry& e = entries_.emplace_back();
    e.number = next_++;
    e.group = {group.name, group.description};
    e.group_number = group.number;
    e.collective = group.collectives, e.message = group.messages, e.is_message = is_message;
    e.name = analysers_name(name);
    e.inputs = shapes(inputs), e.outputs = shapes(outputs);
    e.timeout = timeout;
    e.called = c10::getTime();
    groups_.insert_or_assign(group.name, std::pair(group.description, group.ranks));
    return e.number;
  }
  void started(const Ticket& ticket) {
    const std::lock_guard guard(mutex_);
    if (Entry* const e = find(ticket)) e->started = c10::getTime();
  }
  void ended(const Ticket& ticket, bool well) {
    const std::lock_guard guard(mutex_);
    Entry* const e = find(ticket);
    if (e == nullptr) return;
    if (well) e->completed = c10::getTime();
    e->retired = true;
  }

  // All that is kept, pickled. only_active: without calls that have completed.
  std::string pickled(bool only_active) {
    const std::lock_guard guard(mutex_);
    auto entries = c10d::new_list();
    for (const Entry& e : entries_)
      if (!only_active || !e.completed) entries.push_back(e.as_dict());
    auto groups = c10d::new_dict();
    for (const auto& [name, known] : groups_) {
      auto group = c10d::new_dict();
      group.insert("name", name);
      group.insert("desc", known.first);
      group.insert("ranks", c10d::ranks_str(known.second));
      groups.insert(name, group);
    }
    auto all = c10d::new_dict();
    all.insert("version", c10d::version_val_str);
    all.insert("pg_config", groups);
    all.insert("entries", entries);
    return c10d::pickle_str(all);
  }

  // After a call has failed: writes the record once, by torch's writer, to the file that TORCH_FR_DUMP_TEMP_FILE names
  // with the rank of the job appended. Without that variable nothing is written.
  void write_after_failure(const RecordedGroup& group, int rank) {
    if (std::getenv("TORCH_FR_DUMP_TEMP_FILE") == nullptr || limit_ == 0) return;
    {
      const std::lock_guard guard(mutex_);
      if (std::exchange(written_, true)) return;
    }
    const auto place = static_cast<std::size_t>(rank);
    c10d::DebugInfoWriter::getWriter(place < group.ranks.size() ? static_cast<int>(group.ranks[place]) : rank)
        .write(pickled(false));
  }

 private:
  struct Shape {
    std::vector<std::int64_t> sizes;
    c10::ScalarType type;
  };
  struct Entry {
    std::uint64_t number, group_number, collective, message;
    std::tuple<std::string, std::string> group;
    std::string name;
    std::vector<Shape> inputs, outputs;
    std::chrono::milliseconds timeout;
    c10::time_t called;
    std::optional<c10::time_t> started, completed;
    bool is_message, retired = false;

    c10::Dict<c10::IValue, c10::IValue> as_dict() const {
      const auto integer = [](std::uint64_t n) { return static_cast<std::int64_t>(n); };
      const auto moment = [](const std::optional<c10::time_t>& t) { return t ? c10::IValue(*t) : c10::IValue(); };
      auto d = c10d::new_dict();
      d.insert("record_id", integer(number));
      d.insert("pg_id", integer(group_number));
      d.insert("process_group", group);
      d.insert("collective_seq_id", integer(collective));
      d.insert("p2p_seq_id", integer(message));
      d.insert("op_id", integer(collective + message));
      d.insert("profiling_name", name);
      d.insert("time_created_ns", called);
      if (started && completed) d.insert("duration_ms", static_cast<double>(*completed - *started) / 1e6);
      insert(d, "input", inputs), insert(d, "output", outputs);
      d.insert("state", completed ? "completed" : started ? "started" : "scheduled");
      d.insert("time_discovered_started_ns", moment(started));
      d.insert("time_discovered_completed_ns", moment(completed));
      d.insert("retired", retired);
      d.insert("timeout_ms", static_cast<std::int64_t>(timeout.count()));
      d.insert("is_p2p", is_message);
      d.insert("frames", c10d::new_list());
      return d;
    }
    static void insert(c10::Dict<c10::IValue, c10::IValue>& d, const std::string& what, const std::vector<Shape>& all) {
      auto sizes = c10d::new_list(), types = c10d::new_list();
      for (const Shape& s : all) {
        auto one = c10d::new_list();
        for (const auto n : s.sizes) one.push_back(n);
        sizes.push_back(one);
        types.push_back(std::string(c10::toString(s.type)));
      }
      d.insert(what + "_sizes", sizes);
      d.insert(what + "_dtypes", types);
    }
  };

  FlightRecord() : limit_(c10d::getCvarInt({"TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE"}, 2000)) {}

  // The analyser knows a list of backends' names, and NCCL's names of some calls.
  static std::string analysers_name(const std::string& name) {
    const std::string call = name.substr(name.find(':') + 1);
    if (call == "all_reduce_coalesced") return "gloo:allreduce_coalesced";
    if (call == "all_gather_coalesced") return "gloo:ALLGATHER_coalesced";
    if (call == "sparse_all_reduce") return "gloo:all_reduce";
    if (call == "monitored_barrier") return "gloo:barrier";
    return "gloo:" + call;
  }
  // A barrier has no tensors, but the analyser looks at the first.
  static std::vector<Shape> shapes(const std::vector<at::Tensor>& tensors) {
    std::vector<Shape> all;
    for (const at::Tensor& t : tensors)
      if (t.defined()) all.push_back({t.sizes().vec(), t.scalar_type()});
    if (all.empty()) all.push_back({{0}, c10::ScalarType::Byte});
    return all;
  }
  Entry* find(const Ticket& ticket) {
    if (!ticket || entries_.empty() || *ticket < entries_.front().number) return nullptr;
    return &entries_[*ticket - entries_.front().number];
  }

  const std::size_t limit_;
  std::mutex mutex_;           // guards what follows, and the counts of groups
  std::deque<Entry> entries_;  // consecutive numbers
  std::uint64_t next_ = 0;
  std::map<std::string, std::pair<std::string, std::vector<std::uint64_t>>> groups_;
  bool written_ = false;
};

}  // namespace weft::torch_adapter
