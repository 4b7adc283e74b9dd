#pragma once

#include <span>

#include "base/embedded.h"

namespace weft::embedded {
// data/prices, compiled in.
std::span<const File> price_files();
}  // namespace weft::embedded
