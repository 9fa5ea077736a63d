"""A worker that streams and imports nothing of Perdure. docs/reference/worker-protocol.md explains every step.

python streaming.py redis://localhost:6379 my-worker images perdure.db.blobs
"""

import hashlib
import json
import pathlib
import sys
import threading
import time
import uuid
import zlib

import redis

URL, NAME, QUEUE, BLOBS, PREFIX, PARTITIONS = (*sys.argv[1:5], (sys.argv[5:] or ["perdure"])[0], 256)
FUNCTIONS = {"count": lambda n: range(1, n + 1)}
COPIED = {"run_id", "node", "scope", "item", "attempt", "generation", "undo", "tenant", "incarnation"}
server = redis.Redis.from_url(URL)
running: set[str] = set()


def call(script, keys, *arguments):
    while not (digest := server.hget(f"{PREFIX}:{{scripts}}:hashes", script)):
        server.publish(f"{PREFIX}:wake:scripts", "missing")
        time.sleep(0.5)
    return server.execute_command("EVALSHA", digest, len(keys), *keys, *arguments)


def beat():
    while True:
        said = {"v": 1, "worker": NAME, "running": list(running), "slots": 1, "queues": [QUEUE], "types": ["task"]}
        line = json.dumps(said | {"functions": list(FUNCTIONS)}) + "\n"
        call("beat", [f"{PREFIX}:{{workers}}:seen", f"{PREFIX}:{{workers}}:beats"], NAME, line, 604800)
        time.sleep(5)


def report(task, name, **said):
    """Add a result. One that has a wish (`ask`) is answered; this waits for it."""
    partition = zlib.crc32(task["run_id"].split(":")[0].encode()) % PARTITIONS
    said = {"v": 1, "worker": NAME} | {key: task[key] for key in COPIED & task.keys()} | said
    fields = ["task", name, "kind", said["kind"], "queue", QUEUE, "message", json.dumps(said), "signature", ""]
    ask = uuid.uuid4().hex
    fields += ["ask", ask, "process", NAME] if said["kind"] == "checkpointed" else []
    server.execute_command("XADD", f"{PREFIX}:{{partition:{partition}}}:results", "*", *fields)
    server.publish(f"{PREFIX}:wake:results", partition)
    while said["kind"] == "checkpointed":
        if answer := server.getdel(f"{PREFIX}:{{partition:{partition}}}:grant:{ask}"):
            return json.loads(answer.splitlines()[0])["granted"]
        time.sleep(0.02)
    return True


def store(data, tenant="default"):
    """Put a blob into the folder of the store."""
    key = hashlib.blake2b(tenant.encode(), digest_size=32, person=b"perdure tenant").digest()
    folder = hashlib.blake2b(b"folder", digest_size=16, key=key).hexdigest()
    name = hashlib.blake2b(hashlib.sha256(data).digest(), digest_size=32, key=key).hexdigest()
    path = pathlib.Path(BLOBS, folder, "kept", name[:2], name)
    path.parent.mkdir(parents=True, exist_ok=True)
    (unfinished := path.with_name(f".unfinished-{uuid.uuid4().hex}")).write_bytes(data)
    unfinished.rename(path)
    return "cas://sha256:" + hashlib.sha256(data).hexdigest()


def stream(task, name):
    writer, bodies, place = uuid.uuid4().hex, [], f"{task['node']}.out~{task.get('incarnation', 1)}".removesuffix("~1")
    base = f"{PREFIX}:{{streams:{task['run_id']}}}"
    keys = [f"{base}:{what}:{place}" for what in ("about", "tail", "pieces", "readers")] + [f"{base}:places"]
    about = (task.get("attempt", 1), place, f"{PREFIX}:wake:streams:", f"{task['run_id']}/{place}", 86400, 0)
    segment = {"v": 1, "run_id": task["run_id"], "place": place, "edition": task.get("attempt", 1)}
    for chunk in FUNCTIONS[task["config"]["function"]](**task["config"].get("args", {})):
        if not bodies and not report(task, name, kind="checkpointed", begins=writer, flow={"opened": ["out"]}):
            return  # another execution streams
        bodies.append(json.dumps(chunk))
        message = json.dumps(segment | {"first": len(bodies), "chunks": [chunk]}) + "\n"
        if not call("append_chunks", keys, *about, len(bodies), 1, len(bodies[-1]), message):
            return  # another attempt streams
    count, size = len(bodies), sum(map(len, bodies))
    parts = [["out", count, store(f"[{','.join(bodies)}]".encode()), size]] if bodies else []
    flow = {"ended": [["out", count, size]], "parts": parts}
    report(task, name, kind="completed", begins=writer, flow=flow, output=count, size=len(str(count)))


threading.Thread(target=beat, daemon=True).start()
base = f"{PREFIX}:{{queue:{QUEUE}}}"
while True:
    claimed = call("claim", [f"{base}:lanes"], f"{base}:tasks:", NAME, 1, 1, "task", *FUNCTIONS)
    for _lane, _entry, pairs in claimed or ():
        fields = dict(zip(pairs[::2], pairs[1::2], strict=True))
        running.add(task_id := fields[b"task"].decode())
        stream(json.loads(fields[b"message"]), task_id)
        running.discard(task_id)
    time.sleep(0 if claimed else 0.2)
