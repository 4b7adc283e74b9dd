#pragma once

#include <string>
#include <string_view>

namespace weft::cli {

// A line of output cut at blanks to lines of at most `width` columns. They are indented like the text that is cut: of a
// row of a table whose last cell is a sentence, to that cell. Colours take no columns. Words that are wider stay whole.
std::string fitted(std::string_view line, int width);

// A text that begins with a table of equally wide columns, whose rows begin with a name and which ends at an empty
// line: where it is wider than `width`, its columns in several blocks below each other, each with the names.
std::string in_column_blocks(const std::string& text, int width);

// From now on what is printed on stdout fits the terminal there. Without a terminal nothing changes.
void fit_stdout();
// Text that others read, such as JSON: as it is, after all that was printed. False: it could not be written.
bool print_as_it_is(std::string_view text);

// Says on a terminal what is being done, where a command prints nothing for more than a second.
class AtWork {
 public:
  explicit AtWork(const std::string& what);
  ~AtWork();
  AtWork(const AtWork&) = delete;
  AtWork& operator=(const AtWork&) = delete;

 private:
  struct State;
  State* state_ = nullptr;  // null: no terminal
};

// Something was shown: another second may pass.
void note_output();
// What the command does now, on stderr where that is a terminal, in the place of what it said before; empty: nothing to
// say. AtWork repeats it with the seconds that have passed.
void say_doing(const std::string& what);

}  // namespace weft::cli
