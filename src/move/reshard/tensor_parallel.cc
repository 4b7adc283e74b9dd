#include "move/reshard/tensor_parallel.h"

#include <numeric>
#include <regex>
#include <set>
#include <unordered_map>

#include "base/embedded.h"
#include "base/text.h"
#include "move/reshard/layout_json.h"

namespace weft::embedded {
std::span<const File> reshard_files();  // data/reshard, compiled in
}  // namespace weft::embedded

namespace weft::reshard {
namespace {

struct Row {
  std::string names, split;
  std::regex tensor;
  int dim = 0;
  std::int64_t multiple = 1;
};

std::vector<std::string> cells_of(std::string_view line) {
  std::vector<std::string> cells(1);
  for (const char c : line) {
    if (c == '\t')
      cells.emplace_back();
    else
      cells.back() += c;
  }
  return cells;
}

// The table is part of the program, so a bad row is weft's own mistake.
Result<std::vector<Row>> rows() {
  std::vector<Row> all;
  std::string_view text = embedded::reshard_files().front().text;
  bool heading = true;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (line.empty() || line[0] == '#' || std::exchange(heading, false)) continue;
    const auto cells = cells_of(line);
    if (cells.size() != 6 || cells[5].empty())
      return failure(Code::kInternal, Blame::kOperation,
                     "data/reshard/tensor_parallel.tsv: {}: not six cells with a source", line);
    WEFT_TRY(const std::int64_t dim, parse_integer("dim", cells[3], 0, 7));
    WEFT_TRY(const std::int64_t multiple, parse_integer("multiple", cells[4], 1, 1 << 20));
    all.push_back({cells[0], cells[2], std::regex(cells[1]), static_cast<int>(dim), multiple});
  }
  return all;
}

constexpr std::string_view kBaseLayer = ".base_layer";
constexpr std::string_view kFloats[] = {"float32", "bfloat16", "float16"};

struct Wish {
  std::string names, type;  // type: of floating-point tensors; empty: as the other layout has them
  std::int64_t tp = 0, kv_heads = 0, heads = 0, gated = -1;  // -1: as the shapes say
};

Result<Wish> wish_of(std::string_view text) {
  const std::size_t colon = text.find(':');
  Wish wish{.names = std::string(text.substr(0, colon))};
  std::set<std::string_view> seen;
  for (std::string_view rest = text.substr(colon + 1); !rest.empty();) {
    const std::string_view option = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), option.size() + 1));
    const std::size_t equals = std::min(option.find('='), option.size());
    const std::string_view key = option.substr(0, equals), value = option.substr(std::min(equals + 1, option.size()));
    const bool megatron = wish.names == "megatron";
    if (key == "type") {
      if (std::ranges::find(kFloats, value) == std::end(kFloats))
        return bad_input("{}: type {}: there are {}", text, shown(value), fmt::join(kFloats, ", "));
      if (!seen.insert(key).second) return bad_input("{}: option {} is given twice", text, key);
      wish.type = value;
      continue;
    }
    std::int64_t* const into = key == "tp"                  ? &wish.tp
                               : key == "kv_heads"          ? &wish.kv_heads
                               : key == "heads"             ? &wish.heads
                               : key == "gated" && megatron ? &wish.gated
                                                            : nullptr;
    if (into == nullptr)
      return bad_input("{}: option {}: there are tp, type, heads{}", text, shown(key),
                       megatron ? ", kv_heads and gated" : " and kv_heads");
    if (!seen.insert(key).second) return bad_input("{}: option {} is given twice", text, key);
    const bool flag = key == "gated";
    WEFT_TRY(*into, parse_integer(fmt::format("{}: {}", text, key), value, flag ? 0 : 1, flag ? 1 : 1 << 16));
  }
  if (wish.tp == 0) return bad_input("{}: has no tp=N", text);
  if (wish.heads > 0 && wish.kv_heads > 0 && wish.heads % wish.kv_heads != 0)
    return bad_input("{}: {} heads are not of {} groups", text, wish.heads, wish.kv_heads);
  if (wish.heads % wish.tp != 0)
    return bad_input("{}: {} attention heads do not divide evenly over {} ranks", text, wish.heads, wish.tp);
  return wish;
}

// The shapes of the other layout's tensors by name, for what a tensor's neighbours in its layer say of it.
class Shapes {
 public:
  void add(const std::string& name, const std::vector<std::int64_t>& shape) { by_name_.emplace(name, shape); }
  // The size of a dimension of the tensor whose name has `other` in the place of `own`; 0: there is none.
  std::int64_t beside(std::string name, std::string_view own, std::string_view other, std::size_t dim) const {
    const std::size_t at = name.rfind(own);
    if (at == std::string::npos) return 0;
    name.replace(at, own.size(), other);
    const auto found = by_name_.find(name);
    return found == by_name_.end() || dim >= found->second.size() ? 0 : found->second[dim];
  }

 private:
  std::unordered_map<std::string, std::vector<std::int64_t>> by_name_;
};

// Attention heads of a layer by the rows of its projections; 0: they do not say.
std::int64_t heads_of(const Tensor& t, std::size_t dim, const Wish& wish, const Shapes& shapes) {
  const bool compressed = t.name.find("q_b_proj") != std::string::npos;
  const std::string_view own = compressed ? "q_b_proj" : "q_proj";
  if (const std::int64_t keys = shapes.beside(t.name, own, "k_proj", dim); keys > 0) {
    if (wish.kv_heads == 0) return 0;
    std::int64_t width = t.shape[dim], of = keys;
    // A gate of the output doubles the rows of q_proj; o_proj has a column per value.
    const std::int64_t columns = t.name.ends_with(".weight") ? shapes.beside(t.name, own, "o_proj", 1) : 0;
    const std::int64_t values = shapes.beside(t.name, own, "v_proj", dim);
    if (columns > 0 && columns < width && values > 0) width = columns, of = values;
    return width * wish.kv_heads % of == 0 ? width * wish.kv_heads / of : 0;
  }
  // MLA: q has heads of nope + rope rows, kv_b of nope + v, o_proj a column per v; kv_a has rope rows beside the
  // latents, which are kv_b's columns.
  const std::int64_t kv = shapes.beside(t.name, own, "kv_b_proj", 0),
                     latents = shapes.beside(t.name, own, "kv_b_proj", 1),
                     rope = shapes.beside(t.name, own, "kv_a_proj_with_mqa", 0) - latents,
                     values = shapes.beside(t.name, own, "o_proj", 1);
  const std::int64_t of_rope = t.shape[dim] - kv + values;
  return kv > 0 && values > 0 && rope > 0 && of_rope > 0 && of_rope % rope == 0 ? of_rope / rope : 0;
}

// vLLM splits queries by heads. Errors (bad input): a text without the tensor's name.
Status check_heads(const Tensor& t, std::size_t dim, const Wish& wish, const Shapes& shapes) {
  static const std::regex kQueries(R"((^|\.)(q_proj|q_b_proj)(\.base_layer)?\.(weight|qweight)$)");
  if (wish.names != "vllm" || wish.tp == 1 || !std::regex_search(t.name, kQueries)) return {};
  const std::int64_t heads = wish.heads > 0 ? wish.heads : heads_of(t, dim, wish, shapes);
  const bool by_groups = wish.kv_heads == 0 && shapes.beside(t.name, "q_proj", "k_proj", dim) > 0;
  if (heads == 0)
    return bad_input("needs heads=H{}: the shapes beside it do not say how many attention heads there are",
                     by_groups ? " or kv_heads=K" : "");
  if (t.shape[dim] % heads != 0) return bad_input("{} rows are not of {} attention heads", t.shape[dim], heads);
  if (heads % wish.tp != 0) return bad_input("{} attention heads do not divide evenly over {} ranks", heads, wish.tp);
  return {};
}

// Megatron's linear_qkv has query groups one after the other, each with its queries, key and value.
Status check_groups(const Tensor& t, std::size_t dim, const Wish& wish) {
  if (wish.tp == 1 && wish.kv_heads == 0) return {};
  if (wish.kv_heads == 0) return bad_input("needs kv_heads=K, the query groups");
  if (t.shape[dim] % wish.kv_heads != 0)
    return bad_input("{} rows are not of {} query groups", t.shape[dim], wish.kv_heads);
  // A group has heads / kv_heads queries, a key and a value, all of one size.
  const std::int64_t slots = wish.heads / wish.kv_heads + 2;
  if (wish.heads > 0 && t.shape[dim] / wish.kv_heads % slots != 0)
    return bad_input("{} rows are not of {} heads in {} query groups", t.shape[dim], wish.heads, wish.kv_heads);
  if (wish.kv_heads % wish.tp != 0)
    return bad_input("{} query groups do not divide evenly over {} ranks", wish.kv_heads, wish.tp);
  return {};
}

// Whether a layer's first matrix is gate and up: twice as many rows as its second one has columns.
Result<bool> is_gated(const Tensor& t, std::size_t dim, const Wish& wish, const Shapes& shapes) {
  std::string weight = t.name;
  if (const std::size_t at = weight.rfind(".bias"); at != std::string::npos) weight.replace(at + 1, 4, "weight");
  const bool megatron = wish.names == "megatron";
  const std::string_view first = megatron ? "linear_fc1" : "dense_h_to_4h",
                         second = megatron ? "linear_fc2" : "dense_4h_to_h";
  const std::int64_t columns = shapes.beside(weight, first, second, 1), rows = t.shape[dim];
  if (columns == 0 && !megatron) return bad_input("whether it has a gate is said by {}, which is not there", second);
  if (columns == 0) return wish.gated != 0;
  if (rows != columns && rows != 2 * columns)
    return bad_input("{} rows, and {} has {} columns: neither as many nor half", rows, second, columns);
  const bool gated = rows == 2 * columns && rows > 0;
  if (wish.gated >= 0 && gated != (wish.gated == 1))
    return bad_input("gated={}, and it has {} rows for {} columns of linear_fc2", wish.gated, rows, columns);
  return gated;
}

// Queries, keys and values one behind the other: heads, kv_heads and again kv_heads of equally many rows.
Status split_qkv(const Tensor& t, std::size_t dim, const Wish& wish, Split& split) {
  if (wish.heads == 0 || wish.kv_heads == 0) return bad_input("needs heads=H and kv_heads=K: it is q, k and v in one");
  const std::int64_t slots = wish.heads + 2 * wish.kv_heads, head = t.shape[dim] / slots;
  if (t.shape[dim] % slots != 0)
    return bad_input("{} rows are not of {} heads and twice {} of keys and values", t.shape[dim], wish.heads,
                     wish.kv_heads);
  if (std::max(wish.tp, wish.kv_heads) % std::min(wish.tp, wish.kv_heads) != 0)
    return bad_input("{} heads on {} ranks: neither divides the other", wish.kv_heads, wish.tp);
  const std::int64_t copies = std::max<std::int64_t>(1, wish.tp / wish.kv_heads);
  split.kind = Split::Kind::kInterleaved;
  split.parts = {{wish.heads * head, 1}, {wish.kv_heads * head, copies}, {wish.kv_heads * head, copies}};
  return {};
}

Status split_halves(const Tensor& t, Split& split) {
  const std::int64_t rows = t.shape[static_cast<std::size_t>(split.dim)];
  if (rows % 2 != 0) return bad_input("{} rows are no two halves", rows);
  split.kind = Split::Kind::kInterleaved;
  split.parts = {{rows / 2, 1}, {rows / 2, 1}};
  return {};
}

// The matrices of all experts in one tensor: gate_up is [E, H, 2I] with down [E, I, H], or [E, 2I, H] with [E, H, I].
Status split_experts(const Tensor& t, bool in, const Shapes& shapes, Split& split) {
  const std::string_view own = in ? "gate_up_proj" : "down_proj", other = in ? "down_proj" : "gate_up_proj";
  const std::int64_t first = shapes.beside(t.name, own, other, 1), second = shapes.beside(t.name, own, other, 2);
  if (t.shape.size() != 3 || second == 0)
    return bad_input("is [experts, rows, columns], and its width is seen from {} of this form beside it", other);
  const bool last = in ? t.shape[2] == 2 * first && t.shape[1] == second : second == 2 * t.shape[1];
  const bool middle = in ? t.shape[1] == 2 * second && t.shape[2] == first : first == 2 * t.shape[2];
  if (last == middle)
    return bad_input("[{}] does not fit {} of [.., {}, {}]", fmt::join(t.shape, ", "), other, first, second);
  // down's width is its rows where gate_up's is in its columns.
  split.dim = in == last ? 2 : 1;
  const bool alternate = shapes.beside(t.name, own, "gate_up_proj_bias", 0) > 0;
  return in && !alternate ? split_halves(t, split) : Status();
}

// The splits and padding that a row gives a tensor.
Status apply(const Row& row, const Wish& wish, const Shapes& shapes, Tensor& t, std::string_view text) {
  const auto problem = [&](const std::string& what) {
    return bad_input("{}: tensor {}: {}", text, shown(t.name), what);
  };
  if (row.split == "copy" && t.shape.size() > 1 && t.name.find("norm") != std::string::npos)
    return problem("has a weight per head: how such a norm is split is not known");
  if (row.split == "copy") return {};
  const auto d = static_cast<std::size_t>(row.dim);
  if (row.split == "scale" && (d >= t.shape.size() || t.shape[d] == 1)) return {};
  Split split{.axis = 0, .dim = row.dim, .even = true};
  if (row.split.starts_with("experts")) {
    if (const auto fits = split_experts(t, row.split == "experts_in", shapes, split); !fits)
      return problem(fits.error().message);
    t.splits.push_back(split);
    return {};
  }
  if (d >= t.shape.size())
    return problem(fmt::format("is split along dimension {} and has {}", row.dim, t.shape.size()));
  if (const auto fits = check_heads(t, d, wish, shapes); !fits) return problem(fits.error().message);
  if (row.split == "kv") {
    if (wish.kv_heads == 0) return problem("needs kv_heads=K");
    if (t.shape[d] % wish.kv_heads != 0)
      return problem(fmt::format("{} rows are not of {} heads", t.shape[d], wish.kv_heads));
    if (wish.tp > wish.kv_heads && wish.tp % wish.kv_heads != 0)
      return problem(fmt::format("{} heads on {} ranks: neither divides the other", wish.kv_heads, wish.tp));
    if (wish.tp <= wish.kv_heads && wish.kv_heads % wish.tp != 0)
      return problem(fmt::format("{} heads do not divide evenly over {} ranks", wish.kv_heads, wish.tp));
    split.copies = std::max<std::int64_t>(1, wish.tp / wish.kv_heads);
  } else if (row.split == "vocab") {
    const std::int64_t multiple = wish.names == "megatron" ? row.multiple * wish.tp : std::lcm(row.multiple, wish.tp);
    t.padded = t.shape;
    t.padded[d] = (t.shape[d] + multiple - 1) / multiple * multiple;
  } else if (row.split == "qkv" || (row.split == "groups" && wish.names == "vllm" && wish.kv_heads == 1)) {
    if (const auto fits = split_qkv(t, d, wish, split); !fits) return problem(fits.error().message);
  } else if (row.split == "halves") {
    if (const auto fits = split_halves(t, split); !fits) return problem(fits.error().message);
  } else if (row.split == "groups") {
    if (const auto fits = check_groups(t, d, wish); !fits) return problem(fits.error().message);
  } else if (row.split == "gated") {
    const auto gated = is_gated(t, d, wish, shapes);
    if (!gated) return problem(gated.error().message);
    if (!*gated) {
      t.splits.push_back(split);
      return {};
    }
    if (const auto fits = split_halves(t, split); !fits) return problem(fits.error().message);
  }
  t.splits.push_back(split);
  return {};
}

}  // namespace

bool is_tensor_parallel(std::string_view text) { return text.starts_with("vllm:") || text.starts_with("megatron:"); }

Result<Layout> tensor_parallel(std::string_view text, const Layout& of) {
  WEFT_TRY(const Wish wish, wish_of(text));
  WEFT_TRY(const auto table, rows());
  Layout layout{.name = std::string(text), .ranks = static_cast<Rank>(wish.tp)};
  Mesh mesh{.name = "tp", .axes = {{"tp", wish.tp}}};
  mesh.ranks.resize(static_cast<std::size_t>(wish.tp));
  std::iota(mesh.ranks.begin(), mesh.ranks.end(), 0);
  layout.meshes.push_back(std::move(mesh));
  std::vector<std::string> unknown;
  Shapes shapes;
  const auto add = [&](const std::string& name, const std::vector<std::int64_t>& shape, const Tensor& like) -> Status {
    Tensor t{.name = name, .type = like.type, .shape = shape, .element_bytes = like.element_bytes};
    if (!wish.type.empty() && std::ranges::find(kFloats, t.type) != std::end(kFloats)) {
      t.type = wish.type;
      WEFT_TRY(t.element_bytes, element_bytes_of(t.type));
    }
    // PEFT's name of a layer with adapters: q_proj.base_layer.weight.
    std::string known = name;
    if (const std::size_t at = known.rfind(kBaseLayer); at != std::string::npos) known.erase(at, kBaseLayer.size());
    const auto row = std::find_if(table.begin(), table.end(), [&](const Row& r) {
      return r.names == wish.names && std::regex_search(known, r.tensor);
    });
    if (row == table.end()) {
      unknown.push_back(std::string(shown(name)));
      return {};
    }
    WEFT_CHECK(apply(*row, wish, shapes, t, text));
    layout.tensors.push_back(std::move(t));
    return {};
  };
  const auto for_each_tensor = [&](const auto& call) -> Status {
    for (const Tensor& t : of.tensors) {
      if (t.components.empty()) WEFT_CHECK(call(t.name, t.shape, t));
      for (const auto& c : t.components) {
        auto shape = t.shape;
        shape[static_cast<std::size_t>(t.concat_dim)] = c.size;
        WEFT_CHECK(call(c.name, shape, t));
      }
    }
    return {};
  };
  WEFT_CHECK(for_each_tensor([&](const std::string& name, const std::vector<std::int64_t>& shape, const Tensor&) {
    shapes.add(name, shape);
    return Status();
  }));
  WEFT_CHECK(for_each_tensor(add));
  constexpr std::size_t kShown = 4;
  if (unknown.size() > kShown) unknown[kShown - 1] += fmt::format(" and {} more", unknown.size() - kShown);
  if (const std::size_t n = std::min(unknown.size(), kShown); n > 0)
    return bad_input(
        "{}: how {} names and splits tensors is not known of {} (docs/reshard.md has the models that are covered)",
        text, wish.names, fmt::join(unknown.begin(), unknown.begin() + static_cast<std::ptrdiff_t>(n), ", "));
  WEFT_CHECK(check(layout));
  return layout;
}

}  // namespace weft::reshard
