"""Agent folders for tests."""

from __future__ import annotations

from pathlib import Path

MINIMAL = """\
apiVersion: duragent/v1alpha1
kind: Agent
metadata:
  name: {name}
spec:
  model:
    provider: builtin
    name: builtin
"""


def write_agent(agents_dir: Path, name: str, yaml: str = "", **files: str) -> Path:
    """Write an agent's folder and return it; a file's dots and slashes are `__` and `_in_`.

    `yaml` is appended to a minimal `agent.yaml`, below its `spec.model`.
    """
    return write_folder(agents_dir / name, MINIMAL.format(name=name) + yaml, **files)


def write_folder(folder: Path, agent_yaml: str, **files: str) -> Path:
    """Write a folder with exactly this `agent.yaml`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "agent.yaml").write_text(agent_yaml, encoding="utf-8")
    for name, text in files.items():
        file = folder / name.replace("_in_", "/").replace("__", ".")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return folder
