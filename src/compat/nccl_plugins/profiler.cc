#include <algorithm>
#include <cctype>
#include <cstring>

#include "base/env.h"
#include "compat/nccl_plugins/interface.h"
#include "compat/nccl_plugins/job_record.h"
#include "plan/schedule/collective.h"
#include "plan/schedule/element.h"

// libnccl-profiler-weft.so: weft's record of a NCCL job. `weft ps`, `weft doctor --watch` and, with WEFT_TRACE, `weft
// trace` read it as they read weft's own.
namespace weft::compat::plugins {
namespace {

struct Channel : Handle {
  JobRecord::Pending* call;
};

struct Context {
  std::unique_ptr<recorder::RecordPool> pool;
  std::unique_ptr<JobRecord> record;
  Rank ranks = 1;
};

std::string lower(std::string_view text) {
  std::string all(text);
  std::ranges::transform(all, all.begin(), [](unsigned char c) { return std::tolower(c); });
  return all;
}

void copy(std::string_view text, char* field, std::size_t size) { text.copy(field, size - 1); }

// "ncclFloat32" to weft's name and the size of an element; 0: unknown.
std::pair<std::string, std::int64_t> type_of(const char* type) {
  std::string name = type == nullptr ? "" : lower(type);
  if (name.starts_with("nccl")) name = name.substr(4);
  const auto known = schedule::parse_type(name);
  if (!known) return {name, 0};
  return {std::string(schedule::name(*known)), size_of(*known)};
}

template <class Fields>
Call call_of(const Fields& f, Rank ranks) {
  Call call{.label = {.root = -1}, .count = f.count};
  const std::string function = f.function == nullptr ? "" : lower(f.function);
  const auto collective = schedule::parse_collective(function);
  const auto [type, bytes] = type_of(f.type);
  copy(collective ? schedule::name(*collective) : function, call.label.collective, sizeof call.label.collective);
  copy(type, call.label.type, sizeof call.label.type);
  if (collective) {
    call.label.unit = static_cast<std::int32_t>(bytes * schedule::message_parts(*collective, ranks));
    if (schedule::rooted(*collective)) call.label.root = f.root;
  }
  return call;
}

Call call_of_kernel(const CollectiveFields& f, Rank ranks) {
  Call call = call_of(f, ranks);
  call.channels = call.label.channels = f.channels;
  if (f.algorithm != nullptr) copy(lower(f.algorithm), call.label.algorithm, sizeof call.label.algorithm);
  if (f.protocol != nullptr) copy(f.protocol, call.label.protocol, sizeof call.label.protocol);
  return call;
}

// Communicators of a process belong to one job: it is named after the first.
std::string job_name(std::uint64_t comm_id) {
  static const std::string kName = fmt::format("nccl-{:016x}", comm_id);
  return kName;
}

// Errors: of the environment, or of the trace's file.
Result<std::unique_ptr<Context>> open(std::uint64_t comm_id, const char* comm_name, int ranks, int rank) {
  WEFT_TRY(const env::Settings settings, env::read());
  if (settings.record_entries == 0 && settings.trace.empty()) return nullptr;
  auto context = std::make_unique<Context>();
  context->ranks = ranks;
  context->pool = std::make_unique<recorder::RecordPool>(settings.record_entries);
  const bool named = comm_name != nullptr && *comm_name != 0;
  const recorder::Identity identity{.job = job_name(comm_id),
                                    .group = named ? std::string(comm_name) : fmt::format("{:016x}", comm_id),
                                    .transport = "nccl",
                                    .rank = rank,
                                    .ranks = ranks};
  auto recorder = recorder::Recorder::open(identity, *context->pool);
  if (recorder == nullptr) return nullptr;
  if (!settings.trace.empty()) {
    WEFT_TRY(const unsigned categories, recorder::parse_categories(settings.trace_events));
    WEFT_CHECK(recorder->trace({.pattern = settings.trace, .categories = categories}, identity));
  }
  context->record = std::make_unique<JobRecord>(std::move(recorder));
  return context;
}

// A job goes on without its record, and its log says why.
int begin(void** context, std::uint64_t comm_id, int* mask, const char* name, int ranks, int rank, Logger log) {
  *context = nullptr;
  *mask = 0;
  auto opened = open(comm_id, name, ranks, rank);
  if (!opened && log != nullptr)
    log(2, 0, __FILE__, __LINE__, "weft's profiler records nothing: %s", opened.error().message.c_str());
  if (!opened || *opened == nullptr) return kOk;
  *context = opened->release();
  *mask = static_cast<int>(kCollective | kMessage | kKernelChannel | kCopyEngine);
  return kOk;
}

int init_v4(void** context, int* mask, const char* name, std::uint64_t comm_id, int, int ranks, int rank, Logger log) {
  return begin(context, comm_id, mask, name, ranks, rank, log);
}
int init_v5(void** context, std::uint64_t comm_id, int* mask, const char* name, int, int ranks, int rank, Logger log) {
  return begin(context, comm_id, mask, name, ranks, rank, log);
}

// Null: of a message, which start() gave no handle to be the parent.
Handle* channel_of(Handle* parent) {
  if (parent == nullptr || parent->channel) return nullptr;
  auto* const call = static_cast<JobRecord::Pending*>(parent);
  if (!call->record->channel_starts(call)) return nullptr;
  return new Channel{{true}, call};
}

template <class Type>
int start(void* context, void** handle, Descriptor<Type>* event) {
  *handle = nullptr;
  if (context == nullptr) return kOk;
  Context& c = *static_cast<Context*>(context);
  switch (static_cast<std::uint64_t>(event->type)) {
    case kCollective:
      *handle = static_cast<Handle*>(c.record->enqueued(call_of_kernel(event->collective, c.ranks)));
      break;
    case kCopyEngine:
      *handle = static_cast<Handle*>(c.record->enqueued(call_of(event->copy_engine, c.ranks)));
      break;
    case kMessage:
      c.record->message(event->message.function != nullptr && std::strcmp(event->message.function, "Send") == 0);
      break;
    case kKernelChannel:
      *handle = channel_of(static_cast<Handle*>(event->parent));
      break;
    default:
      break;
  }
  return kOk;
}

int stop(void* handle) {
  if (handle == nullptr) return kOk;
  auto* const h = static_cast<Handle*>(handle);
  if (!h->channel) {
    auto* const call = static_cast<JobRecord::Pending*>(h);
    call->record->host_done(call);
    return kOk;
  }
  const std::unique_ptr<Channel> channel(static_cast<Channel*>(h));
  channel->call->record->channel_stops(channel->call);
  return kOk;
}

int state(void*, int, void*) { return kOk; }

int finalize(void* context) {
  delete static_cast<Context*>(context);
  return kOk;
}

}  // namespace

extern "C" {
extern const ProfilerV4 ncclProfiler_v4;
extern const ProfilerV5 ncclProfiler_v5, ncclProfiler_v6;
const ProfilerV4 ncclProfiler_v4{"weft", init_v4, start<std::uint8_t>, stop, state, finalize};
const ProfilerV5 ncclProfiler_v5{"weft", init_v5, start<std::uint64_t>, stop, state, finalize};
const ProfilerV5 ncclProfiler_v6{"weft", init_v5, start<std::uint64_t>, stop, state, finalize};
}

}  // namespace weft::compat::plugins
