"""Pages of the C interfaces: OpenSHMEM's functions as the compiler sees them, and NCCL's."""

import re
import subprocess

# The lists of element types of weft/shmem/types.h: functions made of one are shown once, for TYPE with the name TYPENAME.
LISTS = re.compile(r"#define (WEFT_SHMEM_\w+)\(X, a, b\)(?:[^\n\\]|\\.|\\\n)*\n")
PARTS = {"memory": "Start, memory, contexts, teams, locks", "rma": "Put, get, put with signal", "atomics": "Atomic operations",
         "sync": "Order and waiting", "collectives": "Collectives", "deprecated": "Deprecated in OpenSHMEM 1.5"}


def preprocessed(text):
    done = subprocess.run(["c++", "-E", "-P", "-x", "c", "-"], input=text, capture_output=True, text=True)
    if done.returncode != 0:
        raise ValueError(f"c++ -E: {done.stderr.strip().splitlines()[0]}")
    return done.stdout


def names_of(types, name):
    made = preprocessed(types + f"\n#define ONE(T, name, a, b) [name]\nbegin {name}(ONE, , )\n")
    return re.findall(r"\[\s*(\w+)\s*\]", made.split("begin")[1])


def tidy(declaration):
    text = re.sub(r"\s+", " ", declaration).strip()
    return re.sub(r"\s*\*\s*", "* ", re.sub(r"\s*([(),;])\s*", r"\1", text).replace(",", ", ")).replace("* *", "**").replace("* const", "*const").replace("))void", ")) void")


def functions(types, header):
    """Declarations of a header, without pshmem_ names. `types`: with one TYPE per list."""
    body = re.sub(r"#include[^\n]*\n", "", header)
    made = preprocessed(types + "\nbegin_of_it\n" + body).split("begin_of_it")[1]
    found = [tidy(d) + ";" for d in made.split(";") if re.search(r"\bshmem_\w+\s*\(", d)]
    return list(dict.fromkeys(found))


def shmem(source):
    folder = source / "include/weft/shmem"
    types = re.sub(r"#(ifndef|define) WEFT_SHMEM_TYPES_H\n", "", (folder / "types.h").read_text(), count=2)
    types = re.sub(r"#include[^\n]*\n", "", types[:types.rindex("#endif")])
    lists = [name for name in LISTS.findall(types) if name.endswith(("_TYPES", "_EXTENDED", "_FLOATS"))]
    shown = LISTS.sub(lambda m: f"#define {m[1]}(X, a, b) X(TYPE, TYPENAME, a, b)\n" if m[1] in lists else m[0], types)
    shown = re.sub(r"(#define WEFT_SHMEM_BIT_SIZES\(X, a, b\)).*", r"\1 X(SIZE, a, b)", shown)
    text = ("`#include <shmem.h>`. Every function also exists as `pshmem_…`, for tools. `TYPE` stands for an element type and `TYPENAME` for\n"
            "its name in functions; `SIZE` for 8, 16, 32, 64 and 128 bits. [One-sided operations](../../pgas.md) is the guide.\n\n")
    for part, title in PARTS.items():
        header = (folder / f"{part}.h").read_text()
        says = re.search(r"/\* (.*?) \*/", header, re.S)
        text += f"## {title}\n\n{re.sub(r'[ ]*' + chr(10) + r'[ ]*', chr(10), says[1]) if says else ''}\n\n```c\n" + "\n".join(functions(shown, header)) + "\n```\n\n"
    text += "## Element types\n\n| functions | TYPENAME |\n|---|---|\n"
    what = {"RMA_TYPES": "put, get, and collectives that move", "AMO_EXTENDED": "atomic fetch, set, swap", "AMO_TYPES": "other atomics",
            "BITWISE_TYPES": "atomic and, or, xor", "WAIT_TYPES": "waits and tests", "LOGIC_TYPES": "reductions and, or, xor",
            "ORDERED_TYPES": "reductions min, max", "ARITHMETIC_TYPES": "reductions sum, prod"}
    for name, title in what.items():
        text += f"| {title} | {', '.join(names_of(types, 'WEFT_SHMEM_' + name))} |\n"
    return text


def nccl(source):
    text = (source / "src/compat/nccl/nccl.h").read_text()
    text = re.sub(r"\n[ \t]*#(?:[^\n\\]|\\.|\\\n)*", "", text)
    lines = []
    for found in re.finditer(r"/\*.*?\*/|(?:typedef\s+(?:enum|struct)\b[^;{]*(?:\{[^}]*\})?[^;]*;)|(?:[\w_][^;{}/]*\([^;{}]*\)\s*;)", text, re.S):
        if re.search(r"\bnccl\w+\s*\(", found[0]) and not found[0].startswith(("typedef", "/*")):
            lines.append(tidy(found[0]))
    if len(lines) < 20:
        raise ValueError("src/compat/nccl/nccl.h has a form that is not known: few functions were found")
    return ("The functions of `libnccl.so.2`, whose names, types and values are those of NCCL 2.32's `nccl.h`. Every function also exists as\n"
            "`pnccl…`, for profilers. [GPUs](../../gpu.md) says what stands behind them.\n\n```c\n" + "\n".join(lines) + "\n```\n")


def pages(source):
    return {"shmem": ("shmem.h", "OpenSHMEM 1.5", shmem(source)), "nccl": ("nccl.h", "NCCL's functions", nccl(source))}
