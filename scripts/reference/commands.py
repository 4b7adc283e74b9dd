"""Pages of the commands, which are their --help."""

import re
import subprocess


def help_of(weft, *words):
    # The name in front of the help is the one that the process was started by.
    return subprocess.run(["weft", *words, "--help"], executable=weft, capture_output=True, text=True, check=True,
                          env={"PATH": "/usr/bin:/bin"}).stdout.rstrip("\n").split("\n")


def subcommands(lines):
    if "Subcommands:" not in lines:
        return []
    found = []
    for line in lines[lines.index("Subcommands:") + 1:]:
        name = re.match(r"  ([a-z-]+)\s", line)
        if name is None:
            break
        found.append(name[1])
    return found


def text_of(weft, words, lines):
    # The table of variables is a page of its own.
    cut = next((i for i, line in enumerate(lines) if line.startswith("Environment that weft programs read:")), len(lines))
    more = "" if cut == len(lines) else "\n[Environment variables](../environment.md) lists what programs read.\n"
    body = "\n".join(line.rstrip() for line in lines[1:cut]).strip("\n")
    text = f"{lines[0]}.\n\n```text\n{body}\n```\n{more}"
    for name in subcommands(lines):
        text += f"\n## weft {' '.join((*words, name))}\n\n" + text_of(weft, (*words, name), help_of(weft, *words, name))
    return text


def pages(weft):
    overview = help_of(weft)
    made = {"weft": ("weft", "all commands, sizes, exit codes", text_of_overview(overview))}
    for name in subcommands(overview):
        lines = help_of(weft, name)
        made[f"weft-{name}"] = (f"weft {name}", lines[0], text_of(weft, (name,), lines))
    return made


def text_of_overview(lines):
    body = "\n".join(line.rstrip() for line in lines[1:]).strip("\n")
    return f"{lines[0].removeprefix('weft: ').capitalize()}.\n\n```text\n{body}\n```\n"
