#!/bin/bash
# Builds, checks and times weft's kernels on the GPU of this machine, in under ten minutes; a table of stages comes last.
# Every stage has a time limit of its own, so that one hang does not cost the rest. What the numbers mean: README.md here.
#
#   bench/gpu/session.sh [FOLDER [STAGE...]]   FOLDER (default: build-gpu/out): session.log, what stages print as they
#                                              print it; table.txt, a line per stage as it ends. STAGE: only these, as
#                                              patterns of the shell: 'check-*' hops
#
# WEFT_SESSION_SECONDS (570): no stage runs longer. Uses build-gpu/ as made by bench/gpu/pack where it runs, else builds.
# Exit: 0 all stages passed, 1 one failed, 2 no GPU.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 2
out=${1:-build-gpu/out}
shift || true
wanted=("$@")
log=$out/session.log

if ! nvidia-smi -L >/dev/null 2>&1; then
  echo "session: no GPU on this machine (nvidia-smi finds none)" >&2
  exit 2
fi
mkdir -p "$out"
: >"$log"; : >"$out/table.txt"
export CUDA_DEVICE_MAX_CONNECTIONS=32  # a hardware queue per rank's stream: kernels that wait for each other must not share one
export CUDA_MODULE_LOADING=EAGER       # no kernel is loaded while others wait for it

failed=0
hangs=0
most_seconds=${WEFT_SESSION_SECONDS:-570}

is_wanted() {
  local pattern
  [ ${#wanted[@]} -eq 0 ] && return 0
  # shellcheck disable=SC2053 # a pattern it is
  for pattern in "${wanted[@]}"; do [[ $1 == $pattern ]] && return 0; done
  return 1
}

# limited SECONDS COMMAND...: in a process group of its own, which is ended when the time is up; before that, a debugger
# says where its first process is. As `timeout`: 124 then.
limited() {
  local limit=$1 pid begin=$SECONDS
  shift
  setsid "$@" &
  pid=$!
  while kill -0 $pid 2>/dev/null; do
    if [ $((SECONDS - begin)) -ge "$limit" ]; then
      if [ $((hangs += 1)) -le 2 ] && command -v cuda-gdb >/dev/null; then
        timeout --kill-after=1 20 cuda-gdb --batch -p $pid -ex 'info cuda kernels' -ex 'info cuda blocks' -ex 'bt 20' -ex 'thread apply all bt 12' </dev/null 2>&1 |
          tail -n 150
      fi
      kill -TERM -- -$pid 2>/dev/null  # weft_gpu says what it was at
      sleep 2
      kill -KILL -- -$pid 2>/dev/null
      wait $pid 2>/dev/null
      return 124
    fi
    sleep 0.05
  done
  wait $pid
}

# stage NAME SECONDS COMMAND...: its output goes to the log; the last line into the table.
stage() {
  local name=$1 limit=$2 begin=$SECONDS result=passed rc=0 last left=$((most_seconds - SECONDS))
  shift 2
  is_wanted "$name" || return 0
  echo "== $name" >>"$log"
  if [ $left -lt 5 ]; then
    result="left out: no time" rc=1
  else
    [ "$limit" -le $left ] || limit=$left
    limited "$limit" "$@" >>"$log" 2>&1
    rc=$?
    [ $rc -eq 0 ] || result="FAILED ($rc)"
    [ $rc -eq 124 ] && result="out of time ($limit s)"
  fi
  [ $rc -eq 0 ] || failed=1
  last=$(tail -n 1 "$log")
  printf '%-24s %-20s %4d s  %s\n' "$name" "$result" $((SECONDS - begin)) "${last:0:160}" | tee -a "$out/table.txt"
  return $rc
}

build() {
  if build-gpu/weft_gpu --help >/dev/null; then echo "as packed"; return 0; fi
  cmake --preset release && cmake --build build --target weft_gpu weft_transfer_gpu weft-nccl nccl_test example_device_ring &&
    mkdir -p build-gpu/lib && cp build/weft_gpu build/weft_transfer_gpu build/nccl_test build/examples/device_ring build-gpu/ && cp -L build/nccl/libnccl.so.2 build-gpu/lib/
}
export -f build
gpu=build-gpu/weft_gpu
# Kernels of one launch are on the GPU together, whatever else is; those of a launch each rest on CUDA's running them
# side by side. So what is wrong together is wrong in the kernels.
measure() {
  stage machine 10 nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader
  for ranks in 2 4 8; do stage "check-$ranks-together" 40 $gpu check --ranks $ranks --together; done
  for ranks in 2 4 8; do stage "check-$ranks" 40 $gpu check --ranks $ranks; done
  stage hops 25 $gpu hops --together
  for ranks in 2 4 8; do stage "collectives-$ranks" 40 $gpu collectives --ranks $ranks --together; done
  for ranks in 2 8; do
    stage launches-$ranks-together 15 $gpu launches --ranks $ranks --together
    stage launches-$ranks 15 $gpu launches --ranks $ranks
  done
  for ranks in 2 4; do stage "streams-$ranks" 30 $gpu streams --ranks $ranks; done
  for ranks in 2 4 8; do stage "messages-$ranks" 20 $gpu messages --ranks $ranks; done
  stage transfers 30 build-gpu/weft_transfer_gpu --gtest_brief=1
  stage device-ring 10 build-gpu/device_ring
  stage device-side 30 $gpu device-side --ranks 4
  stage overlap 20 $gpu overlap --ranks 4
  # The first to load PyTorch reads it from a disk that nothing has read yet.
  stage nccl-cuda 60 python3 bench/gpu/nccl_ranks.py --library build-gpu/lib/libnccl.so.2
  WEFT_DEVICE_PATH=host stage nccl-cuda-host 30 python3 bench/gpu/nccl_ranks.py --library build-gpu/lib/libnccl.so.2
  stage torch-nccl 90 env LD_PRELOAD="$PWD/build-gpu/lib/libnccl.so.2" python3 bench/gpu/torch_ranks.py
  # A GPU runs kernels of two processes in turns: slow, but the only way to see memory between processes where there is one.
  WEFT_DEVICE_PATH=kernels stage nccl-ipc 40 python3 bench/gpu/nccl_ranks.py --library build-gpu/lib/libnccl.so.2 --processes
  WEFT_DEVICE_PATH=host stage nccl-processes 40 python3 bench/gpu/nccl_ranks.py --library build-gpu/lib/libnccl.so.2 --processes
  stage nccl-nvidia 30 python3 bench/gpu/nccl_ranks.py --library installed
  # As an application starts that has set nothing.
  stage as-by-default 30 env -u CUDA_MODULE_LOADING -u CUDA_DEVICE_MAX_CONNECTIONS $gpu streams --ranks 4
  WEFT_DEVICE=host stage nccl-host 30 build-gpu/nccl_test
  # Whatever these tools serialize, one launch is on the GPU together; they are slow, so waits may last.
  for tool in memcheck racecheck; do
    stage $tool 60 compute-sanitizer --tool $tool --error-exitcode 1 $gpu check --brief --together --ranks 2 --threads 64 --timeout 30
    stage $tool-messages 30 compute-sanitizer --tool $tool --error-exitcode 1 $gpu messages --brief --together --ranks 2 --timeout 30
  done
}

build_wanted=("${wanted[@]}")
wanted=()
stage build 200 bash -c build
built=$?
wanted=("${build_wanted[@]}")
[ $built -eq 0 ] && measure

# What the log has of stages that measure, and the table once more.
awk '/^== / { shown = /^== (hops|launches|messages|overlap|device-side|collectives)/ } shown' "$log"
echo "== stages on $(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader)"
cat "$out/table.txt"
exit $failed
