#include "move/reshard/safetensors.h"

#include <cstring>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/text.h"
#include "base/text_file.h"
#include "move/reshard/layout_json.h"

namespace weft::reshard {
namespace {

using nlohmann::json;

constexpr std::uint64_t kMostHeader = 100'000'000;  // bytes: safetensors' own limit (its README, 2022-09)

// The header of a file: 8 bytes of little-endian length, then JSON.
Result<json> header_of(const std::filesystem::path& file) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(file, ignored)) return bad_input("{}: no such file", file.string());
  std::ifstream in(file, std::ios::binary);
  unsigned char bytes[8];
  if (!in.read(reinterpret_cast<char*>(bytes), sizeof bytes))
    return bad_input("{}: too short for safetensors", file.string());
  std::uint64_t size = 0;
  for (int i = 7; i >= 0; --i) size = size << 8 | bytes[i];
  if (size > kMostHeader) return bad_input("{}: a header of {} B: at most {}", file.string(), size, kMostHeader);
  std::string text(size, '\0');
  if (!in.read(text.data(), static_cast<std::streamsize>(size)))
    return bad_input("{}: ends within its header of {} B", file.string(), size);
  json header = json::parse(text, nullptr, false);
  if (!header.is_object()) return bad_input("{}: its header is no JSON object", file.string());
  return header;
}

Result<Tensor> tensor_of(const std::string& file, const std::string& name, const json& entry, Rank rank) {
  const auto problem = [&](const std::string& what) { return bad_input("{}: tensor {}: {}", file, shown(name), what); };
  if (!entry.is_object() || !entry.contains("dtype") || !entry["dtype"].is_string() || !entry.contains("shape") ||
      !entry["shape"].is_array())
    return problem("has no dtype and shape");
  Tensor t{.name = name};
  const auto bytes = element_bytes_of(entry["dtype"].get<std::string>());
  if (!bytes) return problem(bytes.error().message);
  t.element_bytes = *bytes;
  for (const json& n : entry["shape"]) {
    if (!n.is_number_unsigned() || n.get<std::uint64_t>() > INT64_MAX)
      return problem("a dimension that is no whole number");
    t.shape.push_back(n.get<std::int64_t>());
  }
  t.boxes.push_back({rank, std::vector<std::int64_t>(t.shape.size()), t.shape});
  return t;
}

// The files of an index, each with the tensors that it is to have.
Result<std::map<std::string, std::set<std::string>>> files_of(const std::filesystem::path& index) {
  WEFT_TRY(const std::string text, read_text_file(index, std::uintmax_t{1} << 30));
  const json root = json::parse(text, nullptr, false);
  if (!root.is_object() || !root.contains("weight_map") || !root["weight_map"].is_object())
    return bad_input("{}: no \"weight_map\"", index.string());
  std::map<std::string, std::set<std::string>> files;
  for (const auto& [tensor, file] : root["weight_map"].items()) {
    if (!file.is_string() || std::filesystem::path(file.get<std::string>()).filename() != file.get<std::string>())
      return bad_input("{}: tensor {}: its file is none beside the index", index.string(), shown(tensor));
    files[file.get<std::string>()].insert(tensor);
  }
  return files;
}

}  // namespace

bool is_safetensors(const std::filesystem::path& file) {
  const std::string name = file.filename().string();
  return name.ends_with(".safetensors") || name.ends_with(".safetensors.index.json");
}

Result<Layout> read_safetensors(const std::filesystem::path& file) {
  Layout layout{.name = file.string()};
  std::map<std::string, std::set<std::string>> files{{file.filename().string(), {}}};
  const bool index = file.extension() == ".json";
  if (index) {
    WEFT_TRY(files, files_of(file));
    if (files.empty()) return bad_input("{}: names no file", file.string());
  }
  Rank rank = 0;
  for (const auto& [name, tensors] : files) {
    const auto path = file.parent_path() / name;
    WEFT_TRY(const json header, header_of(path));
    for (const std::string& tensor : tensors)
      if (!header.contains(tensor))
        return bad_input("{}: tensor {}: the index says it is here", path.string(), shown(tensor));
    for (const auto& [tensor, entry] : header.items()) {
      if (tensor == "__metadata__" || (index && !tensors.contains(tensor))) continue;
      WEFT_TRY(auto t, tensor_of(path.string(), tensor, entry, rank));
      layout.tensors.push_back(std::move(t));
    }
    ++rank;
  }
  layout.ranks = rank;
  WEFT_CHECK(check(layout));
  return layout;
}

}  // namespace weft::reshard
