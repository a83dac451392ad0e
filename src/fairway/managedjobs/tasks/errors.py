"""The error of task files, configuration and flags."""

from fairway.errors import FairwayError


class TaskError(FairwayError):
    """An error in a task file, configuration or flag: where, what, and the way out."""

    def __init__(
        self,
        message: str,
        *,
        file: str = "",
        line: int = 0,
        column: int = 0,
        field: str = "",
        value: object = None,
        rule: str = "FieldValueInvalid",
    ) -> None:
        self.message = message
        """What is wrong, and the way out."""

        self.file = file
        self.line = line
        """From 1; 0 where there is none."""

        self.column = column
        self.field = field
        """`resources.cpus`, or `spec.tasks[0].resources.cpus`, or `--cpus`; empty for the file as a whole."""

        self.value = value
        self.rule = rule
        """The kind of rule, by the name that Kubernetes gives it."""

        super().__init__(message)

    def __str__(self) -> str:
        place = ":".join([self.file, *(str(one) for one in (self.line, self.column) if one)]) if self.file else ""
        return ": ".join(part for part in (place, self.field, self.message) if part)
