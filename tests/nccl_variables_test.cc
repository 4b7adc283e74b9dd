#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "command.h"

// NCCL_* variables as a user sets them: for ranks here, and as a what-if of a modelled machine.
namespace weft {
namespace {

using nlohmann::json;

json row(const std::string& arguments, const std::string& environment) {
  const Answer a = weft("bench " + arguments + " --json -", environment);
  EXPECT_EQ(a.code, 0) << a.err;
  const json read = json::parse(a.out, nullptr, false);
  return read.is_discarded() ? json() : read["rows"][0];
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

constexpr const char* kOne = "all_reduce --on dgx-h100:nodes=2 --bytes 64M --tuner nccl";

TEST(NcclVariables, ListsChooseOnAModelledMachine) {
  EXPECT_EQ(row(kOne, "NCCL_ALGO=Tree")["algorithm"], "tree");
  EXPECT_EQ(row(kOne, "NCCL_ALGO=\"ring;allgather:pat\"")["algorithm"], "ring");
  EXPECT_NE(row(kOne, "NCCL_ALGO=^nvls,nvlstree,tree")["algorithm"], "nvls_tree");
  EXPECT_EQ(row(kOne, "NCCL_ALGO=tree,ring NCCL_PROTO=\"^Simple\"")["protocol"], "LL128");
  EXPECT_EQ(row("all_reduce --on dgx-h100 --bytes 1M", "NCCL_ALGO=ring")["algorithm"], "ring");  // weft's own tuner
}

TEST(NcclVariables, AListThatLeavesNothingIsANoteOnAModelledMachine) {
  for (const char* tuner : {"nccl", "weft"}) {
    const Answer a =
        weft(std::string("bench all_gather --on dgx-h100:nodes=2 --bytes 1M --tuner ") + tuner, "NCCL_ALGO=Tree");
    EXPECT_EQ(a.code, 0) << a.err;
    EXPECT_TRUE(contains(a.err, "here it is chosen freely")) << a.err;
  }
}

TEST(NcclVariables, BoundsOfChannelsHoldThere) {
  EXPECT_EQ(row("all_reduce --on dgx-h100 --bytes 64M", "NCCL_ALGO=ring NCCL_MAX_NCHANNELS=2")["channels"], 2);
  EXPECT_GE(row("all_reduce --on dgx-h100 --bytes 1K", "NCCL_ALGO=ring NCCL_MIN_NCHANNELS=8")["channels"], 8);
}

TEST(NcclVariables, LevelsAndNicsCostWhatTheyCost) {
  const std::string ring = "all_reduce --on dgx-h100 --bytes 256M --algo ring --proto Simple";
  EXPECT_GT(row(ring, "NCCL_P2P_LEVEL=LOC")["time_us"], row(ring, "NCCL_P2P_LEVEL=SYS")["time_us"]);
  const std::string two = "all_reduce --on dgx-h100:nodes=2 --bytes 256M --algo ring --proto Simple";
  EXPECT_GT(row(two, "NCCL_NET_GDR_LEVEL=LOC")["time_us"], row(two, "NCCL_NET_GDR_LEVEL=SYS")["time_us"]);
  const Answer a = weft("bench " + two, "NCCL_IB_HCA==mlx5_0,mlx5_1 NCCL_CROSS_NIC=1");
  EXPECT_EQ(a.code, 0) << a.err;
  EXPECT_TRUE(contains(a.err, "NCCL_IB_HCA==mlx5_0,mlx5_1 holds on this machine")) << a.err;
  EXPECT_TRUE(contains(a.err, "NCCL_CROSS_NIC=1 has no effect")) << a.err;
}

TEST(NcclVariables, WithoutVerbsSocketsCarryWhatVerbsWouldHaveCarried) {
  const std::string two = "all_reduce --on dgx-h100:nodes=2 --bytes 256M --tuner nccl --algo ring";
  EXPECT_GT(row(two, "NCCL_IB_DISABLE=1")["time_us"], 1.2 * double{row(two, "")["time_us"]});
  EXPECT_EQ(row(two, "NCCL_IB_DISABLE=0")["time_us"], row(two, "")["time_us"]);
  const Answer named = weft("bench all_reduce --on dgx-h100:nodes=2,net=ib-hdr --bytes 1M", "NCCL_IB_DISABLE=1");
  EXPECT_TRUE(contains(named.err, "net=eth-200")) << named.err;
  for (const char* elsewhere : {"dgx-h100", "aws-p5:nodes=2"}) {  // one node; a plugin's network
    const Answer a = weft(std::string("bench all_reduce --on ") + elsewhere + " --bytes 1M", "NCCL_IB_DISABLE=1");
    EXPECT_TRUE(contains(a.err, "NCCL_IB_DISABLE=1 has no effect")) << a.err;
  }
}

TEST(NcclVariables, TheMostChannelsLeaveNvlsAloneAsInNccl) {
  const Answer a = weft("bench all_reduce --on dgx-h100 --bytes 256M --tuner nccl", "NCCL_MAX_NCHANNELS=4");
  EXPECT_TRUE(contains(a.err, "except for NVLS")) << a.err;
}

// Without peer access nobody maps multicast memory, and nothing is faster than what the machine can do at the least.
TEST(NcclVariables, WithoutPeerAccessOrNvlsNoSwitchSums) {
  for (const char* tuner : {"", " --tuner nccl"})
    for (const char* given : {"NCCL_P2P_DISABLE=1", "NCCL_NVLS_ENABLE=0"}) {
      const auto one = row(std::string("all_reduce --on dgx-h100 --bytes 64M") + tuner, given);
      EXPECT_FALSE(std::string(one["algorithm"]).starts_with("nvls")) << given << tuner;
      EXPECT_LT(one["of_limit"], 1) << given << tuner;
    }
  EXPECT_GT(row("all_reduce --on dgx-h100 --bytes 64M", "NCCL_P2P_DISABLE=1")["time_us"],
            3.0 * double(row("all_reduce --on dgx-h100 --bytes 64M", "NCCL_ALGO=Ring")["time_us"]));
}

// A list that leaves nothing for a collective, and a word that NCCL does not have, are notes; the ranks run.
TEST(NcclVariables, NothingOfThemEndsAProgramHere) {
  for (const char* value : {"Tree", "CollNetDirect", "NVLS,NVLSTree", "^Ring", "Butterfly", "allreduce:pat", ";;:"}) {
    const Answer a = weft("bench all_gather --ranks 2 --bytes 4K --iters 2 --check --json -",
                          std::string("WEFT_HEAP=64M NCCL_ALGO=\"") + value +
                              "\" NCCL_PROTO=LL NCCL_BUFFSIZE=65536 "
                              "NCCL_MAX_NCHANNELS=1");
    EXPECT_EQ(a.code, 0) << value << ": " << a.err;
  }
}

}  // namespace
}  // namespace weft
