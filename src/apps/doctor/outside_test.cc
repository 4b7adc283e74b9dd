// Inputs that users of other tools have sent to their trackers, in our own variations: other ranks, devices, numbers.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "apps/doctor/diagnosis.h"
#include "apps/doctor/memory.h"
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

std::string first(const report::DoctorReport& report) { return report.roots.empty() ? "" : report.roots[0].id; }

std::string watchdog(int rank, int work, int enqueued, int completed, const std::string& operation) {
  const std::string head = fmt::format("[rank{}]:[E1122 06:40:0{}.5 ProcessGroupNCCL.cpp:616] ", rank, rank);
  return fmt::format(
      "{}[Rank {}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={}, OpType={}, NumelIn=8, NumelOut=8, "
      "Timeout(ms)=600000) ran for 600080 milliseconds before timing out.\n"
      "{}[PG ID 0 PG GUID 0(default_pg) Rank {}] Exception (either an error or timeout) detected by watchdog at work: "
      "{}, last enqueued NCCL work: {}, last completed NCCL work: {}.\n",
      head, rank, work, operation, head, rank, work, enqueued, completed);
}

TEST(Outside, AGpuThatFellOffTheBusIsNamedWithItsAddressFromTheLineAbove) {
  const auto report =
      of("[ 1843.3] NVRM: The NVIDIA GPU 0000:c7:00.0\n"
         "               NVRM: (PCI ID: 10de:2330) installed in this system has\n"
         "               NVRM: fallen off the bus and is not responding to commands.\n");
  EXPECT_EQ(first(report), "F106");
  EXPECT_NE(report.verdict.find("GPU 0000:c7:00.0"), std::string::npos) << report.verdict;
  EXPECT_TRUE(report.troubled);
}

TEST(Outside, KernelLinesOfADriverThatFailsAreNoSilence) {
  EXPECT_EQ(first(of("[ 24.3] NVRM: GPU2 _kgspIsHeartbeatTimedOut: Heartbeat timed out, currentTimeMs 7\n")), "F111");
  EXPECT_EQ(first(of("[ 9.0] NVRM: The NVIDIA probe routine failed for 1 device(s).\n")), "G26");
  EXPECT_EQ(
      first(of("[ 1632.4] infiniband efa_2: Failed to process command CREATE_AH (opcode 9) comp_status 1 err -12\n")),
      "G25");
  EXPECT_EQ(first(of("libfabric:4:17::efa:cq:efa_rdm_txe_handle_error():737<warn> err: 113, message: No route\n")),
            "G24");
  for (const char* line :
       {"[ 3.1] mlx5_core 0000:17:00.0: frob_cmd(7): FROB failed, status 0x3", "kernel: NVRM: frobFifo: engine hung",
        "192.168.3.4: kern: warning: [2026-04-22T21:30:51Z]: NVRM: frobRead: timeout error at 4"})
    EXPECT_EQ(trouble_of(line), Trouble::kError) << line;
  for (const char* line : {"[ 3.1] NVRM: loading NVIDIA UNIX Open Kernel Module", "kernel: AER: enabled with IRQ 33",
                           "[ 4.0] mlx5_core 0000:17:00.0: firmware version: 28.39.1002"})
    EXPECT_EQ(trouble_of(line), Trouble::kNone) << line;
}

TEST(Outside, AKernelsLineNamesTheGpuAndItsHost) {
  const auto lost =
      of("Nov 20 03:12:01 gpu-09 kernel: NVRM: Xid (PCI:0000:9b:00): 79, pid=4411, name=python, GPU has fallen off\n");
  EXPECT_NE(lost.verdict.find("GPU 0000:9b:00.0 on gpu-09"), std::string::npos) << lost.verdict;
  const auto killed = of("2026-11-20T03:12:01+0000 gpu-31 kernel: Out of memory: Killed process 411 (python)\n");
  EXPECT_NE(killed.verdict.find("gpu-31"), std::string::npos) << killed.verdict;
  const auto full =
      of("[rank5]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.25 GiB. GPU 2 has a total capacity "
         "of 139.81 GiB of which 2.00 GiB is free.\n");
  EXPECT_NE(full.verdict.find("rank 5, GPU 2"), std::string::npos) << full.verdict;
  const auto braked = of("[node22:rank 13] GPU 6: power brake slowdown active, clocks 345 MHz\n");
  EXPECT_NE(braked.verdict.find("GPU 6"), std::string::npos) << braked.verdict;
}

TEST(Outside, KubernetesKillsAreNamedByTheirReason) {
  EXPECT_EQ(first(of("Last State:  Terminated\n  Reason:    OOMKilled\n  Exit Code: 137\n")), "F074");
  EXPECT_EQ(first(of("The node was low on resource: memory. Container w was using 58Gi, request is 32Gi.\n")), "G16");
}

TEST(Outside, UcxsRetriesAreAPathThatIsGone) {
  EXPECT_EQ(first(of("[r4c1:87:0:87] ib_mlx5_log.c:136  Transport retry count exceeded on mlx5_3:1/IB (synd 0x15 vend "
                     "0x81 hw_synd 0/0)\n")),
            "F041");
}

TEST(Outside, ARemappedRowAloneIsNoSilence) {
  const auto report =
      of("Nov 21 09:12:01 node8 kernel: NVRM: Xid (PCI:0000:1a:00): 63, pid='<unknown>', Row Remapper\n");
  EXPECT_EQ(report.verdict.find("No fault"), std::string::npos) << report.verdict;
  EXPECT_NE(report.verdict.find("row remap recorded, GPU 0000:1a:00.0 on node8"), std::string::npos) << report.verdict;
}

TEST(Outside, TabsOfAQuotedLineAreSpaces) {
  const auto report = of("node3: ERROR: \"cannot\topen\" frobnicator failed\n");
  EXPECT_NE(report.verdict.find("cannot open"), std::string::npos) << report.verdict;
}

// A port as ibstat prints it.
std::string ibstat(const char* device, const char* state, const char* physical, const char* layer) {
  return fmt::format(
      "CA '{}'\n\tCA type: MT4129\n\tNumber of ports: 1\n\tPort 1:\n\t\tState: {}\n\t\tPhysical state: {}\n\t\tRate: "
      "{}\n\t\tLink layer: {}\n",
      device, state, physical, std::string_view(state) == "Active" ? 400 : 10, layer);
}

TEST(Outside, APortThatIsDownBesideActiveOnesIsAFindingAndADisabledOneAHint) {
  const std::string active = ibstat("mlx5_2", "Active", "LinkUp", "InfiniBand");
  const auto disabled = of(active + ibstat("mlx5_5", "Down", "Disabled", "Ethernet"));
  EXPECT_EQ(first(disabled), "");
  EXPECT_FALSE(disabled.troubled);
  EXPECT_EQ(disabled.verdict,
            "No fault found; worth knowing: A port is switched off while others are active, mlx5_5 port 1");
  for (const char* physical : {"Polling", "LinkUp", "Sleep"}) {
    const auto down = of(active + ibstat("mlx5_6", "Down", physical, "InfiniBand"));
    EXPECT_EQ(first(down), "F062") << physical;
    EXPECT_NE(down.verdict.find("mlx5_6 port 1"), std::string::npos) << down.verdict;
  }
  EXPECT_EQ(first(of(ibstat("mlx5_5", "Down", "Disabled", "InfiniBand"))), "F062") << "no port at all is active";
  EXPECT_EQ(first(of(active + ibstat("mlx5_3", "Active", "LinkUp", "InfiniBand"))), "");
}

TEST(Outside, WhatTheLibrariesOfATransferReportStandsBeforeTheTransfer) {
  const std::string nixl = "nixl._bindings.nixlBackendError: NIXL_ERR_BACKEND\n";
  const auto versions =
      of("[1760000000.5] [nodeA:99:0]     ucp_context.c:1800 UCX  WARN  UCP version is incompatible, required: 1.19, "
         "actual: 1.13 (release 0)\n[2025-10-09 10:00:07 TP1] Scheduler hit an exception: Traceback (most recent call "
         "last):\n  File \"x.py\", line 3, in go\n    go()\n" +
         nixl);
  EXPECT_EQ(first(versions), "S21");
  EXPECT_EQ(versions.unknown.size(), 0u) << "the exception ends its traceback";
  EXPECT_EQ(first(of("[17.2] [nodeB:9:0] ib_mlx5_dv.c:440  UCX  ERROR   mlx5dv_devx_obj_create(QP) failed on mlx5_6, "
                     "syndrome 0x1: Remote I/O error\n" +
                     nixl)),
            "R12");
  EXPECT_EQ(first(of(nixl)), "G13");
}

// A block of torch elastic's summary.
std::string failure(int number, int rank, int exit, const char* traceback) {
  return fmt::format(
      "[{}]:\n  time      : 2026-03-04_05:06:07\n  host      : node{}\n  rank      : {} (local_rank: {})\n  exitcode  "
      ": "
      "{} (pid: {})\n  error_file: <N/A>\n  traceback : {}\n",
      number, rank / 8, rank, rank % 8, exit, 4000 + rank, traceback);
}

TEST(Outside, TheSummaryOfTorchElasticNamesTheFirstFailureAndNotWhomTheAgentKilled) {
  const std::string ended = failure(1, 4, -15, "Signal 15 (SIGTERM) received by PID 4004") +
                            failure(2, 9, -9, "Signal 9 (SIGKILL) received by PID 4009"),
                    begin = "train.py FAILED\nFailures:\n", root = "Root Cause (first observed failure):\n";
  const auto raised = of(begin + ended + root + failure(0, 6, 1, "To enable traceback see: https://pytorch.org"));
  EXPECT_EQ(first(raised), "S25");
  EXPECT_EQ(raised.culprits, std::vector<int>{6});
  const auto killed = of(begin + ended + root + failure(0, 11, -9, "Signal 9 (SIGKILL) received by PID 4011"));
  EXPECT_EQ(first(killed), "W06");
  EXPECT_EQ(killed.culprits, std::vector<int>{11});
  const auto with_cause = of("[rank6]: ValueError: no such tokenizer\n" + begin + ended + root +
                             failure(0, 6, 1, "To enable traceback see: https://pytorch.org"));
  EXPECT_EQ(first(with_cause), "W05");
}

TEST(Outside, FailuresOfToolsWithoutASeverityAreReported) {
  for (const char* line :
       {"/opt/start.sh: line 41: NODE_RANK: unbound variable", "opening the device failed",
        "node3: attach of queue failed: Resource temporarily unavailable", "frobctl: Failed to open /dev/frob0"})
    EXPECT_NE(trouble_of(line), Trouble::kNone) << line;
  for (const char* line : {"INFO Failed to load the plugin, using the internal one", "12 passed, 0 failed",
                           "n1:4:4 [0] NCCL INFO NET/Plugin: Failed to find ncclNetPlugin_v9 symbol.",
                           "see line 41: NODE_RANK", "retry 3: connect failed", "exit if it failed",
                           "[    0.512345] pci 0000:00:1f.0: BAR 13: failed to assign [io  size 0x1000]"})
    EXPECT_EQ(trouble_of(line), Trouble::kNone) << line;
}

TEST(Outside, AServiceThatDidNotStartIsNoSilence) {
  const auto imex = of(
      "Job for nvidia-imex.service failed because the control process exited with error code.\nSee \"systemctl status "
      "nvidia-imex.service\" for details.\n");
  EXPECT_EQ(first(imex), "S24");
  const auto none =
      of("nvidia-fabricmanager-start.sh[77]: request to query NVSwitch device information from NVSwitch driver failed "
         "with error:WARNING Nothing to do [NV_WARN_NOTHING_TO_DO]\nsystemd[1]: nvidia-fabricmanager.service: Control "
         "process exited, code=exited, status=1/FAILURE\n");
  EXPECT_EQ(first(none), "R38") << "there is nothing that it could manage";
}

TEST(Outside, AHeadingOfAnErrorIsNoErrorAndItsPeerIsNamed) {
  const auto report =
      of("[rank3]:[E207 19:37:09.9 ProcessGroupNCCL.cpp:1895] [PG ID 0 PG GUID 0 Rank 3] Process group watchdog thread "
         "terminated with exception: NCCL error: remote process exited or there was a network error\nLast error:\n"
         "socketProgressOpt: Call to recv from 10.9.8.7<49000> failed : Connection reset by peer\n");
  EXPECT_TRUE(report.unknown.empty());
  EXPECT_NE(report.next.find("10.9.8.7"), std::string::npos) << report.next;
  const auto gloo = of(
      "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.1.2.3]:4455\n");
  EXPECT_NE(gloo.next.find("is 10.1.2.3:"), std::string::npos) << gloo.next;
}

TEST(Outside, APortThatIsDownIsNamedByItsDevice) {
  const auto ibstatus =
      of("Infiniband device 'mlx5_7' port 1 status:\n\tstate:\t\t 1: DOWN\n\tphys state:\t 3: Disabled\n");
  EXPECT_EQ(first(ibstatus), "F062");
  EXPECT_NE(ibstatus.verdict.find("mlx5_7 port 1"), std::string::npos) << ibstatus.verdict;
  const auto ibstat = of(
      "CA 'mlx5_0'\n\tPort 1:\n\t\tState: Active\n\t\tPhysical state: LinkUp\nCA 'mlx5_3'\n\tPort 2:\n\t\tState: Down\n"
      "\t\tPhysical state: Polling\n");
  EXPECT_NE(ibstat.verdict.find("mlx5_3 port 2"), std::string::npos) << ibstat.verdict;
  EXPECT_EQ(ibstat.verdict.find("mlx5_0"), std::string::npos);
  const auto devinfo = of("hca_id:\tmlx5_5\n\tphys_port_cnt:\t1\n\t\tport:\t1\n\t\t\tstate:\t\t\tPORT_DOWN (1)\n");
  EXPECT_NE(devinfo.verdict.find("mlx5_5 port 1"), std::string::npos) << devinfo.verdict;
  EXPECT_FALSE(of("hca_id:\tmlx5_5\n\t\tport:\t1\n\t\t\tstate:\t\t\tPORT_ACTIVE (4)\n").troubled);
}

TEST(Outside, TheWatchdogsSecondLineIsAnEffectAndTheRankThatHasCompletedLessIsBehind) {
  const auto report = of(watchdog(0, 52, 57, 51, "_REDUCE_SCATTER_BASE") + watchdog(1, 56, 57, 55, "_ALLGATHER_BASE"));
  EXPECT_TRUE(report.unknown.empty());
  ASSERT_EQ(first(report), "W01") << report.verdict;
  EXPECT_EQ(report.culprits, std::vector<int>{0});
  EXPECT_NE(report.roots[0].evidence[0].text.find("rank 0 has completed 51 calls, 1 others 55; it waits in call 52, "
                                                  "_REDUCE_SCATTER_BASE"),
            std::string::npos)
      << report.roots[0].evidence[0].text;
}

TEST(Outside, RanksThatHaveAllCompletedAsMuchHaveNoCulpritAndTheJobWasStillEnded) {
  const auto report = of(watchdog(0, 52, 55, 51, "ALLREDUCE") + watchdog(3, 52, 55, 51, "ALLREDUCE"));
  EXPECT_TRUE(report.roots.empty());
  EXPECT_TRUE(report.unknown.empty());
  EXPECT_TRUE(report.troubled);
  EXPECT_NE(report.verdict.find("Something ended this job"), std::string::npos) << report.verdict;
}

TEST(Outside, ADeadGpuStandsBeforeTheWatchdogsOfItsJob) {
  const auto report = of(watchdog(1, 52, 55, 51, "ALLREDUCE") + "[ 1843.3] NVRM: The NVIDIA GPU 0000:c7:00.0\n" +
                         "               NVRM: fallen off the bus and is not responding to commands.\n");
  EXPECT_EQ(first(report), "F106");
}

TEST(Outside, TwoRanksThatCallDifferentThingsAreBothNamed) {
  const auto report = of(watchdog(2, 80, 81, 79, "BROADCAST") + watchdog(5, 80, 81, 79, "ALLREDUCE"));
  ASSERT_EQ(first(report), "F065");
  EXPECT_EQ(report.roots[0].evidence[0].text,
            "rank 2 waits in call 80 with operation BROADCAST, rank 5 with ALLREDUCE");
}

TEST(Outside, FragmentationIsSaidOnlyWhereTheUnusedPartWouldHaveHeldTheRequest) {
  const std::string advice =
      " If reserved memory is >> allocated memory try setting max_split_size_mb to avoid fragmentation.";
  EXPECT_EQ(
      fragmentation("RuntimeError: NPU out of memory. Tried to allocate 70.00 MiB (NPU 1; 60.9 GiB total capacity; "
                    "59.10 GiB already allocated; 4.24 MiB free; 59.60 GiB reserved in total by PyTorch)" +
                    advice),
      "");
  EXPECT_EQ(
      fragmentation("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 9.00 GiB. GPU 0 has a total "
                    "capacity of 79.11 GiB of which 1 GiB is free. Of the allocated memory 60.00 GiB is allocated by "
                    "PyTorch, and 12.00 GiB is reserved by PyTorch but unallocated."),
      "weft: reserved and unused are 12.00 GiB of 72.00 GiB, and 9.00 GiB were asked for");
  EXPECT_EQ(
      fragmentation("Tried to allocate 20.00 GiB. 60.00 GiB is allocated by PyTorch, and 12.00 GiB is reserved by "
                    "PyTorch but unallocated."),
      "")
      << "unfragmented it would not fit either";
  const auto report =
      of("[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. 60.00 GiB is "
         "allocated by PyTorch, and 12.00 GiB is reserved by PyTorch but unallocated." +
         advice + "\n");
  EXPECT_EQ(first(report), "F074");
  EXPECT_EQ(report.verdict.find("wait"), std::string::npos) << report.verdict;
}

TEST(Outside, WarningsThatNoRuleKnowsAreTrouble) {
  EXPECT_TRUE(of("n1:1:2 [0] NCCL WARN transport/frob.cc:12 The frobnicator is upside down\n").troubled);
  EXPECT_FALSE(of("n1:1:2 [0] NCCL INFO Using network IB\n").troubled);
}

TEST(Outside, AFolderOfWhichNothingCanBeReadIsAnError) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::temp_directory_path() / ("weft_outside_" + std::to_string(getpid()));
  fs::create_directories(folder);
  std::ofstream(folder / "core.1") << std::string(
                                          "\x7f"
                                          "ELF\0\0\0\0\x01\x02",
                                          10)
                                   << std::string(64, '\0') << "x";
  Evidence evidence(*shipped_rules());
  const auto status = evidence.add_path(folder.string());
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().message.find("no file of the folder can be read"), std::string::npos);
  std::ofstream(folder / "u.log") << std::string(
      "\xff\xfe"
      "o\0k\0\n\0",
      8);
  EXPECT_TRUE(Evidence(*shipped_rules()).add_path(folder.string()));
  fs::remove_all(folder);
}

// vLLM prints tracebacks through its logger: of them the exception counts, not each line.
TEST(Outside, OfATracebackTheExceptionIsQuoted) {
  const std::string head = "(Worker_TP3 pid=88) ERROR 02-03 04:05:06 [executor.py:12] ";
  const auto known = of(head + "WorkerProc hit an exception.\n" + head + "Traceback (most recent call last):\n" + head +
                        "  File \"/a/b.py\", line 3, in f\n" + head + "    raise ValueError(\"no shape\")\n" + head +
                        "ValueError: no shape\n");
  EXPECT_EQ(first(known), "W05");
  EXPECT_EQ(known.culprits, std::vector<int>{3});
  EXPECT_TRUE(known.unknown.empty());
  // An exception that no rule takes for a cause: the line that ends the traceback is quoted.
  const auto unknown = of(head + "Traceback (most recent call last):\n" + head + "  File \"/a/b.py\", line 3\n" + head +
                          "ConnectionFrobError: peer has no frob\n");
  ASSERT_EQ(unknown.unknown.size(), 1u);
  EXPECT_NE(unknown.unknown[0].fact.text.find("peer has no frob"), std::string::npos);
  // Cut off before its exception: the traceback itself is reported.
  const auto cut = of("[rank4]: Traceback (most recent call last):\n[rank4]:   File \"/a/b.py\", line 3\n");
  ASSERT_EQ(cut.unknown.size(), 1u);
  EXPECT_TRUE(cut.troubled);
  EXPECT_EQ(cut.unknown[0].fact.rank, 4);
}

TEST(Outside, CorrectedErrorsOfAPcieLinkAreNoFault) {
  const auto report =
      of("[ 1.1] pcieport 0000:20:03.1: AER: Corrected error received: 0000:21:00.0\n"
         "[ 1.1] nvidia 0000:21:00.0: PCIe Bus Error: severity=Corrected, type=Physical Layer\n"
         "[ 1.1] pcieport 0000:20:03.1:   device [8086:347a] error status/mask=00000001/00002000\n"
         "[ 1.1] pcieport 0000:20:03.1:    [ 0] RxErr\n");
  EXPECT_FALSE(report.troubled);
  EXPECT_TRUE(report.roots.empty());
  EXPECT_NE(report.verdict.find("corrected"), std::string::npos) << report.verdict;
}

TEST(Outside, APeerThatIsWrittenAsATupleIsNamedWithoutItsBrackets) {
  const auto report =
      of("torch.distributed.DistNetworkError: The client socket has timed out after 60000ms while trying "
         "to connect to (trainer-0, 29511).\n");
  EXPECT_NE(report.verdict.find("peer trainer-0"), std::string::npos) << report.verdict;
  EXPECT_EQ(report.verdict.find("(trainer"), std::string::npos) << report.verdict;
}

TEST(Outside, AMonitoredBarrierBlamesTheRanksThatAreMissing) {
  const auto several = of("RuntimeError: [Rank 0]: Ranks 3, 11, 12 failed to pass monitoredBarrier in 60000 ms\n");
  EXPECT_EQ(first(several), "F068");
  EXPECT_EQ(several.culprits, (std::vector<int>{3, 11, 12})) << several.verdict;
  const auto one = of("[rank0]: RuntimeError: [Rank 0]: Rank 6 failed to pass monitoredBarrier in 2000 ms\n");
  EXPECT_EQ(one.culprits, std::vector<int>{6}) << one.verdict;
}

TEST(Outside, WhatTorchWarnsOfInRunsThatGoWellIsNoFault) {
  for (const char* line :
       {"[rank3]:[W1104 09:00:01.222 ProcessGroupNCCL.cpp:1496] Warning: WARNING: destroy_process_group() was not "
        "called "
        "before program exit, which can leak resources.\n",
        "[W ProcessGroupNCCL.cpp:1250] Warning: WARNING: process group has NOT been destroyed before we destruct "
        "ProcessGroupNCCL.\n",
        "[W socket.cpp:663] [c10d] The client socket cannot be initialized to connect to [node7]:29501 (errno: 97 - "
        "Address family not supported by protocol).\n"}) {
    const auto report = of(line);
    EXPECT_FALSE(report.troubled) << report.verdict;
  }
}

TEST(Outside, HorovodsCoordinatorIsNotTheRankThatItWaitsFor) {
  const auto report =
      of("[1,0]<stderr>:[2024-01-02 10:00:00.100000: W horovod/common/operations.cc:588] HorovodAllreduce_a_0 "
         "[missing ranks: 5]\n");
  EXPECT_EQ(first(report), "R48");
  EXPECT_NE(report.verdict.find("rank 5"), std::string::npos) << report.verdict;
}

}  // namespace
}  // namespace weft::doctor
