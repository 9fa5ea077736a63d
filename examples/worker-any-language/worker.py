"""A worker for Perdure that imports nothing of Perdure. docs/reference/worker-protocol.md explains every step.

python worker.py redis://localhost:6379 my-worker images
"""

import json
import sys
import threading
import time
import zlib

import redis
from redis.exceptions import NoScriptError

URL, NAME, QUEUE, PREFIX, PARTITIONS = (*sys.argv[1:4], (sys.argv[4:] or ["perdure"])[0], 256)
FUNCTIONS = {"shout": lambda text: text.upper(), "add": lambda a, b: a + b}
COPIED = {"run_id", "node", "scope", "item", "attempt", "generation", "undo", "tenant", "incarnation"}
server = redis.Redis.from_url(URL)
running: set[str] = set()


def call(script, keys, *arguments):
    """Scripts are called by their hash, which coordinators leave for us."""
    while True:
        try:
            if digest := server.hget(f"{PREFIX}:{{scripts}}:hashes", script):
                return server.execute_command("EVALSHA", digest, len(keys), *keys, *arguments)
        except NoScriptError:
            pass
        server.publish(f"{PREFIX}:wake:scripts", "missing")
        time.sleep(0.5)


def beat():
    while True:  # whoever is silent for 15 s counts as dead
        said = {"v": 1, "worker": NAME, "running": list(running), "slots": 1, "queues": [QUEUE], "types": ["task"]}
        line = json.dumps(said | {"functions": list(FUNCTIONS)}) + "\n"
        call("beat", [f"{PREFIX}:{{workers}}:seen", f"{PREFIX}:{{workers}}:beats"], NAME, line, 604800)
        time.sleep(5)


def execute(task):
    report = {"v": 1, "worker": NAME} | {name: task[name] for name in COPIED & task.keys()}
    try:
        value = FUNCTIONS[task["config"]["function"]](**task["config"].get("args", {}))
        return report | {"kind": "completed", "output": value, "size": len(json.dumps(value))}
    except Exception as error:  # noqa: BLE001  whatever it raises is the outcome
        return report | {"kind": "failed", "code": "error", "message": f"{type(error).__name__}: {error}"}


threading.Thread(target=beat, daemon=True).start()
wakes = server.pubsub(ignore_subscribe_messages=True)
wakes.subscribe(f"{PREFIX}:wake:queue:{QUEUE}")
base = f"{PREFIX}:{{queue:{QUEUE}}}"
while True:
    claimed = call("claim", [f"{base}:lanes"], f"{base}:tasks:", NAME, 1, 1, "task", *FUNCTIONS)
    for _lane, _entry, pairs in claimed or ():
        fields = dict(zip(pairs[::2], pairs[1::2], strict=True))
        running.add(name := fields[b"task"].decode())
        result = execute(json.loads(fields[b"message"]))
        partition = zlib.crc32(result["run_id"].split(":")[0].encode()) % PARTITIONS
        said = ("task", name, "kind", result["kind"], "queue", QUEUE, "message", json.dumps(result), "signature", "")
        server.execute_command("XADD", f"{PREFIX}:{{partition:{partition}}}:results", "*", *said)
        server.publish(f"{PREFIX}:wake:results", partition)
        running.discard(name)
    if not claimed:
        wakes.get_message(timeout=1.0)
