"""docs/explain.md: its code runs."""
from __future__ import annotations

import re
from pathlib import Path

TEXT = (Path(__file__).parents[3] / "docs" / "explain.md").read_text()


def test_its_code_runs_from_top_to_bottom(tmp_path, capsys):
    path = tmp_path / "page.py"
    path.write_text("\n".join(re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)))
    exec(compile(path.read_text(), str(path), "exec"), {"__name__": "page"})
    printed = capsys.readouterr().out
    assert "5 passes" in printed and "^^^^^" in printed and "'Seen', 'Break', 'Given', 'Captured', 'Spent'" in printed
