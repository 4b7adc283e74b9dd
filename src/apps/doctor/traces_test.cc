#include "apps/doctor/traces.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "apps/doctor/evidence.h"

namespace weft::doctor {
namespace {

class TempFolder {
 public:
  TempFolder() : path_(std::filesystem::temp_directory_path() / fmt::format("weft-traces-{}-{}", getpid(), made++)) {
    std::filesystem::create_directory(path_);
  }
  ~TempFolder() { std::filesystem::remove_all(path_); }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  static inline int made = 0;
  std::filesystem::path path_;
};

// What WEFT_TRACE leaves of a rank that calls 100 times, every millisecond, and waits this part of each call.
std::string trace_of(int rank, double waits, bool whole = true) {
  std::string text = fmt::format(
      "[\n{{\"args\":{{\"communicator\":\"world\",\"job\":\"j\",\"opened_ns\":1,\"rank\":{},\"ranks\":4,\"schema\":"
      "\"weft.trace/1\",\"transport\":\"shm\"}},\"name\":\"weft\",\"ph\":\"M\",\"pid\":{},\"tid\":0}},\n",
      rank, rank);
  for (int call = 0; call < 100; ++call) {
    const double at = 1000.0 * call, took = 200;
    text += fmt::format(
        "{{\"name\":\"wait\",\"cat\":\"wait\",\"ph\":\"X\",\"ts\":{},\"dur\":{},\"pid\":{},\"tid\":0,\"args\":{{"
        "\"for\":{}}}}},\n"
        "{{\"name\":\"all_reduce\",\"cat\":\"call\",\"ph\":\"X\",\"ts\":{},\"dur\":{},\"pid\":{},\"tid\":0,\"args\":{{}"
        "}}},\n",
        at, took * waits, rank, (rank + 1) % 4, at, took, rank);
  }
  return whole ? text + "]\n" : text + "{\"name\":\"wai";
}

Evidence evidence_of(const std::vector<std::string>& traces) {
  const TempFolder folder;
  for (std::size_t r = 0; r < traces.size(); ++r)
    std::ofstream(folder.path() / fmt::format("t-{}.json", r)) << traces[r];
  Evidence evidence(shipped_rules().value());
  EXPECT_TRUE(evidence.add_path(folder.path()));
  evidence.finish();
  return evidence;
}

const Fact* fact_of(const Evidence& evidence, std::string_view id) {
  for (const Fact& fact : evidence.facts())
    if (evidence.rules()[fact.rule].id == id) return &fact;
  return nullptr;
}

TEST(Traces, ARankForWhichTheOthersWaitIsLate) {
  const Evidence evidence = evidence_of({trace_of(0, 0.9), trace_of(1, 0.9), trace_of(2, 0.05), trace_of(3, 0.8)});
  const Fact* const late = fact_of(evidence, "W33");
  ASSERT_NE(late, nullptr);
  EXPECT_EQ(late->rank, 2);
  EXPECT_EQ(evidence.count(late->rule), 1U);
  EXPECT_EQ(fact_of(evidence, "W34"), nullptr);
}

TEST(Traces, RanksThatWaitAlikeAreFine) {
  const Evidence evidence = evidence_of({trace_of(0, 0.9), trace_of(1, 0.6), trace_of(2, 0.5), trace_of(3, 0.8)});
  EXPECT_TRUE(evidence.facts().empty());
}

TEST(Traces, AShareThatCostsLittleIsNoFinding) {
  EXPECT_TRUE(evidence_of({trace_of(0, 0.2), trace_of(1, 0.2), trace_of(2, 0.01)}).facts().empty());
}

TEST(Traces, ATraceThatBreaksOffNamesItsRank) {
  const Evidence evidence = evidence_of({trace_of(0, 0.5), trace_of(1, 0.5, false), trace_of(2, 0.5)});
  const Fact* const killed = fact_of(evidence, "W34");
  ASSERT_NE(killed, nullptr);
  EXPECT_EQ(killed->rank, 1);
}

TEST(Traces, ATraceThatIsDamagedIsNamed) {
  const TempFolder folder;
  const auto file = folder.path() / "t.json";
  std::ofstream(file) << "[\n{\"args\":{\"schema\":\"weft.trace/1\"},\"name\":\"weft\"},\nnonsense,\n{}\n";
  Evidence evidence(shipped_rules().value());
  const Status added = evidence.add_path(file);
  ASSERT_FALSE(added);
  EXPECT_NE(added.error().message.find("t.json"), std::string::npos) << added.error().message;
}

}  // namespace
}  // namespace weft::doctor
