#include "move/transfer/object_io.h"

#include <algorithm>
#include <map>

namespace weft::transfer {
namespace {

namespace object = net::object;

// One client, with its connections, per server and credentials.
class Clients {
 public:
  Result<object::Client*> of(const object::Place& place) {
    const std::string key = fmt::format("{}\n{}\n{}\n{}\n{}\n{}", place.endpoint, place.region, place.authorities,
                                        place.credentials.key_id, place.credentials.secret, place.credentials.session);
    const auto found = clients_.find(key);
    if (found != clients_.end()) return &found->second;
    WEFT_TRY(auto client, object::Client::open(place));
    return &clients_.emplace(key, std::move(client)).first->second;
  }

 private:
  std::map<std::string, object::Client> clients_;
};

Status carry_out(Clients& clients, ObjectIo::Job& job) {
  WEFT_TRY(object::Client* const client, clients.of(job.object->place));
  const std::optional<object::Known> known = job.object->known();
  auto done = job.writes ? client->write(job.object->name, job.memory, job.leave)
                         : client->read(job.object->name, job.offset, job.memory, known ? &*known : nullptr, job.leave);
  if (done) {
    job.object->set(std::move(*done));
    return {};
  }
  if (job.writes || done.error().code == Code::kMismatch) job.object->set(std::nullopt);
  return tl::make_unexpected(done.error());
}

}  // namespace

Result<std::unique_ptr<ObjectIo>> ObjectIo::open() {
  WEFT_CHECK(object::Http::open(""));
  return std::unique_ptr<ObjectIo>(new ObjectIo());
}

ObjectIo::~ObjectIo() {
  {
    const std::lock_guard guard(mutex_);
    ends_ = true;
    for (const auto& job : running_) job->leave.take();
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

Status ObjectIo::look(Object& of, std::chrono::milliseconds limit) {
  Clients clients;
  WEFT_TRY(object::Client* const client, clients.of(of.place));
  WEFT_TRY(auto known, client->look(of.name, object::Leave(object::Clock::now() + limit)));
  of.set(std::move(known));
  return {};
}

void ObjectIo::submit(std::shared_ptr<Job> job) {
  {
    const std::lock_guard guard(mutex_);
    queue_.push_back(std::move(job));
    if (idle_ < queue_.size() && threads_.size() < kThreads) threads_.emplace_back([this] { work(); });
  }
  changed_.notify_one();
}

void ObjectIo::work() {
  Clients clients;
  std::unique_lock guard(mutex_);
  while (true) {
    ++idle_;
    changed_.wait(guard, [this] { return ends_ || !queue_.empty(); });
    --idle_;
    if (ends_) return;
    const std::shared_ptr<Job> job = std::move(queue_.front());
    queue_.pop_front();
    running_.push_back(job);
    guard.unlock();
    if (const Status moved = carry_out(clients, *job); !moved) job->error = moved.error();
    job->over = true;
    guard.lock();
    std::erase(running_, job);
  }
}

}  // namespace weft::transfer
