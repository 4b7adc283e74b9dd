#pragma once

#include <string>
#include <string_view>

namespace weft::doctor {

// Fragmentation, by PyTorch's message of a failed allocation. Every such message ends with advice about it; it
// holds only where memory that is reserved and unused would have held the request, and is a twentieth of what is
// reserved. Returns the numbers in words, or nothing.
std::string fragmentation(std::string_view line);

}  // namespace weft::doctor
