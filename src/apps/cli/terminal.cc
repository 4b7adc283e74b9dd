#include "apps/cli/terminal.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <thread>
#include <utility>
#include <vector>

#include "apps/cli/common.h"
#include "base/mutex.h"

namespace weft::cli {
namespace {

using Clock = std::chrono::steady_clock;

std::atomic<Clock::duration> shown_at{Clock::duration::zero()};
std::atomic<bool> at_work_shown{false};  // a line of AtWork stands on the terminal

void print_error_line(const std::string& text, int width) {
  const std::string line = fmt::format("\r{:<{}}\r{}", "", width, text.substr(0, static_cast<std::size_t>(width)));
  [[maybe_unused]] const auto written = write(STDERR_FILENO, line.data(), line.size());
}

// Columns of the terminal on stderr, where stdout may be a file.
int line_width() {
  winsize size{};
  const int columns = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : terminal_width();
  return std::min(columns - 1, 100);
}

Mutex doing_mutex;
std::string doing_now WEFT_GUARDED_BY(doing_mutex);  // what a command said last that it does

// The bytes at `at` that take one column, or none: a character of UTF-8, or a colour's escape sequence.
struct Glyph {
  std::size_t bytes;
  int columns;
};
Glyph glyph_at(std::string_view text, std::size_t at) {
  if (text[at] == '\x1b' && at + 1 < text.size() && text[at + 1] == '[') {
    const std::size_t end = text.find_first_of("mKJHABCD", at + 2);
    return {(end == std::string_view::npos ? text.size() : end + 1) - at, 0};
  }
  std::size_t bytes = 1;
  while (at + bytes < text.size() && (static_cast<unsigned char>(text[at + bytes]) & 0xC0) == 0x80) ++bytes;
  return {bytes, 1};
}

struct Word {
  std::string_view text;  // without the blanks before it
  int blanks, columns;
};
std::vector<Word> words_of(std::string_view line) {
  std::vector<Word> words;
  for (std::size_t at = 0; at < line.size();) {
    Word word{.text = {}, .blanks = 0, .columns = 0};
    while (at < line.size() && line[at] == ' ') ++at, ++word.blanks;
    const std::size_t begin = at;
    while (at < line.size() && line[at] != ' ') {
      const Glyph glyph = glyph_at(line, at);
      at += glyph.bytes, word.columns += glyph.columns;
    }
    word.text = line.substr(begin, at - begin);
    words.push_back(word);
  }
  return words;
}

// The column at which cut lines begin: below the last cell that begins in the line's first three fifths; else a little
// further in than the line itself.
int indent_of(const std::vector<Word>& words, int width) {
  int column = 0, indent = words.empty() ? 0 : words[0].blanks + 2;
  for (std::size_t i = 0; i < words.size(); ++i) {
    column += words[i].blanks;
    if (i > 0 && words[i].blanks >= 2 && column <= width * 3 / 5) indent = column;
    column += words[i].columns;
  }
  return indent <= width * 3 / 5 ? indent : 2;
}

std::string doing() {
  const MutexLock guard(doing_mutex);
  return doing_now;
}

struct Fitting {
  int width = 0;
  std::string line;  // that has not ended yet
};
Fitting* fitting = nullptr;  // of this process's stdout; null: none

bool write_out(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(STDOUT_FILENO, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

ssize_t take(void*, const char* data, std::size_t size) {
  note_output();
  std::string out;
  for (std::string_view left(data, size); !left.empty();) {
    const std::size_t end = left.find('\n');
    fitting->line += left.substr(0, end);
    if (end == std::string_view::npos) break;
    out += fitted(fitting->line, fitting->width) + "\n";
    fitting->line.clear();
    left.remove_prefix(end + 1);
  }
  return write_out(out) ? static_cast<ssize_t>(size) : 0;
}

void print_rest() {
  std::fflush(stdout);
  write_out(std::exchange(fitting->line, ""));
}

}  // namespace

std::string fitted(std::string_view line, int width) {
  const std::vector<Word> words = words_of(line);
  int columns = 0;
  for (const Word& word : words) columns += word.blanks + word.columns;
  if (columns <= width) return std::string(line);
  const int indent = indent_of(words, width);
  std::string text;
  int column = 0;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const Word& word = words[i];
    if (i > 0 && column + word.blanks + word.columns > width) {
      text += "\n" + std::string(static_cast<std::size_t>(indent), ' ');
      column = indent;
    } else {
      text.append(static_cast<std::size_t>(word.blanks), ' ');
      column += word.blanks;
    }
    text += word.text;
    column += word.columns;
  }
  return text;
}

std::string in_column_blocks(const std::string& text, int width) {
  const std::size_t end = std::min(text.find("\n\n"), text.size());
  std::vector<std::string> rows;
  for (std::size_t at = 0; at < end;) {
    const std::size_t newline = std::min(text.find('\n', at), end);
    rows.push_back(text.substr(at, newline - at));
    at = newline + 1;
  }
  if (rows.empty() || std::cmp_less_equal(rows.front().size(), width)) return text;
  std::vector<std::size_t> columns;  // where they begin
  for (std::size_t i = 1; i < rows.front().size(); ++i)
    if (rows.front()[i] != ' ' && rows.front()[i - 1] == ' ') columns.push_back(i);
  columns.push_back(std::ranges::max_element(rows, {}, &std::string::size)->size() + 2);
  const std::size_t names = columns.front();
  std::string out;
  for (std::size_t first = 0; first + 1 < columns.size();) {
    std::size_t last = first + 1;
    while (last + 1 < columns.size() && std::cmp_less_equal(names + columns[last + 1] - 2 - columns[first], width))
      ++last;
    for (const std::string& row : rows) {
      std::string line = row.substr(0, names);
      if (row.size() > columns[first]) line += row.substr(columns[first], columns[last] - columns[first]);
      out += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
    }
    first = last;
    if (first + 1 < columns.size()) out += "\n";
  }
  return out + text.substr(end + (end < text.size() ? 1 : 0));
}

void fit_stdout() {
  if (isatty(STDOUT_FILENO) == 0 || fitting != nullptr) return;
  FILE* const stream = fopencookie(nullptr, "w", {.read = nullptr, .write = take, .seek = nullptr, .close = nullptr});
  if (stream == nullptr) return;
  static Fitting only;
  only.width = terminal_width();
  fitting = &only;
  std::fflush(stdout);
  std::setvbuf(stream, nullptr, _IOLBF, BUFSIZ);
  stdout = stream;
  std::atexit(print_rest);
}

bool print_as_it_is(std::string_view text) {
  note_output();
  if (fitting == nullptr) return std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  print_rest();
  return write_out(text);
}

void note_output() {
  shown_at.store(Clock::now().time_since_epoch());
  if (at_work_shown.exchange(false)) print_error_line("", line_width());
}

void say_doing(const std::string& what) {
  {
    const MutexLock guard(doing_mutex);
    doing_now = what;
  }
  note_output();
  if (!what.empty() && isatty(STDERR_FILENO) != 0) {
    print_error_line(what, line_width());
    at_work_shown = true;
  }
}

struct AtWork::State {
  Mutex mutex;
  std::condition_variable over;
  bool ended WEFT_GUARDED_BY(mutex) = false;
  std::thread thread;
};

AtWork::AtWork(const std::string& what) {
  if (isatty(STDERR_FILENO) == 0) return;
  state_ = new State;
  note_output();
  state_->thread = std::thread([state = state_, what, begun = Clock::now()] {
    MutexLock lock(state->mutex);
    while (!lock.wait_for(state->over, std::chrono::milliseconds(500),
                          [&]() WEFT_REQUIRES(state->mutex) { return state->ended; })) {
      if (Clock::now().time_since_epoch() - shown_at.load() < std::chrono::seconds(1)) continue;
      const double seconds = std::chrono::duration<double>(Clock::now() - begun).count();
      const std::string now = doing();
      print_error_line(fmt::format("{:.0f} s: {}", seconds, now.empty() ? what : now), line_width());
      at_work_shown = true;
    }
  });
}

AtWork::~AtWork() {
  if (state_ == nullptr) return;
  {
    const MutexLock guard(state_->mutex);
    state_->ended = true;
  }
  state_->over.notify_all();
  state_->thread.join();
  note_output();
  delete state_;
}

}  // namespace weft::cli
