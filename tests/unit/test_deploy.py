"""The files to deploy with: they fit what the program does, and each other."""

from __future__ import annotations

import configparser
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from support.tables import table

from everturn_gateway.config.schemas import STOP_TIMEOUT_S
from everturn_gateway.config.settings import load_config

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "docs" / "deploy"
PAGE = (ROOT / "docs" / "metrics.md").read_text()
DASHBOARD = json.loads((DEPLOY / "grafana.json").read_text())
PANELS = DASHBOARD["panels"]
ROW = re.compile(r"^\| `(everturn_\w+)` \| \w+ \| ([\w, ]*) ?\| \S", re.MULTILINE)
PROCESS = {
    "process_resident_memory_bytes",
    "process_cpu_seconds_total",
    "process_open_fds",
    "process_max_fds",
}
# What Prometheus adds to every series.
TARGET = {"job", "instance", "le"}


def documented() -> dict[str, set[str]]:
    """Return the labels of every metric; a histogram stands by the names of its series."""
    found: dict[str, set[str]] = {name: set() for name in PROCESS}
    for name, labels in ROW.findall(PAGE):
        names = {part.strip() for part in labels.split(",")} - {""}
        for suffix in ("", "_bucket", "_sum", "_count"):
            found[name + suffix] = names
    return found


def expressions() -> Iterator[str]:
    """Yield every query: of the panels, of the variables, and of the alarms on the page."""
    for panel in PANELS:
        yield from (target["expr"] for target in panel.get("targets", ()))
    for variable in DASHBOARD["templating"]["list"]:
        query = variable["query"]
        if isinstance(query, dict):
            yield re.sub(r"^label_values\((.*), \w+\)$", r"\1", query["query"])
    _, alarms = PAGE.split("What to be woken for:")
    alarms, _ = alarms.split("\n## ", 1)
    yield from re.findall(r"^\| [a-z, ]+ \| `(.+?)`", alarms.replace("\\|", "|"), re.MULTILINE)


def selectors(expression: str) -> Iterator[tuple[str, set[str]]]:
    """Yield each metric of a query, and the labels by which it is selected."""
    for name, within in re.findall(r"((?:everturn|process)_\w+)(?:\{(.*?)\})?", expression):
        yield name, set(re.findall(r'(\w+)\s*=~?"', within or ""))


def test_the_dashboard_shows_what_there_is() -> None:
    """All of it, and nothing that is not there."""
    # The queries name metrics and labels that exist. A panel over a name that is not there is
    # empty, and looks as if all were well.
    known = documented()
    queries = list(expressions())
    for query in queries:
        found = list(selectors(query))
        assert found, query
        grouped = {
            label.strip()
            for labels in re.findall(r"by \((.*?)\)", query)
            for label in labels.split(",")
        }
        allowed: set[str] = set()
        for name, labels in found:
            assert name in known, query
            assert labels <= known[name] | TARGET, query
            allowed |= known[name]
        assert grouped <= allowed | TARGET, query

    assert len(queries) >= 80

    # Every metric is on the dashboard. Whoever imports it sees all that is measured, and need not
    # know the names.
    shown = {
        re.sub(r"_(bucket|sum|count)$", "", name)
        for query in expressions()
        for name, _ in selectors(query)
    }

    assert {name for name, _ in ROW.findall(PAGE)} - shown == set()


def test_the_panels_stand_side_by_side() -> None:
    """Grafana takes a file whose panels overlap, and shows a mess."""
    taken: set[tuple[int, int]] = set()
    for panel in PANELS:
        grid = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(grid["x"], grid["x"] + grid["w"])
            for y in range(grid["y"], grid["y"] + grid["h"])
        }
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells

    assert len({panel["id"] for panel in PANELS}) == len(PANELS)
    sources = {json.dumps(t["datasource"]) for p in PANELS for t in p.get("targets", ())}
    assert sources == {'{"type": "prometheus", "uid": "${datasource}"}'}


# --- systemd and containers ---


def unit() -> dict[str, str]:
    """Return the settings of the service."""
    parser = configparser.RawConfigParser(strict=False, inline_comment_prefixes=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # its way to keep capitals
    parser.read(DEPLOY / "everturn.service")
    return dict(parser["Service"])


def seconds(text: str) -> float:
    """Return a time like `30s`."""
    return float(text.removesuffix("s"))


def test_supervisors_wait_longer_than_a_stop_takes() -> None:
    """And Prometheus asks where the metrics are."""
    # One that kills too early cuts off turns that would have been finished.
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]["everturn"]

    assert seconds(unit()["TimeoutStopSec"]) > STOP_TIMEOUT_S
    assert seconds(compose["stop_grace_period"]) > STOP_TIMEOUT_S

    # The scrape goes where the metrics are. A wrong path is a target that is always down.
    (job,) = yaml.safe_load((DEPLOY / "prometheus.yaml").read_text())["scrape_configs"]

    assert job["metrics_path"] == "/metrics"
    assert job["authorization"]["type"] == "Bearer"


def test_nodes_of_a_cluster_find_each_other_and_may_finish(tmp_path: Path) -> None:
    """What the files say of each other: names, ports, and how long a stop takes."""
    documents = list(yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text()))
    found = {(each["kind"], each["metadata"]["name"]): each for each in documents}
    secret, config = found["Secret", "everturn"], found["ConfigMap", "everturn"]
    nodes, pods = found["Service", "everturn-nodes"], found["StatefulSet", "everturn"]["spec"]
    file = tmp_path / "everturn.yaml"
    file.write_text(config["data"]["everturn.yaml"])
    environ = {**secret["stringData"], "NODE": "everturn-0"}
    settings = load_config(file, environ=environ)

    assert settings.cluster is not None
    name, _, port = settings.cluster.advertise.rpartition(":")
    assert name == f"everturn-0.{nodes['metadata']['name']}"
    assert pods["serviceName"] == nodes["metadata"]["name"]
    ports = pods["template"]["spec"]["containers"][0]["ports"]
    assert {each["containerPort"] for each in ports} == {settings.server.port, int(port)}
    assert (
        pods["template"]["spec"]["terminationGracePeriodSeconds"] > settings.server.stop_timeout_s
    )

    image = (ROOT / "Dockerfile").read_text()
    text = (DEPLOY / "compose.nodes.yaml").read_text()
    compose = yaml.safe_load(text)["services"]
    file.write_text(
        "\n".join(re.findall(r"^#   ((?:server|store|cluster): .*)$", text, re.MULTILINE))
    )
    for node in ("a", "b"):
        own = load_config(file, environ={**environ, "NODE": compose[node]["environment"]["NODE"]})
        assert own.cluster is not None
        assert own.cluster.advertise == f"{node}:7070"
        assert seconds(compose[node]["stop_grace_period"]) > own.server.stop_timeout_s
        assert f"server {node}:{own.server.port} " in (DEPLOY / "nginx.conf").read_text()
        # What is mounted where the image has no folder belongs to root.
        mounts = [each.split(":")[:2] for each in compose[node]["volumes"]]
        for folder in (place for source, place in mounts if "/" not in source):
            assert f" {folder}\n" in image or f" {folder} " in image


def test_the_unit_and_the_image_are_closed() -> None:
    """As far as programs run in them."""
    # The unit is closed and leaves bubblewrap what it needs. With one of these bubblewrap, or a
    # program that compiles as it runs, does not start.
    service = unit()
    breaks = (
        "PrivateUsers",
        "ProcSubset",
        "ProtectHostname",
        "ProtectKernelLogs",
        "ProtectKernelTunables",
        "RestrictNamespaces",
        "MemoryDenyWriteExecute",
    )

    assert service["Type"] == "notify"
    assert service["NoNewPrivileges"] == "yes"
    assert service["ProtectSystem"] == "strict"
    assert service["CapabilityBoundingSet"] == ""
    assert service["User"] not in {"", "root"}
    assert [name for name in breaks if name in service] == []
    assert "AF_NETLINK" in service["RestrictAddressFamilies"]
    text = (DEPLOY / "everturn.service").read_text()
    assert [name for name in breaks if f"{name}=" not in text] == []

    # The image runs as nobody and says how it fares. What is not in the lock, or runs as root, does
    # not belong into it.
    text = (ROOT / "Dockerfile").read_text()
    copied = {
        name
        for line in re.findall(r"^COPY (?!--from)(.*) \S+$", text, re.MULTILINE)
        for name in line.split()
    }
    last = text.rsplit("\nFROM ", 1)[1]

    assert "--require-hashes" in text
    assert re.search(r"^USER 10001$", last, re.MULTILINE)
    assert re.search(r"^VOLUME /srv/everturn$", last, re.MULTILINE)
    assert "/livez" in last[last.index("HEALTHCHECK") :]
    assert "pip" not in last
    made = (ROOT / "Makefile").read_text().partition("\nrelease:")[2].partition("\n\n")[0]
    assert copied == {"requirements.lock", "requirements-dev.lock", "everturn-*.whl"}
    assert "cp Dockerfile requirements.lock requirements-dev.lock dist/" in made


@table("snippet", re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE))
def test_the_settings_on_the_page_load(tmp_path: Path, snippet: str) -> None:
    """People copy them."""
    file = tmp_path / "everturn.yaml"
    file.write_text(snippet)
    config: Any = load_config(file, environ={})

    assert config.notes == ()
    assert config.telemetry.otlp_endpoint or config.logging.form == "json"
