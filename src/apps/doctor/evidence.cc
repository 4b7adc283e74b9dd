#include "apps/doctor/evidence.h"

#include <algorithm>
#include <filesystem>

#include "apps/doctor/dump.h"
#include "apps/doctor/line.h"
#include "apps/doctor/machine_facts.h"
#include "apps/doctor/memory.h"
#include "apps/doctor/named.h"
#include "apps/doctor/pickle.h"
#include "apps/doctor/tables.h"
#include "apps/doctor/traceback.h"
#include "base/text_file.h"

namespace weft::doctor {
namespace {

using nlohmann::json;

constexpr std::uintmax_t kLargestFile = std::uintmax_t{2} << 30;
constexpr std::size_t kLongestLine = 4096;  // of a line, what is looked at

bool binary(std::string_view text) { return text.substr(0, 4096).find('\0') != std::string_view::npos; }

// Owners of words behind those of the rules.
enum Owner { kKnown, kJob, kRas, kTable, kTrouble, kPart, kMemory, kPitfall, kTool, kElastic, kOwners };

// Lines with one of these are of a known kind even where no rule finds anything in them.
constexpr std::string_view kKinds[] = {" NCCL ",    "NVRM",      "SXid",   "mlx5",   "[rank", "[Rank", "ProcessGroup",
                                       "Link ",     "GPU",       "State",  "state",  "Rate",  "# ",    "NV1",
                                       "SYS",       "PHB",       "CA ",    "Speed",  "rx_",   "tx_",   "kernel:",
                                       "Traceback", "  File \"", "LnkSta", "ACSCtl", "slurm", "srun:", "torchrun",
                                       "frame #",   "net.",      "PCI",    "<pci",   "<gpu",  "<nic",  "<net"};
constexpr std::string_view kRasWords[] = {"MISMATCH",         "INCOMPLETE",      "DEAD",
                                          "operation counts", "up to operation", "managed by process",
                                          "managing GPU",     "considered dead", "Missing communicator",
                                          "not launched any", "RUNNING"};

}  // namespace

Evidence::Evidence(std::vector<Rule> rules) : rules_(std::move(rules)), counts_(rules_.size()), ranks_(rules_.size()) {
  const auto owner = [&](int kind) { return static_cast<int>(rules_.size()) + kind; };
  for (std::size_t r = 0; r < rules_.size(); ++r)
    for (const std::string& word : rules_[r].words) words_.add(word, static_cast<int>(r));
  for (const std::string_view word : kKinds) words_.add(word, owner(kKnown));
  for (const std::string_view word : Job::words()) words_.add(word, owner(kJob));
  for (const std::string_view word : kRasWords) words_.add(word, owner(kRas));
  for (const std::string_view word : table_words()) words_.add(word, owner(kTable));
  for (const std::string_view word : {"# OSU ", "# Benchmarking "}) words_.add(word, owner(kTable));
  for (const std::string_view word : trouble_words()) words_.add(word, owner(kTrouble));
  for (const std::string_view word : kPartWords) words_.add(word, owner(kPart));
  words_.add("by PyTorch", owner(kMemory));
  for (const std::string_view word : Pitfalls::words()) words_.add(word, owner(kPitfall));
  for (const std::string_view word : ToolStates::words()) words_.add(word, owner(kTool));
  for (const std::string_view word : ElasticSummary::words()) words_.add(word, owner(kElastic));
  words_.build();
  hit_.assign(rules_.size() + kOwners, 0);
}

bool Evidence::has(std::string_view id) const {
  const auto there = [&](std::string_view name) {
    const auto at = std::ranges::find(rules_, name, &Rule::id);
    return at != rules_.end() && counts_[static_cast<std::size_t>(at - rules_.begin())] > 0;
  };
  const auto rule = std::ranges::find(rules_, id, &Rule::id);
  return there(id) && std::ranges::none_of(rule->without, there);
}

void Evidence::found(std::string_view id, Fact fact) {
  const auto at = std::ranges::find(rules_, id, &Rule::id);
  if (at == rules_.end()) return;
  fact.rule = static_cast<std::size_t>(at - rules_.begin());
  keep(std::move(fact));
}

void Evidence::keep(Fact fact, std::size_t times) {
  if (fact.rank >= 0) ranks_[fact.rule].insert(fact.rank);
  std::size_t& count = counts_[fact.rule];
  if (count < kMostFacts) facts_.push_back(std::move(fact));
  count += times;
}

void Evidence::forget(std::string_view rule, const std::string& file, int line) {
  const auto at = std::ranges::find(rules_, rule, &Rule::id);
  if (at == rules_.end()) return;
  const auto number = static_cast<std::size_t>(at - rules_.begin());
  counts_[number] -= std::erase_if(facts_, [&](const Fact& fact) {
    return fact.rule == number && fact.line == line && fact.file == file && !fact.text.starts_with("weft: ");
  });
}

Status Evidence::add_path(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code none;
  std::vector<fs::path> files;
  const bool folder = fs::is_directory(path, none);
  if (folder) {
    for (fs::recursive_directory_iterator at(path, fs::directory_options::skip_permission_denied, none), end;
         !none && at != end; at.increment(none))
      if (at->is_regular_file(none)) files.push_back(at->path());
    std::ranges::sort(files);
    if (files.empty()) return bad_input("{}: the folder has no files", path);
  } else {
    files.emplace_back(path);
  }
  const std::size_t unread = left_out_.size();
  for (const fs::path& file : files) {
    auto text = read_text_file(file, kLargestFile);
    const std::string problem = !text ? text.error().message : add_file(file.string(), std::move(*text));
    if (problem.empty()) continue;
    unread_.emplace_back(file.string(), problem);
    if (!folder) return bad_input("{}", problem);
    left_out_.push_back(problem);
  }
  if (folder && left_out_.size() - unread == files.size())
    return bad_input("{}: no file of the folder can be read: {}", path, left_out_[unread]);
  return {};
}

void Evidence::add_text(const std::string& file, std::string_view text) {
  if (const auto problem = add_document(file, text)) {
    if (!problem->empty()) left_out_.push_back(*problem);
    return;
  }
  ++files_;
  parts_.clear();
  rows_ = 0;
  judge_machine(file, text);
  const auto understood = not_understood_;
  const bool markup =
      text.starts_with('<') && (text.find("<system") != text.npos || text.find("<topology") != text.npos);
  int number = 0;
  while (!text.empty()) {
    const auto end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    ++number;
    while (!line.empty()) {  // progress bars print several lines in one, with carriage returns between
      const auto part = line.find('\r');
      if (part != 0) add_line(file, number, line.substr(0, std::min(part, kLongestLine)));
      line.remove_prefix(part == std::string_view::npos ? line.size() : part + 1);
    }
  }
  if (markup) not_understood_ = understood;  // of a machine, which is read as a whole
  if (rows_ > 0) tables_.push_back(file);
}

std::optional<std::string> Evidence::add_document(const std::string& file, std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos || text[first] != '{') return std::nullopt;
  const bool dump = looks_like_dump(text);
  Dump read = dump ? read_dump(text) : Dump{.document = json::parse(text, nullptr, false), .damage = {}};
  const bool nothing = dump && read.document["entries"].empty() && !read.damage.empty();
  const std::string problem = nothing ? fmt::format("{}: {}", file, read.damage) : "";
  if (!add_dump(file, read.document, std::move(read.damage))) return std::nullopt;
  ++files_;
  return problem;
}

void Evidence::judge_machine(const std::string& file, std::string_view text) {
  std::string devices;
  for (MachineFact& one : machine_facts(file, text, &devices))
    found(one.rule, {.file = file, .text = std::move(one.text), .source = "topology", .line = one.line});
  if (!devices.empty()) notes_.push_back(fmt::format("{}: judged as a machine of {}", file, devices));
}

void Evidence::add_machine(const std::string& file, const topology::Topology& machine) {
  for (MachineFact& one : judge(machine))
    found(one.rule, {.file = file, .text = std::move(one.text), .source = "topology", .line = one.line});
  notes_.push_back(fmt::format("{}: judged as a machine of {}", file, devices_of(machine)));
}

// Rules among hits_ that find the line. A rule that gives way is not among them where another root is.
std::vector<int> Evidence::matching(std::string_view line) const {
  std::vector<int> found;
  for (const int owner : hits_) {
    if (owner >= static_cast<int>(rules_.size())) break;
    if (rules_[static_cast<std::size_t>(owner)].matches(line)) found.push_back(owner);
  }
  const auto rule = [&](int owner) -> const Rule& { return rules_[static_cast<std::size_t>(owner)]; };
  const bool named = std::ranges::any_of(found, [&](int owner) {
    const Rule& r = rule(owner);
    return r.role == Role::kRoot && !r.gives_way && r.needs.empty() && r.without.empty();
  });
  if (named) std::erase_if(found, [&](int owner) { return rule(owner).gives_way; });
  return found;
}

// The end of a communicator's initialization, which several hosts log, relates their clocks.
void Evidence::note_init(std::string_view text, const Process& process, std::string_view original) {
  if (text.find("Init COMPLETE") == std::string_view::npos || process.host.empty()) return;
  const auto at = text.find("commId ");
  if (at == std::string_view::npos) return;
  if (const auto when = moment_of(original); when && when->has_year)
    clocks_.event(std::string(text.substr(at, text.find_first_of(" -", at + 7) - at)), std::string(process.host),
                  when->seconds);
}

void Evidence::add_line(const std::string& file, int number, std::string_view original) {
  ++lines_;
  if (++line_ == 0) {  // the counter is round: forget old hits
    std::ranges::fill(hit_, 0);
    line_ = 1;
  }
  hits_.clear();
  words_.find(original, [&](int owner) {
    if (std::exchange(hit_[static_cast<std::size_t>(owner)], line_) != line_) hits_.push_back(owner);
  });
  if (hits_.empty()) {
    ++not_understood_;
    return;
  }
  const int rules = static_cast<int>(rules_.size());
  const auto hit = [&](Owner kind) { return hit_[static_cast<std::size_t>(rules + kind)] == line_; };
  std::ranges::sort(hits_);
  const Line line = strip_launcher(original);
  bool understood = hit(kKnown);
  if (hit(kPart)) parts_.line(line.text, number);
  std::optional<Fact> fact;  // what all rules' facts of this line have in common
  std::optional<Process> process;
  std::vector<int> missing;
  for (const int owner : matching(line.text)) {
    understood = true;
    if (!fact) {
      process = process_of(line.text);
      fact = Fact{.file = file,
                  .text = std::string(original),
                  .source = std::string(source_of(line.text)),
                  .line = number,
                  .rank = line.rank};
      fact->host = process->host.empty() ? line.host : process->host;
      if (fact->host.empty()) fact->host = syslog_host(line.text);
      fact->process = process->key;
      for (const std::string_view word : {"[Rank ", "[rank", " Rank ", ":rank "})
        if (fact->rank < 0) fact->rank = number_behind(line.text, word);
      if (fact->rank < 0) fact->rank = blamed_by_weft(line.text);
      missing = missing_ranks(line.text);
      if (line.text.find("by subset of ranks") != std::string_view::npos) fact->rank = -1;
      fact->peer = peer_named(line.text);
      fact->part = parts_.of(line.text, number);
      if (auto [nic, name] = nic_and_name(line.text); !nic.empty() && !name.empty())
        nics_.emplace(std::pair(fact->host, std::move(nic)), std::move(name));
      if (const auto moment = moment_of(original)) {
        fact->time = moment->shown;
        fact->at = moment->seconds;
      }
    }
    fact->rule = static_cast<std::size_t>(owner);
    if (missing.empty()) keep(*fact, times_named(line.text));
    for (const int rank : missing) {
      fact->rank = rank;
      keep(*fact);
    }
  }
  if (hit(kJob)) {
    if (!process) process = process_of(line.text);
    job_.line(line, *process, file, number);
    note_init(line.text, *process, original);
  }
  if (hit(kTool)) tools_.line(line.text, file, number);
  if (hit(kElastic)) elastic_.line(line.text, file, number);
  if (hit(kPitfall)) {
    if (!process) process = process_of(line.text);
    pitfalls_.line(line, *process, file, number);
  }
  if (hit(kRas)) understood = ras_.line(line.text, file, number) || understood;
  if (hit(kTable)) {
    understood = true;
    if (is_row(line.text)) ++rows_;
    if (has_wrong_elements(line.text))
      found("F155", {.file = file, .text = std::string(original), .source = "table", .line = number});
  }
  if (hit(kMemory)) fragmented(file, number, original);
  const bool traced = hit(kTrouble) && in_traceback(file, number, original, fact.has_value());
  if (!fact && hit(kTrouble) && !hit(kTable) && !traced) keep_unknown(file, number, original);
  understood = understood || traced;
  if (!understood && !hit(kJob)) ++not_understood_;
}

void Evidence::fragmented(const std::string& file, int number, std::string_view original) {
  const Line line = strip_launcher(original);
  const std::string text = fragmentation(line.text);
  if (text.empty()) return;
  Fact fact{.file = file, .text = text, .source = "pytorch", .line = number, .rank = line.rank};
  for (const std::string_view word : {"[Rank ", "[rank"})
    if (fact.rank < 0) fact.rank = number_behind(line.text, word);
  found("G19", std::move(fact));
}

Fact Evidence::plain_fact(const std::string& file, int number, std::string_view original) {
  const Line line = strip_launcher(original);
  const Process process = process_of(line.text);
  Fact fact{.file = file,
            .text = std::string(original),
            .source = std::string(source_of(line.text)),
            .line = number,
            .rank = line.rank,
            .process = process.key};
  fact.host = process.host.empty() ? line.host : process.host;
  if (fact.host.empty()) fact.host = syslog_host(line.text);
  for (const std::string_view word : {"[Rank ", "[rank", " Rank ", ":rank "})
    if (fact.rank < 0) fact.rank = number_behind(line.text, word);
  if (const auto moment = moment_of(original)) {
    fact.time = moment->shown;
    fact.at = moment->seconds;
  }
  return fact;
}

bool Evidence::in_traceback(const std::string& file, int number, std::string_view original, bool known) {
  const Line line = strip_launcher(original);
  switch (traceback_part(line.text)) {
    case TracebackPart::kNone:
      return false;
    case TracebackPart::kBegin:
      if (!known) open_tracebacks_.insert_or_assign({file, line.rank}, plain_fact(file, number, original));
      return true;
    case TracebackPart::kFrame:
      return true;
    case TracebackPart::kException:
      break;
  }
  if (line.rank >= 0 && open_tracebacks_.erase({file, line.rank}) > 0) return false;
  std::erase_if(open_tracebacks_,
                [&](const auto& one) { return one.first.first == file && (line.rank < 0 || one.first.second < 0); });
  return false;
}

void Evidence::keep_unknown(const std::string& file, int number, std::string_view original) {
  constexpr std::size_t kMostUnknown = 4096;
  const Trouble trouble = trouble_of(strip_launcher(original).text);
  if (trouble == Trouble::kNone) return;
  ++unknown_lines_;
  Fact fact = plain_fact(file, number, original);
  // The first of a rank, and the first of the worst kind.
  for (const Unknown& other : unknown_)
    if (other.fact.rank == fact.rank && other.fact.process == fact.process &&
        (fact.rank >= 0 || !fact.process.empty() || other.fact.file == file) && other.trouble >= trouble)
      return;
  if (unknown_.size() < kMostUnknown) unknown_.push_back({std::move(fact), trouble});
}

void Evidence::settle_unknown() {
  for (auto& [where, fact] : open_tracebacks_) {  // the exception that would end them is not in the evidence
    unknown_.push_back({std::move(fact), Trouble::kError});
    ++unknown_lines_;
  }
  for (Unknown& one : unknown_)
    if (one.fact.rank < 0 && !one.fact.process.empty()) one.fact.rank = job_.rank_of(one.fact.process);
  const auto ahead = clocks_.ahead();
  for (Unknown& one : unknown_)
    if (const auto host = ahead.find(one.fact.host); one.fact.at && host != ahead.end()) *one.fact.at -= host->second;
  std::ranges::stable_sort(unknown_, [](const Unknown& a, const Unknown& b) {
    if (a.fact.at && b.fact.at && *a.fact.at != *b.fact.at) return *a.fact.at < *b.fact.at;
    return !(a.fact.at && b.fact.at) && a.trouble > b.trouble;
  });
}

std::string Evidence::add_file(const std::string& file, std::string text) {
  if (is_pickle(text)) return add_pickle(file, text);
  if (Traces::is_trace(text)) {
    const Status added = traces_.add(file);
    if (!added) return added.error().message;
    ++files_;
    return {};
  }
  if (binary(text)) return fmt::format("{}: a binary file", file);
  if (text.empty()) return fmt::format("{}: an empty file", file);
  text = plain_text(std::move(text));
  if (const auto problem = add_document(file, text)) return *problem;
  add_text(file, text);
  return {};
}

std::string Evidence::add_pickle(const std::string& file, std::string_view text) {
  const auto dump = read_pickle(text);
  if (!dump) return fmt::format("{}: {}", file, dump.error().message);
  if (!add_dump(file, *dump)) return fmt::format("{}: a pickle that is no flight recorder's dump", file);
  ++files_;
  return {};
}

bool Evidence::add_dump(const std::string& file, const json& dump, std::string damage) {
  if (const std::string* const error = records_.add(file, dump)) {
    add_line(file, 1, std::string_view(*error).substr(0, kLongestLine));
    return true;
  }
  const auto before = recorder_.entries();
  const auto added = recorder_.add(file, dump, std::move(damage));
  if (added == Recorder::Added::kTwice)
    left_out_.push_back(fmt::format("{}: a second dump of one rank, perhaps of another job", file));
  lines_ += recorder_.entries() - before;
  return added != Recorder::Added::kNoDump;
}

// Years, where a line prints none, and what a host's clock is ahead.
void Evidence::settle_times() {
  int year = 0;
  for (const Fact& fact : facts_)
    if (fact.time.size() > 4 && fact.time[4] == '-') year = std::max(year, number_at(fact.time, 0));
  for (Fact& fact : facts_)
    if (fact.at && fact.time.size() > 2 && fact.time[2] == '-' && year > 0) {
      const Moment settled = with_year({*fact.at, false, fact.time}, year);
      fact.at = settled.seconds;
      fact.time = settled.shown;
    }
  const auto ahead = clocks_.ahead();
  for (Fact& fact : facts_)
    if (const auto host = ahead.find(fact.host); fact.at && host != ahead.end()) *fact.at -= host->second;
  for (const auto& [host, seconds] : ahead)
    found("F090", {.file = "(clocks)",
                   .text = fmt::format("the clock of {} is {:.1f} s {} the others; its times were shifted", host,
                                       std::abs(seconds), seconds > 0 ? "ahead of" : "behind"),
                   .host = host,
                   .source = "nccl"});
}

void Evidence::finish() {
  for (const auto& [file, line] : elastic_.not_first())
    for (const std::string_view rule : {"W06", "W09", "F012"}) forget(rule, file, line);
  for (Fact& fact : facts_) {
    if (fact.rank < 0)
      if (auto place = elastic_.place_of(fact.file, fact.line); place.rank >= 0)
        fact.rank = place.rank, fact.host = std::move(place.host);
    if (const auto name = nics_.find({fact.host, fact.part}); name != nics_.end()) fact.part = name->second;
    if (fact.rank < 0 && !fact.process.empty()) fact.rank = job_.rank_of(fact.process);
    if (fact.rank >= 0) ranks_[fact.rule].insert(fact.rank);
  }
  const Finder finder = [this](std::string_view id, Fact fact) { found(id, std::move(fact)); };
  job_.finish(finder);
  ras_.finish(finder);
  pitfalls_.finish(finder);
  tools_.finish(finder);
  elastic_.finish(finder);
  for (const auto& [file, why] : unread_) recorder_.add_unread(file, why.substr(std::min(why.size(), file.size() + 2)));
  recorder_.finish(finder);
  for (std::string& open : recorder_.not_known()) notes_.push_back(std::move(open));
  traces_.finish(finder);
  records_.finish(finder);
  settle_times();
  settle_unknown();
  if (const std::string mixed = job_.mixed(); !mixed.empty()) notes_.push_back(mixed);
}

}  // namespace weft::doctor
