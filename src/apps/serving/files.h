#pragma once

#include <span>

#include "base/embedded.h"

namespace weft::embedded {
// data/serving, compiled in.
std::span<const File> serving_files();
}  // namespace weft::embedded
