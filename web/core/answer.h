#pragma once

#include <string>
#include <string_view>

namespace weft::web {

// The module's answer to a question, both JSON: ask_weft.cc or ask_workloads.cc.
std::string answer_to(std::string_view question);

}  // namespace weft::web
