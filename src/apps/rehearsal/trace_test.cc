#include "apps/rehearsal/trace.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "apps/rehearsal/run.h"

namespace weft::rehearsal {
namespace {

using nlohmann::json;

// A rank of two on H100s: a product of 100 µs, an all-reduce of 50 µs on a stream of its own, of which 30 µs lie beside
// a second kernel, and a third kernel that waited for it; twice, in two profiled steps.
class Trace {
 public:
  explicit Trace(int rank) : rank_(rank) {
    for (int step = 0; step < 2; ++step) {
      const double at = step * 1000;
      event("user_annotation", "ProfilerStep#" + std::to_string(step), at, 900, json::object());
      launched("sm90_gemm", at + 10, at + 20, 100, 7, {{"External id", 100 + step}});
      event("cpu_op", "aten::mm", at + 5, 8,
            {{"External id", 100 + step}, {"Input Dims", {{4096, 1024}, {1024, 512}}}});
      launched("ncclDevKernel_AllReduce", at + 15, at + 120, 50, 20,
               {{"Collective name", "allreduce"},
                {"dtype", "BFloat16"},
                {"In msg nelems", 1024},
                {"Out msg nelems", 1024},
                {"Group size", 2},
                {"Process Group Name", "0"},
                {"Process Group Ranks", "[0, 1]"}});
      launched("elementwise", at + 16, at + 120, 30, 7, json::object());
      launched("optimizer", at + 17, at + 170, 40, 7, json::object());
    }
  }

  std::string text() const {
    return json{{"deviceProperties", {{{"name", "NVIDIA H100 80GB HBM3"}, {"totalGlobalMem", 85e9}}}},
                {"distributedInfo", {{"rank", rank_}, {"world_size", 2}}},
                {"traceEvents", events_}}
        .dump();
  }

 private:
  void event(const std::string& category, const std::string& name, double at, double length, const json& arguments) {
    events_.push_back(
        {{"ph", "X"}, {"cat", category}, {"name", name}, {"ts", at}, {"dur", length}, {"args", arguments}});
  }
  void launched(const std::string& name, double by_host, double at, double length, int stream, json arguments) {
    arguments.update({{"correlation", ++correlation_}, {"stream", stream}});
    event("cuda_runtime", "cudaLaunchKernel", by_host, 2, {{"correlation", correlation_}});
    event("kernel", name, at, length, arguments);
  }

  int rank_, correlation_ = 0;
  json events_ = json::array();
};

Job job_of(std::initializer_list<int> ranks) {
  Job job;
  for (const int rank : ranks) {
    const Status added = add_recording(job, fmt::format("trace-{}.json", rank), Trace(rank).text());
    EXPECT_TRUE(added) << added.error().message;
  }
  return job;
}

TEST(ATraceOfTorchProfiler, BecomesARecordingWithItsCardKernelsAndCalls) {
  const Job job = job_of({0, 1});
  EXPECT_EQ(job.card, "H100-SXM5");
  EXPECT_EQ(job.world, 2);
  ASSERT_EQ(job.ranks.size(), 2u);
  const Recording& rank = job.ranks[1];
  EXPECT_EQ(rank.rank, 1);
  ASSERT_EQ(rank.calls.size(), 2u);
  EXPECT_EQ(rank.calls[0].op, "all_reduce");
  EXPECT_EQ(rank.calls[0].bytes, 2048);
  const auto product = std::ranges::find(rank.kernels, "gemm", &Kernel::kind);
  ASSERT_NE(product, rank.kernels.end());
  EXPECT_EQ(product->m, 4096);
  EXPECT_EQ(product->n, 512);
  EXPECT_EQ(product->k, 1024);
  EXPECT_NEAR(product->seconds, 100e-6, 1e-12);
}

// A call that takes 50 µs, as in the trace, gives the trace's own times: 100 µs, then 50 µs of which 30 are hidden,
// then 40 µs; of the second step as well, after the 790 µs in which its host came late (1020 − 210 − 20 of the launch).
TEST(ATraceOfTorchProfiler, GivesItsOwnTimesBackWhereNothingIsChanged) {
  const Job job = job_of({0, 1});
  const auto outcome = run(job, {[](const Call&, const std::vector<Rank>&, Rank) { return Result<double>(50e-6); },
                                 [](const Kernel& k, Rank) { return k.seconds; }});
  ASSERT_TRUE(outcome);
  EXPECT_TRUE(outcome->findings.empty());
  EXPECT_NEAR(outcome->ranks[0].total, 1190e-6, 1e-9);  // from the first kernel, at 20, to the last one's end, at 1210
  EXPECT_NEAR(outcome->ranks[0].exposed, 2 * 20e-6, 1e-9);
  EXPECT_NEAR(outcome->ranks[0].compute, 2 * 170e-6, 1e-9);
}

// 150 µs more for each call are all exposed.
TEST(ATraceOfTorchProfiler, WaitsLongerForSlowerCalls) {
  const Job job = job_of({0, 1});
  const auto outcome = run(job, {[](const Call&, const std::vector<Rank>&, Rank) { return Result<double>(200e-6); },
                                 [](const Kernel& k, Rank) { return k.seconds; }});
  ASSERT_TRUE(outcome);
  EXPECT_NEAR(outcome->ranks[0].exposed, 2 * 170e-6, 1e-9);
}

TEST(ATraceOfTorchProfiler, WithoutWhatItNeedsIsOneLine) {
  Job job;
  const auto said = [&](json trace) {
    const Status added = add_recording(job, "trace.json", trace.dump());
    return added ? "" : added.error().message;
  };
  const json card = {{{"name", "NVIDIA H100 80GB HBM3"}, {"totalGlobalMem", 85e9}}};
  EXPECT_EQ(said({{"traceEvents", json::array()}}),
            "trace.json: no deviceProperties, which name the card that was traced");
  EXPECT_EQ(said({{"traceEvents", json::array()}, {"deviceProperties", card}}),
            "trace.json: no kernels of a GPU: profile with activities=[CPU, CUDA]");
  EXPECT_EQ(said({{"traceEvents", json::array()}, {"deviceProperties", {{{"name", "Abacus 7"}}}}}),
            "trace.json: no card of the catalogue is called 'Abacus 7'");
  json trace = json::parse(Trace(0).text());
  for (json& e : trace["traceEvents"])
    if (e["args"].contains("Collective name")) e["args"]["Group size"] = 4;
  EXPECT_EQ(said(trace), "trace.json: the ranks of process group '0' are not in the trace");
}

TEST(CardsOfDevices, AreFoundByModelAndMemory) {
  EXPECT_EQ(card_of("NVIDIA H100 80GB HBM3", 85e9).value_or(""), "H100-SXM5");
  EXPECT_EQ(card_of("NVIDIA H100 PCIe", 85e9).value_or(""), "H100-PCIE");
  EXPECT_EQ(card_of("NVIDIA A100-SXM4-40GB", 42e9).value_or(""), "A100-SXM4-40GB");
}

}  // namespace
}  // namespace weft::rehearsal
