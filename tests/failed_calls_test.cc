// When a call has failed, its buffers are the caller's again: no byte arrives there any more, over any transport. Here
// they are unmapped at once, so that a late byte ends the process.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>

#include "net/ucx/ucx.h"
#include "tests/connected_job.h"

namespace weft {
namespace {

class Mapped {
 public:
  explicit Mapped(std::size_t bytes)
      : bytes_(bytes), data_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    std::fill_n(static_cast<std::byte*>(data_), bytes, std::byte{1});
  }
  ~Mapped() { munmap(data_, bytes_); }
  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;
  void* data() const { return data_; }

 private:
  std::size_t bytes_;
  void* data_;
};

constexpr std::size_t kPart = 200'000;

// The call in which the last rank differs. Empty, or what was wrong.
std::string disagree(Communicator& c, Collective collective) {
  const auto ranks = static_cast<std::size_t>(c.ranks());
  const Mapped in(kPart * ranks), out(kPart * ranks);
  const Request r{.collective = collective,
                  .in = in.data(),
                  .out = out.data(),
                  .count = kPart,
                  .type = DataType::kUint8,
                  .channels = c.rank() == c.ranks() - 1 ? 2 : 1,
                  .timeout = std::chrono::seconds(10)};
  Status done = c.barrier();  // all have joined; the first who leave it may break those who are still there
  for (int i = 0; i < 3 && done; ++i) done = c.run(r);  // a rank that only sends may learn of it in the next
  if (done) done = c.barrier();
  return done ? "the calls differed, and all were ok" : "";
}

class FailedCalls : public testing::TestWithParam<const char*> {};

TEST_P(FailedCalls, LeaveTheirBuffersAlone) {
  const std::string transport = GetParam();
  if (transport.ends_with("ucx") && !net::ucx::available()) GTEST_SKIP() << "no UCX here";
  for (int i = 0; i < 12; ++i)
    for (const Collective collective : {Collective::kScatter, Collective::kAllToAll}) {
      SCOPED_TRACE(fmt::format("job {}", i));
      const ConnectOptions options{.transport = transport,
                                   .node = transport.find('+') == transport.npos ? "" : "failed"};
      tests::ConnectedJob job(4, options, [&](Communicator& c, tests::Report&, tests::NoticeBoard&) {
        Communicator own = std::move(c);  // dropped before the process ends
        return disagree(own, collective);
      });
      for (const std::string& said : job.join()) EXPECT_EQ(said, "");
      if (HasFailure()) return;
    }
}

INSTANTIATE_TEST_SUITE_P(All, FailedCalls, testing::Values("shm", "tcp", "ucx", "shm+tcp", "shm+ucx"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '+', '_');
                           return name;
                         });

}  // namespace
}  // namespace weft
