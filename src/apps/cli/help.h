#pragma once

#include <CLI/CLI.hpp>
#include <initializer_list>
#include <string>

namespace weft::cli {

// Help within the terminal's width, options by topic, values by their kind: FILE, SIZE, MACHINE. Requires: every
// command has been added. Owns: the app.
void dress_help(CLI::App& app);

// `text` with lines of at most `width` columns. A line keeps its indentation; prose that was wrapped is wrapped anew.
std::string wrapped(const std::string& text, std::size_t width);

// Puts options of a command below a heading of its help. Requires: it has them.
void group_options(CLI::App& sub, const std::string& heading, std::initializer_list<const char*> options);

// Standard output is a terminal, and NO_COLOR (no-color.org) is not set.
bool colours_wanted();

// What a command line that was refused should have been, on one line: names the command, and what a misspelt command or
// option may mean.
std::string usage_error(const CLI::App& app, const CLI::ParseError& problem, int argc, char** argv);

}  // namespace weft::cli
