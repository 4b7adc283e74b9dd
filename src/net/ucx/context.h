#pragma once

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
  // Leaves the worker and its context to themselves until the process ends.
  void abandon();

 private:
  WorkerHandle(std::shared_ptr<Context> context, ucp_worker_h worker) : context_(std::move(context)), worker_(worker) {}

  std::shared_ptr<Context> context_;
  ucp_worker_h worker_;
  std::vector<std::byte> address_;
};

}  // namespace weft::net::ucx
