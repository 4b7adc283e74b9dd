#include "apps/doctor/rules.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "apps/doctor/diagnosis.h"
#include "apps/doctor/pickle.h"
#include "apps/doctor/probes.h"
#include "base/embedded.h"

namespace weft::embedded {
std::span<const File> doctor_files();
}  // namespace weft::embedded

namespace weft::doctor {
namespace {

struct Example {
  std::string id, line;
  bool finds;
};

std::vector<Example> examples() {
  std::vector<Example> all;
  for (const auto& file : embedded::doctor_files()) {
    if (file.path != "data/doctor/lines.tsv") continue;
    std::string_view text = file.text;
    while (!text.empty()) {
      const auto end = text.find('\n');
      const std::string line(text.substr(0, end));
      text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
      const auto first = line.find('\t'), second = line.find('\t', first + 1);
      if (line.empty() || line[0] == '#' || second == std::string::npos || line.starts_with("id\t")) continue;
      all.push_back({line.substr(0, first), line.substr(second + 1), line[first + 1] == '+'});
    }
  }
  return all;
}

std::vector<Rule> rules() {
  auto shipped = shipped_rules();
  EXPECT_TRUE(shipped.has_value()) << (shipped ? "" : shipped.error().message);
  return shipped ? *shipped : std::vector<Rule>{};
}

report::DoctorReport of(std::initializer_list<std::pair<const char*, std::string>> files) {
  Evidence evidence(rules());
  for (const auto& [name, text] : files) evidence.add_text(name, text);
  evidence.finish();
  return diagnose(evidence);
}

TEST(Rules, EachFindsItsLinesAndNoneOfItsNearMisses) {
  const auto all = rules();
  for (const Example& e : examples()) {
    const auto rule = std::ranges::find(all, e.id, &Rule::id);
    ASSERT_NE(rule, all.end()) << e.id;
    EXPECT_EQ(rule->finds(e.line), e.finds) << e.id << ": " << e.line;
  }
}

TEST(Rules, EachHasALineAndTwoNearMissesAndARemedy) {
  std::map<std::string, int> lines, misses;
  for (const Example& e : examples()) ++(e.finds ? lines : misses)[e.id];
  for (const Rule& rule : rules()) {
    EXPECT_GT(lines[rule.id], 0) << rule.id;
    EXPECT_GE(misses[rule.id], 2) << rule.id;
    EXPECT_FALSE(rule.remedy.empty() || rule.verify.empty() || rule.refuted.empty()) << rule.id;
  }
}

TEST(Rules, ABrokenTableIsRefusedWithItsLine) {
  const auto broken = parse_rules("r.tsv", "a\tb\n");
  ASSERT_FALSE(broken);
  EXPECT_EQ(broken.error().message, "r.tsv:1: 2 columns instead of 13");
}

TEST(Diagnosis, ADeadGpuIsTheRootAndItsPeersCompletionsAreFolded) {
  const auto report =
      of({{"dmesg", "[Mon] NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.\n"},
          {"nccl.1",
           "3: n1:1:2 [0] NCCL WARN NET/IB : Got completion from peer 10.0.0.7<1> with error 12, opcode 0\n"
           "3: [Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=42, OpType=ALLREDUCE\n"}});
  ASSERT_EQ(report.roots.size(), 1u);
  EXPECT_EQ(report.roots[0].id, "F106");
  EXPECT_EQ(report.roots[0].confidence, "confirmed");
  EXPECT_EQ(report.folded.size(), 2u);
}

TEST(Diagnosis, OfRanksThatComplainThePeerThatMostNameIsReported) {
  const std::string warn = "n:1:2 [0] NCCL WARN NET/IB : Got completion from peer ";
  const auto report = of({{"a", "0: " + warn + "10.0.0.7<1> with error 12,\n1: " + warn +
                                    "10.0.0.7<1> with error 12,\n2: " + warn + "10.0.0.9<1> with error 12,\n"}});
  ASSERT_EQ(report.roots.size(), 1u);
  EXPECT_EQ(report.roots[0].peer, "10.0.0.7");
  EXPECT_EQ(report.roots[0].ranks, (std::vector<int>{0, 1, 2}));
}

TEST(Diagnosis, AHealthyLogHasNoFindingAndUnknownLinesAreCounted) {
  const auto report =
      of({{"log",
           "n1:1:2 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>\nn1:1:2 [0] NCCL INFO Using network IB\n"
           "n1:1:2 [0] NCCL INFO Channel 00/0 : 7[7] -> 8[0] [send] via NET/IB/2/GDRDMA\nhello\n"}});
  EXPECT_TRUE(report.roots.empty());
  EXPECT_TRUE(report.slow.empty());
  EXPECT_EQ(report.not_understood, 1);
}

TEST(Diagnosis, OnlyEffectsAskForMoreEvidenceAndNameTheSmallestSequence) {
  const auto report =
      of({{"log",
           "[Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=42, OpType=ALLREDUCE\n"
           "[Rank 5] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=41, OpType=ALLREDUCE\n"
           "[Rank 7] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=43, OpType=ALLREDUCE\n"}});
  EXPECT_TRUE(report.roots.empty()) << "three ranks in three calls";
  EXPECT_NE(report.next.find("TORCH_FR_BUFFER_SIZE"), std::string::npos);
  EXPECT_NE(report.next.find("41, of rank 5"), std::string::npos);
}

std::string dump(int rank, const char* call, int last) {
  std::string entries;
  for (int i = 1; i <= last; ++i)
    entries += fmt::format(
        R"({}{{"process_group":["0","default"],"collective_seq_id":{},"profiling_name":"{}","input_sizes":[[8]],"output_sizes":[[8]],"input_dtypes":["Float"],"state":"started"}})",
        i > 1 ? "," : "", i, i == 2 ? call : "nccl:all_reduce");
  return fmt::format(R"({{"rank":{},"pg_config":{{"0":{{"name":"0","ranks":"[0, 1, 2]"}}}},"entries":[{}]}})", rank,
                     entries);
}

TEST(Recorder, TheRankThatCallsAnotherCollectiveIsFoundByMajority) {
  const auto report = of({{"fr_0", dump(0, "nccl:broadcast", 3)},
                          {"fr_1", dump(1, "nccl:all_reduce", 3)},
                          {"fr_2", dump(2, "nccl:all_reduce", 3)}});
  ASSERT_EQ(report.roots.size(), 1u);
  EXPECT_EQ(report.roots[0].id, "F065");
  EXPECT_EQ(report.roots[0].ranks, std::vector<int>{0});
}

TEST(Recorder, ARankBehindTheOthersOrWithoutADumpIsSuspected) {
  const auto report = of({{"fr_0", dump(0, "nccl:all_reduce", 3)}, {"fr_1", dump(1, "nccl:all_reduce", 2)}});
  ASSERT_EQ(report.roots.size(), 1u);
  EXPECT_EQ(report.roots[0].id, "F068");
  EXPECT_EQ(report.roots[0].ranks, (std::vector<int>{1, 2}));
}

// The value as Python's pickle module writes it with protocol 2, without the memo..
std::string pickled(const nlohmann::json& value) {
  using namespace std::string_literals;
  const auto length = [](std::size_t n) {
    std::string bytes;
    for (int i = 0; i < 4; ++i) bytes += static_cast<char>(n >> (8 * i));
    return bytes;
  };
  if (value.is_object()) {
    std::string out = "}(";
    for (const auto& [key, element] : value.items()) out += "X" + length(key.size()) + key + pickled(element);
    return out + "u";
  }
  if (value.is_array()) {
    std::string out = "](";
    for (const auto& element : value) out += pickled(element);
    return out + "e";
  }
  if (value.is_string()) return "X" + length(value.get<std::string>().size()) + value.get<std::string>();
  return "J" + length(static_cast<std::size_t>(value.get<std::int32_t>()));
}

TEST(Recorder, PicklesOfThreeRanksNameTheRankThatCallsAnotherCollective) {
  const std::string folder = testing::TempDir() + "/pickles" + std::to_string(getpid());
  std::filesystem::create_directory(folder);
  for (int rank = 0; rank < 3; ++rank) {
    const auto value = nlohmann::json::parse(dump(rank, rank == 0 ? "nccl:broadcast" : "nccl:all_reduce", 3));
    std::ofstream(folder + "/rank_" + std::to_string(rank), std::ios::binary) << "\x80\x02" << pickled(value) << ".";
  }
  Evidence evidence(rules());
  ASSERT_TRUE(evidence.add_path(folder));
  evidence.finish();
  std::filesystem::remove_all(folder);
  EXPECT_TRUE(evidence.left_out().empty());
  const auto report = diagnose(evidence);
  ASSERT_EQ(report.roots.size(), 1u);
  EXPECT_EQ(report.roots[0].id, "F065");
  EXPECT_EQ(report.roots[0].ranks, std::vector<int>{0});
}

TEST(Pickle, ReadsPlainDataOfEveryProtocol) {
  using namespace std::string_literals;
  // pickle.dumps({"a": [1, -2, 300, 70000, 2**40, 1.5, None, True, False, (1, "é"), b"x"], 3: {}}, protocol=N)
  const std::pair<const char*, std::string> cases[] = {
      {"2",
       "\x80\x02}q\x00(X\x01\x00\x00\x00"
       "aq\x01]q\x02(K\x01J\xfe\xff\xff\xffM,\x01Jp\x11\x01\x00\x8a\x06\x00\x00\x00\x00\x00\x01G?"
       "\xf8\x00\x00\x00\x00\x00\x00N\x88\x89K\x01X\x02\x00\x00\x00\xc3\xa9q\x03\x86q\x04"
       "C\x01xeK\x03}u."s},
      {"4",
       "\x80\x04\x95\x40\x00\x00\x00\x00\x00\x00\x00}\x94(\x8c\x01"
       "a\x94]\x94(K\x01J\xfe\xff\xff\xffM,\x01Jp\x11\x01\x00\x8a\x06\x00\x00\x00\x00\x00\x01G?"
       "\xf8\x00\x00\x00\x00\x00\x00N\x88\x89K\x01\x8c\x02\xc3\xa9\x94\x86\x94"
       "C\x01x\x94"
       "eK\x03}\x94u."s},
  };
  for (const auto& [protocol, text] : cases) {
    const auto value = read_pickle(text);
    ASSERT_TRUE(value) << protocol << ": " << value.error().message;
    EXPECT_EQ(*value,
              nlohmann::json::parse(
                  R"({"a": [1, -2, 300, 70000, 1099511627776, 1.5, null, true, false, [1, "é"], "x"], "3": {}})"))
        << protocol;
  }
}

TEST(Pickle, ExecutesNothingAndEndsWithOneSentence) {
  using namespace std::string_literals;
  const std::pair<std::string, const char*> cases[] = {
      // pickle.dumps of an object whose __reduce__ gives (os.system, ("id",))
      {"\x80\x04\x95\x1d\x00\x00\x00\x00\x00\x00\x00\x8c\x05posix\x94\x8c\x06system\x94\x93\x94\x8c\x02id\x94\x85\x94R\x94."s,
       "executed"},
      {"\x80\x02"
       "cos\nsystem\nU\x02id\x85R."s,
       "executed"},
      {"\x80\x02}"s, "ends before"},
      {"\x80\x02."s, "no value"},
      {"\x80\x02"
       "e."s,
       "mark is missing"},
      {"\x80\x02](h\x07"
       "e."s,
       "never remembered"},
      {"\x80\x02X\xff\xff\xff\xff"s, "cut off"},
      {"\x80\x02}(K\x01u."s, "without a value"},
      {"\x80\x02K\x01K\x02"
       "a."s,
       "no list"},
      {"\x80\x02]q\x00h\x00"
       "a."s,
       "contain themselves"},
  };
  for (const auto& [text, words] : cases) {
    const auto value = read_pickle(text);
    ASSERT_FALSE(value) << words;
    EXPECT_NE(value.error().message.find(words), std::string::npos) << value.error().message;
  }
}

// Each list has the last one twice: 2^60 values in 300 bytes.
TEST(Pickle, SharedValuesThatExplodeAndDeepNestingAreRefused) {
  std::string bomb = "\x80\x02]";
  for (int i = 0; i < 60; ++i) bomb += "q\x01h\x01\x86";
  const auto value = read_pickle(bomb + ".");
  ASSERT_FALSE(value);
  EXPECT_NE(value.error().message.find("million copies"), std::string::npos) << value.error().message;
  const auto deep = read_pickle("\x80\x02]" + std::string(1'000'000, '\x85') + ".");
  ASSERT_FALSE(deep);
  EXPECT_NE(deep.error().message.find("100 deep"), std::string::npos) << deep.error().message;
}

TEST(Tables, WrongElementsOfNcclTestsAreARoot) {
  const std::string row = "  1024  256  float  sum  -1  10.0  0.1  0.2  0  10.0  0.1  0.2  ";
  EXPECT_TRUE(of({{"t", row + "0\n"}}).roots.empty());
  const auto report = of({{"t", row + "3\n"}});
  ASSERT_EQ(report.roots.size(), 1u);
  EXPECT_EQ(report.roots[0].id, "F155");
}

Probes recorded(std::map<std::string, std::string> files, double shm) {
  return {.read = [files](const std::string& path) -> std::optional<std::string> {
            const auto at = files.find(path);
            return at == files.end() ? std::nullopt : std::optional(at->second);
          },
          .list =
              [files](const std::string& folder) {
                std::vector<std::string> names;
                for (const auto& [path, text] : files)
                  if (path.starts_with(folder + "/")) {
                    const std::string rest = path.substr(folder.size() + 1), first = rest.substr(0, rest.find('/'));
                    if (names.empty() || names.back() != first) names.push_back(first);
                  }
                return names;
              },
          .file_system_size = [shm](const std::string&) { return std::optional(shm); }};
}

TEST(Machine, ASmallShmAndAVariableLeftOnAreFound) {
  using namespace std::string_literals;
  const auto report = examine(recorded({{"/proc/self/environ", "PATH=/bin\0CUDA_LAUNCH_BLOCKING=1\0"s}}, 64 << 20));
  ASSERT_EQ(report.roots.size(), 1u);
  EXPECT_EQ(report.roots[0].id, "F012");
  ASSERT_EQ(report.slow.size(), 1u);
  EXPECT_EQ(report.slow[0].id, "F085");
}

TEST(Machine, LockedMemoryIsARootOnlyWhereThereIsRdma) {
  const std::string limits = "Max locked memory         8388608              8388608              bytes\n";
  EXPECT_TRUE(examine(recorded({{"/proc/self/limits", limits}}, 1e12)).roots.empty());
  const auto report = examine(recorded({{"/proc/self/limits", limits},
                                        {"/sys/class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE"},
                                        {"/dev/infiniband/uverbs0", ""}},
                                       1e12));
  ASSERT_EQ(report.roots.size(), 1u);
  EXPECT_EQ(report.roots[0].id, "F011");
}

TEST(Machine, AFastInterfaceWithASmallMtuIsSlow) {
  const auto report = examine(recorded({{"/sys/class/net/eth0/operstate", "up\n"},
                                        {"/sys/class/net/eth0/mtu", "1500\n"},
                                        {"/sys/class/net/eth0/speed", "100000\n"}},
                                       1e12));
  ASSERT_EQ(report.slow.size(), 1u);
  EXPECT_EQ(report.slow[0].id, "F141");
}

}  // namespace
}  // namespace weft::doctor
