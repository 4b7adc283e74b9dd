// What another user of the same machine can do to a job: its segments and files are refused by name.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/mount.h>
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
  ASSERT_EQ(flock(fd, LOCK_SH), 0);  // or another test's job would sweep it
  ASSERT_EQ(ftruncate(fd, 1 << 20), 0);
  ASSERT_EQ(fchmod(fd, 0666), 0);
  const auto joined =
      net::shm::attach({.id = id, .rank = 1, .ranks = 2, .heap_bytes = 4096, .limits = {.timeout = 2000ms}});
  ASSERT_FALSE(joined);
  EXPECT_NE(joined.error().message.find("is open to other users"), std::string::npos) << joined.error().message;
  close(fd);
  net::shm::remove_name(id);
}

// A job as torchrun describes it, on this machine: everybody can look its port up.
env::Settings torchrun(Rank rank, int port) {
  env::Settings s;
  s.timeout_ms = 20000;
  s.launcher = {{"RANK", std::to_string(rank)},
                {"WORLD_SIZE", "2"},
                {"MASTER_ADDR", "127.0.0.1"},
                {"MASTER_PORT", std::to_string(port)}};
  return s;
}

std::string met_as(const env::Settings& s) {
  const auto job = net::bootstrap::job_of(s);
  if (!job) return job.error().message;
  const auto met = net::bootstrap::meet(**job, s);
  return met ? "here" : met.error().message;
}

TEST_F(Strangers, AnotherUserDoesNotJoinAJobOfThisMachineWithoutAWord) {
  const int port = net::link::local_address(net::link::listen_on(net::link::loopback()).value().get()).port - 1;
  Process zero([&](Report& report) { report.say(met_as(torchrun(0, port))); });
  std::string said;
  Process attacker([&](Report& report) {
    if (setgid(kNobody) != 0 || setuid(kNobody) != 0) _exit(1);
    report.say(met_as(torchrun(1, port)));
  });
  said = attacker.join().said;
  EXPECT_NE(said.find("another key"), std::string::npos) << said;
  EXPECT_NE(said.find("/dev/shm/weft-65534/key"), std::string::npos) << said;
  Process one([&](Report& report) { report.say(met_as(torchrun(1, port))); });
  EXPECT_EQ(one.join().said, "here");
  EXPECT_EQ(zero.join().said, "here");
  std::filesystem::remove_all("/dev/shm/weft-65534");
}

// As `unshare --pid --fork --mount-proc`, with /dev/shm in common. Says "cannot" where that is not allowed.
void in_other_processes(Report& report, const std::function<void(Report&)>& act) {
  if (unshare(CLONE_NEWPID | CLONE_NEWNS) != 0) return report.say("cannot");
  Process inside([&](Report& inner) {
    if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) != 0)
      return inner.say("cannot");
    act(inner);
  });
  report.say(inside.join().said);
}

TEST(Containers, OfOneSharedMemoryThatCannotNameEachOthersProcessesAreRefused) {
  const std::string id = tests::fresh_id("containers");
  const auto attach = [&](Rank rank, Report& report) {
    const auto joined =
        net::shm::attach({.id = id, .rank = rank, .ranks = 2, .heap_bytes = 4096, .limits = {.timeout = 5000ms}});
    report.say(joined ? "attached" : joined.error().message);
  };
  Process outer([&](Report& report) { attach(0, report); });
  Process inner([&](Report& report) { in_other_processes(report, [&](Report& r) { attach(1, r); }); });
  const std::string theirs = inner.join().said;
  if (theirs == "cannot") GTEST_SKIP() << "a PID namespace of its own is not allowed here";
  const std::string own = outer.join().said;
  for (const std::string& said : {own, theirs})
    EXPECT_NE(said.find("ranks 0 and 1 share /dev/shm but not a PID namespace"), std::string::npos) << said;
  EXPECT_FALSE(tests::leaves_a_file(id));
}

TEST(Containers, OfOneSharedMemoryThatMeetOverTcpCountAsTwoMachines) {
  const int port = net::link::local_address(net::link::listen_on(net::link::loopback()).value().get()).port - 1;
  const auto meet = [&](Rank rank, Report& report) {
    const env::Settings s = torchrun(rank, port);
    const auto job = net::bootstrap::job_of(s);
    const auto met = net::bootstrap::meet(**job, s);
    report.say(!met ? met.error().message : met->one_machine() ? "one machine" : "two machines");
  };
  Process outer([&](Report& report) { meet(0, report); });
  Process inner([&](Report& report) { in_other_processes(report, [&](Report& r) { meet(1, r); }); });
  const std::string said = inner.join().said;
  if (said == "cannot") GTEST_SKIP() << "a PID namespace of its own is not allowed here";
  EXPECT_EQ(said, "two machines");
  EXPECT_EQ(outer.join().said, "two machines");
}

// Between rank 0's first line and the meeting's end the segment has a name, which nobody else removes.
TEST(KilledJobs, LeaveANameThatTheNextJobRemovesButNotThatOfALivingOne) {
  const auto waiting = [](const std::string& id) {
    Process rank([=](Report& report) {
      report.say("starts");
      (void)net::shm::attach({.id = id, .rank = 0, .ranks = 2, .heap_bytes = 4096, .limits = {.timeout = 60s}});
    });
    for (int i = 0; i < 2000 && !tests::leaves_a_file(id); ++i) usleep(5000);
    return rank;
  };
  const std::string dead = tests::fresh_id("dead"), living = tests::fresh_id("living");
  {
    Process killed = waiting(dead), kept = waiting(living);
    ASSERT_TRUE(tests::leaves_a_file(dead));
    killed.send(SIGKILL);
    killed.join();
    net::shm::sweep_names();
    EXPECT_FALSE(tests::leaves_a_file(dead));
    EXPECT_TRUE(tests::leaves_a_file(living));
  }
  net::shm::sweep_names();
  EXPECT_FALSE(tests::leaves_a_file(living));
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
