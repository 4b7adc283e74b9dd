#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "command.h"

// The command as a user meets it: grammar, JSON, exit codes, one clear line for bad input.
namespace weft {
namespace {

using nlohmann::json;

struct Ended {
  int code = -1;
  std::string out, err;
};

// Runs weft and sends SIGINT when `ready` is true of what it has printed so far, or after `at_most` if given.
Ended interrupt(const std::vector<std::string>& arguments, const std::function<bool(const std::string&)>& ready,
                std::chrono::milliseconds at_most = std::chrono::hours(1)) {
  const std::string errors = testing::TempDir() + "/weft-interrupt-" + std::to_string(getpid()) + ".txt";
  int ends[2];
  if (pipe(ends) != 0) return {};
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGINT, SIG_DFL);
    dup2(ends[1], STDOUT_FILENO);
    close(ends[0]);
    dup2(open(errors.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), STDERR_FILENO);
    std::vector<char*> argv{const_cast<char*>("weft")};
    for (const std::string& a : arguments) argv.push_back(const_cast<char*>(a.c_str()));
    argv.push_back(nullptr);
    execv(WEFT_COMMAND, argv.data());
    _exit(127);
  }
  close(ends[1]);
  Ended ended;
  const auto until = std::chrono::steady_clock::now() + at_most;
  for (bool asked = false;;) {
    pollfd wait{ends[0], POLLIN, 0};
    if (poll(&wait, 1, 20) > 0) {
      char buffer[4096];
      const ssize_t n = read(ends[0], buffer, sizeof buffer);
      if (n <= 0) break;
      ended.out.append(buffer, static_cast<std::size_t>(n));
    }
    if (!asked && (ready(ended.out) || std::chrono::steady_clock::now() > until)) asked = kill(child, SIGINT) == 0;
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  ended.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  std::ifstream in(errors);
  ended.err.assign(std::istreambuf_iterator<char>(in), {});
  std::filesystem::remove(errors);
  return ended;
}

// The sweep would take many minutes: it is interrupted when its first row is there.
TEST(Interrupted, ASweepPrintsAndWritesTheSizesThatAreDone) {
  const std::string file = testing::TempDir() + "/weft-interrupted-" + std::to_string(getpid()) + ".json";
  const Ended ended = interrupt({"bench", "all_reduce", "--on", "dgx-h100:nodes=64,net=ib-ndr", "--min", "64K", "--max",
                                 "8G", "--algo", "ring", "--no-fold", "--json", file},
                                [](const std::string& out) { return out.find(" ring ") != std::string::npos; });
  EXPECT_EQ(ended.code, 130) << ended.out;
  EXPECT_NE(ended.out.find("average busbw"), std::string::npos) << ended.out;
  std::ifstream in(file);
  const json report = json::parse(in, nullptr, false);
  ASSERT_FALSE(report.is_discarded());
  EXPECT_GE(report["rows"].size(), 1U);
  EXPECT_LT(report["rows"].size(), 18U);
  std::filesystem::remove(file);
}

TEST(Interrupted, RegretPrintsAndWritesTheRowsThatAreDone) {
  const std::string file = testing::TempDir() + "/weft-regret-" + std::to_string(getpid()) + ".json";
  const Ended ended = interrupt({"accuracy", "--regret", "dgx-h100;dgx-h100:nodes=64,net=ib-ndr", "--collective", "all",
                                 "--sizes", "8,1G", "--json", file},
                                [](const std::string& out) { return out.find(" all_reduce ") != std::string::npos; });
  EXPECT_EQ(ended.code, 130) << ended.err;
  EXPECT_NE(ended.err.find("weft: interrupted"), std::string::npos) << ended.err;
  EXPECT_NE(ended.out.find("# 1 choice, "), std::string::npos) << ended.out;
  std::ifstream in(file);
  const json report = json::parse(in, nullptr, false);
  ASSERT_FALSE(report.is_discarded());
  EXPECT_GE(report["rows"].size(), 1U);
  EXPECT_LT(report["rows"].size(), 32U);
  std::filesystem::remove(file);
}

// These print nothing before they are done: they are interrupted after a while, and say what is done by then.
TEST(Interrupted, ExplainPlaceAccuracyAndTrainSayWhatIsDone) {
  const std::vector<std::string> commands[] = {
      {"explain", "all_reduce", "--on", "dgx-h100:nodes=128,net=ib-ndr", "--bytes", "8G"},
      {"place", "--on", "dgx-h100:nodes=512,tiers=3", "--nodes", "128", "--bytes", "8G"},
      {"accuracy", std::string(WEFT_SOURCE) + "/data/measured"},
      {"train", "llama3-70b", "--on", "dgx-h100:nodes=128", "--global-batch", "2048", "--seq", "8192", "--best"}};
  for (const auto& command : commands) {
    const Ended ended = interrupt(
        command, [](const std::string&) { return false; }, std::chrono::milliseconds(700));
    EXPECT_EQ(ended.code, 130) << command[0] << ended.out << ended.err;
    EXPECT_NE(ended.err.find("weft: interrupted; "), std::string::npos) << command[0] << ended.err;
  }
}

struct BadInput {
  const char* arguments;
  const char* names;  // what the one line must contain
};

void PrintTo(const BadInput& input, std::ostream* out) { *out << "weft " << input.arguments; }

// A test's name: the arguments, without what a name must not hold.
std::string name_of(const testing::TestParamInfo<BadInput>& info) {
  std::string name = std::to_string(info.index) + "_";
  for (const char* c = info.param.arguments; *c != 0; ++c)
    name += std::isalnum(static_cast<unsigned char>(*c)) ? *c : '_';
  return name;
}

class Refused : public testing::TestWithParam<BadInput> {};

TEST_P(Refused, WithOneLineThatNamesTheProblemAndExitCodeTwo) {
  const Answer a = weft(GetParam().arguments);
  EXPECT_EQ(a.code, 2) << a.out << a.err;
  EXPECT_EQ(std::count(a.err.begin(), a.err.end(), '\n'), 1) << a.err;
  EXPECT_NE(a.err.find(GetParam().names), std::string::npos) << a.err;
  EXPECT_EQ(a.out, "");
}

TEST(CommandLine, EscapesOfItsArgumentsDoNotReachTheTerminal) {
  for (const char* arguments :
       {"'bn\x1b[31mech'", "bench 'all\x1b[31m'", "run -n 1 './no\x1b[31mne'", "bench all_reduce '--x\x1b[31m'"}) {
    const Answer a = weft(arguments);
    EXPECT_NE(a.code, 0) << arguments;
    EXPECT_EQ(a.err.find('\x1b'), std::string::npos) << arguments;
    EXPECT_NE(a.err.find("\\x1b"), std::string::npos) << a.err;
  }
}

TEST(Rehearsal, TheMachineIsDescribedBeforeThereAreRecordings) {
  const Answer a = weft("rehearse --describe --on dgx-h100:nodes=2");  // what weftcomm rehearse asks first
  EXPECT_EQ(a.code, 0) << a.err;
  EXPECT_EQ(json::parse(a.out).at("gpus"), 16);
}

TEST(Simulated, SaysWhatWasFoldedAndWhatFaultsCost) {
  const std::string bench =
      "bench all_reduce --on dgx-h100:nodes=4,net=ib-ndr,wires=switch --algo ring --proto Simple --channels 16 "
      "--min 256M --max 256M --json -";
  const json folded = json::parse(weft(bench).out).at("rows")[0],
             full = json::parse(weft(bench + " --no-fold").out).at("rows")[0];
  EXPECT_EQ(folded.at("simulation").at("folded"), 2);
  EXPECT_EQ(full.at("simulation").at("folded"), 1);
  EXPECT_NEAR(folded.at("time_us").get<double>() / full.at("time_us").get<double>(), 1, 1e-3);
  const json dead = json::parse(weft(bench + " --fault nic:1/3=down").out);
  EXPECT_EQ(dead.at("faults")[0], "nic:1/3=down");
  EXPECT_NEAR(dead.at("rows")[0].at("healthy_us").get<double>() / folded.at("time_us").get<double>(), 1, 1e-3);
  EXPECT_GT(dead.at("rows")[0].at("time_us").get<double>(), 1.1 * folded.at("time_us").get<double>());
  EXPECT_GT(dead.at("rows")[0].at("busiest").at("utilisation").get<double>(), 0.5);
}

TEST(Simulated, SaysWhatComputingAndOthersTrafficCost) {
  const std::string bench =
      "bench all_reduce --on dgx-h100:nodes=4,net=ib-ndr --algo ring --proto Simple --channels 16 --min 256M --max "
      "256M "
      "--json - ";
  const json computing = json::parse(weft(bench + "--compute 1ms").out);
  EXPECT_EQ(computing.at("compute"), "1ms");
  const json both = computing.at("rows")[0].at("computing");
  EXPECT_EQ(both.at("alone_us"), 1000);
  EXPECT_NEAR(both.at("beside_us").get<double>(), 1000 * 132 / 116.0, 2);  // 16 of 132 multiprocessors are held
  EXPECT_NEAR(both.at("overlap").get<double>(), 1, 1e-9);                  // the collective takes longer
  const json loaded = json::parse(weft(bench + "--load uniform=50%").out);
  EXPECT_EQ(loaded.at("loads")[0], "uniform=50%");
  const json row = loaded.at("rows")[0];
  EXPECT_GT(row.at("time_us").get<double>(), 1.5 * row.at("healthy_us").get<double>());
  EXPECT_LT(row.at("time_us").get<double>(), 2.1 * row.at("healthy_us").get<double>());
}

TEST(Simulated, ARunOfTooManyEventsStopsWithWhatItKnows) {
  const Answer a = weft("bench all_reduce --on dgx-h100 --min 1M --max 1M --no-fold --max-events 10");
  EXPECT_EQ(a.code, 1);
  EXPECT_NE(a.err.find("stopped after 10 events"), std::string::npos) << a.err;
}

TEST(Simulated, ATimelineHasASpanOfEveryRankAndALevelOfLinks) {
  const std::string file = testing::TempDir() + "/weft-timeline-" + std::to_string(getpid()) + ".json";
  const Answer a = weft("bench all_reduce --on dgx-h100 --min 1M --max 1M --timeline " + file);
  EXPECT_EQ(a.code, 0) << a.err;
  std::ifstream in(file);
  const json trace = json::parse(in);
  std::set<int> ranks;
  double busiest = 0;
  for (const json& e : trace.at("traceEvents")) {
    if (e.at("ph") == "X" && e.at("pid").is_number()) ranks.insert(e.at("pid").get<int>());
    if (e.at("ph") == "C") busiest = std::max(busiest, e.at("args").at("% used").get<double>());
  }
  EXPECT_EQ(ranks.size(), 8u);
  EXPECT_GT(busiest, 10);
  EXPECT_LE(busiest, 100.1);
  std::filesystem::remove(file);
}

INSTANTIATE_TEST_SUITE_P(
    Inputs, Refused,
    testing::Values(
        BadInput{"nonsense", "nonsense"}, BadInput{"bench transfer --op xor", "--op xor"},
        BadInput{"bench transfer --blocks 5", "--block"}, BadInput{"bench transfer --verify", "--verify needs --block"},
        BadInput{"bench transfer --on dgx-h100 --block 4K", "contiguous"},
        BadInput{"bench transfer --block 0 --blocks 10", "--block 0: a block"},
        BadInput{"bench transfer --op sum", "--op sum"},
        BadInput{"bench transfer --stack mooncake", "--stack mooncake"},
        BadInput{"bench transfer --on dgx-h100 --from nvme-gen5*0", "tier 'nvme-gen5*0': count 0"},
        BadInput{"kv replay /nonexistent --blocks 99999999999999999999", "--blocks 99999999999999999999 is outside"},
        BadInput{"bench transfer --on dgx-h100 --from tape", "tier 'tape'"},
        BadInput{"bench transfer --from dram", "--from dram"},
        BadInput{"bench transfer --on dgx-h100 --from node", "needs two nodes"},
        BadInput{"bench transfer --on dgx-h100 --from dram --stack mooncake", "--stack mooncake"},
        BadInput{"bench transfer --file /nonexistent/file --block 4K --blocks 1", "--file /nonexistent/file"},
        BadInput{"bench transfer --file /tmp/x --block 5000 --blocks 1", "multiples of 4K"},
        BadInput{"kv fetch /nonexistent.json", "--on names"},
        BadInput{"kv fetch /nonexistent.json --on dgx-h100", "/nonexistent.json"},
        BadInput{"bench all_reduce --blocks 3", "--blocks"},
        BadInput{"kv replay /nonexistent --blocks 0", "--blocks 0"}, BadInput{"kv", "needs one of size, replay, fetch"},
        BadInput{"bench", "collective"}, BadInput{"bench all_reduse", "'all_reduse'"},
        BadInput{"bench all_reduce --ranks 0", "--ranks 0"},
        BadInput{"bench all_reduce --ranks 0 --on dgx-h100", "--ranks 0"}, BadInput{"bench all_reduce --ranks x", "x"},
        BadInput{"bench all_reduce --on dgx-h100 --ranks 9", "8 GPUs"}, BadInput{"bench all_reduce --min 1Q", "'1Q'"},
        BadInput{"bench all_reduce --max 9999999T", "9999999T"}, BadInput{"bench all_reduce --min 2K --max 1K", "2K"},
        BadInput{"bench all_reduce --factor 1", "--factor 1"},
        BadInput{"bench all_reduce --dtype quarter", "'quarter'"}, BadInput{"bench all_reduce --op median", "'median'"},
        BadInput{"bench all_reduce --op xor", "integers"},
        BadInput{"bench broadcast --algo tree --on dgx-h100", "'tree'"},
        BadInput{"bench broadcast --algo tree", "'tree'"}, BadInput{"bench all_reduce --proto LL256", "'LL256'"},
        BadInput{"bench all_reduce --algo two_shot --proto LL64", "two_shot"},
        BadInput{"bench all_reduce --on dgx-h101", "'dgx-h101'"},
        BadInput{"bench all_reduce --on dgx-h100 --max 9223372036854775808", "9223372036854775808"},
        BadInput{"bench all_reduce --on dgx-h100 --max-events 0", "--max-events"},
        BadInput{"bench all_reduce --on dgx-h100 --timeline t.json", "--timeline"},
        BadInput{"bench all_reduce --timeline t.json", "--on"}, BadInput{"bench all_reduce --fault nic:3=down", "--on"},
        BadInput{"bench all_reduce --load uniform=30%", "--on"}, BadInput{"bench all_reduce --compute 5ms", "--on"},
        BadInput{"bench all_reduce --on dgx-h100 --compute 5m", "5m"},
        BadInput{"bench all_reduce --on dgx-h100 --compute 5ms,by=copy-engine", "copy engines"},
        BadInput{"bench all_reduce --on gb200-nvl72 --compute 5ms", "GB200"},
        BadInput{"bench all_reduce --on dgx-h100 --level packet:weights=3//1", "weights"},
        BadInput{"bench all_reduce --on dgx-h100:nodes=2 --load uniform=30%,class=1", "class 1"},
        BadInput{"bench all_reduce --on dgx-h100 --load gpu0-gpu9=30%", "gpu0-gpu9=30%"},
        BadInput{"bench all_reduce --on dgx-h100 --load uniform=130%", "uniform=130%"},
        BadInput{"bench all_reduce --on dgx-h100 --check --load uniform=30%", "--check"},
        BadInput{"bench all_reduce --on dgx-h100 --fault nic:99=down", "nic:99=down"},
        BadInput{"bench all_reduce --on dgx-h100 --fault link:gpu0-gpu1=down", "link:gpu0-gpu1=down"},
        BadInput{"bench all_reduce --on dgx-h100 --fault nvswitch:0=down --fault gpu:0=sick", "gpu:0=sick"},
        BadInput{"bench all_reduce --on dgx-h100:nodes=2,wires=switch --fault switch:0=down", "cannot reach"},
        BadInput{"bench broadcast --on dgx-h100 --root 7 --fault gpu:3=down", "--root 7"},
        BadInput{"bench all_reduce --on dgx-h100:nodes=0", "nodes"},
        BadInput{"bench all_reduce --on dgx-h100:net=token-ring", "token-ring"},
        BadInput{"bench all_reduce --on /no/such/file.xml", "/no/such/file.xml"},
        BadInput{"bench all_reduce --transport pigeon", "'pigeon'"},
        BadInput{"explain all_reduce --bytes many", "'many'"},
        BadInput{"explain all_reduce --table -", "--table needs --on"},
        BadInput{"explain all_reduce --on dgx-h100 --min 4M --max 1M", "--min 4M is more than --max 1M"},
        BadInput{"explain all_reduce --on dgx-h100 --bytes 1M --max 4M", "--bytes 1M is one size"},
        BadInput{"explain all_reduce --on dgx-h100 --factor 4", "--factor"},
        BadInput{"bench all_reduce --on dgx-h100 --bytes 1Mb", "--bytes: size '1Mb': b is a bit"},
        BadInput{"bench all_reduce --on pcie-4x3090:mig=2", "RTX-3090 has no MIG"},
        BadInput{"explain access --on dgx-h100 --reuse 0", "--reuse 0"}, BadInput{"explain devices", "--gpus"},
        BadInput{"explain access --on dgx-h100 --fraction 1.5", "--fraction 1.5"},
        BadInput{"explain access --on dgx-h100 --peer 8", "--peer 8"},
        BadInput{"explain all_to_all --on dgx-h100 --table -", "does not choose for all_to_all"},
        BadInput{"explain all_reduce --on mi300x --table -", "NVIDIA GPUs"},
        BadInput{"bench all_reduce --on dgx-h100 --tuner best", "unknown tuner 'best'"},
        BadInput{"trace /no/such/trace.json", "/no/such/trace.json"},
        BadInput{"replay recorded --on dgx-h100 --fault nvswitch:0=down", "--fault nvswitch:0=down: is for traces"},
        BadInput{"bench all_reduce --tuner nccl", "--on"}, BadInput{"verify all_reduce --algo ring --ranks -3", "-3"},
        BadInput{"verify all_reduce --algo rings", "'rings'"},
        BadInput{"verify broadcast --algo ring --ranks 4 --root 4", "--root 4"}, BadInput{"verify", "which schedule"},
        BadInput{"verify all_reduce", "--algo is missing"}, BadInput{"verify --all --ranks 17..1", "17..1"},
        BadInput{"verify --all all_reduce", "--all"}, BadInput{"verify all_reduce --algo ring --ranks 1..4", "1..4"},
        BadInput{"verify no_such_file.xml", "no_such_file.xml"},
        BadInput{"schedule all_reduce --algo two_shot --ranks 2 --xml -", "messages and local copies only"},
        BadInput{"schedule all_reduce --algo ring --ranks 4 --rank 4", "--rank 4"},
        BadInput{"topo --on nowhere", "'nowhere'"}, BadInput{"topo --on tpu-v4:shape=3x3x3", "27"},
        BadInput{"topo --on dgx-h100 --path gpu0 gpu9", "gpu9"}, BadInput{"topo --on aurora --xml -", "chip links"},
        BadInput{"topo --on dgx-h100 --slurm -", "no network switches"},
        BadInput{"place --on dgx-h100:nodes=4 --nodes 5", "--nodes 5"},
        BadInput{"place --on dgx-h100:nodes=4 --given node[0,9]", "'node9'"},
        BadInput{"place --on dgx-h100:nodes=4 --nodes 2 --switches 2@abc", "'abc' is no time of Slurm's"},
        BadInput{"place --on dgx-h100:nodes=4 --nodes 2 --segment 0", "--segment 0: at least 1"},
        BadInput{"place --on dgx-h100:nodes=4 --nodes 2 --train llama3-8b --bytes 1M", "--bytes has no meaning"},
        BadInput{"place --on dgx-h100:nodes=4 --nodes 2 --train llama9:tp=8", "model llama9: none of"},
        BadInput{"place --on dgx-h100:nodes=4 --given node[0,1] --seed 2", "no meaning beside --given"},
        BadInput{"advise llama-3.1-8b --rate 5 --ttft 0", "--ttft: 0: a number above 0"},
        BadInput{"advise llama-3.1-8b --rate 0", "--rate: 0: a number above 0"},
        BadInput{"catalog warp-drive", "'warp-drive'"},
        BadInput{"topo --on dgx-h100 --svg /no/such/folder/x.svg", "/no/such/folder/x.svg"},
        BadInput{"bench put --transport bogus", "'bogus'"}, BadInput{"run -n 0 -- true", "-n 0"},
        BadInput{"run true", "--hosts"}, BadInput{"run -n 2", "program"}, BadInput{"run -n 2 --hots a true", "--hots"},
        BadInput{"run --hosts a,,b true", "''"}, BadInput{"run --hosts a:0 true", "ranks of a"},
        BadInput{"run --hosts a --hostfile b true", "--hostfile"},
        BadInput{"run --hosts a:1 -n 2 true", "places for 1"},
        BadInput{"run --hostfile /nonexistent true", "/nonexistent"},
        BadInput{"run --hosts a,b --transport shm true", "--transport shm"},
        BadInput{"run --hosts a --env NO_SUCH_NAME true", "NO_SUCH_NAME"},
        BadInput{"run --hosts a --on-failure stop true", "'stop'"}, BadInput{"completion tcsh", "'tcsh'"}),
    name_of);

TEST(Command, ScatteredNodesOfAnOversubscribedNetworkAreSlower) {
  const std::string file = testing::TempDir() + "/place.json";
  // Leaves of 6 nodes, four NICs to an uplink: nodes at four leaves share far fewer ports than nodes at one.
  const Answer done =
      weft("place --on dgx-h100:nodes=64,wires=fat-tree,oversub=4 --given node[0,6,12,18] --bytes 256M --json " + file);
  ASSERT_EQ(done.code, 0) << done.err;
  std::ifstream stream(file);
  const json report = json::parse(stream);
  EXPECT_GT(report["slowdown"], 1.2);
  EXPECT_EQ(report["chosen"]["leaf_groups"], 1);
  EXPECT_EQ(report["given"]["leaf_groups"], 4);
}

TEST(Command, NodesOfMoreLeafSwitchesAreChosenWhereTheirUplinksCount) {
  const std::string file = testing::TempDir() + "/spread.json", conf = testing::TempDir() + "/leaves.conf";
  std::ofstream(conf) << "SwitchName=s0 Nodes=a[0-3]\nSwitchName=s1 Nodes=a[4-7]\nSwitchName=s2 Nodes=a[8-11]\n"
                         "SwitchName=s3 Nodes=a[12-15]\nSwitchName=top Switches=s[0-3]\n";
  // Every leaf brings as many uplinks as one node has NICs: four nodes of two leaves share two nodes' worth of them for
  // half of what they send each other, those of four leaves have four for three quarters.
  const Answer done = weft("place --on " + conf + ":node=dgx-h100,net=ib-ndr,oversub=4 --collective all_to_all" +
                           " --given \"a[0,4,8,12,1,5,9,13]\" --bytes 256M --json " + file);
  ASSERT_EQ(done.code, 0) << done.err;
  std::ifstream stream(file);
  const json report = json::parse(stream);
  EXPECT_GE(report["slowdown"], 0.999) << "what is chosen is never slower";
  EXPECT_EQ(report["chosen"]["leaf_groups"], 4);
}

TEST(Command, ATrainingStepIsALoadOfPlacement) {
  const Answer a = weft(
      "place --on dgx-h100:nodes=8,wires=fat-tree,oversub=4 --nodes 2 --train "
      "llama3-8b:tp=8,global-batch=16 --json -");
  ASSERT_EQ(a.code, 0) << a.err;
  const json report = json::parse(a.out);
  EXPECT_EQ(report["train"], "llama3-8b:tp=8,global-batch=16");
  EXPECT_GT(report["chosen"]["time_us"], 1e5) << "a step of 131072 tokens of 8B parameters takes seconds on 16 GPUs";
}

TEST(Command, AScheduleFromAFileRunsHereAndSimulatedForItsRanksOnly) {
  const std::string file = testing::TempDir() + "/tree4.json";
  ASSERT_EQ(weft("schedule all_reduce --algo tree --ranks 4 --json " + file).code, 0);
  for (const std::string where : {"--transport threads", "--on dgx-h100"}) {
    const Answer done =
        weft("bench all_reduce -n 4 --max 64K --factor 64 --check --json - --algo " + file + " " + where);
    ASSERT_EQ(done.code, 0) << done.err;
    const json results = json::parse(done.out);
    for (const json& row : results["rows"]) {
      EXPECT_EQ(row["algorithm"], "tree");
      EXPECT_EQ(row["errors"], 0);
      EXPECT_GT(row["predicted_us"], 0);
    }
    const Answer refused = weft("bench all_reduce -n 3 --algo " + file + " " + where);
    EXPECT_EQ(refused.code, 2);
    EXPECT_NE(refused.err.find("is written for 4 ranks"), std::string::npos) << refused.err;
  }
}

TEST(Command, TheDocumentedAlgorithmsAreThoseOfTheRegistry) {
  std::ifstream file(WEFT_SOURCE "/docs/algorithms.md");
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  EXPECT_TRUE(page == weft("algorithms").out) << "stale: run `build/weft algorithms > docs/algorithms.md`";
}

TEST(Command, ReadsAMalformedFileAsBadInputWithItsLine) {
  const std::string file = testing::TempDir() + "/torn.xml";
  std::ofstream(file) << "<system version=\"1\">\n  <cpu numaid=\"0\">\n    <pci busid=\"0000:01:00.0\" class=\"0x0302";
  const Answer a = weft("bench all_reduce --on " + file);
  EXPECT_EQ(a.code, 2);
  EXPECT_NE(a.err.find("torn.xml:3"), std::string::npos) << a.err;
}

TEST(Command, TheDoctorSaysWhatTheNamedNicCostsATrainingStepAndADay) {
  const std::string file = testing::TempDir() + "/nic-" + std::to_string(getpid()) + ".log";
  std::ofstream(file)
      << "node1:4242:4301 [3] NCCL WARN NET/IB : mlx5_2:1 async fatal event: local catastrophic error\n";
  const std::string on = "doctor " + file + " --on dgx-h100:nodes=4 ";
  const Answer found = weft(on + "--workload llama3-8b:tp=4,global-batch=64,seq=4096 --price 2");
  EXPECT_EQ(found.code, 1);
  EXPECT_NE(found.out.find("a step of llama3-8b on dgx-h100:nodes=4"), std::string::npos) << found.out;
  EXPECT_NE(found.out.find("with nic:0/2=down"), std::string::npos) << found.out;
  EXPECT_NE(found.out.find("a day at 2 per GPU-hour"), std::string::npos) << found.out;
  const Answer wrong = weft(on + "--workload llama3-8b:tq=4");
  EXPECT_EQ(wrong.code, 2);
  EXPECT_NE(wrong.err.find("'tq' is none of"), std::string::npos) << wrong.err;
  EXPECT_EQ(weft("doctor " + file + " --workload llama3-8b").code, 2);  // on which machine?
}

TEST(Command, ATrainingRunsOwnFileIsReadAndOptionsCountMore) {
  const std::string file = testing::TempDir() + "/pretrain-" + std::to_string(getpid()) + ".sh";
  std::ofstream(file) << "--num-layers 32 --hidden-size 4096 --num-attention-heads 32 --group-query-attention "
                         "--num-query-groups 8 --ffn-hidden-size 14336 --swiglu --vocab-size 128256 --seq-length 4096\n"
                         "--untie-embeddings-and-output-weights --tensor-model-parallel-size 4 --global-batch-size 64 "
                         "--use-distributed-optimizer --bf16\n";
  const std::string own = weft("train --config " + file + " --on dgx-h100").out;
  const std::string typed = weft("train llama3-8b --on dgx-h100 --tp 4 --global-batch 64 --seq 4096").out;
  EXPECT_EQ(own.substr(own.find(" on 8 GPUs")), typed.substr(typed.find(" on 8 GPUs")));
  EXPECT_NE(weft("train --config " + file + " --on dgx-h100 --tp 2").out.find("plan: tp 2"), std::string::npos);
}

TEST(Command, SimulatesWithCheckedResultsAsJson) {
  const Answer a = weft("bench all_reduce --on dgx-h100 --min 8 --max 1M --factor 16 --check --json -");
  ASSERT_EQ(a.code, 0) << a.err;
  const json report = json::parse(a.out);
  EXPECT_EQ(report.at("schema"), "weft.bench/3");
  EXPECT_EQ(report.at("world"), "simulated");
  EXPECT_EQ(report.at("ranks"), 8);
  ASSERT_EQ(report.at("rows").size(), 5u);  // 8, 128, 2K, 32K, 512K
  for (const json& row : report.at("rows")) {
    EXPECT_EQ(row.at("errors"), 0);
    EXPECT_GT(row.at("time_us"), 0);
    // algbw = bytes / time; busbw = algbw * 2 * 7 / 8 (nccl-tests).
    EXPECT_NEAR(row.at("busbw_GBps").get<double>(),
                row.at("bytes").get<double>() / row.at("time_us").get<double>() * 1e-3 * 1.75, 1e-6);
    EXPECT_LE(row.at("of_limit"), 1.0);
  }
}

TEST(Command, SimulatesAnAverageOfIntegersAsItIsTakenForReal) {
  const Answer a = weft("bench all_reduce --on dgx-h100 --min 4K --max 4K --dtype int32 --op avg --check --json -");
  ASSERT_EQ(a.code, 0) << a.err;
  EXPECT_EQ(json::parse(a.out).at("rows").at(0).at("errors"), 0);
}

TEST(Command, RunsForRealBetweenProcessesAndThreadsWithCheckedResults) {
  for (const char* transport : {"shm", "threads"}) {
    for (const char* collective : {"all_reduce", "all_gather", "reduce_scatter", "broadcast"}) {
      const Answer a =
          weft(std::string("bench ") + collective +
               " --ranks 3 --min 8 --max 256K --factor 32 --iters 3 --check --json - --transport " + transport);
      ASSERT_EQ(a.code, 0) << collective << ": " << a.err;
      const json report = json::parse(a.out);
      EXPECT_EQ(report.at("world"), "real");
      for (const json& row : report.at("rows")) EXPECT_EQ(row.at("errors"), 0) << collective;
    }
  }
}

TEST(Command, RunStartsRanksThatFindEachOther) {
  const Answer a =
      weft(std::string("run -n 2 -- ") + WEFT_COMMAND + " bench all_reduce --max 64 --iters 2 --check --json -");
  ASSERT_EQ(a.code, 0) << a.err;
  EXPECT_EQ(json::parse(a.out).at("ranks"), 2);
}

TEST(Command, RunReturnsTheFailingRanksCodeAndNamesASignal) {
  EXPECT_EQ(weft("run -n 2 -- sh -c 'exit 7'").code, 7);
  const Answer killed = weft("run -n 2 -- sh -c '[ $WEFT_RANK = 0 ] || kill -KILL $$'");
  EXPECT_EQ(killed.code, 137);
  EXPECT_NE(killed.err.find("rank 1"), std::string::npos) << killed.err;
}

// A rank's children, whose own parent has gone, end with the job; ranks have time to say something before.
TEST(Command, ASignalToTheLauncherIsPassedOnAndReachesWhatRanksHaveStarted) {
  const std::string folder = std::filesystem::temp_directory_path() / ("weft-signal-" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  const auto file = [&](const std::string& name) { return folder + "/" + name; };
  const std::string rank = "trap \"touch " + file("said") + "; exit 3\" TERM; sleep 600 & echo $! >" +
                           file("child.tmp") + "; mv " + file("child.tmp") + " " + file("child") + "; wait";
  std::ofstream(file("rank")) << rank;
  const std::string line = "exec " WEFT_COMMAND " run -n 1 -- sh " + file("rank") + " </dev/null >/dev/null 2>&1";
  const pid_t launcher = fork();
  if (launcher == 0) {
    execl("/bin/sh", "sh", "-c", line.c_str(), nullptr);
    _exit(127);
  }
  for (int i = 0; i < 1000 && !std::filesystem::exists(file("child")); ++i) usleep(20000);
  pid_t child = -1;
  std::ifstream(file("child")) >> child;
  ASSERT_GT(child, 0);
  kill(launcher, SIGTERM);
  int status = 0;
  ASSERT_EQ(waitpid(launcher, &status, 0), launcher);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 128 + SIGTERM) << status;
  EXPECT_TRUE(std::filesystem::exists(file("said")));
  for (int i = 0; i < 100 && kill(child, 0) == 0; ++i) usleep(10000);  // until it has been reaped
  std::string stat;  // a container whose first process reaps nobody keeps it as a zombie
  std::ifstream("/proc/" + std::to_string(child) + "/stat") >> stat >> stat >> stat;
  EXPECT_TRUE(kill(child, 0) != 0 || stat == "Z") << stat;
  std::filesystem::remove_all(folder);
}

// Each rank starts a process over UCX, kills it once its memory has a name where it should, leaves a name as if it had
// been killed earlier, and is killed itself.
TEST(Command, RanksOverUcxThatAreKilledLeaveNoNameInSharedMemory) {
  if (weft("run -n 1 --transport ucx -- true").code != 0) GTEST_SKIP() << "no UCX";
  const std::string context =
      "\"$0\" bench all_reduce --max 64 --iters 100000000 >/dev/null 2>&1 & "
      "i=0; until grep -qs \"$UCX_POSIX_DIR/ucx_shm\" /proc/$!/maps || [ $i = 600 ]; do sleep 0.05; i=$((i+1)); done; "
      "[ $i = 600 ] || echo \"$UCX_POSIX_DIR\"; touch \"$UCX_POSIX_DIR/ucx_shm_posix_of_$WEFT_RANK\"; "
      "kill -KILL $! $$";
  const Answer a = weft("run -n 2 --transport ucx -- sh -c '" + context + "' " + WEFT_COMMAND);
  EXPECT_EQ(a.code, 137) << a.err;
  const std::string folder = a.out.substr(0, a.out.find('\n'));
  EXPECT_TRUE(folder.starts_with("/dev/shm/")) << "UCX has its memory elsewhere: " << a.out;
  EXPECT_FALSE(std::filesystem::exists(folder));
}

TEST(Command, ExplainsHowRanksOnGpusReachEachOther) {
  setenv("WEFT_DEVICE", "host", 1);
  const auto path = [](const std::string& arguments) {
    return json::parse(weft("explain devices --json - " + arguments).out).at("path").get<std::string>();
  };
  EXPECT_EQ(path("--gpus 0,0"), "kernels");
  EXPECT_EQ(path("--gpus 0,0 --processes"), "host memory");
  EXPECT_EQ(path("--gpus 0,0,0,0,0,0,0,0,0"), "host memory") << "more than fit";
  const Answer absent = weft("explain devices --gpus 0,7");
  EXPECT_EQ(absent.code, 2);
  EXPECT_NE(absent.err.find("device 7 of 1"), std::string::npos) << absent.err;
  unsetenv("WEFT_DEVICE");
}

// A barrier has signals and no data.
TEST(Explain, AnswersForEveryCollectiveOverSeveralNodesAndForABarrierWithoutBytes) {
  for (const char* collective : {"all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "all_to_all",
                                 "gather", "scatter", "barrier"})
    for (const char* bytes : {"barrier" == std::string(collective) ? "0" : "1", "1M"}) {
      const Answer a =
          weft(std::string("explain ") + collective + " --bytes " + bytes + " --on dgx-h100:nodes=2,net=ib-ndr");
      EXPECT_EQ(a.code, 0) << collective << " of " << bytes << ": " << a.err;
    }
}

// The rows of nccl-tests with the times that the model gives for NCCL's choice, each times `factor`, among what people
// paste around them.
std::string nccl_table(const json& check, double factor) {
  std::string text = "user@node1:~$ ./all_reduce_perf -b 64K -e 1G -f 16 -g 1\n# nThread 1 nGpus 1 minBytes 65536\n";
  for (const json& row : check.at("rows")) {
    char line[200];
    const double us = row.at("model_us").get<double>() * factor;
    const auto bytes = row.at("bytes").get<std::int64_t>();
    std::snprintf(line, sizeof line, "%12lld %12lld  float  sum  -1 %9.2f %7.2f %7.2f  0 %9.2f %7.2f %7.2f  0\n",
                  static_cast<long long>(bytes), static_cast<long long>(bytes / 4), us, bytes / us / 1e3,
                  bytes / us / 1e3, us, bytes / us / 1e3, bytes / us / 1e3);
    text += line;
  }
  return text + "# Avg bus bandwidth : 1\nuser@node1:~$ \n";
}

TEST(Check, JudgesATableAndNamesTheFaultThatWouldExplainIt) {
  const std::string file = testing::TempDir() + "/check-" + std::to_string(getpid()) + ".txt";
  const std::string on = " --on dgx-h100:nodes=2,net=ib-ndr ";
  const auto write = [&](const std::string& text) { std::ofstream(file) << text; };
  json rows = json::array();
  for (const std::int64_t bytes :
       {std::int64_t{1} << 16, std::int64_t{1} << 28, std::int64_t{1} << 30, std::int64_t{1} << 32})
    rows.push_back({{"bytes", bytes}, {"model_us", 1e-3 * static_cast<double>(bytes)}});
  write(nccl_table({{"rows", rows}}, 1));
  const json model = json::parse(weft("check " + file + on + "--json -").out);  // for the model's times
  ASSERT_EQ(model.at("rows").size(), rows.size());

  write(nccl_table(model, 1.05));
  const Answer healthy = weft("check " + file + on);
  EXPECT_EQ(healthy.code, 0) << healthy.out << healthy.err;
  EXPECT_NE(healthy.out.find("is what the machine should deliver"), std::string::npos) << healthy.out;

  // HDR has half of NDR's rate: the table of a machine with it, held against one with NDR.
  write(nccl_table(json::parse(weft("check " + file + " --on dgx-h100:nodes=2,net=ib-hdr --json -").out), 1));
  const Answer slow = weft("check " + file + on);
  EXPECT_EQ(slow.code, 1) << slow.out << slow.err;
  EXPECT_NE(slow.out.find("the likeliest cause"), std::string::npos) << slow.out;
  // On this machine half of the rate costs a third of the bandwidth, as slow host memory does elsewhere: the table
  // cannot distinguish the two, but half of the rate leaves next to nothing and is among the first.
  const json causes = json::parse(weft("check " + file + on + "--json -").out).at("causes");
  const auto half = std::ranges::find(causes, "half", [](const json& c) { return c.at("id").get<std::string>(); });
  ASSERT_LT(half - causes.begin(), 3);
  EXPECT_LT(half->at("left").get<double>(), 0.1);

  // No cause that is replayed makes everything 2000 times slower.
  write(nccl_table(model, 2000));
  const Answer strange = weft("check " + file + on);
  EXPECT_EQ(strange.code, 1);
  EXPECT_NE(strange.out.find("the model may be at fault"), std::string::npos) << strange.out;

  write("no table here\n");
  const Answer none = weft("check " + file + on);
  EXPECT_EQ(none.code, 2);
  EXPECT_NE(none.err.find("no row of nccl-tests"), std::string::npos) << none.err;
  EXPECT_EQ(weft("check " + file).code, 2);

  // The machine is guessed from the devices, and one of another kind is refused.
  const std::string devices =
      "#  Rank  0 Group  0 Pid 4711 on  node1 device  0 [0x1b] NVIDIA H100 80GB HBM3\n"
      "#  Rank  1 Group  0 Pid 4712 on  node2 device  0 [0x1b] NVIDIA H100 80GB HBM3\n";
  write(devices + nccl_table({{"rows", {rows[1]}}}, 1));
  EXPECT_NE(weft("check " + file).out.find("on 2 ranks of dgx-h100:nodes=2,gpus=1 (guessed"), std::string::npos);
  EXPECT_NE(weft("check " + file + " --on dgx-a100").err.find("the table is of NVIDIA H100"), std::string::npos);
  std::filesystem::remove(file);
}

TEST(Command, ExplainsEveryCandidateWithAReason) {
  const Answer a = weft("explain all_reduce --bytes 1M --on dgx-h100 --json -");
  ASSERT_EQ(a.code, 0) << a.err;
  int chosen = 0;
  const json report = json::parse(a.out);
  EXPECT_GE(report.at("candidates").size(), 8u);  // ring, tree and one_shot in three protocols; two_shot
  for (const json& c : report.at("candidates")) {
    chosen += c.at("chosen").get<bool>();
    EXPECT_FALSE(c.at("reason").get<std::string>().empty());
  }
  EXPECT_EQ(chosen, 1);
}

TEST(Explain, ExplainsARangeOfSizesByOneLineEach) {
  const std::string question = "explain all_reduce --on pcie-4x3090 --min 1K --max 1M --factor 32";
  const Answer table = weft(question);
  ASSERT_EQ(table.code, 0) << table.err;
  for (const char* size : {" 1024 ", " 32768 ", " 1048576 "})
    EXPECT_NE(table.out.find(size), std::string::npos) << size;
  const json report = json::parse(weft(question + " --json -").out);
  EXPECT_EQ(report.at("schema"), "weft.explain_sizes/1");
  ASSERT_EQ(report.at("sizes").size(), 3u);  // each is what the question about that size alone is answered with
  EXPECT_EQ(report.at("sizes")[2], json::parse(weft("explain all_reduce --on pcie-4x3090 --bytes 1M --json -").out));
}

TEST(Explain, SaysPointerOrGetAndWhereTheBreakEvenLies) {
  const json once = json::parse(weft("explain access --bytes 64M --on dgx-h100 --json -").out);
  EXPECT_EQ(once.at("choice"), "pointer");
  EXPECT_EQ(once.at("get_from_uses"), 2);
  const Answer thrice = weft("explain access --bytes 64M --reuse 3 --on dgx-h100");
  ASSERT_EQ(thrice.code, 0) << thrice.err;
  EXPECT_NE(thrice.out.find("\n* get "), std::string::npos) << thrice.out;
  EXPECT_NE(thrice.out.find("get wins from 2 uses on"), std::string::npos) << thrice.out;
}

TEST(Explain, ShowsWhatNcclWouldPickAndWhatThatCosts) {
  const json nccl = json::parse(weft("explain all_reduce --bytes 64M --on dgx-a100 --json -").out).at("nccl");
  EXPECT_EQ(nccl.at("algorithm"), "Ring");
  EXPECT_GE(nccl.at("slowdown").get<double>(), 1.0);
  EXPECT_GT(nccl.at("weft_predicted_us").get<double>(), 0);
  EXPECT_EQ(nccl.at("candidates").size(), 21u);  // seven algorithms, three protocols
  const json none = json::parse(weft("explain all_reduce --bytes 64M --on mi300x --json -").out).at("nccl");
  EXPECT_NE(none.at("unavailable").get<std::string>().find("NVIDIA"), std::string::npos);
}

TEST(Explain, WritesATuningTableWithoutGaps) {
  const Answer a = weft("explain all_reduce --on dgx-a100:nodes=2 --table - --max 16M");
  ASSERT_EQ(a.code, 0) << a.err;
  std::istringstream lines(a.out);
  std::string line;
  std::getline(lines, line);
  EXPECT_EQ(line, "# collective_type,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks,numPipeOps,regBuff");
  long long expected = 0;
  while (std::getline(lines, line)) {
    long long min = -1, max = -1;
    ASSERT_EQ(std::sscanf(line.c_str(), "allreduce,%lld,%lld,", &min, &max), 2) << line;
    EXPECT_EQ(min, expected);
    EXPECT_TRUE(line.ends_with(",2,16,-1,-1")) << line;
    expected = max + 1;
  }
  EXPECT_EQ(expected, (16 << 20) + 1);
}

TEST(Command, SaysWhyLoadAndStoreCannotCrossANetwork) {
  const Answer a = weft("explain all_reduce --bytes 1M --on dgx-h100:nodes=2,net=ib-ndr --algo two_shot");
  EXPECT_EQ(a.code, 1);
  EXPECT_NE(a.out.find("NET path"), std::string::npos) << a.out;
}

TEST(Command, TransfersOverNvlinkAreNotTranslatedByTheHostsIommu) {
  const auto said = [](const std::string& path) {
    return weft("topo --on dgx-h100:iommu=on --path " + path + " --transfer 1M --working-set 64M").out;
  };
  EXPECT_EQ(said("gpu0 gpu1").find("IOTLB"), std::string::npos) << said("gpu0 gpu1");
  EXPECT_NE(said("gpu0 nic0").find("IOTLB"), std::string::npos) << said("gpu0 nic0");
}

TEST(Command, OtherLibrariesRulesChooseWherePublishedAndAreRefusedElsewhere) {
  const Answer rccl = weft("bench reduce_scatter --on mi300x --tuner rccl --min 1M --max 1M");
  EXPECT_EQ(rccl.code, 0) << rccl.err;
  EXPECT_NE(rccl.out.find("ring      LL "), std::string::npos) << rccl.out;
  EXPECT_NE(weft("bench all_reduce --on mi300x --tuner rcl").err.find("also rccl, oneccl, neuron"), std::string::npos);
  const Answer elsewhere = weft("bench all_reduce --on dgx-h100 --tuner rccl --min 1M --max 1M");
  EXPECT_EQ(elsewhere.code, 2);
  EXPECT_NE(elsewhere.err.find("no published rule of it is for all_reduce on dgx-h100"), std::string::npos)
      << elsewhere.err;
}

TEST(Command, AMachineTooSmallForTheProgramIsRefusedBeforeItRuns) {
  const Answer refused = weft("run -n 12 --sim dgx-h100 echo started");
  EXPECT_EQ(refused.code, 2);
  EXPECT_EQ(refused.out, "");
  EXPECT_NE(refused.err.find("-n 12: dgx-h100 has 8 ranks"), std::string::npos) << refused.err;
}

TEST(Command, ATransferWithoutAWorkingSetUsesOneBuffer) {
  const std::string to = "topo --on dgx-h100:iommu=on --path gpu0 nic0 --transfer 64K";
  const Answer one = weft(to), set = weft(to + " --working-set 64K");
  ASSERT_EQ(one.code, 0) << one.err;
  EXPECT_EQ(one.out, set.out);
  EXPECT_NE(one.out.find("hold 5.50 us for a translation"), std::string::npos) << one.out;
  const Answer none = weft("topo --on dgx-h100:iommu=on --path gpu0 nic0 --transfer 0");
  EXPECT_EQ(none.code, 2);
  EXPECT_EQ(none.out, "");
}

TEST(Command, JoinsTheTimelinesOfRanks) {
  const std::string folder = testing::TempDir() + "/weft-timelines-" + std::to_string(getpid());
  std::filesystem::create_directories(folder);
  setenv("WEFT_TRACE", (folder + "/t-%r.json").c_str(), 1);
  const Answer ran = weft("bench all_reduce --ranks 2 --min 64 --max 64 --iters 10");
  unsetenv("WEFT_TRACE");
  ASSERT_EQ(ran.code, 0) << ran.err;
  const Answer joined =
      weft("trace " + folder + "/t-0.json " + folder + "/t-1.json --out " + folder + "/all.json --json -");
  ASSERT_EQ(joined.code, 0) << joined.err;
  const json summary = json::parse(joined.out);
  ASSERT_EQ(summary["ranks"].size(), 2u);
  EXPECT_GE(summary["ranks"][0]["calls"], 10);
  EXPECT_EQ(summary["ranks"][0]["calls"], summary["ranks"][1]["calls"]);
  const json all = json::parse(std::ifstream(folder + "/all.json"));
  int calls = 0;
  for (const json& event : all["traceEvents"]) calls += event.value("cat", "") == "call";
  EXPECT_EQ(calls, 2 * summary["ranks"][0]["calls"].get<int>());
  const std::string twice = weft("trace " + folder + "/t-1.json " + folder + "/t-1.json").out;
  EXPECT_NE(twice.find("  no file of rank 0\n  several files of rank 1: "), std::string::npos) << twice;
  std::filesystem::remove_all(folder);
}

TEST(Command, ProvesASchedule) {
  const Answer a = weft("verify all_reduce --algo tree --ranks 24 --per-node 8 --in-place --json -");
  ASSERT_EQ(a.code, 0) << a.err;
  EXPECT_EQ(json::parse(a.out).at("proved"), true);
}

TEST(Command, ProvesEveryAlgorithmForARangeOfRanks) {
  const Answer a = weft("verify --all --ranks 1..4");
  EXPECT_EQ(a.code, 0) << a.out << a.err;
  EXPECT_NE(a.out.find("all_reduce      ring "), std::string::npos) << a.out;
  EXPECT_NE(a.out.find("proved: "), std::string::npos) << a.out;
  const json counted = json::parse(weft("verify --all --ranks 3 --json -").out);
  EXPECT_TRUE(counted.at("proved"));
  for (const json& row : counted.at("algorithms")) EXPECT_GT(row.at("schedules"), 0) << row;
}

TEST(Command, WritesASchedulesFilesAndProvesThemAgain) {
  const std::string base = testing::TempDir() + "/schedule-" + std::to_string(getpid());
  const Answer written = weft("schedule all_gather --algo bruck --ranks 5 --xml " + base + ".xml --json " + base +
                              ".json --svg " + base + ".svg");
  EXPECT_EQ(written.code, 0) << written.err;
  for (const char* kind : {".xml", ".json"}) {
    const Answer a = weft("verify " + base + kind);
    EXPECT_EQ(a.code, 0) << a.out << a.err;
    EXPECT_NE(a.out.find("proved: all_gather by bruck on 5 ranks, in place and not"), std::string::npos) << a.out;
  }
  EXPECT_NE(weft("schedule " + base + ".json --rank 4").out.find("rank 4\n    0  move chunk"), std::string::npos);
  for (const char* kind : {".xml", ".json", ".svg"}) EXPECT_TRUE(std::filesystem::remove(base + kind)) << kind;
}

TEST(Command, NamesFileLineAndStepOfACounterexample) {
  const Answer a = weft("verify " WEFT_SOURCE "/tests/fuzz/corpus/msccl_xml/cycle.xml");
  EXPECT_EQ(a.code, 1) << a.err;
  EXPECT_NE(a.out.find("cycle.xml:5: gpu 0 tb 0 step 1: deadlock"), std::string::npos) << a.out;
}

TEST(Command, DrawsAMachineCompletely) {
  const std::string file = testing::TempDir() + "/machine.svg";
  ASSERT_EQ(weft("topo --on dgx-h100 --svg " + file).code, 0);
  std::ifstream in(file);
  const std::string svg(std::istreambuf_iterator<char>(in), {});
  EXPECT_EQ(svg.rfind("<svg", 0), 0u);
  EXPECT_NE(svg.find("</svg>"), std::string::npos);
}

// Small files for the commands about caches.
std::string file_with(const std::string& name, const std::string& text) {
  const std::string path = testing::TempDir() + "/" + name;
  std::ofstream(path) << text;
  return path;
}

// The transfers that the page promises, with every byte looked at.
TEST(Command, MovesListsBetweenTwoProcessesWithoutAWrongByte) {
  for (const char* more : {"", "--op write", "--unregistered", "--transport tcp", "--verify", "--op write --verify"}) {
    const Answer a = weft(std::string("bench transfer --block 4K --blocks 100 --check --json - ") + more);
    ASSERT_EQ(a.code, 0) << more << a.err;
    const json row = json::parse(a.out)["rows"][0];
    EXPECT_EQ(row["errors"], 0) << more;
    EXPECT_EQ(row["bytes"], 409600) << more;
  }
  EXPECT_EQ(json::parse(weft("bench transfer --min 1K --max 4K --json -").out)["rows"].size(), 3U);
}

// 1 GiB over NVLink 4 at 450 GB/s takes at least 2.386 ms.
TEST(Command, SimulatesATransferOnAModelledMachine) {
  const auto time = [](const std::string& on) {
    const Answer a = weft("bench transfer --min 1G --max 1G --json - --on " + on);
    EXPECT_EQ(a.code, 0) << a.err;
    return json::parse(a.out)["rows"][0]["time_us"].get<double>();
  };
  EXPECT_GT(time("dgx-h100"), 2386);
  EXPECT_LT(time("dgx-h100"), 2386 * 1.5);
}

// Eight drives of 14 GB/s bound eight ranks: 8 * 64 MiB / 112 GB/s = 4.793 ms, and 70 us to the first byte.
TEST(Command, SaysWhatReloadingFromATierTakes) {
  const Answer a = weft("bench transfer --on dgx-h100 --ranks 8 --from nvme-gen5*8 --min 64M --max 64M --json -");
  ASSERT_EQ(a.code, 0) << a.err;
  const json row = json::parse(a.out)["rows"][0];
  EXPECT_NEAR(row["time_us"].get<double>(), 4793.5 + 70, 5);
  EXPECT_EQ(row["bound"], "nvme-gen5*8");
}

// 2 * 80 layers * 8 heads * 128 * 2 bytes = 327,680 bytes per token.
TEST(Command, ChoosesBetweenFetchingAndComputing) {
  const std::string config = file_with("llama.json", R"({"hidden_size": 8192, "num_hidden_layers": 80,
      "num_attention_heads": 64, "num_key_value_heads": 8, "torch_dtype": "float16"})");
  const std::string ask = "kv fetch " + config + " --tp 8 --tokens 8192 --json - --on dgx-h100:nodes=2";
  EXPECT_NE(weft(ask + " --prefill 1024:5,512:9").err.find("--prefill 1024:5,512:9: these times"), std::string::npos);
  EXPECT_NE(weft(ask + " --prefill llama2-70b/H100-SXM5/tp8").err.find("does not name"), std::string::npos);
  const json far = json::parse(weft(ask + " --prefill llama2-70b/H100-SXM5/tp8").out)["rows"][0];
  EXPECT_EQ(far["bytes"], 8192 * 327680LL);
  EXPECT_LT(far["fetch_us"].get<double>() * 20, far["recompute_us"].get<double>());
  const json drive = json::parse(weft(ask + " --from nvme-gen4 --prefill llama2-70b/H100-SXM5/tp8").out)["rows"][0];
  EXPECT_EQ(drive["choice"], "both");
  EXPECT_LT(drive["both_us"], drive["fetch_us"]);
  EXPECT_LT(drive["both_us"], drive["recompute_us"]);
  EXPECT_EQ(drive["computed_tokens"].get<int>() % 16, 0);
}

TEST(Command, ReadsAFilePastThePageCache) {
  const std::string file = testing::TempDir() + "/weft-blocks-" + std::to_string(getpid());
  const Answer a = weft("bench transfer --block 4K --blocks 64 --json - --file " + file);
  EXPECT_EQ(a.code, 0) << a.err;
  EXPECT_EQ(std::filesystem::file_size(file), 64 * 4096U);
  EXPECT_EQ(json::parse(a.out)["rows"][0]["blocks"], 64);
  EXPECT_EQ(weft("bench transfer --op write --block 4K --blocks 64 --file " + file).code, 2) << "it is not ours";
  std::filesystem::remove(file);
}

TEST(Command, PredictsATransferAndSaysWhyItsPathWasChosen) {
  const Answer a = weft("bench transfer --block 4K --blocks 100 --verbose");
  EXPECT_EQ(a.code, 0) << a.err;
  EXPECT_NE(a.out.find("  predicted "), std::string::npos) << a.out;
  EXPECT_NE(a.out.find("  not tcp: it does not listen"), std::string::npos) << a.out;
}

// Two requests of the same three blocks: 3 of 6 with room for all; with room for two, the prefix of two.
TEST(Command, ReplaysATraceOfPrompts) {
  const std::string trace = file_with("trace.jsonl", "{\"hash_ids\":[1,2,3]}\n{\"hash_ids\":[1,2,3]}\n");
  const json all = json::parse(weft("kv replay " + trace + " --blocks 3 --json -").out);
  EXPECT_EQ(all["rows"].size(), 4U);
  for (const json& row : all["rows"]) EXPECT_EQ(row["hit_blocks"], 3) << row;
  EXPECT_EQ(json::parse(weft("kv replay " + trace + " --blocks 2 --policy lru --json -").out)["rows"][0]["hit_blocks"],
            2);
  const std::string broken = file_with("broken.jsonl", "{\"hash_ids\":[1]}\n{\"hash_ids\":\n");
  const Answer cut = weft("kv replay " + trace + " --blocks 2 --block-tokens 32");
  EXPECT_EQ(cut.code, 2);
  EXPECT_NE(cut.err.find("--block-tokens 32"), std::string::npos) << cut.err;
  const Answer refused = weft("kv replay " + broken + " --blocks 2");
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("broken.jsonl:2: no JSON object"), std::string::npos) << refused.err;
}

// 2 * 36 layers * 8 heads * 128 * 2 bytes = 147,456 bytes per token; 5.12 million tokens: 755 GB.
TEST(Command, SizesACacheFromAModelsConfig) {
  const std::string config = file_with("config.json",
                                       R"({"num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8,
                                           "head_dim": 128, "torch_dtype": "bfloat16"})");
  const json size = json::parse(weft("kv size " + config + " --tokens 5120000 --json -").out);
  EXPECT_EQ(size["token_bytes"], 147456);
  EXPECT_EQ(size["total_bytes"], 754974720000);
  EXPECT_EQ(weft("kv size " + config + " --tp 3").code, 2);
  const std::string odd = file_with("heads48.json", R"({"hidden_size": 6144, "num_hidden_layers": 2,
      "num_attention_heads": 48, "num_key_value_heads": 8, "torch_dtype": "bfloat16"})");
  EXPECT_EQ(weft("kv size " + odd + " --tp 16").code, 0);
  EXPECT_NE(weft("kv size " + odd + " --tp 64").err.find("--tp 64: 48 attention heads of layer 0"), std::string::npos);
  EXPECT_EQ(weft("kv size /nonexistent.json").code, 2);
}

TEST(Run, AProgramsOptionsNeedNoDashes) {
  EXPECT_EQ(weft("run -n 2 echo --ranks -n 5 --help").out, "--ranks -n 5 --help\n--ranks -n 5 --help\n");
  EXPECT_EQ(weft("run -n 1 -- echo -n x").out, "x");
}

TEST(Run, PortsBoundWhereRanksMeetOnThisHost) {
  setenv("WEFT_PORTS", "23600-23699", 1);
  const Answer a = weft("run -n 1 --transport tcp sh -c 'echo ${WEFT_ARBITER##*:}'");
  unsetenv("WEFT_PORTS");
  ASSERT_EQ(a.code, 0) << a.err;
  const int port = std::stoi(a.out);
  EXPECT_TRUE(port >= 23600 && port <= 23699) << port;
}

TEST(Run, OptionsForHostsNeedHosts) {
  for (const std::string option :
       {"--folder /", "--env A=1", "--weft weft", "--ssh ssh", "--ports 20000", "--on-failure wait", "--no-label"}) {
    const Answer a = weft("run -n 1 " + option + " true");
    EXPECT_EQ(a.code, 2) << option;
    const std::string problem = option.substr(0, option.find(' ')) + " is for ranks on --hosts";
    EXPECT_NE(a.err.find(problem), std::string::npos) << a.err;
  }
}

TEST(Run, LabelledLinesComeWholeAndBeginWithTheirRank) {
  const Answer a =
      weft("run -n 2 --label sh -c 'printf one; sleep 0.2; printf \"two\\n\"; echo to stderr >&2; printf end'");
  EXPECT_EQ(a.code, 0) << a.err;
  for (const std::string line : {"[0] onetwo\n", "[1] onetwo\n", "[0] end\n", "[1] end\n"})
    EXPECT_NE(a.out.find(line), std::string::npos) << line << a.out;
  for (const std::string line : {"[0] to stderr\n", "[1] to stderr\n"})
    EXPECT_NE(a.err.find(line), std::string::npos) << line << a.err;
}

TEST(Run, LabelledRanksThatLeaveAProcessBehindDoNotKeepTheJob) {
  const Answer a = weft("run -n 1 --label sh -c 'sleep 30 & echo here; exit 3'");
  EXPECT_EQ(a.code, 3);
  EXPECT_EQ(a.out, "[0] here\n");
}

TEST(Run, AutoIsOneRankPerCoreOfThisProcess) {
  const Answer a = weft("run --nproc auto sh -c 'echo $WEFT_SIZE'");
  EXPECT_EQ(a.code, 0) << a.err;
  cpu_set_t mine;
  ASSERT_EQ(sched_getaffinity(0, sizeof mine, &mine), 0);
  EXPECT_EQ(std::stoi(a.out), CPU_COUNT(&mine));
  EXPECT_EQ(weft("run -n many true").code, 2);
}

TEST(Run, ThisHostNeedsNoSsh) {
  const Answer a =
      weft("run --hosts localhost:2 --ssh false sh -c 'echo rank $WEFT_RANK of $WEFT_SIZE; exit $WEFT_RANK'");
  EXPECT_EQ(a.code, 1);
  EXPECT_NE(a.out.find("[0] rank 0 of 2\n"), std::string::npos) << a.out << a.err;
  EXPECT_NE(a.out.find("[1] rank 1 of 2\n"), std::string::npos) << a.out << a.err;
  EXPECT_NE(a.err.find("weft: rank 1 on localhost ended with exit code 1\n"), std::string::npos) << a.err;
}

TEST(DebugLog, SaysInterfacesPathsPlansConnectionsAndCalls) {
  const Answer a = weft(std::string("run -n 2 --transport tcp env WEFT_DEBUG=TRACE ") + WEFT_COMMAND +
                        " bench all_reduce --min 1K --max 1K --iters 1");
  EXPECT_EQ(a.code, 0) << a.err;
  for (const char* line :
       {"[0] weft INFO INIT rank 0 of 2", "[1] weft INFO NET interface lo 127.0.0.1: used",
        "[0] weft INFO PATH to rank 1: tcp, process", "weft INFO PLAN all_reduce of 1 KiB on 2 ranks: ", "; next ",
        "weft INFO NET connection 0 with process", "weft TRACE CALL #1: all_reduce of 256 float"})
    EXPECT_NE(a.err.find(line), std::string::npos) << line << "\n" << a.err;
}

TEST(DebugLog, OffItSaysNothingAndAWrongWordIsNamed) {
  const std::string run = "run -n 2 --transport tcp ", bench = " bench barrier --iters 1";
  EXPECT_EQ(weft(run + WEFT_COMMAND + bench).err, "");
  const Answer wrong = weft(run + "env WEFT_DEBUG=LOUD " + WEFT_COMMAND + bench);
  EXPECT_EQ(wrong.code, 2);
  EXPECT_NE(wrong.err.find("WEFT_DEBUG 'LOUD'"), std::string::npos) << wrong.err;
}

TEST(Command, CompletionScriptsOfOtherShellsAreSound) {
  for (const std::string shell : {"zsh", "fish"}) {
    const std::string file = testing::TempDir() + "/weft." + shell;
    ASSERT_EQ(weft("completion " + shell + " > " + file).code, 0);
    if (std::system((shell + " -c true 2>/dev/null").c_str()) != 0) continue;
    EXPECT_EQ(std::system((shell + " -n " + file).c_str()), 0) << shell;
  }
}

TEST(Reshard, IsCarriedOutHereAndSimulatedAndBadLayoutsAreOneLine) {
  const std::string corpus = std::string(WEFT_SOURCE) + "/tests/fuzz/corpus/layout/";
  const std::string files = "reshard --from " + corpus + "trainer.json --to " + corpus + "inference.json ";
  // q and k of 2 B are wanted once: 2 * 1280 * 1024 B; norm by 4 ranks: 4 * 2048 B; down once: 2 * 1024 * 2048 B.
  constexpr std::int64_t kBytes = 2 * 1280 * 1024 + 4 * 2048 + 2 * 1024 * 2048;
  const Answer here = weft(files + "--check --json -");
  ASSERT_EQ(here.code, 0) << here.err;
  EXPECT_EQ(json::parse(here.out)["bytes"], kBytes);
  EXPECT_EQ(json::parse(here.out)["here"]["wrong_bytes"], 0);
  const Answer there = weft(files + "--on dgx-h100:nodes=2,gpus=4 --json -");
  ASSERT_EQ(there.code, 0) << there.err;
  std::int64_t out = 0;
  const json simulated = json::parse(there.out)["simulated"];
  for (const auto& nic : simulated["nics"]) out += nic["out_bytes"].get<std::int64_t>();
  EXPECT_EQ(out, kBytes);  // from one node to the other
  EXPECT_GT(simulated["time_us"].get<double>(), 0);
  const Answer small = weft(files + "--on dgx-h100:nodes=1,gpus=4");
  EXPECT_EQ(small.code, 2);
  EXPECT_NE(small.err.find("8 ranks, the machine has 4"), std::string::npos) << small.err;
  EXPECT_NE(weft("reshard --from " + corpus + "trainer.json --to vllm:tp=0").err.find("--to vllm:tp=0: tp 0"),
            std::string::npos);
  const Answer names = weft("reshard --from " + corpus + "trainer.json --to vllm:tp=2");
  EXPECT_EQ(names.code, 2);
  EXPECT_NE(names.err.find("vllm:tp=2: how vllm names and splits tensors is not known of q, k"), std::string::npos)
      << names.err;
  EXPECT_EQ(std::count(names.err.begin(), names.err.end(), '\n'), 1);
  EXPECT_EQ(weft(files + "--on dgx-h100 --check").code, 2);
}

TEST(Bench, AnOperationAndARootAreForCollectivesThatHaveThem) {
  for (const std::string refused :
       {"broadcast --op max", "all_gather --op sum", "all_reduce --root 3", "barrier --root 0"}) {
    const auto done = weft("bench " + refused + " --on dgx-h100");
    EXPECT_EQ(done.code, 2) << refused;
    EXPECT_NE(done.err.find("has no meaning for"), std::string::npos) << refused << ": " << done.err;
  }
  EXPECT_EQ(weft("bench reduce --root 3 --op max --on dgx-h100 --bytes 1M").code, 0);
}

TEST(Bench, ASizeThatIsNoWholeNumberOfElementsIsSaid) {
  for (const std::string command : {"bench", "explain"}) {
    const auto odd = weft(command + " all_reduce --on dgx-h100 --bytes 5");
    EXPECT_EQ(odd.code, 0) << odd.err;
    EXPECT_NE(odd.err.find("--bytes 5: 4 B are moved"), std::string::npos) << command << ": " << odd.err;
    EXPECT_EQ(weft(command + " all_reduce --on dgx-h100 --bytes 4").err, "") << command;
  }
}

TEST(Train, ATimeBetweenFailuresOfManyMonthsIsSaidInDays) {
  const Answer a = weft(
      "train llama3-8b --on dgx-h100 --zero 3 --global-batch 16 --tokens 1T --failures 6.5 "
      "--checkpoint-time 30");
  EXPECT_NE(a.out.find("154 days"), std::string::npos) << a.out;  // 1000 days of 6.5 failures, one node
}

TEST(Train, AnOptionOfThePlanThatAnotherOneLeavesWithoutEffectIsRefusedWithBothNames) {
  const std::string step = "train llama3-8b --on dgx-h100 ";
  for (const auto& [options, without] : {std::pair<std::string, std::string>{"--schedule zb-1p", "--pp 1"},
                                         {"--cp-by ring", "--cp 1"},
                                         {"--dispatcher deepep", "--ep 1"},
                                         {"--zero 3 --bucket 100", "--zero 3"}}) {
    const auto done = weft(step + options);
    EXPECT_EQ(done.code, 2) << options << done.out;
    EXPECT_NE(done.err.find("has no effect with " + without), std::string::npos) << options << ": " << done.err;
  }
  const auto year = weft(step + "--zero 3 --software 2099");
  EXPECT_EQ(year.code, 2);
  EXPECT_NE(year.err.find("2026, the nearest year"), std::string::npos) << year.err;
}

// Of two nodes of two ranks: a class is the places of the active ranks where nodes have unequally many, else only how
// many. 1: {1}, {1,1}, {2}, {2,2}; {1,2} and {2,1} with either place of the one.
TEST(Verify, ProvesMasksOfActiveRanksByClass) {
  const Answer all = weft("verify all_reduce --ranks 4 --per-node 2 --active all --json -");
  ASSERT_EQ(all.code, 0) << all.err;
  const json report = json::parse(all.out);
  EXPECT_EQ(report["masks"], 15);
  EXPECT_EQ(report["classes"], 8);
  EXPECT_EQ(report["proved"], true);
  const Answer one = weft("verify all_gather --algo ring --ranks 8 --per-node 4 --active 0-2,4-7");
  EXPECT_EQ(one.code, 0) << one.err;
  EXPECT_NE(one.out.find("1 mask of 8 ranks, 4 a node, in 1 class: 1 algorithm,"), std::string::npos) << one.out;
  for (const std::string bad :
       {"all_reduce --active ''", "all_reduce --active ,", "all_reduce --active 8", "all_reduce --active 3-1",
        "all_reduce --ranks 17 --active all", "all_reduce --active 0 --root 1"}) {
    const Answer b = weft("verify " + bad);
    EXPECT_EQ(b.code, 2) << bad;
    EXPECT_EQ(std::count(b.err.begin(), b.err.end(), '\n'), 1) << b.err;
  }
  EXPECT_NE(weft("verify all_reduce --active ''").err.find("--active: its value is empty"), std::string::npos);
}

// q, k, norm and down in float32 for 2 ranks, from 4 that have them in bfloat16.
TEST(Reshard, ConvertsAndReadsOnlyWhatHasChangedWhereItIsAskedTo) {
  const std::string corpus = std::string(WEFT_SOURCE) + "/tests/fuzz/corpus/layout/";
  const std::string from = corpus + "trainer.json", to = corpus + "float32.json";
  const std::string files = "reshard --from " + from + " --to " + to;
  const Answer other = weft(files);
  EXPECT_EQ(other.code, 2);
  EXPECT_NE(other.err.find("tensor q: has elements of float32"), std::string::npos) << other.err;
  const Answer a = weft(files + " --convert --changed 2% --check --json -");
  ASSERT_EQ(a.code, 0) << a.err;
  const json report = json::parse(a.out), here = report["here"];
  EXPECT_EQ(report["bytes"], 4 * 1024 * 1024 + 2 * 256 * 1024);
  EXPECT_EQ(report["converted_tensors"], 1);
  EXPECT_EQ(here["wrong_bytes"], 0);
  EXPECT_EQ(here["changed"]["wrong_bytes"], 0);
  EXPECT_LT(here["changed"]["bytes"], report["bytes"].get<std::int64_t>() / 4);
  const Answer there = weft(files + " --convert --changed 2% --on dgx-h100 --json -");
  ASSERT_EQ(there.code, 0) << there.err;
  const json simulated = json::parse(there.out)["simulated"];
  EXPECT_LT(simulated["changed"]["time_us"], simulated["time_us"].get<double>());
  for (const std::string bad : {"--changed 0%", "--changed 101%", "--changed 0.01", "--changed x"}) {
    const Answer b = weft(files + " --convert " + bad);
    EXPECT_EQ(b.code, 2) << bad;
    EXPECT_EQ(std::count(b.err.begin(), b.err.end(), '\n'), 1) << b.err;
  }
  EXPECT_EQ(weft("reshard --convert --from " + from + " --to " + from).code, 2);  // nothing to convert
}

TEST(Command, HasHelpWithExamplesForEveryCommand) {
  for (const char* command :
       {"bench", "explain", "verify", "topo", "catalog", "place", "run", "calibrate", "completion"}) {
    const Answer a = weft(std::string(command) + " --help");
    EXPECT_EQ(a.code, 0) << command;
    EXPECT_NE(a.out.find("Example"), std::string::npos) << command;
  }
}

TEST(Command, CompletesItsOwnWords) {
  if (std::system("bash -c true") != 0) GTEST_SKIP() << "no bash here";
  const std::string file = testing::TempDir() + "/weft.bash";
  ASSERT_EQ(weft("completion > " + file).code, 0);
  const std::string script =
      ". " + file + "; COMP_WORDS=(weft be); COMP_CWORD=1; _weft; [ \"${COMPREPLY[0]}\" = bench ]";
  EXPECT_EQ(std::system(("bash -c '" + script + "'").c_str()), 0);
  // An option behind a command, a command of a command, the value of an option.
  for (const auto& [given, completed] : {std::pair{"train --recomp", "--recompute"},
                                         {"bench --dty", "--dtype"},
                                         {"kv rep", "replay"},
                                         {"serve m --engine sg", "sglang"}}) {
    const std::string one = fmt::format(
        ". {}; COMP_WORDS=(weft {}); COMP_CWORD=$((${{#COMP_WORDS[@]}}-1)); _weft; "
        "[ \"${{COMPREPLY[0]}}\" = {} ]",
        file, given, completed);
    EXPECT_EQ(std::system(("bash -c '" + one + "'").c_str()), 0) << given;
  }
}

}  // namespace
}  // namespace weft
