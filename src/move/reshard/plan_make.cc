#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <unordered_map>

#include "base/text.h"
#include "move/reshard/plan.h"
#include "move/reshard/plan_writer.h"

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
    std::unordered_map<std::string_view, Window> sources;
    sources.reserve(from.tensors.size());
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
    if (!a.type.empty() && !b.type.empty() && a.type != b.type)
      return bad_input("{}: tensor {}: has elements of {}, in {} of {}: to be converted by the senders (--convert)",
                       plan_.to_->name, shown(name), b.type, plan_.from_->name, a.type);
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
    const Groups source_groups(*pattern->source);
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

  // The group that holds certain parts, one per dimension: a table where there are few combinations, else a map.
  class Groups {
   public:
    explicit Groups(const Spread& spread) : spread_(spread) {
      std::size_t size = 1;
      for (const auto& dim : spread.dims) size = std::min(size * std::max<std::size_t>(1, dim.size()), kMost + 1);
      if (size <= kMost) table_.assign(size, -1);
      for (std::size_t g = 0; g < spread.groups.size(); ++g) {
        if (table_.empty())
          map_.emplace(spread.groups[g].parts, static_cast<std::int32_t>(g));
        else
          table_[at(spread.groups[g].parts)] = static_cast<std::int32_t>(g);
      }
    }
    // -1: no rank holds this combination.
    std::int32_t find(const std::vector<std::int32_t>& parts) const {
      if (!table_.empty()) return table_[at(parts)];
      const auto found = map_.find(parts);
      return found == map_.end() ? -1 : found->second;
    }

   private:
    static constexpr std::size_t kMost = 1 << 16;  // combinations
    std::size_t at(const std::vector<std::int32_t>& parts) const {
      std::size_t index = 0;
      for (std::size_t d = 0; d < parts.size(); ++d)
        index = index * spread_.dims[d].size() + static_cast<std::size_t>(parts[d]);
      return index;
    }
    const Spread& spread_;
    std::vector<std::int32_t> table_;
    std::map<std::vector<std::int32_t>, std::int32_t> map_;
  };

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
      choice.source_group = source_groups.find(parts);
      if (choice.source_group < 0) return;
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

std::int64_t Plan::Maker::pieces_of(const Pattern& pattern, const Flow& flow, const Choice& choice) {
  return Writer(pattern, flow, choice).pieces();
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

}  // namespace weft::reshard
