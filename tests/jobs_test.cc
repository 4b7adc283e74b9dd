#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>

#include "net/bootstrap/job.h"
#include "net/link/handshake.h"
#include "net/link/interfaces.h"
#include "tests/processes.h"

// How the ranks of launchers' jobs meet.
namespace weft::net::bootstrap {
namespace {

using namespace std::chrono_literals;
using tests::Process;
using tests::Report;

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::string text_of(const Error& e) { return fmt::format("code {}: {}", static_cast<int>(e.code), e.message); }

Host open(Rank ranks) { return Host::open(loopback(), ranks).value(); }

TEST(Jobs, PodsOfAnIndexedJobMeetAtThatOfIndexZero) {
  EXPECT_EQ(first_pod("train-3.train.default.svc.cluster.local", 3).value(), "train-0.train.default.svc.cluster.local");
  EXPECT_EQ(first_pod("train-13", 13).value(), "train-0");
  const auto other = first_pod("train-3", 13);
  ASSERT_FALSE(other);
  EXPECT_TRUE(contains(other.error().message, "train-3") && contains(other.error().message, "WEFT_STORE"));
}

env::Settings started_by(std::map<std::string, std::string> variables) {
  env::Settings s;
  s.timeout_ms = 60000;
  s.launcher = std::move(variables);
  return s;
}

std::map<std::string, std::string> torchrun(Rank rank, Rank ranks, int port) {
  return {{"RANK", std::to_string(rank)},
          {"WORLD_SIZE", std::to_string(ranks)},
          {"MASTER_ADDR", "127.0.0.1"},
          {"MASTER_PORT", std::to_string(port)}};
}

// A port that was free a moment ago, below those that Linux gives to connections (ip_local_port_range: 32768 and up),
// as tests beside this one make many.
int free_port() {
  constexpr int kFirst = 12000, kPorts = 20000, kApart = 7;
  static int next = getpid() * kApart;
  for (;;) {
    Address address = loopback();
    address.port = static_cast<decltype(address.port)>(kFirst + next++ % kPorts);
    if (listen_on(address)) return address.port;
  }
}

// The reports of ranks with these settings.
std::vector<std::string> meet_as(const std::vector<env::Settings>& settings) {
  std::vector<Process> ranks;
  for (const env::Settings& s : settings)
    ranks.emplace_back([&](Report& report) {
      const auto job = job_of(s);
      if (!job || !*job) return report.say(job ? "no job" : text_of(job.error()));
      const auto meeting = meet(**job, s);
      report.say(meeting ? fmt::format("here {}", meeting->ranks.size()) : text_of(meeting.error()));
    });
  std::vector<std::string> said;
  for (Process& p : ranks) said.push_back(p.join().said);
  return said;
}

TEST(Jobs, TheRanksOfTorchrunMeetBesideItsOwnPort) {
  const int port = free_port() - 1;
  for (const std::string& said : meet_as({started_by(torchrun(0, 2, port)), started_by(torchrun(1, 2, port))}))
    EXPECT_EQ(said, "here 2");
}

TEST(Jobs, TheRanksOfSlurmMeetAtTheFirstNode) {
  const auto srun = [port = free_port()](int rank) {
    env::Settings s = started_by({{"SLURM_PROCID", std::to_string(rank)},
                                  {"SLURM_NTASKS", "2"},
                                  {"SLURM_JOB_ID", "4711"},
                                  {"SLURM_STEP_ID", "0"},
                                  {"SLURM_STEP_NODELIST", "localhost,other[1-3]"},
                                  {"SLURM_STEP_RESV_PORTS", fmt::format("{}-{}", port, port + 1)}});
    s.key = "00112233445566778899aabbccddeeff";
    return s;
  };
  for (const std::string& said : meet_as({srun(0), srun(1)})) EXPECT_EQ(said, "here 2");
}

TEST(Jobs, SlurmsOwnPmiIsNotTakenForMpich) {
  env::Settings s = started_by({{"PMI_RANK", "1"},
                                {"PMI_SIZE", "2"},
                                {"SLURM_PROCID", "1"},
                                {"SLURM_NTASKS", "2"},
                                {"SLURM_JOB_ID", "4711"},
                                {"SLURM_STEP_ID", "0"},
                                {"SLURM_STEP_NODELIST", "localhost"},
                                {"SLURM_STEP_NUM_NODES", "1"}});
  EXPECT_EQ(job_of(s).value()->launcher, "srun");
  s.launcher["MPI_LOCALNRANKS"] = "2";  // MPICH's launcher inside an allocation sets it, too
  EXPECT_EQ(job_of(s).value()->launcher, "mpiexec");
}

TEST(Jobs, TheFirstHostOfASlurmListIsRead) {
  EXPECT_EQ(first_host("node7").value(), "node7");
  EXPECT_EQ(first_host("node7,node9").value(), "node7");
  EXPECT_EQ(first_host("node[03-05,9],login1").value(), "node03");
  EXPECT_EQ(first_host("rack1-[12,14]").value(), "rack1-12");
  for (const char* bad : {"", "node[", "node[]", "node[x]", ",a"}) EXPECT_FALSE(first_host(bad)) << bad;
}

TEST(Jobs, OpenMpiAndMpichRanksOfOneMachineMeetBySharedMemoryAndOthersNeedAStore) {
  const auto openmpi = [](const char* local) {
    return started_by(
        {{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", local}});
  };
  const auto job = job_of(openmpi("4")).value();
  ASSERT_TRUE(job);
  EXPECT_EQ(job->rank, 1);
  EXPECT_EQ(job->ranks, 4);
  EXPECT_EQ(job->local_name.size(), 32u);
  const auto refused = job_of(openmpi("2"));
  ASSERT_FALSE(refused);
  EXPECT_TRUE(contains(refused.error().message, "WEFT_STORE")) << refused.error().message;
  auto mpich = started_by({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}, {"MPI_LOCALNRANKS", "2"}});
  EXPECT_EQ(job_of(mpich).value()->local_name.size(), 32u);
}

// Once a process is a rank, what it starts is none.
TEST(Jobs, ARanksDescendantsDoNotInheritTheKey) {
  const int port = free_port();
  const std::string key = "0123456789abcdef0123456789abcdef";
  const auto rank = [&](int r) {
    return Process([=](Report& report) {
      for (const auto& [name, value] : torchrun(r, 2, port)) setenv(name.c_str(), value.c_str(), 1);
      setenv("WEFT_KEY", key.c_str(), 1);
      const env::Settings s = env::read().value();
      const auto met = meet(*job_of(s).value(), s);
      FILE* child = popen("printenv WEFT_KEY", "r");
      char text[100] = {};
      (void)!fgets(text, sizeof text, child);
      pclose(child);
      report.say(fmt::format("{} '{}' {}", met ? "here" : text_of(met.error()), text[0] == '\n' ? "" : text,
                             env::read().value().key == key));
    });
  };
  Process zero = rank(0), one = rank(1);
  EXPECT_EQ(zero.join().said, "here '' true");
  EXPECT_EQ(one.join().said, "here '' true");
}

TEST(Jobs, RanksMeetThroughAFileAlsoIfADeadJobLeftOne) {
  const std::string path = fmt::format("{}/weft-store-{}", testing::TempDir(), getpid());
  {
    const Host dead = open(3);
    FILE* file = fopen(path.c_str(), "w");
    fputs(dead.id().text().c_str(), file);
    fclose(file);
    std::filesystem::permissions(path, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  }
  std::vector<env::Settings> ranks;
  for (const Rank r : {2, 1, 0}) {
    env::Settings s = started_by({});
    s.rank = r;
    s.size = 3;
    s.store = "file:" + path;
    ranks.push_back(s);
  }
  for (const std::string& said : meet_as(ranks)) EXPECT_EQ(said, "here 3");
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(Jobs, RanksMeetAtAStoreWithAKey) {
  std::vector<env::Settings> ranks;
  const int port = free_port();
  for (const Rank r : {0, 1}) {
    env::Settings s = started_by({});
    s.rank = r;
    s.size = 2;
    s.store = fmt::format("tcp:127.0.0.1:{}", port);
    s.key = "00112233445566778899aabbccddeeff";
    ranks.push_back(s);
  }
  for (const std::string& said : meet_as(ranks)) EXPECT_EQ(said, "here 2");
  ranks[1].key = "00112233445566778899aabbccddeefe";
  for (env::Settings& s : ranks) s.timeout_ms = 700;
  const auto said = meet_as(ranks);
  EXPECT_TRUE(contains(said[1], "another key")) << said[1];
  EXPECT_TRUE(contains(said[0], "rank 1")) << said[0];
}

TEST(Jobs, RanksThatMayBeOnSeveralHostsNeedAKeyAndAreToldHowToMakeOne) {
  auto two_hosts = torchrun(0, 2, 29500);
  two_hosts["MASTER_ADDR"] = "192.0.2.7";
  auto srun = started_by({{"SLURM_PROCID", "0"},
                          {"SLURM_NTASKS", "2"},
                          {"SLURM_JOB_ID", "4711"},
                          {"SLURM_STEP_ID", "0"},
                          {"SLURM_STEP_NODELIST", "192.0.2.7,192.0.2.8"},
                          {"SLURM_STEP_NUM_NODES", "2"}});
  env::Settings store = started_by({});
  store.rank = 0;
  store.size = 2;
  store.store = "tcp:192.0.2.7:4711";
  for (env::Settings s : {started_by(two_hosts), srun, store}) {
    const auto refused = job_of(s);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().blame, Blame::kInput);
    for (const char* word : {"export WEFT_KEY=$(openssl rand -hex 32)", "WEFT_KEY=none", "192.0.2.7:"})
      EXPECT_TRUE(contains(refused.error().message, word)) << refused.error().message;
    s.key = "none";
    EXPECT_TRUE(job_of(s).value());
    s.key = "00112233445566778899aabbccddeeff";
    EXPECT_TRUE(job_of(s).value());
  }
  two_hosts["LOCAL_WORLD_SIZE"] = "2";  // all ranks are here, and the user's own key does
  EXPECT_TRUE(job_of(started_by(two_hosts)));
  srun.launcher["SLURM_STEP_NUM_NODES"] = "1";
  EXPECT_TRUE(job_of(srun));
}

TEST(Jobs, AKeyMayStandInAFileOfTheUsers) {
  const std::string path = fmt::format("{}/weft-key-{}", testing::TempDir(), getpid());
  const auto write = [&](const char* text, std::filesystem::perms mode) {
    FILE* file = fopen(path.c_str(), "w");
    fputs(text, file);
    fclose(file);
    std::filesystem::permissions(path, mode);
  };
  using std::filesystem::perms;
  env::Settings s = started_by(torchrun(0, 2, 29500));
  s.key = "00112233445566778899aabbccddeeff";
  const UniqueId wanted = *job_of(s).value()->id;
  s.key = "file:" + path;
  write("00112233445566778899AABBCCDDEEFF\n", perms::owner_read | perms::owner_write);
  EXPECT_EQ(job_of(s).value()->id->key, wanted.key);
  write("00112233445566778899aabbccddeeff\n", perms::owner_read | perms::owner_write | perms::group_read);
  EXPECT_TRUE(contains(job_of(s).error().message, "is open to other users"));
  write("secret words\n", perms::owner_read | perms::owner_write);
  EXPECT_TRUE(contains(job_of(s).error().message, "openssl rand -hex 32"));
  EXPECT_FALSE(contains(job_of(s).error().message, "secret words"));
  std::filesystem::remove(path);
  EXPECT_TRUE(contains(job_of(s).error().message, "no key in"));
}

TEST(Jobs, RanksThatDisagreeOnProtectionNameOneOfThem) {
  std::vector<env::Settings> ranks;
  const int port = free_port();
  for (const Rank r : {0, 1, 2}) {
    env::Settings s = started_by({});
    s.rank = r;
    s.size = 3;
    s.store = fmt::format("tcp:127.0.0.1:{}", port);
    s.secure = r == 2 ? "mac" : "encrypt";
    ranks.push_back(s);
  }
  for (const std::string& said : meet_as(ranks))
    EXPECT_TRUE(contains(said, "WEFT_SECURE: rank 0 has encrypt, rank 2 (process") && contains(said, "has mac"))
        << said;
  ranks[0].key = "none";
  EXPECT_TRUE(contains(meet_as({ranks[0]})[0], "WEFT_SECURE=encrypt needs a key"));
}

TEST(Jobs, VariablesThatDoNotParseAreNamed) {
  const auto refused = [](env::Settings s, const char* word) {
    const auto job = job_of(s);
    ASSERT_FALSE(job);
    EXPECT_EQ(job.error().blame, Blame::kInput);
    EXPECT_TRUE(contains(job.error().message, word)) << job.error().message;
  };
  auto torch = torchrun(0, 2, 29500);
  torch["RANK"] = "2";
  refused(started_by(torch), "RANK");
  torch = torchrun(0, 2, 29500);
  torch["MASTER_PORT"] = "http";
  refused(started_by(torch), "MASTER_PORT");
  torch = torchrun(0, 2, 29500);
  torch["MASTER_ADDR"] = "no.such.host.invalid";
  refused(started_by(torch), "MASTER_ADDR");
  env::Settings s;
  s.size = 2;
  s.store = "pigeon:loft";
  refused(s, "pigeon");
  s.store.clear();
  s.join = "1234";
  refused(s, "WEFT_JOIN");
}

}  // namespace
}  // namespace weft::net::bootstrap
