//! The ground of the attacks: a data directory in miniature, with everything that a session must not reach.

use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::io::Read;
use std::net::TcpListener;
use std::os::fd::AsRawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown};
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use anyhow::{Context, bail};
use opkit_domain::session::{GuardPolicy, Identity, WallMode, WallProof, WallSpec};

use super::table::Goal;
use crate::enter::{EnterReport, EnterSpec, Entry, ProcessLimits};

/// Stands in everything that must not be read.
const CANARY: &str = "opkit-canary-7f3a";

/// The product's list (`server/engine/src/session_manager/spec.rs`); keep both alike.
const SYSTEM_READS: &[&str] = &[
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/etc",
    "/opt",
    "/nix/store",
    "/proc",
    "/sys/devices/system/cpu",
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
    "/run/systemd/resolve",
];

const OWN: &[&str] = &["cc-worktree-42", "memory", "scratch", "state/work"];
const OTHER: &str = "5c1e7a2e-0000-4000-8000-000000000041";

/// What a program behind the wall left.
pub(super) struct Ran {
    status: Option<ExitStatus>,
    output: String,
}

impl Ran {
    pub(super) fn succeeded(&self) -> bool {
        self.status.is_some_and(|status| status.success())
    }

    /// What the agent would see: the last line that says something, or how it ended.
    pub(super) fn last_line(&self) -> String {
        let refusals = ["ermission denied", "not permitted", "EACCES", "EPERM"];
        let lines = || self.output.lines().rev().filter(|line| !line.trim().is_empty());
        let refusal = lines().find(|line| refusals.iter().any(|refusal| line.contains(refusal)));
        let line = refusal.or_else(|| lines().next());
        match (line, self.status) {
            (_, None) => "ended by the time limit".to_owned(),
            (line, Some(status)) => match (status.signal(), status.code(), line) {
                (Some(libc::SIGSYS), _, _) => "killed by the filter (SIGSYS)".to_owned(),
                (Some(signal), _, _) => format!("killed by signal {signal}"),
                (None, Some(code), None) if code != 0 => format!("exit status {code}"),
                (_, _, line) => line.unwrap_or_default().trim().to_owned(),
            },
        }
    }
}

/// Paths outside and what is there.
pub(super) type Look = BTreeMap<PathBuf, (u32, Vec<u8>)>;

pub(super) struct Ground {
    root: PathBuf,
    identity: Option<Identity>,
    proof: Option<WallProof>,
    doors: Vec<UnixListener>,
    datagrams: Vec<UnixDatagram>,
    tcp: TcpListener,
    target: Child,
    tmux: Option<Child>,
    /// Open for writing outside, and inherited by everything that is started.
    leak: File,
}

impl Drop for Ground {
    fn drop(&mut self) {
        for child in std::iter::once(&mut self.target).chain(self.tmux.as_mut()) {
            let _ = child.kill();
            let _ = child.wait();
        }
        for path in self.far_markers() {
            let _ = fs::remove_file(path);
        }
        let _ = fs::remove_dir_all(&self.root);
    }
}

impl Ground {
    pub(super) fn new(program: &Path, dir: Option<&Path>) -> anyhow::Result<Ground> {
        let identity = identity();
        let base = dir.map_or_else(std::env::temp_dir, Path::to_owned).canonicalize()?;
        let root = base.join(format!("opkit-attack-{}", std::process::id()));
        fs::create_dir(&root).with_context(|| format!("{} cannot be made", root.display()))?;
        let made = lay_out(&root, program).and_then(|()| open_to_all(&root, identity.as_ref()));
        let made = made.and_then(|()| Ground::occupy(&root, identity));
        if made.is_err() {
            let _ = fs::remove_dir_all(&root);
        }
        made
    }

    /// Starts what is to be attacked.
    fn occupy(root: &Path, identity: Option<Identity>) -> anyhow::Result<Ground> {
        let leak = File::options().append(true).open(root.join("open/leak"))?;
        rustix::io::fcntl_setfd(&leak, rustix::io::FdFlags::empty())?;
        let mut doors = Vec::new();
        for name in DOORS {
            doors.push(UnixListener::bind(root.join("run").join(name))?);
        }
        doors.push(UnixListener::bind_addr(&SocketAddr::from_abstract_name(abstract_name(root))?)?);
        let datagrams = vec![
            UnixDatagram::bind(root.join("run/notify"))?,
            UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(format!("{}-dg", abstract_name(root)))?)?,
        ];
        doors.iter().try_for_each(|door| door.set_nonblocking(true))?;
        datagrams.iter().try_for_each(|door| door.set_nonblocking(true))?;
        let user = |command: &mut Command| {
            if let Some(identity) = &identity {
                command.uid(identity.uid).gid(identity.gid);
            }
            command
                .current_dir(root.join("open"))
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null());
            command.env_clear().env("PATH", path_variable()).env("SECRET", CANARY);
            command.spawn()
        };
        let target = user(Command::new("/bin/sleep").arg("900"))?;
        let server = ["-f", "/dev/null", "-S"];
        let mut tmux = Command::new("tmux");
        tmux.args(server).arg(root.join("run/tmux")).arg("-D");
        let tmux = user(&mut tmux).ok();
        let tcp = TcpListener::bind("127.0.0.1:0")?;
        let ground = Ground {
            root: root.to_owned(),
            identity,
            proof: None,
            doors,
            datagrams,
            tcp,
            target,
            tmux,
            leak,
        };
        for name in DOORS.iter().chain(&["notify"]) {
            fs::set_permissions(root.join("run").join(name), Permissions::from_mode(0o777))?;
        }
        ground.wait_for_tmux();
        Ok(ground)
    }

    fn wait_for_tmux(&self) {
        for _ in 0..100 {
            if self.tmux.is_none() || self.root.join("run/tmux").exists() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub(super) fn proof(&self) -> Option<&WallProof> {
        self.proof.as_ref()
    }

    /// The program is installed (or, for `tmux-server` and `root`, the thing is there).
    pub(super) fn has(&self, need: &str) -> bool {
        match need {
            "root" => self.identity.is_some(),
            "tmux-server" => self.tmux.is_some() && self.root.join("run/tmux").exists(),
            need => path_variable().split(':').any(|dir| Path::new(dir).join(need).exists()),
        }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    /// Puts real names into a script.
    pub(super) fn fill(&self, text: &str) -> String {
        let at = |path: &str| self.at(path).display().to_string();
        let table = [
            ("{DATA}", self.root.display().to_string()),
            ("{OPEN}", at("open")),
            ("{OTHER}", at("work/41/cc-worktree-41")),
            ("{WORK41}", at("work/41")),
            ("{MIRROR}", at("mirrors/1.git")),
            ("{RUN}", at("run")),
            ("{SESSION}", at(&format!("sessions/{OTHER}"))),
            ("{REVIEW}", at(&format!("review/{OTHER}"))),
            ("{POLICY}", at("policy/own")),
            ("{BIN}", at("bin/build")),
            ("{PID}", self.target.id().to_string()),
            ("{FD}", self.leak.as_raw_fd().to_string()),
            ("{TAG}", self.tag()),
            ("{ABSTRACT}", abstract_name(&self.root)),
            ("{TCP}", self.tcp.local_addr().map(|at| at.to_string()).unwrap_or_default()),
            ("{HOMEDIR}", std::env::var("HOME").unwrap_or_else(|_| "/root".to_owned())),
        ];
        table.iter().fold(text.to_owned(), |text, (name, value)| text.replace(name, value))
    }

    /// Real names back to short ones, for people.
    pub(super) fn shorten(&self, text: &str) -> String {
        let text = text.replace(&format!("{}-far", self.tag()), "MARKER");
        let text = text.replace(&self.root.display().to_string(), "DATA").replace(&self.tag(), "TAG");
        let text = text.replace(OTHER, "UUID");
        let text = text.replace(&self.target.id().to_string(), "PID");
        text.chars().take(140).collect()
    }

    fn tag(&self) -> String {
        self.root.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Arguments that make the copy in the ground run a native attack.
    pub(super) fn native(&self, name: &str, arg: &str) -> Vec<String> {
        let program = self.at("bin/build/opkit-session").display().to_string();
        vec![program, "attack".to_owned(), "--inside".to_owned(), name.to_owned(), self.fill(arg)]
    }

    pub(super) fn policy(&self) -> GuardPolicy {
        GuardPolicy {
            worktree: self.own(0),
            write: self.writable(),
            tools: vec!["Bash".into(), "Write".into()],
        }
    }

    fn own(&self, which: usize) -> PathBuf {
        self.at("work/42").join(OWN[which])
    }

    fn writable(&self) -> Vec<PathBuf> {
        (0..OWN.len()).map(|which| self.own(which)).collect()
    }

    fn wall(&self) -> WallSpec {
        let mut read: Vec<PathBuf> = SYSTEM_READS.iter().map(PathBuf::from).collect();
        read.extend(self.writable());
        read.extend(["policy/own", "bin", "mirrors/1.git", "door"].map(|path| self.at(path)));
        WallSpec {
            mode: WallMode::Enforced,
            write: self.writable(),
            read: Some(read),
            block_unix_sockets: true,
            prove_no_write: vec![
                self.at("proof"),
                self.at("mirrors/1.git/proof"),
                "/tmp/opkit-proof-x".into(),
            ],
            prove_no_read: vec![self.at("db/opkit.db"), self.at("review")],
            prove_no_connect: vec![self.at("run/control.sock")],
        }
    }

    fn environment(&self) -> Vec<(String, String)> {
        let text = |path: PathBuf| path.display().to_string();
        [
            ("PATH", format!("{}:{}", text(self.at("bin/build")), path_variable())),
            ("HOME", text(self.own(3))),
            ("TMPDIR", text(self.own(2))),
            ("LANG", "C.UTF-8".to_owned()),
            ("GIT_TERMINAL_PROMPT", "0".to_owned()),
            ("GIT_CONFIG_NOSYSTEM", "1".to_owned()),
            ("GIT_CONFIG_GLOBAL", text(self.at("policy/own/gitconfig"))),
            ("GIT_AUTHOR_NAME", "A".to_owned()),
            ("GIT_AUTHOR_EMAIL", "a@example.org".to_owned()),
            ("GIT_COMMITTER_NAME", "A".to_owned()),
            ("GIT_COMMITTER_EMAIL", "a@example.org".to_owned()),
            ("OPKIT_MEMORY", text(self.own(1))),
            ("OPKIT_SCRATCH", text(self.own(2))),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .to_vec()
    }

    /// Runs `argv` behind the wall, to its end or ten seconds.
    pub(super) fn run(&mut self, argv: Vec<String>) -> anyhow::Result<Ran> {
        let spec = EnterSpec {
            identity: self.identity.clone(),
            wall: self.wall(),
            cwd: self.own(0),
            argv,
            env: self.environment(),
            limits: ProcessLimits::default(),
            new_session: true,
        };
        let mut entry = Entry::new(&self.at("bin/build/opkit-session"), &spec)?;
        let (mut reader, writer) = std::io::pipe()?;
        entry.command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
        let mut child = entry.command.spawn().context("enter cannot be started")?;
        let report = wait_for(&mut entry, &mut child)?;
        // The parent's ends go with the command; then the end of the output is the end of all its children.
        drop(entry);
        match report {
            EnterReport::Proof(proof) => self.proof = Some(proof),
            EnterReport::Refused(reason) => bail!("the wall was not put up: {reason}"),
        }
        let (send, receive) = mpsc::channel();
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = reader.read_to_end(&mut bytes);
            let _ = send.send(bytes);
        });
        let bytes = receive.recv_timeout(Duration::from_secs(10));
        if bytes.is_err() {
            let _ = child.kill();
        }
        let status = child.wait()?;
        let output = String::from_utf8_lossy(&bytes.clone().unwrap_or_default()).into_owned();
        Ok(Ran { status: bytes.is_ok().then_some(status), output })
    }

    /// Everything outside the session's own places.
    pub(super) fn look(&self) -> Look {
        let mut look = Look::new();
        let own = self.writable();
        let mut left = vec![self.root.clone()];
        while let Some(dir) = left.pop() {
            for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
                let path = entry.path();
                let Ok(meta) = fs::symlink_metadata(&path) else { continue };
                if own.contains(&path) {
                    continue;
                }
                let what = if meta.is_dir() {
                    left.push(path.clone());
                    Vec::new()
                } else if meta.len() > 64 << 10 || !meta.is_file() {
                    format!("{} {} {}", meta.ino(), meta.len(), meta.mtime_nsec()).into_bytes()
                } else {
                    fs::read(&path).unwrap_or_default()
                };
                look.insert(path, (meta.mode() & libc::S_IFMT, what));
            }
        }
        for path in self.far_markers() {
            if path.exists() {
                look.insert(path, (0, Vec::new()));
            }
        }
        look
    }

    /// Markers outside the ground.
    fn far_markers(&self) -> Vec<PathBuf> {
        let mut dirs: Vec<PathBuf> = [
            "/tmp",
            "/var/tmp",
            "/dev/shm",
            "/etc",
            "/usr/local/bin",
            "/run",
            "/var/spool/cron/crontabs",
            "/opt",
        ]
        .map(PathBuf::from)
        .to_vec();
        dirs.extend(std::env::var_os("HOME").map(PathBuf::from));
        let tag = format!("{}-far", self.tag());
        dirs.into_iter().map(|dir| dir.join(&tag)).collect()
    }

    /// What a row changed, read, reached or ended outside.
    pub(super) fn evidence(&mut self, before: &Look, ran: &Ran, goal: Goal) -> Option<String> {
        let after = self.look();
        let changed = |path: &&PathBuf| before.get(*path) != after.get(*path);
        if let Some(path) = before.keys().chain(after.keys()).find(changed) {
            return Some(format!("changed {}", self.shorten(&path.display().to_string())));
        }
        if ran.output.contains(CANARY) && goal != Goal::Own {
            return Some("a secret was read".to_owned());
        }
        let mut bytes = [0_u8; 64];
        let reached = self.doors.iter().any(|door| door.accept().is_ok())
            || self.datagrams.iter().any(|door| door.recv(&mut bytes).is_ok());
        if reached {
            return Some("a socket was reached".to_owned());
        }
        if !matches!(self.target.try_wait(), Ok(None)) {
            return Some("a process outside was ended".to_owned());
        }
        None
    }
}

/// Sockets of other programs, in the ground's `run`.
const DOORS: &[&str] = &["control.sock", "docker.sock", "bus", "systemd-private", "ssh-agent", "x11"];

fn abstract_name(root: &Path) -> String {
    root.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn path_variable() -> &'static str {
    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
}

/// Waits until `enter` has decided, or has ended without a word.
fn wait_for(entry: &mut Entry, child: &mut Child) -> anyhow::Result<EnterReport> {
    for _ in 0..10_000 {
        let ended = child.try_wait()?.is_some();
        if let Some(report) = entry.report() {
            return Ok(report);
        }
        if ended {
            bail!("enter ended without a report");
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    bail!("enter did not decide within ten seconds")
}

/// For root: the agents' user, or nobody.
fn identity() -> Option<Identity> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let agent = users.lines().find_map(|line| {
        let mut fields = line.strip_prefix("opkit-agent:")?.split(':').skip(1);
        Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
    });
    let (uid, gid) = agent.unwrap_or((65534, 65534));
    Some(Identity { uid, gid, groups: Vec::new() })
}

fn lay_out(root: &Path, program: &Path) -> anyhow::Result<()> {
    let at = |path: &str| root.join(path);
    let dirs = [
        "bin/build",
        "bin/hooks",
        "db",
        "keys",
        "run",
        "audit",
        "door",
        "policy/own",
        "mirrors",
        "open/dir",
        "second",
        "home/other/.ssh",
        "work/41/memory",
        "work/41/scratch",
        "work/41/state/work",
    ];
    let own = OWN.iter().map(|name| at("work/42").join(name));
    let others = ["sessions", "review"].map(|dir| at(dir).join(OTHER));
    for dir in dirs.iter().map(|dir| at(dir)).chain(own).chain(others) {
        fs::create_dir_all(dir)?;
    }
    fs::create_dir(at("review").join(OTHER).join("out"))?;
    fs::copy(program, at("bin/build/opkit-session"))?;
    fs::copy(program, at("bin/build/setuid-copy"))?;
    let secrets = [
        "db/opkit.db",
        "keys/anthropic",
        "audit/log",
        "open/there",
        "open/leak",
        "home/other/.profile",
        "home/other/.ssh/id",
        "work/41/memory/NOTES.md",
        "work/41/scratch/x",
        "work/41/state/work/token",
        "DISABLED",
        "open/meta",
    ];
    secrets.iter().try_for_each(|name| fs::write(at(name), format!("{CANARY}\n")))?;
    let session = at("sessions").join(OTHER);
    for name in ["spec.json", "transcript.jsonl", "stop.json", "exit.json"] {
        fs::write(session.join(name), format!("{CANARY}\n"))?;
    }
    fs::write(at("review").join(OTHER).join("brief.md"), CANARY)?;
    fs::write(at("door/session-door"), "127.0.0.1:1\n")?;
    fs::write(at("bin/hooks/prepare-commit-msg"), "#!/bin/sh\n")?;
    fs::write(at("policy/own/policy.json"), "{}")?;
    fs::write(at("policy/own/settings.json"), "{}")?;
    // Both the mirror and the strangers' repositories: what is refused there is not git's own caution.
    fs::write(at("policy/own/gitconfig"), "[safe]\n\tdirectory = *\n[init]\n\tdefaultBranch = main\n")?;
    let meta = File::options().write(true).open(at("open/meta"))?;
    meta.set_modified(super::inside::long_ago())?;
    let other = at("work/41/cc-worktree-41");
    git(root, &["init", "-q", "seed"])?;
    fs::write(at("seed/README.md"), "# Seed\n")?;
    git(&at("seed"), &["add", "-A"])?;
    git(&at("seed"), &["commit", "-q", "-m", "Seed"])?;
    git(root, &["clone", "-q", "--bare", "seed", "mirrors/1.git"])?;
    git(root, &["clone", "-q", "seed", &other.display().to_string()])?;
    fs::write(other.join("secret"), format!("{CANARY}\n"))?;
    git(&other, &["add", "-A"])?;
    git(&other, &["commit", "-q", "-m", CANARY])?;
    fs::remove_dir_all(at("seed"))?;
    Ok(())
}

fn git(cwd: &Path, args: &[&str]) -> anyhow::Result<()> {
    let mut command = Command::new("git");
    command.args(["-c", "init.templateDir=", "-c", "user.name=T", "-c", "user.email=t@example.org"]);
    command.args(["-c", "init.defaultBranch=main", "-c", "commit.gpgSign=false"]);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("GIT_") {
            command.env_remove(name);
        }
    }
    command.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null");
    let output = command.args(args).current_dir(cwd).output().context("git is needed")?;
    if !output.status.success() {
        bail!("git {args:?}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

/// Hands everything to the agents' user and lets everyone write: only the wall shall refuse.
fn open_to_all(root: &Path, identity: Option<&Identity>) -> anyhow::Result<()> {
    let mut left = vec![root.to_owned()];
    while let Some(path) = left.pop() {
        let meta = fs::symlink_metadata(&path)?;
        if let Some(identity) = identity {
            lchown(&path, Some(identity.uid), Some(identity.gid))?;
        }
        if meta.is_symlink() {
            continue;
        }
        fs::set_permissions(
            &path,
            Permissions::from_mode(meta.mode() | 0o666 | if meta.is_dir() { 0o111 } else { 0 }),
        )?;
        if meta.is_dir() {
            for entry in fs::read_dir(&path)? {
                left.push(entry?.path());
            }
        }
    }
    if identity.is_some() {
        // What the service owns, as in the product, and a program that would make one root.
        for (name, mode) in [("open/service", 0o644), ("bin/build/setuid-copy", 0o4755)] {
            let path = root.join(name);
            if name == "open/service" {
                fs::write(&path, CANARY)?;
            }
            lchown(&path, Some(0), Some(0))?;
            fs::set_permissions(&path, Permissions::from_mode(mode))?;
        }
    }
    Ok(())
}
