"""Python workflows: functions that describe a graph, and running them here and now.

    handles.py     stand-ins for values while a workflow is built      value_paths.py   how templates and CEL write them
    builder.py     the graph under construction: nodes, ids, dependencies
    annotations.py annotations to JSON Schema, JSON back to annotated types
    options.py     the options of a node
    tasks.py       @perdure.task            workflows.py   @perdure.workflow
    control_flow.py   branch, switch, loop, map, first
    nodes.py       approval, wait, http, transform, node, secret, expr, cel
    runner.py      perdure.run, perdure.arun   follower.py    a run as it is durable     asks.py   what people must do

Building gives a definition as a person would have written it; nothing here knows the kernel's rules. The public names
are those of `perdure`; nothing is imported here, so that `import perdure` stays fast.
"""
