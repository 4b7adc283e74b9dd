#include "apps/rehearsal/recording.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace weft::rehearsal {
namespace {

using nlohmann::json;

constexpr Rank kMostRanks = 1 << 20;

// Fields of one line, of which a wrong type is bad input.
class Fields {
 public:
  Fields(const json& object, const std::string& file, int line) : object_(object), file_(file), line_(line) {}

  std::string text(const char* key) { return get<std::string>(key, ""); }
  std::int64_t integer(const char* key, std::int64_t otherwise = 0) { return get<std::int64_t>(key, otherwise); }
  double number(const char* key, double otherwise = 0) {
    const double value = get<double>(key, otherwise);
    if (!(value >= 0 && value < 1e30)) fail(key);
    return value;
  }
  bool yes(const char* key) { return get<bool>(key, false); }
  std::vector<std::int64_t> integers(const char* key) { return get<std::vector<std::int64_t>>(key, {}); }

  Status status() const {
    if (wrong_.empty()) return {};
    return bad_input("{}:{}: '{}' is missing or has no sensible value", file_, line_, wrong_);
  }
  void fail(const char* key) {
    if (wrong_.empty()) wrong_ = key;
  }

 private:
  template <class T>
  T get(const char* key, T otherwise) {
    const auto found = object_.find(key);
    if (found == object_.end()) return otherwise;
    try {
      return found->template get<T>();
    } catch (const json::exception&) {
      fail(key);
      return otherwise;
    }
  }

  const json& object_;
  const std::string& file_;
  int line_;
  std::string wrong_;
};

// The job's group of these members, made for the n-th time by this rank.
int group_of(Job& job, const Recording& recording, const std::vector<Rank>& ranks, const std::string& line) {
  int occurrence = 0;
  for (const int made : recording.made) occurrence += job.groups[static_cast<std::size_t>(made)].ranks == ranks ? 1 : 0;
  for (std::size_t i = 0; i < job.groups.size(); ++i)
    if (job.groups[i].occurrence == occurrence && job.groups[i].ranks == ranks) return static_cast<int>(i);
  job.groups.push_back({ranks, occurrence, line});
  return static_cast<int>(job.groups.size()) - 1;
}

void read_group(Job& job, Recording& recording, Fields& in) {
  std::vector<Rank> ranks;
  for (const std::int64_t rank : in.integers("ranks")) {
    if (rank < 0 || rank >= recording.world) in.fail("ranks");
    ranks.push_back(static_cast<Rank>(rank));
  }
  if (ranks.empty()) in.fail("ranks");
  if (!in.status()) return;
  const int group = group_of(job, recording, ranks, in.text("line"));
  recording.groups[static_cast<int>(in.integer("group", -1))] = group;
  recording.made.push_back(group);
}

void read_call(const Job& job, Recording& recording, Fields& in, Event& event) {
  Call call{.op = in.text("op"), .type = in.text("type"), .reduce = in.text("reduce")};
  const auto group = recording.groups.find(static_cast<int>(in.integer("group", -1)));
  if (group == recording.groups.end()) return in.fail("group");
  call.group = group->second;
  call.count = in.integer("count");
  call.bytes = in.integer("bytes");
  call.root = static_cast<Rank>(in.integer("root", -1));
  call.peer = static_cast<Rank>(in.integer("peer", -1));
  call.batch = in.integer("batch");
  call.host = event.host;
  call.sends = in.integers("sends");
  call.receives = in.integers("receives");
  const auto& members = job.groups[static_cast<std::size_t>(call.group)].ranks;
  if (call.op.empty()) in.fail("op");
  if (call.count < 0) in.fail("count");
  if (call.bytes < 0) in.fail("bytes");
  if (std::ranges::find(members, recording.rank) == members.end()) in.fail("group");
  if (call.message() && (call.peer < 0 || call.peer >= recording.world)) in.fail("peer");
  if (!call.sends.empty() && call.sends.size() != members.size()) in.fail("sends");
  if (!call.receives.empty() && call.receives.size() != members.size()) in.fail("receives");
  event.kind = Event::Kind::kCall;
  event.number = in.integer("id", -1);
  event.index = static_cast<int>(recording.calls.size());
  recording.calls.push_back(std::move(call));
}

void read_kernel(Recording& recording, Fields& in, Event& event) {
  Kernel kernel{.op = in.text("op"), .kind = in.text("class"), .type = in.text("type")};
  kernel.flops = in.number("flops") * (in.yes("causal") ? 0.5 : 1);  // half of the scores lie above the diagonal
  kernel.bytes = in.number("bytes");
  kernel.m = in.number("m");
  kernel.n = in.number("n");
  kernel.k = in.number("k");
  kernel.groups = in.number("groups", 1);
  event.kind = Event::Kind::kKernel;
  event.index = static_cast<int>(recording.kernels.size());
  recording.kernels.push_back(std::move(kernel));
}

Status read_event(Job& job, Recording& recording, const json& object, const std::string& name, int number) {
  Fields in(object, name, number);
  const std::string kind = in.text("kind");
  Event event;
  event.stream = static_cast<int>(in.integer("stream"));
  event.host = in.yes("host");
  event.line = in.text("line");
  if (kind == "group") {
    read_group(job, recording, in);
    return in.status();
  }
  if (kind == "note" || kind == "end") {
    if (kind == "note") recording.notes.push_back({in.text("text"), event.line});
    if (kind == "end") recording.error = in.text("error"), recording.error_line = event.line;
    return in.status();
  }
  if (kind == "call") {
    read_call(job, recording, in, event);
  } else if (kind == "kernel") {
    read_kernel(recording, in, event);
  } else if (kind == "wait") {
    event.kind = Event::Kind::kWait;
    event.number = in.integer("id", -1);
  } else if (kind == "record" || kind == "wait_event" || kind == "synchronize") {
    event.kind = kind == "record"       ? Event::Kind::kRecord
                 : kind == "wait_event" ? Event::Kind::kWaitEvent
                                        : Event::Kind::kSynchronize;
    event.number = in.integer("event", -1);
  } else if (kind == "memory") {
    event.kind = Event::Kind::kMemory;
    event.allocated = in.integer("allocated");
    event.reserved = in.integer("reserved");
  } else if (kind == "step") {
    event.kind = Event::Kind::kStep;
  } else {
    return bad_input("{}:{}: no event of weft.rehearsal/1 is called '{}'", name, number, kind);
  }
  WEFT_CHECK(in.status());
  recording.events.push_back(std::move(event));
  return {};
}

Status read_head(const Job& job, Recording& recording, const json& object, const std::string& name) {
  Fields in(object, name, 1);
  if (in.text("schema") != "weft.rehearsal/1") return bad_input("{}: no weft.rehearsal/1", name);
  recording.rank = static_cast<Rank>(in.integer("rank", -1));
  const std::int64_t world = in.integer("world");
  recording.script = in.text("script");
  if (world < 1 || world > kMostRanks) in.fail("world");
  recording.world = static_cast<Rank>(world);
  if (recording.rank < 0 || recording.rank >= recording.world) in.fail("rank");
  WEFT_CHECK(in.status());
  if (job.world != 0 && job.world != recording.world)
    return bad_input("{}: of {} ranks, the files before it of {}", name, recording.world, job.world);
  if (const Recording* other = job.of(recording.rank))
    return bad_input("{}: rank {} again, which {} has", name, recording.rank, other->file);
  return {};
}

}  // namespace

const Recording* Job::of(Rank rank) const {
  const auto found = std::ranges::find(ranks, rank, &Recording::rank);
  return found == ranks.end() ? nullptr : &*found;
}

Status add_recording(Job& job, const std::string& name, std::string_view text) {
  Recording recording{.file = name};
  int number = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    at = end + 1;
    ++number;
    if (line.empty()) continue;
    const json object = json::parse(line, nullptr, false);
    if (!object.is_object()) return bad_input("{}:{}: no JSON object", name, number);
    if (number == 1)
      WEFT_CHECK(read_head(job, recording, object, name));
    else
      WEFT_CHECK(read_event(job, recording, object, name, number));
  }
  if (recording.world == 0) return bad_input("{}: no weft.rehearsal/1", name);
  job.world = recording.world;
  job.ranks.push_back(std::move(recording));
  std::ranges::sort(job.ranks, {}, &Recording::rank);
  return {};
}

std::string text_of(const Call& call) {
  std::string text = call.op;
  if (!call.type.empty()) text += fmt::format(" of {} {}", call.count, call.type);
  if (call.op == "send") text += fmt::format(" to rank {}", call.peer);
  if (call.op == "recv") text += fmt::format(" from rank {}", call.peer);
  std::string more = call.reduce;
  if (call.root >= 0) more += fmt::format("{}root {}", more.empty() ? "" : ", ", call.root);
  return more.empty() ? text : fmt::format("{} ({})", text, more);
}

}  // namespace weft::rehearsal
