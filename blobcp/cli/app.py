"""The command and its subcommands, put together."""

from __future__ import annotations

from importlib.metadata import version
from typing import Annotated

import typer

from .differing import diff
from .forking import fork
from .jobs import copy, migrate, restore
from .listing import ls
from .options import examples
from .output import put
from .removing import rm
from .showing import show
from .verifying import check, verify

__all__ = ["app"]

app = typer.Typer(
    name="blobcp",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _put_version(asked: bool) -> None:
    if asked:
        put(f"blobcp {version('blobcp')}")
        raise typer.Exit


@app.callback()
def blobcp(
    version: Annotated[
        bool, typer.Option("--version", callback=_put_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Look into stores of checkpoints, and change them.

    A store is named by its URL: file:./dir, sqlite:///file.db, s3://bucket/prefix, postgresql://..., redis://... Data
    goes to stdout, all else to stderr. The exit status is 0, or 1 where something was found (a failure, a difference),
    or 2 where the command could not be done.
    """


app.command(
    epilog=examples(
        "ls file:./checkpoints",
        "ls s3://bucket/runs orders/ --status interrupted --older 7d",
        "ls sqlite:///runs.db --json | jq -r .id",
    )
)(ls)
app.command(
    epilog=examples(
        "show file:./checkpoints order-17",
        "show file:./checkpoints order-17 --header",
        "show s3://bucket/runs order-17 --json | jq .content.state",
    )
)(show)
app.command(epilog=examples("verify file:./checkpoints", "verify s3://bucket/runs orders/ --key-file keys.txt"))(verify)
app.command(
    epilog=examples(
        "diff file:./checkpoints order-17 order-17-again",
        "diff file:./checkpoints order-17 --other s3://bucket/runs --content",
    )
)(diff)
app.command(epilog=examples("fork file:./checkpoints order-17 order-17-again"))(fork)
app.command(
    epilog=examples(
        "rm file:./checkpoints order-17",
        "rm s3://bucket/runs --status done --older 30d --dry-run",
        "rm sqlite:///runs.db --prefix test/ --yes",
    )
)(rm)
app.command(
    epilog=examples(
        "copy file:./checkpoints s3://bucket/runs --workers 16 --journal copy.journal",
        "copy sqlite:///runs.db postgresql://db/app --status interrupted --dry-run",
    )
)(copy)
app.command(
    epilog=examples(
        "migrate file:./checkpoints --with my_app.migrations:migrations --dry-run",
        "migrate s3://bucket/runs --with my_app.migrations:migrations --workers 16 --journal 2.journal --backup .v1",
    )
)(migrate)
app.command(epilog=examples("restore s3://bucket/runs --backup .v1 --dry-run"))(restore)
app.command(epilog=examples("check my_package.stores:make_store --only list"))(check)
