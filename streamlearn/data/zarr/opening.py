"""zarr stores, formats 2 and 3: dense arrays, AnnData's CSR groups, columns beside them.

The unit is a row of chunks (of inner chunks, in shards), decoded once straight into the reader's
buffer, from which slices are handed out; only the column chunks asked for are decoded.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import zarr

from ...errors import SourceError
from ..files.regular import refuse_unless_file
from ..files.remote import CHECK_KEYS, as_os_errors, is_url, url_options
from ..memory.opening import as_vector
from ..memory.vectors import Vector
from .checked_codecs import with_checks
from .rows import READ_ERRORS
from .store import ZarrStore
from .vector import ZarrVector

if TYPE_CHECKING:
    import numpy.typing as npt
    from zarr.abc.store import Store

ZarrSource: TypeAlias = "str | os.PathLike[str] | zarr.Array | zarr.Group | Store"
"""Sources that `open_zarr` takes."""
Beside: TypeAlias = "str | zarr.Array | npt.ArrayLike | None"
"""A column beside X: its name, or its values."""

METADATA = ("zarr.json", ".zarray", ".zgroup", ".zattrs")
"""Files that say what an array or group is, of formats 3 and 2."""
PARENTS = 3
"""Groups looked through upwards from ``a.zarr/layers/counts`` for ``obs`` and ``var``."""


def is_csr(node: object) -> bool:
    return isinstance(node, zarr.Group) and node.attrs.get("encoding-type") == "csr_matrix"


def open_node(
    source: ZarrSource, storage_options: Mapping[str, object] | None
) -> tuple[zarr.Array | zarr.Group, str]:
    """A zarr array or group, read-only, and its name in messages."""
    if isinstance(source, zarr.Array | zarr.Group):
        return source, str(source.store_path)
    url = os.fspath(source) if isinstance(source, str | os.PathLike) else str(source)
    options = url_options(storage_options) if is_url(url) else None
    for mark in () if is_url(url) else METADATA:
        if os.path.exists(os.path.join(url, mark)):
            refuse_unless_file(os.path.join(url, mark), SourceError)
    try:
        with as_os_errors():
            return zarr.open(source, mode="r", storage_options=options or None), url
    except PermissionError as error:
        raise SourceError(f"cannot look into {url!r}: {error}; {CHECK_KEYS}") from error
    except READ_ERRORS as error:
        raise SourceError(
            f"{url} is no zarr array or group: {error}; "
            "give the folder (or URL) that holds zarr.json, .zarray or .zgroup"
        ) from error


def parent_group(
    source: ZarrSource, node: zarr.Array | zarr.Group, storage_options: Mapping[str, object] | None
) -> tuple[zarr.Array | zarr.Group, str]:
    """The group that `obs`, `var` and targets of an array or CSR group are named in.

    The nearest AnnData above `node`, else its own parent; None if there is none.
    """
    nearest, nearest_prefix = None, ""
    opened = isinstance(source, zarr.Array | zarr.Group)
    path = node.path if opened else str(os.fspath(source)).rstrip("/")
    for _ in range(PARENTS):
        if "/" not in path and not (opened and path):
            break
        path = path.rsplit("/", 1)[0] if "/" in path else ""
        try:
            if opened:
                group = zarr.open_group(node.store, path=path, mode="r")
            else:
                options = url_options(storage_options) if is_url(path) else None
                with as_os_errors():
                    group = zarr.open_group(path, mode="r", storage_options=options or None)
        except READ_ERRORS:
            break
        if nearest is None:
            nearest = group
        if group.attrs.get("encoding-type") == "anndata":
            return group, nearest_prefix
    return nearest, nearest_prefix


def names_of(X: zarr.Array | zarr.Group, root: zarr.Group) -> list[str] | None:
    """Column names: the attribute ``feature_names``, or AnnData's ``var``."""
    for node in (X, root):
        if node is not None and "feature_names" in node.attrs:
            return [str(name) for name in node.attrs["feature_names"]]
    if root is None or root.attrs.get("encoding-type") != "anndata" or "var" not in root:
        return None
    var = root["var"]
    index = var.attrs.get("_index", "_index") if isinstance(var, zarr.Group) else None
    if index is None or index not in var:
        return None
    return [str(name) for name in with_checks(var[index])[:]]


def find_vector(root: zarr.Group, name: str, url: str) -> ZarrVector:
    """The array or categorical `name` below `root`."""
    if root is None or name not in root:
        there = [] if root is None else sorted(path for path, _ in root.members(max_depth=2))
        raise SourceError(
            f"{url} has no array {name!r}; it has {', '.join(there[:20]) or 'no other array'}"
        )
    node = root[name]
    if isinstance(node, zarr.Group):
        kind = str(node.attrs.get("encoding-type", "a group"))
        if kind == "categorical":
            return ZarrVector(name, node["codes"], category_values(node["categories"]))
        if kind.startswith("nullable"):
            return ZarrVector(name, node["values"], None, node["mask"])
        raise SourceError(f"{url}: {name!r} is {kind}; expected an array or a categorical column")
    legacy = node.attrs.get("categories")  # AnnData before 0.8: codes, and a path to the categories
    if isinstance(legacy, str):
        parent = name.rsplit("/", 1)[0]
        for path in (legacy, f"{parent}/{legacy}", f"{parent}/__categories/{name.split('/')[-1]}"):
            if path in root:
                return ZarrVector(name, node, category_values(root[path]))
    return ZarrVector(name, node)


def category_values(array: zarr.Array) -> np.ndarray:
    values = np.asarray(with_checks(array)[:])
    return values if values.dtype.kind in "biuf" else values.astype(object)


def open_zarr(
    source: ZarrSource,
    storage_options: Mapping[str, object] | None = None,
    target: Beside = None,
    weight: Beside = None,
    features: Sequence[str] | str | None = None,
    missing_chunks: str | None = None,
) -> ZarrStore:
    """A store over a zarr array or group; only metadata is read, and the chunks are listed.

    Parameters
    ----------
    source : path, URL, zarr.Array, zarr.Group or zarr store
        A 2-D array; a group with ``X`` and, if there, ``y`` and ``weight``; an AnnData group, or a
        CSR group in it such as ``cells.zarr/layers/counts``.
    storage_options : dict, optional
        For fsspec URLs.
    target, weight : str or array (n,), optional
        An array of the group (``obs/cell_type``), a column of X, or an array in memory.  Default:
        ``y`` and ``weight`` where the group has them; see `default_target` and `default_weight`.
    features : str, optional
        The array or CSR group to use in place of ``X``; a list of names is the caller's business.
    missing_chunks : {"fill", "error"}, optional
        See `open_dataset`.

    Raises
    ------
    SourceError
        No zarr there, no such array (those that exist are listed), not two-dimensional, not real
        numbers, lengths that differ, metadata that zarr cannot read.
    """
    node, url = open_node(source, storage_options)
    try:
        with as_os_errors():
            store = _store_of(node, url, source, storage_options, target, weight, features)
            store.refuse_missing(missing_chunks)
            return store
    except SourceError:
        raise
    except READ_ERRORS as error:
        raise SourceError(
            f"{url} cannot be opened: {type(error).__name__}: {error}; its metadata, or an array "
            "of names or categories, is damaged: restore it from a copy"
        ) from error


def _store_of(
    node: zarr.Array | zarr.Group,
    url: str,
    source: ZarrSource,
    storage_options: Mapping[str, object] | None,
    target: Beside,
    weight: Beside,
    features: Sequence[str] | str | None,
) -> ZarrStore:
    """The store over an opened array or group: what `open_zarr` says."""
    root = node
    if isinstance(node, zarr.Array) or is_csr(node):
        X, root = node, None
        if is_csr(node) or target is not None or weight is not None or len(node.attrs):
            root, _ = parent_group(source, node, storage_options)
    else:
        name = features if isinstance(features, str) else "X"
        if name not in node:
            there = sorted(path for path, _ in node.members(max_depth=2))
            raise SourceError(
                f"{url} has no array {name!r}; it has {', '.join(there[:20]) or 'nothing'}; "
                "give the path of a 2-D array, or name one with features="
            )
        X = node[name]
        target = "y" if target is None and "y" in node else target
        weight = "weight" if weight is None and "weight" in node else weight
    if isinstance(X, zarr.Group) and not is_csr(X):
        kind = X.attrs.get("encoding-type", "a group without encoding-type")
        hint = "; store it as csr_matrix: rows are read in runs" if kind == "csc_matrix" else ""
        raise SourceError(f"{url}: X is {kind}; expected a 2-D array or a csr_matrix group{hint}")
    names = names_of(X, root)
    vectors: list[ZarrVector | Vector] = []
    found: list[str | None] = []
    for given, name in ((target, "y"), (weight, "sample_weight")):
        if given is None:
            found.append(None)
        elif isinstance(given, str):
            in_X = names is not None and given in names and (root is None or given not in root)
            in_X = in_X or (names is None and given.startswith("x") and given[1:].isdigit())
            if not in_X:
                vectors.append(find_vector(root, given, url))
            found.append(given)
        else:
            is_zarr = isinstance(given, zarr.Array)
            vectors.append(ZarrVector(name, given) if is_zarr else as_vector(name, given))
            found.append(name)
    return ZarrStore(X, names, vectors, url, *found)
