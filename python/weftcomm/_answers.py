"""What the command answers with --json, as dicts that also draw themselves, and as flat rows."""

from __future__ import annotations

import copy
import html
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from . import _core, _draw

if TYPE_CHECKING:
    import os
    from typing import TypeAlias

    from ._schedule import Algorithm, Schedule

    # The value of a command's option: several of them repeat it; None and False leave it out.
    Plain: TypeAlias = str | int | float | os.PathLike[str]
    Value: TypeAlias = Plain | None | Sequence[Plain] | Algorithm | Schedule

T = TypeVar("T", bound="Answer")


def options(given: Mapping[str, Any]) -> list[str]:
    """Keyword arguments as options of the command: bytes_min=8 is --bytes-min 8, a list is given several times."""
    arguments: list[str] = []
    for name, value in given.items():
        option = "--" + name.replace("_", "-")
        if value is True:
            arguments.append(option)
        elif isinstance(value, (list, tuple)):
            for one in value:
                arguments += [option, str(one)]
        elif value is not None and value is not False:
            arguments += [option, str(value)]
    return arguments


def ask(kind: type[T], *arguments: str) -> T:
    """The command's answer. Raises: InvalidArgument."""
    return kind(json.loads(_core.answer(arguments)))


def flat(row: Mapping[str, Any]) -> dict[str, Any]:
    """One level: nested names are joined by dots, lists of plain values by spaces; other lists are left out."""
    out: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, Mapping):
            out.update({f"{name}.{inner}": v for inner, v in flat(value).items()})
        elif isinstance(value, list):
            if not any(isinstance(one, (list, Mapping)) for one in value):
                out[name] = " ".join(str(one) for one in value)
        else:
            out[name] = value
    return out


class Answer(dict[str, Any]):
    """An answer: a dict of the form that its "schema" names. A value: it can be pickled and compared."""

    _rows = "rows"  # the list that rows() flattens
    _columns: tuple[str, ...] = ()  # those that a notebook shows; empty: all

    def rows(self) -> list[dict[str, Any]]:
        """One flat dict per row, for pandas.DataFrame(answer.rows()) and for csv.DictWriter."""
        return [flat(row) for row in self[self._rows]]

    def to_dict(self) -> dict[str, Any]:
        """A plain dict in the JSON form of the command; a copy."""
        return copy.deepcopy(dict(self))

    def _title(self) -> str:
        return str(self.get("schema", "answer"))

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self._title()}>"

    def _repr_html_(self) -> str:
        rows = self.rows()
        names = [n for n in self._columns if any(n in r for r in rows)] or list(
            dict.fromkeys(n for r in rows for n in r)
        )
        head = "".join(f"<th>{html.escape(n)}</th>" for n in names)
        body = "".join("<tr>" + "".join(f"<td>{_cell(r.get(n))}</td>" for n in names) + "</tr>" for r in rows)
        return f"<p>{html.escape(self._title())}</p><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: Any) -> str:
    return html.escape("" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value))


def _sizes(rows: list[dict[str, Any]]) -> str:
    first, last = rows[0]["bytes"], rows[-1]["bytes"]
    return _draw.size(first) if first == last else f"{_draw.size(first)} to {_draw.size(last)}"


class Bench(Answer):
    """A simulated collective; weft.bench/3. Rows: one per size."""

    _columns = ("bytes", "time_us", "algbw_GBps", "busbw_GBps", "algorithm", "protocol", "channels", "limit.resource")

    def _title(self) -> str:
        return f"{self['collective']} on {self['machine']}, {self['ranks']} ranks, {_sizes(self['rows'])}"

    def _repr_svg_(self) -> str:
        points = [(row["bytes"], row["busbw_GBps"]) for row in self["rows"]]
        return _draw.curves(self._title(), "message size", "bus bandwidth, GB/s", {"simulated": points})


class Choice(Answer):
    """Why an algorithm and protocol is chosen; weft.explain/1. Rows: one per candidate."""

    _rows = "candidates"
    _columns = ("algorithm", "protocol", "channels", "predicted_us", "chosen", "reason")

    def _title(self) -> str:
        won = next((c for c in self["candidates"] if c["chosen"]), None)
        choice = f": {won['algorithm']}, {won['protocol']}, channels: {won['channels']}" if won else ""
        return f"{self['collective']} of {_draw.size(self['bytes'])} on {self['machine']}{choice}"

    def _repr_svg_(self) -> str:
        bars = [
            (f"{c['algorithm']} {c['protocol']}", c["predicted_us"], c["chosen"])
            for c in self["candidates"]
            if c["predicted_us"] is not None
        ]
        return _draw.bars(self._title(), "predicted time, us", bars)


class Proof(Answer):
    """A proof, or the counterexample; weft.verify/1. True if it is a proof. Rows: one."""

    @property
    def proved(self) -> bool:
        """Is the schedule correct?"""
        return bool(self["proved"])

    @property
    def counterexample(self) -> dict[str, Any] | None:
        """What is wrong first: kind, rank, lane, step, chunk, peer and text; None: nothing."""
        found: dict[str, Any] | None = self.get("counterexample")
        return found

    def __bool__(self) -> bool:
        return self.proved

    def rows(self) -> list[dict[str, Any]]:
        """One flat dict."""
        return [flat(self)]

    def _title(self) -> str:
        if self.counterexample is not None:
            return f"{self['algorithm']}: {self.counterexample['text']}"
        return f"{self['collective']} by {self['algorithm']} on {self['ranks']} ranks is proved, {self['steps']} steps"


class Topology(Answer):
    """A machine's devices and links; weft.topology/1. Rows: one per link."""

    _rows = "links"
    machine = ""  # as --on takes it

    def _title(self) -> str:
        return f"{self.machine}: {len(self['devices'])} devices, {len(self['links'])} links"

    def svg(self, kind: str = "machine") -> str:
        """A picture: "machine", "heat" (the rates between all devices), "stairs" (the rates from GPU memory outwards)."""
        extra = {"machine": [], "heat": ["--heat", "-"], "stairs": ["--stairs", "-"]}
        if kind not in extra:
            from ._errors import InvalidArgument

            raise InvalidArgument(f"picture '{kind}': there are {', '.join(extra)}", operation="topology")
        return _core.picture(["topo", "--on", self.machine, *extra[kind]])

    def _repr_svg_(self) -> str:
        return self.svg()


class Training(Answer):
    """A training step, or all plans ranked; weft.train/1. Rows: one per plan."""

    _columns = ("plan", "step_s", "mfu", "tokens_per_s_per_gpu", "fits", "limit", "reason")

    def _title(self) -> str:
        row = self["rows"][0]
        fits = "" if row["fits"] else ", does not fit"
        return f"{self['model']} on {self['machine']}: {row['step_s']:.4g} s a step, {100 * row['mfu']:.1f} % MFU{fits}"

    def _repr_svg_(self) -> str:
        parts = [(name, seconds, False) for name, seconds in self["rows"][0]["parts_s"].items() if seconds > 0]
        return _draw.bars(self._title(), "part of the step, s", parts)


class Serving(Answer):
    """A served model: TTFT, TPOT and throughput of a plan, or of all plans; weft.serve/1. Rows: one per plan."""

    _columns = (
        "plan",
        "load",
        "output_tokens_per_s_per_gpu",
        "output_tokens_per_s_per_user",
        "ttft_ms.mean",
        "tpot_ms.mean",
        "fits",
        "reason",
    )

    def _title(self) -> str:
        row = self["rows"][0]
        if not row["fits"]:
            return f"{self['model']} on {self['machine']}: {row['reason']}"
        times = f"TTFT {row['ttft_ms']['mean']:.0f} ms, TPOT {row['tpot_ms']['mean']:.2f} ms"
        return f"{self['model']} on {self['machine']}, {row['plan']}, {row['load']}: {times}"

    def frontier(self) -> list[dict[str, Any]]:
        """One flat dict per point that no other beats in tokens/s per GPU and per user; empty without best=True."""
        return [flat(row) for row in self.get("frontier", [])]

    def _repr_svg_(self) -> str:
        points = self.frontier()
        if points:
            name = "output_tokens_per_s_per_{}"
            line = [(p[name.format("user")], p[name.format("gpu")]) for p in points]
            return _draw.curves(self._title(), "tokens/s per user", "tokens/s per GPU", {"frontier": line})
        parts = [(name, ms, False) for name, ms in self["rows"][0]["step_parts_ms"].items() if ms > 0]
        return _draw.bars(self._title(), "part of a decode step, ms", parts)


class ServingMachines(Answer):
    """The same question for several machines; weft.serve-machines/1. Rows: the first of each machine."""

    def rows(self) -> list[dict[str, Any]]:
        """One flat dict per machine: its best plan, or the reason why it has none."""
        found = []
        for m in self["machines"]:
            first = m["answer"]["rows"][0] if m["answer"] else {"reason": m["reason"]}
            found.append(flat({"machine": m["on"], **first}))
        return found

    def _title(self) -> str:
        return f"{len(self['machines'])} machines"


class ServingComparison(Answer):
    """Measured serving against the model; weft.serve-compare/1. Rows: one per measured row."""

    def errors(self) -> list[dict[str, Any]]:
        """One flat dict per group: all, and by mode, model, system and engine."""
        return [flat(error) for error in self["errors"]]

    def _title(self) -> str:
        first = self["errors"][0]
        return f"{first['answered']} of {first['rows']} rows answered, TPOT {100 * first['tpot_median']:.1f} % off (median)"


class Fit(Answer):
    """Does a model fit on GPUs, and what does one get; weft.fit/1. True if it fits. Rows: one."""

    def __bool__(self) -> bool:
        return bool(self["fits"])

    def rows(self) -> list[dict[str, Any]]:
        """One flat dict."""
        return [flat(self)]

    def _title(self) -> str:
        return f"{self['model']} on {self['gpus']} {self['card']}: {'fits' if self['fits'] else 'does not fit'}"


class Advice(Answer):
    """Which machine, how many GPUs, which plan and engine; weft.advise/1. True if one does it. Rows: one per machine."""

    _columns = ("machine", "gpus", "plan", "engine", "price_per_hour", "holds", "reason", "command")

    def __bool__(self) -> bool:
        return bool(self["rows"]) and bool(self["rows"][0]["holds"])

    def _title(self) -> str:
        row = self["rows"][0]
        return f"{self['model']}: {row['gpus']} GPUs of {row['machine']}, {row['plan']}" if self else "no machine does it"


class Comparison(Answer):
    """Measured training steps against the model; weft.train-compare/1. Rows: one per measured step."""

    _columns = ("id", "set", "model", "gpu", "plan", "measured_s", "predicted_s", "skipped")

    def _title(self) -> str:
        errors = [
            abs(r["predicted_s"] / r["measured_s"] - 1) for r in self["rows"] if not r["skipped"] and r["measured_s"]
        ]
        middle = f", median error {100 * sorted(errors)[len(errors) // 2]:.1f} %" if errors else ""
        return f"{len(self['rows'])} measured steps{middle}"


class Diagnosis(Answer):
    """What is wrong with a job or this machine; weft.doctor/1. Rows: one per finding, roots first."""

    _columns = ("id", "finding", "role", "confidence", "ranks", "cost", "remedy", "verify")

    def rows(self) -> list[dict[str, Any]]:
        """One flat dict per finding; their evidence is in the dict itself."""
        return [flat(finding) for group in ("roots", "slow", "folded") for finding in self[group]]

    def _title(self) -> str:
        return str(self["verdict"])


class Accuracy(Answer):
    """How far the model is from published measurements; weft.accuracy/1. Rows: one per measured size."""

    def rows(self) -> list[dict[str, Any]]:
        """One flat dict per size of every table, with the relative error."""
        return [
            {"table": t["name"], "machine": t["machine"], "collective": t["collective"], "use": t["use"], **row}
            | {"error": row["predicted_us"] / row["measured_us"] - 1 if row["measured_us"] else None}
            for t in self["tables"]
            for row in t["rows"]
        ]

    def _title(self) -> str:
        errors = self["others"].values()
        text = ", ".join("-" if e["median_error"] is None else f"{100 * e['median_error']:.0f} %" for e in errors)
        return f"{len(self['tables'])} tables; median error of those not fitted on, small to large messages: {text}"

    def _repr_html_(self) -> str:
        return f"<p>{html.escape(self._title())}</p>" + "".join(
            self.svg(t["name"]) for t in self["tables"] if t["rows"]
        )

    def svg(self, table: str) -> str:
        """A picture of one table: measured and predicted times. Raises: KeyError."""
        found = {t["name"]: t for t in self["tables"]}[table]
        curves = {
            name: [(row["bytes"], row[f"{name}_us"]) for row in found["rows"]] for name in ("measured", "predicted")
        }
        return _draw.curves(table, "message size", "time, us", curves)
