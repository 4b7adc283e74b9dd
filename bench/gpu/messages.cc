#include <chrono>

#include "api/stream/exchange.h"
#include "base/env.h"
#include "bench/gpu/commands.h"

namespace weft::gpu {
namespace {

using stream::DeviceMemory;

// Ranks on device 0, each with a stream or all with one, that send a message of integers to all, themselves
// included. Over the seam of net/cuda alone, so that it runs on the host as well.
class Job {
 public:
  static Result<std::unique_ptr<Job>> open(const Options& options) {
    auto job = std::make_unique<Job>();
    WEFT_TRY(const env::Settings settings, env::read());
    WEFT_TRY(job->runtime_, stream::open_runtime(settings.device));
    const std::vector<int> devices(static_cast<std::size_t>(options.ranks), 0);
    WEFT_TRY(job->group_, stream::Group::open(job->runtime_, devices, options.timeout));
    for (Rank r = 0; r < options.ranks; ++r) {
      job->members_.push_back(std::make_unique<stream::Member>(job->group_, r));
      if (options.together && r > 0) {
        job->streams_.push_back(job->streams_.front());
      } else {
        WEFT_TRY(job->streams_.emplace_back(), job->runtime_->device->make_stream());
      }
    }
    return job;
  }

  Status prepare(std::size_t count) {
    exchanges_.clear(), sent_.clear(), received_.clear(), count_ = count;
    const std::size_t n = members_.size();
    for (std::size_t r = 0; r < n; ++r) {
      std::vector<std::int32_t> values(n * count);
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = value(r, i / count, i % count);
      const auto bytes = static_cast<Bytes>(values.size() * sizeof(std::int32_t));
      WEFT_TRY(sent_.emplace_back(), DeviceMemory::make(runtime_, bytes));
      WEFT_TRY(received_.emplace_back(), DeviceMemory::make(runtime_, bytes));
      WEFT_CHECK(runtime_->device->copy_now(sent_[r].data(), values.data(), bytes));
      WEFT_CHECK(runtime_->device->clear_now(received_[r].data(), bytes));
      auto& e = exchanges_.emplace_back(stream::Exchange{.member = members_[r].get(), .stream = streams_[r].get()});
      for (std::size_t peer = 0; peer < n; ++peer) {
        const std::size_t at = peer * count * sizeof(std::int32_t);
        for (const auto& [direction, memory] : {std::pair{Transfer::Direction::kSend, &sent_[r]},
                                                std::pair{Transfer::Direction::kReceive, &received_[r]}})
          e.transfers.push_back({direction, static_cast<Rank>(peer), memory->data() + at, count, DataType::kInt32});
      }
    }
    return {};
  }
  Status start() { return stream::start_exchanges(exchanges_); }
  Status wait() {
    for (const auto& s : streams_) WEFT_CHECK(runtime_->device->synchronize(s.get()));
    for (const auto& m : members_) WEFT_CHECK(group_->trouble(m->rank()));
    return {};
  }
  // Errors (kMismatch): something else arrived than was sent.
  Status check() const {
    for (std::size_t r = 0; r < members_.size(); ++r) {
      std::vector<std::int32_t> values(members_.size() * count_);
      WEFT_CHECK(runtime_->device->copy_now(values.data(), received_[r].data(),
                                            static_cast<Bytes>(values.size() * sizeof(std::int32_t))));
      for (std::size_t i = 0; i < values.size(); ++i)
        if (values[i] != value(i / count_, r, i % count_))
          return failure(Code::kMismatch, Blame::kOperation, "rank {}: element {} from rank {} is {}", r, i % count_,
                         i / count_, values[i]);
    }
    return {};
  }

 private:
  static std::int32_t value(std::size_t from, std::size_t to, std::size_t i) {
    return static_cast<std::int32_t>((from * 17 + to) * 65536 + i % 65521);
  }
  std::shared_ptr<stream::Runtime> runtime_;
  std::shared_ptr<stream::Group> group_;
  std::vector<std::unique_ptr<stream::Member>> members_;
  std::vector<std::shared_ptr<void>> streams_;
  std::vector<DeviceMemory> sent_, received_;
  std::vector<stream::Exchange> exchanges_;
  std::size_t count_ = 0;
};

}  // namespace

Status messages(const Options& options) {
  constexpr int kCalls = 10;
  constexpr std::size_t kSizes[] = {256, std::size_t{64} << 10, std::size_t{1} << 20, std::size_t{16} << 20};
  WEFT_TRY(const auto job, Job::open(options));
  fmt::print("# every rank to every rank, itself included, on {} ranks; us by the host's clock, mean of {}\n",
             options.ranks, kCalls);
  fmt::print("# bytes of a message         us   GB/s that leave a rank\n");
  for (const std::size_t bytes : options.brief ? std::span(kSizes, 2) : std::span(kSizes)) {
    doing(fmt::format("messages of {} B", bytes));
    WEFT_CHECK(job->prepare(bytes / sizeof(std::int32_t)));
    WEFT_CHECK(job->start());
    WEFT_CHECK(job->wait());
    WEFT_CHECK(job->check());
    const auto since = std::chrono::steady_clock::now();
    for (int i = 0; i < kCalls; ++i) WEFT_CHECK(job->start());
    WEFT_CHECK(job->wait());
    const double us =
        std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - since).count() / kCalls;
    const double rate = static_cast<double>(bytes) * static_cast<double>(options.ranks - 1) / us * 1e-3;
    fmt::print("{:>20} {:>10.1f} {:>10.2f}\n", bytes, us, rate);
  }
  fmt::print("messages {} ranks: all right\n", options.ranks);
  return {};
}

}  // namespace weft::gpu
