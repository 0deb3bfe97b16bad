//! The rows: what is tried, family by family, and the rights that must stay.

use super::ground::Stage;
use super::roles::{
    ACCOUNT_ANSWERS, ACCOUNT_CALLS, ACCOUNT_GAPS, ACCOUNT_OWN, ACCOUNT_SHELL, REVIEW, REVIEW_ANSWERS,
    REVIEW_OWN, RIGHTS_OF_ACCOUNTS, SIBLING_ANSWERS,
};

/// How a row is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// A shell command, as a Bash tool call would run it.
    Shell(&'static str),
    /// System calls of this program itself: the name and its argument.
    Native(&'static str, &'static str),
}

/// How a row is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Goal {
    /// Something outside is changed, read, reached or ended; the ground shows whether.
    Outside,
    /// The status says whether the kernel allowed it.
    Answer,
    /// The session's own right: must work.
    Own,
}

/// One row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Attack {
    pub(super) group: &'static str,
    pub(super) name: &'static str,
    pub(super) goal: Goal,
    /// Programs it needs, with a space between.
    pub(super) needs: &'static str,
    pub(super) way: Way,
}

/// Every row of a stage in the order in which they run.
pub(super) fn all(stage: Stage) -> Vec<Attack> {
    match stage {
        Stage::Homes => homes(),
        Stage::Review => review(),
        Stage::Accounts | Stage::AccountsOpen => accounts(),
    }
}

fn shell(group: &'static str, goal: Goal, table: Shell) -> impl Iterator<Item = Attack> {
    table.iter().map(move |&(name, needs, script)| Attack {
        group,
        name,
        goal,
        needs,
        way: Way::Shell(script),
    })
}

fn native(group: &'static str, goal: Goal, table: Native) -> impl Iterator<Item = Attack> {
    table.iter().map(move |&(name, needs, call, arg)| Attack {
        group,
        name,
        goal,
        needs,
        way: Way::Native(call, arg),
    })
}

fn homes() -> Vec<Attack> {
    let mut rows: Vec<Attack> = shell("own", Goal::Own, OWN).collect();
    rows.extend(shell("shell", Goal::Outside, SHELL));
    rows.extend(shell("programs", Goal::Outside, PROGRAMS));
    rows.extend(shell("git", Goal::Outside, GIT));
    rows.extend(shell("places", Goal::Outside, PLACES));
    rows.extend(shell("reads", Goal::Outside, READS));
    rows.extend(shell("daemons", Goal::Outside, DAEMONS));
    rows.extend(shell("rights", Goal::Answer, RIGHTS));
    rows.extend(shell("gaps", Goal::Answer, METADATA));
    rows.extend(native("files", Goal::Outside, FILES));
    rows.extend(native("files", Goal::Answer, FILE_ANSWERS));
    rows.extend(native("processes", Goal::Outside, PROCESSES));
    rows.extend(native("processes", Goal::Answer, PROCESS_ANSWERS));
    rows.extend(native("sockets", Goal::Outside, SOCKETS));
    rows.extend(native("sockets", Goal::Answer, SOCKET_ANSWERS));
    rows.extend(native("rights", Goal::Outside, NATIVE_RIGHTS));
    rows.extend(native("rights", Goal::Answer, RIGHT_ANSWERS));
    rows.extend(native("own", Goal::Own, NATIVE_OWN));
    rows.extend(shell("own", Goal::Own, OWN_AFTER));
    rows
}

fn review() -> Vec<Attack> {
    let mut rows: Vec<Attack> = shell("own", Goal::Own, REVIEW_OWN).collect();
    rows.extend(shell("reviewer", Goal::Outside, REVIEW));
    rows.extend(shell("reviewer", Goal::Answer, REVIEW_ANSWERS));
    rows
}

fn accounts() -> Vec<Attack> {
    let mut rows = homes();
    rows.retain(|row| !RIGHTS_OF_ACCOUNTS.contains(&row.name));
    rows.extend(shell("accounts", Goal::Outside, ACCOUNT_SHELL));
    rows.extend(native("accounts", Goal::Outside, ACCOUNT_CALLS));
    rows.extend(native("accounts", Goal::Answer, SIBLING_ANSWERS));
    rows.extend(native("accounts", Goal::Answer, ACCOUNT_ANSWERS));
    rows.extend(native("accounts", Goal::Answer, ACCOUNT_GAPS));
    rows.extend(native("own", Goal::Own, ACCOUNT_OWN));
    rows
}

/// Name, needs, script.
pub(super) type Shell = &'static [(&'static str, &'static str, &'static str)];
/// Name, needs, call, argument.
pub(super) type Native = &'static [(&'static str, &'static str, &'static str, &'static str)];

const OWN: Shell = &[
    ("clone of the mirror", "git", "git clone -q --shared --no-tags {MIRROR} . && git checkout -q -B obj/42"),
    (
        "write in the worktree",
        "",
        "echo x > a && mkdir -p d/e && mv a d/e/b && cp d/e/b c && ln -s c l && rm l && test -s c",
    ),
    (
        "write memory, scratch, state",
        "",
        "for d in \"$OPKIT_MEMORY\" \"$OPKIT_SCRATCH\" \"$HOME\"; do echo x > \"$d/x\" || exit 1; done",
    ),
    (
        "modes, times and links of one's own",
        "",
        "chmod 700 c && touch -d 2001-01-01 c && ln c hard && test hard -ef c",
    ),
    ("temporary files", "mktemp", "f=$(mktemp) && echo x > \"$f\" && rm \"$f\""),
    (
        "commit",
        "git",
        "git add -A && git commit -q -m one && echo y > two && git add two && git commit -q -m two",
    ),
    ("amend", "git", "echo z >> two && git commit -q -a --amend -m 'two again'"),
    ("branch and tag", "git", "git branch side HEAD~1 && git tag -a v1 -m v1 && git tag light"),
    ("stash", "git", "echo s >> two && git stash -q && git stash pop -q && git checkout -q two"),
    (
        "rebase and merge",
        "git",
        "git switch -q side && echo s > three && git add three && git commit -q -m three && git rebase -q obj/42 && git switch -q obj/42 && git merge -q side",
    ),
    (
        "fetch from the mirror",
        "git",
        "git fetch -q origin '+refs/heads/*:refs/remotes/origin/*' && git rev-parse -q --verify origin/main",
    ),
    (
        "worktree inside",
        "git",
        "git worktree add -q \"$OPKIT_SCRATCH/wt\" && git worktree remove \"$OPKIT_SCRATCH/wt\"",
    ),
    (
        "bundle of the branch",
        "git",
        "git bundle create -q - obj/42 > \"$OPKIT_SCRATCH/b\" && git fsck --no-dangling",
    ),
    ("sh", "", "sh -c 'sh -c true' && echo ok | cat > /dev/null"),
    (
        "python3",
        "python3",
        "python3 -c 'import subprocess, tempfile; tempfile.TemporaryFile(); subprocess.run([\"true\"], check=True)'",
    ),
    (
        "node",
        "node",
        "node -e 'require(\"child_process\").execFileSync(\"true\"); require(\"fs\").writeFileSync(\"n\", \"x\")'",
    ),
    ("perl", "perl", "perl -e 'open(F, \">\", \"p\") or die; print F 1'"),
    ("a program made here", "cc", "echo 'int main(void){return 0;}' > m.c && cc m.c -o m && ./m"),
    ("signal to one's own process", "", "sleep 30 & kill $! && ! wait $!"),
];

const OWN_AFTER: Shell = &[(
    "commit after all of it",
    "git",
    "echo last > last && git add last && git commit -q -m last && git status --porcelain > /dev/null",
)];

/// Ways to say it to a shell.
const SHELL: Shell = &[
    ("redirection", "", "echo x > {OPEN}/m"),
    ("appending redirection", "", "echo x >> {OPEN}/there"),
    ("here-document", "", "cat > {OPEN}/m <<E\nx\nE"),
    ("dot-dot", "", "echo x > ../../../open/m"),
    ("cd, then relative", "", "cd ../../.. && echo x > open/m"),
    ("subshell in another directory", "", "(cd {OPEN}; echo x > m)"),
    ("shell in a shell", "", "sh -c \"sh -c 'echo x > {OPEN}/m'\""),
    ("eval", "", "eval 'echo x >' '{OPEN}/m'"),
    ("variable", "", "d={OPEN}; echo x > $d/m"),
    ("split string", "", "a={OPEN}; b=m; echo x > \"$a/${b}\""),
    ("command substitution", "", "echo x > \"$(echo {OPEN}/m)\""),
    ("glob", "", "rm {DATA}/op*/th*"),
    ("encoded text to a shell", "base64", "printf 'echo x > {OPEN}/m' | base64 | base64 -d | sh"),
    ("function", "", "f() { echo x > {OPEN}/m; }; f"),
    ("pipeline", "", "{ echo x; echo y; } | cat > {OPEN}/m"),
    ("background job", "", "echo x > {OPEN}/m & wait"),
    ("double fork", "", "( ( sleep 0.1; echo x > {OPEN}/m ) & )"),
    ("setsid", "setsid", "setsid sh -c 'echo x > {OPEN}/m'"),
    ("nohup", "nohup", "nohup touch {OPEN}/m"),
    ("env", "env", "env A=b touch {OPEN}/m"),
    ("xargs", "xargs", "echo {OPEN}/m | xargs touch"),
    ("find -exec", "find", "find . -maxdepth 0 -exec touch {OPEN}/m ';'"),
    ("find -delete", "find", "find {OPEN} -name there -delete"),
    ("own cwd entry", "", "echo x > /proc/self/cwd/../../../open/m"),
    ("own root entry", "", "echo x > /proc/self/root{OPEN}/m"),
    ("root entry of a process outside", "", "echo x > /proc/{PID}/root{OPEN}/m"),
    ("cwd entry of a process outside", "", "echo x > /proc/{PID}/cwd/m"),
    ("symbolic link, then write", "", "ln -sf {OPEN}/there lnk && echo x > lnk"),
    ("dangling link, then write", "", "ln -sf {OPEN}/m dang && echo x > dang"),
    ("linked directory, then write", "", "ln -sfn {OPEN} ldir && echo x > ldir/m"),
    ("hard link, then write", "", "ln {OPEN}/there hl && echo x >> hl"),
];

/// Programs that write.
const PROGRAMS: Shell = &[
    ("tee", "tee", "echo x | tee {OPEN}/m"),
    ("dd", "dd", "dd if=/dev/zero of={OPEN}/m count=1 status=none"),
    ("cp", "", "cp /etc/hostname {OPEN}/m"),
    ("mv", "", "echo x > own; mv own {OPEN}/m"),
    ("install", "install", "install -m 755 /etc/hostname {OPEN}/m"),
    ("ln -s outside", "", "ln -s /etc/hostname {OPEN}/m"),
    ("ln outside", "", "echo x > own; ln own {OPEN}/m"),
    ("rm", "", "rm -f {OPEN}/there; test ! -e {OPEN}/there"),
    ("rm -r of a place", "", "rm -rf {WORK41}/scratch"),
    ("rmdir", "", "rmdir {OPEN}/dir"),
    ("mkdir", "", "mkdir -p {OPEN}/m/n"),
    ("touch", "", "touch {OPEN}/m"),
    ("truncate", "truncate", "truncate -s 0 {OPEN}/there"),
    ("mkfifo", "mkfifo", "mkfifo {OPEN}/m"),
    ("mknod", "mknod", "mknod {OPEN}/m p"),
    ("sort -o", "sort", "sort -o {OPEN}/m /etc/hostname"),
    ("split", "split", "split -l 1 /etc/passwd {OPEN}/m"),
    ("sed -i", "sed", "sed -i s/opkit/x/ {OPEN}/there"),
    ("awk", "awk", "awk 'BEGIN{print \"x\" > \"{OPEN}/m\"}'"),
    ("perl", "perl", "perl -e 'open(F, \">\", \"{OPEN}/m\") or die \"$!\\n\"'"),
    ("perl -i", "perl", "perl -pi -e s/opkit/x/ {OPEN}/there"),
    ("python3", "python3", "python3 -c 'open(\"{OPEN}/m\", \"w\")'"),
    ("node", "node", "node -e 'require(\"fs\").writeFileSync(\"{OPEN}/m\", \"x\")' 2>&1 | grep Error:"),
    ("ed", "ed", "printf 'a\\nx\\n.\\nw\\n' | ed -s {OPEN}/there"),
    ("vim", "vim", "vim -u NONE -es -c 'call writefile([\"x\"], \"{OPEN}/m\")' -c 'qa!'"),
    ("ex", "ex", "printf 'i\\nx\\n.\\nw! {OPEN}/m\\nq!\\n' | ex -s -u NONE"),
    ("tar out", "tar", "echo x > m; tar cf a.tar m; tar xf a.tar -C {OPEN}"),
    ("tar to a file", "tar", "tar cf {OPEN}/m.tar m"),
    ("tar with dot-dot", "tar", "tar cPf b.tar --transform 's,^,../../../open/,' m; tar xPf b.tar"),
    ("patch", "patch", "printf -- '--- a\\n+++ b\\n@@ -0,0 +1 @@\\n+x\\n' | patch -d {OPEN} m"),
    ("compiler", "cc", "echo 'int a;' > m.c; cc -c m.c -o {OPEN}/m.o"),
    ("curl -o", "curl", "curl -s -S -o {OPEN}/m file:///etc/hostname"),
    ("wget log", "wget", "wget -q -O {OPEN}/m http://127.0.0.1:9/"),
    ("rsync", "rsync", "rsync -a m {OPEN}/m"),
    ("sqlite3", "sqlite3", "sqlite3 {OPEN}/m 'create table a(b)'"),
];

/// Repositories of others, and git's own ways around a path.
const GIT: Shell = &[
    ("git -C", "git", "git -C {OTHER} commit -q --allow-empty -m x"),
    ("git --git-dir", "git", "git --git-dir={OTHER}/.git config a.b c"),
    ("GIT_DIR from the environment", "git", "GIT_DIR={OTHER}/.git git config core.bare true"),
    ("reset of another tree", "git", "cd {OTHER} && git reset -q --hard HEAD~1"),
    ("git config --global", "git", "git config --global a.b c"),
    ("git config --system", "git", "GIT_CONFIG_SYSTEM={OPEN}/m git config --system a.b c"),
    ("configuration of the mirror", "git", "git --git-dir={MIRROR} config core.fsmonitor 'touch {OPEN}/m'"),
    ("hook of the mirror", "", "mkdir -p {MIRROR}/hooks && echo x > {MIRROR}/hooks/post-update"),
    ("alternates of the mirror", "", "echo {OTHER}/.git/objects > {MIRROR}/objects/info/alternates"),
    ("attributes of the mirror", "", "mkdir -p {MIRROR}/info; echo '* filter=x' > {MIRROR}/info/attributes"),
    ("reference of the mirror", "", "git rev-parse HEAD > {MIRROR}/refs/heads/main"),
    ("object of the mirror", "", "find {MIRROR}/objects -type f -exec rm -f {} ';'"),
    ("push to the mirror", "git", "git push -q {MIRROR} HEAD:refs/heads/evil"),
    ("gc of the mirror", "git", "git --git-dir={MIRROR} update-ref -d refs/heads/main"),
    ("clone outside", "git", "git clone -q {MIRROR} {OPEN}/m"),
    ("init outside", "git", "git init -q {OPEN}/m"),
    ("worktree outside", "git", "git worktree add -q -f {OPEN}/m"),
    ("bundle outside", "git", "git bundle create -q {OPEN}/m HEAD"),
    ("archive outside", "git", "git archive -o {OPEN}/m.tar HEAD"),
    ("own .git moved outside", "git", "git init -q --separate-git-dir {OPEN}/m"),
    (
        "own hooks path outside",
        "git",
        "git -c core.hooksPath={OPEN} hook run post-commit; cp /bin/true {OPEN}/post-commit",
    ),
    ("hooks of the session", "", "echo x > {DATA}/bin/hooks/prepare-commit-msg"),
];

/// Places that are somebody's.
const PLACES: Shell = &[
    ("/tmp", "", "echo x > /tmp/{TAG}-far"),
    ("/var/tmp", "", "echo x > /var/tmp/{TAG}-far"),
    ("/dev/shm", "", "echo x > /dev/shm/{TAG}-far"),
    ("/run", "", "echo x > /run/{TAG}-far"),
    ("/etc", "", "echo x > /etc/{TAG}-far"),
    ("/usr/local/bin", "", "echo x > /usr/local/bin/{TAG}-far"),
    ("home of the service", "", "echo x > {HOMEDIR}/{TAG}-far"),
    ("home of another account", "", "echo x >> {DATA}/home/other/.profile"),
    ("ssh keys of another account", "", "echo x > {DATA}/home/other/.ssh/authorized_keys"),
    ("another objective's worktree", "", "echo x > {OTHER}/m"),
    ("another objective's memory", "", "echo x >> {WORK41}/memory/NOTES.md"),
    ("another objective's scratch", "", "echo x > {WORK41}/scratch/m"),
    ("another objective's state", "", "echo x > {WORK41}/state/work/settings.json"),
    ("review of another session", "", "echo '{}' > {REVIEW}/out/VERDICT.json"),
    ("database", "", "echo x >> {DATA}/db/opkit.db"),
    ("database beside", "", "echo x > {DATA}/db/opkit.db-wal"),
    ("audit", "", "echo x >> {DATA}/audit/log"),
    ("key", "", "echo x > {DATA}/keys/anthropic"),
    ("stop request", "", "echo '{}' > {SESSION}/stop.json"),
    ("exit file", "", "echo '{}' > {SESSION}/exit.json"),
    ("kill switch on", "", "touch {DATA}/second/DISABLED"),
    ("kill switch off", "", "rm -f {DATA}/DISABLED; test ! -e {DATA}/DISABLED"),
    ("guard policy", "", "echo '{}' > {POLICY}/policy.json"),
    ("agent settings", "", "echo '{}' > {POLICY}/settings.json"),
    ("git configuration", "", "echo x >> {POLICY}/gitconfig"),
    ("policy directory moved", "", "mv {POLICY} {POLICY}.old"),
    ("guard overwritten", "", "cp /bin/true {BIN}/opkit-session"),
    ("guard replaced", "", "cp /bin/true g; mv g {BIN}/opkit-session"),
    ("door", "", "echo 127.0.0.1:9 > {DATA}/door/session-door"),
    ("cron table", "", "echo '* * * * * x' > /var/spool/cron/crontabs/{TAG}-far"),
    ("core pattern", "", "echo '|/bin/x' > /proc/sys/kernel/core_pattern"),
    ("memory score of a process", "", "echo 1000 > /proc/{PID}/oom_score_adj"),
];

/// Secrets.
const READS: Shell = &[
    ("database", "", "cat {DATA}/db/opkit.db"),
    ("key", "", "cat {DATA}/keys/anthropic"),
    ("session record", "", "cat {SESSION}/spec.json"),
    ("transcript", "", "cat {SESSION}/transcript.jsonl"),
    ("another objective's worktree", "", "cat {OTHER}/secret"),
    ("another objective's commits", "git", "git -C {OTHER} log"),
    (
        "another objective's objects",
        "git",
        "git init -q \"$OPKIT_SCRATCH/alt\"; cd \"$OPKIT_SCRATCH/alt\" && echo {OTHER}/.git/objects > .git/objects/info/alternates && git cat-file --batch-all-objects --batch --buffer; false",
    ),
    ("another objective's memory", "", "cat {WORK41}/memory/NOTES.md"),
    ("another objective's token", "", "cat {WORK41}/state/work/token"),
    ("review of another session", "", "cat {REVIEW}/brief.md"),
    ("home of another account", "", "cat {DATA}/home/other/.ssh/id"),
    ("by a link", "", "ln -sf {DATA}/keys/anthropic k; cat k"),
    ("by a hard link", "", "ln {DATA}/keys/anthropic k2; cat k2"),
    ("by a bundle of another tree", "git", "git fetch -q {OTHER} HEAD && git log -1 FETCH_HEAD"),
    ("environment of a process", "", "tr '\\0' '\\n' < /proc/{PID}/environ"),
    ("files of a process", "", "cat /proc/{PID}/fd/* /proc/{PID}/cwd/there"),
    ("root of a process", "", "cat /proc/{PID}/root{DATA}/keys/anthropic"),
    ("by tar", "tar", "tar cf - {DATA}/keys | cat"),
    ("by curl", "curl", "curl -sS file://{DATA}/keys/anthropic"),
];

/// Programs outside that do things for others.
const DAEMONS: Shell = &[
    ("tmux server", "tmux tmux-server", "tmux -S {RUN}/tmux run-shell 'touch {OPEN}/m'"),
    ("tmux server, new window", "tmux tmux-server", "tmux -S {RUN}/tmux new-session -d 'touch {OPEN}/m'"),
    ("tmux server of one's own", "tmux", "tmux -S \"$OPKIT_SCRATCH/t\" new-session -d 'touch {OPEN}/m'"),
    ("container socket by curl", "curl", "curl -sS --unix-socket {RUN}/docker.sock http://x/"),
    (
        "socket by python3",
        "python3",
        "python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"{RUN}/docker.sock\")'",
    ),
    (
        "socket by perl",
        "perl",
        "perl -MIO::Socket::UNIX -e 'IO::Socket::UNIX->new(\"{RUN}/bus\") or die \"$!\\n\"'",
    ),
    ("socket by node", "node", "node -e 'require(\"net\").connect(\"{RUN}/bus\")' 2>&1 | grep Error:"),
    ("ssh agent", "ssh-add", "SSH_AUTH_SOCK={RUN}/ssh-agent ssh-add -l"),
    (
        "user service manager",
        "systemd-run",
        "DBUS_SESSION_BUS_ADDRESS=unix:path={RUN}/bus systemd-run --user touch {OPEN}/m",
    ),
    (
        "D-Bus",
        "dbus-send",
        "DBUS_SESSION_BUS_ADDRESS=unix:path={RUN}/bus dbus-send --session --dest=org.x /x org.x.Y",
    ),
    ("containers", "docker", "DOCKER_HOST=unix://{RUN}/docker.sock docker ps"),
    ("at", "at", "echo 'touch {OPEN}/m' | at now"),
    ("cron", "crontab", "crontab -l && echo reached > {OPEN}/m"),
    ("kill", "", "kill -9 {PID}"),
];

const RIGHTS: Shell = &[
    ("su", "su", "su -c true"),
    ("sudo", "sudo", "sudo -n true"),
    ("passwd", "passwd", "passwd -d root"),
    ("mount", "mount", "mount --bind {OPEN} ."),
    ("user namespace by unshare", "unshare", "unshare -rm mount --bind {OPEN} ."),
    ("ping", "ping", "ping -c 1 -W 1 127.0.0.1 > /dev/null; test -w /proc/sys/kernel/core_pattern"),
    ("limits by ulimit", "", "ulimit -c unlimited"),
    ("terminal of the service", "", "echo x > /dev/tty"),
    ("control group", "", "echo $$ > /sys/fs/cgroup/cgroup.procs"),
    ("kernel log", "", "cat /dev/kmsg"),
    ("memory of the machine", "", "cat /dev/mem"),
    ("magic key", "", "test -w /proc/sysrq-trigger && echo > /proc/sysrq-trigger"),
];

const METADATA: Shell = &[
    ("touch of an old file", "", "touch -d 2001-01-01 {OPEN}/meta"),
    ("command line of a process", "", "tr '\\0' ' ' < /proc/{PID}/cmdline"),
    ("abstract names in /proc/net/unix", "", "grep -q {ABSTRACT} /proc/net/unix"),
];

const FILES: Native = &[
    ("open with O_CREAT", "", "create", "{OPEN}/m"),
    ("open with O_TRUNC", "", "truncating open", "{OPEN}/there"),
    ("truncate by path", "", "truncate", "{OPEN}/there"),
    ("O_TMPFILE, then link", "", "tmpfile", "{OPEN}"),
    ("openat below an O_PATH handle", "", "by directory handle", "{OPEN}"),
    ("rename from outside", "", "rename into", "{OPEN}"),
    ("rename to outside", "", "rename out", "{OPEN}"),
    ("exchange with outside", "", "exchange", "{OPEN}"),
    ("hard link from outside", "", "link in", "{OPEN}"),
    ("hard link to outside", "", "link out", "{OPEN}"),
    ("symbolic link outside", "", "symlink", "{OPEN}"),
    ("write through an own link", "", "link then write", "{OPEN}"),
    ("unlink", "", "unlink", "{OPEN}"),
    ("rmdir by call", "", "rmdir", "{OPEN}"),
    ("mkdir by call", "", "mkdir", "{OPEN}"),
    ("named pipe", "", "fifo", "{OPEN}"),
    ("plain file by mknod", "", "plain node", "{OPEN}"),
    ("inherited descriptor", "", "inherited", "{FD}"),
    ("read by call", "", "read", "{DATA}/keys/anthropic"),
    ("write of the running program", "", "create", "{BIN}/opkit-session"),
];

const FILE_ANSWERS: Native = &[
    ("device node", "", "device", "."),
    ("writable mapping of a readable file", "", "mapping", "{POLICY}/policy.json"),
    ("open for writing of a readable file", "", "open for writing", "{POLICY}/policy.json"),
    ("open by file number", "", "open by number", "{OPEN}/there"),
    ("list", "", "list", "{OTHER}"),
    ("chmod", "", "chmod", "{OPEN}/meta"),
    ("chmod of the service's file", "root", "chmod", "{OPEN}/service"),
    ("utimes", "", "utimes", "{OPEN}/meta"),
    ("utimes of the service's file", "root", "utimes", "{OPEN}/service"),
    ("setxattr", "", "setxattr", "{OPEN}/meta"),
    ("chown to the own group", "", "chown", "{OPEN}/meta"),
    ("chown of the service's file", "root", "chown", "{OPEN}/service"),
    ("stat", "", "stat", "{OTHER}/secret"),
    ("inotify watch", "", "inotify", "{OTHER}"),
];

const PROCESSES: Native = &[
    ("kill by call", "", "kill", "{PID}"),
    ("tgkill", "", "tgkill", "{PID}"),
    ("queued signal", "", "queue a signal", "{PID}"),
    ("signal by handle", "", "signal by handle", "{PID}"),
    ("environment by call", "", "read its environment", "{PID}"),
    ("descriptor of a process by /proc", "", "open its file", "{PID} {FD}"),
];

const PROCESS_ANSWERS: Native = &[
    ("ptrace attach", "", "ptrace attach", "{PID}"),
    ("ptrace seize", "", "ptrace seize", "{PID}"),
    ("memory by /proc", "", "open its memory", "{PID}"),
    ("memory by /proc, to read", "", "read its memory", "{PID}"),
    ("memory by call, to read", "", "read its memory by call", "{PID}"),
    ("memory by call", "", "write its memory", "{PID}"),
    ("descriptor by pidfd_getfd", "", "take a descriptor", "{PID} {FD}"),
    ("namespaces of a process", "", "its namespaces", "{PID}"),
    ("limits of a process", "", "limits", "{PID}"),
    ("nice of a process", "", "nice", "{PID}"),
    ("key in the user's keyring", "", "add a key", ""),
    ("key of the login", "", "search for a key", ""),
    ("keyring of the login", "", "a keyring", ""),
    ("shared memory by key", "", "shared memory", "{KEY}"),
];

const SOCKETS: Native = &[
    ("control socket", "", "connect", "{RUN}/control.sock"),
    ("docker socket", "", "connect", "{RUN}/docker.sock"),
    ("session bus", "", "connect", "{RUN}/bus"),
    ("systemd private socket", "", "connect", "{RUN}/systemd-private"),
    ("ssh-agent socket", "", "connect", "{RUN}/ssh-agent"),
    ("X11 socket", "", "connect", "{RUN}/x11"),
    ("abstract socket", "", "connect abstract", "{ABSTRACT}"),
    ("datagram", "", "datagram", "{RUN}/notify"),
    ("datagram from a socket pair", "", "datagram from a pair", "{RUN}/notify"),
    ("datagram from a socket pair, abstract", "", "datagram from a pair, abstract", "{ABSTRACT}-dg"),
    ("socket pair connected again", "", "pair connected again", "{RUN}/notify"),
    ("stream pair connected again", "", "stream pair connected again", "{RUN}/bus"),
    ("raw socket pair", "", "raw pair", "{RUN}/notify"),
    ("bind outside", "", "bind", "{OPEN}/m"),
];

const SOCKET_ANSWERS: Native = &[
    ("tmux socket", "tmux-server", "connect", "{RUN}/tmux"),
    ("bind inside", "", "bind", "sock"),
    ("bind of an abstract name", "", "bind abstract", "{ABSTRACT}-new"),
    ("socket by x32 number", "", "x32 socket", ""),
    ("socket by 32-bit call", "", "foreign socket", ""),
    ("socket with high bits set", "", "high bits", ""),
    ("io_uring", "", "io_uring", ""),
    ("packet socket", "", "packet", ""),
    ("tcp to this machine", "", "tcp", "{TCP}"),
];

const NATIVE_RIGHTS: Native = &[
    ("user namespace, then mount", "", "user namespace", "{OPEN}"),
    ("user namespace, then write", "", "user namespace, then write", "{OPEN}"),
    ("another Landlock layer", "", "another Landlock layer", "{OPEN}"),
    ("another seccomp filter", "", "another seccomp filter", "{RUN}/bus"),
];

const RIGHT_ANSWERS: Native = &[
    ("mount by call", "", "mount", "{OPEN}"),
    ("umount", "", "umount", ""),
    ("fsopen", "", "new mount call", ""),
    ("open_tree clone", "", "open_tree", ""),
    ("pivot_root", "", "pivot_root", ""),
    ("chroot", "", "chroot", ""),
    ("userfaultfd", "", "userfaultfd", ""),
    ("bpf", "", "bpf", ""),
    ("perf events of the kernel", "", "perf", ""),
    ("kernel module", "", "load a module", ""),
    ("host name", "", "host name", ""),
    ("clock", "", "clock", ""),
    ("swap", "", "swap", ""),
    ("user 0", "", "set user 0", ""),
    ("group 0", "", "set group 0", ""),
    ("more groups", "", "add groups", ""),
    ("capabilities", "", "capabilities", ""),
    ("no_new_privs off", "", "no_new_privs off", ""),
    ("core files", "", "core file", ""),
    ("setuid program", "root", "setuid program", "{BIN}/setuid-copy"),
];

const NATIVE_OWN: Native = &[
    ("loopback connection", "", "tcp", "{TCP}"),
    ("listening on loopback", "", "listen", ""),
    ("socket pair", "", "pair", ""),
    ("own limit", "", "own limit", ""),
];
