//! The attacks that need no program: each is a few system calls of this program itself, behind the wall.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt, symlink};
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener, UnixStream};
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::SystemTime;

use landlock::{ABI, Access, AccessFs, Ruleset, RulesetAttr, RulesetCreatedAttr, path_beneath_rules};

use super::raw::{at, call, foreign_socket, text};

const HERE: usize = libc::AT_FDCWD as usize;

/// Runs one attack: status 0 when the kernel let it happen.
pub(super) fn main(name: &str, arg: &str) -> ExitCode {
    let answer = files(name, arg)
        .or_else(|| processes(name, arg))
        .or_else(|| sockets(name, arg))
        .or_else(|| rights(name, arg));
    match answer {
        Some(Ok(())) => ExitCode::SUCCESS,
        Some(Err(error)) => {
            eprintln!("{name}: {error}");
            ExitCode::FAILURE
        }
        None => {
            eprintln!("no such attack: {name}");
            ExitCode::from(2)
        }
    }
}

/// Of a file or directory outside.
fn files(name: &str, path: &str) -> Option<io::Result<()>> {
    let new = format!("{path}/m");
    let old = format!("{path}/there");
    let own = format!("own-{}", std::process::id());
    let make_own = || fs::write(&own, "own");
    let done = |answer: io::Result<usize>| answer.map(drop);
    Some(match name {
        "create" => fs::write(path, "x"),
        "truncating open" => OpenOptions::new().write(true).truncate(true).open(path).map(drop),
        "truncate" => done(call(libc::SYS_truncate, &[at(text(path).as_c_str().to_bytes()), 0])),
        "tmpfile" => tmpfile(path, &new),
        "by directory handle" => by_handle(path),
        "rename into" => fs::rename(&old, "stolen"),
        "rename out" => make_own().and_then(|()| fs::rename(&own, &new)),
        "exchange" => make_own().and_then(|()| exchange(&own, &old)),
        "link in" => fs::hard_link(&old, &own).and_then(|()| fs::write(&own, "changed")),
        "link out" => make_own().and_then(|()| fs::hard_link(&own, &new)),
        "symlink" => symlink("/etc/passwd", &new),
        "link then write" => symlink(&new, &own).and_then(|()| fs::write(&own, "x")),
        "unlink" => fs::remove_file(&old),
        "rmdir" => fs::remove_dir(format!("{path}/dir")),
        "mkdir" => fs::create_dir(&new),
        "fifo" => mknod(&new, libc::S_IFIFO),
        "plain node" => mknod(&new, libc::S_IFREG),
        "device" => mknod(&own, libc::S_IFCHR),
        "chmod" => fs::set_permissions(path, fs::Permissions::from_mode(0o600)),
        "utimes" => utimes(path),
        "chown" => chown(path),
        "setxattr" => setxattr(path),
        "stat" => fs::metadata(path).map(drop),
        "list" => fs::read_dir(path).map(drop),
        "inotify" => inotify(path),
        "read" => fs::read_to_string(path).map(|text| print!("{text}")),
        "mapping" => mapping(path),
        "open for writing" => OpenOptions::new().write(true).open(path).map(drop),
        "open by number" => open_by_handle(path),
        "inherited" => inherited(path),
        _ => return None,
    })
}

fn tmpfile(dir: &str, new: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).custom_flags(libc::O_TMPFILE).open(dir)?;
    file.write_all(b"x")?;
    let from = text(&format!("/proc/self/fd/{}", file.as_raw_fd()));
    let to = text(new);
    let follow = libc::AT_SYMLINK_FOLLOW as usize;
    call(libc::SYS_linkat, &[HERE, from.as_ptr() as usize, HERE, to.as_ptr() as usize, follow]).map(drop)
}

fn by_handle(dir: &str) -> io::Result<()> {
    let handle = OpenOptions::new().read(true).custom_flags(libc::O_PATH).open(dir)?;
    let name = text("m");
    let flags = (libc::O_CREAT | libc::O_WRONLY) as usize;
    call(libc::SYS_openat, &[handle.as_raw_fd() as usize, name.as_ptr() as usize, flags, 0o644]).map(drop)
}

fn exchange(own: &str, old: &str) -> io::Result<()> {
    let (own, old) = (text(own), text(old));
    let flag = libc::RENAME_EXCHANGE as usize;
    call(libc::SYS_renameat2, &[HERE, own.as_ptr() as usize, HERE, old.as_ptr() as usize, flag]).map(drop)
}

fn mknod(path: &str, kind: u32) -> io::Result<()> {
    let path = text(path);
    call(libc::SYS_mknodat, &[HERE, path.as_ptr() as usize, (kind | 0o666) as usize, 0x103]).map(drop)
}

fn utimes(path: &str) -> io::Result<()> {
    let path = text(path);
    call(libc::SYS_utimensat, &[HERE, path.as_ptr() as usize, at(&[0_i64; 4]), 0]).map(drop)
}

fn chown(path: &str) -> io::Result<()> {
    std::os::unix::fs::chown(path, None, Some(rustix::process::getgid().as_raw()))
}

fn setxattr(path: &str) -> io::Result<()> {
    let (path, name) = (text(path), text("user.opkit"));
    let value = b"x";
    let args = [path.as_ptr() as usize, name.as_ptr() as usize, at(value), value.len(), 0];
    call(libc::SYS_setxattr, &args).map(drop)
}

fn inotify(path: &str) -> io::Result<()> {
    let queue = call(libc::SYS_inotify_init1, &[0])?;
    let path = text(path);
    call(libc::SYS_inotify_add_watch, &[queue, path.as_ptr() as usize, libc::IN_CREATE as usize]).map(drop)
}

fn mapping(path: &str) -> io::Result<()> {
    let file = File::open(path)?;
    let rights = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    call(libc::SYS_mmap, &[0, 4096, rights, libc::MAP_SHARED as usize, file.as_raw_fd() as usize]).map(drop)
}

fn open_by_handle(path: &str) -> io::Result<()> {
    // struct file_handle: bytes, type, then the handle.
    let mut handle = [0_u32; 34];
    handle[0] = 128;
    let path_text = text(path);
    let mut mount = 0_i32;
    let args = [
        HERE,
        path_text.as_ptr() as usize,
        std::ptr::from_mut(&mut handle) as usize,
        std::ptr::from_mut(&mut mount) as usize,
        0,
    ];
    call(libc::SYS_name_to_handle_at, &args)?;
    let dir = File::open(".")?;
    let flags = libc::O_RDWR as usize;
    call(libc::SYS_open_by_handle_at, &[dir.as_raw_fd() as usize, at(&handle), flags]).map(drop)
}

/// A descriptor that the parent left open.
fn inherited(number: &str) -> io::Result<()> {
    let number: usize = number.parse().map_err(io::Error::other)?;
    let data = b"through an old descriptor";
    call(libc::SYS_write, &[number, at(data), data.len()]).map(drop)
}

/// Of a process outside, by its number.
fn processes(name: &str, arg: &str) -> Option<io::Result<()>> {
    let pid: usize = arg.split(' ').next()?.parse().unwrap_or_default();
    let handle = || call(libc::SYS_pidfd_open, &[pid, 0]);
    let kill = libc::SIGKILL as usize;
    Some(match name {
        "kill" => call(libc::SYS_kill, &[pid, kill]).map(drop),
        "tgkill" => call(libc::SYS_tgkill, &[pid, pid, kill]).map(drop),
        "queue a signal" => {
            let mut info = [0_i32; 32];
            info[0] = libc::SIGKILL;
            info[2] = libc::SI_QUEUE;
            call(libc::SYS_rt_sigqueueinfo, &[pid, kill, at(&info)]).map(drop)
        }
        "signal by handle" => {
            handle().and_then(|fd| call(libc::SYS_pidfd_send_signal, &[fd, kill, 0, 0])).map(drop)
        }
        "ptrace seize" => call(libc::SYS_ptrace, &[libc::PTRACE_SEIZE as usize, pid, 0, 0]).map(drop),
        "ptrace attach" => call(libc::SYS_ptrace, &[libc::PTRACE_ATTACH as usize, pid, 0, 0]).map(drop),
        "take a descriptor" => {
            let fd = arg.split(' ').nth(1)?.parse().unwrap_or_default();
            handle().and_then(|of| call(libc::SYS_pidfd_getfd, &[of, fd, 0])).map(drop)
        }
        "write its memory" => {
            let data = [0_u8; 8];
            let own = [at(&data), data.len()];
            let other = [0x1000_usize, data.len()];
            call(libc::SYS_process_vm_writev, &[pid, at(&own), 1, at(&other), 1, 0]).map(drop)
        }
        "open its memory" => OpenOptions::new().write(true).open(format!("/proc/{pid}/mem")).map(drop),
        "read its memory" => fs::File::open(format!("/proc/{pid}/mem")).map(drop),
        "read its memory by call" => {
            let mut data = [0_u8; 8];
            let own = [std::ptr::from_mut(&mut data) as usize, 8];
            let other = [0x1000_usize, 8];
            call(libc::SYS_process_vm_readv, &[pid, at(&own), 1, at(&other), 1, 0]).map(drop)
        }
        "read its environment" => {
            fs::read(format!("/proc/{pid}/environ")).map(|text| print!("{}", String::from_utf8_lossy(&text)))
        }
        "open its file" => {
            let fd = arg.split(' ').nth(1)?;
            let file = OpenOptions::new().write(true).open(format!("/proc/{pid}/fd/{fd}"));
            file.and_then(|file| file.write_at(b"x", 0)).map(drop)
        }
        "limits" => {
            let limit = [1_u64, 1];
            call(libc::SYS_prlimit64, &[pid, libc::RLIMIT_CPU as usize, at(&limit), 0]).map(drop)
        }
        // The "process" is a key here.
        "shared memory" => call(libc::SYS_shmget, &[pid, 0, 0])
            .and_then(|id| call(libc::SYS_shmat, &[id, 0, libc::SHM_RDONLY as usize]))
            .map(drop),
        "make shared memory" => {
            call(libc::SYS_shmget, &[pid, 4096, (libc::IPC_CREAT | 0o600) as usize]).map(drop)
        }
        // Into the keyring that all processes of the user share (-4), from the login's (-3).
        "add a key" => {
            let (kind, name, value) = (c"user", c"opkit-attack", [b'x']);
            let text = |text: &std::ffi::CStr| text.as_ptr() as usize;
            call(libc::SYS_add_key, &[text(kind), text(name), at(&value), 1, -4_isize as usize]).map(drop)
        }
        "search for a key" => {
            let text = |text: &std::ffi::CStr| text.as_ptr() as usize;
            call(libc::SYS_request_key, &[text(c"user"), text(c"opkit-attack"), 0, 0]).map(drop)
        }
        "a keyring" => {
            call(libc::SYS_keyctl, &[libc::KEYCTL_GET_KEYRING_ID as usize, -3_isize as usize, 1]).map(drop)
        }
        "nice" => call(libc::SYS_setpriority, &[libc::PRIO_PROCESS as usize, pid, 19]).map(drop),
        "its namespaces" => {
            handle().and_then(|fd| call(libc::SYS_setns, &[fd, libc::CLONE_NEWNS as usize])).map(drop)
        }
        _ => return None,
    })
}

/// Of other programs' doors.
fn sockets(name: &str, arg: &str) -> Option<io::Result<()>> {
    let abstract_name = || SocketAddr::from_abstract_name(arg);
    Some(match name {
        "connect" => UnixStream::connect(arg).and_then(|mut door| door.write_all(b"x")),
        "connect abstract" => abstract_name().and_then(|name| UnixStream::connect_addr(&name)).map(drop),
        "bind" => UnixListener::bind(arg).map(drop),
        "socket of one's own" => UnixListener::bind(arg).and_then(|_door| UnixStream::connect(arg)).map(drop),
        "bind abstract" => abstract_name().and_then(|name| UnixListener::bind_addr(&name)).map(drop),
        "datagram" => UnixDatagram::unbound().and_then(|door| door.send_to(b"x", arg)).map(drop),
        "datagram from a pair" => {
            UnixDatagram::pair().and_then(|(door, _other)| door.send_to(b"x", arg)).map(drop)
        }
        "datagram from a pair, abstract" => UnixDatagram::pair()
            .and_then(|(door, _other)| door.send_to_addr(b"x", &abstract_name()?))
            .map(drop),
        "pair connected again" => UnixDatagram::pair()
            .and_then(|(door, _other)| door.connect(arg).and_then(|()| door.send(b"x")))
            .map(drop),
        "stream pair connected again" => stream_pair(arg),
        "raw pair" => raw_pair(arg),
        "x32 socket" => {
            let number = libc::SYS_socket | 0x4000_0000;
            call(number, &[libc::AF_UNIX as usize, libc::SOCK_STREAM as usize, 0]).map(drop)
        }
        "foreign socket" => foreign_socket().map(drop),
        "high bits" => {
            let family = libc::AF_UNIX as usize | 1 << 32;
            call(libc::SYS_socket, &[family, libc::SOCK_STREAM as usize, 0]).map(drop)
        }
        "io_uring" => {
            let mut parameters = [0_u64; 15];
            call(libc::SYS_io_uring_setup, &[4, std::ptr::from_mut(&mut parameters) as usize]).map(drop)
        }
        "vsock" => {
            call(libc::SYS_socket, &[libc::AF_VSOCK as usize, libc::SOCK_STREAM as usize, 0]).map(drop)
        }
        "packet" => call(libc::SYS_socket, &[libc::AF_PACKET as usize, libc::SOCK_RAW as usize, 0]).map(drop),
        "tcp" => TcpStream::connect(arg).map(drop),
        "listen" => std::net::TcpListener::bind("127.0.0.1:0").map(drop),
        "pair" => UnixStream::pair().and_then(|(mut a, mut b)| {
            a.write_all(b"x")?;
            b.read_exact(&mut [0; 1])
        }),
        _ => return None,
    })
}

fn unix_name(path: &str) -> ([u8; 110], usize) {
    let mut name = [0_u8; 110];
    name[..2].copy_from_slice(&(libc::AF_UNIX as u16).to_ne_bytes());
    let bytes = path.as_bytes();
    let len = bytes.len().min(107);
    name[2..2 + len].copy_from_slice(&bytes[..len]);
    (name, 3 + len)
}

fn stream_pair(path: &str) -> io::Result<()> {
    let (door, _other) = UnixStream::pair()?;
    let (name, len) = unix_name(path);
    call(libc::SYS_connect, &[door.as_raw_fd() as usize, at(&name), len]).map(drop)
}

/// SOCK_RAW of this family is a datagram under another name.
fn raw_pair(path: &str) -> io::Result<()> {
    let mut pair = [0_i32; 2];
    let args = [libc::AF_UNIX as usize, libc::SOCK_RAW as usize, 0, std::ptr::from_mut(&mut pair) as usize];
    call(libc::SYS_socketpair, &args)?;
    let (name, len) = unix_name(path);
    call(libc::SYS_sendto, &[pair[0] as usize, at(b"x"), 1, 0, at(&name), len]).map(drop)
}

/// Of more rights than the session has.
fn rights(name: &str, arg: &str) -> Option<io::Result<()>> {
    let simple = |number: i64, args: &[usize]| call(number, args).map(drop);
    let namespaces = (libc::CLONE_NEWUSER | libc::CLONE_NEWNS) as usize;
    Some(match name {
        "user namespace" => simple(libc::SYS_unshare, &[namespaces]).and_then(|()| bind_mount(arg)),
        "user namespace, then write" => {
            // Whether the namespace was made or not, nothing outside may become writable.
            let _ = call(libc::SYS_unshare, &[namespaces]);
            fs::write(format!("{arg}/m"), "x")
        }
        "mount" => bind_mount(arg),
        "umount" => simple(libc::SYS_umount2, &[at(b"/proc\0"), 0]),
        "new mount call" => simple(libc::SYS_fsopen, &[at(b"tmpfs\0"), 0]),
        "open_tree" => simple(libc::SYS_open_tree, &[HERE, at(b"/\0"), 1]),
        "pivot_root" => simple(libc::SYS_pivot_root, &[at(b".\0"), at(b".\0")]),
        "chroot" => simple(libc::SYS_chroot, &[at(b".\0")]),
        "userfaultfd" => simple(libc::SYS_userfaultfd, &[0]),
        "bpf" => simple(libc::SYS_bpf, &[0, at(&[2_u32, 4, 4, 1, 0, 0, 0, 0]), 32]),
        "perf" => perf(),
        "load a module" => simple(libc::SYS_init_module, &[at(b"x"), 1, at(b"\0")]),
        "host name" => simple(libc::SYS_sethostname, &[at(b"x"), 1]),
        "clock" => simple(libc::SYS_clock_settime, &[0, at(&[0_i64; 2])]),
        "swap" => simple(libc::SYS_swapon, &[at(b"x\0"), 0]),
        "set user 0" => simple(libc::SYS_setresuid, &[0, 0, 0]),
        "set group 0" => simple(libc::SYS_setresgid, &[0, 0, 0]),
        "add groups" => simple(libc::SYS_setgroups, &[1, at(&[0_u32])]),
        "capabilities" => {
            let all = [u32::MAX; 6];
            simple(libc::SYS_capset, &[at(&[0x2008_0522_u32, 0]), at(&all)])
        }
        "no_new_privs off" => simple(libc::SYS_prctl, &[libc::PR_SET_NO_NEW_PRIVS as usize, 0, 0, 0, 0]),
        "own limit" => simple(libc::SYS_prlimit64, &[0, libc::RLIMIT_NOFILE as usize, at(&[64_u64, 64]), 0]),
        "core file" => limit(libc::RLIMIT_CORE as usize),
        "setuid program" => {
            let status = Command::new(arg).args(["attack", "--inside", "am I root"]).status();
            status.and_then(|status| if status.success() { Ok(()) } else { Err(no("no new user")) })
        }
        "am I root" if rustix::process::geteuid().is_root() => Ok(()),
        "am I root" => Err(no("still the same user")),
        "another Landlock layer" => landlock_layer(arg),
        "another seccomp filter" => seccomp_layer(arg),
        _ => return None,
    })
}

/// A software clock of every process on one processor.
fn perf() -> io::Result<()> {
    let mut event = [0_u64; 16];
    event[0] = 1 | 128 << 32;
    call(libc::SYS_perf_event_open, &[at(&event), usize::MAX, 0, usize::MAX, 0]).map(drop)
}

fn no(text: &str) -> io::Error {
    io::Error::other(text.to_owned())
}

fn bind_mount(from: &str) -> io::Result<()> {
    let (from, to) = (text(from), text("."));
    call(libc::SYS_mount, &[from.as_ptr() as usize, to.as_ptr() as usize, 0, libc::MS_BIND as usize, 0])
        .and_then(|_| fs::write("m", "x"))
}

/// Both values to "unlimited".
fn limit(which: usize) -> io::Result<()> {
    call(libc::SYS_prlimit64, &[0, which, at(&[u64::MAX; 2]), 0]).map(drop)
}

/// A layer that allows everything takes nothing of the older one away.
fn landlock_layer(path: &str) -> io::Result<()> {
    let all = AccessFs::from_all(ABI::V3);
    let ruleset = Ruleset::default()
        .handle_access(all)
        .and_then(Ruleset::create)
        .and_then(|ruleset| ruleset.add_rules(path_beneath_rules([Path::new("/")], all)))
        .and_then(landlock::RulesetCreated::restrict_self);
    ruleset.map_err(io::Error::other)?;
    fs::write(format!("{path}/m"), "x")
}

/// A filter that allows everything.
fn seccomp_layer(path: &str) -> io::Result<()> {
    let program = [libc::sock_filter { code: 6, jt: 0, jf: 0, k: 0x7fff_0000 }];
    seccompiler::apply_filter(&program.map(|step| seccompiler::sock_filter {
        code: step.code,
        jt: step.jt,
        jf: step.jf,
        k: step.k,
    }))
    .map_err(io::Error::other)?;
    UnixStream::connect(path).map(drop)
}

/// Sets a time that is not now, for the set-up.
pub(super) fn long_ago() -> SystemTime {
    SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000)
}
