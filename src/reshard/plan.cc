#include "reshard/plan.h"

#include <algorithm>
#include <array>
#include <map>
#include <unordered_map>

#include "base/text.h"

namespace weft::reshard {

// Makes a plan: windows of both layouts by name, spreads by key, patterns by pair of spreads and windows.
class Plan::Maker {
 public:
  explicit Maker(Plan& plan) : plan_(plan) {}

  Status run() {
    const Layout &from = *plan_.from_, &to = *plan_.to_;
    WEFT_CHECK(check(from));
    WEFT_CHECK(check(to));
    source_spreads_ = spreads_of(from);
    destination_spreads_ = spreads_of(to);
    std::unordered_map<std::string, Window> sources;
    for_each_window(from, [&](const std::string& name, const Window& w) { sources.emplace(name, w); });
    std::size_t wanted = 0;
    Status status;
    for_each_window(to, [&](const std::string& name, const Window& w) {
      if (!status) return;
      const auto source = sources.find(name);
      if (source == sources.end()) {
        status = bad_input("{}: tensor {}: {} has none of this name", to.name, shown(name), from.name);
        return;
      }
      ++wanted;
      status = add(name, source->second, w);
    });
    WEFT_CHECK(status);
    plan_.unwanted_ = static_cast<std::int64_t>(sources.size() - wanted);
    return {};
  }

 private:
  static void for_each_window(const Layout& layout,
                              const std::function<void(const std::string&, const Window&)>& call) {
    for (std::size_t i = 0; i < layout.tensors.size(); ++i) {
      const Tensor& t = layout.tensors[i];
      if (t.components.empty()) call(t.name, {.tensor = static_cast<std::int32_t>(i)});
      std::int64_t begin = 0;
      for (const auto& c : t.components) {
        call(c.name, {static_cast<std::int32_t>(i), t.concat_dim, begin, c.size});
        begin += c.size;
      }
    }
  }

  // For each tensor a number, the same for those that are spread alike.
  static std::vector<std::int64_t> spreads_of(const Layout& layout) {
    std::unordered_map<std::string, std::int64_t> numbers;
    std::vector<std::int64_t> all;
    for (const Tensor& t : layout.tensors)
      all.push_back(numbers.emplace(spread_key(t), static_cast<std::int64_t>(numbers.size())).first->second);
    return all;
  }

  static std::vector<std::int64_t> shape_of(const Tensor& t, const Window& w) {
    auto shape = t.shape;
    if (w.size >= 0) shape[static_cast<std::size_t>(w.dim)] = w.size;
    return shape;
  }

  Status add(const std::string& name, const Window& source, const Window& destination) {
    const Tensor& a = plan_.from_->tensors[static_cast<std::size_t>(source.tensor)];
    const Tensor& b = plan_.to_->tensors[static_cast<std::size_t>(destination.tensor)];
    if (shape_of(a, source) != shape_of(b, destination))
      return bad_input("{}: tensor {}: has shape [{}], in {} [{}]", plan_.to_->name, shown(name),
                       fmt::join(shape_of(b, destination), ", "), plan_.from_->name,
                       fmt::join(shape_of(a, source), ", "));
    if (a.element_bytes != b.element_bytes)
      return bad_input("{}: tensor {}: has elements of {} B, in {} of {} B", plan_.to_->name, shown(name),
                       b.element_bytes, plan_.from_->name, a.element_bytes);
    const Key key{source_spreads_[static_cast<std::size_t>(source.tensor)],
                  source.dim,
                  source.begin,
                  source.size,
                  destination_spreads_[static_cast<std::size_t>(destination.tensor)],
                  destination.dim,
                  destination.begin,
                  destination.size};
    const auto known = by_key_.find(key);
    std::int32_t pattern = 0;
    if (known != by_key_.end()) {
      pattern = known->second;
    } else {
      pattern = static_cast<std::int32_t>(plan_.patterns_.size());
      WEFT_TRY(auto made, make(name, source, destination));
      plan_.patterns_.push_back(std::move(made));
      by_key_.emplace(key, pattern);
    }
    plan_.jobs_.push_back({source.tensor, destination.tensor, pattern, static_cast<std::int32_t>(plan_.jobs_.size())});
    return {};
  }

  std::shared_ptr<const Spread> spread_of(std::map<std::int64_t, std::shared_ptr<const Spread>>& known,
                                          std::int64_t number, const Layout& layout, const Tensor& t) {
    auto& spread = known[number];
    if (spread != nullptr) return spread;
    auto made = std::make_shared<Spread>();
    const std::size_t dims = t.shape.size();
    made->dims.resize(dims);
    std::vector<std::map<DimensionPart, std::int32_t>> numbers(dims);
    std::map<std::vector<std::int32_t>, std::size_t> groups;
    for (Rank r = 0; r < layout.ranks; ++r) {
      const Holding h = holding(layout, t, r);
      if (!h.present) continue;
      std::vector<std::int32_t> parts;
      for (std::size_t d = 0; d < dims; ++d) {
        const auto [at, fresh] = numbers[d].emplace(h.dims[d], static_cast<std::int32_t>(made->dims[d].size()));
        if (fresh) made->dims[d].push_back(h.dims[d]);
        parts.push_back(at->second);
      }
      const auto [at, fresh] = groups.emplace(parts, made->groups.size());
      if (fresh) made->groups.push_back({std::move(parts), {}});
      made->groups[at->second].ranks.push_back(r);
    }
    return spread = std::move(made);
  }

  // The intervals of a part that lie in a window, relative to its begin.
  static std::vector<Interval> clipped(const DimensionPart& part, const Window& w, int dim) {
    if (w.size < 0 || w.dim != dim) return part.intervals;
    std::vector<Interval> inside;
    for (const Interval& i : part.intervals) {
      const std::int64_t b = std::max(i.global, w.begin), e = std::min(i.global + i.length, w.begin + w.size);
      if (b < e) inside.push_back({b - w.begin, e - b, i.local + b - i.global});
    }
    return inside;
  }

  struct Holder {
    std::int32_t part = 0;
    std::int64_t local = 0;  // of the first row
  };
  struct Stretch {  // rows that the same parts of the source hold
    std::int64_t begin = 0, end = 0;
    std::vector<Holder> holders;  // by part
  };

  // A dimension of the source, cut wherever a part begins or ends to hold rows.
  static std::vector<Stretch> stretches_of(const std::vector<DimensionPart>& parts, const Window& w, int dim) {
    struct Owned {
      Interval interval;
      std::int32_t part;
    };
    std::vector<Owned> owned;
    std::vector<std::int64_t> cuts;
    for (std::size_t p = 0; p < parts.size(); ++p)
      for (const Interval& i : clipped(parts[p], w, dim)) {
        owned.push_back({i, static_cast<std::int32_t>(p)});
        cuts.push_back(i.global), cuts.push_back(i.global + i.length);
      }
    std::sort(owned.begin(), owned.end(), [](const Owned& a, const Owned& b) { return a.interval < b.interval; });
    std::sort(cuts.begin(), cuts.end());
    cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
    std::vector<Stretch> stretches;
    std::vector<Owned> active;
    std::size_t next = 0;
    for (std::size_t c = 0; c + 1 < cuts.size(); ++c) {
      std::erase_if(active, [&](const Owned& o) { return o.interval.global + o.interval.length <= cuts[c]; });
      for (; next < owned.size() && owned[next].interval.global == cuts[c]; ++next) active.push_back(owned[next]);
      if (active.empty()) continue;
      Stretch stretch{cuts[c], cuts[c + 1], {}};
      for (const Owned& o : active) stretch.holders.push_back({o.part, o.interval.local + cuts[c] - o.interval.global});
      std::sort(stretch.holders.begin(), stretch.holders.end(),
                [](const Holder& a, const Holder& b) { return a.part < b.part; });
      stretches.push_back(std::move(stretch));
    }
    return stretches;
  }

  static void append(std::vector<Piece>& pieces, const Piece& next) {
    if (!pieces.empty() && pieces.back().source + pieces.back().length == next.source &&
        pieces.back().destination + pieces.back().length == next.destination)
      pieces.back().length += next.length;
    else
      pieces.push_back(next);
  }

  // For each part of the destination the parts of the source that have rows of it; each row is in one overlap.
  static std::vector<std::vector<Overlap>> overlaps_of(const std::vector<Stretch>& stretches,
                                                       const std::vector<DimensionPart>& destinations, const Window& w,
                                                       int dim) {
    std::vector<std::vector<Overlap>> all;
    for (const DimensionPart& destination : destinations) {
      std::map<std::vector<std::int32_t>, Overlap> found;
      for (const Interval& i : clipped(destination, w, dim)) {
        auto at = std::upper_bound(stretches.begin(), stretches.end(), i.global,
                                   [](std::int64_t row, const Stretch& s) { return row < s.end; });
        for (; at != stretches.end() && at->begin < i.global + i.length; ++at) {
          std::vector<std::int32_t> parts;
          for (const Holder& h : at->holders) parts.push_back(h.part);
          Overlap& overlap = found[parts];
          if (overlap.rows == 0) overlap.source_parts = parts, overlap.pieces.resize(parts.size());
          const std::int64_t b = std::max(at->begin, i.global), e = std::min(at->end, i.global + i.length);
          overlap.rows += e - b;
          for (std::size_t h = 0; h < parts.size(); ++h)
            append(overlap.pieces[h], {at->holders[h].local + b - at->begin, i.local + b - i.global, e - b});
        }
      }
      auto& overlaps = all.emplace_back();
      for (auto& [parts, overlap] : found) overlaps.push_back(std::move(overlap));
    }
    return all;
  }

  Result<std::shared_ptr<const Pattern>> make(const std::string& name, const Window& sw, const Window& dw) {
    const Tensor& a = plan_.from_->tensors[static_cast<std::size_t>(sw.tensor)];
    const Tensor& b = plan_.to_->tensors[static_cast<std::size_t>(dw.tensor)];
    auto pattern = std::make_shared<Pattern>();
    pattern->source = spread_of(sources_, source_spreads_[static_cast<std::size_t>(sw.tensor)], *plan_.from_, a);
    pattern->destination =
        spread_of(destinations_, destination_spreads_[static_cast<std::size_t>(dw.tensor)], *plan_.to_, b);
    pattern->element_bytes = a.element_bytes;
    pattern->first_tensor = dw.tensor;
    const std::size_t dims = a.shape.size();
    for (std::size_t d = 0; d < dims; ++d)
      pattern->overlaps.push_back(overlaps_of(stretches_of(pattern->source->dims[d], sw, static_cast<int>(d)),
                                              pattern->destination->dims[d], dw, static_cast<int>(d)));
    std::map<std::vector<std::int32_t>, std::int32_t> source_groups;
    for (std::size_t g = 0; g < pattern->source->groups.size(); ++g)
      source_groups.emplace(pattern->source->groups[g].parts, static_cast<std::int32_t>(g));
    for (std::size_t g = 0; g < pattern->destination->groups.size(); ++g) {
      const auto& group = pattern->destination->groups[g];
      std::int64_t wanted = 1;
      for (std::size_t d = 0; d < dims; ++d) {
        std::int64_t rows = 0;
        for (const Interval& i :
             clipped(pattern->destination->dims[d][static_cast<std::size_t>(group.parts[d])], dw, static_cast<int>(d)))
          rows += i.length;
        wanted *= rows;
      }
      if (wanted == 0) continue;
      std::vector<const Overlap*> overlaps;
      const std::int64_t had = combine(*pattern, static_cast<std::int32_t>(g), source_groups, overlaps);
      if (had != wanted)
        return bad_input("{}: tensor {}: rank {} wants {} elements, of which no rank of {} has {}", plan_.to_->name,
                         shown(name), group.ranks.front(), wanted, plan_.from_->name, wanted - had);
    }
    return pattern;
  }

  using Groups = std::map<std::vector<std::int32_t>, std::int32_t>;

  // Adds a flow for each box of elements that the same source groups have and this destination group wants; returns how
  // many elements these are.
  std::int64_t combine(Pattern& pattern, std::int32_t destination_group, const Groups& source_groups,
                       std::vector<const Overlap*>& overlaps) {
    const std::size_t d = overlaps.size();
    if (d == pattern.overlaps.size()) {
      Flow flow{.destination_group = destination_group, .elements = 1};
      for (const Overlap* o : overlaps) flow.elements *= o->rows;
      Choice choice;
      std::vector<std::int32_t> parts;
      add_choices(pattern, flow, source_groups, overlaps, choice, parts);
      if (flow.choices.empty()) return 0;
      for (std::size_t c = 0; c < flow.choices.size(); ++c)
        for (const Rank r : pattern.source->groups[static_cast<std::size_t>(flow.choices[c].source_group)].ranks)
          flow.senders.push_back({r, static_cast<std::int32_t>(c)});
      std::sort(flow.senders.begin(), flow.senders.end());
      pattern.most_senders = std::max(pattern.most_senders, static_cast<int>(flow.senders.size()));
      const std::int64_t had = flow.elements;
      pattern.flows.push_back(std::move(flow));
      return had;
    }
    std::int64_t had = 0;
    const auto part = pattern.destination->groups[static_cast<std::size_t>(destination_group)].parts[d];
    for (const Overlap& o : pattern.overlaps[d][static_cast<std::size_t>(part)]) {
      overlaps.push_back(&o);
      had += combine(pattern, destination_group, source_groups, overlaps);
      overlaps.pop_back();
    }
    return had;
  }

  static void add_choices(const Pattern& pattern, Flow& flow, const Groups& source_groups,
                          const std::vector<const Overlap*>& overlaps, Choice& choice,
                          std::vector<std::int32_t>& parts) {
    const std::size_t d = parts.size();
    if (d == overlaps.size()) {
      const auto group = source_groups.find(parts);
      if (group == source_groups.end()) return;
      choice.source_group = group->second;
      choice.pieces = pieces_of(pattern, flow, choice);
      flow.choices.push_back(choice);
      return;
    }
    for (std::size_t p = 0; p < overlaps[d]->source_parts.size(); ++p) {
      parts.push_back(overlaps[d]->source_parts[p]);
      choice.by_dim.push_back(&overlaps[d]->pieces[p]);
      add_choices(pattern, flow, source_groups, overlaps, choice, parts);
      choice.by_dim.pop_back();
      parts.pop_back();
    }
  }

  static std::int64_t pieces_of(const Pattern& pattern, const Flow& flow, const Choice& choice);

  Plan& plan_;
  using Key = std::array<std::int64_t, 8>;                          // both spreads and windows
  std::vector<std::int64_t> source_spreads_, destination_spreads_;  // by tensor
  std::map<Key, std::int32_t> by_key_;
  std::map<std::int64_t, std::shared_ptr<const Spread>> sources_, destinations_;
};

// Writes the moves of one flow between two ranks: pieces as long as they are contiguous at both sides, equal ones at
// equal distances as one move.
class Plan::Writer {
 public:
  Writer(const Pattern& pattern, const Flow& flow, const Choice& choice) : choice_(choice) {
    const std::size_t dims = choice.by_dim.size();
    source_strides_.resize(dims), destination_strides_.resize(dims);
    std::int64_t source = pattern.element_bytes, destination = pattern.element_bytes;
    piece_bytes_ = pattern.element_bytes;
    inner_ = dims;
    const auto& sg = pattern.source->groups[static_cast<std::size_t>(choice.source_group)];
    const auto& dg = pattern.destination->groups[static_cast<std::size_t>(flow.destination_group)];
    for (std::size_t d = dims; d-- > 0;) {
      const std::int64_t se = pattern.source->dims[d][static_cast<std::size_t>(sg.parts[d])].extent;
      const std::int64_t de = pattern.destination->dims[d][static_cast<std::size_t>(dg.parts[d])].extent;
      source_strides_[d] = source, destination_strides_[d] = destination;
      source *= se, destination *= de;
      const auto& pieces = *choice.by_dim[d];
      const bool whole = pieces.size() == 1 && pieces[0].length == se && pieces[0].length == de;
      if (whole && inner_ == d + 1) inner_ = d, piece_bytes_ *= se;
    }
  }

  // Contiguous pieces of the flow between two ranks.
  std::int64_t pieces() const {
    if (inner_ == 0) return 1;
    auto n = static_cast<std::int64_t>(choice_.by_dim[inner_ - 1]->size());
    for (std::size_t d = 0; d + 1 < inner_; ++d) {
      std::int64_t rows = 0;
      for (const Piece& p : *choice_.by_dim[d]) rows += p.length;
      n *= rows;
    }
    return n;
  }

  void write(Move move, const std::function<void(const Move&)>& call) const {
    move.source = move.destination = 0;
    if (inner_ == 0) {
      move.bytes = piece_bytes_, move.count = 1;
      call(move);
      return;
    }
    at(0, move, call);
  }

 private:
  void at(std::size_t d, Move move, const std::function<void(const Move&)>& call) const {
    const bool last = d + 1 == inner_, strided = d + 2 == inner_;
    for (const Piece& p : *choice_.by_dim[d]) {
      Move next = move;
      next.source += p.source * source_strides_[d];
      next.destination += p.destination * destination_strides_[d];
      if (last) {
        next.bytes = p.length * piece_bytes_;
        call(next);
      } else if (strided) {
        next.count = p.length;
        next.source_stride = source_strides_[d], next.destination_stride = destination_strides_[d];
        at(d + 1, next, call);
      } else {
        for (std::int64_t i = 0; i < p.length; ++i) {
          at(d + 1, next, call);
          next.source += source_strides_[d], next.destination += destination_strides_[d];
        }
      }
    }
  }

  const Choice& choice_;
  std::vector<std::int64_t> source_strides_, destination_strides_;
  std::int64_t piece_bytes_ = 1;
  std::size_t inner_ = 0;  // dimensions from here on are whole in both parts
};

std::int64_t Plan::Maker::pieces_of(const Pattern& pattern, const Flow& flow, const Choice& choice) {
  return Writer(pattern, flow, choice).pieces();
}

std::span<const Plan::Sender> Plan::senders_of(const Pattern& pattern, const Flow& flow, std::size_t receiver) const {
  const auto& senders = flow.senders;
  const Rank r = pattern.destination->groups[static_cast<std::size_t>(flow.destination_group)].ranks[receiver];
  const auto from = [&](Rank rank) { return std::lower_bound(senders.begin(), senders.end(), Sender{rank, 0}); };
  if (options_.same_ranks && from(r) != senders.end() && from(r)->rank == r) return {from(r), 1};
  if (options_.per_node > 0) {
    const Rank node = ((options_.same_ranks ? 0 : from_->ranks) + r) / options_.per_node;
    const auto first = from(node * options_.per_node), last = from((node + 1) * options_.per_node);
    if (first != last) return {first, last};
  }
  return senders;
}

namespace {
// Which of equal senders serves a receiver: turns go round, so that each of them sends equally much.
std::size_t choice_of(std::size_t receiver, std::int64_t turn, std::size_t senders) {
  return (static_cast<std::size_t>(turn) + receiver) % senders;
}
}  // namespace

// Jobs of a pattern differ in their turn only, so they are counted by turn modulo the number of equal senders.
void Plan::add_up() {
  std::unordered_map<std::uint64_t, PairTotal> pairs;
  std::vector<std::vector<std::int32_t>> turns(patterns_.size());
  for (const Job& job : jobs_) turns[static_cast<std::size_t>(job.pattern)].push_back(job.turn);
  for (std::size_t p = 0; p < patterns_.size(); ++p) {
    const Pattern& pattern = *patterns_[p];
    std::unordered_map<std::size_t, std::vector<std::int64_t>> jobs_by_turn;  // by the number of senders
    for (const Flow& flow : pattern.flows) {
      const auto& receivers = pattern.destination->groups[static_cast<std::size_t>(flow.destination_group)].ranks;
      for (std::size_t k = 0; k < receivers.size(); ++k) {
        const auto senders = senders_of(pattern, flow, k);
        auto& jobs = jobs_by_turn[senders.size()];
        if (jobs.empty()) {
          jobs.resize(senders.size());
          for (const std::int32_t turn : turns[p]) ++jobs[static_cast<std::size_t>(turn) % jobs.size()];
        }
        for (std::size_t turn = 0; turn < jobs.size(); ++turn) {
          if (jobs[turn] == 0) continue;
          const Sender sender = senders[choice_of(k, static_cast<std::int64_t>(turn), senders.size())];
          PairTotal& total =
              pairs[static_cast<std::uint64_t>(sender.rank) << 32 | static_cast<std::uint32_t>(receivers[k])];
          total.sender = sender.rank, total.receiver = receivers[k];
          total.bytes += jobs[turn] * flow.elements * pattern.element_bytes;
          total.pieces += jobs[turn] * flow.choices[static_cast<std::size_t>(sender.choice)].pieces;
        }
      }
    }
  }
  for (const auto& [key, total] : pairs) pairs_.push_back(total);
  std::sort(pairs_.begin(), pairs_.end(), [](const PairTotal& a, const PairTotal& b) {
    return std::pair(a.sender, a.receiver) < std::pair(b.sender, b.receiver);
  });
}

Result<Plan> Plan::make(Layout from, Layout to, const PlanOptions& options) {
  Plan plan;
  plan.from_ = std::make_shared<const Layout>(std::move(from));
  plan.to_ = std::make_shared<const Layout>(std::move(to));
  plan.options_ = options;
  WEFT_CHECK(Maker(plan).run());
  plan.add_up();
  return plan;
}

void Plan::emit(const Job& job, std::int64_t turn, Rank receiver, const std::function<void(const Move&)>& call) const {
  const Pattern& pattern = *patterns_[static_cast<std::size_t>(job.pattern)];
  for (const Flow& flow : pattern.flows) {
    const auto& receivers = pattern.destination->groups[static_cast<std::size_t>(flow.destination_group)].ranks;
    const auto only = receiver < 0 ? receivers.begin() : std::lower_bound(receivers.begin(), receivers.end(), receiver);
    if (receiver >= 0 && (only == receivers.end() || *only != receiver)) continue;
    for (auto at = only; at != (receiver < 0 ? receivers.end() : only + 1); ++at) {
      const auto k = static_cast<std::size_t>(at - receivers.begin());
      const auto senders = senders_of(pattern, flow, k);
      const Sender sender = senders[choice_of(k, turn, senders.size())];
      Writer(pattern, flow, flow.choices[static_cast<std::size_t>(sender.choice)])
          .write({.from = job.from, .to = job.to, .sender = sender.rank, .receiver = *at}, call);
    }
  }
}

Status Plan::for_each_unit(Rank receiver, std::span<const Rank> without, const std::function<void(Unit)>& call) const {
  for (std::size_t j = 0; j < jobs_.size(); ++j) {
    const Job& job = jobs_[j];
    const Pattern& pattern = *patterns_[static_cast<std::size_t>(job.pattern)];
    for (std::size_t f = 0; f < pattern.flows.size(); ++f) {
      const Flow& flow = pattern.flows[f];
      const auto& receivers = pattern.destination->groups[static_cast<std::size_t>(flow.destination_group)].ranks;
      const auto at = std::lower_bound(receivers.begin(), receivers.end(), receiver);
      if (at == receivers.end() || *at != receiver) continue;
      const auto k = static_cast<std::size_t>(at - receivers.begin());
      const auto left = [&](std::span<const Sender> senders) {
        std::vector<Sender> there;
        for (const Sender& s : senders)
          if (std::find(without.begin(), without.end(), s.rank) == without.end()) there.push_back(s);
        return there;
      };
      auto senders = left(senders_of(pattern, flow, k));
      if (senders.empty()) senders = left(flow.senders);
      if (senders.empty())
        return failure(Code::kPeerDied, Blame::kOperation,
                       "tensor {}: rank {}: rank {} of {} is lost, and no other has its part",
                       shown(to_->tensors[static_cast<std::size_t>(job.to)].name), receiver, flow.senders.front().rank,
                       from_->name);
      const Sender sender = senders[choice_of(k, job.turn, senders.size())];
      Unit unit{static_cast<std::int64_t>(j << 32 | f), sender.rank, flow.elements * pattern.element_bytes, {}};
      Writer(pattern, flow, flow.choices[static_cast<std::size_t>(sender.choice)])
          .write({.from = job.from, .to = job.to, .sender = sender.rank, .receiver = receiver},
                 [&](const Move& m) { unit.moves.push_back(m); });
      call(std::move(unit));
    }
  }
  return {};
}

void Plan::for_each(const std::function<void(const Move&)>& call, Rank receiver, std::int32_t to_tensor) const {
  auto first = jobs_.begin(), last = jobs_.end();
  if (to_tensor >= 0) {
    const auto before = [](const Job& job, std::int32_t t) { return job.to < t; };
    first = std::lower_bound(jobs_.begin(), jobs_.end(), to_tensor, before);
    last = std::lower_bound(first, jobs_.end(), to_tensor + 1, before);
  }
  for (; first != last; ++first) emit(*first, first->turn, receiver, call);
}

std::vector<Move> Plan::moves(Rank receiver, std::int32_t to_tensor) const {
  std::vector<Move> moves;
  for_each([&](const Move& m) { moves.push_back(m); }, receiver, to_tensor);
  return moves;
}

void Plan::for_each_pattern(const std::function<void(std::int32_t, int)>& call) const {
  std::map<std::int32_t, int> tensors;
  for (const auto& p : patterns_) tensors[p->first_tensor] = std::max(tensors[p->first_tensor], p->most_senders);
  for (const auto& [tensor, senders] : tensors) call(tensor, senders);
}

std::vector<Move> Plan::moves_by(std::int32_t to_tensor, int sender) const {
  std::vector<Move> moves;
  for (const Job& job : jobs_)
    if (job.to == to_tensor) emit(job, job.turn + sender, -1, [&](const Move& m) { moves.push_back(m); });
  return moves;
}

}  // namespace weft::reshard
