#pragma once

#include <span>

#include "base/embedded.h"

namespace weft::embedded {
// data/training, compiled in.
std::span<const File> training_files();
}  // namespace weft::embedded

namespace weft::training {

inline constexpr double kGiB = 1073741824.0;  // bytes

}  // namespace weft::training
