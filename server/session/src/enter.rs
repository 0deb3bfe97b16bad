//! The one way to another user: groups, gid, uid, capabilities, limits, seccomp, Landlock, proof, exec.
//!
//! `opkit-session enter` is a fresh single-threaded process. It reads an [`EnterSpec`], gives up every right it
//! should not have, shows that the wall stands, and becomes the program. Whatever fails leaves with status 71 and
//! a reason; then nothing of the program has run.

mod identity;
mod proof;
mod wall;

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, bail};
use opkit_domain::session::{Identity, WallProof, WallSpec};
use rustix::fs::MemfdFlags;
use serde::{Deserialize, Serialize};

/// The exit status when the wall could not be put up or proven; nothing has run.
pub const EXIT_REFUSED: u8 = 71;

/// What `enter` shall become, and behind which wall.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EnterSpec {
    /// User to become; none = stay, which is refused for root.
    pub identity: Option<Identity>,
    /// The wall.
    pub wall: WallSpec,
    /// Working directory of the program, entered after the wall is up.
    pub cwd: PathBuf,
    /// Program (absolute path) and arguments.
    pub argv: Vec<String>,
    /// The whole environment of the program. May hold secrets: the spec travels in anonymous memory only.
    pub env: Vec<(String, String)>,
    /// Resource limits beside "no core file", which always holds.
    #[serde(default)]
    pub limits: ProcessLimits,
    /// Start a session of its own, without a controlling terminal.
    pub new_session: bool,
}

/// Resource limits of the program and its children.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessLimits {
    /// Processes of the user (counts per user, so only for users of their own).
    pub processes: Option<u64>,
    /// Bytes of any one file.
    pub file_bytes: Option<u64>,
}

/// What `enter` reports before it becomes the program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EnterReport {
    /// The wall stands; the program was started.
    Proof(WallProof),
    /// Nothing ran, and why.
    Refused(String),
}

/// A command that is ready to be spawned. Keep it until the child has ended: `enter` reads the spec from here.
///
/// The spec is an anonymous file of the parent, closed on exec, that `enter` opens through
/// `/proc/<parent>/fd`. So a parent with many threads leaks it to no other child.
#[derive(Debug)]
pub struct Entry {
    /// The command; set standard input, output and error as needed.
    pub command: Command,
    report: File,
    /// Dropped once it was read: it may hold secrets.
    spec: Option<OwnedFd>,
}

impl Entry {
    /// Prepares `PROGRAM enter` for `spec`; `program` is an `opkit-session`.
    pub fn new(program: &Path, spec: &EnterSpec) -> io::Result<Entry> {
        let spec_fd = rustix::fs::memfd_create("enter-spec", MemfdFlags::CLOEXEC)?;
        let mut file = File::from(spec_fd);
        file.write_all(&serde_json::to_vec(spec)?)?;
        let report = File::from(rustix::fs::memfd_create("enter-report", MemfdFlags::CLOEXEC)?);
        let of = |fd: &File| format!("/proc/{}/fd/{}", std::process::id(), fd.as_raw_fd());
        let mut command = Command::new(program);
        command.arg("enter").arg("--spec").arg(of(&file)).arg("--proof").arg(of(&report)).env_clear();
        Ok(Entry { command, report, spec: Some(file.into()) })
    }

    /// What `enter` has reported so far; none before it came to a decision (or when it was killed before).
    pub fn report(&mut self) -> Option<EnterReport> {
        let mut text = String::new();
        self.report.rewind().ok()?;
        self.report.read_to_string(&mut text).ok()?;
        let report = serde_json::from_str(&text).ok();
        if report.is_some() {
            self.spec = None;
        }
        report
    }
}

/// The `enter` subcommand.
pub(crate) fn main(args: &[&str]) -> ExitCode {
    let (mut spec_path, mut report_path) = ("/proc/self/fd/3", None);
    let mut rest = args;
    while let [name, value, tail @ ..] = rest {
        match *name {
            "--spec" => spec_path = value,
            "--proof" => report_path = Some(*value),
            _ => break,
        }
        rest = tail;
    }
    if !rest.is_empty() {
        eprintln!("opkit-session enter: unknown argument {:?}", rest[0]);
        return ExitCode::from(EXIT_REFUSED);
    }
    let mut report = match open_report(report_path) {
        Ok(report) => report,
        Err(error) => {
            eprintln!("opkit-session enter: the report cannot be opened: {error}");
            return ExitCode::from(EXIT_REFUSED);
        }
    };
    let Err(error) = enter(spec_path, report.as_mut());
    let reason = format!("{error:#}");
    eprintln!("opkit-session enter: {reason}");
    if let Some(report) = &mut report {
        // Nobody is left to tell when this fails too; the status says it.
        let _ = write_report(report, &EnterReport::Refused(reason));
    }
    ExitCode::from(EXIT_REFUSED)
}

/// Descriptor 4 is used when it was inherited and no path is given.
fn open_report(path: Option<&str>) -> io::Result<Option<File>> {
    let open = |path: &str| File::options().write(true).open(path);
    match path {
        Some(path) => open(path).map(Some),
        None => Ok(open("/proc/self/fd/4").ok()),
    }
}

fn write_report(file: &mut File, report: &EnterReport) -> anyhow::Result<()> {
    let text = serde_json::to_vec(report)?;
    // A pipe can be neither rewound nor cut; then the reader takes the last document.
    if file.rewind().is_ok() {
        file.set_len(0)?;
    }
    file.write_all(&text)?;
    Ok(())
}

fn enter(spec_path: &str, report: Option<&mut File>) -> anyhow::Result<std::convert::Infallible> {
    let mut text = Vec::new();
    File::open(spec_path)
        .and_then(|mut file| file.read_to_end(&mut text))
        .context("the spec cannot be read")?;
    let spec: EnterSpec = serde_json::from_slice(&text).context("the spec is not valid")?;
    let program = check(&spec)?;

    identity::close_descriptors_on_exec()?;
    if spec.new_session {
        rustix::process::setsid().context("no session of its own")?;
    }
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    identity::set_limits(spec.limits)?;
    identity::become_user(spec.identity.as_ref())?;
    let wall = wall::put_up(&spec.wall)?;
    let proof = proof::prove(&spec.wall, &wall)?;
    std::env::set_current_dir(&spec.cwd)
        .with_context(|| format!("the working directory {} cannot be entered", spec.cwd.display()))?;
    if let Some(report) = report {
        write_report(report, &EnterReport::Proof(proof)).context("the proof cannot be reported")?;
    }
    let error = Command::new(program).args(&spec.argv[1..]).env_clear().envs(spec.env.iter().cloned()).exec();
    Err(error).with_context(|| format!("{program} cannot be started"))
}

fn check(spec: &EnterSpec) -> anyhow::Result<&str> {
    let Some(program) = spec.argv.first() else { bail!("there is no program to start") };
    if !Path::new(program).is_absolute() {
        bail!("the program {program:?} is not an absolute path");
    }
    for path in spec.wall.write.iter().chain(spec.wall.read.iter().flatten()) {
        if !path.is_absolute() || path == Path::new("/") && spec.wall.write.contains(path) {
            bail!("the wall cannot be built around {path:?}");
        }
    }
    match &spec.identity {
        None if rustix::process::geteuid().is_root() => bail!("never as root: the spec names no user"),
        Some(identity) if identity.uid == 0 || identity.gid == 0 || identity.groups.contains(&0) => {
            bail!("never as root: the spec names user or group 0")
        }
        _ => Ok(program),
    }
}
