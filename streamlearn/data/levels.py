"""Categories as numbers: a column of strings read as the codes of its levels.

Which levels a column has is learned first (`passes.summary.levels`); a store then reads the column
as float32 codes 0, 1, ..., by the words themselves, whatever a file's own dictionary numbers them.
Missing values and words that are no level are NaN.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from itertools import chain, islice
from numbers import Real
from typing import TypeAlias

import numpy as np

from ..errors import SourceError

Word: TypeAlias = str | float | None
"""A value of a column of categories, before it has a name."""
BLOCK_WORDS = 4096
"""Words that are Python objects at a time.  A million in turn are made in the same half mebibyte;
of a slice's worth at once, Python's allocator keeps its arenas long after."""
MAX_LENGTH = 1024
"""Characters of a word at most: longer ones are text, not categories."""


def word_of(value: Word, name: str) -> str | None:
    """A category's name: strings as they are, 1 and 1.0 as "1"; None if missing."""
    if value is None or value != value:
        return None
    if isinstance(value, str):
        if len(value) > MAX_LENGTH:
            raise SourceError(
                f"column {name!r} holds a string of {len(value):,} characters "
                f"({value[:40]!r}...), a category has at most {MAX_LENGTH}; text is no category: "
                "leave the column out with features="
            )
        return str(value)
    if not isinstance(value, Real | np.bool_):
        raise SourceError(
            f"column {name!r} holds categories of {type(value).__name__}, such as {value!r}; a "
            "category is a string, a number or a truth value: give them as strings, or times as "
            "a column of times"
        )
    number = float(value)
    return str(int(number)) if number == int(number) else repr(number)


class LevelCoder(ABC):
    """Codes 0, 1, ... of one column's levels as float32, NaN for all else; picklable."""

    name: str
    words: tuple[str, ...] = ()
    """The levels, where they are known by their names."""

    @abstractmethod
    def of_words(self, words: Iterable[Word]) -> np.ndarray:
        """Codes of a dictionary's words, and NaN after the last: index -1 is missing."""

    def of_values(self, values: np.ndarray) -> np.ndarray:
        """Codes of str objects, numbers or None, one by one."""
        return self.of_words(values.tolist())[:-1]


class Coder(LevelCoder):
    """Levels known by their names."""

    def __init__(self, name: str, words: Sequence[str]) -> None:
        self.name, self.words = name, tuple(words)
        self._codes = {word: float(code) for code, word in enumerate(self.words)}

    def of_words(self, words: Iterable[Word]) -> np.ndarray:
        """Codes of a dictionary's words, and NaN after the last: index -1 is missing."""
        nan = float("nan")
        codes = (self._codes.get(word_of(word, self.name), nan) for word in words)  # type: ignore[arg-type]
        return np.fromiter(chain(codes, [nan]), np.float32)


class HashCoder(LevelCoder):
    """Levels known by the hashes of their names: 8 bytes each, for columns of very many."""

    def __init__(self, name: str, hashes: np.ndarray) -> None:
        self.name, self.hashes = name, hashes
        """(L,) uint64, ascending; codes are their places."""

    def of_words(self, words: Iterable[Word]) -> np.ndarray:
        """Codes of a dictionary's words, and NaN after the last: index -1 is missing."""
        rest, codes = iter(words), []
        while given := list(islice(rest, BLOCK_WORDS)):
            codes.append(self._of_block([word_of(word, self.name) for word in given]))
        return np.concatenate([*codes, np.full(1, np.nan, np.float32)])

    def _of_block(self, given: list[str | None]) -> np.ndarray:
        codes = np.full(len(given), np.nan, np.float32)
        there = np.array([word is not None for word in given], bool)
        hashes = hash_words([word for word in given if word is not None])
        if len(self.hashes) and len(hashes):
            at = np.minimum(np.searchsorted(self.hashes, hashes), len(self.hashes) - 1)
            found = self.hashes[at] == hashes
            codes[there] = np.where(found, at, np.nan)
        return codes


def hash_words(words: Sequence[str]) -> np.ndarray:
    """(n,) uint64: 64 bits of each word's BLAKE2b hash, the same on every machine."""
    said = (word.encode("utf-8", "surrogatepass") for word in words)
    digests = b"".join(blake2b(word, digest_size=8).digest() for word in said)
    return np.frombuffer(digests, "<u8").astype(np.uint64)
