#include "move/transfer/work_objects.h"

namespace weft::transfer {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostJobs = 16;
constexpr Bytes kObjectPiece = 8 << 20;          // of what is read
constexpr std::chrono::minutes kUsualLimit{10};  // of a request without a deadline, per piece

}  // namespace

void reap(detail::Work& w) {
  std::optional<Error> wrong;
  std::erase_if(w.jobs, [&](const auto& job) {
    if (!job->over) return false;
    if (job->error && !wrong) wrong = job->error;
    if (!job->error) w.moved += static_cast<Bytes>(job->memory.size());
    if (!job->error) w.progressed = Clock::now();
    return true;
  });
  if (!wrong || w.ending) return;
  const bool late = w.deadline.count() > 0 && wrong->code == Code::kTimeout;
  w.stop(late ? State::kExpired : State::kFailed, std::move(*wrong));
}

void submit_objects(detail::Work& w) {
  while (w.next < w.elements && w.jobs.size() < kMostJobs) {
    const auto remote = w.remote_at(w.next), local = w.local_at(w.next);
    if (remote.target->object == nullptr) return;
    const Bytes left = remote.bytes - w.inside, bytes = w.op == Op::kWrite ? left : std::min(left, kObjectPiece);
    const auto until = w.deadline.count() > 0 ? w.started + w.deadline : Clock::now() + kUsualLimit;
    auto job = std::make_shared<ObjectIo::Job>(until);
    job->object = remote.target->object;
    job->writes = w.op == Op::kWrite;
    job->offset = remote.offset + w.inside;
    job->memory = {local.target->base + local.offset + w.inside, static_cast<std::size_t>(bytes)};
    w.jobs.push_back(job);
    remote.target->objects->submit(std::move(job));
    w.inside += bytes;
    if (w.inside < remote.bytes) return;
    w.inside = 0;
    ++w.next;
  }
}

void finish_objects(detail::Work& w) {
  std::string open;
  bool any = false;
  for (const auto& job : w.jobs) {
    if (job->over) continue;
    any = true;
    open = job->object->name.text();
  }
  const bool late = Clock::now() - w.ending->since > kConfirm;
  if (any && !late) return;
  if (any) w.ending->why.message += fmt::format("; {} may be what was sent, once its server has it", open);
  w.jobs.clear();
  const detail::Work::Ending ending = std::move(*w.ending);
  w.end(ending.with, ending.why);
}

}  // namespace weft::transfer
