#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

// What files, devices and names from elsewhere can do to the command: it exits with 0, 1 or 2, with one line, and
// replaces regular files only.
namespace weft {
namespace {

namespace fs = std::filesystem;

class HostileFiles : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) / ("weft-hostile-" + std::to_string(getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  // Runs the command in the test's folder; fills out_ and err_; returns the exit code, 124 after 20 s.
  int weft(const std::string& arguments) {
    const std::string line = "cd " + folder_.string() + " && timeout 20 " WEFT_COMMAND " " + arguments + " >" +
                             (arguments.find('>') == std::string::npos ? "out" : "/dev/null") + " 2>err </dev/null";
    const std::string plain =
        "cd " + folder_.string() + " && timeout 20 " WEFT_COMMAND " " + arguments + " 2>err </dev/null";
    const int status = std::system((arguments.find('>') == std::string::npos ? line : plain).c_str());
    out_ = text(folder_ / "out");
    err_ = text(folder_ / "err");
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  static std::string text(const fs::path& file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void put(const std::string& name, const std::string& content) { std::ofstream(folder_ / name) << content; }
  void expect_one_line(const std::string& part) {
    EXPECT_EQ(std::count(err_.begin(), err_.end(), '\n'), 1) << err_;
    EXPECT_NE(err_.find(part), std::string::npos) << err_;
  }

  fs::path folder_;
  std::string out_, err_;
};

TEST_F(HostileFiles, AnOutputThroughALinkLeavesTheLink) {
  put("target", "old");
  fs::create_symlink("target", folder_ / "link");
  EXPECT_EQ(weft("topo --on dgx-h100 --json link"), 0) << err_;
  EXPECT_TRUE(fs::is_symlink(folder_ / "link"));
  EXPECT_TRUE(nlohmann::json::accept(text(folder_ / "target")));
}

TEST_F(HostileFiles, AnOutputIntoADeviceLeavesTheDevice) {
  const fs::path device = folder_ / "null";
  if (mknod(device.c_str(), S_IFCHR | 0666, makedev(1, 3)) != 0) GTEST_SKIP() << "making a device node needs root";
  const int code = weft("topo --on dgx-h100 --json null");
  EXPECT_TRUE(fs::is_character_file(device));
  EXPECT_TRUE(code == 0 || (code == 2 && err_.find("cannot write null") != std::string::npos)) << err_;  // nodev
}

TEST_F(HostileFiles, AnOutputIntoAFifoReachesItsReader) {
  ASSERT_EQ(mkfifo((folder_ / "fifo").c_str(), 0600), 0);
  std::string got;
  std::thread reader([&] { got = text(folder_ / "fifo"); });
  EXPECT_EQ(weft("topo --on dgx-h100 --json fifo"), 0) << err_;
  reader.join();
  EXPECT_TRUE(nlohmann::json::accept(got));
  EXPECT_TRUE(fs::is_fifo(folder_ / "fifo"));
}

TEST_F(HostileFiles, ARegularOutputIsReplacedAndKeepsItsMode) {
  put("out.json", "old");
  fs::permissions(folder_ / "out.json", fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_EQ(weft("topo --on dgx-h100 --json out.json"), 0) << err_;
  EXPECT_TRUE(nlohmann::json::accept(text(folder_ / "out.json")));
  EXPECT_EQ(fs::status(folder_ / "out.json").permissions(), fs::perms::owner_read | fs::perms::owner_write);
  for (const auto& entry : fs::directory_iterator(folder_)) {
    const std::string name = entry.path().filename();
    EXPECT_TRUE(name == "out.json" || name == "out" || name == "err") << "a draft is left: " << name;
  }
}

TEST_F(HostileFiles, AFullDeviceIsAnErrorForTextAndForJson) {
  EXPECT_EQ(weft("topo --on dgx-h100 --json - >/dev/full"), 2);
  expect_one_line("cannot write standard output: No space left on device");
  EXPECT_EQ(weft("topo --on dgx-h100 >/dev/full"), 2);
  expect_one_line("cannot write standard output: No space left on device");
}

TEST_F(HostileFiles, ANameThatIsNoUtf8IsReplacedInJson) {
  std::string xml = text(WEFT_SOURCE "/tests/fuzz/corpus/msccl_xml/ring.xml");
  const std::size_t name = xml.find("name=\"");
  ASSERT_NE(name, std::string::npos);
  const std::size_t end = xml.find('"', name + 6);
  put("bytes.xml", xml.replace(name + 6, end - name - 6, "\xff\x1b[31m"));
  const int code = weft("verify bytes.xml --json -");
  EXPECT_TRUE(code == 0 || code == 2) << code << err_;
  if (code == 0) EXPECT_TRUE(nlohmann::json::accept(out_)) << out_;
  EXPECT_EQ(err_.find('\x1b'), std::string::npos);
}

// Escape sequences in names would act on the terminal that a command prints to.
TEST_F(HostileFiles, NamesFromFilesReachTheTerminalWithoutEscapes) {
  std::string xml = text(WEFT_SOURCE "/tests/fuzz/corpus/msccl_xml/ring.xml");
  const std::size_t name = xml.find("name=\""), end = xml.find('"', name + 6);
  put("escape.xml", xml.replace(name + 6, end - name - 6, "\xc2\x9b[31mred"));  // a C1 control, which XML allows
  EXPECT_EQ(weft("verify escape.xml"), 0) << err_;
  EXPECT_NE(out_.find("red"), std::string::npos) << out_;
  EXPECT_EQ((out_ + err_).find("\xc2\x9b"), std::string::npos) << out_;
  ASSERT_EQ(weft("topo --on dgx-h100 --json machine.json"), 0) << err_;
  auto machine = nlohmann::json::parse(text(folder_ / "machine.json"));
  const auto at =
      machine.contains("topology") ? nlohmann::json::json_pointer("/topology") : nlohmann::json::json_pointer("");
  machine[at]["title"] = "\x1b[2Jgone";
  for (auto& device : machine[at]["devices"]) device["model"] = "\x1b[31mred";
  put("machine.json", machine.dump());
  const int code = weft("topo --on machine.json");
  EXPECT_TRUE(code == 0 || code == 2) << code;
  EXPECT_NE((out_ + err_).find("\\x1b"), std::string::npos) << out_ << err_;
  EXPECT_EQ((out_ + err_).find('\x1b'), std::string::npos);
}

TEST_F(HostileFiles, AnAbsurdNumberOfIterationsIsRefused) {
  EXPECT_EQ(weft("bench all_reduce -n 2 --iters 9223372036854775807"), 2);
  EXPECT_NE(err_.find("--iters"), std::string::npos) << err_;
}

TEST_F(HostileFiles, ATraceWhoseTimeIsNoNumberIsRefusedByItsLine) {
  put("trace.json",
      "[\n{\"name\":\"weft\",\"args\":{\"job\":\"j\"}},\n{\"name\":\"x\",\"ts\":{}},\n{\"name\":\"y\",\"ts\":1}\n]\n");
  EXPECT_EQ(weft("trace trace.json"), 2) << out_;
  expect_one_line("trace.json:3");
}

TEST_F(HostileFiles, FifosAndEndlessDevicesAreRefusedAsInput) {
  ASSERT_EQ(mkfifo((folder_ / "fifo").c_str(), 0600), 0);
  EXPECT_EQ(weft("trace fifo"), 2);
  expect_one_line("not a regular file");
  EXPECT_EQ(weft("trace /dev/zero"), 2);
  expect_one_line("not a regular file");
  put("tables.json", R"({"schema":"weft.measured/1","tables":[{"file":"fifo","on":"dgx-h100"}]})");
  EXPECT_EQ(weft("accuracy ."), 2);
  expect_one_line("not a regular file");
}

TEST_F(HostileFiles, AListOfTablesReachesNoOtherFolder) {
  put("t.csv", "# t\nbytes,time_us\n1024,10\n");
  put("tables.json", R"({"schema":"weft.measured/1","tables":[{"file":"/etc/passwd","on":"dgx-h100"}]})");
  EXPECT_EQ(weft("accuracy ."), 2);
  expect_one_line("is not a name in the folder of the list");
  put("tables.json",
      R"({"schema":"weft.measured/1","tables":[{"file":"t.csv","name":"../../x","on":"dgx-h100","ranks":8}]})");
  EXPECT_EQ(weft("accuracy . --svg pictures"), 2);
  expect_one_line("is not usable as a file's name");
}

// All options that name a file or folder to write: a command that could not write ends before its work, without output.
TEST_F(HostileFiles, EveryOutputIsCheckedBeforeTheWork) {
  put("plain", "no folder");
  put("requests.jsonl", "");
  for (const std::string command : {"bench all_reduce --on dgx-h100 --json",
                                    "bench all_reduce --on dgx-h100 --min 1K --max 1K --timeline",
                                    "explain all_reduce --on dgx-h100 --json",
                                    "explain all_reduce --on dgx-h100 --table",
                                    "verify all_reduce --algo ring --json",
                                    "schedule all_reduce --algo ring --ranks 4 --svg",
                                    "schedule all_reduce --algo ring --ranks 4 --xml",
                                    "schedule all_reduce --algo ring --ranks 4 --json",
                                    "topo --on dgx-h100 --json",
                                    "topo --on dgx-h100 --svg",
                                    "topo --on dgx-h100 --xml",
                                    "topo --on dgx-h100 --slurm",
                                    "topo --on dgx-h100 --heat",
                                    "topo --on dgx-h100 --stairs",
                                    "topo --on dgx-h100 --kubernetes",
                                    "place --on dgx-h100 --json",
                                    "catalog --json",
                                    "accuracy --json",
                                    "train llama3-8b --on dgx-h100 --json",
                                    "train llama3-8b --on dgx-h100 --timeline",
                                    "doctor plain --json",
                                    "check --json",
                                    "explore all_reduce --on dgx-h100 --out",
                                    "explore all_reduce --on dgx-h100 --json",
                                    "replay plain --on dgx-h100 --json",
                                    "trace plain --out",
                                    "trace plain --json",
                                    "kv size plain --json",
                                    "kv replay requests.jsonl --json",
                                    "calibrate --out",
                                    "calibrate --json",
                                    "ps --json"}) {
    EXPECT_EQ(weft(command + " plain/file"), 2) << command;
    expect_one_line("cannot write plain/file: Not a directory");
    EXPECT_EQ(out_, "") << command;
  }
  for (const std::string command : {"topo --record", "accuracy --svg"}) {  // these write folders
    EXPECT_EQ(weft(command + " plain/folder"), 2) << command;
    expect_one_line("plain is no folder");
    EXPECT_EQ(out_, "") << command;
  }
  EXPECT_EQ(text(folder_ / "plain"), "no folder");
}

TEST_F(HostileFiles, NamesReachPicturesAndPagesWithoutMarkupOrControls) {
  ASSERT_EQ(weft("topo --on dgx-h100 --json machine.json"), 0) << err_;
  auto machine = nlohmann::json::parse(text(folder_ / "machine.json"));
  const auto at =
      machine.contains("topology") ? nlohmann::json::json_pointer("/topology") : nlohmann::json::json_pointer("");
  const std::string hostile = "</script></text><script>alert(1)</script>\x1b[31m'\"&";
  machine[at]["title"] = hostile;
  for (auto& device : machine[at]["devices"]) device["model"] = hostile;
  put("machine.json", machine.dump());
  ASSERT_EQ(weft("topo --on machine.json --svg machine.svg"), 0) << err_;
  ASSERT_EQ(weft("explore all_reduce --on machine.json --out page.html"), 0) << err_;
  std::string xml = text(WEFT_SOURCE "/tests/fuzz/corpus/msccl_xml/ring.xml");
  const std::size_t name = xml.find("name=\""), end = xml.find('"', name + 6);
  put("named.xml", xml.replace(name + 6, end - name - 6, "&lt;script&gt;alert(1)&lt;/script&gt;\xc2\x9b[31m&amp;"));
  ASSERT_EQ(weft("schedule named.xml --svg schedule.svg --xml again.xml --json again.json"), 0) << err_;
  for (const std::string file : {"machine.svg", "page.html", "schedule.svg", "again.xml", "again.json"}) {
    const std::string written = text(folder_ / file);
    ASSERT_FALSE(written.empty()) << file;
    EXPECT_TRUE(file == "again.json" || written.find("<script>alert") == std::string::npos) << file;
    EXPECT_EQ(written.find('\x1b'), std::string::npos) << file;
    EXPECT_EQ(written.find("\xc2\x9b"), std::string::npos) << file;
  }
}

TEST_F(HostileFiles, AProofOfManyRanksEndsWithinStatedLimits) {
  for (const std::string ranks : {"1048576", "100000000", "9223372036854775807"}) {
    EXPECT_EQ(weft("verify all_to_all --algo pairwise --ranks " + ranks), 2) << ranks;
    expect_one_line("--ranks");
  }
}

TEST_F(HostileFiles, AnHwlocFileThatCrashesLibhwlocIsRefused) {
  const std::string machine = R"(<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0">
  <object type="Machine" os_index="0" cpuset="0x3" complete_cpuset="0x3" allowed_cpuset="0x3" nodeset="0x1" complete_nodeset="0x1" allowed_nodeset="0x1" gp_index="1">
    <object type="NUMANode" os_index="0" cpuset="0x3" complete_cpuset="0x3" nodeset="0x1" complete_nodeset="0x1" gp_index="2" local_memory="1048576"/>
    <object type="Core" os_index="0" cpuset="0x1" complete_cpuset="0x1" nodeset="0x1" complete_nodeset="0x1" gp_index="3">
      <object type="PU" os_index="0" cpuset="0x1" complete_cpuset="0x1" nodeset="0x1" complete_nodeset="0x1" gp_index="4"/>
    </object>
    <object type="Core" os_index="1" cpuset="0x2" complete_cpuset="0x2" nodeset="0x1" complete_nodeset="0x1" gp_index="5">
      <object type="PU" os_index="1" cpuset="0x2" complete_cpuset="0x2" nodeset="0x1" complete_nodeset="0x1" gp_index="6"/>
    </object>
  </object>
</topology>
)";
  put("machine.xml", machine);
  ASSERT_EQ(weft("topo --on ./machine.xml"), 0) << err_;
  for (std::size_t at = machine.find("complete_cpuset"); at != std::string::npos;
       at = machine.find("complete_cpuset", at + 1)) {
    std::string damaged = machine;
    damaged.erase(at, damaged.find('"', damaged.find('"', at) + 1) + 1 - at);
    put("machine.xml", damaged);
    const int code = weft("topo --on ./machine.xml");
    EXPECT_TRUE(code == 0 || code == 2) << code << " without the " << at << "th byte's attribute: " << err_;
  }
}

TEST_F(HostileFiles, AFileNameOfFiveThousandBytesIsAnError) {
  const std::string name(5000, 'a');
  EXPECT_EQ(weft("accuracy " + name), 2);
  EXPECT_EQ(weft("verify " + name + ".xml"), 2);
  EXPECT_EQ(weft("topo --on ./" + name + ".xml"), 2);
}

}  // namespace
}  // namespace weft
