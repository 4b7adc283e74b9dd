#pragma once

#include <span>

#include "base/embedded.h"

namespace weft::embedded {
// data/models, compiled in: families.json first, then the catalogue.
std::span<const File> model_files();
}  // namespace weft::embedded
