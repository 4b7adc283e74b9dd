// How ranks meet over shared memory, and what they say when they do not.

#include <gtest/gtest.h>

#include <signal.h>
#include <unistd.h>

#include <chrono>

#include "net/shm/shm.h"
#include "tests/processes.h"

namespace weft::net::shm {
namespace {

using namespace std::chrono_literals;
using tests::Outcome;
using tests::Process;
using tests::Report;

// "here", or the error. A rank that is here stays until all are.
Process attaching(const std::string& id, Rank rank, Rank ranks, std::chrono::milliseconds timeout, Bytes heap = 4096) {
  return Process([=](Report& report) {
    const auto world =
        attach({.id = id, .rank = rank, .ranks = ranks, .heap_bytes = heap, .limits = {.timeout = timeout}});
    report.say(world ? "here"
                     : fmt::format("code {}: {}", static_cast<int>(world.error().code), world.error().message));
  });
}

void expect_said(Process process, Code code, std::initializer_list<std::string> words) {
  const Outcome outcome = process.join();
  EXPECT_TRUE(outcome.ended_well()) << outcome.how();
  EXPECT_NE(outcome.said.find(fmt::format("code {}:", static_cast<int>(code))), std::string::npos) << outcome.said;
  for (const std::string& word : words) EXPECT_NE(outcome.said.find(word), std::string::npos) << outcome.said;
}

class Attach : public testing::Test {
 protected:
  ~Attach() override {
    EXPECT_FALSE(tests::leaves_a_file(id)) << id;
    remove_name(id);
  }
  const std::string id = tests::fresh_id("attach");
};

TEST_F(Attach, RanksMeetWhateverTheOrder) {
  auto last = attaching(id, 2, 3, 60s), middle = attaching(id, 1, 3, 60s);
  auto first = attaching(id, 0, 3, 60s);
  for (Process* p : {&last, &middle, &first}) EXPECT_EQ(p->join().said, "here");
}

TEST_F(Attach, ARankThatNeverStartsIsNamed) {
  auto zero = attaching(id, 0, 4, 400ms), two = attaching(id, 2, 4, 400ms);
  expect_said(std::move(two), Code::kTimeout, {"400 ms", "1, 3"});
  expect_said(std::move(zero), Code::kTimeout, {"400 ms", "1, 3"});
}

TEST_F(Attach, RankZeroIsNamedIfItNeverStarts) {
  expect_said(attaching(id, 1, 2, 300ms), Code::kTimeout, {"300 ms", "rank 0"});
}

TEST_F(Attach, TwoJobsOfOneIdDoNotMix) {
  auto first = attaching(id, 0, 2, 60s);
  while (!tests::leaves_a_file(id)) usleep(1000);
  expect_said(attaching(id, 0, 2, 60s), Code::kInvalidArgument, {id, "in use"});
  EXPECT_EQ(attaching(id, 1, 2, 60s).join().said, "here");  // the first job is not disturbed
  EXPECT_EQ(first.join().said, "here");
}

TEST_F(Attach, TwoProcessesThatClaimOneRankAreToldApart) {
  auto zero = attaching(id, 0, 3, 60s), one = attaching(id, 1, 3, 60s), also_one = attaching(id, 1, 3, 60s);
  // Exactly one of them is refused, at once; then the job can be completed.
  std::string refused;
  for (Process* claimant = &one; refused.empty(); claimant = claimant == &one ? &also_one : &one)
    if (claimant->has_word(50ms)) refused = claimant->join().said;
  EXPECT_NE(refused.find("two processes claim rank 1"), std::string::npos) << refused;
  EXPECT_NE(refused.find(id), std::string::npos) << refused;
  EXPECT_EQ(attaching(id, 2, 3, 60s).join().said, "here");
  EXPECT_EQ(zero.join().said, "here");
}

TEST_F(Attach, RanksThatDisagreeOnTheJobAreTold) {
  auto zero = attaching(id, 0, 2, 600ms);
  expect_said(attaching(id, 1, 3, 60s), Code::kInvalidArgument, {"rank 1", "disagrees", "WEFT_HEAP"});
  expect_said(attaching(id, 1, 2, 60s, 8192), Code::kInvalidArgument, {"rank 1", "disagrees"});
  expect_said(std::move(zero), Code::kTimeout, {"rank 1"});
}

TEST_F(Attach, ARankOutsideTheJobIsRefused) {
  for (const Rank rank : {-1, 2})
    expect_said(attaching(id, rank, 2, 60s), Code::kInvalidArgument, {std::to_string(rank), "2 ranks"});
  expect_said(attaching(id, 0, 0, 60s), Code::kInvalidArgument, {"0 ranks"});
}

TEST_F(Attach, AnIdThatIsNoFileNameIsRefused) {
  for (const std::string& bad :
       {std::string(), std::string("a/b"), std::string("../escape"), std::string("a b"), std::string("ä")}) {
    expect_said(attaching(bad, 0, 1, 60s), Code::kInvalidArgument, {"'" + bad + "'"});
    EXPECT_FALSE(tests::leaves_a_file(bad));
  }
  const std::string endless(300, 'x');  // longer than a file name can be
  const Outcome outcome = attaching(endless, 0, 1, 60s).join();
  EXPECT_TRUE(outcome.ended_well()) << outcome.how();
  EXPECT_NE(outcome.said.find("code"), std::string::npos) << outcome.said;
}

TEST_F(Attach, ARankThatGivesUpRemovesTheNameOfAKilledRankZero) {
  auto zero = attaching(id, 0, 3, 60s);
  while (!tests::leaves_a_file(id)) usleep(1000);
  auto one = attaching(id, 1, 3, 500ms);
  zero.send(SIGKILL);
  zero.join();
  expect_said(std::move(one), Code::kTimeout, {"rank 2"});
  EXPECT_FALSE(tests::leaves_a_file(id));
}

// The one case that leaves a name: nobody else has come. The starter of the ranks removes it with remove_name.
TEST_F(Attach, TheNameOfARankZeroThatDiesAloneCanBeRemoved) {
  auto zero = attaching(id, 0, 2, 60s);
  while (!tests::leaves_a_file(id)) usleep(1000);
  zero.send(SIGKILL);
  zero.join();
  EXPECT_TRUE(tests::leaves_a_file(id));
  remove_name(id);
}

}  // namespace
}  // namespace weft::net::shm
