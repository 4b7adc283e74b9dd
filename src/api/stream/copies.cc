#include "api/stream/copies.h"

#include <deque>

#include "api/session/request.h"
#include "exec/executor.h"
#include "plan/schedule/element.h"

namespace weft::stream {
namespace {

using protocol::End;
using protocol::Operation;

// What the ranks' streams know of each other while one collective is queued.
struct Board {
  std::vector<const std::byte*> in;  // by rank
  std::vector<std::byte*> out;
  std::map<std::pair<Rank, Rank>, std::deque<std::unique_ptr<net::cuda::Event>>> signals;  // from, to: not yet taken
  Status failed;
};

// The fabric of copy engines, as one rank sees it: what is posted is queued in the rank's stream and so is done, as far
// as the interpreter is concerned; a wait is ready when the signal has been queued.
class CopyEndpoint {
 public:
  CopyEndpoint(net::cuda::Device& device, Rank rank, Stream stream, Board& board)
      : device_(device), rank_(rank), stream_(stream), board_(board) {}

  Rank rank() const { return rank_; }
  bool finished(int) const { return true; }
  bool ready(int, const Operation& o) const {
    return o.kind != Operation::Kind::kWait || !board_.signals[{o.peer, rank_}].empty() || !board_.failed;
  }
  fabric::Posted post(int, const Operation& o) {
    if (board_.failed) board_.failed = queue(o);
    return fabric::Posted::kDone;
  }

 private:
  Status queue(const Operation& o) {
    if (o.kind == Operation::Kind::kMove) {
      for (const End& to : o.destinations)
        if (const std::byte* from = input(o.sources[0]); o.bytes > 0 && from != output(to))
          WEFT_CHECK(device_.copy(output(to), from, o.bytes, stream_));
      return {};
    }
    if (o.kind == Operation::Kind::kSignal) {
      WEFT_TRY(auto event, device_.make_event());
      WEFT_CHECK(device_.record(*event, stream_));
      board_.signals[{rank_, o.peer}].push_back(std::move(event));
      return {};
    }
    auto& waiting = board_.signals[{o.peer, rank_}];
    const auto event = std::move(waiting.front());
    waiting.pop_front();
    return device_.wait(*event, stream_);
  }
  Rank owner(const End& e) const { return e.kind == End::Kind::kRemote ? e.peer : rank_; }
  const std::byte* input(const End& e) const {
    return e.memory == protocol::Memory::kIn ? board_.in[static_cast<std::size_t>(owner(e))] + e.offset : output(e);
  }
  std::byte* output(const End& e) const { return board_.out[static_cast<std::size_t>(owner(e))] + e.offset; }

  net::cuda::Device& device_;
  Rank rank_;
  Stream stream_;
  Board& board_;
};

struct Part {
  Call call;
  const Prepared* prepared = nullptr;
};

// The parts by rank. Errors: see start_copies.
Result<std::vector<Part>> prepare_all(std::span<const Call> calls) {
  if (calls.empty()) return bad_input("no calls");
  const Group& group = calls.front().member->group();
  std::vector<Part> all(static_cast<std::size_t>(group.ranks()));
  for (const Call& call : calls) {
    if (&call.member->group() != &group) return bad_input("copies: ranks of several communicators in one call");
    Part& part = all[static_cast<std::size_t>(call.member->rank())];
    if (part.prepared != nullptr) return bad_input("copies: rank {} is there twice", call.member->rank());
    WEFT_TRY(part.prepared, call.member->prepare(call.request, By::kCopies));
    part.call = call;
  }
  for (std::size_t r = 0; r < all.size(); ++r) {
    if (all[r].prepared == nullptr) return bad_input("copies: all ranks are needed in one call; rank {} is missing", r);
    if (all[r].prepared->signature != all[0].prepared->signature)
      return bad_input("copies: {} of rank {} is not what rank 0 calls", schedule::name(all[r].call.request.collective),
                       r);
  }
  return all;
}

Status queue_all(const std::vector<Part>& all, net::cuda::Device& device) {
  Board board;
  std::vector<CopyEndpoint> endpoints;
  std::vector<exec::Interpreter<CopyEndpoint, exec::ProgramCursor>> ranks;
  for (const Part& p : all) {
    const auto frame = p.call.member->frame(*p.prepared, p.call.request, nullptr);
    board.in.push_back(frame.in);
    board.out.push_back(frame.out);
    endpoints.emplace_back(device, frame.rank, p.call.stream, board);
    const auto& operations = p.prepared->program.front();
    ranks.emplace_back(0, exec::ProgramCursor{operations.data(), operations.data() + operations.size()});
  }
  for (bool all_done = false; !all_done;) {
    all_done = true;
    const auto posted = [&] {
      std::int64_t sum = 0;
      for (const auto& rank : ranks) sum += rank.posted();
      return sum;
    };
    const std::int64_t before = posted();
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      WEFT_CHECK(device.use(all[r].call.member->group().device_of(static_cast<Rank>(r))));
      all_done = (ranks[r].advance(endpoints[r]) == exec::Progress::kDone) && all_done;
    }
    if (!all_done && posted() == before)
      return failure(Code::kInternal, Blame::kOperation, "copies: ranks wait for signals that nobody sends");
  }
  return board.failed;
}

}  // namespace

Status start_copies(std::span<const Call> calls) {
  WEFT_TRY(const std::vector<Part> all, prepare_all(calls));
  net::cuda::Device& device = calls.front().member->group().device();
  WEFT_TRY(const OnDevice back, OnDevice::use(device, calls.front().member->group().device_of(0)));
  const auto each = [&](Status (Member::*step)(const Prepared&, const Request&, Stream)) -> Status {
    for (const Part& p : all) {
      WEFT_CHECK(device.use(p.call.member->group().device_of(p.call.member->rank())));
      WEFT_CHECK((p.call.member->*step)(*p.prepared, p.call.request, p.call.stream));
    }
    return {};
  };
  WEFT_CHECK(each(&Member::enter));
  WEFT_CHECK(queue_all(all, device));
  return each(&Member::leave);
}

}  // namespace weft::stream
