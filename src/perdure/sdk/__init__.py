"""Python workflows: functions that describe a graph, and running them here and now.

    handles.py     what stands for a value while a workflow is built      paths.py   how templates and CEL write it
    builder.py     the graph under construction: nodes, ids, dependencies
    schemas.py     annotations to JSON Schema, JSON back to annotated types
    options.py     what may be said of a node
    tasks.py       @perdure.task            workflows.py   @perdure.workflow
    control.py     branch, switch, loop, map, first
    nodes.py       approval, wait, http, transform, node, secret, expr, cel
    runner.py      perdure.run, perdure.arun   following.py   a run as it is durable     asks.py   what only a person can give

What comes out of building is a definition as a person would have written it; nothing here knows the kernel's rules. The
public names are those of `perdure`; nothing is imported here, so that `import perdure` stays fast.
"""
