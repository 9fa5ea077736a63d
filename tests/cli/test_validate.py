"""`perdure validate`: every problem at once, each with its line, as compilers print them."""

import json
import re
import unicodedata

import pytest

from perdure.cli.frame.problems import aim
from tests.cli.helpers import task, workflow

BAD = """\
name: refund
nodes:
  - id: fetch
    type: http
    retires: 3
    config: {url: "https://example.com"}
  - id: pay
    type: transform
    dependencies: [fetc]
    config: {value: 1}
"""


def test_a_valid_file_exits_with_0_and_says_so(shell, tmp_path):
    file = workflow(tmp_path, "good", task("a", "echo"), task("b", "echo", "a"))
    assert shell.run("validate", file).stdout == f"{file} is valid: good, 2 nodes\n"


def test_problems_are_printed_with_file_line_column_the_line_and_a_way_out(shell, tmp_path):
    (tmp_path / "bad.yaml").write_text(BAD)
    text = shell.error("validate", "bad.yaml", code=2)
    assert text == (
        "bad.yaml:5:5: error: unknown key 'retires' in node 'fetch' [unknown_key]\n"
        "    5 |     retires: 3\n"
        "      |     ^^^^^^^ did you mean 'retry'?\n"
        "bad.yaml:9:20: error: an edge names node 'fetc', which does not exist [unknown_node]\n"
        "    9 |     dependencies: [fetc]\n"
        "      |                    ^^^^ did you mean 'fetch'?\n"
        "bad.yaml: 2 errors\n"
    )


DESK = """\
name: desk
nodes:
  - id: helper
    type: agent
    config:
      model: nomodel
      prompt: Help.
      budget: {calls: 5}
      tools: [{function: "crm:look"}, {function: "crm:lost", effect: read}, ask_humn, {mcp: hub, effect: read}]
"""


def test_all_that_is_wrong_with_an_agent_is_said_at_once_and_the_mark_is_under_the_tool_that_is_meant(shell, tmp_path):
    (tmp_path / "crm.py").write_text("def look():\n    return 1\n")
    (tmp_path / "desk.yaml").write_text(DESK)
    lines = shell.error("validate", "desk.yaml", code=2).splitlines()
    assert [line.partition(" [")[0] for line in lines if line.startswith("desk.yaml:")] == [
        "desk.yaml:6:14: warning: node 'helper': there is no model 'nomodel' here",
        "desk.yaml:9:27: error: config of node 'helper': tool 'crm:look' has no effect, which says what a call may do: read, write, send",
        "desk.yaml:9:55: warning: a tool of node 'helper': module 'crm' has no 'lost'",
        "desk.yaml:9:77: error: config of node 'helper': there is no tool 'ask_humn'",
        "desk.yaml:9:93: warning: node 'helper': there is no MCP server 'hub' in the operator's file (setting agents_file)",
        "desk.yaml: 2 errors, 3 warnings",
    ]


@pytest.mark.parametrize(
    ("line", "column", "said", "marked"),
    [
        ("    timeout_seconds: -3", 5, "expected 'timeout_seconds' of node 'pay' above 0, got -3", "-3"),
        ("    next_nodes: [dnoe]", 5, "'next_nodes' of node 'pay' names node 'dnoe', which does not exist", "dnoe"),
        ("    n: '{{ nothing.here }}'", 5, "node 'pay' reads 'nothing', which does not exist", "nothing"),
        ("    retires: {fetch: 1}", 5, "unknown key 'retires' in node 'fetch'", "retires"),
        ("    - {id: a, type: task}", 7, "nodes depend on each other in a circle: a -> b -> a", "{"),
        ('    "quoted": 1', 5, "unknown key 'quoted'", '"quoted"'),
        ("    dependencies: [{to: e.in}]", 20, "a dependency of node 'e' has no 'node'", "{"),
        ("    n: fetch_more", 5, "node 'a' reads 'fetch', which does not exist", "n"),
    ],
)
def test_the_mark_is_under_the_word_the_problem_is_about(line, column, said, marked):
    at, width = aim(line, column, said)
    assert line[at - 1 : at - 1 + width] == marked


def test_an_edge_with_ports_among_dependencies_is_told_where_it_belongs(shell, tmp_path):
    nodes = "[{id: a, type: input}, {id: e, type: input, dependencies: [{from: a.out, to: e.in}]}]"
    (tmp_path / "edge.yaml").write_text(f"name: x\nnodes: {nodes}\n")
    text = shell.error("validate", "edge.yaml", code=2)
    assert "unknown key 'from' in a dependency of node 'e'" in text
    assert "an edge with from and to stands in the list `edges` of the workflow" in text


def test_the_mark_is_in_its_place_behind_tabs_and_wide_characters(shell, tmp_path):
    (tmp_path / "wide.yaml").write_text(
        'name: x\nnodes:\n  - {id: a, type: transform, config: {value: "日本"}, dependecies: [x]}\n'
    )
    lines = shell.error("validate", "wide.yaml", code=2).splitlines()
    shown, mark = lines[1], lines[2]
    wide = sum(unicodedata.east_asian_width(char) == "W" for char in shown)
    assert mark.index("^") == shown.index("dependecies") + wide
    (tmp_path / "tab.json").write_text('{"name": "x",\n\t"nods": []}')
    assert "      | \t^" in shell.error("validate", "tab.json", code=2)


def test_a_long_way_out_stands_below(shell, tmp_path):
    node = f"{{id: a, type: transform, config: {{value: {'x' * 60}}}, dependecies: [b]}}"
    (tmp_path / "long.yaml").write_text(f"name: x\nnodes: [{node}]\n")
    text = shell.error("validate", "long.yaml", code=2)
    assert re.search(r"\^{11}\n {6}= help: did you mean 'dependencies'\?\n", text)
    (tmp_path / "empty.yaml").write_text("")
    assert "      = help: a workflow needs at least `name` and `nodes`\n" in shell.error(
        "validate", "empty.yaml", code=2
    )


def test_warnings_do_not_make_it_invalid(shell, tmp_path):
    (tmp_path / "warn.yaml").write_text("nodes: [{id: a, type: input}]\n")
    result = shell.run("validate", "warn.yaml")
    assert "warning:" in result.stderr
    assert "warn.yaml is valid: workflow, 1 node, 1 warning" in result.stdout


def test_json_has_the_documented_shape(shell, tmp_path):
    (tmp_path / "bad.yaml").write_text(BAD)
    result = json.loads(shell.run("validate", "bad.yaml", "--json", code=2).stdout)
    assert (result["valid"], result["hash"]) == (False, None)
    first = result["problems"][0]
    assert {"path", "line", "code", "message"} <= first.keys()
    assert (first["path"], first["line"], first["code"]) == ("nodes[0].retires", 5, "unknown_key")
    good = shell.json("validate", workflow(tmp_path, "good", task("a", "echo")))
    assert good["valid"] is True
    assert good["hash"].startswith("sha256:")
    assert good["problems"] == []


def test_syntax_errors_have_a_line(shell, tmp_path):
    (tmp_path / "bad.yaml").write_text("name: x\nnodes: [\n")
    assert "[syntax]" in shell.error("validate", "bad.yaml", code=2)


def test_a_problem_in_one_long_line_shows_the_part_that_matters(shell, tmp_path):
    nodes = ", ".join(f'{{"id": "n{i}", "type": "task", "config": {{"function": "os:getcwd"}}}}' for i in range(50))
    (tmp_path / "long.json").write_text(f'{{"name": "x", "nodes": [{nodes}], "nods": 1}}')
    text = shell.error("validate", "long.json", code=2)
    shown = [line for line in text.splitlines() if line.startswith("    1 |")]
    assert shown
    assert all(len(line) < 140 for line in shown)
    assert "nods" in shown[0]


def test_standard_input_is_read(shell):
    result = shell.run("validate", "-", input='{"name": "x", "nodes": [{"id": "a", "type": "input"}]}')
    assert "<stdin> is valid: x, 1 node\n" in result.stdout


def test_a_missing_file_is_a_usage_error_that_names_what_is_there(shell, tmp_path):
    (tmp_path / "flow.yaml").write_text("")
    text = shell.error("validate", "flov.yaml", code=2)
    assert "cannot read flov.yaml" in text
    assert "flow.yaml" in text


def test_a_missing_file_of_inputs_names_json_only(shell, tmp_path):
    (tmp_path / "flow.yaml").write_text("name: x\nnodes: [{id: a, type: input}]\n")
    assert shell.error("run", "flow.yaml", "--inputs", "x", code=2).endswith(
        "--inputs: cannot read x: No such file or directory\n"
    )
    (tmp_path / "given.json").write_text("{}")
    assert "; there is given.json" in shell.error("run", "flow.yaml", "--inputs", "x", code=2)


@pytest.mark.parametrize("option", ["-n", "--city"])
def test_an_input_that_is_given_as_an_option_is_told_how(shell, option):
    text = shell.error("run", "flow.yaml", option, "1", code=2)
    assert f"No such option '{option}'; an input is given by -i: -i {option.lstrip('-')}=VALUE" in text
    assert "-i" not in shell.error("validate", "flow.yaml", "-n", "1", code=2).partition("No such option")[2]
    assert "=VALUE" not in shell.error("run", "flow.yaml", "--input", "1", code=2)


def test_a_missing_python_file_is_said(shell):
    assert "there is no file flow.py" in shell.error("validate", "flow.py:main", code=2)


def test_the_place_that_is_printed_is_where_the_mark_stands(shell, tmp_path):
    (tmp_path / "place.yaml").write_text("name: x\nnodes:\n  - {id: a, type: transform, timeout_seconds: soon}\n")
    lines = shell.error("validate", "place.yaml", code=2).splitlines()
    place = re.match(r"place\.yaml:(\d+):(\d+): ", lines[0])
    assert place is not None
    assert lines[2].index("^") - lines[1].index("  - {") + 1 == int(place[2])


def test_everything_is_said_at_once_types_and_configs_too(shell, tmp_path):
    (tmp_path / "many.yaml").write_text(
        "name: x\nnodes:\n"
        "  - {id: a, type: transform, config: {valeu: 1}, timeout_seconds: soon}\n"
        "  - {id: b, type: htpp, dependencies: [nobody]}\n"
        "  - {id: c, type: http, config: {url: 5}, when: '1 +'}\n"
    )
    found = {(one["path"], one["code"]) for one in shell.json("validate", "many.yaml", code=2)["problems"]}
    assert found >= {
        ("nodes[0].timeout_seconds", "wrong_type"),
        ("nodes[0].config.valeu", "unknown_key"),
        ("nodes[1].type", "unknown_type"),
        ("nodes[1].dependencies[0]", "unknown_node"),
        ("nodes[2].config.url", "bad_config"),
        ("nodes[2].when", "bad_condition"),
    }


def test_what_is_wrong_in_a_node_whose_id_is_no_identifier_has_its_place(shell, tmp_path):
    (tmp_path / "w.yaml").write_text('name: w\nnodes:\n  - {id: "b \\"c", type: task, config: {func: "json:dumps"}}\n')
    problems = shell.json("validate", "w.yaml", code=2)["problems"]
    assert [(one["path"], one["line"], one["column"], one["code"]) for one in problems] == [
        ("nodes[0].id", 3, 6, "invalid_id"),
        ("nodes[0].config.func", 3, 40, "unknown_key"),
    ]


def test_a_handler_nobody_has_is_marked_where_it_stands(shell, tmp_path):
    (tmp_path / "handler.json").write_text('{"name": "x", "nodes": [\n{"id": "a", "handler": "nobody_has_it"}]}')
    (problem,) = shell.json("validate", "handler.json")["problems"]
    assert (problem["path"], problem["line"], problem["column"]) == ("nodes[0].handler", 2, 13)


SHOP = """
import perdure

print("nobody imports this to look at it", file=open("imported.txt", "w"))

@perdure.task
def charge(amount, currency="EUR", *, ctx: perdure.Context):
    return amount

def open_ended(**anything):
    return anything
"""


def calling(tmp_path, reference, **args):
    node = {"id": "a", "type": "task", "config": {"function": reference, "args": args}}
    return workflow(tmp_path, "calls", node)


@pytest.mark.parametrize(
    ("reference", "args", "said"),
    [
        ("shop:chrage", {"amount": 1}, "module 'shop' has no 'chrage'; did you mean 'charge'?"),
        ("shop:charge", {"amuont": 1}, "takes no 'amuont'; did you mean 'amount'?"),
        ("shop:charge", {}, "needs amount"),
        ("shop:charge", {"amount": 1}, None),
        ("shop:open_ended", {"anything": 1}, None),
        (
            "nowhere_here:f",
            {},
            "no module 'nowhere_here' is beside the file, and none is installed here; put nowhere_here.py there",
        ),
        ("shopp:charge", {"amount": 1}, "did you mean 'shop'?"),
        ("shop.py:charge", {"amount": 1}, "a module is named without '.py'; write 'shop:name'"),
        ("charge", {"amount": 1}, "function 'charge' names no module"),
        ("charge", {"amount": 1}, "write 'shop:charge'"),
        ("shop.charge", {"amount": 1}, "write 'shop:charge'"),
        ("nobody", {}, "write 'module:name', or import the module that registers it with --import"),
        ("json:dmups", {"obj": 1}, "module 'json' has no 'dmups'; did you mean 'dumps'?"),
        ("json:dumps", {"obj": 1}, None),
        ("os.path:join", {"a": 1}, None),
        ("email.mime.text:MIMEText", {"a": 1}, None),
        ("pip:main", {}, None),
        ("{{ inputs.which }}", {}, None),
        ("textwrap:shorten", {"text": "x", "width": 3}, None),
    ],
)
def test_functions_are_looked_for_in_the_files_beside_it_and_never_imported(shell, tmp_path, reference, args, said):
    (tmp_path / "shop.py").write_text(SHOP)
    view = shell.json("validate", calling(tmp_path, reference, **args))
    assert view["valid"]
    assert not (tmp_path / "imported.txt").exists()
    if said is None:
        assert view["problems"] == []
    else:
        assert any(said in one["message"] for one in view["problems"])
        assert {one["code"] for one in view["problems"]} == {"bad_call"}
        assert all(one["line"] for one in view["problems"])


def test_what_a_stream_edge_leads_to_is_not_missed_under_args(shell, tmp_path):
    (tmp_path / "shop.py").write_text(
        "import perdure\ndef read(words: perdure.Stream[str], rows: 'Stream', ctx, width): pass\n"
    )
    assert shell.json("validate", calling(tmp_path, "shop:read", width=3))["problems"] == []


STREAMING = """
import perdure

def words(n):
    yield from range(n)

def none(n):
    return (one for one in [lambda: (yield)])

def read(words: perdure.Stream[str], n: int = 0): pass

def plain(n: int): pass

def bare(n): pass
"""


@pytest.mark.parametrize(
    ("source", "target", "port", "said"),
    [
        ("words", "read", "words", []),
        ("words", "bare", "n", []),
        (
            "words",
            "read",
            "wrds",
            ["read() has no parameter 'wrds', to which a stream edge leads; did you mean 'words'?"],
        ),
        ("words", "plain", "n", ["plain() takes 'n: int', to which a stream edge leads; annotate it perdure.Stream"]),
        ("none", "read", "words", ["none() yields nothing, and a stream edge leaves it; yield the chunks"]),
    ],
)
def test_a_stream_edge_is_held_to_what_its_ends_are(shell, tmp_path, source, target, port, said):
    (tmp_path / "flows.py").write_text(STREAMING)
    nodes = [
        {"id": "a", "type": "task", "config": {"function": f"flows:{source}", "args": {"n": 3}}},
        {"id": "b", "type": "task", "config": {"function": f"flows:{target}"}},
    ]
    file = workflow(tmp_path, "flow", *nodes, edges=[{"from": "a.out", "to": f"b.{port}"}])
    problems = shell.json("validate", file)["problems"]
    assert len(problems) == len(said)
    for one, text in zip(problems, said, strict=True):
        assert text in one["message"]
    if not said:
        assert shell.json("validate", file, "--import", "flows")["problems"] == []


@pytest.mark.parametrize(
    ("source", "said"),
    [("x = 1\ndef charge(: pass\n", "shop.py, line 2: invalid syntax"), ("\0", "shop.py: source code")],
)
def test_a_file_that_python_cannot_read_is_named_once_with_its_line(shell, tmp_path, source, said):
    (tmp_path / "shop.py").write_text(source)
    nodes = [{"id": name, "type": "task", "config": {"function": "shop:charge"}} for name in "ab"]
    (problem,) = shell.json("validate", workflow(tmp_path, "calls", *nodes))["problems"]
    assert f"module 'shop' cannot be imported: {said}" in problem["message"]
    assert (problem["code"], problem["severity"]) == ("bad_call", "warning")


def test_what_is_wrong_with_a_schema_is_said_in_one_line_at_its_place(shell, tmp_path):
    (tmp_path / "s.yaml").write_text(
        "name: s\ninputs: {type: objct}\nnodes: [{id: a, type: transform, config: {value: 1}}]\n"
    )
    assert shell.error("validate", "s.yaml", code=2) == (
        "s.yaml:2:16: error: this is no usable JSON Schema: there is no type 'objct' [invalid_schema]\n"
        "    2 | inputs: {type: objct}\n"
        "      |                ^^^^^ did you mean 'object'?\n"
        "s.yaml: 1 error\n"
    )


@pytest.mark.parametrize(
    ("node", "said"),
    [
        ("{id: a, type: human, config: {timeout: 3}}", "did you mean 'timeout_seconds'?"),
        ("{id: a, type: map, config: {over: abc, workflow: w}}", "'over' must be a list, got 'abc'"),
        (
            "{id: a, type: transform, when: b > 1, config: {value: 1}}, {id: b, type: transform, config: {value: 1}}",
            "condition of node 'a' reads 'b', which means nothing there; a node is written ctx.b.output",
        ),
    ],
)
def test_hints_say_what_would_be_taken(shell, tmp_path, node, said):
    (tmp_path / "w.yaml").write_text(f"name: w\nnodes: [{node}]\n")
    problems = json.loads(shell.run("validate", "w.yaml", "--json", code=2).stdout)["problems"]
    assert any(said in one["message"] for one in problems), problems


def test_with_import_functions_are_looked_at_as_they_are(shell, tmp_path):
    (tmp_path / "real_shop.py").write_text("def charge(amount):\n    return amount\n")
    file = calling(tmp_path, "real_shop:charge", amuont=1)
    (problem,) = shell.json("validate", file, "--import", "real_shop")["problems"]
    assert "amuont" in problem["message"] or "amount" in problem["message"]
    (problem,) = shell.json("validate", calling(tmp_path, "real_shop:nope"), "--import", "real_shop")["problems"]
    assert "nope" in problem["message"]


CHILDREN = [
    {"id": "one", "type": "workflow", "config": {"workflow": "nobody"}},
    {"id": "many", "type": "map", "config": {"over": [1], "workflow": "nobody@3"}},
    {"id": "free", "type": "workflow", "config": {"workflow": "{{ inputs.which }}"}},
    {"id": "self", "type": "workflow", "when": "false", "config": {"workflow": "parent"}},
]


def test_a_workflow_that_nobody_has_registered_is_warned_about_before_the_run(shell, tmp_path):
    file = workflow(tmp_path, "parent", *CHILDREN[:2])
    told = shell.run("validate", file)
    assert told.stderr.count("unknown_workflow") == 2
    assert "no workflow 'nobody' is registered here" in told.stderr
    assert "perdure workflows push FILE" in told.stderr
    problems = shell.json("validate", workflow(tmp_path, "parent", *CHILDREN))["problems"]
    assert sorted(one["path"] for one in problems) == ["nodes[0].config.workflow", "nodes[1].config.workflow"]
    assert {(one["code"], one["severity"]) for one in problems} == {("unknown_workflow", "warning")}
    assert "no workflow 'nobody' is registered here" in shell.error("run", file, code=1)
    shell.run(
        "workflows", "push", workflow(tmp_path, "nobody", {"id": "a", "type": "transform", "config": {"value": 1}})
    )
    told = shell.run("validate", file).stderr
    assert "'nobody'" not in told
    assert "no workflow 'nobody@3' is registered here" in told


@pytest.mark.parametrize("line", ["config: {value: {{ inputs.x }}}", "config:\n      value: {{ inputs.x }}"])
def test_a_template_without_quotes_is_told_to_have_them(shell, tmp_path, line):
    file = tmp_path / "flow.yaml"
    file.write_text(f"name: flow\nnodes:\n  - id: a\n    type: transform\n    {line}\n")
    assert 'put quotes around it: "{{ inputs.x }}"' in shell.error("validate", file, code=2)


def test_a_workflow_that_is_not_registered_is_named_with_the_file_that_has_it(shell, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kid.yaml").write_text("name: child  # a\nnodes: [{id: a, type: input}]\n")
    (tmp_path / "p.yaml").write_text("name: p\nnodes: [{id: a, type: workflow, config: {workflow: child}}]\n")
    result = shell.run("validate", "p.yaml")
    assert "perdure workflows push kid.yaml" in result.stderr


AGENT = """\
name: leads
nodes:
  - id: crm
    type: http
    config: {url: "https://crm.example", headers: {authorization: "{{ secrets.CRM }}"}}
  - id: qualify
    type: agent
    dependencies: [crm]
    config:
      model: openai/gpt-5-mini
      prompt: "{{ crm.body }}"
      tools:
        - {workflow: mail, effect: send, returns: user}
        - ask_human
"""


def test_what_agents_read_and_can_do_is_printed(shell, tmp_path):
    (tmp_path / "leads.yaml").write_text(AGENT)
    found = shell.run("validate", "leads.yaml")
    assert found.stdout.splitlines()[-1] == (
        "agent qualify reads crm (untrusted,private), tool mail (user,public), tool ask_human (trusted,public); can do mail (send)"
    )
    assert (
        "agent 'qualify' reads what strangers write (crm) and what is private (crm), and can send (mail)"
        in found.stderr
    )
    assert "lethal_trifecta" in found.stderr
    [agent] = json.loads(shell.run("validate", "leads.yaml", "--json").stdout)["agents"]
    assert (agent["agent"], agent["label"], agent["sinks"]) == ("qualify", "untrusted,private", {"mail": "send"})


TOOLS = """\
name: leads
nodes:
  - id: qualify
    type: agent
    config:
      model: openai/gpt-5-mini
      prompt: "{{ inputs.lead }}"
      tools:
        - {function: "crm:lokup", effect: read}
        - {function: "gone:mail", effect: send}
        - {function: "crm:lookup", effect: read}
        - {workflow: "refund@3", effect: write}
        - delegate_to_agent: {agents: [reader, code_interpreter, leads]}
  - id: each
    type: map
    dependencies: [qualify]
    config:
      over: [1]
      node: {type: agent, config: {model: openai/gpt-5-mini, prompt: hi, available_tools: ["crm:nothing"]}}
"""


def test_what_agents_call_and_whom_they_delegate_to_is_looked_for_all_at_once(shell, tmp_path):
    (tmp_path / "leads.yaml").write_text(TOOLS)
    (tmp_path / "crm.py").write_text('def lookup(id: int) -> dict:\n    """Looks up."""\n    return {}\n')
    found = json.loads(shell.run("validate", "leads.yaml", "--json").stdout)["problems"]
    told = {(one["path"], one["code"], one["severity"]) for one in found if one["code"] != "unknown_model"}
    assert told == {
        ("nodes[0]", "no_node_budget", "warning"),  # what a child of it gives may be a stranger's
        ("nodes[0].config.tools[0].function", "bad_call", "warning"),
        ("nodes[0].config.tools[1].function", "bad_call", "warning"),
        ("nodes[0].config.tools[3].workflow", "unknown_workflow", "warning"),
        ("nodes[0].config.tools[4].delegate_to_agent.agents[0]", "unknown_workflow", "warning"),
        ("nodes[1].config.node.config.available_tools[0].function", "bad_call", "warning"),
    }
    by_path = {one["path"]: one["message"] for one in found}
    assert "did you mean 'lookup'?" in by_path["nodes[0].config.tools[0].function"]
    assert by_path["nodes[0].config.tools[1].function"].startswith("a tool of node 'qualify': no module 'gone'")
    imported = json.loads(shell.run("validate", "leads.yaml", "--json", "--import", "crm").stdout)["problems"]
    assert sum(one["code"] == "bad_call" for one in imported) == 3
