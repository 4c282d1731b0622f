"""Packages with plug-ins, made in a folder as pip would leave them there."""

from __future__ import annotations

from pathlib import Path


def put_package(
    folder: Path, package: str, *, points: dict[str, dict[str, str]], module: str = ""
) -> None:
    """Put a distribution into `folder`.

    Args:
        folder: Stands on the path of imports.
        package: Name of the distribution; its module has the same, with underscores.
        points: Entry points: by group, by name, what they refer to.
        module: The source of its module.
    """
    info = folder / f"{package.replace('-', '_')}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n", encoding="utf-8"
    )
    lines = [
        line
        for group, each in points.items()
        for line in (f"[{group}]", *(f"{name} = {value}" for name, value in each.items()))
    ]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / f"{package.replace('-', '_')}.py").write_text(module, encoding="utf-8")
