"""HDF5 files that would read other files: refused, for whoever wrote the file chose which.

A dataset may keep its numbers in any file of the machine (external storage), be put together from
datasets of other files (virtual), or be a link to one. A model or an imputed table would then hold
what stands there.
"""

from __future__ import annotations

from typing import Any

from eigengap.exceptions import UnreadableError
from eigengap.sources.files.claims import require_plausible
from eigengap.sources.wording import quote

DEEPEST = 16  # virtual datasets of virtual datasets


def require_inside(data: Any, where: str, depth: int = 0) -> None:
    """Refuse a dataset whose numbers lie in another file."""
    if data.id.get_create_plist().get_external_count() > 0:
        others = [name for name, _, _ in data.external]
        raise _outside(where, f"the numbers of {quote(data.name)} lie", others)
    if not data.is_virtual:
        return
    sources = data.virtual_sources()
    others = [source.file_name for source in sources if source.file_name != "."]
    if others or depth > DEEPEST:
        raise _outside(where, f"the parts of the virtual {quote(data.name)} lie", others)
    for source in sources:
        part = data.file.get(source.dset_name)  # None where there is none: it reads as fill values
        if part is not None:
            _require_same_file(part, data, where)
            require_inside(part, where, depth + 1)


def require_self_contained(file: Any, where: str, size: int) -> None:
    """Refuse a file in which any link or dataset leads to another one, or claims what it has not.

    For packages that open all that a file names.
    """
    import h5py

    for name, link in _links(file).items():
        if isinstance(link, h5py.ExternalLink):
            raise _outside(where, f"{quote(name)} is a link to what lies", [link.filename])
        item = file[name] if isinstance(link, h5py.HardLink) else None
        if isinstance(item, h5py.Dataset) and item.shape is not None:
            require_inside(item, where)
            require_plausible(where, item.size * item.id.get_type().get_size(), size)


def outside_link(file: Any) -> tuple[str, str] | None:
    """Name and file of the first link to another file."""
    import h5py

    links = _links(file).items()
    found = ((name, link.filename) for name, link in links if isinstance(link, h5py.ExternalLink))
    return next(found, None)


def _links(file: Any) -> dict[str, Any]:
    """Every link of a file, none of them followed."""
    found: dict[str, Any] = {}
    file.visititems_links(lambda name, link: found.__setitem__(name, link))
    return found


def _require_same_file(part: Any, data: Any, where: str) -> None:
    if part.file.filename != data.file.filename:
        told = f"the parts of the virtual {quote(data.name)} lie"
        raise _outside(where, told, [part.file.filename])


def _outside(where: str, what: str, others: list[str]) -> UnreadableError:
    named = f" ({quote(others[0])})" if others else ""
    return UnreadableError(
        where,
        f"{what} in another file{named}, which is not followed, for it may be any file of this "
        "machine. If you trust it, write a file that holds the numbers itself, or pass the array",
    )
