"""The rehearsed ranks: forks of a process that has imported torch. Started by _launch.py, by this file's path.

  python _rank.py FOLDER LIBRARY ANSWERS SCRIPT [ARGUMENTS...]

Each line of stdin is a rank to start, {"rank": 3, "record": PATH, "log": PATH or "", "environment": {...}}; each line on
the file descriptor ANSWERS is one that has ended, {"rank": 3, "status": 0}. `log` takes the rank's errors, and its
output if `shown` is false.
"""

from __future__ import annotations

import ctypes
import importlib.util
import json
import os
import pickle
import runpy
import select
import sys
from typing import Any


def load_device(library: str) -> None:
    """The CUDA device that is not there, before torch asks for its hooks."""
    found = importlib.util.find_spec("torch")
    if found is None or found.origin is None:
        sys.exit("weftcomm: rehearse needs torch in this Python")
    libraries = os.path.join(os.path.dirname(found.origin), "lib")
    for name in ("libc10.so", "libtorch_cpu.so"):
        ctypes.CDLL(os.path.join(libraries, name), ctypes.RTLD_GLOBAL)
    ctypes.CDLL(library, ctypes.RTLD_GLOBAL)


def patch_modules(record: Any, fusion: Any) -> None:
    """What of torch does not work on tensors without contents, or would start processes."""
    import torch

    from weftcomm_torch.rehearse._attention import install_attention

    torch.autograd.set_multithreading_enabled(False)  # backward passes run in the script's thread: its line is known
    apply = torch.nn.Module._apply

    def _apply(module: Any, fn: Any, recurse: bool = True) -> Any:
        from torch._subclasses.fake_tensor import FakeTensor

        own = [*module._parameters.values(), *module._buffers.values()]
        if not all(t is None or isinstance(t, FakeTensor) for t in own):
            return apply(module, fn, recurse)
        for child in module.children() if recurse else ():
            child._apply(fn)
        for name, parameter in module._parameters.items():
            if parameter is None:
                continue
            with torch.no_grad():
                moved = fn(parameter)
            if moved is not parameter:
                parameter.data = moved
                if parameter.grad is not None:
                    parameter.grad = fn(parameter.grad)
        for name, buffer in module._buffers.items():
            if buffer is not None:
                module._buffers[name] = fn(buffer)
        return module

    torch.nn.Module._apply = _apply  # type: ignore[method-assign]
    devices_follow_data()
    pinned_memory_is_memory()

    def compile(model: Any = None, **_: Any) -> Any:
        if isinstance(model, torch.nn.Module):
            fusion.on = True
            record.note("torch.compile: kernels bound by memory that follow each other are counted as one", "")
        else:
            record.note("torch.compile of a function leaves it as it is: its kernels are counted one by one", "")
        return (lambda f: f) if model is None else model

    torch.compile = compile  # type: ignore[assignment]
    torch.nn.Module.compile = lambda self, *_, **__: compile(self) and None  # type: ignore[method-assign,assignment]

    from torch._subclasses.fake_tensor import FakeTensor

    from torch.optim.optimizer import _foreach_supported_types

    _foreach_supported_types.append(FakeTensor)
    install_attention()

    import torch.utils.data

    start = torch.utils.data.DataLoader.__init__

    def __init__(loader: Any, *args: Any, **options: Any) -> None:
        options["num_workers"], options["pin_memory"] = 0, False
        for name in ("prefetch_factor", "persistent_workers", "multiprocessing_context"):
            options.pop(name, None)
        start(loader, *args, **options)

    torch.utils.data.DataLoader.__init__ = __init__  # type: ignore[method-assign]

    torch.amp.GradScaler._maybe_opt_step = (  # type: ignore[method-assign]
        lambda self, optimizer, state, *a, **k: optimizer.step(*a, **k)
    )

    steps_of_outermost_optimizers(record)
    processes_of_torchrun()


def steps_of_outermost_optimizers(record: Any) -> None:
    """ZeroRedundancyOptimizer's step calls the step of the optimizer that it shards: together they are one."""
    from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

    running: list[Any] = []

    def after(optimizer: Any, *_: Any) -> None:
        while running and running.pop() is not optimizer:  # what a step that raised has left
            pass
        if not running:
            record.write(kind="step", line=record.line())

    register_optimizer_step_pre_hook(lambda optimizer, *_: running.append(optimizer))
    register_optimizer_step_post_hook(after)


def processes_of_torchrun() -> None:
    import torch.multiprocessing

    def refused(*_: Any, **__: Any) -> Any:
        raise RuntimeError(
            "weftcomm rehearse: the script starts its ranks itself (torch.multiprocessing): a rehearsal starts them as "
            "torchrun does; call the function of one rank, with RANK and WORLD_SIZE of the environment"
        )

    torch.multiprocessing.spawn = torch.multiprocessing.start_processes = refused  # type: ignore[assignment]


def devices_follow_data() -> None:
    """`tensor.data = other` gives a tensor without contents the other's device, too; a text of one has the
    value that the script would read."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensor

    plain = torch._C.TensorBase.data

    def set_data(tensor: Any, other: Any) -> None:
        plain.__set__(tensor, other)
        if isinstance(other, FakeTensor):
            tensor.fake_device = other.fake_device

    FakeTensor.__format__ = lambda tensor, how: (  # type: ignore[method-assign]
        tensor.item().__format__(how) if tensor.dim() == 0 else object.__format__(tensor, how)
    )
    FakeTensor.data = property(plain.__get__, set_data)  # type: ignore[assignment,misc]


def pinned_memory_is_memory() -> None:
    import torch

    torch.Tensor.pin_memory = lambda tensor, *_: tensor  # type: ignore[method-assign,assignment]
    torch.Tensor.is_pinned = lambda *_, **__: False  # type: ignore[method-assign,assignment]


def meshes_with_contents() -> None:
    """Device meshes are tensors whose contents decide which groups there are: their methods run outside all modes."""
    import functools
    import types

    from torch.distributed import device_mesh
    from torch.utils._python_dispatch import _disable_current_modes

    from weftcomm_torch.rehearse._distributed import replace

    def outside(function: Any) -> Any:
        @functools.wraps(function)
        def call(*args: Any, **options: Any) -> Any:
            with _disable_current_modes():
                return function(*args, **options)

        return call

    for name, member in list(vars(device_mesh.DeviceMesh).items()):
        if isinstance(member, types.FunctionType):
            setattr(device_mesh.DeviceMesh, name, outside(member))
        elif isinstance(member, (staticmethod, classmethod)):
            setattr(device_mesh.DeviceMesh, name, type(member)(outside(member.__func__)))
        elif isinstance(member, property) and member.fget is not None:
            setattr(device_mesh.DeviceMesh, name, property(outside(member.fget), member.fset, member.fdel))
    replace(device_mesh, "init_device_mesh", outside)
    # DTensor tries each operator on tensors of the whole shape, which are neither memory nor kernels of the rank.
    from torch.distributed.tensor._sharding_prop import ShardingPropagator

    name = "_propagate_tensor_meta_non_cached"
    setattr(ShardingPropagator, name, outside(getattr(ShardingPropagator, name)))


def run_program(script: str) -> None:
    """A script, or a function of a file, "train.py::main", with the arguments of the Python interface."""
    file, _, name = script.partition("::")
    if not name:
        runpy.run_path(file, run_name="__main__")
        return
    arguments: tuple[Any, ...] = ()
    if pickled := os.environ.get("WEFT_REHEARSAL_ARGUMENTS"):
        with open(pickled, "rb") as stored:
            arguments = pickle.load(stored)
    module = os.path.splitext(os.path.basename(file))[0]
    spec = importlib.util.spec_from_file_location(module, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} is no Python file")
    sys.modules[module] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules[module])
    found: Any = sys.modules[module]
    for part in name.split("."):
        found = getattr(found, part)
    found(*arguments)


def run(record: Any, folder: str, script: str) -> tuple[str, str]:
    """The script; the error that ended it and its line, or empty texts."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    from weftcomm_torch.rehearse._device import install
    from weftcomm_torch.rehearse._distributed import Distributed
    from weftcomm_torch.rehearse._files import Files
    from weftcomm_torch.rehearse._memory import Allocator
    from weftcomm_torch.rehearse._mode import Operators

    # torch.tensor(…, device="cuda") makes a tensor of the CPU first.
    FakeTensorMode.avoid_device_init = True  # type: ignore[assignment,method-assign]
    allocator = Allocator(record)
    install(record, allocator)
    distributed = Distributed(record, folder)
    distributed.install()
    operators = Operators(record, allocator, distributed.groups)
    patch_modules(record, operators.fusion)
    meshes_with_contents()
    files = Files(record, folder)
    files.install()
    error = line = ""
    operators.watch_modules()
    with FakeTensorMode(allow_non_fake_inputs=True), operators:
        from torch.distributed.checkpoint.api import CheckpointException  # no Exception in torch

        try:
            run_program(script)
        except SystemExit as left:
            if left.code not in (None, 0):
                error, line = f"the script exited with {left.code}", record.line_of(left)
        except (Exception, CheckpointException) as problem:
            text = " ".join(str(problem).split())
            error, line = f"{type(problem).__name__}: {text}"[:400], record.line_of(problem)
            if os.environ.get("WEFT_REHEARSAL_TRACEBACK"):
                import traceback

                traceback.print_exc()
    files.leave()
    allocator.write_peak()
    allocator.write_held()
    if snapshots := os.environ.get("WEFT_REHEARSAL_SNAPSHOTS"):
        path = os.path.join(snapshots, f"memory-{record.rank}.pickle")
        allocator.write_snapshot(path, os.path.dirname(os.path.abspath(script.partition("::")[0])))
    if not distributed.groups and not error:
        record.note("the script never calls init_process_group: each rank trains alone", "")
    return error, line


def rehearse_rank(asked: dict[str, Any], folder: str, script: str) -> None:
    """Runs in the rank's own process, which does not return from it."""
    status = 1
    try:
        os.environ.update(asked["environment"])
        log = os.open(asked["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.dup2(log, 2)
        if not asked["shown"]:
            os.dup2(log, 1)
        from weftcomm_torch.rehearse._record import Record

        record = Record(asked["record"], script.partition("::")[0], asked["rank"], int(os.environ["WORLD_SIZE"]))
        error, line = run(record, folder, script)
        record.close(error, line)
        status = 0
    except BaseException as problem:
        print(f"{type(problem).__name__}: {problem}", file=sys.stderr)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)  # tensors without memory and torch's end of the interpreter do not go together


def serve(answers: int, folder: str, script: str) -> None:
    """Starts ranks as they are asked for, and says which have ended."""
    ranks: dict[int, int] = {}  # by process
    asking, text = True, b""
    while asking or ranks:
        if asking and select.select([0], [], [], 0.02 if ranks else None)[0]:
            more = os.read(0, 65536)
            asking = bool(more)
            *lines, text = (text + more).split(b"\n")
            for line in lines:
                asked = json.loads(line)
                sys.stdout.flush()
                process = os.fork()
                if process == 0:
                    rehearse_rank(asked, folder, script)
                ranks[process] = asked["rank"]
        while ranks:
            process, status = os.waitpid(-1, os.WNOHANG if asking else 0)
            if process == 0:
                break
            answer = {"rank": ranks.pop(process), "status": os.waitstatus_to_exitcode(status)}
            os.write(answers, (json.dumps(answer) + "\n").encode())


def main() -> None:
    folder, library, answers, script, *arguments = sys.argv[1:]
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [p for p in sys.path if os.path.abspath(p or ".") != here]
    load_device(library)
    package = os.path.dirname(os.path.dirname(here))
    if package not in sys.path:
        sys.path.append(package)
    file = script.partition("::")[0]
    sys.path.insert(0, os.path.dirname(os.path.abspath(file)))
    sys.argv = [file, *arguments]
    import torch.distributed.fsdp
    import torch.distributed.tensor.parallel  # noqa: F401 (what takes long to import, before the forks)

    serve(int(answers), folder, script)


if __name__ == "__main__":
    main()
