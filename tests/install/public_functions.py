"""The public functions of include/weft, as its headers declare them.

A declaration is found by its form: headers follow one style (clang-format), a class at a time. What is inline needs no
export, but is public all the same.
"""

import dataclasses
import pathlib
import re

# What is written for kernels is compiled with them, not exported.
FOR_KERNELS = {"device.h", "device_mark.h"}


@dataclasses.dataclass(frozen=True)
class Function:
    header: str
    scope: str  # "weft::Communicator"; of a free function its namespace
    name: str  # "run"; "Communicator", "~Queue", "operator="
    result: str  # "" of constructors and destructors
    parameters: tuple  # types and names, without default values
    qualifiers: frozenset  # of static, const, explicit, inline, template, default
    is_member: bool

    @property
    def full_name(self):
        return f"{self.scope}::{self.name}"


def without_comments(text):
    text = re.sub(r'"(\\.|[^"\\])*"', '""', text)
    return re.sub(r"//[^\n]*", "", text)


def split_parameters(text):
    """At commas outside of brackets, each without its default value."""
    parts, depth, part = [], 0, ""
    for c in text:
        depth += (c in "<({[") - (c in ">)}]")
        if c == "," and depth == 0:
            parts.append(part)
            part = ""
        else:
            part += c
    parts.append(part)
    return tuple(re.sub(r"\s+", " ", p.split("=")[0]).strip() for p in parts if p.strip())


def statements(text):
    """The declarations of a namespace or class with the bodies of inline functions left out: (text, opens) where
    `opens` is true for one that a brace follows; "}" closes it."""
    statement, depth = "", 0
    for c in text:
        if c in "([":
            depth += 1
        elif c in ")]":
            depth -= 1
        if depth == 0 and c in ";{}":
            yield statement.strip(), c
            statement = ""
        else:
            statement += c


FUNCTION = re.compile(r"^(?P<head>[\w:<>,&*\s\[\]~]*?)(?P<name>~?\w+|operator\s?\w+|operator\s?[^\s\w(]+)\s*"
                      r"\((?P<parameters>.*)\)(?P<tail>[^)]*?(?:\s*:.*)?)$", re.S)


def functions_of(header):
    text = re.sub(r"^\s*#.*(\\\n.*)*$", "", without_comments(header.read_text()), flags=re.M)
    scopes = []  # (kind, name, is public)
    skipped = 0  # braces inside of a function's body
    for statement, end in statements(text):
        access = re.findall(r"\b(public|private|protected)\s*:", statement)
        statement = re.sub(r"^.*\b(public|private|protected)\s*:", "", statement, flags=re.S).strip()
        if access and scopes and not skipped:
            scopes[-1][2] = access[-1] == "public"
        if end == "}":
            if skipped:
                skipped -= 1
            elif scopes:
                scopes.pop()
            continue
        if skipped:
            skipped += end == "{"
            continue
        is_template = statement.startswith("template")
        plain = re.sub(r"^template\s*<[^{;]*?>\s*(?=[\w\[])", "", statement, flags=re.S)
        plain = re.sub(r"\[\[.*?\]\]\s*", "", plain)
        opens = re.match(r"(inline )?(namespace|class|struct|enum class|enum)\b\s*([\w:]*)", plain)
        if end == "{" and opens and "(" not in plain:
            kind = opens[2]
            scopes.append([kind, opens[3], kind != "class"])
            continue
        found = FUNCTION.match(re.sub(r"\)\s*:\s*\w+\(.*$", ")", plain, flags=re.S))  # without a constructor's initialisers
        visible = all(s[2] for s in scopes) and not any(s[1] == "detail" for s in scopes)
        if found and visible and not plain.startswith(("using", "friend", "static_assert", "#")) and scopes:
            head = found["head"].strip()
            words = set(head.split())
            tail = found["tail"]
            if "delete" not in tail and found["name"] != "bool":
                marks = {w for w in ("static", "explicit", "constexpr", "inline") if w in words}
                marks |= {"const"} if re.search(r"\bconst\b", tail.split(":")[0]) else set()
                marks |= {"inline"} if end == "{" else set()
                marks |= {"template"} if is_template else set()
                marks |= {"default"} if "default" in tail else set()
                result = re.sub(r"\b(static|explicit|constexpr|inline|virtual)\b\s*", "", head).strip()
                names = [s[1] for s in scopes if s[1]]
                member = any(s[0] in ("class", "struct") for s in scopes)
                yield Function(header.name, "::".join(names), found["name"].strip(), result,
                               split_parameters(found["parameters"]), frozenset(marks), member)
        if end == "{":
            skipped += 1


def public_functions(folder):
    for header in sorted(pathlib.Path(folder).glob("*.h")):
        if header.name not in FOR_KERNELS:
            yield from functions_of(header)


if __name__ == "__main__":
    import sys
    for f in public_functions(sys.argv[1]):
        print(f.header, f.full_name, "|", f.result, "|", "; ".join(f.parameters), "|", ",".join(sorted(f.qualifiers)))
