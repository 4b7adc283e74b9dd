// How ranks meet over TCP, who is kept out, and what they say when they do not.

#include "net/bootstrap/job.h"

#include <gtest/gtest.h>

#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "net/link/handshake.h"
#include "net/link/interfaces.h"
#include "tests/processes.h"

namespace weft::net::bootstrap {
namespace {

using namespace std::chrono_literals;
using tests::Outcome;
using tests::Process;
using tests::Report;
using Clock = std::chrono::steady_clock;

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::string text_of(const Error& e) { return fmt::format("code {}: {}", static_cast<int>(e.code), e.message); }

// Says "here N name", or the error.
Process joining(const UniqueId& id, Rank rank, Rank ranks, Milliseconds timeout) {
  return Process([=](Report& report) {
    const auto meeting = meet({.id = id, .rank = rank, .ranks = ranks, .timeout = timeout});
    report.say(meeting ? fmt::format("here {} {}", meeting->ranks.size(), meeting->name) : text_of(meeting.error()));
  });
}

Host open(Rank ranks) { return Host::open(loopback(), ranks).value(); }

TEST(Meeting, RanksMeetWhateverTheOrderAndLearnOfEachOther) {
  Host host = open(5);
  std::vector<Process> ranks;
  for (const Rank r : {3, 0, 4, 1, 2}) ranks.push_back(joining(host.id(), r, 5, 60s));
  ASSERT_TRUE(host.serve(60s));
  std::string first;
  for (Process& p : ranks) {
    const std::string said = p.join().said;
    if (first.empty()) first = said;
    EXPECT_TRUE(contains(said, "here 5 ")) << said;
    EXPECT_EQ(said, first);  // the same unguessable name everywhere
  }
}

TEST(Meeting, MissingRanksAreNamedByTheHostAndByThoseWhoCame) {
  Host host = open(4);
  Process zero = joining(host.id(), 0, 4, 60s), two = joining(host.id(), 2, 4, 60s);
  const Status met = host.serve(400ms);
  ASSERT_FALSE(met);
  EXPECT_EQ(met.error().code, Code::kTimeout);
  for (const std::string& said : {met.error().message, zero.join().said, two.join().said})
    EXPECT_TRUE(contains(said, "400 ms") && contains(said, "1, 3")) << said;
}

TEST(Jobs, PodsOfAnIndexedJobMeetAtThatOfIndexZero) {
  EXPECT_EQ(first_pod("train-3.train.default.svc.cluster.local", 3).value(), "train-0.train.default.svc.cluster.local");
  EXPECT_EQ(first_pod("train-13", 13).value(), "train-0");
  const auto other = first_pod("train-3", 13);
  ASSERT_FALSE(other);
  EXPECT_TRUE(contains(other.error().message, "train-3") && contains(other.error().message, "WEFT_STORE"));
}

TEST(Ports, ARangeIsUsedFromItsBeginningAndNamedWhenItIsFull) {
  const Ports ports{23101, 23102};
  auto first = listen_on(loopback(), ports), second = listen_on(loopback(), ports);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(local_address(first->get()).port, 23101);
  EXPECT_EQ(local_address(second->get()).port, 23102);
  const auto third = listen_on(loopback(), ports);
  ASSERT_FALSE(third);
  EXPECT_TRUE(contains(third.error().message, "every port of 23101-23102 is in use")) << third.error().message;
}

TEST(Ports, AreOneOrARange) {
  EXPECT_EQ(parse_ports("x", "20000-20010")->text(), "20000-20010");
  EXPECT_EQ(parse_ports("x", "20000")->last, 20000);
  EXPECT_EQ(parse_ports("x", "")->first, 0);
  for (const char* wrong : {"20010-20000", "0", "1-70000", "x"}) EXPECT_FALSE(parse_ports("x", wrong)) << wrong;
}

TEST(Meeting, AHostThatNeverOpensIsNamed) {
  UniqueId id;
  {
    const Host gone = open(2);
    id = gone.id();
  }
  const std::string said = joining(id, 1, 2, 300ms).join().said;
  EXPECT_TRUE(contains(said, "300 ms") && contains(said, id.addresses[0].text())) << said;
}

TEST(Meeting, ARankWithAnotherKeyIsRefusedAndLearnsWhy) {
  Host host = open(2);
  UniqueId wrong = host.id();
  wrong.key[7] ^= 1;
  Process liar = joining(wrong, 1, 2, 60s), zero = joining(host.id(), 0, 2, 60s);
  std::thread served([&] { EXPECT_TRUE(host.serve(60s)); });
  const std::string said = liar.join().said;
  EXPECT_TRUE(contains(said, "another key")) << said;
  EXPECT_TRUE(contains(joining(host.id(), 1, 2, 60s).join().said, "here 2"));
  EXPECT_TRUE(contains(zero.join().said, "here 2"));
  served.join();
}

TEST(Meeting, AnotherNumberOfRanksOrATakenRankIsRefused) {
  Host host = open(2);
  Process zero = joining(host.id(), 0, 2, 60s);
  std::thread served([&] { EXPECT_TRUE(host.serve(60s)); });
  EXPECT_TRUE(contains(joining(host.id(), 1, 3, 60s).join().said, "number of ranks"));
  std::this_thread::sleep_for(100ms);
  EXPECT_TRUE(contains(joining(host.id(), 0, 2, 60s).join().said, "two processes claim rank 0"));
  EXPECT_TRUE(contains(joining(host.id(), 1, 2, 60s).join().said, "here 2"));
  EXPECT_TRUE(contains(zero.join().said, "here 2"));
  served.join();
}

// A stranger: connects, sends this, and keeps silent until the test ends.
UniqueFd stranger(const Address& at, const std::string& words) {
  UniqueFd fd = start_connect(at).value();
  pollfd watched{fd.get(), POLLOUT, 0};
  poll(&watched, 1, 1000);
  (void)!send(fd.get(), words.data(), words.size(), MSG_NOSIGNAL);
  return fd;
}

bool is_closed(int fd) {
  pollfd watched{fd, POLLIN, 0};
  char c;
  return poll(&watched, 1, 3000) > 0 && recv(fd, &c, 1, 0) <= 0;
}

TEST(Meeting, StrangersWhoSpeakSomethingElseDoNotDisturbIt) {
  Host host = open(3);
  const Address at = host.id().addresses[0];
  std::string random;
  for (int i = 0; i < 5000; ++i) random += static_cast<char>(i * 37 + i / 7);
  std::vector<UniqueFd> silent;
  const UniqueFd http = stranger(at, "GET / HTTP/1.1\r\nHost: here\r\n\r\n");
  const UniqueFd noise = stranger(at, random);
  Greeting newer;
  newer.version = kVersion + 1;
  newer.kind = 1;
  const UniqueFd version = stranger(at, std::string(reinterpret_cast<const char*>(&newer), sizeof newer));
  for (int i = 0; i < 20; ++i) silent.push_back(stranger(at, std::string("weft\xf1\r\n", 7).substr(0, i % 8)));
  std::vector<Process> ranks;
  for (const Rank r : {0, 1, 2}) ranks.push_back(joining(host.id(), r, 3, 60s));
  const auto begin = Clock::now();
  ASSERT_TRUE(host.serve(60s));
  EXPECT_LT(Clock::now() - begin, 10s);
  for (Process& p : ranks) EXPECT_TRUE(contains(p.join().said, "here 3"));
  EXPECT_TRUE(is_closed(http.get()));
  EXPECT_TRUE(is_closed(noise.get()));
  Greeting answer;
  ASSERT_EQ(recv(version.get(), &answer, sizeof answer, MSG_WAITALL), static_cast<ssize_t>(sizeof answer));
  EXPECT_EQ(answer.version, kVersion);  // which is what a newer weft prints
}

TEST(Meeting, TooFewFileDescriptorsAreSaidBeforeAnyoneWaits) {
  const Outcome outcome = Process([](Report& report) {
                            const rlimit few{100, 100};
                            setrlimit(RLIMIT_NOFILE, &few);
                            const auto host = Host::open(loopback(), 512);
                            report.say(host ? "open" : text_of(host.error()));
                          }).join();
  for (const char* word : {"512 ranks", "576", "100 are allowed", "ulimit -n"})
    EXPECT_TRUE(contains(outcome.said, word)) << outcome.said;
}

// One process plays all ranks, to keep the test light; each is a thread with sockets of its own.
TEST(Meeting, FiveHundredAndTwelveRanksMeetInSeconds) {
  constexpr Rank kRanks = 512;
  auto host = Host::open(loopback(), kRanks);
  if (!host || !reserve_descriptors(4 * kRanks, "this test")) GTEST_SKIP() << "too few file descriptors";
  const auto begin = Clock::now();
  std::atomic<int> here = 0;
  std::vector<std::thread> ranks;
  for (Rank r = 0; r < kRanks; ++r)
    ranks.emplace_back([&, r] {
      const auto meeting = meet({.id = host->id(), .rank = r, .ranks = kRanks, .timeout = 60s});
      if (meeting && meeting->ranks[511].rank == 511) ++here;
    });
  EXPECT_TRUE(host->serve(60s));
  for (std::thread& t : ranks) t.join();
  EXPECT_EQ(here, kRanks);
  EXPECT_LT(Clock::now() - begin, 30s);
}

// --- jobs of launchers ---

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

TEST(Interfaces, AreFoundByNameSubnetAndAddress) {
  EXPECT_TRUE(choose_interface("lo").value().loopback());
  EXPECT_TRUE(choose_interface("127.0.0.0/8").value().loopback());
  EXPECT_TRUE(choose_interface("127.0.0.1").value().loopback());
  const auto refused = choose_interface("bond7");
  ASSERT_FALSE(refused);
  EXPECT_TRUE(contains(refused.error().message, "bond7") && contains(refused.error().message, "lo 127.0.0.1"))
      << refused.error().message;
  EXPECT_FALSE(choose_interface("10.0.0.0/33"));
  EXPECT_FALSE(choose_interface("lo,"));
  EXPECT_TRUE(contains(choose_interface("^lo*,*").error().message, "leaves no interface"));
  EXPECT_FALSE(choose_interface("ten/8"));
}

// Hosts of a job may call theirs otherwise, so that one list serves all.
TEST(Interfaces, AreAllThatAListMeans) {
  const auto some = choose_interfaces("bond7,l?,127.0.0.0/8").value();
  ASSERT_EQ(some.size(), 1u);  // each once
  EXPECT_EQ(some[0].name, "lo");
  ASSERT_EQ(missing_interfaces("bond7,lo").size(), 1u);
  EXPECT_TRUE(contains(missing_interfaces("bond7,lo")[0], "no interface 'bond7' is up here"));
  EXPECT_FALSE(choose_interfaces("bond7,bond8"));
  for (const Interface& i : choose_interfaces("^docker0").value_or(std::vector<Interface>()))
    EXPECT_FALSE(i.address.loopback());
  EXPECT_FALSE(choose_interfaces("lo,^lo"));
}

Address ip(const std::string& text) {
  Address a;
  EXPECT_TRUE(parse_ip(text, a));
  return a;
}

TEST(Interfaces, ConnectionsGoToThePeersRailsInTurnFromTheNearest) {
  const std::vector<Address> own{ip("10.1.0.1"), ip("10.2.0.1")}, peers{ip("10.2.0.2"), ip("10.1.0.2")};
  EXPECT_EQ(route_of(own, peers, 0).text(), " over 10.2.0.1 to 10.2.0.2");
  EXPECT_EQ(route_of(own, peers, 1).text(), " over 10.1.0.1 to 10.1.0.2");
  EXPECT_EQ(route_of(own, peers, 2).text(), " over 10.2.0.1 to 10.2.0.2");
  const std::vector<Address> same{ip("10.1.0.1"), ip("10.1.0.3")}, one{ip("10.1.0.2")};
  EXPECT_EQ(route_of(same, one, 0).text(), " over 10.1.0.1 to 10.1.0.2");  // of one network: in turn
  EXPECT_EQ(route_of(same, one, 1).text(), " over 10.1.0.3 to 10.1.0.2");
  EXPECT_EQ(route_of({ip("10.1.0.1"), ip("fd00::1")}, {ip("fd00::2")}, 0).text(), " over fd00::1 to fd00::2");
}

// Bound to `from`, with packets for `to`; none is sent.
UniqueFd towards(const Address& from, Address to) {
  sockaddr_storage storage;
  socklen_t length = to_sockaddr(from, storage);
  UniqueFd fd(socket(storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(bind(fd.get(), reinterpret_cast<sockaddr*>(&storage), length), 0);
  to.port = 9;
  length = to_sockaddr(to, storage);
  EXPECT_EQ(connect(fd.get(), reinterpret_cast<sockaddr*>(&storage), length), 0);
  return fd;
}

TEST(Interfaces, AreAdaptersOnlyTowardsOtherMachines) {
  EXPECT_FALSE(leaves_by_adapter(towards(loopback(), loopback()).get()));
  std::string adapter;
  for (const auto& entry : std::filesystem::directory_iterator("/sys/class/net"))
    if (exists(entry.path() / "device") && choose_interface(entry.path().filename())) adapter = entry.path().filename();
  if (adapter.empty()) GTEST_SKIP() << "no adapter is up here";
  const Address own = choose_interface(adapter).value();
  EXPECT_FALSE(leaves_by_adapter(towards(own, own).get()));
  Address neighbour = own;
  neighbour.ip[own.family == 4 ? 3 : 15] ^= 1;
  EXPECT_TRUE(leaves_by_adapter(towards(own, neighbour).get()));
}

TEST(Meeting, CrossesIpv6) {
  Address v6;
  v6.family = 6;
  v6.ip[15] = 1;
  auto host = Host::open(v6, 2);
  if (!host) GTEST_SKIP() << "no IPv6 here: " << host.error().message;
  Process zero = joining(host->id(), 0, 2, 60s), one = joining(host->id(), 1, 2, 60s);
  ASSERT_TRUE(host->serve(60s));
  EXPECT_TRUE(contains(zero.join().said, "here 2"));
  EXPECT_TRUE(contains(one.join().said, "here 2"));
}

}  // namespace
}  // namespace weft::net::bootstrap
