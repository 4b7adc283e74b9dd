#pragma once

#include <cstddef>

namespace weft::tests {

// From now on this process gets N more bytes from operator new, besides those that it gives back; then
// std::bad_alloc. Linked into a program, the file replaces its operator new.
void leave_memory(std::size_t n);
void give_memory_back();

}  // namespace weft::tests
