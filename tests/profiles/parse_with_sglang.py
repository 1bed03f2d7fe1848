"""Parses argument lists (JSON on standard input) with SGLang's own parser and prints what it understood."""

from __future__ import annotations

import argparse
import json
import sys

from sglang.srt.plugins import load_plugins
from sglang.srt.server_args import ServerArgs

SHOWN = ("port", "served_model_name", "dtype", "max_running_requests")


def main() -> None:
    load_plugins()
    parser = argparse.ArgumentParser()
    ServerArgs.add_cli_args(parser)
    parsed = {name: vars(parser.parse_args(argv)) for name, argv in json.load(sys.stdin).items()}
    answer = {name: {key: args[key] for key in SHOWN} for name, args in parsed.items()}
    sys.stdout.write(f"\n{json.dumps(answer)}\n")


main()
