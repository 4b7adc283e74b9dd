#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/result.h"

namespace weft {

// Digits of `text` from `at` on, at most eight of them; -1: none.
int number_at(std::string_view text, std::size_t at);
// The same behind the first `word`.
int number_behind(std::string_view text, std::string_view word);

// A line of a job without what launchers and collectors of logs put before it: "12: " (srun -l), "[1,3]<stdout>:"
// (mpirun --tag-output), "[default3]:" (torchrun), "[rank3]: " (PyTorch), "(Worker pid=7, ip=10.0.0.1) " (Ray),
// "[pod/NAME/CONTAINER] " (kubectl), "worker-1  | " (docker compose), "2026-01-06T10:00:00Z stderr F " (CRI), dates and
// times of day, with a level INFO or DEBUG behind them, and colours of terminals.
struct JobLine {
  std::string_view text;
  int rank = -1;          // that the launcher names; -1: none
  std::string_view host;  // that the launcher names; empty: none
};
JobLine strip_launcher(std::string_view line);

// The text as a terminal would keep it, line by line: without control sequences (colours, titles), with line ends "\n",
// and with the lines that docker's json-file driver has wrapped unwrapped behind their time. Lines keep their numbers.
std::string plain_text(std::string text);

// Without launchers' prefixes, where most lines have one; otherwise the text as it is. Lines keep their numbers.
std::string without_prefixes(std::string text);

// JSON as Python's json writes it: Infinity, -Infinity and NaN, which are no JSON, become null outside of strings.
std::string without_infinities(std::string_view text);

// A file of text that comes from a job or a terminal: read_text_file, plain_text, without_prefixes.
Result<std::string> read_job_text(const std::filesystem::path& file);

}  // namespace weft
