"""Where definitions begin in languages that tree-sitter parses: https://tree-sitter.github.io/tree-sitter/.

A grammar is loaded when the first file in its language is cut. A text on which the parser takes too many steps counts
as one without a grammar.
"""

from __future__ import annotations

import functools
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from blackboard_mcp.protocols.values import dataclass

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

STEPS: Final = 300
BYTES_A_STEP: Final = 40
"""The parser may report progress so often, and once more for so many bytes: twice what real sources take (one for 100
bytes). Beyond that texts made to be ambiguous fill the memory.
"""
MAX_SOURCE: Final = 100_000
"""Longest source that is parsed, in bytes."""
MAX_CUTS: Final = 5_000
_MAX_DEPTH: Final = 6
"""Definitions inside so many others are found."""
_NAME: Final = 80
_READ: Final = 16_384


@dataclass(frozen=True, slots=True)
class Language:
    """A grammar's package and function, the nodes that define something, and those that only hold definitions."""

    module: str
    function: str
    defines: frozenset[str]
    holds: frozenset[str]


def _language(module: str, defines: str, holds: str, function: str = "language") -> Language:
    return Language(module, function, frozenset(defines.split()), frozenset(holds.split()))


_SCRIPT: Final = (
    "function_declaration generator_function_declaration class_declaration abstract_class_declaration "
    "method_definition interface_declaration type_alias_declaration enum_declaration internal_module "
    "variable_declarator function_signature abstract_method_signature"
)
_SCRIPT_HOLDS: Final = (
    "export_statement lexical_declaration variable_declaration class_body statement_block expression_statement "
    "ambient_declaration"
)
_C: Final = "function_definition struct_specifier union_specifier enum_specifier type_definition"
_C_HOLDS: Final = "declaration linkage_specification declaration_list preproc_ifdef preproc_if preproc_else"
_JAVASCRIPT: Final = _language("tree_sitter_javascript", _SCRIPT, _SCRIPT_HOLDS)
_TYPESCRIPT: Final = _language("tree_sitter_typescript", _SCRIPT, _SCRIPT_HOLDS, "language_typescript")
_CPP: Final = _language(
    "tree_sitter_cpp",
    f"{_C} class_specifier namespace_definition alias_declaration concept_definition",
    f"{_C_HOLDS} template_declaration field_declaration_list",
)
LANGUAGES: Final = {
    **dict.fromkeys((".js", ".mjs", ".cjs", ".jsx"), _JAVASCRIPT),
    **dict.fromkeys((".ts", ".mts", ".cts"), _TYPESCRIPT),
    ".tsx": _language("tree_sitter_typescript", _SCRIPT, _SCRIPT_HOLDS, "language_tsx"),
    ".go": _language(
        "tree_sitter_go",
        "function_declaration method_declaration type_spec type_alias const_spec var_spec",
        "type_declaration const_declaration var_declaration var_spec_list",
    ),
    ".rs": _language(
        "tree_sitter_rust",
        "function_item function_signature_item struct_item enum_item union_item trait_item impl_item mod_item "
        "macro_definition type_item const_item static_item",
        "declaration_list",
    ),
    ".java": _language(
        "tree_sitter_java",
        "class_declaration interface_declaration enum_declaration record_declaration annotation_type_declaration "
        "method_declaration constructor_declaration",
        "class_body interface_body enum_body enum_body_declarations",
    ),
    **dict.fromkeys((".c", ".h"), _language("tree_sitter_c", _C, _C_HOLDS)),
    **dict.fromkeys((".cc", ".cpp", ".cxx", ".hh", ".hpp", ".hxx"), _CPP),
}
"""The languages by the ends of names; Python is parsed by its own standard library."""
_BEFORE: Final = frozenset(
    ["comment", "line_comment", "block_comment", "decorator", "attribute_item", "inner_attribute_item"]
)
"""Nodes that belong to the definition after them."""
_BODIES: Final = frozenset(
    ["ERROR", "declaration_list", "statement_block", "linkage_specification", "enum_body_declarations"]
)
"""Nodes that hold definitions and begin none, as `export` does; so do those of C's preprocessor."""
_ONE_LINE: Final = frozenset(["variable_declarator", "const_spec", "var_spec", "const_item", "static_item"])
"""Nodes that define something only where they are longer than a line."""


def definitions(ending: str, text: str) -> list[tuple[int, str]] | None:
    """Returns where definitions begin, with their titles, and where top-level ones end, with an empty one.

    Lines count from 1. Returns `None` without a grammar for the ending, as `.rs`, and where the source is too long or
    parsing takes too many steps or makes nothing of it.
    """
    language = LANGUAGES.get(ending)
    parser = None if language is None else _parser(language)
    if language is None or parser is None:
        return None
    source = text.encode()
    root = _parsed(parser, source) if len(source) <= MAX_SOURCE else None
    if root is None:
        return None
    cuts: list[tuple[int, str]] = []
    _visit(root, language, "", cuts, 0)
    if root.has_error and not cuts:
        return None
    merged: dict[int, str] = {}
    for line, title in cuts[:MAX_CUTS]:
        if title and not merged.get(line):
            merged[line] = title
        merged.setdefault(line, title)
    return sorted(merged.items())


@functools.cache
def _parser(language: Language) -> Parser | None:
    """Returns a parser; `None` if its packages are not installed."""
    if find_spec("tree_sitter") is None or find_spec(language.module) is None:
        return None
    from tree_sitter import Language as Grammar
    from tree_sitter import Parser

    return Parser(Grammar(getattr(import_module(language.module), language.function)()))


def _parsed(parser: Parser, source: bytes) -> Node | None:
    left = STEPS + len(source) // BYTES_A_STEP

    def stops(_offset: int, _error: bool) -> bool:
        nonlocal left
        left -= 1
        return left <= 0

    try:
        tree = parser.parse(lambda at, _: source[at : at + _READ], progress_callback=stops)
    except ValueError:  # the parser was stopped
        tree = None
    if tree is None or left <= 0:
        parser.reset()
        return None
    return tree.root_node


def _visit(body: Node, language: Language, above: str, cuts: list[tuple[int, str]], depth: int) -> None:
    """Adds the cuts of the definitions in a node, not going deeper than `_MAX_DEPTH`."""
    if depth > 2 * _MAX_DEPTH or len(cuts) > MAX_CUTS:
        return
    begins: int | None = None
    last = -1
    for node in body.named_children:
        line = node.start_point[0] + 1
        if node.type in _BEFORE:
            if begins is None or line > last + 1:
                begins = line
            last = node.end_point[0] + (node.end_point[1] > 0)
            continue
        start = begins if begins is not None and line <= last + 1 else line
        begins = None
        if node.type in language.defines:
            _define(node, language, start, above, cuts, depth)
        elif node.type in language.holds or node.type == "ERROR":
            first = len(cuts)
            _visit(node, language, above, cuts, depth + 1)
            if first < len(cuts) and not node.type.startswith("preproc") and node.type not in _BODIES:
                cuts[first] = (start, cuts[first][1])


def _define(
    node: Node, language: Language, start: int, above: str, cuts: list[tuple[int, str]], depth: int
) -> None:
    name = _named(node)
    if not name or (node.type in _ONE_LINE and node.start_point[0] == node.end_point[0]):
        return
    title = f"{above} > {name}" if above else name
    cuts.append((start, title))
    body = node.child_by_field_name("body")
    if body is None:
        body = node.child_by_field_name("value")
    if body is not None and not node.type.startswith(("function", "method", "generator", "constructor")):
        _visit(body, language, title, cuts, depth + 1)
    if not above:
        cuts.append((node.end_point[0] + 2, ""))


def _named(node: Node) -> str:
    """Returns what a node defines: `run`, of a method in Go `Server.run`, of a Rust `impl` its type."""
    found = node.child_by_field_name("name") or node.child_by_field_name("declarator")
    while found is not None and (inner := found.child_by_field_name("declarator")) is not None:
        found = inner
    if node.type == "impl_item":
        found = node.child_by_field_name("type")
        trait = node.child_by_field_name("trait")
        if trait is not None and found is not None:
            return f"{_text(found)}: {_text(trait)}"
    if found is None:
        return ""
    receiver = node.child_by_field_name("receiver")
    if receiver is not None and node.type == "method_declaration":
        of = _text(receiver).strip("()").split()[-1:]
        return ".".join([*(one.lstrip("*").partition("[")[0] for one in of), _text(found)])
    return _text(found)


def _text(node: Node) -> str:
    return " ".join((node.text or b"").decode(errors="replace").split())[:_NAME]
