"""Every operator of the rehearsed script: kernels with FLOP and bytes, memory, functional collectives, values."""

from __future__ import annotations

import functools
import weakref
from typing import Any

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    UnsupportedOperatorException,
)
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._mode_utils import no_dispatch
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.flop_counter import flop_registry

from ._fusion import Fusion
from ._group import numel, reduction_name, splits, type_name

aten = torch.ops.aten
GEMMS = {aten.mm, aten.addmm, aten.bmm, aten.baddbmm}
# Operators without a kernel that are not views by their schema.
WITHOUT_KERNEL = {
    aten.empty, aten.empty_like, aten.empty_strided, aten.new_empty, aten.new_empty_strided, aten.resize_,
    aten.set_, aten._unsafe_view, aten.lift_fresh, aten._local_scalar_dense, aten.is_nonzero,
}  # fmt: skip
# Operators that read some rows of their first operand.
GATHERING = {aten.embedding, aten.index_select, aten.gather, aten.index}
KNOWN_NAMESPACES = {"aten", "fsdp", "_dtensor", "prims", "prim", "profiler", "c10d", "_c10d_functional", "quantized"}
CONTENTS = {torch.bool, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8}
MOST_CONTENTS = 1 << 16  # elements
VALUE_RULE = "a value that the script reads from a tensor is 1, a truth value False"


@functools.lru_cache(maxsize=None)
def fusible(packet: Any) -> bool:
    """Operators that act on each element, or sum some of them up; an optimizer's are kernels of their own."""
    return not packet.__name__.startswith("_foreach") and packet not in GATHERING


@functools.lru_cache(maxsize=None)
def has_kernel(func: Any) -> bool:
    if func.overloadpacket in WITHOUT_KERNEL or func.namespace not in ("aten", "fsdp", "_dtensor"):
        return False
    returns = func._schema.returns
    views = returns and all(r.alias_info is not None and not r.alias_info.is_write for r in returns)
    return not views


def contents_of(tensor: Any) -> Any:
    """What a small tensor of integers really has; None: nobody knows."""
    if not isinstance(tensor, FakeTensor):
        return tensor
    return tensor.constant if tensor.constant is not None else getattr(tensor, "known", None)


def keep_contents(func: Any, args: Any, kwargs: Any, outputs: list[torch.Tensor]) -> None:
    """Small integer tensors of the CPU are really computed: scripts cut their data by them."""
    operands = [t for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
    mutable = func._schema.is_mutable
    small = outputs and all(
        isinstance(t, FakeTensor) and t.device.type == "cpu" and t.dtype in CONTENTS and t.numel() <= MOST_CONTENTS
        for t in outputs
    )
    if small and all(contents_of(t) is not None for t in operands):
        real = tree_map(lambda t: contents_of(t) if isinstance(t, torch.Tensor) else t, (args, kwargs))
        with no_dispatch():
            results = tree_leaves(func(*real[0], **real[1]))
        for tensor, result in zip(outputs, (r for r in results if isinstance(r, torch.Tensor)), strict=True):
            tensor.known = result
    elif mutable and isinstance(args[0], FakeTensor):
        args[0].known = None


class Where:
    """The module whose forward pass runs, by its name in the outermost one."""

    def __init__(self) -> None:
        self.stepping = False  # an optimizer is
        self._names: dict[int, str] = {}  # by id of a module of the outermost one
        self._running: list[Any] = []

    def enter(self, module: Any) -> bool:
        """Whether it is an outermost one."""
        outermost = not self._running
        if outermost and id(module) not in self._names:
            self._names = {id(m): name for name, m in module.named_modules()}
        self._running.append(module)
        return outermost and torch._C._current_graph_task_id() < 0

    def leave(self, module: Any) -> None:
        while self._running and self._running.pop() is not module:
            pass

    def module(self) -> str:
        return self._names.get(id(self._running[-1]), "") if self._running else ""

    def category(self) -> str:
        if self.stepping:
            return "optimizer's temporaries"
        if torch._C._current_graph_task_id() >= 0:
            return "backward pass"
        return "activations" if self._running else "other"


class Operators(TorchDispatchMode):
    """Lies over FakeTensorMode. `groups`: by name, for functional collectives."""

    supports_higher_order_operators = True  # DTensor's random numbers are one

    def __init__(self, record: Any, allocator: Any, groups: dict[str, Any]) -> None:
        super().__init__()
        self._record, self._allocator, self._groups = record, allocator, groups
        self._where = Where()
        self.fusion = Fusion(record)
        record.before_next = self.fusion.flush
        self._storages: dict[int, tuple[Any, Any]] = {}  # by address of the storage: its weak reference, its block
        self._works: dict[int, tuple[int, bool]] = {}  # results of functional collectives, by storage
        self._watch_resizes()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if any(t not in (torch.Tensor, FakeTensor, torch.nn.Parameter) for t in types):
            return NotImplemented  # DTensor and the like first become operators on their parts
        kwargs = kwargs or {}
        if isinstance(func, torch._ops.HigherOrderOperator):
            if func.name() == "run_dtensor_rng_op":  # two offsets, then the operator
                with self:
                    return args[2](*args[3:], **kwargs)
            return func(*args, **kwargs)
        if kwargs.get("pin_memory"):
            kwargs = {**kwargs, "pin_memory": False}
        if func.namespace == "_c10d_functional":
            return self._functional(func, args, kwargs)
        try:
            result = func(*args, **kwargs)
        except DataDependentOutputException:
            return self._value(func, args)
        except (NotImplementedError, UnsupportedOperatorException) as problem:
            if func.namespace in KNOWN_NAMESPACES:
                raise
            raise RuntimeError(
                f"weftcomm rehearse: {func} is a kernel of one's own, whose result has no known shape: "
                "give it one with torch.library.register_fake"
            ) from problem
        except DynamicOutputShapeException as problem:
            raise RuntimeError(
                f"weftcomm rehearse: the shape of {func}'s result depends on data, which a rehearsal has not"
            ) from problem
        outputs = [t for t in tree_leaves(result) if isinstance(t, torch.Tensor)]
        for tensor in outputs:
            self.track(tensor)
        if func.namespace not in KNOWN_NAMESPACES:
            self._record.note(f"{func.overloadpacket} is a kernel of one's own: no time is counted for it")
        if func is aten._to_copy.default and isinstance(args[0], FakeTensor):
            result.known = contents_of(args[0])
        else:
            keep_contents(func, args, kwargs, outputs)
        if has_kernel(func):
            self._kernel(func, args, kwargs, result, outputs)
        return result

    def _value(self, func: Any, args: Any) -> Any:
        known = contents_of(args[0])
        scalar = func.overloadpacket in (aten._local_scalar_dense, aten.item)
        if known is not None and scalar:
            with no_dispatch():
                return known.item()
        self._record.note(VALUE_RULE)
        if func.overloadpacket is aten.equal:
            return True
        if not scalar:
            raise RuntimeError(f"weftcomm rehearse: {func} needs the contents of a tensor, which a rehearsal has not")
        if args[0].dtype == torch.bool:
            return False
        return 1.0 if args[0].dtype.is_floating_point else 1

    def _kernel(self, func: Any, args: Any, kwargs: Any, result: Any, outputs: list[torch.Tensor]) -> None:
        operands = [t for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
        tensors = operands + outputs
        device = next((t for t in tensors if t.device.type == "cuda"), None)
        if device is None:
            return
        packet = func.overloadpacket
        moved = outputs * 2 if packet in GATHERING else tensors
        event: dict[str, Any] = {
            "kind": "kernel",
            "op": packet.__name__,
            "class": "memory",
            "bytes": sum(t.numel() * t.element_size() for t in moved if t.device.type == "cuda"),
            "type": type_name(operands[-1].dtype if operands else device.dtype),
            "stream": self._record.stream,
            "line": self._record.line(),
        }
        formula = flop_registry.get(packet)
        if formula is not None:
            if event["type"] == "float" and torch.get_float32_matmul_precision() != "highest":
                event["type"] = "tf32"
            event["flops"] = int(formula(*args, **kwargs, out_val=result))
            if packet in GEMMS:
                left, right = operands[-2:]
                event |= {"class": "gemm", "m": left.shape[-2], "n": right.shape[-1], "k": left.shape[-1]}
                event["groups"] = left.shape[0] if left.dim() == 3 else 1
                if 0 in (*left.shape, *right.shape):
                    self._record.note(f"a product of no elements: has the script cut it by values of a tensor? {VALUE_RULE}")
            elif "attention" in packet.__name__:
                event["class"] = "attention_backward" if "backward" in packet.__name__ else "attention"
                given = dict(zip((a.name for a in func._schema.arguments), args, strict=False)) | kwargs
                event["causal"] = bool(given.get("is_causal", False))
            else:
                event["class"] = "flops"
        reads = any(t.device.type == "cuda" for t in operands)
        if self.fusion.on and reads and event["class"] == "memory" and func.namespace == "aten" and fusible(packet):
            self.fusion.add(event, operands, outputs)
        else:
            self._record.write(**event)

    # Memory.

    def track(self, tensor: torch.Tensor) -> None:
        """Counts the storage of a tensor on the GPU from its first sight to its end."""
        if tensor.device.type != "cuda":
            return
        storage = tensor.untyped_storage()
        key = storage._cdata
        known = self._storages.get(key)
        if known is not None and known[0]() is storage:
            return
        block = self._allocator.allocate(storage.nbytes(), self._record.stream, self._why())
        self._storages[key] = (weakref.ref(storage, functools.partial(self._gone, key)), block)

    def _why(self, category: str = "") -> tuple[str, str, str]:
        return (category or self._where.category(), self._where.module(), self._record.line())

    def belongs(self, tensor: Any, category: str) -> None:
        """The memory of a tensor is parameters, gradients or the optimizer's."""
        tensor = getattr(tensor, "_local_tensor", tensor)
        if not isinstance(tensor, torch.Tensor) or tensor.device.type != "cuda":
            return
        known = self._storages.get(tensor.untyped_storage()._cdata)
        if known is not None and known[1] is not None and known[1].use is not None:
            known[1].use.category = category

    def watch_modules(self) -> None:
        """Which module's forward pass runs, and what the optimizer owns."""
        from torch.nn.modules import module as modules
        from torch.optim import optimizer as optimizers

        where = self._where

        def entered(module: Any, _: Any) -> None:
            if where.enter(module):
                for parameter in module.parameters():
                    self.belongs(parameter, "parameters")

        def before(optimizer: Any, *_: Any) -> None:
            where.stepping = True
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    self.belongs(parameter, "parameters")
                    self.belongs(parameter.grad, "gradients")

        def after(optimizer: Any, *_: Any) -> None:
            where.stepping = False
            for state in optimizer.state.values():
                for held in state.values() if isinstance(state, dict) else ():
                    self.belongs(held, "optimizer")

        modules.register_module_forward_pre_hook(entered)
        modules.register_module_forward_hook(lambda module, *_: where.leave(module), always_call=True)
        optimizers.register_optimizer_step_pre_hook(before)
        optimizers.register_optimizer_step_post_hook(after)

    def _gone(self, key: int, reference: Any) -> None:
        known = self._storages.get(key)
        if known is not None and known[0] is reference:
            del self._storages[key]
            self._allocator.release(known[1])

    def _watch_resizes(self) -> None:
        """FSDP frees and allocates parameters by resizing their storages."""
        resize = torch.UntypedStorage.resize_

        def resize_(storage: Any, size: int) -> Any:
            result = resize(storage, size)
            known = self._storages.get(storage._cdata)
            if known is not None and known[0]() is storage:
                self._allocator.release(known[1])
                why = self._why("gathered parameters")
                self._storages[storage._cdata] = (known[0], self._allocator.allocate(size, self._record.stream, why))
            return result

        torch.UntypedStorage.resize_ = resize_  # type: ignore[method-assign]

    # torch.ops._c10d_functional: DTensor, compiled code, torch.distributed._functional_collectives.

    def _functional(self, func: Any, args: Any, kwargs: Any) -> Any:
        name = func.overloadpacket.__name__
        given = {a.name: v for a, v in zip(func._schema.arguments, args, strict=False)} | kwargs
        if name == "wait_tensor":
            tensor = args[0]
            work = self._works.pop(tensor.untyped_storage()._cdata, None)
            if work is not None:
                self._record.write(
                    kind="wait", id=work[0], stream=self._record.stream, host=work[1], line=self._record.line()
                )
            return func(*args, **kwargs)
        result = func(*args, **kwargs)
        outputs = [result] if isinstance(result, torch.Tensor) else list(result)
        for tensor in outputs:
            self.track(tensor)
        group = given["group_name"]
        group = self._groups[group] if isinstance(group, str) else group
        work = self._recorded(name, given, group, given.get("input", given.get("inputs")), outputs)
        for tensor in outputs:
            self._works[tensor.untyped_storage()._cdata] = work
        return result

    def _recorded(self, name: str, given: Any, group: Any, source: Any, outputs: Any) -> tuple[int, bool]:
        n, out = numel(source), numel(outputs)
        call = group.record_call
        if name.startswith("all_reduce"):
            return call("all_reduce", source, n, n, reduce=reduction_name(given["reduce_op"]))
        if name.startswith("all_gather_into_tensor"):
            return call("all_gather", source, n, out)
        if name.startswith("reduce_scatter_tensor"):
            return call("reduce_scatter", source, out, n, reduce=reduction_name(given["reduce_op"]))
        if name == "all_to_all_single":
            asked = given["output_split_sizes"], given["input_split_sizes"]
            receives, sends = splits(outputs[0], source, *asked, group.size())
            more = {"sends": sends, "receives": receives} if sends else {}
            return call("all_to_all", source, n, max(n, out), **more)
        if name.startswith("broadcast"):
            return call("broadcast", source, n, n, root=group._ranks[given["src"]])
        raise RuntimeError(f"weftcomm rehearse: the functional collective {name} is not known")
