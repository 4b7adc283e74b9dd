#pragma once

#include <span>

#include "base/embedded.h"

namespace weft::embedded {
// data/kernels, compiled in.
std::span<const File> kernel_files();
}  // namespace weft::embedded
