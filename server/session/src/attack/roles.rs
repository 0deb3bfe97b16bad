//! Rows for a reviewer, and for a worker whose account has a user of its own and whose slot has a group.

use super::table::{Native, Shell};

/// What a reviewer may do.
pub(super) const REVIEW_OWN: Shell = &[
    (
        "read the brief and the tree",
        "",
        "cat \"$OPKIT_REVIEW/brief.md\" \"$OPKIT_REVIEW/floor.json\" README.md",
    ),
    ("run the delivered code", "", "sh check.sh && touch built && rm built"),
    ("write the verdict", "", "echo '{}' > \"$OPKIT_REVIEW/out/VERDICT.json\""),
    ("temporary files of the reviewer", "mktemp", "f=$(mktemp) && echo x > \"$f\" && rm \"$f\""),
];

/// What a reviewer must not see or change: the worker's places, the mirror, its own brief.
pub(super) const REVIEW: Shell = &[
    ("the worker's notes", "", "cat {WORK42}/memory/NOTES.md"),
    ("the worker's notes by a link", "", "ln -sf {WORK42}/memory/NOTES.md n; cat n"),
    ("the worker's notes by a hard link", "", "ln {WORK42}/memory/NOTES.md n2; cat n2"),
    ("the worker's scratch directory", "", "cat {WORK42}/scratch/x"),
    ("the worker's token", "", "cat {WORK42}/state/work/token"),
    ("the worker's conversation", "", "cat {WORK42}/state/work/conversation.jsonl"),
    ("the worker's transcript", "", "cat {WORKER}/transcript.jsonl"),
    ("the worker's launch record", "", "cat {WORKER}/spec.json"),
    ("the worker's worktree", "", "cat {WORK42}/cc-worktree-42/secret"),
    ("the worker's commits", "git", "git -C {WORK42}/cc-worktree-42 log"),
    ("the worker's commits by a clone", "git", "git clone -q {WORK42}/cc-worktree-42 c; git -C c log"),
    ("another session's review", "", "cat {REVIEW}/brief.md"),
    ("the database, as a reviewer", "", "cat {DATA}/db/opkit.db"),
    ("a key, as a reviewer", "", "cat {DATA}/keys/anthropic"),
    ("write to the worker's worktree", "", "echo x > {WORK42}/cc-worktree-42/m"),
    ("write to the worker's notes", "", "echo x >> {WORK42}/memory/NOTES.md"),
    ("commit to the worker's branch", "git", "git -C {WORK42}/cc-worktree-42 commit -q --allow-empty -m x"),
    ("change the own brief", "", "echo x >> {OWNREVIEW}/brief.md"),
    ("change the result of the floor", "", "echo '{}' > {OWNREVIEW}/floor.json"),
    ("replace the result of the floor", "", "echo '{}' > f; mv f {OWNREVIEW}/floor.json"),
    ("change the diff that is graded", "", "rm -f {OWNREVIEW}/diff.patch; test ! -e {OWNREVIEW}/diff.patch"),
    ("the verdict of another session", "", "echo '{}' > {REVIEW}/out/VERDICT.json"),
    ("a reference of the mirror, as a reviewer", "", "echo x > {MIRROR}/refs/heads/main"),
    ("the policy, as a reviewer", "", "echo '{}' > {POLICY}/policy.json"),
];

/// The same, where the answer says it.
pub(super) const REVIEW_ANSWERS: Shell = &[
    ("history of the mirror", "git", "git --git-dir={MIRROR} log -1"),
    ("clone of the mirror, as a reviewer", "git", "git clone -q {MIRROR} mirror-clone"),
    ("files of the mirror", "", "cat {MIRROR}/HEAD"),
    ("listing of the worker's places", "", "ls {WORK42}/memory"),
    ("address of the session door", "", "cat {DATA}/door/session-door"),
];

/// What Landlock does not judge, between two sessions of one account: the slot's group does.
pub(super) const SIBLING_ANSWERS: Native = &[
    ("other session: chmod of a directory", "", "chmod", "{WORK41}/memory"),
    ("other session: chmod of a file", "", "chmod", "{OTHER}/secret"),
    ("other session: times of a directory", "", "utimes", "{WORK41}/scratch"),
    ("other session: times of a file", "", "utimes", "{OTHER}/secret"),
    ("other session: attribute of a file", "", "setxattr", "{OTHER}/secret"),
    ("other session: attribute of a directory", "", "setxattr", "{WORK41}/memory"),
    ("other session: chown", "", "chown", "{OTHER}/secret"),
    ("other session: stat", "", "stat", "{OTHER}/secret"),
    ("other session: watch", "", "inotify", "{OTHER}"),
    ("other session: list", "", "list", "{OTHER}"),
    ("other session: open for writing", "", "open for writing", "{OTHER}/secret"),
    ("other session: modes of its review", "", "chmod", "{REVIEW}/out"),
];

/// The same as seen from the service's own directories, and of another account.
pub(super) const ACCOUNT_ANSWERS: Native = &[
    ("modes of the other session's parent", "", "chmod", "{WORK41}"),
    ("list of the other session's parent", "", "list", "{WORK41}"),
    ("list of all sessions", "", "list", "{DATA}/work"),
    ("modes of one's own parent", "", "chmod", "{WORK42}"),
    ("other account: chmod", "", "chmod", "{WORK40}/memory"),
    ("other account: times", "", "utimes", "{WORK40}/cc-worktree-40/secret"),
    ("other account: attribute", "", "setxattr", "{WORK40}/cc-worktree-40/secret"),
    ("other account: stat", "", "stat", "{WORK40}/cc-worktree-40/secret"),
    ("other account: watch", "", "inotify", "{WORK40}/memory"),
    ("other account: list", "", "list", "{WORK40}/cc-worktree-40"),
    ("other account: list its home", "", "list", "{DATA}/home/other"),
    ("other account: modes of its home", "", "chmod", "{DATA}/home/other"),
    ("other account: stat in its home", "", "stat", "{DATA}/home/other/.ssh/id"),
    ("other account: ptrace attach", "", "ptrace attach", "{PID2}"),
    ("other account: ptrace seize", "", "ptrace seize", "{PID2}"),
    ("other account: memory by /proc", "", "read its memory", "{PID2}"),
    ("other account: memory by call", "", "read its memory by call", "{PID2}"),
    ("other account: write of its memory", "", "write its memory", "{PID2}"),
    ("other account: descriptor", "", "take a descriptor", "{PID2} 0"),
    ("other account: namespaces", "", "its namespaces", "{PID2}"),
    ("other account: limits", "", "limits", "{PID2}"),
    ("other account: nice", "", "nice", "{PID2}"),
    ("other account: shared memory", "", "shared memory", "{KEY2}"),
    ("tmux of the service, no filter", "tmux-server", "connect", "{RUN}/tmux"),
    ("control socket, no filter", "", "connect", "{RUN}/control.sock"),
    ("stat of the tmux socket", "tmux-server", "stat", "{RUN}/tmux"),
    ("list of the sockets", "", "list", "{RUN}"),
];

/// Where the ground shows it.
pub(super) const ACCOUNT_CALLS: Native = &[
    ("other session: read", "", "read", "{OTHER}/secret"),
    ("other session: create", "", "create", "{OTHER}/m"),
    ("other session: unlink", "", "unlink", "{WORK41}/scratch"),
    ("other account: read", "", "read", "{WORK40}/cc-worktree-40/secret"),
    ("other account: create", "", "create", "{WORK40}/memory/m"),
    ("other account: read in its home", "", "read", "{DATA}/home/other/.ssh/id"),
    ("other account: write in its home", "", "create", "{DATA}/home/other/.profile"),
    ("the home of one's own account", "", "read", "{DATA}/home/own/credentials"),
    ("other account: kill", "", "kill", "{PID2}"),
    ("other account: tgkill", "", "tgkill", "{PID2}"),
    ("other account: queued signal", "", "queue a signal", "{PID2}"),
    ("other account: signal by handle", "", "signal by handle", "{PID2}"),
    ("other account: environment", "", "read its environment", "{PID2}"),
    ("session bus, no filter", "", "connect", "{RUN}/bus"),
    ("datagram, no filter", "", "datagram", "{RUN}/notify"),
];

pub(super) const ACCOUNT_SHELL: Shell = &[
    ("tmux of the service by tmux", "tmux tmux-server", "tmux -S {RUN}/tmux run-shell 'touch {OPEN}/m'"),
    ("other account: notes", "", "cat {WORK40}/memory/NOTES.md"),
    ("other account: notes by a link", "", "ln -sf {WORK40}/memory/NOTES.md k40; cat k40"),
    ("other account: files of a process", "", "cat /proc/{PID2}/fd/* /proc/{PID2}/cwd/there"),
    ("other account: root of a process", "", "cat /proc/{PID2}/root{DATA}/keys/anthropic"),
    ("other account: environment by tr", "", "tr '\\0' '\\n' < /proc/{PID2}/environ"),
    ("other account: map of a process", "", "cat /proc/{PID2}/maps && echo reached > {OPEN}/m"),
];

/// Known to be open.
pub(super) const ACCOUNT_GAPS: Native =
    &[("socket that everybody may connect to", "", "connect", "{OPEN}/door")];

/// With users of their own sessions may have sockets of their own.
pub(super) const ACCOUNT_OWN: Native = &[
    ("socket of one's own", "", "socket of one's own", "own-socket"),
    ("loopback connection, os-users", "", "tcp", "{TCP}"),
];

/// Rows of mode homes that mean nothing here: sockets are a session's right, and the closed directories keep it
/// from those of others.
pub(super) const RIGHTS_OF_ACCOUNTS: &[&str] = &[
    "bind inside",
    "bind of an abstract name",
    "io_uring",
    "socket with high bits set",
    "tmux server of one's own",
];
