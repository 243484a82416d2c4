"""What a process is like when it starts: two that are alike run the same command alike.

Only for Linux, where a process can read it all; elsewhere no process has a likeness.
"""

import os
import sys

Likeness = dict[str, str]

UNREAD = {"_", "OLDPWD", "SHLVL"}  # variables that a shell sets for each command; nothing here reads them
# Lines of /proc/self/status: the user, signals, rights and processors.
STATUS = ("Umask", "Uid", "Gid", "Groups", "SigBlk", "SigIgn", "Cap", "NoNewPrivs", "Seccomp", "Cpus_allowed:", "Mems")
FILES = ("limits", "cgroup", "oom_score_adj", "personality", "attr/current")  # in /proc/self
OF_THE_PROGRAM = ("argv[0]", "path")


def likeness() -> Likeness | None:
    """Likeness of this process, before it has done anything; None where Python got options or runs no script."""
    if sys.platform != "linux" or len(sys.orig_argv) < 2 or sys.orig_argv[1] != sys.argv[0]:
        return None
    try:
        return {"argv[0]": sys.argv[0], "path": os.pathsep.join(sys.path)} | _surroundings()
    except OSError:
        return None


def like_other(other: Likeness) -> Likeness | None:
    """Likeness of this process with the script and path of another one; None if it can't be read."""
    try:
        return {name: other[name] for name in OF_THE_PROGRAM} | _surroundings()
    except OSError:
        return None


def _surroundings() -> Likeness:
    """Python, variables, folder, user, rights, limits and namespaces."""
    found = {f"{name}=": value for name, value in os.environ.items() if name not in UNREAD}
    folder = os.stat(".")
    found["executable"] = sys.executable
    found["folder"] = f"{os.getcwd()} {folder.st_dev} {folder.st_ino}"
    found["status"] = "".join(line for line in _lines("status") if line.startswith(STATUS))
    found |= {name: "".join(_lines(name)) for name in FILES if os.path.exists(f"/proc/self/{name}")}
    found |= {f"ns/{name}": os.readlink(f"/proc/self/ns/{name}") for name in sorted(os.listdir("/proc/self/ns"))}
    found["priority"] = f"{os.getpriority(os.PRIO_PROCESS, 0)} {os.sched_getscheduler(0)}"
    return found


def _lines(name: str) -> list[str]:
    with open(f"/proc/self/{name}", encoding="utf-8", errors="surrogateescape") as file:
        try:
            return file.readlines()
        except OSError:  # no module of security gives this one
            return []
