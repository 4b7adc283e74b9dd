#pragma once

#include <string>
#include <string_view>

namespace weft::cli {

// A line of output cut at blanks to lines of at most `width` columns. They are indented like the text that is cut: of a
// row of a table whose last cell is a sentence, to that cell. Colours take no columns. Words that are wider stay whole.
std::string fitted(std::string_view line, int width);

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

}  // namespace weft::cli
