#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <span>

#include "net/ucx/library.h"

namespace weft::net::ucx {

class Context {
 public:
  // `features`: what of UCX is used besides waking up.
  static Result<std::shared_ptr<Context>> open(std::uint64_t features);
  Context(const Library& library, ucp_context_h context) : library_(library), context_(context) {}
  ~Context() { library_.cleanup(context_); }
  Context(const Context&) = delete;

  const Library& library() const { return library_; }
  ucp_context_h get() const { return context_; }
  std::string text(ucs_status_t status) const { return library_.status_string(status); }

 private:
  const Library& library_;
  ucp_context_h context_;
};

// Owns: a UCP worker; a reference to its context.
class WorkerHandle {
 public:
  static Result<WorkerHandle> open(std::shared_ptr<Context> context);
  WorkerHandle(WorkerHandle&& o) noexcept
      : context_(std::move(o.context_)), worker_(std::exchange(o.worker_, nullptr)), address_(std::move(o.address_)) {}
  WorkerHandle& operator=(WorkerHandle&&) = delete;
  ~WorkerHandle();

  std::shared_ptr<const Context> context() const { return context_; }
  ucp_worker_h get() const { return worker_; }
  // The address by which peers reach it.
  std::span<const std::byte> address() const { return address_; }
  int event_descriptor() const;
  // An endpoint at a peer's worker. UCX notices peers that end only over some transports, and uses only those when
  // asked to. For a peer that is `near` (on this machine) it would go without shared memory then; there a connection
  // beside it is watched anyway, and no cable can be cut (decision 0075).
  ucs_status_t connect(const void* address, bool near, ucp_err_handler_cb_t on_error, void* of_handler,
                       ucp_ep_h* endpoint) const;
  // Until all that was given to UCX is on its way, its own messages too: before 1.14 it ends the process if a worker
  // ends that has not yet answered a peer's first words (openucx/ucx, pull request 8175). False: some was not by the
  // deadline. `progress` is called meanwhile.
  bool flush(std::chrono::steady_clock::time_point deadline, const std::function<void()>& progress) const;
  // Leaves the worker and its context to themselves until the process ends.
  void abandon();

 private:
  WorkerHandle(std::shared_ptr<Context> context, ucp_worker_h worker) : context_(std::move(context)), worker_(worker) {}

  std::shared_ptr<Context> context_;
  ucp_worker_h worker_;
  std::vector<std::byte> address_;
};

}  // namespace weft::net::ucx
