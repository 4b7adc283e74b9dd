#include <array>
#include <regex>

#include "base/text.h"
#include "move/reshard/layout_json.h"

namespace weft::reshard {

namespace {

std::string plain(std::string_view type) {
  std::string word(type);
  if (word.starts_with("torch.")) word.erase(0, 6);
  for (char& c : word) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return word;
}

}  // namespace

std::string type_named(std::string_view type) {
  constexpr std::pair<std::string_view, std::string_view> kNames[] = {{"double", "float64"},
                                                                      {"f64", "float64"},
                                                                      {"float", "float32"},
                                                                      {"f32", "float32"},
                                                                      {"half", "float16"},
                                                                      {"f16", "float16"},
                                                                      {"bf16", "bfloat16"},
                                                                      {"f8_e4m3", "float8_e4m3fn"},
                                                                      {"float8_e4m3", "float8_e4m3fn"},
                                                                      {"f8_e5m2", "float8_e5m2"},
                                                                      {"f8_e8m0", "float8_e8m0fnu"},
                                                                      {"i64", "int64"},
                                                                      {"i32", "int32"},
                                                                      {"i16", "int16"},
                                                                      {"i8", "int8"},
                                                                      {"u64", "uint64"},
                                                                      {"u32", "uint32"},
                                                                      {"u16", "uint16"},
                                                                      {"u8", "uint8"}};
  const std::string word = plain(type);
  for (const auto& [from, to] : kNames)
    if (word == from) return std::string(to);
  return word;
}

Result<std::int64_t> element_bytes_of(std::string_view type) {
  struct Type {
    std::string_view name;
    std::int64_t bytes;
  };
  constexpr std::array kTypes = {Type{"float64", 8},     Type{"double", 8},        Type{"f64", 8},
                                 Type{"int64", 8},       Type{"i64", 8},           Type{"uint64", 8},
                                 Type{"u64", 8},         Type{"float32", 4},       Type{"float", 4},
                                 Type{"f32", 4},         Type{"int32", 4},         Type{"i32", 4},
                                 Type{"uint32", 4},      Type{"u32", 4},           Type{"bfloat16", 2},
                                 Type{"bf16", 2},        Type{"float16", 2},       Type{"half", 2},
                                 Type{"f16", 2},         Type{"int16", 2},         Type{"i16", 2},
                                 Type{"uint16", 2},      Type{"u16", 2},           Type{"int8", 1},
                                 Type{"i8", 1},          Type{"uint8", 1},         Type{"u8", 1},
                                 Type{"bool", 1},        Type{"f8_e4m3", 1},       Type{"f8_e5m2", 1},
                                 Type{"f8_e8m0", 1},     Type{"float8_e4m3fn", 1}, Type{"float8_e5m2", 1},
                                 Type{"float8_e4m3", 1}, Type{"float8_e8m0fnu", 1}};
  const std::string word = plain(type);
  for (const Type& t : kTypes)
    if (t.name == word) return t.bytes;
  return bad_input(
      "type {}: float64, float32, bfloat16, float16, float8_e4m3fn, float8_e5m2, int8 to int64, uint8 to uint64, bool",
      shown(type));
}

Result<std::vector<Split>> splits_of_placements(const std::vector<std::string>& placements, const Mesh& mesh) {
  static const std::regex kReplicate(R"(\s*(R|Replicate\(\))\s*)"),
      kShard(R"(\s*(?:S|Shard)\(\s*(?:dim\s*=\s*)?(-?\d{1,9})\s*\)\s*)"),
      kStrided(
          R"(\s*_?(?:StridedShard|S)\(\s*(?:dim\s*=\s*)?(-?\d{1,9})\s*,\s*(?:(?:sf|split_factor)\s*=\s*)?(\d{1,9})\s*\)\s*)");
  if (placements.size() != mesh.axes.size())
    return bad_input("{} placements for the {} axes of mesh {}", placements.size(), mesh.axes.size(), shown(mesh.name));
  std::vector<Split> plain, strided;
  for (std::size_t a = 0; a < placements.size(); ++a) {
    std::smatch match;
    const std::string& text = placements[a];
    if (std::regex_match(text, kReplicate) || (mesh.axes[a].size == 1 && text.find("Partial") == std::string::npos))
      continue;
    Split split{.axis = static_cast<int>(a)};
    if (std::regex_match(text, match, kShard)) {
      split.dim = std::stoi(match[1]);
      plain.push_back(split);
      continue;
    }
    if (!std::regex_match(text, match, kStrided))
      return bad_input("placement {}: Shard(d), Replicate() or _StridedShard(dim=d, sf=n)", shown(text));
    split.dim = std::stoi(match[1]);
    std::int64_t factor = 1;  // what later axes split the dimension into: torch applies them first
    for (std::size_t b = a + 1; b < placements.size(); ++b) {
      std::smatch later;
      if (std::regex_match(placements[b], later, kShard) && std::stoi(later[1]) == split.dim)
        factor *= mesh.axes[b].size;
    }
    if (factor != std::stoll(match[2]))
      return bad_input("placement {}: later axes split dimension {} into {}", shown(text), split.dim, factor);
    strided.insert(strided.begin(), split);
  }
  plain.insert(plain.end(), strided.begin(), strided.end());
  return plain;
}

}  // namespace weft::reshard
