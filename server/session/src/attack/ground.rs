//! The ground of the attacks: a data directory in miniature, with everything that a session must not reach.

mod look;
mod stage;

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
use opkit_domain::session::{Identity, WallProof};

use super::layout::{as_installed, lay_out, open_to_all};
use super::raw::call;
use super::table::Goal;
use crate::enter::{EnterReport, EnterSpec, Entry, ProcessLimits};

/// Stands in everything that must not be read.
pub(super) const CANARY: &str = "opkit-canary-7f3a";

pub(super) use stage::{ACCOUNT, AGENTS, OTHER, REVIEWER, STRANGER, Stage, WORKER, slot};

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
    stage: Stage,
    identity: Option<Identity>,
    proof: Option<WallProof>,
    doors: Vec<UnixListener>,
    /// Outside every closed directory: reaching it is a known gap, no evidence.
    _open_door: UnixListener,
    datagrams: Vec<UnixDatagram>,
    tcp: TcpListener,
    /// A process of another session of the same user, and one of another account's.
    targets: [Child; 2],
    tmux: Option<Child>,
    /// Open for writing outside, and inherited by everything that is started.
    leak: File,
    /// System V segments outside, of the same user and of another account's: their keys.
    keys: [u32; 2],
    /// Without this there is no wall: the control that shows that the attacks are real.
    walled: bool,
}

impl Drop for Ground {
    fn drop(&mut self) {
        for child in self.targets.iter_mut().chain(self.tmux.as_mut()) {
            let _ = child.kill();
            let _ = child.wait();
        }
        for path in self.far_markers() {
            let _ = fs::remove_file(path);
        }
        for key in self.keys {
            let segment = call(libc::SYS_shmget, &[key as usize, 0, 0]);
            let _ = segment.and_then(|id| call(libc::SYS_shmctl, &[id, libc::IPC_RMID as usize, 0]));
        }
        let _ = fs::remove_dir_all(&self.root);
    }
}

impl Ground {
    pub(super) fn new(
        program: &Path,
        dir: Option<&Path>,
        walled: bool,
        stage: Stage,
    ) -> anyhow::Result<Ground> {
        let identity = stage.identity();
        let base = dir.map_or_else(std::env::temp_dir, Path::to_owned).canonicalize()?;
        let number = GROUNDS.fetch_add(1, Ordering::Relaxed);
        let root = base.join(format!("opkit-attack-{}-{number}", std::process::id()));
        fs::create_dir(&root).with_context(|| format!("{} cannot be made", root.display()))?;
        let made = lay_out(&root, program, stage).and_then(|()| match stage.has_owners() {
            true => as_installed(&root),
            false => open_to_all(&root, identity.as_ref()),
        });
        let made = made.and_then(|()| Ground::occupy(&root, number, identity, walled, stage));
        if made.is_err() {
            let _ = fs::remove_dir_all(&root);
        }
        made
    }

    /// Starts what is to be attacked.
    fn occupy(
        root: &Path,
        number: u32,
        identity: Option<Identity>,
        walled: bool,
        stage: Stage,
    ) -> anyhow::Result<Ground> {
        let leak = File::options().append(true).open(root.join("open/leak"))?;
        rustix::io::fcntl_setfd(&leak, rustix::io::FdFlags::empty())?;
        let mut doors = Vec::new();
        for name in DOORS {
            doors.push(UnixListener::bind(root.join("run").join(name))?);
        }
        let open_door = UnixListener::bind(root.join("open/door"))?;
        doors.push(UnixListener::bind_addr(&SocketAddr::from_abstract_name(abstract_name(root))?)?);
        let datagrams = vec![
            UnixDatagram::bind(root.join("run/notify"))?,
            UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(format!("{}-dg", abstract_name(root)))?)?,
        ];
        doors.iter().try_for_each(|door| door.set_nonblocking(true))?;
        datagrams.iter().try_for_each(|door| door.set_nonblocking(true))?;
        let user = identity.as_ref();
        let stranger = Identity { uid: STRANGER, gid: AGENTS, groups: Vec::new() };
        let stranger = if stage.has_owners() { Some(&stranger) } else { user };
        let tcp = TcpListener::bind("127.0.0.1:0")?;
        let keys = [shared_memory(root, user, number << 1)?, shared_memory(root, stranger, number << 1 | 1)?];
        // What lives comes last: nothing after it can fail before there is a ground that ends it.
        let targets = [start(root, user, &mut sleeper())?, start(root, stranger, &mut sleeper())?];
        let server = ["-f", "/dev/null", "-S"];
        let mut tmux = Command::new("tmux");
        tmux.args(server).arg(root.join("run/tmux")).arg("-D");
        // With users of their own the server is the service's; else it is the same user's as everything.
        let tmux = start(root, user.filter(|_| !stage.has_owners()), &mut tmux).ok();
        let ground = Ground {
            root: root.to_owned(),
            stage,
            identity,
            proof: None,
            doors,
            _open_door: open_door,
            datagrams,
            tcp,
            targets,
            tmux,
            leak,
            keys,
            walled,
        };
        for name in DOORS.iter().chain(&["notify"]) {
            fs::set_permissions(root.join("run").join(name), Permissions::from_mode(0o777))?;
        }
        fs::set_permissions(root.join("open/door"), Permissions::from_mode(0o777))?;
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
            ("{WORK40}", at("work/40")),
            ("{WORK41}", at("work/41")),
            ("{WORK42}", at("work/42")),
            ("{WORKER}", at(&format!("sessions/{WORKER}"))),
            ("{OWNREVIEW}", at(&format!("review/{REVIEWER}"))),
            ("{MIRROR}", at("mirrors/1.git")),
            ("{RUN}", at("run")),
            ("{SESSION}", at(&format!("sessions/{OTHER}"))),
            ("{REVIEW}", at(&format!("review/{OTHER}"))),
            ("{POLICY}", at("policy/own")),
            ("{BIN}", at("bin/build")),
            ("{PID}", self.targets[0].id().to_string()),
            ("{PID2}", self.targets[1].id().to_string()),
            ("{FD}", self.leak.as_raw_fd().to_string()),
            ("{KEY}", self.keys[0].to_string()),
            ("{KEY2}", self.keys[1].to_string()),
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
        let text = text.replace(&self.fill("{HOMEDIR}/MARKER"), "HOME/MARKER");
        let text = [OTHER, WORKER, REVIEWER].iter().fold(text, |text, id| text.replace(id, "UUID"));
        let text = self.targets.iter().fold(text, |text, of| text.replace(&of.id().to_string(), "PID"));
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

/// A segment of that user, for that user alone; gives its key.
fn shared_memory(root: &Path, user: Option<&Identity>, which: u32) -> anyhow::Result<u32> {
    let key = 0x6f70_0000 | std::process::id() << 4 & 0xfff0 | which & 0xf;
    let program = root.join("bin/build/opkit-session");
    let mut maker = Command::new(program);
    maker.args(["attack", "--inside", "make shared memory", &key.to_string()]);
    if !start(root, user, &mut maker)?.wait()?.success() {
        bail!("shared memory cannot be made");
    }
    Ok(key)
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
