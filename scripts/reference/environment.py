"""The page of environment variables, from the tables in src/base/env.cc."""

import re

TEXT = re.compile(r'"((?:[^"\\]|\\.)*)"')


def table_of(source, name):
    """The rows of `constexpr ... name[] = {...};`, each a list of its string literals; adjacent ones are joined."""
    found = re.search(rf"\b{name}\[\] = \{{\n(.*?)\n\}};", source, re.S)
    if found is None:
        raise ValueError(f"src/base/env.cc has no table {name}")
    return found[1]


def cells(row):
    """The string literals of a row, of which those without a comma between them are one."""
    joined = re.sub(r'"\s*\n?\s*"', "", row)
    return [text.replace('\\"', '"') for text in TEXT.findall(joined)]


def page(path):
    source = path.read_text()
    rows = []
    for row in re.findall(r"\{(\"WEFT.*?\")\}", table_of(source, "kTable"), re.S):
        found = cells(row)
        if len(found) != 4:
            raise ValueError(f"{path}: a row of kTable has {len(found)} texts: {row.strip()}")
        rows.append(found)
    launchers = [name for name in TEXT.findall(table_of(source, "kLauncher"))]
    out = ["# Environment variables", "",
           "For users of every program that is linked with weft, and of the command. Numbers and sizes that do not parse are refused",
           "with a line that names the variable. Sizes accept 8, 64K, 1M, 1G (binary).", "", "| variable | type | default | meaning |",
           "|---|---|---|---|"]
    out += [f"| `{name}` | {kind} | {fallback} | {meaning.replace('|', chr(92) + '|')} |" for name, kind, fallback, meaning in rows]
    out += ["", "A program that no `WEFT_SIZE` describes takes its place in the job from its launcher's variables:", "",
            ", ".join(f"`{name}`" for name in launchers) + ".", "",
            "[Use weft from your program](../using.md) says how each launcher's ranks meet, and what NCCL's variables mean to weft.", ""]
    return "\n".join(out)
