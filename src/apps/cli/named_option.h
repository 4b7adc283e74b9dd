#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace weft::cli {

// An error's message with the option in front whose value it quotes first, "--proto LL12: unknown protocol 'LL12'";
// unchanged where no option that was given has that value, or where the message names it.
std::string with_option(const CLI::App& command, const std::string& message);

}  // namespace weft::cli
