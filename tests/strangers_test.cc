// What another user of the same machine can do to a job: its segments and files are refused by name.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "net/bootstrap/job.h"
#include "net/shm/shm.h"
#include "tests/processes.h"

namespace weft {
namespace {

using namespace std::chrono_literals;
using tests::Process;
using tests::Report;

constexpr uid_t kNobody = 65534;

// Runs `act` as another user, to its end.
void as_nobody(const std::function<void()>& act) {
  Process attacker([&](Report&) {
    if (setgid(kNobody) != 0 || setuid(kNobody) != 0) _exit(1);
    umask(0);
    act();
  });
  ASSERT_TRUE(attacker.join().ended_well());
}

class Strangers : public testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "acting as another user needs root";
  }
};

TEST_F(Strangers, ASegmentOfAnotherUserIsRefused) {
  const std::string id = tests::fresh_id("strangers");
  as_nobody([&] {
    const int fd = shm_open(("/weft-" + id).c_str(), O_CREAT | O_EXCL | O_RDWR, 0666);
    if (fd < 0 || ftruncate(fd, 1 << 20) != 0) _exit(1);
  });
  const auto joined =
      net::shm::attach({.id = id, .rank = 1, .ranks = 2, .heap_bytes = 4096, .limits = {.timeout = 2000ms}});
  ASSERT_FALSE(joined);
  EXPECT_NE(joined.error().message.find("belongs to user 65534"), std::string::npos) << joined.error().message;
  net::shm::remove_name(id);
}

TEST_F(Strangers, ASegmentThatOthersMayWriteIsRefused) {
  const std::string id = tests::fresh_id("strangers");
  const int fd = shm_open(("/weft-" + id).c_str(), O_CREAT | O_EXCL | O_RDWR, 0600);
  ASSERT_GE(fd, 0);
  ASSERT_EQ(ftruncate(fd, 1 << 20), 0);
  ASSERT_EQ(fchmod(fd, 0666), 0);
  const auto joined =
      net::shm::attach({.id = id, .rank = 1, .ranks = 2, .heap_bytes = 4096, .limits = {.timeout = 2000ms}});
  ASSERT_FALSE(joined);
  EXPECT_NE(joined.error().message.find("is open to other users"), std::string::npos) << joined.error().message;
  close(fd);
  net::shm::remove_name(id);
}

class StoreFiles : public Strangers {
 protected:
  void SetUp() override {
    Strangers::SetUp();
    if (IsSkipped()) return;
    file_ = std::filesystem::path(testing::TempDir()) / tests::fresh_id("store");
    std::filesystem::create_directory(file_);
    std::filesystem::permissions(file_, std::filesystem::perms::all | std::filesystem::perms::sticky_bit);
    file_ /= "id";
  }
  void TearDown() override {
    if (!file_.empty()) std::filesystem::remove_all(file_.parent_path());
  }
  std::string refusal() {
    const net::bootstrap::Job job{.rank = 1, .ranks = 2, .launcher = "test", .file = file_};
    env::Settings settings;
    settings.timeout_ms = 2000;
    const auto met = net::bootstrap::meet(job, settings);
    return met ? "" : met.error().message;
  }
  std::filesystem::path file_;
};

TEST_F(StoreFiles, AnIdThatAnotherUserWroteIsRefused) {
  as_nobody([&] {
    const int fd = open(file_.c_str(), O_CREAT | O_WRONLY, 0644);
    if (fd < 0 || write(fd, "weft", 4) != 4) _exit(1);
  });
  EXPECT_NE(refusal().find("belongs to user 65534"), std::string::npos) << refusal();
}

TEST_F(StoreFiles, AFifoInPlaceOfTheIdIsRefusedAtOnce) {
  ASSERT_EQ(mkfifo(file_.c_str(), 0600), 0);
  EXPECT_NE(refusal().find("is not a regular file"), std::string::npos) << refusal();
}

TEST_F(StoreFiles, ALinkInPlaceOfTheIdIsRefused) {
  std::filesystem::create_symlink("/etc/hostname", file_);
  EXPECT_NE(refusal().find("cannot read"), std::string::npos) << refusal();
}

}  // namespace
}  // namespace weft
