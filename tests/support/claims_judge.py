"""A judge of claims on loopback that reads what it is asked: one claim a sentence, supported where a passage has it."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any


def write_claims(body: dict[str, Any]) -> str:
    """Reply to a question about claims, as a judge without faults would write it."""
    user = body["messages"][-1]["content"]
    if body["response_format"]["json_schema"]["name"] == "claims":
        sentences = json.loads(user.removeprefix("TEXT\n"))["sentences"]
        return json.dumps({"claims": [_claim(int(number), text) for number, text in sentences.items()]})
    source, _, claims = user.partition("SOURCE\n")[2].partition("\n\nCLAIMS\n")
    passages = json.loads(source)
    return json.dumps(
        {"verdicts": [_verdict(int(number), claim, passages) for number, claim in json.loads(claims).items()]}
    )


def _claim(number: int, text: str) -> dict[str, Any]:
    kind = "opinion" if "I think" in text else "verifiable"
    return {"sentence": number, "span": text, "claim": text, "kind": kind}


def _verdict(number: int, claim: str, passages: list[str]) -> dict[str, Any]:
    denied = claim.replace(" is ", " is not ")
    for verdict, quote in (("supported", claim), ("contradicted", denied)):
        if any(quote in passage for passage in passages):
            return {"claim": number, "quote": quote, "verdict": verdict}
    # A judge that makes up its quote: code must not believe it.
    verdict = "supported" if "made up" in claim else "not_in_source"
    return {"claim": number, "quote": "words that are nowhere", "verdict": verdict}


async def _serve(latency_s: float) -> None:
    """Serve such a judge on a free port, which is the first line of stdout; `/stats` tells what it saw."""
    judge = LoopbackJudge(latency_s=latency_s)
    judge.writer, judge.is_keeping_bodies = write_claims, False
    await judge.start(0)
    sys.stdout.write(f"{judge.base_url}\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))
    from tests.support.loopback_judge import LoopbackJudge

    asyncio.run(_serve(float(sys.argv[1])))
