#pragma once

namespace weft::cli {

// The weft command: reads the command line, runs one command, turns errors into one line. Returns the exit code: 0
// done, 1 the answer is bad, 2 bad input.
int run_command_line(int argc, char** argv);

}  // namespace weft::cli
