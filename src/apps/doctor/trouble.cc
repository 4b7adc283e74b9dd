#include "apps/doctor/trouble.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace weft::doctor {
namespace {

constexpr std::string_view kWords[] = {"WARN",
                                       "ERROR",
                                       "Error",
                                       "error:",
                                       "ERR ",
                                       "FATAL",
                                       "Fatal",
                                       "fatal:",
                                       "CRITICAL",
                                       "xception",
                                       "Traceback",
                                       "abort",
                                       "Abort",
                                       "SIG",
                                       "core dumped",
                                       "Segmentation",
                                       "terminate called",
                                       "panic",
                                       "Assertion",
                                       "assertion failed",
                                       "[E",
                                       "Killed",
                                       "OOM",
                                       "NVRM",
                                       "infiniband ",
                                       "mlx5_core",
                                       "efa ",
                                       "kernel:",
                                       "kern:",
                                       "nvidia-nvswitch",
                                       "pcieport",
                                       "amdgpu",
                                       "<warn>",
                                       "Warning ",
                                       "EDAC",
                                       "BUG:",
                                       "lockup",
                                       "LOCKUP",
                                       "stall",
                                       "Failed: ",
                                       "Cuda error",
                                       "HIP error",
                                       "double free",
                                       "(): ",
                                       "corrupted ",
                                       ": line ",
                                       " failed",
                                       "ailed to ",
                                       "can't open",
                                       ".cpp:",
                                       ".cc:"};

bool has(std::string_view line, std::string_view word) { return line.find(word) != std::string_view::npos; }

// `word` as a word of its own: no letter beside it.
bool has_word(std::string_view line, std::string_view word) {
  for (auto at = line.find(word); at != std::string_view::npos; at = line.find(word, at + 1)) {
    const auto letter = [&](std::size_t i) {
      return i < line.size() &&
             (std::isalnum(static_cast<unsigned char>(line[i])) != 0 || line[i] == '_' || line[i] == '=');
    };
    if ((at == 0 || !letter(at - 1)) && !letter(at + word.size())) return true;
  }
  return false;
}

// "RuntimeError: …", "torch.distributed.DistBackendError: …", "java.io.IOException: …" at the start of a line or
// behind a blank.
bool raises(std::string_view line) {
  for (const std::string_view end : {"Error:", "Exception:", "Exception(", "Error("})
    for (auto at = line.find(end); at != std::string_view::npos; at = line.find(end, at + 1)) {
      std::size_t begin = at;
      while (begin > 0 && (std::isalnum(static_cast<unsigned char>(line[begin - 1])) != 0 || line[begin - 1] == '.' ||
                           line[begin - 1] == '_'))
        --begin;
      if (begin < at && std::isupper(static_cast<unsigned char>(
                            line[line.rfind('.', at) != std::string_view::npos && line.rfind('.', at) >= begin
                                     ? line.rfind('.', at) + 1
                                     : begin])) != 0)
        return true;
    }
  return false;
}

// glog's severity at the start of a line: "E0429 03:24:54.77 4711 file.cpp:12] …", or F for fatal.
bool glog_error(std::string_view line) {
  constexpr std::size_t kDate = 4;
  if (line.size() < kDate + 3 || (line[0] != 'E' && line[0] != 'F') || line[kDate + 1] != ' ') return false;
  for (std::size_t i = 1; i <= kDate; ++i)
    if (std::isdigit(static_cast<unsigned char>(line[i])) == 0) return false;
  return line.find("] ") != std::string_view::npos && std::isdigit(static_cast<unsigned char>(line[kDate + 2])) != 0;
}

// Lines with such words that report nothing.
bool everyday(std::string_view line) {
  constexpr std::array kEveryday = {
      " 0 errors", "no error", "No error", "error_handling", "ErrorHandling", "error handling", "errors=0", "errors: 0",
      "without error", "ERROR_IF", "NCCL_ASYNC_ERROR", "FutureWarning", "DeprecationWarning", "UserWarning",
      "log_level", "Last error:", "LOGLEVEL", "DEBUG=WARN", "Error rate", "error rate", "on_error", "WARNING level",
      "timeout set to", "error recovery enabled", "AER: enabled", "Logging before InitGoogleLogging",
      // torch at the end of a run that went well
      "destroy_process_group() was not called", "process group has NOT been destroyed",
      // … and at its start on a host without IPv6: the other family is tried
      "(errno: 97 - Address family not supported by protocol)"};
  return std::ranges::any_of(kEveryday, [&](const char* word) { return has(line, word); });
}

// "[   12.345678] …" or syslog's " kernel: ": a boot prints what it tried in vain; kernel_reports() picks the lines of
// drivers that matter.
bool of_kernel(std::string_view line) {
  if (has(line, "kernel:")) return true;
  if (!line.starts_with('[')) return false;
  const auto digit = std::min(line.find_first_not_of(' ', 1), line.size());
  const auto dot = std::min(line.find_first_not_of("0123456789", digit), line.size());
  return dot > digit && dot < line.size() && line[dot] == '.';
}

// A line of the kernel: its words for trouble carry no severity.
bool kernel_reports(std::string_view line) {
  constexpr std::array kSources = {
      "NVRM", "infiniband ", "mlx5_core", "efa ", "kernel:", "kern:", "nvidia-nvswitch", "pcieport", "amdgpu", "EDAC "};
  constexpr std::array kTroubles = {"failed",   "Failed",  "ailure",    "error",       "Error",  "timed out",
                                    "timedout", "imedOut", "imeout",    "IMEOUT",      "fallen", "not responding",
                                    "lost",     "hung",    "Assertion", "not respond", "AER:",   "Xid ("};
  // Words of any part of the kernel.
  constexpr std::array kSevere = {
      "BUG:",         "soft lockup", "hard LOCKUP", "detected stalls",         "self-detected stall",
      "Kernel panic", "Oops:",       "SXid (",      "general protection fault"};
  const auto one_of = [&](const auto& words) {
    return std::ranges::any_of(words, [&](const char* word) { return has(line, word); });
  };
  return (one_of(kSources) && one_of(kTroubles)) || ((of_kernel(line) || one_of(kSources)) && one_of(kSevere));
}

// An event of Kubernetes, as kubectl describe and kubectl get events print it: "Warning", blanks, a reason that is one
// word with a capital, blanks.
bool kubernetes_warns(std::string_view line) {
  constexpr std::string_view kType = "Warning";
  const auto at = line.find("Warning  ");
  if (at == std::string_view::npos || (at > 0 && line[at - 1] != ' ' && line[at - 1] != '\t')) return false;
  const auto reason = line.find_first_not_of(' ', at + kType.size());
  if (reason == std::string_view::npos || std::isupper(static_cast<unsigned char>(line[reason])) == 0) return false;
  std::size_t end = reason;
  while (end < line.size() && std::isalpha(static_cast<unsigned char>(line[end])) != 0) ++end;
  return end + 1 < line.size() && line[end] == ' ' && (line[end + 1] == ' ' || line.find("  ", end) != line.npos);
}

// "mmap of rcvhdrq failed: Resource temporarily unavailable" of a tool that writes no severity. Loggers' lines of a
// lower severity than a warning say what was tried in vain, and is tried otherwise.
bool says_failed(std::string_view line) {
  constexpr std::array kQuiet = {"INFO",  "DEBUG",  "TRACE",     "NOTICE",    "info",     "debug", "trace",
                                 "retry", "trying", " 0 failed", "failed: 0", "failed=0", "if ",   "success"};
  if (of_kernel(line) || std::ranges::any_of(kQuiet, [&](const char* word) { return has(line, word); })) return false;
  while (!line.empty() && (line.back() == ' ' || line.back() == '.' || line.back() == '!')) line.remove_suffix(1);
  return line.starts_with("Failed to ") || has(line, ": Failed to ") || has(line, ": failed to ") ||
         has(line, " failed: ") || has(line, " failed with ") || has(line, "can't open ") || line.ends_with(" failed");
}

// "/usr/local/bin/start: line 769: VERSION: unbound variable".
bool shell_reports(std::string_view line) {
  constexpr std::array kErrors = {"unbound variable", "command not found", "syntax error", "No such file or directory",
                                  "Permission denied"};
  const auto at = line.find(": line ");
  return at != std::string_view::npos && at + 7 < line.size() &&
         std::isdigit(static_cast<unsigned char>(line[at + 7])) != 0 &&
         std::ranges::any_of(kErrors, [&](const char* word) { return has(line, word); });
}

}  // namespace

std::span<const std::string_view> trouble_words() { return kWords; }

// "Correctable Error                 : 0" of nvidia-smi -q: tool_states.cc judges it.
bool counter(std::string_view line) {
  const auto colon = line.find(" : ");
  if (colon == std::string_view::npos) return false;
  const std::string_view key = line.substr(0, colon), value = line.substr(colon + 3);
  const bool named = has(key, "Correctable") || has(key, "Uncorrectable") || has(key, "ECC Error");
  return named && (value == "N/A" ||
                   std::ranges::all_of(value, [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }));
}

Trouble trouble_of(std::string_view line) {
  if (everyday(line) || counter(line)) return Trouble::kNone;
  for (const std::string_view word : {"FATAL",
                                      "Fatal Python error",
                                      "CRITICAL",
                                      "Segmentation fault",
                                      "core dumped",
                                      "terminate called",
                                      "panic:",
                                      "kernel panic",
                                      "SIGSEGV",
                                      "SIGABRT",
                                      "SIGBUS",
                                      "SIGKILL",
                                      "Aborted",
                                      "Assertion `",
                                      "Assertion failed",
                                      "Assertion failure",
                                      "assertion failed",
                                      "OOMKilled",
                                      "Fatal error",
                                      "fatal:"})
    if (has(line, word)) return Trouble::kFatal;
  if (raises(line)) return Trouble::kFatal;
  for (const std::string_view word : {"ERROR", "ERR", "Error", "error:"})
    if (word == "error:" ? has(line, word) : has_word(line, word)) return Trouble::kError;
  if (glog_error(line)) return Trouble::kError;
  // PyTorch's severity: "[E1126 13:55:49.…".
  for (auto at = line.find("[E"); at != std::string_view::npos; at = line.find("[E", at + 1))
    if (at + 3 < line.size() && std::isdigit(static_cast<unsigned char>(line[at + 2])) != 0) return Trouble::kError;
  if (kernel_reports(line)) return Trouble::kError;
  for (const std::string_view word :
       {"|CCL_ERROR|", "Cuda error ", "HIP error", "double free or corruption", "(): invalid ", "(): corrupted "})
    if (has(line, word)) return Trouble::kError;
  if (line.starts_with("Failed: ") || shell_reports(line)) return Trouble::kError;
  if (has(line, "<warn>") || kubernetes_warns(line) || says_failed(line)) return Trouble::kWarning;
  for (const std::string_view word : {"NCCL WARN", "WARN", "WARNING"})
    if (has_word(line, word)) return Trouble::kWarning;
  return Trouble::kNone;
}

}  // namespace weft::doctor
