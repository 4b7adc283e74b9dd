// A line names nodes, pods, NICs, switches and ranks; some lines report nothing.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "apps/doctor/diagnosis.h"
#include "apps/doctor/named.h"
#include "apps/doctor/parts.h"
#include "apps/doctor/trouble.h"

namespace weft::doctor {
namespace {

report::DoctorReport of(std::string_view text) {
  Evidence evidence(*shipped_rules());
  evidence.add_text("log", text);
  evidence.finish();
  return diagnose(evidence);
}

std::vector<std::string> parts(std::string_view text) {
  const auto report = of(text);
  if (!report.roots.empty()) return report.roots[0].parts;
  return report.folded.empty() ? std::vector<std::string>{} : report.folded[0].parts;
}
using Names = std::vector<std::string>;

TEST(Places, ADeviceHasOneNameHoweverItsAddressIsWritten) {
  EXPECT_EQ(parts("[ 7.1] NVRM: Xid (PCI:0000:AB:00): 79, pid=7, GPU has fallen off the bus.\n"
                  "[ 7.2] NVRM: GPU 0000:ab:00.0: GPU has fallen off the bus.\n"
                  "GPU 00000000:AB:00.0: GPU is lost\n"),
            Names{"GPU 0000:ab:00.0"});
  EXPECT_EQ(parts("[ 7.1] nvidia-nvswitch5: SXid (PCI:0000:07:00.0): 24007, Fatal, Link 3 sourcetrack timeout\n"),
            Names{"NVSwitch 0000:07:00.0"});
  EXPECT_EQ(parts("May  1 10:00:00 n9 kernel: mlx5_core 0000:c1:00.0: Port module event[error]: module 0, Cable error, "
                  "Bus stuck\nMay  1 10:00:01 n9 kernel: mlx5_core 0000:c1:00.0 mlx5_8: Port: 1 Link DOWN\n"),
            Names{"mlx5_8 on n9"});
  EXPECT_EQ(parts("May  1 10:00:00 n9 kernel: mlx5_core 0000:c1:00.0: Port module event: module 0, Cable unplugged\n"),
            Names{"NIC 0000:c1:00.0 on n9"});
}

TEST(Places, AnSxidWithoutASeverityIsNoSilenceAndADetailOfOneThatHasOne) {
  const std::string data = "[ 9.1] nvidia-nvswitch2: SXid (PCI:0000:07:00.0): 20009, Data {0x2b, 0x0}\n";
  EXPECT_EQ(parts(data), Names{"NVSwitch 0000:07:00.0"});
  const auto both = of(data + "[ 9.2] nvidia-nvswitch2: SXid (PCI:0000:07:00.0): 20009, Non-fatal, Link 5 frob\n");
  EXPECT_TRUE(both.roots.empty()) << both.verdict;
  EXPECT_TRUE(both.unknown.empty());
}

TEST(Places, NodesAndPodsAreNamed) {
  EXPECT_EQ(parts("srun: error: Node failure on gpu-b[03-04]\n"), Names{"node gpu-b[03-04]"});
  EXPECT_EQ(parts("2m  Normal  NodeNotReady  node/gpu-31  Node gpu-31 status is now: NodeNotReady\n"),
            Names{"node gpu-31"});
  EXPECT_EQ(parts("gpu017     1   batch   drained   96    2:24:2 515000  0  1  (null) Kill task failed\n"),
            Names{"node gpu017"});
  EXPECT_EQ(parts("gpu*    up   infinite    3  down* gpu[011-013]\n"), Names{"node gpu[011-013]"});
  EXPECT_EQ(parts("gpu-31   NotReady   <none>   12d   v1.31.2\n"), Names{"node gpu-31"});
  EXPECT_EQ(
      parts("Name:         gpu-45\nRoles:        <none>\n  XidCriticalError     True    Wed, 04 Mar 2026 20:00:40\n"),
      Names{"node gpu-45"});
  EXPECT_EQ(parts("Name:         llm-worker-5\nNode:         gpu-44/10.1.0.44\nStatus:       Failed\n"
                  "    State:    Terminated\n      Reason:  OOMKilled\n"),
            Names{"pod llm-worker-5 on node gpu-44"});
  EXPECT_EQ(parts("9m   Warning   Evicted   pod/llm-worker-6   The node was low on resource: memory.\n"),
            Names{"pod llm-worker-6"});
  EXPECT_EQ(parts("[ 5.5] EDAC MC1: 1 UE memory read error on CPU_SrcID#0_MC#1_Chan#1_DIMM#1 (channel:1 slot:1)\n"),
            Names{"memory CPU_SrcID#0_MC#1_Chan#1_DIMM#1"});
}

TEST(Places, EventsOfKubernetesAndHardwareAreNoSilence) {
  for (const char* line :
       {"  Warning  FrobFailed  3m (x2 over 9m)  kubelet  could not frob the volume",
        "5m  Warning   DNSConfigForming  pod/a  x",
        "[ 9.1] watchdog: BUG: soft lockup - CPU#7 stuck for 26s! [python3:99]",
        "[ 9.1] rcu: INFO: rcu_sched self-detected stall on CPU", "[ 9.1] NVRM: Xid (PCI:0000:ab:00): 888, pid=1",
        "[ 9.1] nvidia-nvswitch0: SXid (PCI:0000:07:00.0): 29999, Link 3 frob"})
    EXPECT_NE(trouble_of(line), Trouble::kNone) << line;
  for (const char* line :
       {"Warning: Permanently added 'n3' (RSA) to the list of known hosts.",
        "  Normal   Pulled  3m  kubelet  Container image already present on machine",
        "  Type     Reason     Age    From     Message", "[ 9.1] EDAC MC0: Giving out device to module skx_edac",
        "[ 9.1] NVRM: GPU0 nvLogUnusualEvent: none"})
    EXPECT_EQ(trouble_of(line), Trouble::kNone) << line;
  const auto xid = of("[ 9.1] NVRM: Xid (PCI:0000:ab:00): 888, pid=1, frob engine\n");
  ASSERT_EQ(xid.roots.size(), 1u);
  EXPECT_EQ(xid.roots[0].id, "R59");
  EXPECT_EQ(xid.roots[0].parts, Names{"GPU 0000:ab:00.0"});
}

TEST(Places, AnEventThatCameOftenCountsAsOften) {
  EXPECT_EQ(times_named("  Warning  BackOff  14s (x12 over 5m)  kubelet  Back-off"), 12u);
  EXPECT_EQ(times_named("Scale (x8) of 3"), 1u);
  const auto report =
      of("  Warning  FailedMount  2m (x7 over 9m)  kubelet  MountVolume.SetUp failed for volume \"d\"\n"
         "  Warning  FailedMount  1m  kubelet  MountVolume.SetUp failed for volume \"e\"\n");
  ASSERT_EQ(report.roots.size(), 1u);
  EXPECT_EQ(report.roots[0].facts, 8u);
}

TEST(Places, OneLineHasOneCause) {
  const auto report = of(
      "[1700.5] [n7:91:0] ib_mlx5_log.c:171  UCX  ERROR Transport retry count exceeded on mlx5_2:1/IB (synd 0x15)\n");
  ASSERT_EQ(report.roots.size(), 1u) << report.verdict;
  EXPECT_EQ(report.roots[0].id, "F041");
  EXPECT_EQ(of("[1700.5] [n7:91:0] wireup.c:9  UCX  ERROR   something new\n").roots.at(0).id, "G11");
}

TEST(Places, APeerThatClosedItsSocketIsInTheAnswer) {
  const auto report =
      of("n1:7:9 [3] socket.c:550 NCCL WARN Net : Connection closed by remote peer gpu-c11.lan<46732>\n");
  EXPECT_EQ(report.peer, "gpu-c11.lan");
  EXPECT_NE(report.verdict.find("gpu-c11.lan"), std::string::npos) << report.verdict;
}

std::string block(int rank, const char* host, int exit, const char* traceback) {
  return fmt::format(
      "  time      : 2026-05-06_07:08:09\n  host      : {}\n  rank      : {} (local_rank: 0)\n  exitcode  : {} "
      "(pid: 9)\n  error_file: <N/A>\n  traceback : {}\n",
      host, rank, exit, traceback);
}

TEST(Places, ASummaryOfTorchrunNamesTheFirstRankThatCrashedItsHostAndItsExitCode) {
  const char* crash = "Signal 11 (SIGSEGV) received by PID 9";
  const auto report =
      of("Failures:\n[1]:\n" + block(18, "n2", -11, crash) + "-----\nRoot Cause (first observed failure):\n[0]:\n" +
         block(13, "n1", -11, crash) + "=====\n");
  ASSERT_EQ(report.roots.size(), 1u);
  EXPECT_EQ(report.roots[0].id, "W09");
  EXPECT_EQ(report.culprits, std::vector<int>{13});
  EXPECT_NE(report.verdict.find("node n1"), std::string::npos) << report.verdict;
  bool code = false;
  for (const auto& fact : report.roots[0].evidence) code = code || fact.text.find("exit code -11") != std::string::npos;
  EXPECT_TRUE(code);
}

TEST(Places, AnExceptionInASummaryIsOfTheRankAboveIt) {
  const auto report =
      of("Root Cause (first observed failure):\n[0]:\n" +
         block(21, "n2", 1,
               "Traceback (most recent call last):\n  File \"a.py\", line 3, in main\nValueError: no such key") +
         "=====\nValueError: of the launcher\n");
  ASSERT_FALSE(report.roots.empty());
  EXPECT_EQ(report.culprits, std::vector<int>{21}) << report.verdict;
}

TEST(Places, WatchdogsOfTwoRanksNameTheOneThatIsBehindOrBothWhereTheirCallsDiffer) {
  const auto line = [](int rank, const std::string& work) {
    return fmt::format(
        "[E ProcessGroupNCCL.cpp:737] [Rank {}] Watchdog caught collective operation timeout: WorkNCCL({}, "
        "Timeout(ms)=1800000) ran for 1806986 milliseconds before timing out.\n",
        rank, work);
  };
  const auto behind = of(line(4, "SeqNum=90, OpType=ALLREDUCE") + line(2, "SeqNum=91, OpType=ALLREDUCE"));
  ASSERT_EQ(behind.roots.size(), 1u) << behind.verdict;
  EXPECT_EQ(behind.roots[0].id, "W01");
  EXPECT_EQ(behind.culprits, std::vector<int>{4});
  const auto differ = of(line(4, "OpType=ALLREDUCE") + line(2, "OpType=BROADCAST"));
  ASSERT_EQ(differ.roots.size(), 1u) << differ.verdict;
  EXPECT_EQ(differ.roots[0].id, "F065");
  EXPECT_TRUE(of(line(4, "OpType=ALLREDUCE") + line(2, "OpType=ALLREDUCE")).roots.empty());
}

TEST(Places, LinesOfHealthyStartsAreNoFaults) {
  const auto report =
      of("n1:1:2 [0] NCCL INFO Ignored: failed to find plugin libnccl-net-frob.so\n"
         "n1:1:2 [0] NCCL INFO NET/Plugin: Could not find: libnccl-net.so. Using internal network plugin.\n"
         "n1:1:2 [0] NCCL INFO NET/Plugin : dlerror=libnccl-net.so: cannot open shared object file: No such file or "
         "directory No plugin found (libnccl-net.so), using internal implementation\n"
         "n1:1:2 [0] NCCL INFO TUNER/Plugin: Failed to find ncclTunerPlugin_v4 symbol.\n"
         "n1:1:2 [0] NCCL INFO dlvsym failed on ibv_query_ece - /lib/libibverbs.so: undefined symbol: ibv_query_ece, "
         "version "
         "IBVERBS_1.10\n"
         "n1:1:2 [0] NCCL INFO ncclMaxSharedMem 82240 exceeds device/fn maxSharedMem 79856\n"
         "CUDA_VISIBLE_DEVICES=\nCUDA_VISIBLE_DEVICES: \nexport CUDA_VISIBLE_DEVICES=''\n"
         "n1:1:2 [0] NCCL INFO comm 0x1 rank 0 nranks 2 cudaDev 0 - Init COMPLETE\n");
  EXPECT_TRUE(report.roots.empty()) << report.verdict;
  EXPECT_TRUE(report.unknown.empty()) << report.verdict;
  EXPECT_FALSE(report.troubled);
}

}  // namespace
}  // namespace weft::doctor
