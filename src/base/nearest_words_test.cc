#include "base/nearest_words.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

TEST(NearestWords, FindWhatAMisspeltWordMayMean) {
  const std::vector<std::string> names = {"bench", "explain", "verify", "topo"};
  EXPECT_EQ(nearest_words("bnech", names, 2), std::vector<std::string>{"bench"});
  EXPECT_EQ(nearest_words("EXPLAN", names, 2), std::vector<std::string>{"explain"});
  EXPECT_EQ(nearest_words("train", names, 2), std::vector<std::string>{});
  EXPECT_EQ(nearest_words("", names, 2), std::vector<std::string>{});
}

TEST(NearestWords, MakeAQuestionForAnErrorsLine) {
  EXPECT_EQ(did_you_mean("bnech", {"bench", "topo"}), "did you mean bench? ");
  EXPECT_EQ(did_you_mean("x", {"bench", "topo"}), "");
}

}  // namespace
}  // namespace weft
