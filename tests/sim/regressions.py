"""Seeds that once failed, and what they found.

A change of the generator or of the engine makes a seed another history: these go on as histories like any other. What they
found is tested by itself in `test_found.py`, `tests/kernel/histories` and `tests/kernel/rules`.
"""

from __future__ import annotations

FOUND: dict[int, str] = {
    22: "a result of a compensator was heard after its run had been ended by force (J4); with `shared`",
    95: "the same",
    226: "the same",
    352: "the same, which then quarantined the run: compensation out of order",
    526: "the same, by a discard of a parked compensation",
    562: "a worker was granted the start of an at_most_once node that a failing run had held instead (V6)",
    589: "the same",
    574: "a coordinator with nothing to write never heard that its journal had been restored; timers stood still",
    1202: "the same; it answered for runs that were no longer there",
    626: "a run that changed under the eyes of its reader was quarantined",
    1072: "the same, for a child",
    867: "a parent that tried a cancelled child again waited for ever",
    628: "a child that failed and was retried in one batch told its parent it had ended as `running`: an unreadable journal",
    364: "an attempt that had begun, whose task the transport lost, was never tried again",
    203: "a delivery made twice, or a flushed transport, failed a node as `cancelled` though nobody had cancelled (T1)",
    236: "the same",
    2165: "a compensation to be sent again was forgotten when its run left memory between append and publish",
    1040: "a handler went on after its run was cancelled by force (rule 29)",
    257: "of the simulator: a fault drawn before healing struck after it",
    1703: "of the simulator: closing a process that was already dead",
    4267: "of the checker: a join that could not fire, and was parked, was taken for the winner of a race (rule 11)",
    4414: "a result from before the journal was restored, of an attempt that counts as begun since: never tried again (R2)",
    5127: "timers stood still for an hour after the journal had been away while a clock was ahead (R2)",
    6002: "the same",
    106: "a node after an inner loop started in an iteration of the outer one that was over (E7)",
    570: "an exit edge resolved again after a retry (E1)",
    11014: "of the checker: the same as 4267",
    242: "a rerun began with more edges than its limits allow (E5)",
    503: "a run whose entry nodes ask `when` about its inputs failed, or could not be started at all (rule 21)",
    7628: "a patch that lowers max_hops stopped some attempts of what was activated, and others not (E5)",
    1000820: "a coordinator whose lease had lapsed acknowledged a result that meant nothing to what it remembered (T1)",
    1000307: "of the simulator: what such a coordinator received on was never delivered again",
    1001798: "a coordinator that had missed a restore acknowledged a result of the time after it (T1)",
    1000568: "a rerun adopted what left a loop before what had completed in it (V5)",
    1001124: "of the checker: an attempt held after a hand-over and sent again counted as lost",
    1700806: "what was written was acted upon when the journal answered after the lease: another had ended the run (R7)",
    1701317: "a coordinator remembered its runs past its lease, as long as the database kept an answer back (J5)",
    1712915: "the same",
    1720420: "the same",
    888998: "what was parked behind something undone was sent without what came of it when done again (E3)",
    558342: "of the checker: a join was judged by the one a patch made of it after it had fired (E3)",
    309651: "a patch that hung a node behind one that had begun, and an approval before that, let it run without (E6)",
    15857001: "an attempt was given back while it was recalled, began by what the recall had found, and nobody missed it (T1, R2)",
    720: "of the simulator: an edge that a patch brought after its target was activated is not given to it",
    4113: "of the simulator: a run whose child waits for a time stands still rightly",
    359055: "a patch led around an approval by way of a failure that a race absorbed (E6)",
    382220: "a patch let a rejected approval go on after a failure; undone and asked again, it guarded nothing (E6)",
    1759013: "of the checker: a copy of a compensation, executed after that was over, was taken for the next one (rule 3)",
    196703: "of the checker: a race that a patch made, against a loop that lived by the older definition (E2)",
    197233: "of the simulator: a call that was cancelled in the moment its connection broke was not (R2)",
    1025712: "of the checker: items of a map that had come further than a patch allowed since (E5)",
    16468: "a rerun adopted the end of a loop before what a retry had done again in it (quarantine)",
    986197: "a result was forgotten when the fetching of what it needed was cancelled (R2)",
    1813238: "of the checker: who cancelled said later that nobody was to be waited for (rule 25)",
    1600958: "of the simulator: what was stopped by a deadline, parked, and discarded after a retry (T1)",
    1747716: "of the checker: what was skipped for want of what it requires was taken for the winner of a race (rule 11)",
    1049832: "a continuation was blamed for an edge that a patch had brought (E5)",
    385694: "a result of an iteration that was over came from a node that a patch had removed, and quarantined the run",
    1171381: "a patch brought a node back whose loop had begun anew with nodes it never knew, and quarantined the run",
    309767: "a patch led around an approval that was asked again, by way of an outcome that was kept and waited for it (E6)",
    1297865: "a child was started after it had been stopped in the same append, and its rollback was not heard (R2)",
    396619: "a request was decided with a definition that was read before a restore and lost with it (quarantine)",
    128307: "of the simulator: a result whose acknowledgement got lost was never delivered again (R2)",
    677003: "of the checker: a timer was set by a clock that was hours ahead (R2)",
    1393348: "of the checker: a continuation that was on its way to the journal was missed there (J5)",
    1193825: "a partition was taken again under the same epoch while its runs were listed, and they were not listed anew (R2)",
    914117: "a run that was cancelled by force and compensated let a worker go on that the journal did not know of (rule 29)",
    1859833: "of the checker: an approval that a patch put before a loop under way was taken for its guard (E6)",
}
SHARED = (22, 76, 87, 141, 203, 223, 226, 236, 257, 263, 364, 628)
"""Found with workers of their own, whatever the seed would choose."""
EMBEDDED = (352, 365, 464, 526, 562, 570, 574, 589, 626, 858, 867, 1072, 1202)
"""Found with one process that does everything."""
CALM = (106,)
"""Found without any fault."""
