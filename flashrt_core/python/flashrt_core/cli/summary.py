# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors
"""`flashrt summary`: results of several tools as one table, one picture and one file."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from flashrt_core.cli.options import command_line, table_console
from flashrt_core.errors import Error
from flashrt_core.result_file import write_result
from flashrt_core.summary import HEADINGS, cells, content, markdown, summarise
from flashrt_core.summary_picture import write_picture

SHOWN = 8  # headings on the terminal; where each row comes from is in the files


def run(
    context: typer.Context,
    results: Annotated[
        list[Path],
        typer.Argument(
            metavar='RESULT.json ...',
            help='Of `flashrt sensitivity`, `flashrt recipe` (the report) and `flashrt bench --json`.',
        ),
    ],
    output: Annotated[Path, typer.Option('--output', '-o', help='A folder for the files.')],
) -> None:
    """Put accuracy beside size and latency.

    Writes summary.md, summary.json and summary.png. A file of `flashrt bench` gives its latency to the rows
    of the same weights and recipe.
    """
    rows = summarise(results)
    command = command_line(context)
    try:
        output.mkdir(parents=True, exist_ok=True)
        write_picture(rows, output / 'summary.png')
        (output / 'summary.md').write_text(markdown(rows, 'summary.png', command), encoding='utf-8')
    except OSError as fault:
        raise Error(f'summary: {output} cannot be written: {fault}') from fault
    write_result(output / 'summary.json', content(rows, command))
    table = Table(box=None, header_style='bold', pad_edge=False)
    for heading in HEADINGS[:SHOWN]:
        left = heading in ('variant', 'worst joint', 'runs on')
        table.add_column(heading, justify='left' if left else 'right')
    for row in rows:
        table.add_row(*(escape(cell) for cell in cells(row)[:SHOWN]))
    console = table_console()
    console.print(table, highlight=False)
    console.print(escape(f'{output}: summary.md, summary.json, summary.png'), highlight=False)
