#include "move/reshard/layout_json.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "base/text.h"
#include "move/reshard/strict_json.h"

namespace weft::reshard {
namespace {

using nlohmann::json;

constexpr std::string_view kSchema = "weft.layout/1";
constexpr std::string_view kKinds[] = {"shard", "block_cyclic", "interleaved"};

class Reader {
 public:
  Reader(std::string_view file, const json& root) : root_(root) { layout_.name = file; }

  Result<Layout> run() {
    if (!root_.is_object() || root_.value("schema", json()) != kSchema)
      return problem("is not a layout: no \"schema\": \"{}\"", kSchema);
    WEFT_CHECK(only(root_, {"schema", "ranks", "meshes", "tensors", "comment"}));
    WEFT_TRY(const std::int64_t ranks, number(root_, "ranks", 1, 1 << 20, -1));
    if (ranks < 0) return problem("has no \"ranks\"");
    layout_.ranks = static_cast<Rank>(ranks);
    const json empty = json::array();
    const json& meshes = root_.contains("meshes") ? root_["meshes"] : empty;
    if (!meshes.is_array()) return problem("\"meshes\" is no array");
    for (const json& mesh : meshes) WEFT_CHECK(add_mesh(mesh));
    if (layout_.meshes.empty()) layout_.meshes.push_back(line_of(layout_.ranks));
    if (!root_.contains("tensors") || !root_["tensors"].is_array()) return problem("has no array \"tensors\"");
    for (const json& tensor : root_["tensors"]) {
      Tensor t;
      const json name = tensor.is_object() ? tensor.value("name", json()) : json();
      if (!name.is_string()) return problem("a tensor without a name");
      t.name = name.get<std::string>();
      where_ = fmt::format("tensor {}: ", shown(t.name));
      WEFT_CHECK(read_tensor(tensor, t));
      layout_.tensors.push_back(std::move(t));
    }
    WEFT_CHECK(check(layout_));
    return std::move(layout_);
  }

 private:
  template <class... Args>
  tl::unexpected<Error> problem(fmt::format_string<Args...> format, Args&&... args) const {
    return bad_input("{}: {}{}", layout_.name, where_, fmt::format(format, std::forward<Args>(args)...));
  }

  static Mesh line_of(Rank ranks) {
    Mesh mesh{.name = "all", .axes = {{"ranks", ranks}}};
    mesh.ranks.resize(static_cast<std::size_t>(ranks));
    std::iota(mesh.ranks.begin(), mesh.ranks.end(), 0);
    return mesh;
  }

  Status only(const json& object, std::initializer_list<std::string_view> keys) const {
    if (!object.is_object()) return problem("expected an object");
    for (const auto& [key, value] : object.items())
      if (std::find(keys.begin(), keys.end(), key) == keys.end())
        return problem("unknown key \"{}\"; there are {}", shown(key), fmt::join(keys, ", "));
    return {};
  }

  // `missing`: what a key that is not there means.
  Result<std::int64_t> number(const json& object, const char* key, std::int64_t low, std::int64_t high,
                              std::int64_t missing) const {
    const auto at = object.find(key);
    if (at == object.end()) return missing;
    if (!at->is_number_integer() || (at->is_number_unsigned() && at->get<std::uint64_t>() > INT64_MAX))
      return problem("\"{}\" is no whole number", key);
    const auto value = at->get<std::int64_t>();
    if (value < low || value > high) return problem("\"{}\": {}: {} to {}", key, value, low, high);
    return value;
  }

  Result<std::vector<std::int64_t>> numbers(const json& object, const char* key) const {
    const auto at = object.find(key);
    if (at == object.end() || !at->is_array()) return problem("has no array \"{}\"", key);
    std::vector<std::int64_t> all;
    for (const json& v : *at) {
      if (!v.is_number_integer() || (v.is_number_unsigned() && v.get<std::uint64_t>() > INT64_MAX))
        return problem("\"{}\" has a value that is no whole number", key);
      all.push_back(v.get<std::int64_t>());
    }
    return all;
  }

  Result<std::vector<Rank>> ranks(const json& object, const char* key) const {
    WEFT_TRY(const auto all, numbers(object, key));
    std::vector<Rank> ranks;
    for (const std::int64_t r : all) {
      if (r < 0 || r >= layout_.ranks)
        return problem("\"{}\": rank {}: the layout has {} ranks", key, r, layout_.ranks);
      ranks.push_back(static_cast<Rank>(r));
    }
    return ranks;
  }

  Status add_mesh(const json& value) {
    where_ = "a mesh: ";
    WEFT_CHECK(only(value, {"name", "axes", "ranks", "first"}));
    Mesh mesh;
    const json name = value.value("name", json("all"));
    if (!name.is_string()) return problem("\"name\" is no text");
    mesh.name = name.get<std::string>();
    where_ = fmt::format("mesh {}: ", shown(mesh.name));
    for (const Mesh& other : layout_.meshes)
      if (other.name == mesh.name) return problem("is there twice");
    if (!value.contains("axes") || !value["axes"].is_array()) return problem("has no array \"axes\"");
    std::int64_t size = 1;
    for (const json& a : value["axes"]) {
      WEFT_CHECK(only(a, {"name", "size"}));
      const json axis = a.value("name", json());
      if (!axis.is_string()) return problem("an axis without a name");
      WEFT_TRY(const std::int64_t n, number(a, "size", 1, layout_.ranks, -1));
      if (n < 0) return problem("axis {} has no \"size\"", shown(axis.get<std::string>()));
      mesh.axes.push_back({axis.get<std::string>(), n});
      if (__builtin_mul_overflow(size, n, &size) || size > layout_.ranks)
        return problem("its axes need more than the layout's {} ranks", layout_.ranks);
    }
    if (value.contains("ranks")) {
      if (value.contains("first")) return problem("has both \"ranks\" and \"first\"");
      WEFT_TRY(mesh.ranks, ranks(value, "ranks"));
    } else {
      WEFT_TRY(const std::int64_t first, number(value, "first", 0, layout_.ranks - size, 0));
      for (std::int64_t r = 0; r < size; ++r) mesh.ranks.push_back(static_cast<Rank>(first + r));
    }
    layout_.meshes.push_back(std::move(mesh));
    where_.clear();
    return {};
  }

  Status read_tensor(const json& value, Tensor& t) {
    WEFT_CHECK(only(value, {"name", "shape", "type", "element_bytes", "mesh", "splits", "placements", "padded", "boxes",
                            "owners", "holds", "along"}));
    WEFT_TRY(t.shape, numbers(value, "shape"));
    if (value.contains("type") == value.contains("element_bytes"))
      return problem("needs one of \"type\" and \"element_bytes\"");
    WEFT_TRY(t.element_bytes, number(value, "element_bytes", 1, 1024, 1));
    if (value.contains("type")) {
      if (!value["type"].is_string()) return problem("\"type\" is no text");
      const auto bytes = element_bytes_of(value["type"].get<std::string>());
      if (!bytes) return problem("{}", bytes.error().message);
      t.element_bytes = *bytes;
      t.type = type_named(value["type"].get<std::string>());
    }
    if (value.contains("padded")) {
      WEFT_TRY(t.padded, numbers(value, "padded"));
    }
    WEFT_CHECK(read_components(value, t));
    int ways = 0;
    for (const char* way : {"splits", "placements", "boxes", "owners"}) ways += value.contains(way);
    if (ways > 1) return problem("has more than one of \"splits\", \"placements\", \"boxes\" and \"owners\"");
    if (value.contains("boxes") || value.contains("owners")) {
      if (value.contains("mesh") || value.contains("padded"))
        return problem("\"boxes\" and \"owners\" need neither \"mesh\" nor \"padded\"");
      return read_boxes(value, t);
    }
    if (value.contains("mesh")) {
      const auto at = std::find_if(layout_.meshes.begin(), layout_.meshes.end(),
                                   [&](const Mesh& m) { return value["mesh"] == m.name; });
      if (at == layout_.meshes.end()) return problem("its mesh is none of the layout's");
      t.mesh = static_cast<int>(at - layout_.meshes.begin());
    } else if (layout_.meshes.size() > 1) {
      std::vector<std::string> names;
      for (const Mesh& m : layout_.meshes) names.push_back(shown(m.name));
      return problem("has no \"mesh\"; there are {}", fmt::join(names, ", "));
    }
    const Mesh& mesh = layout_.meshes[static_cast<std::size_t>(t.mesh)];
    if (value.contains("placements")) {
      std::vector<std::string> words;
      if (!value["placements"].is_array()) return problem("\"placements\" is no array");
      for (const json& p : value["placements"]) {
        if (!p.is_string()) return problem("a placement is no text");
        words.push_back(p.get<std::string>());
      }
      auto splits = splits_of_placements(words, mesh);
      if (!splits) return problem("{}", splits.error().message);
      t.splits = std::move(*splits);
      for (Split& s : t.splits)
        if (s.dim < 0) s.dim += static_cast<int>(t.shape.size());
    }
    if (value.contains("splits")) {
      if (!value["splits"].is_array()) return problem("\"splits\" is no array");
      for (const json& s : value["splits"]) WEFT_CHECK(read_split(s, mesh, t));
    }
    return {};
  }

  Status read_components(const json& value, Tensor& t) {
    if (!value.contains("holds")) return {};
    WEFT_TRY(const std::int64_t along, number(value, "along", 0, static_cast<std::int64_t>(t.shape.size()) - 1, 0));
    t.concat_dim = static_cast<int>(along);
    if (!value["holds"].is_array() || value["holds"].empty()) return problem("\"holds\" is no array of tensors");
    for (const json& c : value["holds"]) {
      WEFT_CHECK(only(c, {"name", "size"}));
      const json name = c.value("name", json());
      if (!name.is_string()) return problem("holds a tensor without a name");
      WEFT_TRY(const std::int64_t size, number(c, "size", 0, INT64_MAX, -1));
      if (size < 0) return problem("holds {} without a \"size\"", shown(name.get<std::string>()));
      t.components.push_back({name.get<std::string>(), size});
    }
    return {};
  }

  Status read_boxes(const json& value, Tensor& t) {
    if (value.contains("owners")) {
      WEFT_TRY(const auto owners, ranks(value, "owners"));
      for (const Rank r : owners) t.boxes.push_back({r, std::vector<std::int64_t>(t.shape.size()), t.shape});
      if (owners.empty()) return problem("\"owners\" is empty");
      return {};
    }
    if (!value["boxes"].is_array() || value["boxes"].empty()) return problem("\"boxes\" is no array of boxes");
    for (const json& b : value["boxes"]) {
      WEFT_CHECK(only(b, {"rank", "offset", "shape"}));
      WEFT_TRY(const std::int64_t rank, number(b, "rank", 0, layout_.ranks - 1, -1));
      if (rank < 0) return problem("a box without a \"rank\"");
      Box box{.rank = static_cast<Rank>(rank)};
      WEFT_TRY(box.offset, numbers(b, "offset"));
      WEFT_TRY(box.shape, numbers(b, "shape"));
      t.boxes.push_back(std::move(box));
    }
    return {};
  }

  Status read_split(const json& s, const Mesh& mesh, Tensor& t) {
    WEFT_CHECK(only(s, {"axis", "dim", "as", "block", "copies", "parts", "even"}));
    Split split;
    const auto axis = std::find_if(mesh.axes.begin(), mesh.axes.end(),
                                   [&](const Mesh::Axis& a) { return s.value("axis", json()) == a.name; });
    if (axis == mesh.axes.end()) return problem("a split's \"axis\" is none of mesh {}", shown(mesh.name));
    split.axis = static_cast<int>(axis - mesh.axes.begin());
    WEFT_TRY(const std::int64_t dim, number(s, "dim", 0, static_cast<std::int64_t>(t.shape.size()) - 1, 0));
    split.dim = static_cast<int>(dim);
    const json as = s.value("as", json("shard"));
    const auto kind = std::find_if(std::begin(kKinds), std::end(kKinds), [&](std::string_view k) { return as == k; });
    if (kind == std::end(kKinds)) return problem("a split's \"as\": {}", fmt::join(kKinds, ", "));
    split.kind = static_cast<Split::Kind>(kind - std::begin(kKinds));
    const auto goes_with = [&](const char* key, Split::Kind of) -> Status {
      if (s.contains(key) && split.kind != of)
        return problem("\"{}\" goes with \"as\": \"{}\"", key, kKinds[static_cast<std::size_t>(of)]);
      return {};
    };
    WEFT_CHECK(goes_with("block", Split::Kind::kBlockCyclic));
    WEFT_CHECK(goes_with("copies", Split::Kind::kShard));
    WEFT_CHECK(goes_with("parts", Split::Kind::kInterleaved));
    if (s.contains("even") && split.kind == Split::Kind::kBlockCyclic)
      return problem("\"even\" goes with shard and interleaved");
    if (split.kind == Split::Kind::kBlockCyclic && !s.contains("block"))
      return problem("block_cyclic needs a \"block\"");
    WEFT_TRY(split.block, number(s, "block", 1, INT64_MAX / (1 << 21), 1));
    WEFT_TRY(split.copies, number(s, "copies", 1, axis->size, 1));
    if (s.contains("even") && !s["even"].is_boolean()) return problem("\"even\" is neither true nor false");
    split.even = s.value("even", false);
    if (split.kind == Split::Kind::kInterleaved) WEFT_CHECK(read_parts(s, *axis, t, split));
    t.splits.push_back(std::move(split));
    return {};
  }

  // Without parts: those of the tensors it holds.
  Status read_parts(const json& s, const Mesh::Axis& axis, const Tensor& t, Split& split) {
    if (!s.contains("parts")) {
      if (t.components.empty() || t.concat_dim != split.dim) return problem("interleaved needs \"parts\"");
      for (const auto& c : t.components) split.parts.push_back({c.size, 1});
      return {};
    }
    if (!s["parts"].is_array()) return problem("\"parts\" is no array");
    for (const json& p : s["parts"]) {
      WEFT_CHECK(only(p, {"size", "copies"}));
      Split::Part part;
      WEFT_TRY(part.size, number(p, "size", 0, INT64_MAX, -1));
      if (part.size < 0) return problem("a part without a \"size\"");
      WEFT_TRY(part.copies, number(p, "copies", 1, axis.size, 1));
      split.parts.push_back(part);
    }
    return {};
  }

  const json& root_;
  Layout layout_;
  std::string where_;
};

json to_json(const Layout& layout, const Tensor& t) {
  json value = {{"name", t.name}, {"shape", t.shape}};
  if (t.type.empty())
    value["element_bytes"] = t.element_bytes;
  else
    value["type"] = t.type;
  if (!t.components.empty()) {
    value["along"] = t.concat_dim;
    for (const auto& c : t.components) value["holds"].push_back({{"name", c.name}, {"size", c.size}});
  }
  for (const Box& b : t.boxes) value["boxes"].push_back({{"rank", b.rank}, {"offset", b.offset}, {"shape", b.shape}});
  if (!t.boxes.empty()) return value;
  const Mesh& mesh = layout.meshes[static_cast<std::size_t>(t.mesh)];
  value["mesh"] = mesh.name;
  if (!t.padded.empty()) value["padded"] = t.padded;
  for (const Split& s : t.splits) {
    json split = {{"axis", mesh.axes[static_cast<std::size_t>(s.axis)].name},
                  {"dim", s.dim},
                  {"as", kKinds[static_cast<std::size_t>(s.kind)]}};
    if (s.kind == Split::Kind::kBlockCyclic) split["block"] = s.block;
    if (s.kind == Split::Kind::kShard && s.copies > 1) split["copies"] = s.copies;
    if (s.kind == Split::Kind::kInterleaved) {
      split["parts"] = json::array();
      for (const auto& p : s.parts) split["parts"].push_back({{"size", p.size}, {"copies", p.copies}});
    }
    if (s.even) split["even"] = true;
    value["splits"].push_back(std::move(split));
  }
  return value;
}

// The object that a way leads into, as "tensors 3 (w)".
std::string place_of(const json& root, const std::vector<std::string>& way) {
  std::string place;
  const json* at = &root;
  for (std::size_t i = 0; i + 1 < way.size(); ++i) {
    place += (i > 0 ? " " : "") + shown(way[i]);
    at = at->is_array() ? &(*at)[std::stoull(way[i])] : &(*at)[way[i]];
    if (at->is_object() && at->contains("name") && at->at("name").is_string())
      place += " (" + shown(at->at("name").get<std::string>()) + ")";
  }
  return place;
}

}  // namespace

Result<Layout> parse_layout(std::string_view file, std::string_view text) {
  WEFT_CHECK(check_no_lfs_pointer(std::string(file), text));
  const StrictJson parsed = parse_strict_json(text);
  if (parsed.value.is_discarded()) return bad_input("{}: not JSON: {}", file, parsed.error);
  if (const auto& twice = parsed.twice; !twice.empty())
    return bad_input("{}: key \"{}\" is there twice{}", file, shown(twice.back()),
                     twice.size() == 1 ? "" : " in " + place_of(parsed.value, twice));
  return Reader(file, parsed.value).run();
}

json to_json(const Layout& layout) {
  json value = {{"schema", kSchema}, {"ranks", layout.ranks}, {"meshes", json::array()}, {"tensors", json::array()}};
  for (const Mesh& mesh : layout.meshes) {
    json axes = json::array();
    for (const auto& a : mesh.axes) axes.push_back({{"name", a.name}, {"size", a.size}});
    value["meshes"].push_back({{"name", mesh.name}, {"axes", axes}, {"ranks", mesh.ranks}});
  }
  for (const Tensor& t : layout.tensors) value["tensors"].push_back(to_json(layout, t));
  return value;
}

}  // namespace weft::reshard
