#include "apps/training/layout.h"

#include <algorithm>
#include <numeric>

#include "base/counted.h"
#include "base/text.h"

namespace weft::training {
namespace {

// Layers of `parts` chunks between them.
std::vector<std::int64_t> even(std::int64_t layers, std::int64_t parts) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(parts), layers / parts);
  for (std::int64_t i = 0; i < layers % parts; ++i) ++counts[static_cast<std::size_t>(i)];
  return counts;
}

std::vector<std::int64_t> counts_of(const Model& model, const Plan& plan) {
  const std::int64_t chunks = plan.pp * plan.vp;
  if (!plan.layout.empty()) return plan.layout;
  if (plan.first_layers >= 0 || plan.last_layers >= 0) {
    const std::int64_t ends = (plan.first_layers >= 0 ? 1 : 0) + (plan.last_layers >= 0 ? 1 : 0);
    const std::int64_t rest =
        model.layers - std::max<std::int64_t>(0, plan.first_layers) - std::max<std::int64_t>(0, plan.last_layers);
    std::vector<std::int64_t> stages = even(rest, std::max<std::int64_t>(1, plan.pp - ends));
    if (plan.first_layers >= 0) stages.insert(stages.begin(), plan.first_layers);
    if (plan.last_layers >= 0) stages.push_back(plan.last_layers);
    std::vector<std::int64_t> counts(static_cast<std::size_t>(chunks));
    for (std::int64_t s = 0; s < plan.pp; ++s) {
      const std::vector<std::int64_t> own = even(stages[static_cast<std::size_t>(s)], plan.vp);
      for (std::int64_t c = 0; c < plan.vp; ++c)
        counts[static_cast<std::size_t>(c * plan.pp + s)] = own[static_cast<std::size_t>(c)];
    }
    return counts;
  }
  if (model.layers % chunks == 0) return even(model.layers, chunks);
  const std::int64_t all = model.layers + 2, each = all / chunks;
  std::vector<std::int64_t> counts(static_cast<std::size_t>(chunks), each);
  for (std::int64_t i = 0; i < all % chunks; ++i) ++counts[static_cast<std::size_t>((i + 1) % chunks)];
  --counts.front();
  --counts.back();
  return counts;
}

class LayoutText {
 public:
  explicit LayoutText(std::string_view text) : text_(text) {}

  Result<Layout> parse() {
    WEFT_TRY(const std::string plain, group(0));
    if (at_ < text_.size()) return bad_input("--layout {}: a ')' too many", shown(text_));
    Layout layout{{0}, 0};
    for (const char c : plain) {
      if (c == '|') layout.layers.push_back(0);
      if (c == 't') ++layout.layers.back();
      if (c == 'm') ++layout.mtp;
    }
    return layout;
  }

 private:
  static constexpr std::size_t kMost = 1 << 16, kDeepest = 8;

  Result<std::string> group(std::size_t depth) {
    std::string all;
    while (at_ < text_.size() && text_[at_] != ')') {
      std::string item(1, text_[at_++]);
      if (item == "(") {
        if (depth == kDeepest) return bad_input("--layout {}: parentheses within {}", shown(text_), kDeepest);
        WEFT_TRY(item, group(depth + 1));
        if (at_ == text_.size()) return bad_input("--layout {}: a '(' stays open", shown(text_));
        ++at_;
      } else if (std::string_view("EtmL|").find(item) == std::string_view::npos) {
        return bad_input("--layout {}: '{}' is none of E, t, m, L, | and groups as (tt|)*4", shown(text_), shown(item));
      }
      WEFT_TRY(const std::int64_t times, repeats());
      if (item.size() * static_cast<std::size_t>(times) > kMost - std::min(kMost, all.size()))
        return bad_input("--layout {}: more than {}", shown(text_), counted(kMost, "layer"));
      for (std::int64_t i = 0; i < times; ++i) all += item;
    }
    return all;
  }

  Result<std::int64_t> repeats() {
    if (at_ >= text_.size() || text_[at_] != '*') return 1;
    const std::size_t from = ++at_;
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') ++at_;
    return parse_integer("--layout: repeats", text_.substr(from, at_ - from), 1, 4096);
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

std::vector<Chunk> chunks_of(const Model& model, const Plan& plan) {
  std::vector<Chunk> chunks;
  std::int64_t first = 0;
  for (const std::int64_t layers : counts_of(model, plan)) {
    const auto i = static_cast<std::int64_t>(chunks.size());
    chunks.push_back({i % plan.pp, i / plan.pp, first, layers});
    first += layers;
  }
  return chunks;
}

std::int64_t layers_of_stage(const Model& model, const Plan& plan, std::int64_t stage) {
  std::int64_t layers = 0;
  for (const Chunk& c : chunks_of(model, plan)) layers += c.stage == stage ? c.layers : 0;
  return layers;
}

Status check_layout(const Model& model, const Plan& plan) {
  const std::int64_t chunks = plan.pp * plan.vp;
  if (!plan.layout.empty()) {
    if (static_cast<std::int64_t>(plan.layout.size()) != chunks)
      return bad_input("--layout has {}, --pp {} with --vp {} needs {}", counted(plan.layout.size(), "chunk"), plan.pp,
                       plan.vp, chunks);
    if (const auto sum = std::accumulate(plan.layout.begin(), plan.layout.end(), std::int64_t{0}); sum != model.layers)
      return bad_input("--layout has {}, {} has {}", counted(sum, "layer"), model.name, model.layers);
    return {};
  }
  if (plan.first_layers >= 0 || plan.last_layers >= 0) {
    const std::int64_t ends =
        std::max<std::int64_t>(0, plan.first_layers) + std::max<std::int64_t>(0, plan.last_layers);
    if (plan.pp < 2) return bad_input("--first-layers and --last-layers need --pp of at least 2");
    if (ends > model.layers ||
        (plan.pp == 2 && plan.first_layers >= 0 && plan.last_layers >= 0 && ends != model.layers))
      return bad_input("--first-layers and --last-layers: {} of the {} of {}", ends, counted(model.layers, "layer"),
                       model.name);
    return {};
  }
  if (chunks > model.layers + 2)
    return bad_input("--pp {} with --vp {}: {} has only {}", plan.pp, plan.vp, model.name,
                     counted(model.layers, "layer"));
  return {};
}

Result<Layout> parse_layout(std::string_view text) { return LayoutText(text).parse(); }

}  // namespace weft::training
