// Memory of GPUs in transfers: agents of one process and of two, by every path, on the runtime that stands for CUDA's,
// and as weft_transfer_gpu on a GPU (bench/gpu).

#include <gtest/gtest.h>

#include <cuda_runtime.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstring>
#include <numeric>

#include "tests/child.h"
#include "tests/transfer_paths.h"

namespace weft::transfer {
namespace {

using tests::Child;

constexpr std::int64_t kPage = 4096, kSize = 64 * kPage;

std::byte byte_at(std::int64_t i, int seed) { return static_cast<std::byte>(i * 7 + i / kPage + seed); }
std::vector<std::byte> pattern(int seed) {
  std::vector<std::byte> bytes(kSize);
  for (std::int64_t i = 0; i < kSize; ++i) bytes[static_cast<std::size_t>(i)] = byte_at(i, seed);
  return bytes;
}
void put(const Registration& gpu, int seed) {
  const auto bytes = pattern(seed);
  ASSERT_EQ(cudaMemcpy(gpu.data, bytes.data(), kSize, cudaMemcpyHostToDevice), cudaSuccess);
}
bool holds(const Registration& gpu, int seed) {
  std::vector<std::byte> bytes(kSize);
  return cudaMemcpy(bytes.data(), gpu.data, kSize, cudaMemcpyDeviceToHost) == cudaSuccess && bytes == pattern(seed);
}

std::vector<Rows> rows_of(std::uint32_t region) { return {{region, 0, kPage, kPage, kSize / kPage}}; }

// Block tables that name each page once, and its generation where pages are fenced.
struct Table {
  std::vector<std::uint32_t> blocks;
  std::vector<std::uint64_t> generations;
};

Error move(Agent& agent, Op op, std::uint32_t mine, const std::string& peer, std::uint32_t theirs,
           const Table& table = {}, bool verify = false) {
  auto local = agent.prepare("", rows_of(mine));
  auto remote = agent.prepare(peer, rows_of(theirs));
  if (!local || !remote) return !local ? local.error() : remote.error();
  auto request = agent.make(op, *local, *remote,
                            {.remote_blocks = table.blocks, .generations = table.generations, .verify = verify});
  if (!request) return request.error();
  if (const Status posted = agent.post(*request); !posted) return posted.error();
  if (agent.wait(*request, std::chrono::seconds(60)) == State::kDone) return {};
  return request->error();
}

// A server of another process: region 0 is of a GPU, 1 the host's by the allocator, 2 plain memory, 3 of a GPU in
// fenced pages that are all out and sealed. It answers "look" with which of them holds the pattern of seed 5.
void serve(Child& parent) {
  auto agent = Agent::open(tests::by_any({.name = "server", .key = "k", .listen = "127.0.0.1:0"}));
  ASSERT_TRUE(agent);
  const auto gpu = agent->allocate_gpu(kSize);
  ASSERT_TRUE(gpu) << gpu.error().message;
  const Registration host = *agent->allocate(kSize);
  std::vector<std::byte> plain = pattern(3);
  ASSERT_TRUE(agent->add_memory(plain.data(), kSize));
  const Registration pages = *agent->allocate_gpu(kSize, kPage);
  put(*gpu, 1);
  std::memcpy(host.data, pattern(2).data(), kSize);
  put(pages, 4);
  std::string generations;
  for (std::int64_t i = 0; i < kSize / kPage; ++i) {
    const Page page = *agent->acquire(pages, 1);
    ASSERT_EQ(page.index, i);
    ASSERT_TRUE(agent->seal(pages, page));
    generations.append(reinterpret_cast<const char*>(&page.generation), sizeof page.generation);
  }
  parent.say(*agent->metadata());
  parent.say(generations);
  for (std::string order = parent.receive(); !order.empty(); order = parent.receive()) {
    std::string said;
    for (const Registration& r : {*gpu, pages}) said += holds(r, 5) ? "5" : "-";
    said += std::memcmp(host.data, pattern(5).data(), kSize) == 0 ? "5" : "-";
    said += plain == pattern(5) ? "5" : "-";
    parent.say(said);
  }
}

class GpuTransfer : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (const std::string why = tests::missing(GetParam()); !why.empty()) GTEST_SKIP() << why;
  }
};

TEST_P(GpuTransfer, AGpuAndAnotherProcessReadAndWriteEachOthersMemoryByEveryPath) {
  Child server("serve");
  auto agent = Agent::open(tests::by(GetParam(), {.name = "reader", .key = "k"}));
  ASSERT_TRUE(agent);
  const auto loaded = agent->load(server.receive());
  ASSERT_TRUE(loaded) << loaded.error().message;
  const std::string generations = server.receive();
  const bool network = GetParam() != "shared memory";
  const std::string paths = *agent->explain("server");
  EXPECT_NE(paths.find(network ? "region 0: " + GetParam() : "region 0: gpu memory: the peer's process shares it"),
            std::string::npos)
      << paths;
  const Registration gpu = *agent->allocate_gpu(kSize), host = *agent->allocate(kSize);
  Table table;
  table.blocks.resize(kSize / kPage);
  std::iota(table.blocks.begin(), table.blocks.end(), 0U);
  table.generations.resize(table.blocks.size());
  std::memcpy(table.generations.data(), generations.data(), generations.size());
  for (std::uint32_t region : {0U, 1U, 2U, 3U}) {
    const Table& its = region == 3 ? table : Table{};
    const int seed = static_cast<int>(region) + 1;
    put(gpu, 9);
    EXPECT_EQ(move(*agent, Op::kRead, gpu.region, "server", region, its, region == 3).message, "") << region;
    EXPECT_TRUE(holds(gpu, seed)) << region;
    std::memset(host.data, 0, kSize);
    EXPECT_EQ(move(*agent, Op::kRead, host.region, "server", region, its, region == 3).message, "") << region;
    EXPECT_EQ(std::memcmp(host.data, pattern(seed).data(), kSize), 0) << region;
  }
  put(gpu, 5);
  for (std::uint32_t region : {0U, 1U, 2U, 3U}) {
    const Table& its = region == 3 ? table : Table{};
    EXPECT_EQ(move(*agent, Op::kWrite, gpu.region, "server", region, its, region == 3).message, "") << region;
  }
  server.say("look");
  EXPECT_EQ(server.receive(), "5555");
  // What was written with checksums is read with them, and by another generation not at all.
  put(gpu, 9);
  EXPECT_EQ(move(*agent, Op::kRead, gpu.region, "server", 3, table, true).message, "");
  EXPECT_TRUE(holds(gpu, 5));
  ++table.generations[7];
  EXPECT_EQ(move(*agent, Op::kWrite, gpu.region, "server", 3, table).message,
            "peer 'server': page 7 of region 3 has been released, or given to another owner");
}

INSTANTIATE_TEST_SUITE_P(Paths, GpuTransfer, testing::Values("shared memory", "tcp", "ucx"), [](const auto& info) {
  return info.param == "shared memory" ? std::string("shared") : info.param;
});

TEST(GpuTransfers, AnAgentMovesBetweenItsGpuItsMemoryAndItsFiles) {
  auto agent = Agent::open({.name = "alone"});
  const Registration gpu = *agent->allocate_gpu(kSize), host = *agent->allocate(kSize);
  const std::string path = testing::TempDir() + "weft_gpu_" + std::to_string(getpid());
  std::fclose(std::fopen(path.c_str(), "w"));
  const Registration file = *agent->add_file(path, 0, kSize);
  std::vector<std::byte> zeros(kSize);
  ASSERT_EQ(cudaMemcpy(zeros.data(), gpu.data, kSize, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(zeros, std::vector<std::byte>(kSize)) << "memory of an agent begins zeroed";
  std::memcpy(host.data, pattern(6).data(), kSize);
  EXPECT_EQ(move(*agent, Op::kWrite, host.region, "", gpu.region).message, "");
  EXPECT_TRUE(holds(gpu, 6));
  EXPECT_EQ(move(*agent, Op::kWrite, gpu.region, "", file.region).message, "");
  put(gpu, 9);
  EXPECT_EQ(move(*agent, Op::kRead, gpu.region, "", file.region).message, "");
  EXPECT_TRUE(holds(gpu, 6));
  const Registration other = *agent->allocate_gpu(kSize);
  EXPECT_EQ(move(*agent, Op::kRead, other.region, "", gpu.region).message, "");
  EXPECT_TRUE(holds(other, 6));
  auto second = Agent::open({.name = "second"});
  ASSERT_TRUE(second->load(*agent->metadata()));
  const Registration mine = *second->allocate_gpu(kSize);
  EXPECT_EQ(move(*second, Op::kRead, mine.region, "alone", other.region).message, "");
  EXPECT_TRUE(holds(mine, 6));
  EXPECT_EQ(*second->explain("alone"),
            "region 0: gpu memory: the peer is in this process\n"
            "region 1: direct: the peer is in this process\n"
            "region 3: gpu memory: the peer is in this process\n");
  auto request = second->make(Op::kRead, *second->prepare("", rows_of(mine.region)),
                              *second->prepare("alone", rows_of(host.region)));
  ASSERT_TRUE(request);
  EXPECT_EQ(second->estimate(*request).error().message, "the cost of copies from and to a GPU's memory is not known");
  EXPECT_TRUE(agent->deregister(other));
  EXPECT_EQ(move(*second, Op::kRead, mine.region, "alone", other.region).message,
            "peer 'alone': region 3 is registered no more");
  std::remove(path.c_str());
}

TEST(GpuTransfers, TheCallersMemoryIsRegisteredWhereAGpuCanUseIt) {
  auto agent = Agent::open({.name = "alone"});
  void* memory = nullptr;
  ASSERT_EQ(cudaMalloc(&memory, kSize), cudaSuccess);
  const auto gpu = agent->add_gpu_memory(memory, kSize, kPage);
  ASSERT_TRUE(gpu) << gpu.error().message;
  EXPECT_EQ(gpu->gpu, 0);
  EXPECT_EQ(agent->add_gpu_memory(memory, kSize).error().code, Code::kInvalidArgument) << "it overlaps";
  std::vector<std::byte> host(kSize);
  EXPECT_EQ(agent->add_gpu_memory(host.data(), kSize).error().message,
            "the memory is a host pointer where a device pointer is needed");
  const int none = gpus();
  EXPECT_EQ(agent->allocate_gpu(kSize, 0, none).error().message, fmt::format("device {} of {}", none, none));
  EXPECT_EQ(agent->allocate_gpu(-1).error().code, Code::kInvalidArgument);
  EXPECT_TRUE(agent->deregister(*gpu));
  EXPECT_EQ(cudaFree(memory), cudaSuccess);
}

TEST(GpuTransfers, APeerThatIsKilledIsNamedAndItsMemoryIsNotReadAnyMore) {
  Child server("serve");
  auto agent = Agent::open({.name = "reader", .key = "k"});
  ASSERT_TRUE(agent->load(server.receive()));
  const Registration gpu = *agent->allocate_gpu(kSize);
  EXPECT_EQ(move(*agent, Op::kRead, gpu.region, "server", 0).message, "");
  const pid_t pid = server.pid();
  server.end(SIGKILL);
  EXPECT_EQ(move(*agent, Op::kRead, gpu.region, "server", 0).message,
            "peer 'server' (process " + std::to_string(pid) + ") has ended");
}

int play(const std::string& role) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  Child parent{Child::Inside()};
  if (role == "serve") serve(parent);
  _exit(testing::Test::HasFailure() ? 1 : 0);
}

}  // namespace
}  // namespace weft::transfer

int main(int argc, char** argv) {
  setenv("WEFT_MODEL_GUARDED", "1", 1);  // the host's instructions stay away from the device's memory
  testing::InitGoogleTest(&argc, argv);
  if (argc == 3 && std::string(argv[1]) == "role") return weft::transfer::play(argv[2]);
  return RUN_ALL_TESTS();
}
