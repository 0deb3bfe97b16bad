//! Rows of system calls, made by this program itself.

use super::table::Native;

pub(super) const FILES: Native = &[
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

pub(super) const FILE_ANSWERS: Native = &[
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

pub(super) const PROCESSES: Native = &[
    ("kill by call", "", "kill", "{PID}"),
    ("tgkill", "", "tgkill", "{PID}"),
    ("queued signal", "", "queue a signal", "{PID}"),
    ("signal by handle", "", "signal by handle", "{PID}"),
    ("environment by call", "", "read its environment", "{PID}"),
    ("descriptor of a process by /proc", "", "open its file", "{PID} {FD}"),
];

pub(super) const PROCESS_ANSWERS: Native = &[
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

pub(super) const SOCKETS: Native = &[
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

pub(super) const SOCKET_ANSWERS: Native = &[
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

pub(super) const NATIVE_RIGHTS: Native = &[
    ("user namespace, then mount", "", "user namespace", "{OPEN}"),
    ("user namespace, then write", "", "user namespace, then write", "{OPEN}"),
    ("another Landlock layer", "", "another Landlock layer", "{OPEN}"),
    ("another seccomp filter", "", "another seccomp filter", "{RUN}/bus"),
];

pub(super) const RIGHT_ANSWERS: Native = &[
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

pub(super) const NATIVE_OWN: Native = &[
    ("loopback connection", "", "tcp", "{TCP}"),
    ("listening on loopback", "", "listen", ""),
    ("socket pair", "", "pair", ""),
    ("own limit", "", "own limit", ""),
];
