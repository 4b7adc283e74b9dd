#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace weft::detail {

void check_failed(const char* kind, const char* condition, const char* file, int line, const std::string& detail) {
  std::fprintf(stderr, "weft: %s broken at %s:%d: %s %s\n", kind, file, line, condition, detail.c_str());
  std::abort();
}

}  // namespace weft::detail
