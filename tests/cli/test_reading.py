"""What people read: each thing that a newcomer of 80 columns stumbled over."""

from tests.cli.helpers import task, workflow

# -- maps --------------------------------------------------------------------------------------------------------------


def mapped(**more):
    item = {"type": "task", "retry": 1, "config": {"function": "tests.cli.work:boom", "args": {"x": "{{ item }}"}}}
    return {"id": "m", "type": "map", "config": {"over": "{{ inputs.list }}", "node": item}, **more}


def test_a_parked_map_is_one_dead_letter_with_the_list_it_went_over(shell, tmp_path):
    file = workflow(tmp_path, "many", mapped(on_failure="park"))
    shell.run("run", file, "--run-id", "x", "--no-wait", "-i", "list=[7,8]", code=3)
    assert [one["dead_letter_id"] for one in shell.json("dlq", "list")["items"]] == ["x:m"]
    shown = shell.json("dlq", "show", "x:m")
    assert shown["problem"] is None
    assert shown["config"]["over"] == [7, 8]
    assert shown["config"]["node"]["config"]["args"] == {"x": "{{ item }}"}
    text = shell.run("dlq", "show", "x:m").stdout
    assert "is missing" not in text
    assert '"over"' in text


def test_a_map_is_compensated_though_its_items_read_what_only_they_have(shell, tmp_path):
    undo = {"type": "task", "config": {"function": "tests.cli.work:echo", "args": {"value": "{{ config.over }}"}}}
    item = {"type": "task", "config": {"function": "tests.cli.work:echo", "args": {"value": "{{ item }}"}}}
    made = {"id": "m", "type": "map", "config": {"over": [1, 3], "node": item}, "compensator": undo}
    file = workflow(tmp_path, "undone", made, task("z", "boom", "m", retry=1), on_failure={"compensate": True})
    view = shell.json("run", file, "--no-wait", code=1)
    assert (view["state"], view["nodes"]["m"]["state"]) == ("failed", "compensated")


# -- the path ----------------------------------------------------------------------------------------------------------


def test_the_path_of_a_loop_goes_back_to_its_head(shell, tmp_path):
    loop = {"condition": "output.n < 2", "max_iterations": 3, "loop_back_to": "draft"}
    draft = {"id": "draft", "type": "transform", "config": {"value": 1}}
    review = {
        "id": "review",
        "type": "transform",
        "dependencies": ["draft"],
        "config": {"value": {"n": "{{ loop.iteration }}"}},
        "loop": loop,
    }
    shell.run("run", workflow(tmp_path, "again", draft, review), "--run-id", "l")
    steps = shell.json("runs", "path", "l")["items"]
    assert [(one["node"], one["taken"], one["back"]) for one in steps] == [
        ("draft", ["review"], False),
        ("review", ["draft"], True),
        ("draft", ["review"], False),
        ("review", [], False),
    ]
    lines = [line.split() for line in shell.run("runs", "path", "l").stdout.splitlines()]
    assert ["review[1]", "draft", "loop.back"] in [line[-3:] for line in lines]
