"""The command line: `bidaflow COMMAND`, or `python -m flows COMMAND`."""

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from cyclopts import App, CycloptsError, Group, Parameter

from flows.options import as_typed, explained, read_options
from infra.errors import UserError, fault_of_machine
from infra.own_packages import foreign_package
from infra.settings import settings
from infra.storage.free_space import require_free_space
from infra.storage.root_format import require_format

# Each command is imported only when it is called: Prefect and torch take seconds to load.

PIPELINE = Group.create_ordered("Train and evaluate")
RESULTS = Group.create_ordered("Results")
SERVICES = Group.create_ordered("Services")

COMMANDS = {
    PIPELINE: {
        "retrain": ("flows.retrain:command", "Train variants; promote the best one."),
        "train": ("flows.train:command", "Train variants without a promotion."),
        "compare": ("flows.compare_variants:command", "Compare variants over several seeds."),
        "ensemble": ("flows.ensemble:command", "Join trained models into one."),
        "evaluate": ("flows.evaluate_model:command", "Evaluate a trained model on more data."),
        "predict": ("flows.predict:command", "Answer the questions of files."),
        "check": ("flows.check:command", "Check a dataset without training on it."),
        "ingest": ("flows.ingest:command", "Convert a dataset to Parquet, split into parts."),
    },
    RESULTS: {
        "ask": ("flows.commands.ask:ask", "Ask the champion a question about a text."),
        "serve": ("flows.commands.serve:serve", "Answer over HTTP and on a page."),
        "diff": ("flows.commands.diff:diff", "Compare the answers of two runs."),
        "lineage": ("flows.commands.show_lineage:lineage", "Show what a run was made from."),
        "promote": ("flows.commands.maintenance:promote", "Make a version the champion."),
        "rollback": ("flows.commands.maintenance:rollback", "Restore the previous champion."),
        "prune": ("flows.commands.maintenance:prune_data", "List or remove data that no run uses."),
        "convert": ("flows.commands.convert:convert", "Convert questions to another format."),
        "datasets": ("flows.commands.listings:datasets", "List known datasets and vectors."),
        "variants": ("flows.commands.listings:variants", "List the variants of the model."),
    },
    SERVICES: {
        "up": ("infra.services.supervisor:up", "Run the Prefect and MLflow servers and a worker."),
        "down": ("infra.services.supervisor:down", "Stop the services."),
        "deploy": ("flows.commands.services:deploy", "Deploy the flows to a Prefect server."),
        "status": ("flows.commands.services:status", "Show services, flow runs and champions."),
        "notify": ("flows.commands.notify:notify", "Notify people of failures and promotions."),
        "doctor": ("flows.commands.doctor:doctor", "Check the set-up, and say what to do."),
    },
}
EMBEDDINGS = {
    "train": ("flows.train_embeddings:command", "Train word vectors on your own texts."),
    "evaluate": ("flows.evaluate_embeddings:command", "Evaluate sets of word vectors."),
}


def build_app() -> App:
    """The command line with all commands, none of them imported yet."""
    app = App(
        name="bidaflow",
        help="Retrain question-answering models as a workflow.",
        help_format="plaintext",
        version_flags=(),
        config=read_options,
        default_parameter=Parameter(negative_iterable=(), show_default=as_typed),
    )
    for group, commands in COMMANDS.items():
        _add(app, commands, group=group)
    embeddings = App(name="embeddings", help="Train and evaluate word vectors.", group=PIPELINE)
    _add(embeddings, EMBEDDINGS)
    app.command(embeddings)
    app.register_install_completion_command()
    return app


def _add(app: App, commands: dict[str, tuple[str, str]], **settings: Any) -> None:
    for place, (name, (target, text)) in enumerate(commands.items()):
        app.command(target, name=name, help=text, sort_key=place, **settings)


def requires_root(words: Sequence[str]) -> bool:
    """Whether the command reads or writes results in the storage root.

    At an address, the services have none. `down` also stops those of a root of another release.
    """
    others = {"variants", "down", "doctor", "convert"}
    if settings().address is not None:
        others |= COMMANDS[SERVICES].keys()
    names = {"embeddings"}.union(*COMMANDS.values()) - others
    return bool(words) and words[0] in names and not {"--help", "-h"} & set(words)


def prepare_server(words: Sequence[str]) -> None:
    """Check the Prefect server if the command needs one, after `bidaflow up` has started it. If
    none is named, start one, and import the command meanwhile.

    Raises:
        UserError: the named server does not respond, or refuses access, or the disk is full.
    """
    commands = COMMANDS[PIPELINE] | {f"embeddings {name}": c for name, c in EMBEDDINGS.items()}
    if settings().address is not None and "PREFECT_API_URL" in os.environ:
        # These hold a lease of the server.
        commands |= {name: COMMANDS[RESULTS][name] for name in ("promote", "rollback")}
    name = " ".join(words[: 2 if words[:1] == ["embeddings"] else 1])
    if name not in commands or {"--help", "-h"} & set(words):
        return
    require_free_space()
    if api := os.environ.get("PREFECT_API_URL"):
        from infra.services.prefect_api import require_access
        from infra.services.supervisor import wait_for_started_server

        wait_for_started_server(api)
        require_access(api)
    else:
        from infra.services.supervisor import temporary_server

        server = temporary_server()
        import_module(commands[name][0].partition(":")[0])
        server.wait()


def run_command(words: Sequence[str]) -> None:
    """Run a command; for invalid words, print a message and end the process with status 2."""
    try:
        build_app()(words, exit_on_error=False, print_error=False)
    except CycloptsError as error:
        print(explained(error), file=sys.stderr)
        sys.exit(2)


def main() -> None:
    """Run the command that the arguments name; a user error ends it with its message."""
    try:
        if problem := foreign_package():  # `flows` itself, whose `__init__` has run instead of ours
            raise UserError(problem)
        if requires_root(sys.argv[1:]):
            require_format()
        prepare_server(sys.argv[1:])
        run_command(sys.argv[1:])
    except UserError as error:
        sys.exit(f"\n{error}")
    except KeyboardInterrupt:  # while a server starts or modules are imported
        sys.exit(130)
    except Exception as error:
        from tasks.tracking.client import denied

        if (refusal := denied(error) or fault_of_machine(error)) is None:
            raise
        sys.exit(f"\n{refusal}")


if __name__ == "__main__":
    main()
