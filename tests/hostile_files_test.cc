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

TEST_F(HostileFiles, AFileNameOfFiveThousandBytesIsAnError) {
  const std::string name(5000, 'a');
  EXPECT_EQ(weft("accuracy " + name), 2);
  EXPECT_EQ(weft("verify " + name + ".xml"), 2);
  EXPECT_EQ(weft("topo --on ./" + name + ".xml"), 2);
}

}  // namespace
}  // namespace weft
