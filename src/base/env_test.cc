#include "base/env.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

namespace weft::env {
namespace {

// Every variable of the table unset; what a test sets is gone after it.
class Environment : public testing::Test {
 protected:
  void SetUp() override {
    for (const Variable& v : table()) unsetenv(std::string(v.name).c_str());
  }
  void TearDown() override { SetUp(); }

  void expect_refused(const char* name, const char* value) {
    setenv(name, value, 1);
    const auto s = read();
    unsetenv(name);
    ASSERT_FALSE(s.has_value()) << name << "=" << value;
    EXPECT_EQ(s.error().blame, Blame::kInput);
    EXPECT_NE(s.error().message.find(value), std::string::npos) << s.error().message;
  }
};

TEST_F(Environment, NothingSetMeansOneRankAndTheDefaults) {
  const Settings s = read().value();
  EXPECT_FALSE(s.rank.has_value());
  EXPECT_FALSE(s.size.has_value());
  EXPECT_EQ(s.timeout_ms, 30000);
  EXPECT_EQ(s.heap_bytes, Bytes{1} << 30);
  EXPECT_TRUE(s.id.empty() && s.algorithm.empty() && s.protocol.empty());
}

TEST_F(Environment, ReadsWhatTheLauncherSets) {
  setenv("WEFT_RANK", "3", 1);
  setenv("WEFT_SIZE", "4", 1);
  setenv("WEFT_ID", "job-7", 1);
  setenv("WEFT_TIMEOUT_MS", "500", 1);
  setenv("WEFT_HEAP", "64M", 1);
  setenv("WEFT_CHANNELS", "2", 1);
  const Settings s = read().value();
  EXPECT_EQ(s.rank, 3);
  EXPECT_EQ(s.size, 4);
  EXPECT_EQ(s.id, "job-7");
  EXPECT_EQ(s.timeout_ms, 500);
  EXPECT_EQ(s.heap_bytes, Bytes{64} << 20);
  EXPECT_EQ(s.channels, 2);
}

TEST_F(Environment, RefusesValuesOutOfRangeAndNamesThem) {
  setenv("WEFT_SIZE", "4", 1);
  expect_refused("WEFT_RANK", "4");
  expect_refused("WEFT_RANK", "-1");
  expect_refused("WEFT_RANK", "one");
  setenv("WEFT_RANK", "0", 1);
  expect_refused("WEFT_SIZE", "0");
  unsetenv("WEFT_RANK");
  expect_refused("WEFT_TIMEOUT_MS", "-1");  // 0: no limit
  expect_refused("WEFT_TIMEOUT_MS", "1s");
  expect_refused("WEFT_HEAP", "12");
  expect_refused("WEFT_HEAP", "lots");
  expect_refused("WEFT_CHANNELS", "65");
}

TEST_F(Environment, ARankWithoutASizeIsRefusedAndASizeWithoutARank) {
  for (const auto& [set, unset] : {std::pair{"WEFT_RANK", "WEFT_SIZE"}, std::pair{"WEFT_SIZE", "WEFT_RANK"}}) {
    setenv(set, "1", 1);
    const auto s = read();
    unsetenv(set);
    ASSERT_FALSE(s.has_value()) << set;
    EXPECT_EQ(s.error().message, std::string(set) + " is 1, but " + unset + " is not set: a launcher sets both");
  }
}

TEST_F(Environment, ASizeThatIsNoNumberOfBytesNamesItsVariable) {
  for (const char* name : {"WEFT_HEAP", "WEFT_SYMMETRIC_SIZE"}) {
    setenv(name, "x", 1);
    const auto s = read();
    unsetenv(name);
    ASSERT_FALSE(s.has_value()) << name;
    EXPECT_NE(s.error().message.find(name), std::string::npos) << s.error().message;
  }
}

TEST_F(Environment, EveryVariableIsDescribedOnce) {
  std::set<std::string_view> names;
  for (const Variable& v : table()) {
    EXPECT_TRUE(names.insert(v.name).second) << v.name;
    EXPECT_FALSE(v.type.empty() || v.fallback.empty() || v.meaning.empty()) << v.name;
  }
}

}  // namespace
}  // namespace weft::env
