"""A judge of claims on loopback that reads what it is asked: one claim a sentence, supported where a passage has it."""

import json
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
