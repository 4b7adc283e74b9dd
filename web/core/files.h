#pragma once

#include <string>

namespace weft::web {

// From here on `name` is a file with this text, for everything that reads files.
void drop_file(std::string name, std::string text);

}  // namespace weft::web
