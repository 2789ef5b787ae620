"""The rules of the house that a machine can check: who imports what, and what must not exist."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter
from functools import cache
from graphlib import TopologicalSorter

import pytest
from folders import MODULES, PACKAGE, ROOT, nodes, sources

MAX_LOADED = 60
"""Modules of the package that a plain `cost` may load."""

ALLOWED = {
    "highspy": r"core/lp/",
    "gurobipy": r"core/lp/",
    "networkx": r"core/networks/networkx_network\.py|graphs/formats/|faces/",
    "matplotlib": r"faces/",
    "pandas": r"faces/|search/catalogue/table\.py|core/shown\.py",  # the last for typing
    "xml": r"core/networks/graph_files\.py|graphs/formats/|interop/|fabric/bundle/",
    "rich": r"faces/cli/",
    "click": r"faces/cli/",
    "mpi4py": r"interop/run/",
    "torch": r"interop/runtimes/torch_",
    "jax": r"interop/runtimes/jax_",
    "numba": r"(.*/)?\w*kernels\w*\.py",
}
"""Where a library may be imported, as the beginning of a module's path in the package."""

HEAVY = (
    "numpy",
    "scipy",
    "numba",
    "networkx",
    "matplotlib",
    "pandas",
    "highspy",
    "gurobipy",
    "rich",
    "mpi4py",
    "torch",
    "jax",
)
SIDES = ("write", "check")
CHECK_OF_BUNDLES = "fabric/bundle/check/"
VALUES = ("core.", "verification.")
PLAIN_READERS = ("schedules.files.archive", "schedules.files.designs", "fabric.files.fabric_files")
"""What reads the files of a bundle into values: beside these, its check imports no format."""
MAKERS = ("graphs", "schedules", "search", "circuits", "fabric", "jobs", "interop", "faces")


@cache
def all_imported() -> dict[str, set[str]]:
    """Full names of everything that modules import anywhere, for typing included."""
    names: dict[str, set[str]] = {module: set() for module in MODULES}
    for module, node in nodes():
        if isinstance(node, ast.Import):
            names[module].update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} has a relative import"
            names[module].update(f"{node.module}.{alias.name}" for alias in node.names)
    return names


def imported(module: str) -> set[str]:
    return all_imported()[module]


def test_the_package_was_found():
    assert {"core/topology.py", "schedules/breadth_first/assembly.py"} <= set(MODULES)


def test_layers():
    command = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    done = subprocess.run(
        [sys.executable, "-c", command, "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken" in done.stdout


def test_heavy_libraries_stay_where_they_belong():
    astray = [
        f"{module} imports {name}"
        for module in MODULES
        for name in imported(module)
        if not re.match(ALLOWED.get(name.split(".")[0], ""), module)
    ]
    assert astray == []


@pytest.mark.parametrize(
    "library", ["highspy", "gurobipy", "networkx", "numba", "rich", "mpi4py", "torch", "jax"]
)
def test_the_rules_are_about_libraries_in_use(library):
    assert any(name.split(".")[0] == library for module in MODULES for name in imported(module))


def modules_behind(module: str, seen: set[str] | None = None) -> set[str]:
    """All modules of the package that one needs, directly or not, typing aside."""
    seen = set() if seen is None else seen
    for name in needed(module) - seen:
        seen.add(name)
        modules_behind(name, seen)
    return seen


@cache
def runtime_imports(module: str) -> set[str]:
    """Full names of what a module imports when it runs."""
    found: set[str] = set()
    queue: list[ast.AST] = [sources()[module]]
    while queue:
        node = queue.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
        statements = (ast.stmt, ast.ExceptHandler, ast.match_case)
        queue.extend(part for part in ast.iter_child_nodes(node) if isinstance(part, statements))
    return found


def needed(module: str) -> set[str]:
    """The modules of the package that one imports itself, typing aside."""
    found = set()
    for name in runtime_imports(module):
        package, *parts = name.split(".")
        for end in (len(parts), len(parts) - 1) if package == PACKAGE.name else ():
            path = "/".join(parts[:end])
            found |= {path + end for end in (".py", "/__init__.py") if path + end in MODULES}
    return found - {module}


def test_no_imports_go_round_in_circles():
    """Not even those inside of functions, which a machine would not notice."""
    order = TopologicalSorter({module: needed(module) for module in MODULES})
    assert len(list(order.static_order())) == len(MODULES)


def test_no_name_is_of_two_types():
    """Those of the two sides of a bundle are apart, since they share nothing."""
    named = Counter(
        node.name
        for module, node in nodes()
        if not module.startswith(CHECK_OF_BUNDLES)
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert [name for name, times in named.items() if times > 1] == []


@pytest.mark.parametrize("module", [name for name in MODULES if name.startswith("verification/")])
def test_the_checker_shares_no_code_with_the_makers(module):
    maker = "schedules/breadth_first/"
    assert f"{maker}kernels.py" in modules_behind(f"{maker}assembly.py")
    behind = {name.split("/")[0].removesuffix(".py") for name in modules_behind(module)}
    assert behind.isdisjoint(MAKERS)


@pytest.mark.parametrize("module", [m for m in MODULES if m.startswith(CHECK_OF_BUNDLES)])
def test_the_check_of_bundles_imports_values_and_readers_only(module):
    allowed = (*VALUES, "fabric.bundle.check.", *(f"{reader}." for reader in PLAIN_READERS))
    for name in runtime_imports(module):
        room = name.removeprefix(f"{PACKAGE.name}.")
        if room != name:
            assert room.startswith(allowed), f"{module}: {name}"


def test_writing_and_checking_bundles_share_nothing():
    """Typing included; the readers of designs and graphs lead to no maker either."""
    sides = {side: [m for m in MODULES if m.startswith(f"fabric/bundle/{side}/")] for side in SIDES}
    assert all(len(modules) > 3 for modules in sides.values())
    for side, other in (SIDES, SIDES[::-1]):
        for module in sides[side]:
            assert not any(f".bundle.{other}." in name for name in imported(module)), module
    readers = [f"{name.replace('.', '/')}.py" for name in PLAIN_READERS if "fabric" not in name]
    for module in readers:
        behind = {name.split("/")[0].removesuffix(".py") for name in modules_behind(module)}
        assert behind.isdisjoint({*MAKERS} - {"graphs", "schedules"}), module


def must_not_exist(node: ast.AST) -> bool:
    """Whether it prints, runs text, imports everything or asserts where ValueErrors are raised."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return node.func.id in ("print", "eval", "exec")
    if isinstance(node, ast.ImportFrom):
        return any(alias.name == "*" for alias in node.names)
    return isinstance(node, ast.Assert)


@pytest.mark.parametrize("text", ["print(1)", "eval('1')", "from a import *", "assert a"])
def test_what_must_not_exist_is_found(text):
    assert any(must_not_exist(node) for node in ast.walk(ast.parse(text)))


def test_what_must_not_exist():
    found = [
        f"{module}, line {node.lineno}: {ast.unparse(node)}"
        for module, node in nodes()
        if must_not_exist(node)
    ]
    assert found == []


def test_modules_have_names_that_say_something():
    words = {part.removesuffix(".py").strip("_") for name in MODULES for part in name.split("/")}
    assert words.isdisjoint({"utils", "util", "helpers", "helper", "common", "misc", "manager"})


@pytest.mark.parametrize(
    "statement",
    [
        "import ocs_codesign",
        "import ocs_codesign.faces.cli",
        "import ocs_codesign; dir(ocs_codesign); ocs_codesign.__version__",
        "import ocs_codesign.faces.cli; ocs_codesign.faces.cli.main(['--help'])",
    ],
)
def test_importing_is_light(statement):
    code = f"{statement}\nimport sys\nprint('loaded', *sorted(set({HEAVY}) & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].split() == ["loaded"]


@pytest.mark.parametrize("library", ["networkx", "matplotlib", "pandas", "highspy", "gurobipy"])
def test_the_core_works_without_the_edges(library):
    code = (
        f"import sys\nsys.modules['{library}'] = None\nimport ocs_codesign as oc\n"
        "print(oc.build(oc.parse('Line(Complete(3))'), 'allreduce').cost.steps)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout.strip()) == (0, "4"), done.stderr


def test_a_command_loads_what_it_uses():
    code = (
        "import sys\nfrom ocs_codesign.faces.cli import main\n"
        "main(['cost', 'Line(CompleteBipartite(4))'])\n"
        "print(sum(name.split('.')[0] == 'ocs_codesign' for name in sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.splitlines()[-1]) <= MAX_LOADED


TOLD = {
    "core/files/plain_text.py: yaml": "the line of its mark",
    "core/files/plain_text.py: pydantic": "the kind of each rule and its numbers, not its sentence",
    "core/lp/gurobi.py: gurobipy": "in parentheses after its number: what is wrong with a licence",
    "fabric/repairs/repair.py: numpy": "none: what is caught is ours",
    "circuits/matrix_files.py: scipy": "in parentheses: the line of the file that it does not take",
    "faces/cli/__init__.py: click": "its kind and names; of a plain one the text, which is ours",
    "faces/cli/cost.py: click": "a plain one, whose text is ours",
}
"""Errors of libraries that handlers pass on or read, and what of them."""


def libraries_in(nodes: list[ast.AST], alias: dict[str, str]) -> set[str]:
    """Packages from elsewhere that names in the nodes are of."""
    names = {node.id for each in nodes for node in ast.walk(each) if isinstance(node, ast.Name)}
    known = {alias.get(name, PACKAGE.name) for name in names}
    return known - set(sys.stdlib_module_names) - {PACKAGE.name}


def passed_on(handler: ast.ExceptHandler) -> bool:
    """Whether more of an error is used than its class and numbers."""
    harmless = {"errno", "ctx", "param"}
    inside = [node for each in handler.body for node in ast.walk(each)]
    used = sum(isinstance(node, ast.Name) and node.id == handler.name for node in inside)
    numbers = sum(
        ast.unparse(node) in {f"type({handler.name})", *(f"{handler.name}.{n}" for n in harmless)}
        for node in inside
    )
    return used > numbers


def test_sentences_are_in_words_of_our_own():
    """No error of a library is passed on, but those whose words change nothing of ours."""
    alias: dict[str, dict[str, str]] = {module: {} for module in MODULES}
    for module, node in nodes():
        for name in node.names if isinstance(node, (ast.Import, ast.ImportFrom)) else ():
            source = getattr(node, "module", None) or name.name
            alias[module][(name.asname or name.name).split(".")[0]] = source.split(".")[0]
    found = set()
    for module, node in nodes():
        if isinstance(node, ast.Subscript):
            is_message = isinstance(node.slice, ast.Constant) and node.slice.value == "msg"
            assert not is_message, f"{module}, line {node.lineno}"
        for handler in node.handlers if isinstance(node, ast.Try) else ():
            if handler.type is not None and passed_on(handler):
                calls = [each for part in node.body for each in ast.walk(part)]
                called = [each.func for each in calls if isinstance(each, ast.Call)]
                asked = [handler.type, *called]
                found |= {f"{module}: {name}" for name in libraries_in(asked, alias[module])}
    assert found == set(TOLD)
