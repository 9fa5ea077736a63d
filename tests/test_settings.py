"""Settings: three places, one precedence, and no value of unknown origin."""

import re
from pathlib import Path

import pytest

import perdure
from perdure.api.site import Options
from perdure.deployment import bounds_of
from perdure.errors import SettingsInvalid
from perdure.limits import Bounds
from perdure.settings import DEFAULTS, NAMES, Settings, read_secrets
from perdure.tempo import TEMPO, Tempo


@pytest.fixture(autouse=True)
def empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_defaults_are_the_documented_ones():
    settings = Settings.load(environ={})
    assert {name: getattr(settings, name) for name in NAMES} == {
        "database_url": "sqlite:///.perdure/perdure.db",
        "redis_url": "",
        "redis_prefix": "perdure",
        "signing_keys": "",
        "blob_url": "",
        "worker_heartbeat_seconds": 5,
        "worker_dead_seconds": 15,
        "lease_seconds": 10,
        "stale_result_seconds": 30,
        "stale_claim_seconds": 15,
        "sweep_seconds": 15,
        "queue_limits": "",
        "max_backlog": 1_000_000,
        "max_nodes": 0,
        "folder_roots": "",
        "trigger_slots": 1000,
        "sandbox_memory_mb": 512,
        "partitions": 256,
        "retention_days": 30,
        "event_days": 7,
        "session_days": 90,
        "llm_cache_days": 7,
        "max_events": 1_000_000,
        "triggers": True,
        "secrets_file": "",
        "secrets_provider": "",
        "encryption_keys": "",
        "agents_file": "",
        "egress_allow": "",
        "auth": "open",
        "task_modules": "",
        "jwt_secret": "",
        "jwt_keys_file": "",
        "jwt_algorithms": "",
        "jwt_audience": "",
        "jwt_issuer": "",
        "jwt_tenant_claim": "tenant",
        "jwt_roles_claim": "roles",
        "rate_limit_per_key": 2000,
        "rate_limit_per_tenant": 4000,
        "max_connections": 2000,
        "max_connections_per_address": 1000,
        "max_streams_per_key": 100,
        "max_streams_per_tenant": 400,
        "max_triggers": 1000,
        "asset_max_bytes": 5 * 1024**3,
        "tenant_asset_bytes": 100 * 1024**3,
        "hook_max_bytes": 1024 * 1024,
        "hook_rate": 100,
        "allow_unsigned_hooks": False,
        "public_url": "",
        "ui": True,
        "mcp": False,
        "mcp_approvals": False,
        "server_url": "",
        "api_key": "",
        "log_format": "text",
        "log_level": "warning",
    }
    assert set(settings.sources.values()) == {"default"}


def test_file_is_beaten_by_environment_and_environment_by_flags(empty_folder):
    (empty_folder / "perdure.toml").write_text("partitions = 1\nretention_days = 1\nsweep_seconds = 1\n")
    settings = Settings.load(
        flags={"sweep_seconds": 3.0, "partitions": None},
        environ={"PERDURE_SWEEP_SECONDS": "2", "PERDURE_RETENTION_DAYS": "2"},
    )
    assert (settings.partitions, settings.retention_days, settings.sweep_seconds) == (1, 2, 3.0)
    assert {name: settings.sources[name] for name in ("partitions", "retention_days", "sweep_seconds")} == {
        "partitions": "perdure.toml",
        "retention_days": "PERDURE_RETENTION_DAYS",
        "sweep_seconds": "--sweep-seconds",
    }
    assert settings.sources["database_url"] == "default"


def test_the_real_environment_is_the_default(monkeypatch):
    monkeypatch.setenv("PERDURE_PARTITIONS", "8")
    assert Settings.load().partitions == 8


def test_every_setting_can_be_set_in_every_place(empty_folder):
    other: dict[str, object] = {name: "text" for name in NAMES if getattr(Settings(), name) == ""}
    other |= {"database_url": "sqlite:///x.db", "blob_url": "file:x", "worker_dead_seconds": 60.0}
    other |= {"redis_url": "redis://x", "redis_prefix": "mine", "server_url": "http://x", "public_url": "https://x"}
    other |= {"log_format": "json", "log_level": "info", "ui": False, "allow_unsigned_hooks": True}
    other |= {"mcp": True, "mcp_approvals": True}
    other |= {"auth": "keys", "jwt_tenant_claim": "org", "jwt_roles_claim": "groups"}
    other |= {"triggers": False}
    for name in NAMES:
        value = other.get(name, 7)
        text = f"{name} = {value!r}"
        (empty_folder / "one.toml").write_text(text.replace("'", '"').replace("False", "false").replace("True", "true"))
        loaded = [
            Settings.load(environ={}, path="one.toml"),
            Settings.load(environ={f"PERDURE_{name.upper()}": str(value)}),
            Settings.load(flags={name: value}, environ={}),
        ]
        assert [getattr(settings, name) for settings in loaded] == [value] * 3
        assert [settings.sources[name] for settings in loaded] == [
            "one.toml",
            f"PERDURE_{name.upper()}",
            "--" + name.replace("_", "-"),
        ]


def test_a_default_stands_in_one_place():
    """What a server, a worker or a database gets without settings is what the settings have."""
    site = Options()
    assert (site.streams_per_key, site.streams_per_tenant) == (
        DEFAULTS.max_streams_per_key,
        DEFAULTS.max_streams_per_tenant,
    )
    assert (site.hook_max_bytes, site.hook_rate) == (DEFAULTS.hook_max_bytes, DEFAULTS.hook_rate)
    assert site.connections.connections == DEFAULTS.max_connections
    source = Path(perdure.__file__).parent
    grace = re.compile(r"grace_seconds(: \w+)? = 10\b", re.IGNORECASE)
    found = [path.name for path in source.rglob("*.py") if grace.search(path.read_text(encoding="utf-8"))]
    assert found == ["tempo.py"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            {"environ": {"PERDURE_PARTITION": "3"}},
            "unknown setting 'PERDURE_PARTITION' in the environment; did you mean 'PERDURE_PARTITIONS'?",
        ),
        (
            {"environ": {}, "flags": {"retention_day": 3}},
            "unknown setting 'retention_day' among the flags; did you mean 'retention_days'?",
        ),
        ({"environ": {"PERDURE_PARTITIONS": "many"}}, "setting partitions from PERDURE_PARTITIONS: expected `int`"),
        (
            {"environ": {"PERDURE_PARTITIONS": "0"}},
            "setting partitions from PERDURE_PARTITIONS: expected `int` >= 1, got '0'",
        ),
        (
            {"environ": {"PERDURE_LOG_LEVEL": "loud"}},
            "setting log_level from PERDURE_LOG_LEVEL: expected debug, info, warning or error, got 'loud'",
        ),
        ({"environ": {"PERDURE_SWEEP_SECONDS": "nan"}}, "setting sweep_seconds from PERDURE_SWEEP_SECONDS: expected"),
        ({"environ": {}, "flags": {"partitions": 1.5}}, "setting partitions from --partitions: expected `int`"),
        ({"environ": {}, "path": "absent.toml"}, "cannot read settings from absent.toml"),
        (
            {"environ": {"PERDURE_WORKER_DEAD_SECONDS": "5"}},
            "expected worker_dead_seconds (PERDURE_WORKER_DEAD_SECONDS) greater than worker_heartbeat_seconds (default)",
        ),
    ],
)
def test_what_is_wrong_is_said_with_its_place_and_a_way_out(arguments, expected):
    with pytest.raises(SettingsInvalid) as caught:
        Settings.load(**arguments)
    assert caught.value.message.startswith(expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("partitons = 3", "unknown setting 'partitons' in perdure.toml; did you mean 'partitions'?"),
        ("zzz = 3", "unknown setting 'zzz' in perdure.toml; known are database_url, "),
        ("sources = {}", "unknown setting 'sources' in perdure.toml; known are "),
        ("partitions = 3 3", "cannot read settings from perdure.toml: "),
        ("partitions = true", "setting partitions from perdure.toml: expected `int`"),
    ],
)
def test_a_bad_file_is_refused(empty_folder, text, expected):
    (empty_folder / "perdure.toml").write_text(text)
    with pytest.raises(SettingsInvalid) as caught:
        Settings.load(environ={})
    assert caught.value.message.startswith(expected)


def test_secrets_and_other_programs_variables_are_not_settings():
    Settings.load(environ={"PERDURE_SECRET_STRIPE": "x", "PATH": "/bin", "PERDUREED": "x"})


def test_passwords_are_never_shown():
    settings = Settings.load(environ={"PERDURE_DATABASE_URL": "postgresql://perdure:p@ss:w0rd@db:5432/perdure"})
    assert settings.database_url == "postgresql://perdure:p@ss:w0rd@db:5432/perdure"
    assert settings.rows()[0] == ("database_url", "postgresql://perdure:***@db:5432/perdure", "PERDURE_DATABASE_URL")
    assert "w0rd" not in repr(settings)
    with pytest.raises(SettingsInvalid) as caught:
        Settings.load(environ={"PERDURE_DATABASE_URL": "perdure w0rd@db"})
    assert "w0rd" not in caught.value.message


def test_keys_are_never_shown_and_secrets_are_found_by_name():
    settings = Settings.load(environ={"PERDURE_ENCRYPTION_KEYS": "k1:canary", "PERDURE_SIGNING_KEYS": "k2:canary"})
    assert ("encryption_keys", "***", "PERDURE_ENCRYPTION_KEYS") in settings.rows()
    assert ("signing_keys", "***", "PERDURE_SIGNING_KEYS") in settings.rows()
    assert "canary" not in repr(settings)
    assert read_secrets({"PERDURE_SECRET_STRIPE": "x", "PERDURE_PARTITIONS": "1", "PATH": "/"}) == {"STRIPE": "x"}


def test_every_setting_is_documented_with_its_variable_and_default():
    text = (Path(__file__).parent.parent / "docs" / "reference" / "settings.md").read_text()
    defaults = Settings()
    for name in NAMES:
        default = getattr(defaults, name)
        shown = (f"`{default}`" if default else "none") if isinstance(default, str) else f"{default:.12g}"
        shown = f"`{str(default).lower()}`" if isinstance(default, bool) else shown
        assert f"| `{name}` | `PERDURE_{name.upper()}` | {shown} |" in text


def test_the_tempo_and_the_bounds_that_nobody_sets_are_those_that_stand_in_their_files():
    assert Settings().tempo == TEMPO
    assert bounds_of(Settings()) == Bounds()
    settings = Settings.load({"worker_dead_seconds": 20.0, "stale_claim_seconds": 3.0}, environ={})
    assert settings.tempo == Tempo(dead_seconds=20.0, look_for_stale_seconds=3.0)
