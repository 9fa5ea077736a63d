"""A command in a subfolder works on the database of its project."""

import json


def test_a_run_in_a_subfolder_uses_the_database_beside_perdure_toml_and_says_so(shell, tmp_path, monkeypatch):
    (tmp_path / "perdure.toml").write_text("retention_days = 7\n")
    (tmp_path / "one.json").write_text(
        json.dumps({"name": "one", "nodes": [{"id": "a", "type": "transform", "config": {"value": 1}}]})
    )
    (tmp_path / "sub" / "deeper").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "sub" / "deeper")
    result = shell.run("run", "../../one.json", "--run-id", "r1")
    assert f"The database is {tmp_path}/.perdure/perdure.db, by {tmp_path}/perdure.toml." in result.stderr
    monkeypatch.chdir(tmp_path)
    assert shell.json("runs", "show", "r1")["state"] == "completed"
    assert not (tmp_path / "sub" / "deeper" / ".perdure").exists()
    assert "The database is" not in shell.run("run", "one.json").stderr


def test_relative_paths_of_a_file_above_stand_beside_it_and_absolute_ones_stay(shell, tmp_path, monkeypatch):
    (tmp_path / "perdure.toml").write_text(
        'database_url = "sqlite:///data/runs.db"\nblob_url = "file:blobs"\nsecrets_file = "/etc/secrets.toml"\n'
    )
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path / "sub")
    rows = {row["name"]: row for row in shell.json("config", "show")["items"]}
    assert rows["database_url"]["value"] == f"sqlite:///{tmp_path}/data/runs.db"
    assert rows["blob_url"]["value"] == f"file:{tmp_path}/blobs"
    assert rows["secrets_file"]["value"] == "/etc/secrets.toml"
    assert rows["database_url"]["source"] == str(tmp_path / "perdure.toml")
    monkeypatch.setenv("PERDURE_DATABASE_URL", "sqlite:///here.db")
    assert {row["name"]: row for row in shell.json("config", "show")["items"]}["database_url"][
        "value"
    ] == "sqlite:///here.db"


def test_the_search_ends_at_the_top_of_a_repository(shell, tmp_path, monkeypatch):
    (tmp_path / "perdure.toml").write_text("retention_days = 7\n")
    (tmp_path / "project" / ".git").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "project")
    rows = {row["name"]: row for row in shell.json("config", "show")["items"]}
    assert rows["retention_days"]["source"] == "default"
