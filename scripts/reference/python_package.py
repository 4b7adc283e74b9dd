"""Pages of the Python package, read as text: a module's stub where there is one, else its source."""

import ast


def parsed(folder, module):
    for suffix in (".pyi", ".py"):
        file = folder / f"{module}{suffix}"
        if file.exists():
            return ast.parse(file.read_text(), str(file))
    raise ValueError(f"{folder} has no module {module}")


def exported(folder):
    """{public name: module} of the package, in the order of its imports."""
    tree = parsed(folder, "__init__")
    names = next((ast.literal_eval(node.value) for node in tree.body
                  if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__"), None)
    if names is None:
        raise ValueError(f"{folder}/__init__.py has no __all__")
    where = {alias.asname or alias.name: node.module for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    return {name: where[name] for name in where if name in names}


def is_overload(node):
    return any(getattr(d, "id", "") == "overload" for d in node.decorator_list)


def signature(node):
    words = f"{'async ' if isinstance(node, ast.AsyncFunctionDef) else ''}def {node.name}({ast.unparse(node.args)})"
    return words + (f" -> {ast.unparse(node.returns)}" if node.returns else "")


def functions(body):
    """(shown signature, docstring) of public functions; of overloads the first signature is shown."""
    first = {}
    for node in body:
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) or (node.name.startswith("_") and node.name != "__init__"):
            continue
        if is_overload(node):
            first.setdefault(node.name, node)
            continue
        shown = signature(first.get(node.name, node))
        if any(getattr(d, "id", "") == "property" for d in node.decorator_list):
            shown = f"{node.name}: {ast.unparse(node.returns)}  # read only"
        text = ast.get_docstring(node) or ""
        if node.name != "__init__" or text:
            yield shown, text


def described(shown, text):
    return f"```python\n{shown}\n```\n\n{text}\n\n" if text else f"```python\n{shown}\n```\n\n"


def class_text(node):
    bases = ", ".join(ast.unparse(b) for b in node.bases)
    out = f"## {node.name}\n\n```python\nclass {node.name}{f'({bases})' if bases else ''}\n```\n\n{ast.get_docstring(node) or ''}\n\n"
    fields = [ast.unparse(item) for item in node.body if isinstance(item, ast.AnnAssign) and not item.target.id.startswith("_")]
    if fields:
        out += "```python\n" + "\n".join(fields) + "\n```\n\n"
    return out + "".join(described(*found) for found in functions(node.body))


def module_text(tree, names):
    out = ""
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name in names:
            out += class_text(node)
        elif isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") in names:
            out += f"## {node.targets[0].id}\n\n```python\n{ast.unparse(node)}\n```\n\n"
    found = [node for node in tree.body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name in names]
    for shown, text in functions(found):
        out += f"## {shown.split('(')[0].removeprefix('async ').removeprefix('def ')}\n\n" + described(shown, text)
    return out


def public_names(tree):
    return [node.name for node in tree.body
            if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and not node.name.startswith("_")]


def taken_from_private(folder, tree):
    """The text of names in __all__ that stand in modules whose names begin with _, and these names."""
    public = next((ast.literal_eval(node.value) for node in tree.body
                   if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__"), [])
    text, names = "", []
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.level == 1 and (node.module or "").startswith("_"):
            here = [alias.name for alias in node.names if alias.name in public]
            text += module_text(parsed(folder, node.module), here) if here else ""
            names += here
    return text, names


# What public classes inherit: not exported, but their functions are those that users call.
INHERITED = {"Collectives": "_collectives", "ExpertCollectives": "_experts"}


def pages(folder):
    where = exported(folder) | INHERITED
    titles = {"_communicator": "communicators and collectives", "_errors": "exceptions", "_experts": "mixtures of experts", "_machine": "simulated machines and proofs"}
    made = {}
    for module in dict.fromkeys(where.values()):
        names = [name for name, of in where.items() if of == module]
        text = f"What `import weftcomm` gives. [weft from Python](../../python.md) is the guide.\n\n{module_text(parsed(folder, module), names)}"
        title = titles.get(module, module.strip("_"))
        made[module.strip("_")] = (f"weftcomm: {title}", ", ".join(f"`{n}`" for n in names), text)
    for module in ("jax", "kv", "reshard", "transfer"):
        tree = parsed(folder, module)
        taken, others = taken_from_private(folder, tree)
        names = public_names(tree) + others
        text = f"What `import weftcomm.{module}` gives.\n\n{ast.get_docstring(tree) or ''}\n\n{module_text(tree, names)}{taken}"
        made[f"weftcomm_{module}"] = (f"weftcomm.{module}", ", ".join(f"`{n}`" for n in names), text)
    return made
