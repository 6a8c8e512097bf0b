"""The errors a user can meet.  Each message says what was got, the limit, where, and the remedy."""


class StreamlearnError(Exception):
    """Base of every error this package raises on purpose."""


def leave_out(kind: str) -> str:
    """Advice on rows that cannot be used, for the end of a message; `kind` is their source's."""
    way = "with open_dataset(..., filters=...)" if "parquet" in kind else "of the data"
    return f"leave such rows out {way}, or give them weight 0"


class MemoryBudgetError(StreamlearnError, MemoryError):
    """The plan does not fit the memory budget; raised before the first read.

    `plan` is the smallest plan that was tried, `enough` a budget in whole MiB that would have done;
    None where there was none.
    """

    def __init__(self, message: str, plan: object = None, enough: int | None = None) -> None:
        super().__init__(message)
        self.plan, self.enough = plan, enough

    def __reduce__(self) -> tuple[type, tuple[str, object, int | None]]:
        return type(self), (str(self), self.plan, self.enough)


class SourceError(StreamlearnError, ValueError):
    """The data cannot be read as asked: names the file, row group or chunk, and the rows."""


class LackError(SourceError):
    """Rows lack what a fit or a score asks of them, for instance a second class.

    `lack` is what they hold and what is asked for; `remedy` is what helps if they are all the rows.
    """

    def __init__(self, lack: str, remedy: str) -> None:
        super().__init__(f"{lack}; {remedy}")
        self.lack, self.remedy = lack, remedy

    def __reduce__(self) -> tuple[type, tuple[str, str]]:
        return type(self), (self.lack, self.remedy)


class CheckpointError(StreamlearnError, RuntimeError):
    """A checkpoint is of another fit or version, in use by another fit, or damaged."""


class ScratchError(StreamlearnError, OSError):
    """The scratch folder cannot be used: no space, no permission, or not shared by the workers."""


class ClusterError(StreamlearnError, RuntimeError):
    """The dask cluster is gone, has no workers, or lost one task again and again."""


class TimeLimitError(StreamlearnError, TimeoutError):
    """A fit reached ``max_seconds``; what it finished is in its checkpoint."""


class ArchiveError(StreamlearnError, ValueError):
    """A saved model or checkpoint file is damaged, or of a version that cannot be read."""
