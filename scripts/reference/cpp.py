"""Pages of the C++ interface: every public header without private members and function bodies, comments as prose."""

import re

HIDDEN_NAMESPACES = re.compile(r"impl|detail|session|stream|api")
SKIPPED = ("device_mark", "pgas_types")  # one macro; two types that pgas.h shows in use


def matching(text, at):
    """The place after the brace that closes the one at `at`; comments and texts may hold others."""
    depth = 0
    for found in re.compile(r'//[^\n]*|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)\'|[{}]').finditer(text, at):
        depth += {"{": 1, "}": -1}.get(found[0], 0)
        if depth == 0:
            return found.end()
    raise ValueError(f"a brace is not closed: {text[at:at + 60]!r}")


TOKEN = re.compile(r'(?P<comment>//[^\n]*)|(?P<text>"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)\')|(?P<mark>[(){};=])')


def declaration(text, at):
    """(declaration, body or None, place after it). A body is what a function, class, enum or namespace has in braces."""
    depth, start, assigned, called = 0, at, False, False
    kind = re.match(r"(?:template\s*<.*?>\s*)?(?:inline\s+)?(class|struct|enum|namespace|union)\b", text[at:], re.S)
    while found := TOKEN.search(text, at):
        at, mark = found.end(), found["mark"]
        if mark == "(":
            depth, called = depth + 1, called or depth == 0
        elif mark == ")":
            depth -= 1
        elif mark == "=" and depth == 0:
            assigned = True
        elif mark == "{" and (depth > 0 or (not kind and (assigned or not called))):
            at = matching(text, found.start())  # a value
        elif mark == "{":
            end = matching(text, found.start())
            tail = re.compile(r"[ \t]*;").match(text, end)
            return text[start:found.start()].rstrip(), text[found.end():end - 1], tail.end() if kind and tail else end
        elif mark == ";" and depth == 0:
            return text[start:at], None, at
    raise ValueError(f"a declaration does not end: {text[start:start + 80]!r}")


def items(text):
    """(comment, declaration, body, comment behind) of what stands on one level; an access specifier is a declaration."""
    at, comment = 0, []
    while at < len(text):
        if blank := re.compile(r"[ \t]*\n").match(text, at):
            at = blank.end()
            if comment:
                yield "\n".join(comment), "", None, ""
                comment = []
            continue
        at = re.compile(r"[ \t]*").match(text, at).end()
        if at == len(text):
            break
        if line := re.compile(r"//[^\n]*\n?").match(text, at):
            comment.append(line[0].strip())
        elif line := re.compile(r"#(?:[^\n\\]|\\.|\\\n)*\n?").match(text, at):
            pass
        elif line := re.compile(r"(public|private|protected):[ \t]*\n?").match(text, at):
            yield "", line[1] + ":", None, ""
        else:
            shown, body, end = declaration(text, at)
            behind = re.compile(r"[ \t]*(//[^\n]*(?:\n[ \t]*//[^\n]*(?=\n))*)?").match(text, end)
            first = (behind[1] or "").split("\n")[0]  # further lines belong to what comes next
            yield "\n".join(comment), shown, body, first
            comment, at = [], end + len(behind[0].split("\n")[0])
            at = re.compile(r"[ \t]*\n?").match(text, at).end()
            continue
        at = line.end() if line else at
    if comment:
        yield "\n".join(comment), "", None, ""


def without_initialisers(shown):
    """A constructor's head without its list of members."""
    return re.sub(r"\)(\s*(?:noexcept)?)\s*:\s*\w+[({].*$", r")\1", shown, flags=re.S).rstrip()


def dedented(text):
    """A declaration whose further lines were indented with its class; what follows a template's head stands below it."""
    text = re.sub(r"\n[ \t]+", "\n    ", text)
    return re.sub(r"^(template <[^\n]*>)\n    ", r"\1\n", text)


def type_defined(shown):
    """(kind, name) of the head of a class, struct or enumeration; None: it is none."""
    found = re.search(r"(?:^|[\s>])(class|struct|enum class|enum)\s+(?:alignas\(\d+\)\s+)?(\w+)(?:\s*:[^:(][^(]*)?$", shown)
    return (found[1], found[2]) if found else None


def members(body, visible):
    """The lines of a class without what is private, indented by two."""
    lines, pending_blank = [], False
    for comment, shown, inner, behind in items(body):
        if shown in ("public:", "private:", "protected:"):
            visible = shown == "public:"
            continue
        if not visible or shown.startswith("friend ") or re.match(r"(class|struct)\s+\w+;$", shown):
            continue
        if comment and "(" in shown and lines and lines[-1]:
            lines.append("")
        lines += [f"  {line}" for line in comment.split("\n") if comment]
        if not shown:
            lines.append("")
            continue
        if inner is not None and (kind := type_defined(shown)):
            lines += [f"  {line}" if line else "" for line in whole_type(dedented(shown), kind[0], inner)]
            continue
        text = without_initialisers(shown) + (";" if inner is not None else "")
        lines += [f"  {line}" for line in dedented(text).split("\n")]
        if behind:
            lines[-1] += "  " + behind
    while lines and not lines[-1]:
        lines.pop()
    return [line for i, line in enumerate(lines) if line or (i > 0 and lines[i - 1])]


def whole_type(shown, kind, body):
    """The lines of a type with its public members."""
    inside = ([f"  {line.strip()}".rstrip() for line in body.strip("\n").split("\n")] if kind.startswith("enum")
              else members(body, kind == "struct"))
    return [*(f"{shown} {{").split("\n"), *inside, "};"]


def prose(comment):
    """A comment as Markdown; lines that are indented in it are a block."""
    lines, inside = [], False
    for line in comment.split("\n"):
        text = line.removeprefix("//").removeprefix(" ")
        indented = text.startswith("  ")
        if indented != inside and text.strip():
            lines += ["", "```text"] if indented else ["```", ""]
            inside = indented
        lines.append(text)
    return "\n".join(lines + ["```"] * inside) + "\n\n"


def block(lines):
    return "```cpp\n" + "\n".join(lines) + "\n```\n\n"


class Page:
    def __init__(self):
        self.text, self.free = "", []

    def flush(self):
        if self.free:
            self.text += block(self.free)
        self.free = []

    def add(self, scope, text):
        for comment, shown, body, behind in items(text):
            if not shown:
                self.flush()
                self.text += prose(comment)
            elif found := re.match(r"(?:inline\s+)?namespace\s+([\w:]*)", shown):
                name = found[1].removeprefix("weft").removeprefix("::")
                if comment:
                    self.text += prose(comment)
                if body is not None and not HIDDEN_NAMESPACES.fullmatch(name.split("::")[-1]):
                    self.add("::".join(filter(None, (scope, name))), body)
                    self.flush()
            elif re.match(r"(?:template\s*<.*?>\s*)?(class|struct|enum class|enum)\s+[\w:]+\s*;$", shown, re.S):
                continue
            elif body is not None and (kind := type_defined(shown)):
                self.flush()
                self.text += f"## {'::'.join(filter(None, ('weft', scope, kind[1])))}\n\n" + (prose(comment) if comment else "")
                self.text += block(whole_type(shown, kind[0], body))
            elif not shown.startswith("static_assert"):
                self.free += comment.split("\n") if comment else []
                self.free += (without_initialisers(shown) + (";" if body is not None else "")).split("\n")
                if behind:
                    self.free[-1] += "  " + behind


def pages(folder):
    made = {}
    for header in sorted([*folder.glob("*.h"), *folder.glob("*.cuh")]):
        if header.stem in SKIPPED:
            continue
        page = Page()
        page.add("", header.read_text())
        page.flush()
        found = re.findall(r"^## weft::(.*)$", page.text, re.M) or re.findall(r"^using (\w+)", page.text, re.M)
        names = ", ".join(f"`{name}`" for name in found)
        key = header.stem if header.suffix == ".h" else f"{header.stem}_gpu"
        made[key] = (f"weft/{header.name}", names, f"`#include <weft/{header.name}>`\n\n{page.text}")
    return made
