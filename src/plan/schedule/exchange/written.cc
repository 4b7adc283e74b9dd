#include "plan/schedule/exchange/written.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <tuple>

#include "base/text.h"
#include "base/text_file.h"
#include "plan/schedule/exchange/msccl_xml.h"
#include "plan/schedule/exchange/mscclpp_read.h"
#include "plan/schedule/exchange/schedule_json.h"

namespace weft::schedule {
namespace {

using Strands = std::vector<std::vector<Step>>;

// Every order becomes a signal of one lane after its step, and a wait of the other before its own; what an earlier wait
// for the same lane has seen already needs none.
Strands with_signals(const Schedule& s) {
  std::vector<std::map<std::int32_t, std::vector<Step>>> before(s.strands.size()), after(s.strands.size());
  std::map<std::pair<std::int32_t, std::int32_t>, std::int32_t> seen;  // by waiting strand and lane waited for
  for (const Order& o : s.orders) {
    const auto [latest, first] = seen.try_emplace({o.strand, o.lane}, o.after);
    if (!first && o.after <= latest->second) continue;
    latest->second = o.after;
    const Rank rank = o.strand / s.lanes;
    before[static_cast<std::size_t>(o.strand)][o.step].push_back(wait(rank, o.lane));
    after[static_cast<std::size_t>(rank * s.lanes + o.lane)][o.after].push_back(signal(rank, o.strand % s.lanes));
  }
  Strands strands(s.strands.size());
  for (std::size_t i = 0; i < strands.size(); ++i) {
    const auto add = [&](const auto& steps, std::int32_t at) {
      if (const auto found = steps.find(at); found != steps.end())
        strands[i].insert(strands[i].end(), found->second.begin(), found->second.end());
    };
    for (std::size_t step = 0; step < s.strands[i].size(); ++step) {
      add(before[i], static_cast<std::int32_t>(step));
      strands[i].push_back(s.strands[i][step]);
      add(after[i], static_cast<std::int32_t>(step));
    }
  }
  return strands;
}

// A long message goes round by round, and all steps are generated once for each. Lanes that share scratch must be
// through with it before any of them begins the next: they meet at the first that has something to do.
void meet_at_the_end(Strands& strands, int lanes) {
  for (std::size_t first = 0; first < strands.size(); first += static_cast<std::size_t>(lanes)) {
    const Rank rank = static_cast<Rank>(first) / lanes;
    std::vector<int> busy;
    for (int lane = 0; lane < lanes; ++lane)
      if (!strands[first + static_cast<std::size_t>(lane)].empty()) busy.push_back(lane);
    for (std::size_t i = 1; i < busy.size(); ++i) {
      auto& other = strands[first + static_cast<std::size_t>(busy[i])];
      other.push_back(signal(rank, busy[0]));
      other.push_back(wait(rank, busy[0]));
      strands[first + static_cast<std::size_t>(busy[0])].push_back(wait(rank, busy[i]));
    }
    for (std::size_t i = 1; i < busy.size(); ++i)
      strands[first + static_cast<std::size_t>(busy[0])].push_back(signal(rank, busy[i]));
  }
}

// Lanes that talk to different peers need no connections of their own. Numbers those between every two ranks from 0, by
// lane, and names them in the messages; how many that makes at most.
int number_connections(Strands& strands, int lanes) {
  std::map<std::pair<Rank, Rank>, std::map<int, int>> numbers;  // by sender and receiver: of the lanes
  const auto each = [&](auto&& visit) {
    for (std::size_t i = 0; i < strands.size(); ++i)
      for (Step& step : strands[i])
        for (const bool sends : {false, true})
          for (Operand& o : sends ? step.destinations : step.sources) {
            if (!o.message()) continue;
            const Rank rank = static_cast<Rank>(i) / lanes;
            const int lane = o.lane == Operand::kSameLane ? static_cast<int>(i) % lanes : o.lane;
            visit(numbers[sends ? std::pair(rank, o.peer) : std::pair(o.peer, rank)], lane, o);
          }
  };
  each([](auto& of_pair, int lane, Operand&) { of_pair[lane] = 0; });
  int most = 1;
  for (auto& [pair, of_pair] : numbers) {
    int next = 0;
    for (auto& [lane, number] : of_pair) number = next++;
    most = std::max(most, next);
  }
  each([](auto& of_pair, int lane, Operand& o) { o.lane = static_cast<std::int8_t>(of_pair.at(lane)); });
  return most;
}

// Are there signals between ranks? They use the connection with the number of their lane.
bool signals(const Schedule& s) {
  return std::ranges::any_of(s.strands, [](const auto& strand) {
    return std::ranges::any_of(strand, [](const Step& step) { return step.kind != Step::Kind::kMove; });
  });
}

int most_parts(const Schedule& s) {
  int most = 1;
  for (const auto& strand : s.strands) {
    std::map<std::tuple<Rank, int, bool>, int> parts;  // of the open message to or from a peer on a lane
    for (const Step& step : strand)
      for (const bool sends : {false, true})
        for (const Operand& o : sends ? step.destinations : step.sources) {
          if (!o.message()) continue;
          int& n = parts[{o.peer, o.lane, sends}];
          most = std::max(most, ++n);
          if (!o.open) n = 0;
        }
  }
  return most;
}

Needs needs_of(const Schedule& s) {
  Needs needs{.messages = false};
  for (const auto& strand : s.strands)
    for (const Step& step : strand)
      for (const auto* side : {&step.sources, &step.destinations})
        for (const Operand& o : *side) {
          needs.messages |= o.message();
          needs.load_store |= o.kind == Operand::Kind::kRemote;
          needs.stores |= o.kind == Operand::Kind::kRemote && side == &step.destinations;
          needs.multicast |= o.kind == Operand::Kind::kMulticast;
          needs.aggregation |= o.kind == Operand::Kind::kAggregation;
        }
  return needs;
}

Generator<Step> steps_of(std::shared_ptr<const Strands> strands, std::size_t strand) {
  for (const Step& step : (*strands)[strand]) co_yield step;
}

struct Kept {
  std::shared_ptr<const Document> document;
  Algorithm algorithm;
};

Result<Kept> load(const std::string& file) {
  WEFT_TRY(Document read, read_document(file));
  if (const Proof proof = prove(read); !proof.ok())
    return bad_input("not proved, so not run: {}", locate(read, file, *proof.counterexample));
  auto document = std::make_shared<const Document>(std::move(read));
  return Kept{document, to_algorithm(document)};
}

// Schedules that were named, not read from files.
struct NamedTexts {
  std::mutex turns;
  std::map<std::string, std::string, std::less<>> by_name;  // guarded by turns
};
NamedTexts& named_texts() {
  static NamedTexts texts;
  return texts;
}

Result<std::string> text_of_schedule(const std::string& file) {
  {
    const std::lock_guard guard(named_texts().turns);
    if (const auto found = named_texts().by_name.find(file); found != named_texts().by_name.end()) return found->second;
  }
  return read_text_file(file);
}

}  // namespace

Algorithm to_algorithm(std::shared_ptr<const Document> document) {
  const Schedule& s = document->schedule;
  Strands strands = with_signals(s);
  if (s.scratch > 0 && s.lanes > 1) meet_at_the_end(strands, s.lanes);
  const Needs needs = needs_of(s);
  const int connections = signals(s) || needs.aggregation ? s.lanes : number_connections(strands, s.lanes);
  return {.name = document->name,
          .collective = s.shape.collective,
          .when = "what its file says",
          .source = "a file",
          .needs = needs,
          .lanes = s.lanes,
          .connections = connections,
          .slots = document->slots,
          .chunks = [document](const RankContext&) { return document->schedule.shape.chunks; },
          .scratch = [document](const RankContext&) { return document->schedule.scratch; },
          .parts = [parts = most_parts(s)](const RankContext&) { return parts; },
          .steps =
              [strands = std::make_shared<const Strands>(std::move(strands)), lanes = s.lanes](RankContext context) {
                return steps_of(strands, static_cast<std::size_t>(context.rank * lanes + context.lane));
              },
          .written_for = WrittenFor{.ranks = s.shape.ranks,
                                    .root = s.shape.root,
                                    .out_of_place = document->out_of_place,
                                    .in_place = document->in_place,
                                    .digest = std::hash<std::string>{}(to_schedule_json(*document))}};
}

bool names_file(std::string_view name) { return name.ends_with(".xml") || name.ends_with(".json"); }

Status name_schedule(const std::string& name, std::string text) {
  if (!name.ends_with(".json")) return bad_input("'{}': a schedule's name ends in .json", shown(name));
  WEFT_TRY(const Document read, parse_schedule_json(name, text));
  (void)read;
  const std::lock_guard guard(named_texts().turns);
  const auto [at, added] = named_texts().by_name.try_emplace(name, std::move(text));
  if (!added && at->second != text) return bad_input("'{}' is another schedule already", shown(name));
  return {};
}

Result<Document> read_document(const std::string& file) {
  WEFT_TRY(const std::string text, text_of_schedule(file));
  auto document = file.ends_with(".xml") ? parse_msccl_xml(file, text)
                  : is_mscclpp(text)     ? parse_mscclpp(file, text)
                                         : parse_schedule_json(file, text);
  if (document) document->name = shown(document->name);  // commands print it
  return document;
}

Result<const Algorithm*> written_algorithm(std::string_view file) {
  static std::mutex turns;
  static std::map<std::string, Kept, std::less<>> kept;
  const std::lock_guard guard(turns);
  auto found = kept.find(file);
  if (found == kept.end()) {
    WEFT_TRY(Kept loaded, load(std::string(file)));
    found = kept.emplace(std::string(file), std::move(loaded)).first;
  }
  return &found->second.algorithm;
}

}  // namespace weft::schedule
