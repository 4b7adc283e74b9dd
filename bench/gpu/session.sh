#!/bin/bash
# Builds, checks and times weft's kernels on the GPU of this machine, in under ten minutes; a short table comes last.
# Every stage has a time limit of its own, so that one hang does not cost the rest. What the numbers mean: README.md here.
#
#   bench/gpu/session.sh [FOLDER]    full output goes to FOLDER (default: build-gpu/out)
#
# Uses build-gpu/ as made by bench/gpu/pack where it runs, else builds. Exit: 0 all stages passed, 1 one failed, 2 no GPU.
set -uo pipefail
cd "$(dirname "$0")/../.."
out=${1:-build-gpu/out}

if ! nvidia-smi -L >/dev/null 2>&1; then
  echo "session: no GPU on this machine (nvidia-smi finds none)" >&2
  exit 2
fi
mkdir -p "$out"
export CUDA_DEVICE_MAX_CONNECTIONS=32  # a hardware queue per rank's stream: kernels that wait for each other must not share one
export CUDA_MODULE_LOADING=EAGER       # no kernel is loaded while others wait for it

declare -a table
failed=0
most_seconds=570
# stage NAME SECONDS COMMAND...: its output goes to $out/NAME.txt; the last line into the table.
stage() {
  local name=$1 limit=$2 begin=$SECONDS result rc
  local left=$((most_seconds - SECONDS))
  shift 2
  if [ $left -lt 5 ]; then
    table+=("$(printf '%-22s %s' "$name" "left out: no time")")
    failed=1
    return 1
  fi
  [ $limit -le $left ] || limit=$left
  timeout --kill-after=5 "$limit" "$@" >"$out/$name.txt" 2>&1
  rc=$?
  result=passed
  [ $rc -eq 0 ] || { result="FAILED ($rc)"; failed=1; }
  [ $rc -eq 124 ] && result="out of time ($limit s)"
  table+=("$(printf '%-22s %-18s %4d s  %s' "$name" "$result" $((SECONDS - begin)) "$(tail -n 1 "$out/$name.txt")")")
  return $rc
}

build() {
  if build-gpu/weft_gpu --help >/dev/null 2>&1; then echo "as packed"; return 0; fi
  cmake --preset release && cmake --build build --target weft_gpu weft-nccl nccl_test example_device_ring &&
    mkdir -p build-gpu/lib && cp build/weft_gpu build/nccl_test build/examples/device_ring build-gpu/ && cp -L build/nccl/libnccl.so.2 build-gpu/lib/
}
export -f build
gpu=build-gpu/weft_gpu

if stage build 200 bash -c build; then
  nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader >"$out/machine.txt"
  for ranks in 2 4 8; do stage "check-$ranks" 45 $gpu check --ranks $ranks; done
  stage hops 30 $gpu hops
  for ranks in 2 8; do
    stage launches-$ranks 15 $gpu launches --ranks $ranks
    stage launches-$ranks-together 15 $gpu launches --ranks $ranks --together
  done
  for ranks in 2 4; do stage "streams-$ranks" 30 $gpu streams --ranks $ranks; done
  for ranks in 2 4 8; do stage "messages-$ranks" 20 $gpu messages --ranks $ranks; done
  stage device-ring 10 build-gpu/device_ring
  stage overlap 20 $gpu overlap --ranks 4
  stage device-side 30 $gpu device-side --ranks 4
  for ranks in 2 4 8; do stage "collectives-$ranks" 45 $gpu collectives --ranks $ranks --together; done
  stage nccl-cuda 30 python3 bench/gpu/nccl_ranks.py --library build-gpu/lib/libnccl.so.2
  WEFT_DEVICE_PATH=host stage nccl-cuda-host 30 python3 bench/gpu/nccl_ranks.py --library build-gpu/lib/libnccl.so.2
  stage nccl-nvidia 30 python3 bench/gpu/nccl_ranks.py --library installed
  LD_PRELOAD=$PWD/build-gpu/lib/libnccl.so.2 stage torch-nccl 60 python3 bench/gpu/torch_ranks.py
  WEFT_DEVICE=host stage nccl-host 30 build-gpu/nccl_test
  for tool in memcheck racecheck; do
    stage $tool 60 compute-sanitizer --tool $tool --error-exitcode 1 $gpu check --brief --together --ranks 2 --threads 64
    stage $tool-messages 30 compute-sanitizer --tool $tool --error-exitcode 1 $gpu messages --brief --ranks 2
  done
fi

for name in hops launches-{2,8} launches-{2,8}-together messages-{2,4,8} overlap device-side collectives-2 collectives-4 collectives-8; do
  [ -f "$out/$name.txt" ] && { echo "== $name"; cat "$out/$name.txt"; }
done
echo "== stages on $(cat "$out/machine.txt" 2>/dev/null)"
printf '%s\n' "${table[@]}"
exit $failed
