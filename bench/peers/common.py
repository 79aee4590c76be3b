"""What the Python contestants share: the conversation with the driver, the clock, and the records.

The driver writes one JSON object a line, `{"op": NAME, ...}`, and reads one line back: `{"seconds": ...}` for work that
was measured, `{}` for work that was not, `{"missing": WHY}` if the library has no such thing, `{"error": WHY}` if it
failed. Only the work itself is inside the clock: turns are in the library's own shape before it starts.
"""

import argparse
import json
import os
import resource
import sys
import time
import traceback

soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", required=True, help="where the contestant keeps its own files")
    parser.add_argument("--turns", help="one turn a line: an array of records")
    parser.add_argument("--start", action="store_true", help="open the store, print a prompt, end")
    return parser.parse_args()


def read_turns(path):
    with open(path, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def read_records(path):
    """The records of a transcript; its lines end with LF and nothing else."""
    with open(path, encoding="utf-8", newline="\n") as lines:
        return [json.loads(line) for line in lines]


def read_plan(store):
    """The sessions of a store, oldest first: (row, records)."""
    with open(os.path.join(store, "plan.jsonl"), encoding="utf-8") as rows:
        for row in rows:
            row = json.loads(row)
            yield row, read_records(os.path.join(store, row["file"]))


def text_of(content):
    if isinstance(content, str):
        return content
    return "".join(block.get("text", "") for block in content)


def as_text(output):
    return output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)


def status(field):
    with open("/proc/self/status", encoding="ascii") as lines:
        for line in lines:
            if line.startswith(field):
                return int(line.split()[1]) * 1024
    return 0


def measured(work):
    """Runs it once: how long, and by how much the process grew at most."""
    try:
        with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
            file.write("5")
    except OSError:
        pass
    before = status("VmRSS")
    begun = time.perf_counter()
    done = work()
    seconds = time.perf_counter() - begun
    reply = {"seconds": seconds, "peak": max(0, status("VmHWM") - before)}
    if done is not None:
        reply["count"] = done
    return reply


def timed(work):
    """Runs it once: how long. For work that is too short for a look at the memory."""
    begun = time.perf_counter()
    done = work()
    seconds = time.perf_counter() - begun
    return {"seconds": seconds, "count": done} if done is not None else {"seconds": seconds}


def say(reply):
    sys.stdout.write(json.dumps(reply) + "\n")
    sys.stdout.flush()


def serve(contestant):
    for line in sys.stdin:
        request = json.loads(line)
        work = getattr(contestant, request.pop("op"), None)
        if work is None:
            say({"missing": "it has no such thing"})
            continue
        try:
            say(work(**request) or {})
        except Exception as error:
            traceback.print_exc()
            say({"error": f"{type(error).__name__}: {error}"[:300]})
