"""Reading recipes: texts go in and out unchanged, and nothing else is let in."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ocs_codesign.graphs.expansions.line import Line
from ocs_codesign.graphs.recipe import Recipe
from ocs_codesign.graphs.registry import EXPANSIONS, FAMILIES, GROUPS
from ocs_codesign.graphs.text import MAX_DEPTH, MAX_TEXT, parse


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("  Complete( 4 )\n", "Complete(4)"),
        ("Line(Complete(4), 3)", "Line(Line(Line(Complete(4))))"),
        ("Line(Complete(4),)", "Line(Complete(4))"),
        ("Named('petersen')", 'Named("petersen")'),
        ("Torus([3, 2])", "Torus((3, 2))"),
        ("Circulant(0x10, (1_0, 0b11))", "Circulant(16, (10, 3))"),
        ("(Complete(4))", "Complete(4)"),
        ("Cayley(Cyclic(5), (-1,))", "Cayley(Cyclic(5), (-1,))"),
        ("Product(\n  Complete(2),\n  UniRing(1, 3),\n)", "Product(Complete(2), UniRing(1, 3))"),
        ("Complete(4) # five words", "Complete(4)"),
    ],
)
def test_other_spellings(text, canonical):
    assert repr(parse(text)) == canonical
    assert repr(parse(canonical)) == canonical


NOT_ALLOWED = [
    "Complete(4).topology()",
    "Complete(4).topology",
    "Complete.__init__(4)",
    "(lambda: Complete(4))()",
    "lambda: 4",
    "Torus([n for n in (2, 3)])",
    "Torus({2, 3})",
    "Torus({2: 3})",
    "Torus(tuple(i for i in (2, 3)))",
    "Complete(**{'n': 4})",
    "Complete(*(4,))",
    "Named(f'petersen')",
    "Named(b'petersen')",
    "Named('peter' + 'sen')",
    "Complete(4.0)",
    "Complete(4j)",
    "Complete(2 + 2)",
    "Complete(+4)",
    "Complete(~4)",
    "Complete(--4)",
    "Cayley(Cyclic(5), (True,))",
    "Cayley(Cyclic(5), (-True,))",
    "Complete(...)",
    "Complete(4 if 1 else 5)",
    "Complete(1 < 2)",
    "Complete((n := 4))",
    "Complete((4, 5)[0])",
    "Complete(yield 4)",
    "Complete(await 4)",
    "Complete(4)(5)",
    "[Complete][0](4)",
    "Complete(Complete)",
    "4",
    "'Complete(4)'",
    "(Complete(4), Complete(5))",
    "[Complete(4)]",
    "Line(Cyclic(4))",
    "Line(4)",
    "Line('Complete(4)')",
    "Product((Complete(2), Complete(3)))",
    "Product(Complete(2), Cyclic(3))",
    "Cayley(Complete(4), (1,))",
    "Complete(4); Complete(5)",
    "Complete(4)\nComplete(5)",
    "x = Complete(4)",
    "import os",
    "__import__('os').system('true')",
    "eval('Complete(4)')",
    "Recipe()",
    "Base()",
    "Expanded()",
    "Shape(4, 3)",
    "Complete)4(",
    "Complete(4))",
    "Complete 4",
    "",
    "   \n\t",
    "\x00",
    "Complete(4)\x00",
    "Complete(\x004)",
    "Complete(4)\\",
    "\ud800",
    "Complete('\ud800')",
    "Named('\ud800')",
    "'''",
    "#",
    "Complete(09)",
    "Complete(1__0)",
    "Complete(" + "9" * 5000 + ")",
    "Complete(" + "9" * 4000 + ")",
    "Hypercube(" + "9" * 4000 + ")",
]


@pytest.mark.parametrize("text", NOT_ALLOWED, ids=lambda text: ascii(text)[:40])
def test_refused(text):
    with pytest.raises(ValueError, match=r"."):
        parse(text)


@pytest.mark.parametrize("value", [None, 4, b"Complete(4)", ["Complete(4)"], Line])
def test_not_a_text(value):
    with pytest.raises(ValueError, match="a recipe is a text"):
        parse(value)


def test_megabytes_are_refused_at_once():
    with pytest.raises(ValueError, match=f"at most {MAX_TEXT} are read"):
        parse("Complete(4)" + " " * 10**6)
    with pytest.raises(ValueError, match="at most"):
        parse("9" * 10**6)


@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 500, 5000, 15000])
@pytest.mark.parametrize(
    ("opening", "inner", "closing"),
    [("Line(", "Complete(2)", ")"), ("(", "2,", ")"), ("[", "", "]"), ("-", "1", "")],
)
def test_deep_nesting_is_refused(depth, opening, inner, closing):
    with pytest.raises(ValueError, match=r"."):
        parse(opening * depth + inner + closing * depth)


def test_recipes_as_deep_as_they_may_be():
    recipe = parse("Complete(2)")
    for _ in range(MAX_DEPTH - 2):
        recipe = Line(recipe)
    assert parse(repr(recipe)) == recipe


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("exit()", "unknown name 'exit' in a recipe"),
        ("Complet(4)", "unknown name 'Complet' in a recipe: did you mean Complete"),
        ("line(Complete(4))", "unknown name 'line' in a recipe: did you mean Line"),
        ("Hyperqube(3)", "did you mean Hypercube"),
        ("Cayley(Dihedrall(3), (1,))", "did you mean Dihedral"),
        ("Complete", "'Complete' in a recipe: names must be called"),
        ("b4", "'b4' in a recipe: .* --graph takes files, verify and simulate take designs"),
        ("Line(b4)", r"'b4' in a recipe: names must be called, as in Complete\(4\)$"),
        ("a100(2)", "unknown name 'a100' in a recipe: it makes a network, for optimum, compare"),
        ("Complete(4, 5)", "Complete does not take 2 arguments"),
        ("Torus(7, 9)", r"Torus does not take 2 arguments: write it as Torus\(\(7, 9\)\)"),
        ("Circulant(12, 1, 5)", r"write it as Circulant\(12, \(1, 5\)\)"),
        ("Torus()", r"write it as Torus\(\(3, 3, 2\)\)"),
        ("Hamming(2, 3, 4)", r"write it as Hamming\(2, 6\)"),
        ("torus((4, 4))", "unknown name 'torus' in a recipe: did you mean Torus"),
        ("nets.yaml", "'nets.yaml' is no recipe: is it a file"),
        ("../x-1/y", "'../x-1/y' is no recipe: is it a file. Give --graph ../x-1/y"),
        ("Hamming(4)", "Hamming does not take 1 argument"),
        ("Line()", "Line does not take 0 arguments"),
        ("Complete(n=4)", r"'Complete\(n=4\)' is not allowed in a recipe"),
        ("Complete(True)", "'True' is not allowed in a recipe"),
        ("Complete(None)", "'None' is not allowed in a recipe"),
        ("Complete(4).n", r"'Complete\(4\).n' is not allowed in a recipe"),
        ("Complete(", r"cannot read 'Complete\(' as a recipe"),
        ("Cyclic(4)", r"'Cyclic\(4\)' is not a recipe"),
        ("Complete(1)", "n is 1: it must be an integer of at least 2"),
        ("Degree(DeBruijn(2, 2), 2)", "Degree needs a graph without self-loops"),
        ("Line(Complete(4), 0)", "the number of nestings is 0"),
        ("Line(Complete(4), 65)", "at least 1 and at most 64"),
        ('Named("peterson")', "did you mean petersen"),
        ("Product(Complete(2))", "two or more factors"),
        ("Product()", "two or more factors"),
        ("Power(Complete(2), 0)", "n is 0"),
    ],
)
def test_messages(text, message):
    with pytest.raises(ValueError, match=message):
        parse(text)


def test_long_texts_are_shortened_in_messages():
    with pytest.raises(ValueError, match=r"\.\.\.' is not allowed") as raised:
        parse("Complete(" + "a + " * 500 + "a)")
    assert len(str(raised.value)) < 200


NAMES = [*FAMILIES, *EXPANSIONS, *GROUPS, "petersen", "exit", "__import__", "self", "None"]
SIGNS = "()[]{},.+-*/=:;'\"\\ \n#@"
PIECES = st.sampled_from(
    [*NAMES, *SIGNS, "lambda", "for", "in", "(1, 2)", "3", "0", "-1", "2.5", "1e9"]
)


@given(st.lists(PIECES, max_size=25).map("".join) | st.text(max_size=60))
@example("Complete(4)")
@example("\ufeffComplete(4)")
@settings(max_examples=1000)
def test_any_text_is_a_recipe_or_a_value_error(text):
    try:
        recipe = parse(text)
    except ValueError:
        return
    assert isinstance(recipe, Recipe)
    assert parse(repr(recipe)) == recipe


numbers = st.integers(-3, 40) | st.sampled_from([2**31, 2**64, 10**30])
values = st.recursive(
    numbers.map(str) | st.sampled_from(['"petersen"', '""', "True", "2.0"]),
    lambda inner: (
        st.builds(
            "{}({})".format, st.sampled_from(NAMES), st.lists(inner, max_size=3).map(", ".join)
        )
        | st.lists(inner, max_size=3).map(lambda parts: f"({', '.join(parts)},)")
    ),
    max_leaves=8,
)


@given(values)
@settings(max_examples=1000)
def test_any_call_is_a_recipe_or_a_value_error(text):
    try:
        recipe = parse(text)
    except ValueError:
        return
    assert recipe.num_nodes >= 1
    assert parse(repr(recipe)) == recipe
