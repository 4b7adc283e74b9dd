#include "api/calibrate/cache.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <thread>

namespace weft::calibrate {
namespace {

class Caches : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = std::filesystem::temp_directory_path() / "weft-cache-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    base_ = name;
    folder_ = base_ + "/a/weft";
  }
  void TearDown() override { std::filesystem::remove_all(base_); }
  Cache cache() {
    return Cache(folder_, [this](const std::string& line) { said_.push_back(line); });
  }
  // A rate in text loses its last digits.
  static long core(const std::optional<Rates>& r) { return r ? std::lround(r->core.gb()) : -1; }
  static Rates rates(double core) {
    Rates r = typical();
    r.core = BytesPerSecond::gigabytes(core);
    return r;
  }

  std::string base_, folder_;
  std::vector<std::string> said_;
};

TEST_F(Caches, WhatWasMeasuredIsFoundAgainByThisUserAlone) {
  int measured = 0;
  const auto measure = [&] { return ++measured, rates(77); };
  EXPECT_EQ(core(cache().find_or(false, measure)), 77);
  EXPECT_EQ(core(cache().find_or(false, measure)), 77);
  EXPECT_EQ(measured, 1);
  EXPECT_FALSE(cache().find(true)) << "those of UCX are others";
  struct stat s {};
  ASSERT_EQ(stat(cache().file(false).c_str(), &s), 0);
  EXPECT_EQ(s.st_mode & 0777, 0600u);
  ASSERT_EQ(stat(folder_.c_str(), &s), 0);
  EXPECT_EQ(s.st_mode & 0777, 0700u);
  EXPECT_TRUE(said_.empty()) << said_.front();
}

TEST_F(Caches, ADamagedFileIsMeasuredAgainWithOneLine) {
  for (const char* text : {"", "{", "{\"schema\": \"weft.cached-rates/1\"}", "[1, 2]"}) {
    ASSERT_TRUE(cache().keep(false, rates(1)));
    std::ofstream(cache().file(false)) << text;
    said_.clear();
    EXPECT_FALSE(cache().find(false)) << text;
    ASSERT_EQ(said_.size(), 1u) << text;
    EXPECT_NE(said_[0].find(cache().file(false)), std::string::npos);
    EXPECT_EQ(core(cache().find_or(false, [] { return rates(5); })), 5);
    EXPECT_EQ(core(cache().find(false)), 5);
  }
}

TEST_F(Caches, FilesAndFoldersThatOthersMayWriteAreNotRead) {
  ASSERT_TRUE(cache().keep(false, rates(1)));
  const std::string file = cache().file(false);
  chmod(file.c_str(), 0622);
  EXPECT_FALSE(cache().find(false));
  chmod(file.c_str(), 0600);
  EXPECT_TRUE(cache().find(false));
  std::filesystem::rename(file, base_ + "/elsewhere");
  std::filesystem::create_symlink(base_ + "/elsewhere", file);
  EXPECT_FALSE(cache().find(false)) << "a link";
  chmod(folder_.c_str(), 0777);
  EXPECT_FALSE(cache().usable());
  EXPECT_EQ(core(cache().find_or(false, [] { return rates(9); })), 9) << "works without";
  EXPECT_FALSE(Cache("", nullptr).usable());
}

TEST_F(Caches, OfSeveralThatAskAtOnceOneMeasures) {
  std::atomic<int> measured = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      const Cache own(folder_, nullptr);
      const auto measure = [&] {
        ++measured;
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        return rates(3);
      };
      EXPECT_EQ(core(own.find_or(false, measure)), 3);
    });
  for (auto& t : threads) t.join();
  EXPECT_EQ(measured, 1);
}

TEST(Fingerprint, NamesTheMachineInOneLineWhateverThisThreadIsBoundTo) {
  const std::string free = fingerprint();
  EXPECT_NE(free.find("weft "), std::string::npos);
  EXPECT_EQ(free.find('\n'), std::string::npos);
  EXPECT_EQ(fingerprint(), free);
}

}  // namespace
}  // namespace weft::calibrate
