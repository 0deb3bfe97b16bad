//! The ground of the attacks: a data directory in miniature, with everything that a session must not reach.

mod look;

use std::fs::{self, File, Permissions};
use std::io::Read;
use std::net::TcpListener;
use std::os::fd::AsRawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use anyhow::{Context, bail};
use opkit_domain::session::{GuardPolicy, Identity, SYSTEM_READS, WallMode, WallProof, WallSpec};

use super::layout::{identity, lay_out, open_to_all};
use super::raw::call;
use super::table::Goal;
use crate::enter::{EnterReport, EnterSpec, Entry, ProcessLimits};

/// Stands in everything that must not be read.
pub(super) const CANARY: &str = "opkit-canary-7f3a";

pub(super) const OWN: &[&str] = &["cc-worktree-42", "memory", "scratch", "state/work"];
pub(super) const OTHER: &str = "5c1e7a2e-0000-4000-8000-000000000041";

/// Grounds of this process so far.
static GROUNDS: AtomicU32 = AtomicU32::new(0);

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
    /// A System V segment outside: its key and its number.
    memory: (u32, usize),
    /// Without this there is no wall: the control that shows that the attacks are real.
    walled: bool,
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
        let _ = call(libc::SYS_shmctl, &[self.memory.1, libc::IPC_RMID as usize, 0]);
        let _ = fs::remove_dir_all(&self.root);
    }
}

impl Ground {
    pub(super) fn new(program: &Path, dir: Option<&Path>, walled: bool) -> anyhow::Result<Ground> {
        let identity = identity();
        let base = dir.map_or_else(std::env::temp_dir, Path::to_owned).canonicalize()?;
        let number = GROUNDS.fetch_add(1, Ordering::Relaxed);
        let root = base.join(format!("opkit-attack-{}-{number}", std::process::id()));
        fs::create_dir(&root).with_context(|| format!("{} cannot be made", root.display()))?;
        let made = lay_out(&root, program).and_then(|()| open_to_all(&root, identity.as_ref()));
        let made = made.and_then(|()| Ground::occupy(&root, identity, walled));
        if made.is_err() {
            let _ = fs::remove_dir_all(&root);
        }
        made
    }

    /// Starts what is to be attacked.
    fn occupy(root: &Path, identity: Option<Identity>, walled: bool) -> anyhow::Result<Ground> {
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
        let user = identity.as_ref();
        let target = start(root, user, &mut sleeper())?;
        let server = ["-f", "/dev/null", "-S"];
        let mut tmux = Command::new("tmux");
        tmux.args(server).arg(root.join("run/tmux")).arg("-D");
        let tmux = start(root, user, &mut tmux).ok();
        let tcp = TcpListener::bind("127.0.0.1:0")?;
        let memory = shared_memory()?;
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
            memory,
            walled,
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
            ("{KEY}", self.memory.0.to_string()),
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
        let text = text.replace(OTHER, "UUID").replace(&self.fill("{HOMEDIR}/MARKER"), "HOME/MARKER");
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
        if !self.walled {
            return WallSpec {
                mode: WallMode::HookOnly,
                write: self.writable(),
                read: None,
                block_unix_sockets: false,
                prove_no_write: Vec::new(),
                prove_no_read: Vec::new(),
                prove_no_connect: Vec::new(),
            };
        }
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
}

/// Sockets of other programs, in the ground's `run`.
const DOORS: &[&str] = &["control.sock", "docker.sock", "bus", "systemd-private", "ssh-agent", "x11"];

fn abstract_name(root: &Path) -> String {
    root.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn path_variable() -> &'static str {
    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
}

/// A segment that every user may open by its key.
fn shared_memory() -> std::io::Result<(u32, usize)> {
    let key = 0x6f70_0000 | std::process::id() << 4 & 0xffff | GROUNDS.load(Ordering::Relaxed) & 0xf;
    let flags = (libc::IPC_CREAT | 0o666) as usize;
    Ok((key, call(libc::SYS_shmget, &[key as usize, 4096, flags])?))
}

fn sleeper() -> Command {
    let mut command = Command::new("/bin/sleep");
    command.arg("900");
    command
}

/// Starts a program outside the wall as the agents' user, with a secret in its environment.
fn start(root: &Path, identity: Option<&Identity>, command: &mut Command) -> std::io::Result<Child> {
    if let Some(identity) = identity {
        command.uid(identity.uid).gid(identity.gid);
    }
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).current_dir(root.join("open"));
    command.env_clear().env("PATH", path_variable()).env("SECRET", CANARY).spawn()
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
