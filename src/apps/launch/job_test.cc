#include "apps/launch/job.h"

#include <gtest/gtest.h>

namespace weft::launch {
namespace {

TEST(HostJobs, CrossTheWireByteForByte) {
  std::string every;
  for (int c = 1; c < 256; ++c) every += static_cast<char>(c);
  const HostJob job{.program = {"./a", "--x=" + every},
                    .folder = "/tmp/\xff",
                    .environment = {{"WEFT_ALGO", every}},
                    .first = 2,
                    .ranks = 3,
                    .size = 9,
                    .opens = true,
                    .at = "10.0.0.1"};
  const auto same = HostJob::parse(job.to_text());
  ASSERT_TRUE(same);
  EXPECT_EQ(same->program, job.program);
  EXPECT_EQ(same->folder, job.folder);
  EXPECT_EQ(same->environment, job.environment);
  EXPECT_EQ(same->first, 2);
  EXPECT_EQ(same->ranks, 3);
  EXPECT_EQ(same->size, 9);
  EXPECT_TRUE(same->opens);
  EXPECT_EQ(same->at, "10.0.0.1");
}

TEST(HostJobs, TextsOfAnotherVersionAreAnError) {
  EXPECT_FALSE(HostJob::parse("{}"));
  EXPECT_FALSE(Place::parse("nonsense"));
}

}  // namespace
}  // namespace weft::launch
