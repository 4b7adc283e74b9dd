#include "move/reshard/tensor_parallel.h"

#include <numeric>
#include <regex>

#include "base/embedded.h"
#include "base/text.h"

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

struct Wish {
  std::string names;
  std::int64_t tp = 0, kv_heads = 0;
};

Result<Wish> wish_of(std::string_view text) {
  const std::size_t colon = text.find(':');
  Wish wish{.names = std::string(text.substr(0, colon))};
  for (std::string_view rest = text.substr(colon + 1); !rest.empty();) {
    const std::string_view option = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), option.size() + 1));
    const std::size_t equals = std::min(option.find('='), option.size());
    const std::string_view key = option.substr(0, equals), value = option.substr(std::min(equals + 1, option.size()));
    if (key != "tp" && key != "kv_heads")
      return bad_input("{}: option {}: there are tp and kv_heads", text, shown(key));
    WEFT_TRY((key == "tp" ? wish.tp : wish.kv_heads), parse_integer(key, value, 1, 1 << 16));
  }
  if (wish.tp == 0) return bad_input("{}: has no tp=N", text);
  return wish;
}

// The splits and padding that a row gives a tensor.
Status apply(const Row& row, const Wish& wish, Tensor& t, std::string_view text) {
  const auto problem = [&](const std::string& what) {
    return bad_input("{}: tensor {}: {}", text, shown(t.name), what);
  };
  if (row.split == "copy") return {};
  const auto d = static_cast<std::size_t>(row.dim);
  if (row.split == "scale" && (d >= t.shape.size() || t.shape[d] == 1)) return {};
  if (d >= t.shape.size())
    return problem(fmt::format("is split along dimension {} and has {}", row.dim, t.shape.size()));
  Split split{.axis = 0, .dim = row.dim, .even = true};
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
  } else if (row.split == "gated") {
    if (t.shape[d] % 2 != 0) return problem(fmt::format("{} rows are no two halves", t.shape[d]));
    split.kind = Split::Kind::kInterleaved;
    split.parts = {{t.shape[d] / 2, 1}, {t.shape[d] / 2, 1}};
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
  const auto add = [&](const std::string& name, const std::vector<std::int64_t>& shape, std::int64_t bytes) -> Status {
    Tensor t{.name = name, .shape = shape, .element_bytes = bytes};
    const auto row = std::find_if(table.begin(), table.end(), [&](const Row& r) {
      return r.names == wish.names && std::regex_search(name, r.tensor);
    });
    if (row == table.end()) {
      unknown.push_back(std::string(shown(name)));
      return {};
    }
    WEFT_CHECK(apply(*row, wish, t, text));
    layout.tensors.push_back(std::move(t));
    return {};
  };
  for (const Tensor& t : of.tensors) {
    if (t.components.empty()) WEFT_CHECK(add(t.name, t.shape, t.element_bytes));
    for (const auto& c : t.components) {
      auto shape = t.shape;
      shape[static_cast<std::size_t>(t.concat_dim)] = c.size;
      WEFT_CHECK(add(c.name, shape, t.element_bytes));
    }
  }
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
