#include "apps/rehearsal/flight.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "apps/rehearsal/recording.h"

namespace weft::rehearsal {
namespace {

using nlohmann::json;

json entry(int number, const char* name, int elements, const char* state = "completed") {
  return {
      {"collective_seq_id", number},
      {"profiling_name", fmt::format("nccl:{}", name)},
      {"process_group", {"0", "default_pg"}},
      {"input_sizes", {{elements}}},
      {"output_sizes", {{elements}}},
      {"input_dtypes", {"Float"}},
      {"output_dtypes", {"Float"}},
      {"state", state},
      {"is_p2p", false},
      {"frames",
       {{{"filename", "/site/torch/distributed/c10d.py"}, {"line", 1}}, {{"filename", "/a/train.py"}, {"line", 12}}}}};
}

FlightRecord record(int rank, json entries) {
  return {fmt::format("nccl_trace_rank_{}", rank),
          {{"version", "2.5"},
           {"pg_config", {{"0", {{"name", "0"}, {"desc", "default_pg"}, {"ranks", "[0, 1]"}}}}},
           {"entries", std::move(entries)}}};
}

TEST(Flight, CallsAreReadWithTheirGroupSizeTypeAndTheUsersLine) {
  const auto made =
      recordings_of_flight_records({record(0, {entry(1, "all_reduce", 6), entry(2, "all_reduce_barrier", 1)}),
                                    record(1, {entry(1, "all_reduce", 6)})});
  ASSERT_TRUE(made) << made.error().message;
  Job job;
  ASSERT_TRUE(add_recording(job, "nccl_trace_rank_0", made->at(0)));
  ASSERT_TRUE(add_recording(job, "nccl_trace_rank_1", made->at(1)));
  ASSERT_EQ(job.world, 2);
  const Call& call = job.ranks[0].calls.at(0);
  EXPECT_EQ(call.op, "all_reduce");
  EXPECT_EQ(call.type, "float");
  EXPECT_EQ(call.count, 6);
  EXPECT_EQ(call.bytes, 24);
  EXPECT_EQ(job.ranks[0].calls.at(1).op, "barrier");
  EXPECT_NE(made->at(0).find("\"train.py:12\""), std::string::npos);
}

TEST(Flight, DumpsThatBeginAtDifferentCallsBeginAtTheLatestOfThem) {
  const auto made = recordings_of_flight_records(
      {record(0, {entry(7, "all_reduce", 2), entry(8, "all_reduce", 3)}), record(1, {entry(8, "all_reduce", 3)})});
  ASSERT_TRUE(made);
  Job job;
  for (int rank = 0; rank < 2; ++rank)
    ASSERT_TRUE(add_recording(job, fmt::format("{}", rank), made->at(static_cast<std::size_t>(rank))));
  EXPECT_EQ(job.ranks[0].calls.size(), 1u);
  EXPECT_EQ(job.ranks[0].calls[0].count, 3);
}

TEST(Flight, ACallThatHadNotEndedIsNotedAndWhatADumpLacksIsNamed) {
  const auto hanging = recordings_of_flight_records({record(0, {entry(1, "all_reduce", 6, "started")})});
  ASSERT_TRUE(hanging);
  EXPECT_NE(hanging->at(0).find("rank 0: all_reduce of group '0' was started when the dump was made"),
            std::string::npos);
  const auto unknown = recordings_of_flight_records({record(0, {entry(1, "frobnicate", 6)})});
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().message,
            "nccl_trace_rank_0: no call of torch.distributed is recorded as 'nccl:frobnicate'");
  auto nobody = record(0, {entry(1, "all_reduce", 6)});
  nobody.dump["pg_config"] = json::object();
  EXPECT_EQ(recordings_of_flight_records({nobody}).error().message,
            "nccl_trace_rank_0: pg_config has no members of group '0'");
}

TEST(Flight, MessagesOfOneCoalescedCallAreOneBatch) {
  json send = entry(1, "send 0->1", 4), receive = entry(1, "recv 0<-1", 4), coalesced = entry(1, "coalesced", 0);
  send["is_p2p"] = receive["is_p2p"] = true;
  const auto made = recordings_of_flight_records({record(0, {send, receive, coalesced})});
  ASSERT_TRUE(made) << made.error().message;
  Job job;
  ASSERT_TRUE(add_recording(job, "0", made->at(0)));
  ASSERT_EQ(job.ranks[0].calls.size(), 2u);
  EXPECT_EQ(job.ranks[0].calls[0].peer, 1);
  EXPECT_EQ(job.ranks[0].calls[1].op, "recv");
  EXPECT_GT(job.ranks[0].calls[0].batch, 0);
  EXPECT_EQ(job.ranks[0].calls[0].batch, job.ranks[0].calls[1].batch);
}

}  // namespace
}  // namespace weft::rehearsal
