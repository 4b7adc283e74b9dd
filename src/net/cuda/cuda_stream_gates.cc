#include "net/cuda/cuda_stream_gates.cuh"

#include <atomic>
#include <bit>
#include <chrono>
#include <thread>

namespace weft::net::cuda {

Status checked(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return {};
  (void)cudaGetLastError();  // or the application's next look at it would find this one
  const Code code = error == cudaErrorMemoryAllocation ? Code::kNoResources : Code::kNotFound;
  return failure(code, Blame::kProcess, "{}: {}", call, cudaGetErrorString(error));
}

PinnedPool::~PinnedPool() {
  for (void* memory : allocated_) cudaFreeHost(memory);
}

Result<std::shared_ptr<void>> PinnedPool::take(std::size_t bytes) {
  const std::size_t size = std::bit_ceil(std::max<std::size_t>(bytes, 4096));
  WEFT_TRY(void* const block, block_of(size));
  return std::shared_ptr<void>(block, [pool = shared_from_this(), size](void* b) {
    const MutexLock guard(pool->mutex_);
    pool->free_[size].push_back(b);
  });
}

Status PinnedPool::reserve(std::size_t bytes) {
  {
    const MutexLock guard(mutex_);
    if (reserved_.size() >= bytes) return {};
  }
  WEFT_TRY(std::byte* const memory, allocate(bytes));
  const MutexLock guard(mutex_);
  reserved_ = {memory, bytes};
  return {};
}

Result<void*> PinnedPool::block_of(std::size_t size) {
  {
    const MutexLock guard(mutex_);
    if (auto& blocks = free_[size]; !blocks.empty()) {
      void* const block = blocks.back();
      blocks.pop_back();
      return block;
    }
    if (size <= reserved_.size()) {
      void* const block = reserved_.data();
      reserved_ = reserved_.subspan(size);
      return block;
    }
  }
  WEFT_TRY(void* const block, allocate(size));
  return block;
}

Result<std::byte*> PinnedPool::allocate(std::size_t bytes) {
  const PastCaptures past;
  void* memory = nullptr;
  WEFT_CHECK(checked(cudaHostAlloc(&memory, bytes, cudaHostAllocPortable | cudaHostAllocMapped), "cudaHostAlloc"));
  const MutexLock guard(mutex_);
  allocated_.push_back(memory);
  return static_cast<std::byte*>(memory);
}

// Words in pinned memory that streams wait for. A word only counts up, so that a new wait on it does not undo one that
// the stream has to end but has not read again.
class Words {
 public:
  struct Word {
    std::uint32_t* at;
    std::uint32_t value;  // waited for
  };
  Result<Word> next(PinnedPool& pool) {
    const MutexLock guard(mutex_);
    if (free_.empty()) {
      WEFT_TRY(pages_.emplace_back(), pool.take(4096));
      auto* const words = static_cast<std::uint32_t*>(pages_.back().get());
      for (int i = 0; i < 1024; ++i) {
        words[i] = 0;
        free_.push_back({words + i, 0});
      }
    }
    Word word = free_.back();
    free_.pop_back();
    ++word.value;
    return word;
  }
  void give_back(Word word) {
    const MutexLock guard(mutex_);
    free_.push_back(word);
  }

 private:
  Mutex mutex_;
  std::vector<Word> free_ WEFT_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<void>> pages_;  // likewise
};

namespace {

class CudaBaton final : public StreamGate {
 public:
  CudaBaton(std::shared_ptr<std::atomic<bool>> reached, std::shared_ptr<Words> words, Words::Word word,
            cudaStream_t own)
      : reached_(std::move(reached)), words_(std::move(words)), word_(word), own_(own) {}

  Status wait_until_reached(const std::function<bool()>& give_up) override {
    using namespace std::chrono_literals;
    for (int looks = 0; !reached_->load(std::memory_order_acquire); ++looks) {
      if (looks < 1000) continue;
      if (give_up()) return failure(Code::kAborted, Blame::kOperation, "given up before its stream came to it");
      if (looks % 1000 == 0) WEFT_CHECK(device_works());
      std::this_thread::sleep_for(looks < 5000 ? 10us : 1ms);
    }
    return {};
  }
  void finish() override {
    std::atomic_ref(*word_.at).store(word_.value, std::memory_order_release);
    words_->give_back(word_);
  }

 private:
  // After an error of the device no stream comes to its callbacks; any stream shows that, and this one cannot have been
  // destroyed meanwhile.
  Status device_works() const {
    const PastCaptures past;
    const cudaError_t state = cudaStreamQuery(own_);
    return checked(state == cudaErrorNotReady ? cudaSuccess : state, "the device");
  }

  std::shared_ptr<std::atomic<bool>> reached_;
  std::shared_ptr<Words> words_;
  Words::Word word_;
  cudaStream_t own_;
};

void CUDART_CB reach(void* reached) {
  const std::unique_ptr<std::shared_ptr<std::atomic<bool>>> own(
      static_cast<std::shared_ptr<std::atomic<bool>>*>(reached));
  (*own)->store(true, std::memory_order_release);
}

}  // namespace

StreamGates::StreamGates(WaitValue wait_value, std::shared_ptr<PinnedPool> pool)
    : wait_value_(wait_value), pool_(std::move(pool)), words_(std::make_shared<Words>()) {}

Result<std::unique_ptr<StreamGate>> StreamGates::hand_over(Stream stream, cudaStream_t own) {
  WEFT_TRY(const Words::Word word, words_->next(*pool_));
  auto reached = std::make_shared<std::atomic<bool>>(false);
  auto callback = std::make_unique<std::shared_ptr<std::atomic<bool>>>(reached);
  const Status queued =
      checked(cudaLaunchHostFunc(static_cast<cudaStream_t>(stream), reach, callback.get()), "cudaLaunchHostFunc");
  if (!queued) {
    words_->give_back(word);
    return tl::make_unexpected(queued.error());
  }
  callback.release();  // the callback's own now
  const CUresult waits = wait_value_(static_cast<CUstream>(stream), reinterpret_cast<CUdeviceptr>(word.at), word.value,
                                     CU_STREAM_WAIT_VALUE_GEQ);
  if (waits != CUDA_SUCCESS) {
    words_->give_back(word);
    return failure(Code::kSystem, Blame::kProcess, "cuStreamWaitValue32: error {}", static_cast<int>(waits));
  }
  return std::make_unique<CudaBaton>(std::move(reached), words_, word, own);
}

}  // namespace weft::net::cuda
