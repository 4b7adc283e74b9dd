#pragma once

#include <cassert>
#include <iostream>

// In the place of NIXL's header of this name, which needs Abseil's: what NIXL's headers for plugins use of it.
#define NIXL_ERROR std::cerr
#define NIXL_ASSERT(condition) assert(condition)
