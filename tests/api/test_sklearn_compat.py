"""scikit-learn's private names stand in one module, where a new version of it is met."""

import ast
from pathlib import Path

import eigengap

COMPAT = "estimators/shared/sklearn_compat.py"


def private_imports(path: Path) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        found += [name for name in names if name.startswith("sklearn.") and "._" in name]
    return found


def test_private_names_of_sklearn_are_imported_in_one_module():
    root = Path(eigengap.__file__).parent
    importers = {p.relative_to(root).as_posix(): private_imports(p) for p in root.rglob("*.py")}
    assert {path for path, names in importers.items() if names} == {COMPAT}
