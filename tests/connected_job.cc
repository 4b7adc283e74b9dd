#include "tests/connected_job.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/check.h"

namespace weft::tests {

struct NoticeBoard::Notices {
  std::atomic<int> posted[kPlaces], gathered;
  UniqueId ids[kPlaces];
  Rank ranks[kPlaces];
};

NoticeBoard::NoticeBoard() {
  void* at = mmap(nullptr, sizeof(Notices), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  WEFT_REQUIRE(at != MAP_FAILED);
  notices_ = new (at) Notices{};
}

NoticeBoard::~NoticeBoard() { munmap(notices_, sizeof(Notices)); }

void NoticeBoard::post(int place, const UniqueId& id, Rank ranks) {
  notices_->ids[place] = id;
  notices_->ranks[place] = ranks;
  notices_->posted[place].store(1, std::memory_order_release);
}

UniqueId NoticeBoard::await(int place) const {
  while (notices_->posted[place].load(std::memory_order_acquire) == 0) usleep(1000);
  return notices_->ids[place];
}

void NoticeBoard::gather(Rank ranks) {
  notices_->gathered.fetch_add(1, std::memory_order_acq_rel);
  while (notices_->gathered.load(std::memory_order_acquire) < ranks) usleep(200);
}

Rank NoticeBoard::ranks(int place) const { return notices_->ranks[place]; }

ConnectedJob::ConnectedJob(Rank ranks, const ConnectOptions& options, const RankContext& context) {
  for (Rank r = 0; r < ranks; ++r)
    processes_.emplace_back([&, r](Report& report) {
      std::optional<MeetingPlace> place;
      if (r == 0) {
        auto opened = MeetingPlace::open(ranks, options);
        if (!opened) return report.say(opened.error().message);
        place = std::move(*opened);
        board_.post(0, place->id());
      }
      ConnectOptions own = options;
      if (!own.node.empty()) own.node += std::to_string(r / 2);
      auto comm = Communicator::connect(board_.await(0), r, ranks, own);
      if (!options.transport.ends_with("ucx")) board_.gather(ranks);  // UCX serves a peer only inside of a call
      report.say(comm ? context(*comm, report, board_) : comm.error().message);
    });
}

std::vector<std::string> ConnectedJob::join(const std::vector<Rank>& killed) {
  std::vector<std::string> said;
  for (std::size_t r = 0; r < processes_.size(); ++r) {
    const Outcome outcome = processes_[r].join();
    if (std::find(killed.begin(), killed.end(), static_cast<Rank>(r)) == killed.end()) {
      EXPECT_TRUE(outcome.ended_well()) << "rank " << r << " " << outcome.how() << ": " << outcome.said;
    }
    said.push_back(outcome.said);
  }
  return said;
}

std::string reduce_and_check(Communicator& comm, std::size_t elements) {
  std::vector<std::int32_t> in(elements), out(elements);
  for (std::size_t i = 0; i < elements; ++i) in[i] = comm.rank() + static_cast<std::int32_t>(i);
  if (const Status s = comm.all_reduce(std::span<const std::int32_t>(in), std::span(out)); !s) return s.error().message;
  const std::int32_t n = comm.ranks();
  for (std::size_t i = 0; i < elements; ++i)
    if (const std::int32_t sum = n * (n - 1) / 2 + n * static_cast<std::int32_t>(i); out[i] != sum)
      return fmt::format("element {} is {} instead of {}", i, out[i], sum);
  return "";
}

}  // namespace weft::tests
