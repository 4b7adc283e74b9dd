#include "apps/doctor/dump.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "apps/doctor/diagnosis.h"

// Flight recorder dumps that are cut off or damaged: what can be read is judged, and the rank is not said to have none.
namespace weft::doctor {
namespace {

using nlohmann::json;

std::string entry(int sequence, const std::string& state) {
  return json{{"collective_seq_id", sequence},
              {"process_group", {"0", "default_pg"}},
              {"profiling_name", "nccl:all_gather"},
              {"state", state},
              {"is_p2p", false}}
      .dump();
}
// Of a job of three ranks; PyTorch's JSON has the entries in front of the groups.
std::string dump(int rank, const std::string& entries) {
  return R"({"entries":[)" + entries + R"(],"pg_config":{"0":{"name":"0","ranks":"[0, 1, 2]"}},"rank":)" +
         std::to_string(rank) + "}";
}
std::string waiting() { return entry(7, "completed") + "," + entry(8, "started"); }

report::DoctorReport of(const std::map<std::string, std::string>& files) {
  Evidence evidence(*shipped_rules());
  for (const auto& [name, text] : files) evidence.add_text(name, text);
  evidence.finish();
  return diagnose(evidence);
}

TEST(Dump, OneThatBreaksOffKeepsItsWholeEntriesAndSaysWhere) {
  const std::string whole = dump(2, waiting());
  const Dump cut = read_dump(whole.substr(0, whole.find("started")));
  EXPECT_EQ(cut.document["entries"].size(), 1u);
  EXPECT_NE(cut.damage.find("cut off behind 1 whole entry"), std::string::npos) << cut.damage;
  EXPECT_NE(cut.damage.find("line 1, column "), std::string::npos) << cut.damage;
  EXPECT_EQ(read_dump(whole).damage, "");
}

TEST(Dump, AnEntryThatIsNoJsonIsLeftOutAndTheOthersAreKept) {
  const Dump odd =
      read_dump(dump(1, entry(1, "completed") + ",\n{\"collective_seq_id\": 1e},\n" + entry(3, "started")));
  EXPECT_EQ(odd.document["entries"].size(), 2u);
  EXPECT_NE(odd.damage.find("line 2, column 1"), std::string::npos) << odd.damage;
  EXPECT_TRUE(odd.document.contains("pg_config")) << "what stands behind the entries is read, too";
}

TEST(Dump, TheRankOfACutDumpIsNoRankWithoutADump) {
  const auto report = of({{"t_rank_0", dump(0, waiting())},
                          {"t_rank_1", dump(1, waiting()).substr(0, 150)},
                          {"t_rank_2", dump(2, waiting())}});
  EXPECT_TRUE(report.roots.empty()) << report.verdict;
  ASSERT_EQ(report.damaged.size(), 1u);
  EXPECT_EQ(report.damaged[0].rank, 1);
  EXPECT_TRUE(report.troubled);
  EXPECT_EQ(report.verdict.find("No fault found"), std::string::npos) << report.verdict;
  EXPECT_NE(report.verdict.find("rank 1"), std::string::npos) << report.verdict;
  ASSERT_EQ(report.notes.size(), 1u);
  EXPECT_NE(report.notes[0].find("others wait in call 8"), std::string::npos) << report.notes[0];
}

TEST(Dump, BesideACutDumpTheRankWithoutOneIsStillFound) {
  const auto report = of({{"t_rank_0", dump(0, waiting())}, {"t_rank_1", dump(1, waiting()).substr(0, 150)}});
  ASSERT_EQ(report.roots.size(), 1u) << report.verdict;
  EXPECT_EQ(report.roots[0].ranks, std::vector<int>{2});
  EXPECT_NE(report.verdict.find("cut or damaged (rank 1)"), std::string::npos) << report.verdict;
}

TEST(Dump, NumbersAndTypesThatCannotBeAreNamedAndBlameNobody) {
  for (const std::string bad :
       {R"({"collective_seq_id":-3,"profiling_name":"nccl:all_gather","state":"started"})",
        R"({"collective_seq_id":98765432109876543210,"state":"started"})",
        R"({"collective_seq_id":NaN,"state":"started"})", R"({"collective_seq_id":"8","state":"started"})",
        R"({"collective_seq_id":8,"state":[2]})", R"({"collective_seq_id":8,"profiling_name":{}})", "null", "17"}) {
    const auto report = of({{"t_rank_0", dump(0, waiting())},
                            {"t_rank_1", dump(1, waiting())},
                            {"t_rank_2", dump(2, entry(7, "completed") + "," + bad)}});
    EXPECT_TRUE(report.roots.empty()) << bad << ": " << report.verdict;
    ASSERT_EQ(report.damaged.size(), 1u) << bad;
    EXPECT_NE(report.damaged[0].text.find("1 of 2 entries left out"), std::string::npos) << report.damaged[0].text;
  }
}

TEST(Dump, EntriesThatAreNoListAndRanksThatAreNoneAreNamed) {
  for (const std::string entries : {"null", "\"none\"", "{\"0\":1}"}) {
    const auto report = of({{"t_rank_0", dump(0, waiting())},
                            {"t_rank_1", dump(1, waiting())},
                            {"t_rank_2", R"({"version":"2.9","pg_config":{},"entries":)" + entries + "}"}});
    ASSERT_EQ(report.damaged.size(), 1u) << entries;
    EXPECT_EQ(report.damaged[0].rank, 2);
    EXPECT_TRUE(report.roots.empty()) << report.verdict;
  }
  for (const std::string rank : {"-1", "4294967296", "NaN", "\"two\"", "null"}) {
    std::string text = dump(2, waiting());
    text.replace(text.rfind(":2}"), 3, ":" + rank + "}");
    const auto report = of({{"t_rank_0", dump(0, waiting())}, {"t_rank_1", dump(1, waiting())}, {"t_rank_2", text}});
    ASSERT_EQ(report.damaged.size(), 1u) << rank;
    EXPECT_EQ(report.damaged[0].rank, 2) << "as its name says";
  }
}

TEST(Dump, AFileBesideDumpsThatCannotBeReadIsOneThatIsDamaged) {
  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / ("dumps-" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  const auto file = [&](const char* name, const std::string& text) { std::ofstream(folder / name) << text; };
  file("fr_rank_0", dump(0, waiting()));
  file("fr_rank_1", "");                                  // the process was killed before it wrote
  file("fr_rank_2", std::string("\x80\x04\x95\x10", 4));  // a pickle that is cut off
  file("notes.bin", std::string("\0\1\2", 3));
  Evidence evidence(*shipped_rules());
  const Status read = evidence.add_path(folder.string());
  evidence.finish();
  std::filesystem::remove_all(folder);
  ASSERT_TRUE(read) << read.error().message;
  const auto report = diagnose(evidence);
  EXPECT_TRUE(report.roots.empty()) << report.verdict;
  ASSERT_EQ(report.damaged.size(), 2u);
  EXPECT_EQ(report.damaged[0].rank, 1);
  EXPECT_EQ(report.damaged[1].rank, 2);
  ASSERT_EQ(report.left_out.size(), 1u) << "the notes are no dump";
}

}  // namespace
}  // namespace weft::doctor
