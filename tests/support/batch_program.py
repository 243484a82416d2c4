"""Stand-in for `vllm run-batch`: reads OpenAI's batch file and writes its replies, with faults on demand.

    python batch_program.py -i in.jsonl -o out.jsonl --model M --calls FILE [--fault NAME]

A fault is in the first call alone, unless its name begins with always; FILE gets the number of requests of each call.
Claims are answered as by `write_claims`, other questions with the first level that the schema names.
"""

import argparse
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.support.claims_judge import write_claims


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for option in ("-i", "-o", "--model"):
        parser.add_argument(option, required=True)
    parser.add_argument("--fault", default="")
    parser.add_argument("--calls", type=Path, required=True)
    given = parser.parse_args()
    lines = [json.loads(line) for line in Path(given.i).read_text(encoding="utf-8").splitlines()]
    with given.calls.open("a", encoding="ascii") as calls:
        calls.write(f"{len(lines)}\n")
    is_first = given.fault.startswith("always") or len(given.calls.read_text(encoding="ascii").split()) == 1
    with Path(given.o).open("w", encoding="utf-8") as replies:
        for number, line in enumerate(reversed(lines)):  # the order is not kept
            replies.write(_reply(line, given.fault if is_first else "", number) + "\n")
            replies.flush()
            if is_first and number == 1:
                _fail(given.fault)


def _fail(fault: str) -> None:
    """What a program may do after its second line."""
    match fault:
        case "exit":
            sys.exit("out of memory")
        case "kill parent":
            os.kill(os.getppid(), signal.SIGKILL)
            time.sleep(60)
        case "endless":
            while True:
                sys.stdout.write("x" * 2**20)


def _reply(line: dict[str, Any], fault: str, number: int) -> str:
    body, custom_id = line["body"], line["custom_id"]
    if number == 0 and fault == "missing":
        return ""
    if number == 0 and fault == "broken":
        return '{"custom_id": "' + custom_id + '", "resp'
    if number == 0 and fault == "long":
        return "x" * (2**24 + 2**20)
    if number == 0 and fault in ("refused", "always refused"):
        error = {"message": "prompt is too long"}
        return json.dumps({"custom_id": custom_id, "response": {"status_code": 400, "body": {"error": error}}})
    if fault == "always strangers":
        custom_id = "f" * 32
    schema = body["response_format"]["json_schema"]
    if schema["name"] in ("claims", "claim_verdicts"):
        text = write_claims(body)
    else:
        properties = schema["schema"]["properties"]
        known = {"evidence": [], "rationale": "So.", "level": properties["level"]["enum"][0]}
        text = json.dumps({name: known[name] for name in properties})
    message = {"role": "assistant", "content": text}
    usage = {"prompt_tokens": 500, "completion_tokens": 20, "total_tokens": 520}
    completion = {"model": body["model"], "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
    response = {"status_code": 200, "request_id": "r", "body": completion | {"usage": usage}}
    return json.dumps({"id": "b", "custom_id": custom_id, "response": response, "error": None})


if __name__ == "__main__":
    main()
