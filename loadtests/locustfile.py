"""`locust -f loadtests/locustfile.py --host http://127.0.0.1:8000`: Locust's page, with a tab for speculation."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from typing import Any

from locust import LoadTestShape, events
from locust.env import Environment

from loadtests.levels import LEVELS
from loadtests.options import add_options, read_options
from loadtests.prompts import PromptBook
from loadtests.users import (
    AbandonUser,
    AgentUser,
    ChatUser,
    CodeUser,
    OpenLoop,
    RagUser,
    SlowUser,
    SummarizeUser,
    Test,
    ToolsUser,
    run_seconds,
)
from loadtests.web import add_pages

__all__ = [
    "AbandonUser",
    "AgentUser",
    "ChatUser",
    "CodeUser",
    "Levels",
    "OpenLoop",
    "RagUser",
    "SlowUser",
    "SummarizeUser",
    "ToolsUser",
]


class Levels(LoadTestShape):
    """`--users` times the level of `--level`, for `--run-time`; an open loop keeps its one dispatcher."""

    use_common_options = True

    def tick(self) -> tuple[int, float] | None:
        """Users and users started a second; None ends the test."""
        assert self.runner is not None
        options: Any = self.runner.environment.parsed_options
        test: Test | None = getattr(self.runner.environment, "specserve", None)
        if test is not None and test.finished:
            return None
        seconds = run_seconds(self.runner.environment)
        share = self.get_run_time() / seconds
        if options.arrivals != "closed":
            return 1, 1
        if share >= 1:
            return None
        users = max(round((options.num_users or 1) * LEVELS[options.level](share)), 1)
        return users, options.spawn_rate or 100


@events.init_command_line_parser.add_listener
def _options(parser: ArgumentParser) -> None:
    add_options(parser)


@events.init.add_listener
def _init(environment: Environment, **_: Any) -> None:
    options: Any = environment.parsed_options
    try:
        read_options(options)
        PromptBook.read(options.data)
    except (OSError, ValueError) as error:
        sys.stderr.write(f"error: {error}\n")
        raise SystemExit(2) from None
    dispatched = options.arrivals != "closed"
    environment.user_classes = [each for each in environment.user_classes if (each is OpenLoop) == dispatched]
    if environment.web_ui is not None:
        add_pages(environment)


@events.test_start.add_listener
def _start(environment: Environment, **_: Any) -> None:
    # The page may have changed the options since they were first read.
    options = read_options(environment.parsed_options)
    host = environment.host or "http://127.0.0.1:8000"
    environment.specserve = Test.begin(options, host, environment)


@events.test_stop.add_listener
def _stop(environment: Environment, **_: Any) -> None:
    test: Test = environment.specserve
    test.end()
