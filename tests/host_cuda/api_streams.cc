// Streams, events, graphs.
#include "tests/host_cuda/api.h"

namespace weft::host_cuda {
namespace {

// The objects behind CUDA's handles.
struct CapturedGraph {
  std::shared_ptr<Graph> graph;
};
struct ReadyGraph {
  std::shared_ptr<const Graph> graph;
  std::shared_ptr<bool> runs = std::make_shared<bool>(false);
};

thread_local cudaStreamCaptureMode mode_of_thread = cudaStreamCaptureModeGlobal;

cudaStream_t handle_of(Stream* stream) { return reinterpret_cast<cudaStream_t>(stream); }
Event& of(cudaEvent_t event) { return *reinterpret_cast<Event*>(event); }

cudaError_t make_stream(cudaStream_t* made, unsigned flags) {
  if (made == nullptr) return noted(cudaErrorInvalidValue);
  const Locked device;
  *made = handle_of(device->make_stream(current_device(), (flags & cudaStreamNonBlocking) == 0));
  return cudaSuccess;
}

}  // namespace

Maker host_call(std::function<void()> function) {
  return
      [function = std::move(function)] { return [function] { return Engine::get().call_unlocked(function), true; }; };
}

}  // namespace weft::host_cuda

using namespace weft::host_cuda;

extern "C" {

cudaError_t cudaStreamCreate(cudaStream_t* made) { return make_stream(made, 0); }
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* made, unsigned flags) { return make_stream(made, flags); }
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* made, unsigned flags, int) { return make_stream(made, flags); }
cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  const Locked device;
  Stream* const stream = device->find(handle, current_device());
  if (stream == nullptr || stream->legacy) return noted(cudaErrorInvalidResourceHandle);
  device->destroy(stream);
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  return on_stream(handle, [](const Locked& device, Stream& stream) {
    if (stream.captured.graph != nullptr) return cudaErrorStreamCaptureUnsupported;
    return device->until_ended(stream) ? cudaSuccess : cudaErrorLaunchFailure;
  });
}
cudaError_t cudaStreamQuery(cudaStream_t handle) {
  const Locked device;
  if (device->failed()) return noted(cudaErrorLaunchFailure);
  Stream* const stream = device->find(handle, current_device());
  if (stream == nullptr) return noted(cudaErrorInvalidResourceHandle);
  if (stream->captured.graph != nullptr) return noted(cudaErrorStreamCaptureUnsupported);
  return stream->ended == stream->queued ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaDeviceSynchronize() {
  const Locked device;
  return noted(!device->failed() && device->until_all_ended(current_device()) ? cudaSuccess : cudaErrorLaunchFailure);
}
cudaError_t cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t function, void* argument) {
  if (function == nullptr) return noted(cudaErrorInvalidValue);
  return on_stream(handle, [&](const Locked& device, Stream& stream) {
    device->enqueue(stream, host_call([=] { function(argument); }));
    return cudaSuccess;
  });
}

cudaError_t cudaEventCreate(cudaEvent_t* made) {
  *made = reinterpret_cast<cudaEvent_t>(new Event);
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* made, unsigned) { return cudaEventCreate(made); }
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete reinterpret_cast<Event*>(event);  // streams keep what they wait for
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t handle) {
  return on_stream(handle, [&](const Locked& device, Stream& stream) {
    device->record(of(event), stream);
    return cudaSuccess;
  });
}
cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event, unsigned) {
  return on_stream(handle, [&](const Locked& device, Stream& stream) {
    device->wait(stream, of(event));
    return cudaSuccess;
  });
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const Locked device;
  const auto record = of(event).last;
  const bool reached = record == nullptr || device->until([record] { return record->done; });
  return noted(reached && !device->failed() ? cudaSuccess : cudaErrorLaunchFailure);
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  const Locked device;
  if (device->failed()) return noted(cudaErrorLaunchFailure);
  const auto record = of(event).last;
  return record == nullptr || record->done ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  const Locked device;
  const auto from = of(begin).last, to = of(end).last;
  if (from == nullptr || to == nullptr) return noted(cudaErrorInvalidResourceHandle);
  if (!from->done || !to->done) return noted(cudaErrorNotReady);
  *milliseconds = std::chrono::duration<float, std::milli>(to->at - from->at).count();
  return cudaSuccess;
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  std::swap(*mode, mode_of_thread);
  return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* status) {
  return on_stream(handle, [&](const Locked&, Stream& stream) {
    *status = stream.captured.graph != nullptr ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
    return cudaSuccess;
  });
}
cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode) {
  return on_stream(handle, [](const Locked&, Stream& stream) {
    if (stream.legacy) return cudaErrorStreamCaptureUnsupported;
    if (stream.captured.graph != nullptr) return cudaErrorIllegalState;
    stream.captured = {std::make_shared<Graph>()};
    return cudaSuccess;
  });
}
// Errors: cudaErrorStreamCaptureUnjoined: another stream has work in the graph that this one does not wait for.
cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* made) {
  return on_stream(handle, [&](const Locked& device, Stream& stream) {
    *made = nullptr;
    const auto graph = stream.captured.graph;
    if (graph == nullptr) return cudaErrorIllegalState;
    std::vector<bool> joined(graph->nodes.size());
    for (const std::size_t last : stream.captured.behind) joined[last] = true;
    for (std::size_t n = graph->nodes.size(); n-- > 0;)
      for (const std::size_t before : graph->nodes[n].behind)
        if (joined[n]) joined[before] = true;
    device->leave_capture(graph);
    for (const bool is : joined)
      if (!is) return cudaErrorStreamCaptureUnjoined;
    *made = reinterpret_cast<cudaGraph_t>(new CapturedGraph{graph});
    return cudaSuccess;
  });
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* made, cudaGraph_t graph, unsigned long long) {
  if (made == nullptr || graph == nullptr) return noted(cudaErrorInvalidValue);
  *made = reinterpret_cast<cudaGraphExec_t>(new ReadyGraph{reinterpret_cast<CapturedGraph*>(graph)->graph});
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t handle) {
  if (exec == nullptr) return noted(cudaErrorInvalidValue);
  return on_stream(handle, [&](const Locked& device, Stream& stream) {
    const ReadyGraph& ready = *reinterpret_cast<ReadyGraph*>(exec);
    device->enqueue(stream, [graph = ready.graph, runs = ready.runs] {
      return [run = replay(graph), runs, begun = false]() mutable {
        if (!begun && *runs) return false;  // an earlier launch is still under way
        *runs = begun = true;
        const bool done = run();
        if (done) *runs = false;
        return done;
      };
    });
    return cudaSuccess;
  });
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) { return delete reinterpret_cast<CapturedGraph*>(graph), cudaSuccess; }
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  return delete reinterpret_cast<ReadyGraph*>(exec), cudaSuccess;
}
}
