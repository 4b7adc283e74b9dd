"""The commands on Markdown pages: in blocks that are indented or of a shell, and those in code spans with arguments."""

import dataclasses
import re

# A line whose first word is another one is what a command prints.
PROGRAMS = re.compile(r"(?:build/)?weft(?:-\w+)?|weftcomm|make|cmake|g\+\+|sudo|python3?|scripts/[\w-]+|tests/[\w/]+|bench/[\w/]+")
SPAN = re.compile(r"(?<!`)`((?:build/)?weft [a-z][^`]*)`(?!`)")


@dataclasses.dataclass(frozen=True)
class Command:
    page: str
    line: int
    text: str
    span: bool  # in a sentence, where it may be shortened to its name


def command_of(line):
    """The command of a line without its comment, which begins with # or after two spaces; empty: it is none."""
    text = re.sub(r"\s{2,}.*| # .*", "", line.strip().removeprefix("$ ")).strip()
    words = text.split()
    while words and re.fullmatch(r"[A-Z_]+=\S*", words[0]):
        words.pop(0)
    return text if words and PROGRAMS.fullmatch(words[0]) else ""


def on_page(page, text):
    language, joined, begun = None, "", 0
    for number, line in enumerate(text.split("\n"), 1):
        if fence := re.match(r"```(\w*)", line):
            language = None if language is not None else fence[1]
            continue
        if language in ("sh", "bash", "console") or (language is None and line.startswith("    ")):
            joined, begun = joined + line.strip(), begun or number
            if joined.endswith("\\"):
                joined = joined[:-1]
                continue
            if found := command_of(joined):
                yield Command(page, begun, found, False)
            joined, begun = "", 0
        elif language is None:
            for span in SPAN.finditer(line):
                yield Command(page, number, re.sub(r"\s+", " ", span[1]), True)
