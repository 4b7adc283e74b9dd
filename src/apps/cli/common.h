#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "base/result.h"
#include "plan/cost/machine_view.h"
#include "plan/cost/shipped.h"
#include "plan/protocol/capabilities.h"
#include "plan/schedule/element.h"
#include "plan/schedule/lower/lower.h"
#include "plan/schedule/lower/plan.h"
#include "weft/types.h"

namespace weft::cli {

// What a command returns besides 0 (done).
inline constexpr int kBadAnswer = 1;  // wrong data, failed proof, findings, a peer that failed
inline constexpr int kBadInput = 2;   // usage or input

// Prints the error on one line to stderr; the exit code that fits its blame.
int report_error(const Error& error);
// Says on stderr where the task moves another size than was asked for: "weft: --bytes 5: 4 B are moved, …".
void print_rounded(Bytes asked, const schedule::Task& task, std::string_view type);

// A command that main offers. `add` declares its options; its run() is called if it was chosen.
struct Command {
  CLI::App* app = nullptr;
  std::function<Result<int>()> run;
  // What --json would write, instead of printing anything; empty: the command has no such form. For bindings: see
  // answers.h.
  std::function<Result<nlohmann::json>()> answer = {};
  // The text that --svg would write; empty: the command draws nothing.
  std::function<Result<std::string>()> picture = {};
};

// The machine a command is for: `--on MACHINE`, or this one. Owns the view.
struct Machine {
  std::string name;
  bool simulated = false;
  std::shared_ptr<const cost::MachineView> view;
};
// A modelled machine's calibration: this file's, else WEFT_CALIBRATION's, else none. Errors (bad input): of the file.
Result<cost::CalibrationText> calibration_of(const std::string& given);
// `calibration`: a file of weft.calibration/1 for it; empty: WEFT_CALIBRATION, else what weft ships. Errors (bad
// input): see topology::load_machine; a calibration that is none, or for this machine, which is measured.
Result<Machine> load_machine(const std::string& on, const std::string& calibration = "");

// What the fabric of the machine can do: the simulator's, or this node's memory.
protocol::Capabilities capabilities_of(const Machine& machine);

using schedule::parse_op;
using schedule::parse_type;

// The ranks to use: `asked`; if negative, two here and every endpoint of a simulated machine. Errors (bad input): zero,
// or more than there can be.
Result<Rank> ranks_on(const Machine& machine, std::int64_t asked);

// Errors (bad input): a forced number of channels that no machine has; 0 forces none.
Status check_channels(std::int64_t channels);

// The sizes from --min to --max, each `factor` times the last. Errors (bad input): names the option.
Result<std::vector<Bytes>> sizes_between(const std::string& smallest, const std::string& largest, std::int64_t factor);

using schedule::task_of;

// Writes to a file ("-": stdout) that appears complete or not at all. Errors: kSystem naming the file.
Status write_json(const std::string& file, const nlohmann::json& json);
Status write_text(const std::string& file, const std::string& text);

// Checks of options that name a file to write (- is stdout), or a folder to write files into: asked while the command
// line is read, before any work. Empty: it can be written; otherwise why not.
std::string writable(const std::string& file);
std::string writable_folder(const std::string& folder);

// Columns of the terminal on stdout; a generous number where there is none.
int terminal_width();

}  // namespace weft::cli
