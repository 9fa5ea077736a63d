"""Agents: a model that calls tools until it has an answer, with every call a step of its run.

    agent_node    the node type: what a config means
    toolbox       which tools there are, and what each takes
    own_tools     those that Perdure has itself
    value_handles values that are too large to be shown
    agent_loop    the turns: ask the model, judge its calls, make them, go on
    tool_calls    the calls of one turn
    call_guard    whether a call may be made: a pure function of labels, tool and arguments
    transcript    what was said, put together from the steps of a run

Nothing of an agent lives outside the journal: entered again, in another process or after a crash, it finds what was answered and
goes on from there (rules 77 to 83).
"""
