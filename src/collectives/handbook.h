#pragma once

#include <string>

namespace weft::collectives {

// docs/algorithms.md: every collective and algorithm with what its own schedule says of it: steps, messages and bytes,
// counted on 8 ranks (one node) and on 4 nodes of 8. Markdown.
std::string handbook();

}  // namespace weft::collectives
