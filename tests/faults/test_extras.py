"""A package that is absent, and one that is installed but does not import."""

import sys

import pytest

import eigengap as eg

ABSENT = "raise ModuleNotFoundError(\"No module named 'zarr'\", name='zarr')"
BROKEN = {
    "a name is gone": "raise ImportError(\"cannot import name 'x' from 'numcodecs.blosc'\")",
    "a dependency is absent": "import numcodecs_of_another_age",
}


@pytest.fixture
def message_with(tmp_path, monkeypatch):
    """What reading a Zarr array says where `import zarr` runs some code."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "zarr"]:
        monkeypatch.delitem(sys.modules, name)
    package, table = tmp_path / "zarr", tmp_path / "table.zarr"
    for folder in (package, table):
        folder.mkdir()
    (table / "zarr.json").write_text("{}", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)

    def message(code):
        (package / "__init__.py").write_text(code, encoding="utf-8")
        with pytest.raises(eg.exceptions.MissingExtraError) as caught:
            eg.PCA().fit(table)
        return str(caught.value)

    return message


@pytest.mark.parametrize("code", BROKEN.values(), ids=BROKEN)
def test_a_package_that_does_not_import_is_not_called_missing(message_with, code):
    message = message_with(code)
    assert "not installed" not in message
    assert "zarr, which does not import here" in message
    assert 'pip install --upgrade "eigengap[files]"' in message


def test_an_absent_package_is_called_not_installed(message_with):
    message = message_with(ABSENT)
    assert "zarr, which is not installed" in message
    assert 'with: pip install "eigengap[files]"' in message
