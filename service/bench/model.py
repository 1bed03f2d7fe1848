"""`specserve bench model`: what the roofline equations say that draft methods give on GPUs. Nothing is measured."""

from __future__ import annotations

from pathlib import Path

from service.bench.report import print_table, write_summary
from service.speculation.roofline_model import A100, BATCHES, H200, markdown, table


def run(out: Path, context: int) -> None:
    """Write summary.json and model.md to `out`, and print the table. `context` tokens a request."""
    rows = table(context)
    note = "modelled from published constants, not measured; H200 from its data sheet"
    write_summary(out, {"kind": "model", "note": note, "context": context, "rows": rows})
    (out / "model.md").write_text(markdown(context), encoding="utf-8")
    cells = [(gpu.name, str(batch)) for gpu in (A100, H200) for batch in BATCHES]
    lines = [_line(row, cells) for row in rows]
    columns = ["method", "tokens/step", *(f"{gpu} {batch}" for gpu, batch in cells), "paper"]
    print_table("Model, not measurement: speedup by batch size (* tokens inferred from the paper's)", columns, lines)


def _line(row: dict[str, object], cells: list[tuple[str, str]]) -> list[object]:
    predicted = row["predicted"]
    assert isinstance(predicted, dict)
    tokens = f"{row['tokens_per_step']}{'' if row['tokens_published'] else '*'}"
    return [row["method"], tokens, *(predicted[gpu][batch] for gpu, batch in cells), row["published"]]
