#include "move/reshard/safetensors.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "base/text.h"
#include "base/text_file.h"
#include "move/reshard/layout_json.h"
#include "move/reshard/strict_json.h"

namespace weft::reshard {
namespace {

using nlohmann::json;

constexpr std::uint64_t kMostHeader = 100'000'000;  // bytes: safetensors' own limit (its README, 2022-09)

struct Header {
  json tensors;
  std::uint64_t data = 0;  // bytes behind it
};

// The header of a file: 8 bytes of little-endian length, then JSON.
Result<Header> header_of(const std::filesystem::path& file) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(file, ignored)) return bad_input("{}: no such file", file.string());
  const std::uintmax_t all = std::filesystem::file_size(file, ignored);
  std::ifstream in(file, std::ios::binary);
  std::string first(64, '\0');
  in.read(first.data(), static_cast<std::streamsize>(first.size()));
  first.resize(static_cast<std::size_t>(in.gcount()));
  WEFT_CHECK(check_no_lfs_pointer(file.string(), first));
  constexpr std::size_t kLength = 8;
  if (first.size() < kLength) return bad_input("{}: too short for safetensors", file.string());
  std::uint64_t size = 0;
  for (std::size_t i = kLength; i-- > 0;) size = size << 8 | static_cast<unsigned char>(first[i]);
  if (size > kMostHeader) return bad_input("{}: a header of {} B: at most {}", file.string(), size, kMostHeader);
  std::string text(size, '\0');
  in.clear();
  in.seekg(kLength);
  if (!in.read(text.data(), static_cast<std::streamsize>(size)))
    return bad_input("{}: ends within its header of {} B", file.string(), size);
  StrictJson header = parse_strict_json(text);
  if (header.twice.size() == 1)
    return bad_input("{}: tensor {}: is there twice", file.string(), shown(header.twice[0]));
  if (!header.twice.empty())
    return bad_input("{}: tensor {}: key \"{}\" is there twice", file.string(), shown(header.twice[0]),
                     shown(header.twice.back()));
  if (!header.value.is_object()) return bad_input("{}: its header is no JSON object", file.string());
  return Header{std::move(header.value), all - kLength - size};
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
  t.type = type_named(entry["dtype"].get<std::string>());
  for (const json& n : entry["shape"]) {
    if (!n.is_number_unsigned() || n.get<std::uint64_t>() > INT64_MAX)
      return problem("a dimension that is no whole number");
    t.shape.push_back(n.get<std::int64_t>());
  }
  t.boxes.push_back({rank, std::vector<std::int64_t>(t.shape.size()), t.shape});
  return t;
}

// The bytes of a file's data that one tensor has.
struct Extent {
  std::uint64_t begin = 0, end = 0;
  std::string tensor;
};

Result<Extent> extent_of(const std::string& file, const Tensor& t, const json& entry, std::uint64_t data) {
  const auto problem = [&](const std::string& what) {
    return bad_input("{}: tensor {}: {}", file, shown(t.name), what);
  };
  const json& offsets = entry.contains("data_offsets") ? entry["data_offsets"] : json();
  if (!offsets.is_array() || offsets.size() != 2 || !offsets[0].is_number_unsigned() ||
      !offsets[1].is_number_unsigned())
    return problem("has no data_offsets [BEGIN, END]");
  Extent extent{offsets[0].get<std::uint64_t>(), offsets[1].get<std::uint64_t>(), t.name};
  std::uint64_t bytes = static_cast<std::uint64_t>(t.element_bytes);
  bool fits = true;
  for (const std::int64_t n : t.shape)
    fits = !__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(n), &bytes) && fits;
  if (std::find(t.shape.begin(), t.shape.end(), 0) != t.shape.end()) fits = true, bytes = 0;
  if (!fits || extent.end < extent.begin || extent.end - extent.begin != bytes)
    return problem(fmt::format("data_offsets [{}, {}], and {} of shape [{}] takes {} B", extent.begin, extent.end,
                               entry["dtype"].get<std::string>(), fmt::join(t.shape, ", "),
                               fits ? std::to_string(bytes) : "more than 2^64"));
  if (extent.end > data)
    return problem(
        fmt::format("ends at byte {} of the data, of which the file has {} B: it is cut off", extent.end, data));
  return extent;
}

// Errors (bad input): bytes of the data that two tensors have, or none.
Status check_extents(const std::string& file, std::vector<Extent> extents, std::uint64_t data) {
  std::sort(extents.begin(), extents.end(),
            [](const Extent& a, const Extent& b) { return std::tie(a.begin, a.end) < std::tie(b.begin, b.end); });
  std::uint64_t end = 0;
  const Extent* before = nullptr;
  for (const Extent& e : extents) {
    if (e.begin < end)
      return bad_input("{}: tensor {}: shares bytes {} to {} of the data with tensor {}", file, shown(e.tensor),
                       e.begin, std::min(e.end, end), shown(before->tensor));
    if (e.begin > end)
      return bad_input("{}: tensor {}: begins at byte {} of the data; bytes from {} on belong to no tensor", file,
                       shown(e.tensor), e.begin, end);
    end = e.end, before = &e;
  }
  if (end == data) return {};
  return bad_input("{}: {} B of data{}, and the file has {} B", file, end,
                   before == nullptr ? " without a tensor" : fmt::format(" end with tensor {}", shown(before->tensor)),
                   data);
}

// The files of an index, each with the tensors that it is to have.
Result<std::map<std::string, std::set<std::string>>> files_of(const std::filesystem::path& index) {
  WEFT_TRY(const std::string text, read_text_file(index, std::uintmax_t{1} << 30));
  WEFT_CHECK(check_no_lfs_pointer(index.string(), text));
  const auto [root, twice, error] = parse_strict_json(text);
  if (twice.size() > 1 && twice[0] == "weight_map")
    return bad_input("{}: tensor {}: is there twice", index.string(), shown(twice[1]));
  if (!twice.empty()) return bad_input("{}: key \"{}\" is there twice", index.string(), shown(twice.back()));
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
    WEFT_TRY(const Header header, header_of(path));
    for (const std::string& tensor : tensors)
      if (!header.tensors.contains(tensor))
        return bad_input("{}: tensor {}: the index says it is here", path.string(), shown(tensor));
    std::vector<Extent> extents;
    for (const auto& [tensor, entry] : header.tensors.items()) {
      if (tensor == "__metadata__") continue;
      WEFT_TRY(auto t, tensor_of(path.string(), tensor, entry, rank));
      WEFT_TRY(auto extent, extent_of(path.string(), t, entry, header.data));
      extents.push_back(std::move(extent));
      if (!index || tensors.contains(tensor)) layout.tensors.push_back(std::move(t));
    }
    WEFT_CHECK(check_extents(path.string(), std::move(extents), header.data));
    ++rank;
  }
  layout.ranks = rank;
  WEFT_CHECK(check(layout));
  return layout;
}

}  // namespace weft::reshard
