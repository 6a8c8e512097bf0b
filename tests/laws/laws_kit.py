"""What the laws need: rows of any chunking, and plain comparison of trees."""

from copy import copy

from streamlearn.data.mapped import SourceOver
from streamlearn.data.row_ranges import Ref


class CountingSource(SourceOver):
    """A source that counts how often each ref is read."""

    def __init__(self, source):
        super().__init__(source)
        self.reads = {}

    def reader(self):
        return _CountingReader(self)


class _CountingReader:
    def __init__(self, counting):
        self.counting, self.reader = counting, counting.source.reader()

    def read(self, ref: Ref):
        self.counting.reads[ref] = self.counting.reads.get(ref, 0) + 1
        return self.reader.read(ref)

    def __enter__(self):
        self.reader.__enter__()
        return self

    def __exit__(self, *exc):
        self.reader.__exit__(*exc)


def with_lengths(store, lengths):
    """A dask store whose partitions have been counted: a dataframe does not know its lengths."""
    store = copy(store)
    store.known, store.n_rows = tuple(lengths), sum(lengths)
    return store
