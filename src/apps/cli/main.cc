#include "apps/cli/command_line.h"

int main(int argc, char** argv) { return weft::cli::run_command_line(argc, argv); }
