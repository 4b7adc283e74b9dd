#include "apps/doctor/records.h"

#include <gtest/gtest.h>

#include "apps/doctor/diagnosis.h"
#include "apps/doctor/evidence.h"

namespace weft::doctor {
namespace {

std::string record_of(int rank, int ranks, const std::string& error) {
  return nlohmann::json{{"schema", "weft.record/1"},
                        {"job", "j"},
                        {"communicator", "world"},
                        {"rank", rank},
                        {"ranks", ranks},
                        {"error", error},
                        {"operations", nlohmann::json::array()}}
      .dump(1);
}

report::DoctorReport diagnosis_of(const std::vector<std::string>& texts) {
  Evidence evidence(shipped_rules().value());
  for (std::size_t i = 0; i < texts.size(); ++i) evidence.add_text(fmt::format("r{}.json", i), texts[i]);
  evidence.finish();
  return diagnose(evidence);
}

TEST(Records, ADeadRankIsNamedByTheOthersAndByItsMissingRecord) {
  const report::DoctorReport said = diagnosis_of(
      {record_of(0, 3,
                 "rank 0: all_reduce #7 (16 elements, ring): rank 1 (process 8306 on vm) has ended: reset by peer"),
       record_of(2, 3, "rank 2: all_reduce #7 (16 elements, ring): the communicator is broken: rank 1 has ended")});
  ASSERT_EQ(said.roots.size(), 1U);
  EXPECT_EQ(said.roots[0].id, "W35");
  EXPECT_EQ(said.roots[0].ranks, std::vector<int>{1});
  EXPECT_EQ(said.roots[0].confidence, "confirmed");
}

TEST(Records, CallsThatDifferAreTheRoot) {
  const std::string error =
      "rank 1 called all_reduce of 256 float (sum, ring), rank 0 called all_gather of 128 float (spread) (collective "
      "#1 "
      "of the communicator): collective differs";
  const report::DoctorReport said =
      diagnosis_of({record_of(0, 2, "rank 0: all_gather #1 (128 elements, spread): " + error),
                    record_of(1, 2, "rank 1: all_reduce #1 (256 elements, ring): " + error)});
  ASSERT_EQ(said.roots.size(), 1U);
  EXPECT_EQ(said.roots[0].id, "W37");
}

TEST(Records, ATimeoutIsFoldedUnderADeath) {
  const report::DoctorReport said =
      diagnosis_of({record_of(0, 3, "rank 0: barrier #4: waited 800 ms for rank 2 (process 17 on vm)"),
                    record_of(1, 3, "rank 1: barrier #4: rank 2 (process 17 on vm) has ended: reset by peer")});
  ASSERT_EQ(said.roots.size(), 1U);
  EXPECT_EQ(said.roots[0].id, "W35");
  EXPECT_EQ(said.roots[0].ranks, std::vector<int>{2});
}

TEST(Records, ALineBlamesTheRankItNamesLast) {
  EXPECT_EQ(blamed_by_weft("rank 0: all_reduce #7: rank 12 (process 3 on vm) has ended"), 12);
  EXPECT_EQ(blamed_by_weft("rank 0: barrier #1: waited 300 ms for rank 4 (process 7)"), 4);
  EXPECT_EQ(blamed_by_weft("rank 1 called all_reduce, rank 0 called all_gather: collective differs"), -1);
  EXPECT_EQ(blamed_by_weft("nothing"), -1);
}

}  // namespace
}  // namespace weft::doctor
