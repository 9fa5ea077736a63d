"""What a run does: pure functions over events. No I/O, no clock, no randomness, no evaluation of conditions.

    decide(state, command, verdicts) -> Ruling | Needs | Refused      advance: the same, and the state goes along
    evolve(state, event)                                                explain(state, node)

The life of a decision: `decide` picks the command's handler (`attempts`, `waits`, `runs`), which ends activations
(`outcomes`, `routes`), moves loops (`loops`), undoes (`compensation`), and then `settle` decides joins, schedules what
is ready and ends the run. Facts go through `evolve` (`edges`, `generations`, `patches`), live and on replay alike.
"""

from __future__ import annotations

from perdure.kernel.commands import Need, Needs, Question, Refused, Ruling, Verdict
from perdure.kernel.decide import advance, decide
from perdure.kernel.evolve import evolve
from perdure.kernel.lifecycle import IntegrityError, NodeState, RunState
from perdure.kernel.readings.explain import explain
from perdure.kernel.state import State

__all__ = [
    "IntegrityError",
    "Need",
    "Needs",
    "NodeState",
    "Question",
    "Refused",
    "Ruling",
    "RunState",
    "State",
    "Verdict",
    "advance",
    "decide",
    "evolve",
    "explain",
]
