#include "apps/rehearsal/recording.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>

#include "apps/rehearsal/trace.h"
#include "plan/schedule/collective.h"

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
    if (!(value >= 0 && value < 1e30)) fail(key, "it is 0 or more");
    return value;
  }
  bool has(const char* key) const { return object_.contains(key); }
  bool yes(const char* key) { return get<bool>(key, false); }
  std::vector<std::int64_t> integers(const char* key) { return get<std::vector<std::int64_t>>(key, {}); }

  Status status() const {
    if (wrong_.empty()) return {};
    return bad_input("{}:{}: {}", file_, line_, wrong_);
  }
  // `why`: what the value should be.
  void fail(const char* key, const std::string& why) {
    if (!wrong_.empty()) return;
    const auto found = object_.find(key);
    constexpr std::size_t kShown = 60;
    std::string value =
        found == object_.end() ? "missing" : found->dump(-1, ' ', false, json::error_handler_t::replace);
    if (value.size() > kShown) value = value.substr(0, kShown) + " …";
    wrong_ = fmt::format("'{}' is {}: {}", key, value, why);
  }

 private:
  template <class T>
  T get(const char* key, T otherwise) {
    const auto found = object_.find(key);
    if (found == object_.end()) return otherwise;
    try {
      return found->template get<T>();
    } catch (const json::exception&) {
      fail(key, fmt::format("it is {}", kind_of(otherwise)));
      return otherwise;
    }
  }

  static const char* kind_of(const std::string&) { return "a text"; }
  static const char* kind_of(bool) { return "true or false"; }
  static const char* kind_of(std::int64_t) { return "an integer"; }
  static const char* kind_of(double) { return "a number"; }
  static const char* kind_of(const std::vector<std::int64_t>&) { return "a list of integers"; }

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
    if (rank < 0 || rank >= recording.world)
      in.fail("ranks", fmt::format("there are ranks 0 to {}", recording.world - 1));
    ranks.push_back(static_cast<Rank>(rank));
  }
  std::vector<Rank> sorted = ranks;
  std::ranges::sort(sorted);
  if (std::ranges::adjacent_find(sorted) != sorted.end()) in.fail("ranks", "a rank is a member once");
  if (ranks.empty()) in.fail("ranks", "a group has members");
  if (!in.has("group")) in.fail("group", "the group's number");
  if (!in.status()) return;
  const int group = group_of(job, recording, ranks, in.text("line"));
  recording.groups[static_cast<int>(in.integer("group", -1))] = group;
  recording.made.push_back(group);
}

// Bytes of an element; nothing: no type is called so. torch's names, and weft's.
std::optional<int> element_bytes(const std::string& type) {
  static const std::map<std::string, int> kWords = {{"bool", 1}, {"half", 2}, {"float", 4}, {"tf32", 4}, {"double", 8}};
  if (const auto found = kWords.find(type); found != kWords.end()) return found->second;
  for (const std::string_view family : {"bfloat", "float", "complex", "uint", "int", "fp", "qint", "quint"}) {
    if (!type.starts_with(family)) continue;
    int bits = 0;
    const char* const end = type.data() + type.size();
    const auto [after, error] = std::from_chars(type.data() + family.size(), end, bits);
    if (error == std::errc() && (after == end || *after == '_' || *after == 'f') && bits > 0 && bits <= 128)
      return std::max(1, bits / 8);
  }
  return std::nullopt;
}

bool known_operation(const Call& call) {
  return call.message() || call.op.ends_with("_object") || call.op.ends_with("_object_list") ||
         call.op == "monitored_barrier" || call.op == "new_group" || schedule::parse_collective(call.op).has_value();
}

// The larger side has the elements of one rank at least, and those of all at most.
void check_size(const Call& call, std::size_t members, Fields& in) {
  if (!call.sends.empty() && call.sends.size() != members)
    in.fail("sends", fmt::format("one for each of {} members", members));
  if (!call.receives.empty() && call.receives.size() != members)
    in.fail("receives", fmt::format("one for each of {} members", members));
  if (call.count < 0) in.fail("count", "it is 0 or more");
  if (call.bytes < 0) in.fail("bytes", "it is 0 or more");
  if (call.type.empty()) return;
  const auto size = element_bytes(call.type);
  if (!size) return in.fail("type", "no type of elements is called so");
  if (!in.has("count")) in.fail("count", "the elements of this rank");
  constexpr std::int64_t kMost = std::int64_t{1} << 50;
  if (call.count > kMost) in.fail("count", "it is 2^50 at most");
  const Bytes least = call.count * *size;
  const bool even = call.sends.empty() && call.receives.empty();
  if (even && call.count <= kMost && (call.bytes < least || call.bytes / static_cast<Bytes>(members) > least))
    in.fail("bytes", fmt::format("{} {} of {} members have {} to {}", call.count, call.type, members, least,
                                 static_cast<double>(least) * static_cast<double>(members)));
}

void read_call(const Job& job, Recording& recording, Fields& in, Event& event) {
  Call call{.op = in.text("op"), .type = in.text("type"), .reduce = in.text("reduce")};
  const auto group = recording.groups.find(static_cast<int>(in.integer("group", -1)));
  if (group == recording.groups.end()) return in.fail("group", "no group of this file has that number");
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
  if (!known_operation(call)) in.fail("op", "no operation of torch.distributed is called so");
  check_size(call, members.size(), in);
  if (std::ranges::find(members, recording.rank) == members.end())
    in.fail("group", fmt::format("rank {} is no member of it", recording.rank));
  if (call.message() && (call.peer < 0 || call.peer >= recording.world))
    in.fail("peer", fmt::format("there are ranks 0 to {}", recording.world - 1));
  event.kind = Event::Kind::kCall;
  event.number = in.integer("id", -1);
  if (!in.has("id")) in.fail("id", "the call's number, which its wait names");
  if (!recording.numbers.insert(event.number).second) in.fail("id", "another call of this file has that number");
  event.index = static_cast<int>(recording.calls.size());
  recording.calls.push_back(std::move(call));
}

void read_wait(const Recording& recording, Fields& in, Event& event) {
  event.kind = Event::Kind::kWait;
  event.number = in.integer("id", -1);
  if (!recording.numbers.contains(event.number)) in.fail("id", "no call before this line has that number");
}

void read_kernel(Recording& recording, Fields& in, Event& event) {
  Kernel kernel{.op = in.text("op"), .kind = in.text("class"), .type = in.text("type")};
  kernel.seconds = in.number("seconds");
  kernel.flops = in.number("flops");
  kernel.bytes = in.number("bytes");
  kernel.m = in.number("m");
  kernel.n = in.number("n");
  kernel.k = in.number("k");
  kernel.groups = in.number("groups", 1);
  constexpr std::string_view kClasses[] = {"gemm",  "attention", "attention_backward", "flops", "memory",
                                           "fixed", "idle"};
  if (std::ranges::find(kClasses, kernel.kind) == std::end(kClasses))
    in.fail("class", "one of gemm, attention, attention_backward, flops, memory, fixed and idle");
  if (!kernel.type.empty() && !element_bytes(kernel.type)) in.fail("type", "no type of elements is called so");
  const double product = 2 * kernel.m * kernel.n * kernel.k * kernel.groups;
  constexpr double kFactor = 4;  // operations beside the product, such as a bias, are far from that
  if (kernel.kind == "gemm" && (kernel.flops > product * kFactor || kernel.flops * kFactor < product))
    in.fail("flops", fmt::format("m, n, k and groups give {:g}", product));
  const bool kept = kernel.kind == "fixed" || kernel.kind == "idle";
  if (kernel.seconds > 0 && !kept && recording.card.empty())
    in.fail("seconds", "the first line names no card on which it was measured");
  if (in.yes("causal")) kernel.flops *= 0.5;  // half of the scores lie above the diagonal
  event.kind = Event::Kind::kKernel;
  event.index = static_cast<int>(recording.kernels.size());
  recording.kernels.push_back(std::move(kernel));
}

Status read_event(Job& job, Recording& recording, const json& object, const std::string& name, int number) {
  if (recording.ended) return bad_input("{}:{}: a line after the recording's end", name, number);
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
  if (kind == "held") {
    recording.held.push_back({in.text("category"), in.text("module"), in.integer("bytes")});
    if (recording.held.back().bytes < 0) in.fail("bytes", "it is 0 or more");
    return in.status();
  }
  if (kind == "note" || kind == "end") {
    if (kind == "note") recording.notes.push_back({in.text("text"), event.line});
    if (kind == "end") recording.ended = true, recording.error = in.text("error"), recording.error_line = event.line;
    return in.status();
  }
  if (kind == "call") {
    read_call(job, recording, in, event);
  } else if (kind == "kernel") {
    read_kernel(recording, in, event);
  } else if (kind == "wait") {
    read_wait(recording, in, event);
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
  if (in.text("schema") != "weft.rehearsal/1") return bad_input("{}:1: no weft.rehearsal/1", name);
  recording.rank = static_cast<Rank>(in.integer("rank", -1));
  const std::int64_t world = in.integer("world");
  recording.script = in.text("script");
  recording.card = in.text("card");
  if (world < 1 || world > kMostRanks) in.fail("world", fmt::format("1 to {} ranks", kMostRanks));
  recording.world = static_cast<Rank>(world);
  if (recording.rank < 0 || recording.rank >= recording.world)
    in.fail("rank", fmt::format("there are ranks 0 to {}", recording.world - 1));
  WEFT_CHECK(in.status());
  if (job.world != 0 && job.world != recording.world)
    return bad_input("{}: of {} ranks, the files before it of {}", name, recording.world, job.world);
  if (const Recording* other = job.of(recording.rank))
    return bad_input("{}: rank {} again, which {} has", name, recording.rank, other->file);
  if (!job.ranks.empty() && job.card != recording.card)
    return bad_input("{}: of card '{}', the files before it of '{}'", name, recording.card, job.card);
  return {};
}

}  // namespace

Bytes element_bytes_of(const std::string& type) { return element_bytes(type).value_or(0); }

const Recording* Job::of(Rank rank) const {
  const auto found = std::ranges::find(ranks, rank, &Recording::rank);
  return found == ranks.end() ? nullptr : &*found;
}

Status add_recording(Job& job, const std::string& name, std::string_view text) {
  if (is_profile(text)) {
    WEFT_TRY(const std::string recording, recording_of_profile(name, text));
    return add_recording(job, name, recording);
  }
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
  if (!recording.ended) recording.error = "its recording has no end: the rank was killed, or the file is cut";
  job.world = recording.world;
  job.card = recording.card;
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
