"""The views that gradebook makes in a lake."""

import hashlib

# Digests of the views' stored texts, of each version of gradebook, the current one last. Add the digest of a changed
# view, keep the others. Each view comes after the views it reads.
KNOWN_VIEWS = {
    "criterion_ladders": ("2283875e32f1bc36200c019e70ac867a",),
    "verdict_lines": ("a6617511ec2000079d41a40fca929b74", "42fe8eced4be649358eb3e40636f501d"),
    "mean_lines": ("e236563ab43fb9bc4e4edbd53d1de9be",),
    "output_feedback": ("78bd757f3d06a9093bc1796d67537454", "cb7fd5563ac3f6772b7c41dd1b7f9f1b"),
    "run_feedback": ("2ba9ec8641077e13fb39bdbbbb4289b0",),
    "score_history": (
        "58ddfa674b63f7ee311011c5e93a161b",
        "435a3322d631c11dc8b24f921b50624a",
        "f9ca5691521a6709cf0990e22e8f842e",
        "997048067ba6843b1476bc33872c0c77",
        "2bfdf16f416b69c54c9f70d236817ead",
    ),
    "criterion_history": (
        "dc8e21866b3bacc1caf8834fef4efa5d",
        "19204c0570766e9d552252dc630623e2",
        "f7a160fdaca6da065104b17346640a6f",
    ),
    "latest_runs": ("fdea334ce66aba4e154750d4289869f3", "2b23456ad269ae07a1f55b2c28e71a7a"),
    "latest_run_scores": (
        "1c3671f22780b0e285bffe0a968569ef",
        "cdb71ef00838cadd28f759e2759b6c44",
        "229712247440565e345191b6a0f42691",
    ),
    "latest_criterion_scores": (
        "32c54677e479561f7c784ed127f122c1",
        "31b5e0e2fdb2463a79161ad96a618a46",
        "7f25b9f7550ad9cfb0a06e99cdc8cf9e",
    ),
    "latest_output_scores": (
        "9d010b8b21a92b96406b6fe004ede086",
        "97066ea574dc5010e661e2d3654624ec",
        "d6fed11a0a36584b01943b308f2686f0",
    ),
    "cost_history": ("26869418fb2c8a730fe3013058733f7d",),
    "worst_outputs": ("dc6ed085318aa1ed7bac40314c5081b6",),
    "steps": ("176cb0cac40d9180b3a4966285e62e57",),
    "judge_gaps": ("db8c6daabc4950680d0d195b1b24fc52",),
    "preference_rates": ("cc2ff4d10cac417d124203cb8403a527",),
    "reward_guards": ("f676012e5182b2559dc29d437ed923d4", "92c40f234a3e59a3aa6fb4ac956650bc"),
    "provenance": ("4bc3028d4ae3110939e3ca9032e00875", "0686d41f84945bef5f8d73f1faa36aba"),
    "outcome_scores": ("5d2d71770613ae0dea06a35028899ac2",),
}


def digest_of_view(text: str) -> str:
    """Digest of a view's text as the catalog stores it."""
    return hashlib.sha256(text.encode()).hexdigest()[:32]
