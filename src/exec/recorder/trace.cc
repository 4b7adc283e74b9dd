#include "exec/recorder/trace.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "exec/recorder/rails.h"
#include "exec/recorder/recorder.h"

namespace weft::recorder {
namespace {

constexpr std::size_t kKept = 4096;
constexpr int kStrandLanes = 1;  // lane 0 holds calls and, inside of them, waits; strands follow

constexpr struct {
  const char* name;
  Category category;
} kCategories[] = {{"call", Category::kCall}, {"wait", Category::kWait}, {"move", Category::kMove}};

const char* name(Category category) {
  for (const auto& known : kCategories)
    if (known.category == category) return known.name;
  return "";
}

Result<std::string> file_name(const std::string& pattern, const Identity& identity) {
  std::string name;
  bool tells_ranks_apart = false;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '%') {
      name += pattern[i];
      continue;
    }
    const char what = ++i < pattern.size() ? pattern[i] : ' ';
    tells_ranks_apart |= what == 'r';
    if (what == 'r') {
      name += std::to_string(identity.rank);
    } else if (what == 'p') {
      name += std::to_string(getpid());
    } else if (what == 'g') {
      for (const char c : identity.group) name += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '-';
    } else {
      return bad_input("WEFT_TRACE '{}': after % stands r (rank), p (process) or g (communicator)", pattern);
    }
  }
  if (!tells_ranks_apart) return bad_input("WEFT_TRACE '{}' has no %r, so ranks would share a file", pattern);
  return name;
}

// Never a file that is there: it may be another communicator's of the same name.
Result<std::FILE*> create(const std::string& wanted) {
  constexpr int kMostNeighbours = 10000;
  for (int n = 1; n <= kMostNeighbours; ++n) {
    const std::string path = n == 1 ? wanted : fmt::format("{}.{}", wanted, n);
    if (std::FILE* file = std::fopen(path.c_str(), "wxe")) return file;
    if (errno != EEXIST) return bad_input("WEFT_TRACE: cannot write {}: {}", path, std::strerror(errno));
  }
  return bad_input("WEFT_TRACE: there are {} files called {} already", kMostNeighbours, wanted);
}

std::string microseconds(std::int64_t nanoseconds) {
  return fmt::format("{}.{:03}", nanoseconds / 1000, nanoseconds % 1000);
}

std::string name_of(const Move& m) {
  const auto more = [](int count) { return count > 1 ? fmt::format(" +{}", count - 1) : std::string(); };
  std::string text = m.from >= 0 ? fmt::format("from {}", m.from) : m.sources > 1 ? "add" : "copy";
  if (m.from >= 0 && m.sources > 1) text += ", add";
  if (m.to >= 0) text += fmt::format(", to {}{}", m.to, more(m.destinations));
  return text;
}

}  // namespace

Result<unsigned> parse_categories(const std::string& text) {
  unsigned mask = 0;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    const std::string word = text.substr(at, comma - at);
    at = comma + 1;
    unsigned found = 0;
    for (const auto& known : kCategories)
      if (word == known.name || word == "all") found |= static_cast<unsigned>(known.category);
    if (found == 0) return bad_input("'{}' in '{}' is no category of a trace: call, wait, move, all", word, text);
    mask |= found;
  }
  return mask;
}

Trace::Trace(std::FILE* file, const Identity& identity, unsigned categories, const Anchor& opened)
    : file_(file),
      rank_(identity.rank),
      over_sockets_(identity.transport.find("tcp") != std::string::npos),
      categories_(categories),
      opened_(opened) {
  events_.reserve(kKept);
}

Result<std::unique_ptr<Trace>> Trace::open(const TraceOptions& options, const Identity& identity) {
  WEFT_TRY(const std::string path, file_name(options.pattern, identity));
  WEFT_TRY(std::FILE* const file, create(path));
  const Anchor opened = Anchor::now();
  char host[64] = {};
  gethostname(host, sizeof host - 1);
  const auto metadata = [&](const char* what, int lane, const nlohmann::json& arguments) {
    const nlohmann::json event{{"name", what}, {"ph", "M"}, {"pid", identity.rank}, {"tid", lane}, {"args", arguments}};
    fmt::print(file, "{},\n", event.dump());
  };
  fmt::print(file, "[\n");
  metadata("weft", 0,
           {{"schema", "weft.trace/1"},
            {"job", identity.job},
            {"communicator", identity.group},
            {"transport", identity.transport},
            {"rank", identity.rank},
            {"ranks", identity.ranks},
            {"opened_ns", opened.real}});
  metadata("process_name", 0, {{"name", fmt::format("rank {} (process {} on {})", identity.rank, getpid(), host)}});
  metadata("process_sort_index", 0, {{"sort_index", identity.rank}});
  metadata("thread_name", 0, {{"name", "calls"}});
  std::fflush(file);  // a rank that is killed leaves at least that
  return std::unique_ptr<Trace>(new Trace(file, identity, options.categories, opened));
}

void Trace::write_rails() {
  if (!over_sockets_) return;
  const nlohmann::json rails = with_idle(rails_of(getpid()));
  const nlohmann::json event{
      {"name", "weft links"}, {"ph", "M"}, {"pid", rank_}, {"tid", 0}, {"args", {{"links", rails}}}};
  fmt::print(file_, "{},\n", event.dump());
}

Trace::~Trace() {
  write();
  std::fclose(file_);
}

void Trace::keep(Event event) {
  events_.push_back(std::move(event));
  if (events_.size() >= kKept) write();
}

void Trace::call(std::string name, std::string arguments, std::uint64_t begin, std::uint64_t end) {
  keep({Category::kCall, 0, begin, end, {}, std::move(name), std::move(arguments)});
}
void Trace::wait(int peer, std::uint64_t begin, std::uint64_t end) {
  keep({Category::kWait, peer, begin, end, {}, {}, {}});
}
void Trace::move(int strand, const Move& move, std::uint64_t begin, std::uint64_t end) {
  keep({Category::kMove, strand, begin, end, move, {}, {}});
}

void Trace::write() {
  const Timescale scale(opened_, Anchor::now());
  for (const Event& e : events_) {
    std::string text, arguments = e.arguments;
    int lane = 0;
    if (e.category == Category::kCall) text = e.name;
    if (e.category == Category::kWait) {
      text = fmt::format("wait for {}", e.lane);
      arguments = fmt::format("\"for\":{}", e.lane);
    }
    if (e.category == Category::kMove) {
      text = name_of(e.move);
      lane = kStrandLanes + e.lane;
      arguments = fmt::format("\"bytes\":{}", e.move.bytes);
    }
    const std::int64_t begin = scale.real(e.begin);  // times count from the trace's opening: a double holds them
    fmt::print(file_,
               "{{\"name\":\"{}\",\"cat\":\"{}\",\"ph\":\"X\",\"ts\":{},\"dur\":{},\"pid\":{},\"tid\":{},"
               "\"args\":{{{}}}}},\n",
               text, name(e.category), microseconds(begin - opened_.real), microseconds(scale.real(e.end) - begin),
               rank_, lane, arguments);
  }
  events_.clear();
  std::fflush(file_);
}

}  // namespace weft::recorder
