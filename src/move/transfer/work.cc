#include "move/transfer/work.h"

#include <sys/uio.h>

#include <cerrno>
#include <cstring>

#include "base/streamed_copy.h"
#include "move/transfer/batch.h"
#include "move/transfer/copy.h"
#include "move/transfer/work_objects.h"
#include "net/tcp/crc32c.h"

namespace weft::transfer {
namespace {

using detail::Work;
using Clock = std::chrono::steady_clock;

constexpr Bytes kPastCaches = 8 << 20;  // transfers of this size and more are streamed
constexpr Bytes kStreamed = 4096;       // pieces of it: fewer bytes cost more in streams than in caches

// A piece elsewhere begins on a page that the processor does not foresee.
void prefetch(const std::byte* from, Bytes bytes) {
  constexpr Bytes kLine = 64, kMost = 8 * kLine;
  for (Bytes at = 0; at < std::min(bytes, kMost); at += kLine) __builtin_prefetch(from + at);
}

std::optional<Error> move_by_memory(const Work& w, Batch& batch) {
  const bool reads = w.op == Op::kRead, large = w.total >= kPastCaches;
  for (std::size_t i = 0; i < batch.pieces.size(); ++i) {
    Piece& piece = batch.pieces[i];
    const auto source = [&](const Piece& p) { return reads ? batch.target->base + p.offset : p.local; };
    if (i + 1 < batch.pieces.size()) prefetch(source(batch.pieces[i + 1]), batch.pieces[i + 1].bytes);
    std::byte *const to = reads ? piece.local : batch.target->base + piece.offset, *const from = source(piece);
    const auto bytes = static_cast<std::size_t>(piece.bytes);
    if (w.verify)
      piece.checksum = copy_with_checksum(to, from, bytes);
    else if (large && piece.bytes >= kStreamed)
      streamed_copy_unordered(to, from, bytes);
    else
      std::memcpy(to, from, bytes);
  }
  if (large) order_streamed_copies();
  return std::nullopt;
}

void sum_local(Batch& batch) {
  for (Piece& piece : batch.pieces)
    piece.checksum = net::tcp::crc32c(0, piece.local, static_cast<std::size_t>(piece.bytes));
}

std::optional<Error> move_by_kernel(const Work& w, Batch& batch) {
  iovec local[kPieces], remote[kPieces];
  const std::size_t n = batch.pieces.size();
  for (std::size_t i = 0; i < n; ++i) {
    const Piece& piece = batch.pieces[i];
    local[i] = {piece.local, static_cast<std::size_t>(piece.bytes)};
    remote[i] = {reinterpret_cast<void*>(batch.target->address + static_cast<std::uint64_t>(piece.offset)),
                 static_cast<std::size_t>(piece.bytes)};
  }
  if (w.verify && w.op == Op::kWrite) sum_local(batch);
  const pid_t pid = pid_of(w.remote->peer->metadata.process);
  const ssize_t done = w.op == Op::kRead ? process_vm_readv(pid, local, n, remote, n, 0)
                                         : process_vm_writev(pid, local, n, remote, n, 0);
  const char* const call = w.op == Op::kRead ? "process_vm_readv" : "process_vm_writev";
  if (done < 0 && errno == ESRCH) return Error{Code::kPeerDied, Blame::kOperation, w.remote->peer->name + " has ended"};
  if (done != batch.bytes)
    return Error{Code::kSystem, Blame::kOperation,
                 fmt::format("{}: {} moved {} of {} bytes: {}", w.remote->peer->name, call, done, batch.bytes,
                             done < 0 ? std::strerror(errno) : "part of the memory is not there")};
  if (w.verify && w.op == Op::kRead) sum_local(batch);
  return std::nullopt;
}

// Pieces of this size keep several under way where one element is large.
constexpr Bytes kFilePiece = 128 << 10;
constexpr Bytes kDirectUnit = 4096;

std::optional<Error> move_by_file(const Work& w, Batch& batch) {
  thread_local std::vector<FileIo::Piece> pieces;
  pieces.clear();
  const Target& target = *batch.target;
  for (const Piece& piece : batch.pieces) {
    const auto place =
        reinterpret_cast<std::uintptr_t>(piece.local) | static_cast<std::uintptr_t>(piece.offset | piece.bytes);
    const int fd = target.direct_fd >= 0 && place % kDirectUnit == 0 ? target.direct_fd : target.fd;
    for (Bytes at = 0; at < piece.bytes; at += kFilePiece)
      pieces.push_back(
          {fd, piece.local + at, std::min(kFilePiece, piece.bytes - at), piece.offset + at, w.op == Op::kWrite});
  }
  if (const Status moved = target.io->run(pieces); !moved)
    return Error{moved.error().code, Blame::kOperation, fmt::format("file {}: {}", target.file, moved.error().message)};
  if (w.verify) sum_local(batch);
  return std::nullopt;
}

Error of_gpu(const Work& w, const Error& error) {
  return {error.code, Blame::kOperation, fmt::format("{}: {}", w.remote->peer->name, error.message)};
}

// A GPU's engine reaches neither files nor memory of other processes: the host's memory stands between.
std::optional<Error> move_by_staging(const Work& w, Batch& batch) {
  Gpu& copier = *batch.local->copier;
  const auto staging = copier.staging(batch.bytes);
  if (!staging) return of_gpu(w, staging.error());
  std::vector<Gpu::Copy> copies;
  auto* place = static_cast<std::byte*>(staging->get());
  for (Piece& piece : batch.pieces) {
    copies.push_back({place, piece.local, piece.bytes});
    piece.local = place;
    place += piece.bytes;
  }
  if (w.op == Op::kWrite)
    if (const Status copied = copier.copy(batch.local->gpu, copies); !copied) return of_gpu(w, copied.error());
  auto wrong = batch.target->path == Path::kFile ? move_by_file(w, batch) : move_by_kernel(w, batch);
  if (w.op == Op::kWrite || wrong) return wrong;
  for (Gpu::Copy& c : copies) {
    auto* const to = const_cast<std::byte*>(c.from);
    c = {to, c.to, c.bytes};
  }
  if (const Status copied = copier.copy(batch.local->gpu, copies); !copied) return of_gpu(w, copied.error());
  return std::nullopt;
}

std::optional<Error> move_by_gpu(const Work& w, Batch& batch) {
  const Target& by = batch.local->copier != nullptr ? *batch.local : *batch.target;
  std::vector<Gpu::Copy> copies;
  for (const Piece& piece : batch.pieces) {
    std::byte* const remote = batch.target->base + piece.offset;
    copies.push_back(w.op == Op::kRead ? Gpu::Copy{piece.local, remote, piece.bytes}
                                       : Gpu::Copy{remote, piece.local, piece.bytes});
  }
  if (const Status copied = by.copier->copy(by.gpu, copies); !copied) return of_gpu(w, copied.error());
  if (!w.verify) return std::nullopt;
  if (batch.local->copier == nullptr) {
    sum_local(batch);
    return std::nullopt;
  }
  for (Piece& piece : batch.pieces) {
    const auto sum = batch.local->copier->checksum(batch.local->gpu, piece.local, piece.bytes);
    if (!sum) return of_gpu(w, sum.error());
    piece.checksum = *sum;
  }
  return std::nullopt;
}

std::optional<Error> move_by_path(const Work& w, Batch& batch) {
  const Path path = batch.target->path;
  const bool local_gpu = batch.local->copier != nullptr;
  if (local_gpu && (path == Path::kKernel || path == Path::kFile)) return move_by_staging(w, batch);
  if (local_gpu || path == Path::kGpu) return move_by_gpu(w, batch);
  if (path == Path::kKernel) return move_by_kernel(w, batch);
  return path == Path::kFile ? move_by_file(w, batch) : move_by_memory(w, batch);
}

std::optional<Error> check_sums(const Work& w, const Batch& batch) {
  for (const Piece& piece : batch.pieces) {
    const PageWord& page = batch.target->pages[piece.page];
    const bool sealed = page.sealed.load() != 0;
    if (sealed && page.checksum.load() == piece.checksum) continue;
    return Error{Code::kMismatch, Blame::kOperation,
                 fmt::format("{}: page {} of region {} {}", w.remote->peer->name, piece.page, batch.target->region,
                             sealed ? "does not hold what was written: its checksum differs"
                                    : "carries no checksum: it was not written whole with one")};
  }
  return std::nullopt;
}

// One batch by load and store, the kernel or a file, between two looks at the generations. See fence.h.
std::optional<Error> move(const Work& w, Batch& batch) {
  PinWord& word = w.remote->peer->control->slot(w.remote->peer->slot).pin;
  pin(word, batch.target->region);
  std::optional<Error> wrong;
  if (const Piece* old = find_stale(batch)) wrong = stale(w, batch, *old);
  if (!wrong) {
    if (w.op == Op::kWrite)
      for (const Piece& piece : batch.pieces)
        batch.target->pages[piece.page].sealed.store(0, std::memory_order_relaxed);
    wrong = move_by_path(w, batch);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (!wrong && w.verify && w.op == Op::kRead) wrong = check_sums(w, batch);
    if (!wrong && w.verify && w.op == Op::kWrite)
      for (const Piece& piece : batch.pieces) {
        if (piece.bytes != batch.target->page_bytes) continue;
        batch.target->pages[piece.page].checksum.store(piece.checksum);
        batch.target->pages[piece.page].sealed.store(1);
      }
    if (const Piece* old = find_stale(batch)) wrong = stale(w, batch, *old);
  }
  unpin(word);
  return wrong;
}

Error answered(const Work& w, const Target& target, std::uint32_t page, Verdict verdict, bool whole) {
  const std::string where = fmt::format("{}: page {} of region {}", w.remote->peer->name, page, target.region);
  if (!whole || verdict == Verdict::kDamaged)
    return {Code::kMismatch, Blame::kOperation, where + " does not hold what was written: its checksum differs"};
  switch (verdict) {
    case Verdict::kStale:
      return {Code::kMismatch, Blame::kOperation,
              target.fenced()
                  ? where + " has been released, or given to another owner"
                  : fmt::format("{}: region {} is registered no more", w.remote->peer->name, target.region)};
    case Verdict::kUnsealed:
      return {Code::kMismatch, Blame::kOperation, where + " carries no checksum: it was not written whole with one"};
    case Verdict::kNoCopy:
      return {Code::kSystem, Blame::kOperation, where + " could not be copied from or to the peer's GPU"};
    case Verdict::kNoRegion:
      return {Code::kPeerLeft, Blame::kOperation,
              fmt::format("{}: region {} is registered no more", w.remote->peer->name, target.region)};
    default:
      return {Code::kInternal, Blame::kOperation, where + ": the peer refuses"};
  }
}

Error unregistered(const Target& own) {
  return {Code::kInvalidArgument, Blame::kOperation, fmt::format("region {} is registered no more", own.region)};
}

// Asks for as much as the connection takes.
void ask(const std::shared_ptr<Work>& work, Bytes budget) {
  Work& w = *work;
  Line& line = *w.remote->peer->line;
  while (w.next < w.elements && line.has_room() && budget > 0) {
    const auto remote = w.remote_at(w.next), local = w.local_at(w.next);
    const Bytes left = remote.bytes - w.inside;
    const Bytes bytes = std::min(left, kUsualPiece);
    const bool first = w.inside == 0, last = bytes == left;
    std::byte* const at = local.target->base + local.offset + w.inside;
    const std::uint64_t post = w.post;
    const Target* const target = remote.target;
    const std::uint32_t page = target->page_at(remote.offset);
    const bool seals = last && w.op == Op::kWrite && remote.bytes == target->page_bytes;
    const Question question{
        .ask = w.op == Op::kRead ? Ask::kRead : Ask::kWrite,
        .region = target->region,
        .offset = remote.offset + w.inside,
        .bytes = bytes,
        .generation = target->fenced() ? w.generations[static_cast<std::size_t>(w.next)] : target->generation,
        .before = w.verify && !first ? w.sent_sum : 0,
        .verify = !w.verify ? Verify::kNothing
                  : seals   ? Verify::kSeals
                            : Verify::kPage};
    std::shared_ptr<void> staging;  // in the place of a GPU's memory
    if (local.target->copier != nullptr) {
      auto made = local.target->copier->staging(bytes);
      const Status copied =
          !made ? Status(tl::make_unexpected(made.error()))
          : w.op == Op::kRead
              ? Status{}
              : local.target->copier->copy(local.target->gpu, static_cast<std::byte*>(made->get()), at, bytes);
      if (!copied) return w.end(State::kFailed, of_gpu(w, copied.error()));
      staging = std::move(*made);
    }
    std::byte* const host = staging != nullptr ? static_cast<std::byte*>(staging.get()) : at;
    std::span<const std::byte> data;
    if (w.op == Op::kWrite) data = {host, static_cast<std::size_t>(bytes)};
    const Target* const own = local.target;
    const auto mine = [work, post] { return work->post == post && work->state == State::kRunning; };
    w.sent_sum = line.ask(
        question, data, [mine, own, host] { return mine() && !own->closed ? host : nullptr; },
        [mine, work, target, page, bytes, own, at, staging, first, last](const Answer& answer, bool whole) {
          if (!mine()) return;
          --work->unanswered;
          if (work->op == Op::kWrite) --work->unconfirmed;
          if (work->ending) return;
          if (own->closed) return work->end(State::kFailed, unregistered(*own));
          if (answer.verdict != Verdict::kGood || !whole)
            return work->end(State::kFailed, answered(*work, *target, page, answer.verdict, whole));
          if (work->verify && work->op == Op::kRead) {
            const auto size = static_cast<std::size_t>(bytes);
            work->read_sum = first ? answer.checksum : net::tcp::crc32c_joined(work->read_sum, answer.checksum, size);
            if (last && work->read_sum != answer.page_checksum)
              return work->end(State::kFailed, answered(*work, *target, page, Verdict::kDamaged, true));
          }
          if (staging != nullptr && work->op == Op::kRead) {
            const auto* const came = static_cast<const std::byte*>(staging.get());
            if (const Status copied = own->copier->copy(own->gpu, at, came, bytes); !copied)
              return work->end(State::kFailed, of_gpu(*work, copied.error()));
          }
          work->moved += bytes;
          work->progressed = Clock::now();
        });
    ++w.unanswered;
    if (w.op == Op::kWrite) ++w.unconfirmed;
    budget -= bytes;
    w.inside += bytes;
    if (w.inside < remote.bytes) continue;
    w.inside = 0;
    ++w.next;
  }
}

void notify_by_line(const std::shared_ptr<Work>& work) {
  const auto arrived = [work, post = work->post](const Answer&, bool) {
    if (work->post == post && work->state == State::kRunning) --work->unanswered;
  };
  if (!work->remote->peer->line->notify(work->notify, arrived)) return;
  ++work->unanswered;
  work->notified = true;
}

void step_by_line(const std::shared_ptr<Work>& work, Bytes budget) {
  Work& w = *work;
  ask(work, budget);
  if (w.state != State::kRunning) return;
  if (w.next == w.elements && w.unanswered == 0 && !w.notify.empty() && !w.notified) notify_by_line(work);
  if (const Status moved = w.remote->peer->line->advance(); !moved && w.state == State::kRunning)
    return w.end(State::kFailed, {moved.error().code, Blame::kOperation,
                                  fmt::format("{}: {}", w.remote->peer->name, moved.error().message)});
  if (w.state != State::kRunning || w.next < w.elements || w.unanswered > 0) return;
  if (w.notify.empty() || w.notified) w.end(State::kDone);
}

// Goes on with the end of a request whose writes the peer has not confirmed.
void finish(Work& w) {
  if (!w.jobs.empty()) return finish_objects(w);
  Line& line = *w.remote->peer->line;
  const Status moved = line.advance();
  if (w.state != State::kRunning) return;
  const bool late = Clock::now() - w.ending->since > kConfirm;
  if (w.unconfirmed > 0 && moved && !late) return;
  if (w.unconfirmed > 0 && moved) {
    line.close();
    w.ending->why.message += fmt::format(
        "; it has not confirmed the last writes for {} s, so the connection was cut: a piece that it was "
        "copying, at most {} KiB, may still appear in its memory when it goes on",
        kConfirm.count(), kUsualPiece >> 10);
  }
  const detail::Work::Ending ending = std::move(*w.ending);
  w.end(ending.with, ending.why);
}

}  // namespace

void detail::Work::end(State with, Error why) {
  state = with;
  error = std::move(why);
  ending.reset();
}

void detail::Work::stop(State with, Error why) {
  for (const auto& job : jobs) job->leave.take();
  if (op == Op::kRead) jobs.clear();
  if (unconfirmed == 0 && jobs.empty()) return end(with, std::move(why));
  if (!ending) ending = {with, std::move(why), Clock::now()};
}

void start(const std::shared_ptr<detail::Work>& work) {
  Work& w = *work;
  ++w.post;
  w.state = State::kRunning;
  w.error = {};
  w.started = w.progressed = Clock::now();
  w.next = w.inside = w.moved = w.unanswered = w.unconfirmed = 0;
  w.local_row = w.remote_row = 0;
  w.notified = false;
  w.closings = 0;
  w.jobs.clear();
}

void step(const std::shared_ptr<detail::Work>& work, const std::string& self, Bytes budget) {
  Work& w = *work;
  Peer& peer = *w.remote->peer;
  if (w.ending) return finish(w);
  if (const std::uint64_t now = w.local->peer->closings; now != w.closings) {
    w.closings = now;
    if (const Target* const own = w.local->closed()) return w.stop(State::kFailed, unregistered(*own));
  }
  if (auto problem = peer.problem()) return w.end(State::kFailed, std::move(*problem));
  if (w.deadline.count() > 0 && Clock::now() - w.started > w.deadline)
    w.stop(State::kExpired,
           {Code::kTimeout, Blame::kOperation,
            fmt::format("{}: {} of {} bytes moved within {} ms", peer.name, w.moved, w.total, w.deadline.count())});
  if (w.state != State::kRunning) return;
  if (w.ending) return finish(w);
  thread_local Batch batch;
  if (!w.jobs.empty()) reap(w);
  if (w.state != State::kRunning || w.ending) return;
  while (w.next < w.elements) {
    if (w.remote_at(w.next).target->object != nullptr) {
      submit_objects(w);
      if (w.next < w.elements && w.remote_at(w.next).target->object != nullptr) return;
      continue;
    }
    if (w.remote_at(w.next).target->by_line()) return step_by_line(work, budget);
    if (budget <= 0) return;
    if (w.unanswered > 0) return step_by_line(work, 0);  // the regions before are behind a connection
    gather(w, budget, batch);
    if (auto wrong = move(w, batch)) return w.end(State::kFailed, std::move(*wrong));
    budget -= batch.bytes;
    w.moved += batch.bytes;
    if (w.deadline.count() > 0 || w.next < w.elements) w.progressed = Clock::now();
  }
  if (!w.jobs.empty()) return;
  if (peer.control == nullptr || w.unanswered > 0) return step_by_line(work, 0);
  if (!w.notify.empty() && !push(peer.control->slot(peer.slot), self, w.notify)) return;  // the peer's queue is full
  w.end(State::kDone);
}

}  // namespace weft::transfer
