"""import-linter checks every module: none at the root without a layer, none outside a package."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import tvm_neocpu

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # import-linter depends on it there

PACKAGE = Path(tvm_neocpu.__file__).parent
PYPROJECT = Path(__file__).parents[1] / "pyproject.toml"


def layers_of_the_package() -> dict[str, Any]:
    """The one contract whose layers are the modules and rooms at the package's root."""
    linter = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["tool"]["importlinter"]
    (found,) = [
        contract
        for contract in linter["contracts"]
        if contract["type"] == "layers" and contract.get("containers") == [PACKAGE.name]
    ]
    return found


def test_the_layers_name_every_module_and_room_once() -> None:
    named = [
        name for layer in layers_of_the_package()["layers"] for name in re.findall(r"\w+", layer)
    ]
    modules = {path.stem for path in PACKAGE.glob("*.py")} - {"__init__"}
    rooms = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert sorted(named) == sorted(modules | rooms)


def test_import_linter_refuses_a_module_without_a_layer() -> None:
    assert layers_of_the_package()["exhaustive"] is True


def test_every_folder_with_modules_is_a_package() -> None:
    """import-linter does not see a module in a folder without ``__init__.py``."""
    folders = {path.parent for path in PACKAGE.rglob("*.py")}
    assert [folder for folder in folders if not (folder / "__init__.py").exists()] == []


def test_the_runtime_extra_names_what_the_runtime_imports() -> None:
    extras = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]
    named = {re.split(r"[<>=\[]", text)[0] for text in extras["optional-dependencies"]["runtime"]}
    files = [*(PACKAGE / "runtime").rglob("*.py"), *(PACKAGE / "core").rglob("*.py")]
    imported = {
        found
        for path in files
        for found in re.findall(r"^\s*(?:import|from) (\w+)", path.read_text(), re.MULTILINE)
    }
    foreign = imported - set(sys.stdlib_module_names) - {PACKAGE.name}
    optional = {
        "ml_dtypes",  # for types that NumPy lacks
        "_typeshed",  # type checkers alone know it
    }
    packages = {"tvm_ffi": "apache-tvm-ffi", "numpy": "numpy"}
    # TVM's runtime library, and what tvm_ffi's package imports for `load`.
    beside = {"apache-tvm", "typing-extensions"}
    assert {packages[name] for name in foreign - optional} | beside == named
