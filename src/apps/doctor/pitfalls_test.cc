#include "apps/doctor/pitfalls.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "apps/doctor/diagnosis.h"

namespace weft::doctor {
namespace {

// Ids of what is found in some files, roots first.
std::vector<std::string> found(std::initializer_list<std::string> texts) {
  Evidence evidence(shipped_rules().value());
  int file = 0;
  for (const std::string& text : texts) evidence.add_text(fmt::format("log{}", file++), text);
  evidence.finish();
  const auto report = diagnose(evidence);
  std::vector<std::string> ids;
  for (const auto* list : {&report.roots, &report.slow})
    for (const auto& f : *list) ids.push_back(f.id);
  return ids;
}
bool finds(const char* id, std::initializer_list<std::string> texts) {
  const auto ids = found(texts);
  return std::ranges::find(ids, id) != ids.end();
}

TEST(Pitfalls, MoreThan64SocketsOfAConnectionAreNamedWhoeverSetsThem) {
  EXPECT_TRUE(finds("P01", {"h:1:2 [0] NCCL INFO NCCL_SOCKET_NTHREADS set by environment to 16.\n"
                            "h:1:2 [0] NCCL INFO NCCL_NSOCKS_PERTHREAD set by environment to 8.\n"}));
  EXPECT_TRUE(finds("P01", {"export NCCL_SOCKET_NTHREADS=32\nexport NCCL_NSOCKS_PERTHREAD='4'\n"}));
  EXPECT_FALSE(finds("P01", {"export NCCL_SOCKET_NTHREADS=8\nexport NCCL_NSOCKS_PERTHREAD=8\n"}));
}

TEST(Pitfalls, MemoryThatIsReservedFarAboveWhatIsAllocatedIsFragmented) {
  EXPECT_TRUE(finds("P03", {"[rank3]: Reserved: 71.20GB, Allocated: 19.80GB\n"}));
  EXPECT_TRUE(finds("P03", {"[Rank 2] (after 40 iterations) memory (MB) | allocated: 9000.5 | max allocated: 21000.1 | "
                            "reserved: 70000.0 | max reserved: 70010.0\n"}));
  EXPECT_TRUE(finds("P03", {"[2026-01-02] [INFO] [utils.py:780:see_memory_usage] MA 12.5 GB Max_MA 20.1 GB CA 66.0 GB "
                            "Max_CA 66 GB\n"}));
  EXPECT_TRUE(finds("P03", {"memory_allocated=16106127360 memory_reserved=75161927680\n"}));
  EXPECT_FALSE(finds("P03", {"Reserved: 71.20GB, Allocated: 64.80GB\n"}));
  EXPECT_FALSE(finds("P03", {"memory (MB) | allocated: 9000.5 | max allocated: 61000.1 | reserved: 70000.0 | max "
                             "reserved: 70010.0\n"}));
  EXPECT_FALSE(finds("P03", {"Reserved: 400 MiB, Allocated: 100 MiB\n"}));
  EXPECT_FALSE(finds("P03", {"port 22 is reserved\n"}));
}

TEST(Pitfalls, CommunicatorsThatAreMadeAgainAndAgainAreNamed) {
  std::string again, once;
  for (int i = 0; i < 12; ++i) {
    again += fmt::format(
        "h:7:9 [1] NCCL INFO comm 0x{} rank 1 nranks 8 cudaDev 1 busId 2 commId 0x{} - Init COMPLETE\n", i, i);
    again += fmt::format("h:7:9 [1] NCCL INFO comm 0x{} rank 1 nranks 8 cudaDev 1 busId 2 - Destroy COMPLETE\n", i);
    once += fmt::format("h:7:9 [1] NCCL INFO comm 0x{} rank 1 nranks 8 cudaDev 1 busId 2 commId 0x{} - Init COMPLETE\n",
                        i, i);
  }
  EXPECT_TRUE(finds("P04", {again}));
  EXPECT_FALSE(finds("P04", {once}));
}

TEST(Pitfalls, CollectivesOfSmallMessagesAreCounted) {
  const auto calls = [](int count, int of) {
    std::string text;
    for (int i = 0; i < of; ++i)
      text += fmt::format(
          "h:7:9 [0] NCCL INFO AllReduce: opCount {:x} sendbuff 0x7f recvbuff 0x7f count {} datatype 7 op 0 root 0 "
          "comm 0x1 [nranks=8] stream 0x2\n",
          i, count);
    return text;
  };
  EXPECT_TRUE(finds("P08", {calls(2048, 100)}));      // 8 KiB
  EXPECT_FALSE(finds("P08", {calls(6553600, 100)}));  // 25 MiB
  EXPECT_FALSE(finds("P08", {calls(2048, 20)}));      // too few to say
  EXPECT_TRUE(finds("P08", {"DDP(model, bucket_cap_mb=0.5)\n"}));
}

TEST(Pitfalls, NodesThatHangAtMoreLeavesThanNeededAreScattered) {
  const std::string tree =
      "SwitchName=leaf0 Nodes=tux[0-7]\nSwitchName=leaf1 Nodes=tux[8-15]\nSwitchName=leaf2 "
      "Nodes=tux[16-23]\nSwitchName=spine Switches=leaf[0-2]\n";
  EXPECT_TRUE(finds("P09", {tree, "SLURM_JOB_NODELIST=tux[1,9,17,18]\n"}));
  EXPECT_TRUE(finds("P09", {tree, "JobId=7 JobName=x\n   ReqNodeList=(null)\n   NodeList=tux[3,11]\n"}));
  EXPECT_FALSE(finds("P09", {tree, "SLURM_JOB_NODELIST=tux[0-3]\n"}));
  EXPECT_FALSE(finds("P09", {tree, "SLURM_JOB_NODELIST=tux[0-11]\n"}));  // two leaves hold twelve nodes
}

TEST(Pitfalls, BuffersThatSomeRanksHaveNotRegisteredAreNamed) {
  std::string text;
  for (int rank = 0; rank < 4; ++rank)
    text += fmt::format("h:{}:9 [{}] NCCL INFO comm 0x1 rank {} nRanks 4 nNodes 1 localRanks 4\n", rank, rank, rank);
  std::string all = text;
  for (const int rank : {0, 1, 2, 3})
    all += fmt::format("h:{}:9 [{}] NCCL INFO rank {} successfully registered NVLS sendbuff 0x7f\n", rank, rank, rank);
  for (const int rank : {0, 1, 3})
    text += fmt::format("h:{}:9 [{}] NCCL INFO rank {} successfully registered NVLS sendbuff 0x7f\n", rank, rank, rank);
  EXPECT_TRUE(finds("P10", {text}));
  EXPECT_FALSE(finds("P10", {all}));
}

TEST(Pitfalls, GlooIsAFaultOnlyWhereNcclCarriesNothing) {
  const std::string fallback = "INFO distributed: backend: gloo, world size 8\n";
  EXPECT_TRUE(finds("P02", {fallback}));
  EXPECT_FALSE(finds("P02", {fallback, "h:1:2 [0] NCCL INFO Using network IB\n"}));
}

TEST(ToolStates, AWidthARateAndAFabricAreReadOverSeveralLines) {
  EXPECT_TRUE(finds("T04", {"GPU 00000000:19:00.0\n    Product Name : NVIDIA H100\n    PCI\n        GPU Link Info\n"
                            "            PCIe Generation\n                Max                       : 5\n              "
                            "  Current                   : 5\n"
                            "            Link Width\n                Max                       : 16x\n                "
                            "Current                   : 8x\n"}));
  EXPECT_FALSE(finds("T04", {"GPU 00000000:19:00.0\n            Link Width\n                Max                       "
                             ": 16x\n                Current                   : 16x\n"}));
  EXPECT_TRUE(finds(
      "T12",
      {"GPU 00000000:17:00.0\n    ECC Errors\n        Volatile\n            DRAM Uncorrectable            : 3\n"}));
  EXPECT_TRUE(
      finds("T12", {"GPU 00000000:3B:00.0\n    Retired Pages\n        Pending Page Blacklist            : Yes\n"}));
  EXPECT_FALSE(finds(
      "T12", {"GPU 00000000:65:00.0\n    Remapped Rows\n        Correctable Error                 : 0\n"
              "        Uncorrectable Error               : 0\n        Pending                           : No\n"}));
  EXPECT_TRUE(finds("T11", {"GPU 00000000:3B:00.0\n    Fabric\n        State                             : In "
                            "Progress\n        Status                            : N/A\n"}));
  EXPECT_FALSE(finds("T11", {"GPU 00000000:3B:00.0\n    Fabric\n        State                             : "
                             "Completed\n        Status                            : Success\n"}));
  const auto ibstat = [](const char* name, int rate) {
    return fmt::format(
        "CA '{}'\n\tCA type: MT4129\n\tPort 1:\n\t\tState: Active\n\t\tPhysical state: LinkUp\n\t\tRate: {}\n\t\tLink "
        "layer: InfiniBand\n",
        name, rate);
  };
  EXPECT_TRUE(finds("T10", {ibstat("mlx5_0", 400) + ibstat("mlx5_1", 200)}));
  EXPECT_FALSE(finds("T10", {ibstat("mlx5_0", 400) + ibstat("mlx5_1", 400)}));
  const auto devinfo = [](const char* name, const char* width) {
    return fmt::format(
        "hca_id:\t{}\n\tboard_id:\t\tMT_838\n\t\tport:\t1\n\t\t\tstate:\t\t\tPORT_ACTIVE "
        "(4)\n\t\t\tactive_width:\t\t{} (2)\n\t\t\tactive_speed:\t\t100.0 Gbps (128)\n",
        name, width);
  };
  EXPECT_TRUE(finds("T10", {devinfo("mlx5_0", "4X") + devinfo("mlx5_1", "2X")}));
}

}  // namespace
}  // namespace weft::doctor
