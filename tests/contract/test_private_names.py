"""Tests use the package as its users do: by public names."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import diploee

PRIVATE = r"(_(?!_)\w*[^\W_])\b"  # not `_repr_html_`, which notebooks call
DECLARED = re.compile(rf"(?m)(?:^ *(?:def |class )?|self\.(?=[^()=\n]+ = )){PRIVATE}")
KERNEL = re.compile(rf"njit.*\ndef {PRIVATE}")


def names_read(node: ast.AST, own: set[str], kernels: set[str]) -> Iterator[str]:
    """Yield what a node imports or reads, also as "module._name" or setattr(it,
    "_name")."""
    match node:
        case ast.alias(name=name) if name not in kernels:
            yield name
        case ast.Attribute(value=ast.Name(id="self"), attr=name) if name in own:
            pass
        case ast.Attribute(attr=name):
            yield name
        case ast.Constant(value=str(text)) if "._" in text:
            yield text.rpartition(".")[2]
        case ast.Call(
            func=ast.Attribute(attr=name) | ast.Name(id=name), args=[_, of, *_]
        ):
            yield getattr(of, "value", "") if name.endswith("attr") else ""


def test_no_test_reads_a_private_name_of_the_package_but_imports_kernels() -> None:
    sources = [
        p.read_text("utf-8") for p in Path(diploee.__file__).parent.rglob("*.py")
    ]
    private, kernels = (
        set(each.findall("\n".join(sources))) for each in (DECLARED, KERNEL)
    )
    found = []
    for path in Path(__file__).parents[1].rglob("*.py"):
        text = path.read_text("utf-8")
        if private & set(re.findall(rf"\b{PRIVATE}", text)):
            nodes, own = ast.walk(ast.parse(text)), set(DECLARED.findall(text))
            names = {name for node in nodes for name in names_read(node, own, kernels)}
            found += [f"{path}: {name}" for name in sorted(names & private)]
    assert not found, "\n".join(found)
