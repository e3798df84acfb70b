"""Sequences and sets that grow without being copied, for states that are replaced at each event."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Generic, TypeGuard, TypeVar, overload

T = TypeVar("T")


class Vec(Sequence[T], Generic[T]):
    """Immutable sequence whose `add` costs the same at any length.

    Versions share one growing buffer: a version sees its first `n` items only. Adding to a version
    that is not the longest one copies, so that no version ever changes.
    """

    __slots__ = ("_items", "_size")

    def __init__(self, items: Iterable[T] = ()) -> None:
        self._items = list(items)
        self._size = len(self._items)

    def add(self, *items: T) -> Vec[T]:
        """This sequence with `items` behind it."""
        shared = self._size == len(self._items)
        grown: Vec[T] = object.__new__(type(self))
        grown._items = self._items if shared else self._items[: self._size]
        grown._items.extend(items)
        grown._size = self._size + len(items)
        return grown

    def extends(self, other: Vec[T]) -> bool:
        """True when `other` is known, without comparing items, to be a prefix of this one."""
        return self._items is other._items and self._size >= other._size

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> list[T]: ...
    def __getitem__(self, index: int | slice) -> T | list[T]:
        if isinstance(index, slice):
            start, stop, step = index.indices(self._size)
            if step == 1:
                return self._items[start:stop]
            return [self._items[n] for n in range(start, stop, step)]
        return self._items[range(self._size)[index]]

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[T]:
        return islice(iter(self._items), self._size)

    def __eq__(self, other: object) -> bool:
        return _is_vec(other) and list(self) == list(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"Vec({list(self)!r})"


class Ranked(Generic[T]):
    """Immutable set of hashable items, in order of arrival, whose `add` does not copy."""

    __slots__ = ("_ranks", "_size")

    def __init__(self) -> None:
        self._ranks: dict[T, int] = {}
        self._size = 0

    def add(self, item: T) -> Ranked[T]:
        """This set with `item`."""
        if item in self:
            return self
        grown: Ranked[T] = object.__new__(type(self))
        if self._size == len(self._ranks):
            grown._ranks = self._ranks
        else:
            grown._ranks = {key: rank for key, rank in self._ranks.items() if rank < self._size}
        grown._ranks[item] = self._size
        grown._size = self._size + 1
        return grown

    def __contains__(self, item: T) -> bool:
        rank = self._ranks.get(item)
        return rank is not None and rank < self._size

    def __len__(self) -> int:
        return self._size

    def __eq__(self, other: object) -> bool:
        return _is_ranked(other) and set(self) == set(other)

    def __iter__(self) -> Iterator[T]:
        return (key for key, rank in self._ranks.items() if rank < self._size)

    def __hash__(self) -> int:
        return hash(frozenset(self))


def _is_vec(value: object) -> TypeGuard[Vec[object]]:
    return isinstance(value, Vec)


def _is_ranked(value: object) -> TypeGuard[Ranked[object]]:
    return isinstance(value, Ranked)
