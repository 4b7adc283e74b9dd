// Measures Gloo over TCP on the loopback interface, the only transport between processes of one machine that it has.
//   gloo --ranks N --algorithm ring|bcube|halving_doubling|ring_chunked --store DIR [options of harness.h]
// Starts the N ranks itself, as processes; or is one of them: --rank R --address THIS_RANKS_ADDRESS.
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/allreduce_ring_chunked.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <exception>
#include <memory>

#include "harness.h"

namespace {

using ReduceFunction = void (*)(void*, const void*, const void*, std::size_t);

class Gloo final : public peers::Peer {
 public:
  Gloo(int rank, int ranks, std::string algorithm, const std::string& store, const std::string& address)
      : algorithm_(std::move(algorithm)) {
    gloo::transport::tcp::attr where;
    where.hostname = address;
    auto device = gloo::transport::tcp::CreateDevice(where);
    gloo::rendezvous::FileStore files(store);
    context_ = std::make_shared<gloo::rendezvous::Context>(rank, ranks);
    context_->connectFullMesh(files, device);
  }
  int rank() const override { return context_->rank; }
  int ranks() const override { return context_->size; }
  void barrier() override {
    gloo::BarrierOptions options(context_);
    gloo::barrier(options);
  }
  double max(double value) override {
    gloo::AllreduceOptions options(context_);
    options.setOutput(&value, 1);
    options.setReduceFunction(static_cast<ReduceFunction>(&gloo::max<double>));
    gloo::allreduce(options);
    return value;
  }

  std::function<void()> operation(const peers::Point& point) override {
    if (point.collective == "all_reduce") return all_reduce(point);
    if (algorithm_ != "ring") return nullptr;  // the others differ in all_reduce only
    if (point.collective == "all_gather" && !point.in_place) {
      auto options = std::make_shared<gloo::AllgatherOptions>(context_);
      options->setInput(point.in, point.count / static_cast<std::size_t>(ranks()));
      options->setOutput(point.out, point.count);
      return [options] { gloo::allgather(*options); };
    }
    if (point.collective == "broadcast" && point.in_place) {
      auto options = std::make_shared<gloo::BroadcastOptions>(context_);
      options->setOutput(point.out, point.count);
      options->setRoot(0);
      return [options] { gloo::broadcast(*options); };
    }
    if (point.collective == "all_to_all" && !point.in_place) {
      auto options = std::make_shared<gloo::AlltoallOptions>(context_);
      options->setInput(point.in, point.count);
      options->setOutput(point.out, point.count);
      return [options] { gloo::alltoall(*options); };
    }
    if (point.collective == "send_recv" && !point.in_place) return send_receive(point);
    return nullptr;
  }

 private:
  std::function<void()> send_receive(const peers::Point& point) {
    const std::size_t bytes = point.count * sizeof(float);
    std::shared_ptr<gloo::transport::UnboundBuffer> out = context_->createUnboundBuffer(point.in, bytes);
    std::shared_ptr<gloo::transport::UnboundBuffer> in = context_->createUnboundBuffer(point.out, bytes);
    const int next = (rank() + 1) % ranks(), before = (rank() + ranks() - 1) % ranks();
    return [=] {
      constexpr std::uint64_t kSlot = 77;  // a channel that no collective uses
      out->send(next, kSlot);
      in->recv(before, kSlot);
      out->waitSend();
      in->waitRecv();
    };
  }

  std::function<void()> all_reduce(const peers::Point& point) {
    if (algorithm_ == "halving_doubling" || algorithm_ == "ring_chunked") {
      if (!point.in_place) return nullptr;
      const int count = static_cast<int>(point.count);
      std::shared_ptr<gloo::Algorithm> object;
      if (algorithm_ == "ring_chunked")
        object = std::make_shared<gloo::AllreduceRingChunked<float>>(context_, std::vector<float*>{point.out}, count);
      else
        object =
            std::make_shared<gloo::AllreduceHalvingDoubling<float>>(context_, std::vector<float*>{point.out}, count);
      return [object] { object->run(); };
    }
    auto options = std::make_shared<gloo::AllreduceOptions>(context_);
    using Algorithm = gloo::AllreduceOptions::Algorithm;
    options->setAlgorithm(algorithm_ == "bcube" ? Algorithm::BCUBE : Algorithm::RING);
    options->setReduceFunction(static_cast<ReduceFunction>(&gloo::sum<float>));
    if (!point.in_place) options->setInput(point.in, point.count);
    options->setOutput(point.out, point.count);
    return [options] { gloo::allreduce(*options); };
  }

  std::string algorithm_;
  std::shared_ptr<gloo::rendezvous::Context> context_;
};

// Waits for all children; when one fails, ends the others. Returns 0 if none failed.
int wait_for(std::vector<pid_t> children) {
  int failed = 0;
  while (!children.empty()) {
    int status = 0;
    std::erase(children, wait(&status));
    if (status == 0 || failed != 0) continue;
    failed = 1;
    for (const pid_t child : children) kill(child, SIGTERM);
  }
  return failed;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> rest;
  const peers::Options options = peers::read_options(argc, argv, &rest);
  int ranks = 0;
  std::string algorithm;
  std::string store;
  std::string address = "127.0.0.1";
  int only = -1;
  for (std::size_t i = 0; i + 1 < rest.size(); i += 2) {
    if (rest[i] == "--ranks") ranks = std::atoi(rest[i + 1].c_str());
    if (rest[i] == "--algorithm") algorithm = rest[i + 1];
    if (rest[i] == "--store") store = rest[i + 1];
    if (rest[i] == "--rank") only = std::atoi(rest[i + 1].c_str());
    if (rest[i] == "--address") address = rest[i + 1];
  }
  std::vector<pid_t> children;
  for (int rank = 0; rank < ranks; ++rank) {
    if (only >= 0 && rank != only) continue;
    const pid_t child = only >= 0 ? 0 : fork();
    if (child != 0) {
      children.push_back(child);
      continue;
    }
    try {
      Gloo gloo(rank, ranks, algorithm, store, address);
      peers::measure(gloo, options);
      gloo.barrier();  // nobody leaves while others still talk
    } catch (const std::exception& error) {
      std::fprintf(stderr, "gloo rank %d: %s\n", rank, error.what());
      _exit(1);
    }
    _exit(0);
  }
  return wait_for(children);
}
