#include "apps/launch/labelled_output.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace weft::launch {
namespace {

std::string text_of(PendingBytes& bytes) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  while (!bytes.empty()) EXPECT_TRUE(bytes.write_some(ends[1]));
  close(ends[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t n; (n = read(ends[0], buffer, sizeof buffer)) > 0;) text.append(buffer, static_cast<std::size_t>(n));
  close(ends[0]);
  return text;
}

TEST(LabelledOutput, LinesOfRanksStayWholeAndBeginWithTheirRank) {
  LabelledOutput output(true, 12);
  output.add(FrameKind::kOutput, 3, "one ");
  output.add(FrameKind::kOutput, 11, "two\nthree");
  output.add(FrameKind::kOutput, 3, "line\n");
  output.add(FrameKind::kErrors, 3, "oops\n");
  output.finish(11);
  output.finish(11);
  EXPECT_EQ(text_of(output.out()), "[11] two\n[ 3] one line\n[11] three\n");
  EXPECT_EQ(text_of(output.err()), "[ 3] oops\n");
}

TEST(LabelledOutput, WithoutLabelsLinesAreAsTheRanksWroteThem) {
  LabelledOutput output(false, 2);
  output.add(FrameKind::kOutput, 1, "a\nb\n");
  EXPECT_EQ(text_of(output.out()), "a\nb\n");
}

}  // namespace
}  // namespace weft::launch
