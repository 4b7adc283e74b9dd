#pragma once

#include <span>
#include <string_view>

namespace weft::embedded {

struct File {
  std::string_view path;  // relative to the project's root, e.g. "data/catalog/links.json"
  std::string_view text;
};

// The data files compiled into this program (cmake/weft.cmake, weft_embed).
std::span<const File> files();

}  // namespace weft::embedded
