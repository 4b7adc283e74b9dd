#include "exec/recorder/json.h"

#include "base/output_file.h"

namespace weft::recorder {
namespace {

using nlohmann::json;

std::string_view name(State state) {
  switch (state) {
    case State::kRunning:
      return "running";
    case State::kDone:
      return "done";
    case State::kFailed:
      return "failed";
  }
  return "";
}

double seconds(std::int64_t nanoseconds) { return static_cast<double>(nanoseconds) * 1e-9; }

json to_json(const Operation& o) {
  json j{{"number", o.number},     {"collective", o.collective}, {"count", o.count},
         {"type", o.type},         {"algorithm", o.algorithm},   {"protocol", o.protocol},
         {"channels", o.channels}, {"state", name(o.state)},     {"started_s", seconds(o.started)},
         {"finished_s", nullptr}};
  if (o.root >= 0) j["root"] = o.root;
  if (o.finished != 0) j["finished_s"] = seconds(o.finished);
  return j;
}

json to_json(const std::optional<Wait>& wait) {
  if (!wait) return nullptr;
  return {{"for", wait->peer},
          {"strand", wait->strand},
          {"step", wait->step},
          {"steps", wait->steps},
          {"since_s", seconds(wait->since)}};
}

json to_json(const Snapshot& s, const std::optional<TaggedWait>& wait) {
  json j{{"sends", s.sends}, {"receives", s.receives}, {"waits", nullptr}};
  if (wait)
    j["waits"] = {{"operation", wait->sends ? "send" : "receive"},
                  {"peer", wait->peer < 0 ? json("any") : json(wait->peer)},
                  {"tag", wait->tag < 0 ? json("any") : json(wait->tag)},
                  {"bytes", wait->bytes},
                  {"since_s", seconds(wait->since)}};
  return j;
}

json rank_to_json(Rank rank, const Snapshot* s, Doing doing) {
  json j{{"rank", rank}, {"doing", name(doing)}};
  if (s == nullptr) return j;
  j["pid"] = s->pid;
  j["program"] = s->program;
  j["taken_s"] = seconds(s->taken);
  j["operation"] = s->last() == nullptr ? json() : to_json(*s->last());
  j["waits"] = to_json(s->wait);
  j["tagged"] = to_json(*s, s->tagged);
  return j;
}

json to_json(const Standing& s) {
  json ranks = json::array(), late = json::array();
  for (std::size_t r = 0; r < s.ranks.size(); ++r)
    ranks.push_back(rank_to_json(static_cast<Rank>(r), s.ranks[r], s.doing[r]));
  for (const Late& l : s.late) late.push_back({{"rank", l.rank}, {"behind", l.behind}, {"why", l.why}});
  return {{"job", s.job}, {"communicator", s.group}, {"transport", s.transport},      {"ranks", ranks},
          {"late", late}, {"circle", s.circle},      {"disagreement", s.disagreement}};
}

}  // namespace

std::string_view name(Doing doing) {
  switch (doing) {
    case Doing::kUnrecorded:
      return "unrecorded";
    case Doing::kEnded:
      return "ended";
    case Doing::kStopped:
      return "stopped";
    case Doing::kIdle:
      return "idle";
    case Doing::kRunning:
      return "running";
    case Doing::kWaiting:
      return "waiting";
  }
  return "";
}

json to_json(const std::vector<Standing>& standings) {
  json all = json::array();
  for (const Standing& s : standings) all.push_back(to_json(s));
  return {{"schema", "weft.ps/1"}, {"communicators", all}};
}

json to_json(const Snapshot& s, const std::string& error) {
  json operations = json::array();
  for (const Operation& o : s.operations) operations.push_back(to_json(o));
  return {{"schema", "weft.record/1"},
          {"job", s.job},
          {"communicator", s.group},
          {"transport", s.transport},
          {"rank", s.rank},
          {"ranks", s.ranks},
          {"pid", s.pid},
          {"program", s.program},
          {"taken_s", seconds(s.taken)},
          {"error", error},
          {"waits", to_json(s.wait)},
          {"tagged", to_json(s, s.tagged)},
          {"operations", operations}};
}

Result<std::string> leave_record(const std::string& folder, const Snapshot& s, const std::string& error) {
  std::string group = s.group;
  for (char& c : group)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '-';
  const std::string path = fmt::format("{}/{}-{}-rank{}-{}.json", folder, s.job.substr(0, 16), group, s.rank, s.pid);
  WEFT_CHECK(write_file(path, to_json(s, error).dump(1, ' ', false, json::error_handler_t::replace) + "\n"));
  return path;
}

}  // namespace weft::recorder
