"""What-if: a recorded conversation with a model, gone through again with another model or other words.

    recordings      what is looked at, and what is changed of it
    said_turns      what was asked for and answered, turn by turn, read from steps
    recorded_calls  calls that are answered from history; nothing with an effect is made
    comparison      how two conversations differ
    what_if_node    the node type: the loop of an agent without anything that it could do

Only the model is really asked. Whatever else a conversation wants is in the recording, computes without an effect, or is not there.
"""
