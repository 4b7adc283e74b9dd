#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace weft::topology {

// What a preset is called besides its name: hgx-h200 is also h200 and dgx-h200.
std::vector<std::string> also_called(std::string_view preset);

}  // namespace weft::topology
