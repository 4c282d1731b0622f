"""The files of a policy: what loads, what is a fault and where, and what is written into them."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest
import yaml
from support.tables import table

from everturn_gateway.errors import ConfigError
from everturn_gateway.tools.policy import (
    LogDelivery,
    Policy,
    PolicyWriteError,
    WebhookDelivery,
    load_policy,
)
from everturn_gateway.tools.policy.policy_files.writing import add_allowed

DURAGENT = """\
apiVersion: duragent/v1alpha1
kind: Policy

mode: ask

deny:
  - "bash:rm -rf /*"
  - "bash:*sudo*"
  - "*:*password*"

allow:
  - "bash:cargo *"
  - "bash:git *"
  - "mcp:github:*"

notify:
  enabled: true
  patterns:
    - "bash:git push*"
  deliveries:
    - type: log
    - type: webhook
      url: https://hooks.example/services/x
"""


def _load(folder: Path, **files: str) -> Policy:
    state, home = folder / "state", folder / "home"
    for each in (state, home):
        each.mkdir(exist_ok=True)
    places = {
        "shared": state / "policy.yaml",
        "own": home / "policy.yaml",
        "local": home / "policy.local.yaml",
    }
    for name, text in files.items():
        places[name].write_text(text)
    return load_policy(state, home, {"HOOK": "https://hooks.example/y"})


def _texts(policy: Policy) -> tuple[list[str], list[str]]:
    return [each.text for each in policy.deny], [each.text for each in policy.allow]


def test_without_files_everything_is_asked(tmp_path: Path) -> None:
    """A first run must not be a dangerous one."""
    policy = _load(tmp_path)

    assert policy == Policy()
    assert (policy.mode, policy.after_untrusted, policy.approval_timeout_s) == ("ask", "ask", 3600)


def test_a_file_of_duragents_loads_unchanged(tmp_path: Path) -> None:
    """Existing agents bring their policies with them."""
    policy = _load(tmp_path, own=DURAGENT)

    assert policy.mode == "ask"
    assert _texts(policy) == (
        ["bash:rm -rf /*", "bash:*sudo*", "*:*password*"],
        ["bash:cargo *", "bash:git *", "mcp:github:*"],
    )
    assert policy.notify is not None
    assert [each.text for each in policy.notify.patterns] == ["bash:git push*"]
    assert policy.notify.deliveries == (
        LogDelivery(),
        WebhookDelivery("https://hooks.example/services/x"),
    )

    # One that it wrote itself has every field, defaults included.
    written = tmp_path / "written"
    written.mkdir()
    policy = _load(
        written,
        local="apiVersion: duragent/v1alpha1\nkind: Policy\nmode: ask\ndeny: []\nallow:\n"
        "- bash:ls\nnotify:\n  enabled: false\n  patterns: []\n  deliveries: []\n",
    )

    assert _texts(policy) == ([], ["bash:ls"])
    assert policy.notify is None


def test_lists_of_all_tiers_add_up(tmp_path: Path) -> None:
    """What the workspace denies, no agent may take back."""
    policy = _load(
        tmp_path,
        shared="deny: ['bash:rm *']\nallow: ['bash:a']\nnotify: {deliveries: [{type: log}]}",
        own="deny: ['bash:dd *', 'bash:rm *']\nallow: ['bash:b']\nnotify: {patterns: ['bash:x']}",
        local="allow: ['bash:c', 'bash:a']\n"
        "notify: {patterns: ['bash:y'], deliveries: [{type: webhook, url: '${HOOK}'}]}",
    )

    assert _texts(policy) == (["bash:rm *", "bash:dd *"], ["bash:a", "bash:b", "bash:c"])
    assert policy.notify is not None
    assert [each.text for each in policy.notify.patterns] == ["bash:x", "bash:y"]
    assert policy.notify.deliveries == (LogDelivery(), WebhookDelivery("https://hooks.example/y"))


@table(
    ("files", "mode"),
    [
        ({"shared": "mode: restrict"}, "restrict"),
        ({"shared": "mode: restrict", "own": "allow: []"}, "restrict"),
        ({"shared": "mode: restrict", "own": "mode: ask"}, "ask"),
        ({"own": "mode: restrict", "local": "mode: dangerous"}, "dangerous"),
        ({"own": "mode: dangerous", "local": "allow: ['bash:x']"}, "dangerous"),
    ],
)
def test_the_most_specific_explicit_mode_wins(
    tmp_path: Path, files: dict[str, str], mode: str
) -> None:
    """A default in one file must not overrule a word in another."""
    assert _load(tmp_path, **files).mode == mode


def test_our_own_fields_are_read(tmp_path: Path) -> None:
    """Who may answer, and how long they have, belong to the policy."""
    policy = _load(
        tmp_path,
        shared="approvers: [telegram:1, 'http:*']\napproval_timeout_seconds: 60",
        own="approvers: ['42']\nafter_untrusted: allow",
    )

    assert policy.approvers == ("42",)
    assert policy.approval_timeout_s == 60
    assert policy.after_untrusted == "allow"


@table(
    ("text", "is_on"),
    [
        ("notify:", False),
        ("notify: {}", False),
        ("notify: {enabled: true}", True),
        ("notify: {patterns: ['bash:x']}", True),
        ("notify: {deliveries: [{type: log}]}", True),
        ("notify: {enabled: false, patterns: ['bash:x']}", False),
    ],
)
def test_notices_are_on_where_something_is_said_of_them(
    tmp_path: Path, text: str, *, is_on: bool
) -> None:
    """A list that somebody wrote should do something, and an explicit "no" should hold."""
    assert (_load(tmp_path, own=text).notify is not None) == is_on


@table(
    ("text", "fault"),
    [
        ("mode: ask\nalow: []", "2: alow: is not a known field; did you mean allow?"),
        ("mode: careful", "1: mode: must be dangerous, ask or restrict, not 'careful'"),
        ("mode: ask\ndeny:\n  - bash:ls\n  - bsh:rm *", "4: deny[1]: begins with 'bsh'"),
        ("allow: bash:ls", "1: allow: must be a list, not 'bash:ls'"),
        ("allow: ['']", "1: allow[0]: says nothing"),
        ("notify:\n  deliveries:\n  - type: mail", "3: notify.deliveries[0]: type must be one of"),
        ("notify:\n  deliveries:\n  - type: webhook", "3: notify.deliveries[0].url: is required"),
        (
            "notify:\n  deliveries:\n  - {type: webhook, url: 'ftp://x'}",
            "3: notify.deliveries[0].url: must be an address",
        ),
        ("notify: {pattern: []}", "1: notify.pattern: is not a known field"),
        ("approval_timeout_seconds: 0", "1: approval_timeout_seconds: must be more than 0"),
        ("approval_timeout_seconds: soon", "1: approval_timeout_seconds: must be a whole number"),
        ("approvers: ['']", "1: approvers[0]: must not be empty"),
        ("after_untrusted: never", "1: after_untrusted: must be ask or allow"),
        ("apiVersion: duragent/v2", "1: apiVersion: must be duragent/v1alpha1"),
        ("kind: Agent", "1: kind: must be Policy"),
        ("mode: ask\nmode: restrict", "2: mode: is given twice"),
        ("deny: ['bash:${NO_SUCH}']", "1: deny[0]: the environment variable NO_SUCH is not set"),
        ("- bash:ls", "1: must be a mapping"),
        ("deny: [", "1: is not valid YAML"),
    ],
)
def test_a_fault_names_file_line_and_field(tmp_path: Path, text: str, fault: str) -> None:
    """A policy that is not understood must stop the agent, and say where."""
    with pytest.raises(ConfigError) as caught:
        _load(tmp_path, own=text)

    assert f"{tmp_path / 'home' / 'policy.yaml'}:{fault}" in str(caught.value)


def test_all_faults_of_all_files_are_reported_together(tmp_path: Path) -> None:
    """Nobody likes to mend one line a start."""
    with pytest.raises(ConfigError) as caught:
        _load(tmp_path, shared="a: 1", own="b: 1\nc: 1", local="allow: [")

    assert [(each.file.name, each.field) for each in caught.value.faults] == [
        ("policy.yaml", "a"),
        ("policy.yaml", "b"),
        ("policy.yaml", "c"),
        ("policy.local.yaml", ""),
    ]


def test_what_cannot_be_read_is_no_missing_policy(tmp_path: Path) -> None:
    """A deny list on a disk that is not mounted must not be taken for none."""
    linked, folder, looped = (tmp_path / name for name in ("linked", "folder", "looped"))
    linked.mkdir()
    (linked / "policy.yaml").symlink_to(tmp_path / "gone")
    (folder / "policy.yaml").mkdir(parents=True)
    looped.symlink_to(looped)

    with pytest.raises(ConfigError, match=r"policy\.yaml: there is no such file"):
        load_policy(tmp_path, linked, {})
    with pytest.raises(ConfigError, match="is not a file"):
        load_policy(None, folder, {})
    with pytest.raises(ConfigError, match=r"policy\.yaml: cannot be read: Too many levels"):
        load_policy(looped, tmp_path, {})


def _after_adding(tmp_path: Path, before: str | None, *patterns: str) -> tuple[str, Policy]:
    file = tmp_path / "policy.local.yaml"
    if before is not None:
        file.write_text(before)
    for pattern in patterns:
        add_allowed(file, pattern)
    return file.read_text(), load_policy(None, tmp_path, {})


def test_the_first_pattern_makes_the_file_for_its_owner_alone(tmp_path: Path) -> None:
    """What a person allowed says much of their work."""
    # A half written file that a crash left, readable for all, must not become the policy.
    left = tmp_path / ".policy.local.yaml.new"
    left.write_text("allow: [bash:everything")
    left.chmod(0o644)

    # A decision that is replayed after a crash must not grow the file.
    text, policy = _after_adding(tmp_path, None, "bash:git status", "bash:git status")

    assert yaml.safe_load(text) == {
        "apiVersion": "duragent/v1alpha1",
        "kind": "Policy",
        "allow": ["bash:git status"],
    }
    assert _texts(policy) == ([], ["bash:git status"])
    assert stat.S_IMODE((tmp_path / "policy.local.yaml").stat().st_mode) == 0o600
    assert [each.name for each in tmp_path.iterdir()] == ["policy.local.yaml"]


def test_comments_and_everything_else_stay(tmp_path: Path) -> None:
    """People edit this file too."""
    before = (
        "# mine\nmode: restrict # strict\nallow: # here\n  # the first\n  - bash:ls # list\n"
        "  - 'bash:a b'\n\n# below\ndeny:\n  - bash:rm *\n"
    )
    text, policy = _after_adding(tmp_path, before, "bash:new")

    assert text == before.replace("'bash:a b'\n", "'bash:a b'\n  - \"bash:new\"\n")
    assert policy.mode == "restrict"


@table(
    "before",
    [
        "",
        "# only a comment\n",
        "mode: ask",
        "mode: ask\nallow:\n",
        "mode: ask\nallow: # nothing yet\ndeny: []\n",
        "mode: ask\nallow: []\ndeny: []\n",
        "mode: ask\nallow: [ ]  # none\n",
        "allow: null\nmode: ask\n",
        "allow: [bash:a]\nmode: ask\n",
        "allow: [bash:a, ]\nmode: ask\n",
        "allow: [bash:a,\n  'bash:b'\n ]\nmode: ask\n",
        "allow:\n- bash:a\nmode: ask\n",
        "allow:\n    - bash:a\n    - >-\n      bash:b\n      c\nmode: ask\n",
        "allow:\n- |-\n  bash:a\n\n\nmode: ask\n",
        "mode: ask\nallow:\n- bash:a",
        "{mode: ask, allow: [bash:a]}\n",
        "{mode: ask}\n",
        "---\nmode: ask\n...\n",
        "allow: &x [bash:a]\ndeny: *x\n",
        "allow:\r\n- bash:a\r\nmode: ask\r\n",
        "'allow':\n  - bash:a\n",
        "? allow\n: - bash:a\n",
        "approvers: [007, 1e3]\n",
    ],
)
def test_whatever_stands_there_keeps_its_meaning(tmp_path: Path, before: str) -> None:
    """There are many ways to write YAML, and a lost deny rule would be worse than a question."""
    (tmp_path / "policy.local.yaml").write_text(before)
    was = load_policy(None, tmp_path, {})

    _, policy = _after_adding(tmp_path, before, "bash:new", "bash:newer")

    allowed = [*_texts(was)[1], "bash:new", "bash:newer"]
    assert _texts(policy) == (_texts(was)[0], allowed)
    assert (policy.mode, policy.approvers) == (was.mode, was.approvers)


@table(
    "pattern",
    [
        "bash:echo '${HOME}' $${x} $y",
        "bash:echo 'a\nb\tc'",
        'bash:echo "\'\\\\"',
        "bash:echo größe 👍 \u3000",
        "bash:x: y # z",
        "bash:" + "long " * 3000,
        "mcp:server:tool-1",
    ],
)
def test_a_pattern_is_read_back_as_it_was(tmp_path: Path, pattern: str) -> None:
    """What is allowed is this text and no other, whatever YAML or `${...}` makes of it."""
    _, policy = _after_adding(tmp_path, "mode: ask\nallow:\n- bash:a\n", pattern)

    assert _texts(policy)[1] == ["bash:a", pattern]


def test_a_file_that_cannot_be_added_to_is_left_alone(tmp_path: Path) -> None:
    """To write over what a person is just editing would lose their work."""
    file = tmp_path / "policy.local.yaml"
    large = "allow:\n" + f"- bash:{'x' * 39_000}\n" * 26  # the next start would refuse more
    for text, pattern, said in (
        ("allow: [", "bash:a", r"policy\.local\.yaml"),
        ("allow: bash:x\n", "bash:a", r"policy\.local\.yaml"),
        ("- a\n", "bash:a", r"policy\.local\.yaml"),
        (large, "bash:" + "y" * 39_000, "add it by hand"),
    ):
        file.write_text(text)

        with pytest.raises(PolicyWriteError, match=said):
            add_allowed(file, pattern)

        assert file.read_text() == text
    assert [each.name for each in tmp_path.iterdir()] == ["policy.local.yaml"]

    # The call runs all the same, and the person learns that "always" did not hold.
    with pytest.raises(PolicyWriteError, match="cannot be written: No such file"):
        add_allowed(tmp_path / "gone" / "policy.local.yaml", "bash:a")


def test_what_a_person_saves_meanwhile_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An editor may write the file between our look at it and our own write."""
    file = tmp_path / "policy.local.yaml"
    file.write_text("allow: [bash:a]\n")
    fsync = os.fsync

    def saved_by_hand(_: int) -> None:
        monkeypatch.setattr(os, "fsync", fsync)
        file.write_text("allow: [bash:a, bash:by-hand]\n")

    monkeypatch.setattr(os, "fsync", saved_by_hand)
    add_allowed(file, "bash:new")

    assert yaml.safe_load(file.read_text()) == {"allow": ["bash:a", "bash:by-hand", "bash:new"]}


def test_a_file_that_never_rests_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever waits for an answer gets one."""
    file = tmp_path / "policy.local.yaml"
    file.write_text("allow: []\n")
    lines = iter(range(100))
    monkeypatch.setattr(
        os, "fsync", lambda _: file.write_text("# saved\n" * next(lines) + "allow: []\n")
    )

    with pytest.raises(PolicyWriteError, match="changes all the time"):
        add_allowed(file, "bash:new")

    assert [each.name for each in tmp_path.iterdir()] == ["policy.local.yaml"]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    """Owners who keep the file elsewhere want it written there."""
    (tmp_path / "kept").mkdir()
    target = tmp_path / "kept" / "mine.yaml"
    target.write_text("mode: restrict\n")
    file = tmp_path / "policy.local.yaml"
    file.symlink_to(target)

    add_allowed(file, "bash:a")

    assert file.is_symlink()
    assert yaml.safe_load(target.read_text())["allow"] == ["bash:a"]


def test_many_writers_lose_nothing(tmp_path: Path) -> None:
    """Several conversations may be answered at once."""
    file = tmp_path / "policy.local.yaml"
    wanted = {f"bash:command {number}" for number in range(12)}
    writers = [threading.Thread(target=add_allowed, args=(file, each)) for each in wanted]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()

    assert set(_texts(load_policy(None, tmp_path, {}))[1]) == wanted
