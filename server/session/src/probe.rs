//! `probe`: whether this version of an agent's CLI keeps the promises that sessions rely on.
//!
//! The unmodified CLI runs with the command line and the settings of real sessions, against a stand-in for the
//! model on loopback, with a dummy key, as the agents' user and behind a session's wall. That wall lets it write
//! into a place that the guard calls outside: what is refused there, the CLI refused because of the guard, or
//! because the guard failed.

mod cases;
mod model;

use std::collections::HashMap;
use std::fs::{self, File, Permissions};
use std::io::{self, Read};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use opkit_domain::session::{AgentProbe, GuardPolicy, Identity, ProbeCheck, ProbeReport, WallMode, WallSpec};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};

use self::cases::{CASES, Case, Guard};
use self::model::{Asked, Model};
use crate::attack::layout::identity;
use crate::enter::{EnterSpec, Entry, ProcessLimits};
use crate::files::uuid;
use crate::run::processes::descendants;

/// How long the CLI may take for one case.
const PATIENCE: Duration = Duration::from_secs(90);
/// Seconds that a guard has which never answers.
const SHORT_S: u64 = 2;
/// Cases at once: each is a whole CLI, whose start costs more than a second of a processor.
const AT_ONCE: usize = 2;
/// No provider gave it out.
const KEY: &str = "opkit-probe-no-key";

/// What one run left.
struct Ran {
    /// The CLI's JSON lines.
    output: String,
    /// What the model was asked, in order.
    asked: Vec<Asked>,
    late: bool,
}

/// The place of one case.
struct Place {
    root: PathBuf,
    identity: Option<Identity>,
}

impl Place {
    fn at(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }
}

/// The `probe` subcommand: 0 when every promise holds, 1 when one does not, 2 when it could not be tried.
pub(crate) fn main() -> ExitCode {
    let report = read_spec().and_then(|spec| run(&spec));
    match report.and_then(|report| Ok((serde_json::to_string(&report)?, report.holds()))) {
        Ok((text, holds)) => {
            println!("{text}");
            if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("opkit-session probe: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn read_spec() -> anyhow::Result<AgentProbe> {
    let mut text = Vec::new();
    io::stdin().take(1 << 20).read_to_end(&mut text)?;
    serde_json::from_slice(&text).context("the spec on standard input is not valid")
}

/// Tries everything.
fn run(spec: &AgentProbe) -> anyhow::Result<ProbeReport> {
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    let root = std::env::temp_dir().canonicalize()?.join(format!("opkit-probe-{}", uuid()?));
    fs::create_dir(&root).with_context(|| format!("{} cannot be made", root.display()))?;
    let place = root.clone();
    std::thread::spawn(move || {
        reader_is_gone();
        clear(&place);
        std::process::exit(2);
    });
    let report = run_in(&root, spec);
    clear(&root);
    report
}

/// Ends what was started and removes the place. A thread that is about to begin its next case may still make
/// something in it; once the place is gone nothing can be started from there.
fn clear(root: &Path) {
    for _ in 0..500 {
        end_everything();
        match fs::remove_dir_all(root) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                std::thread::sleep(Duration::from_millis(10));
            }
            Ok(()) | Err(_) => break,
        }
    }
    end_everything();
}

/// Returns when nobody can read what the probe finds: the server that asked was killed, say.
fn reader_is_gone() {
    let output = io::stdout();
    let mut watched = [PollFd::new(&output, PollFlags::empty())];
    while poll(&mut watched, None).is_err() {}
}

fn run_in(root: &Path, spec: &AgentProbe) -> anyhow::Result<ProbeReport> {
    fs::set_permissions(root, Permissions::from_mode(0o711))?;
    // This program may lie where the agents' user cannot go.
    let program = root.join("opkit-session");
    fs::copy(std::env::current_exe()?, &program)?;
    fs::set_permissions(&program, Permissions::from_mode(0o755))?;
    let settings: Value = serde_json::from_str(&spec.settings).context("the settings are not JSON")?;
    let (next, found) = (AtomicUsize::new(0), Mutex::new(HashMap::new()));
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some((number, case)) = take(&next) {
                    let tried = try_case(&root.join(number.to_string()), &program, spec, &settings, case);
                    found.lock().unwrap_or_else(std::sync::PoisonError::into_inner).insert(number, tried);
                }
            });
        }
    });
    let mut found = found.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    let mut report = ProbeReport { version: String::new(), checks: Vec::new() };
    for (number, case) in CASES.iter().enumerate() {
        let (version, detail) = match found.remove(&number) {
            Some(Ok((version, problem))) => (version, problem.unwrap_or_default()),
            Some(Err(error)) => (String::new(), format!("it could not be tried: {error:#}")),
            None => (String::new(), "it was not tried".to_owned()),
        };
        if report.version.is_empty() {
            report.version = version;
        }
        let what = case.what.to_owned();
        report.checks.push(ProbeCheck { what, holds: detail.is_empty(), detail });
    }
    Ok(report)
}

fn take(next: &AtomicUsize) -> Option<(usize, &'static Case)> {
    let number = next.fetch_add(1, Ordering::Relaxed);
    CASES.get(number).map(|case| (number, case))
}

/// The version and the problem, if there is one.
fn try_case(
    root: &Path,
    program: &Path,
    spec: &AgentProbe,
    settings: &Value,
    case: &Case,
) -> anyhow::Result<(String, Option<String>)> {
    let place = lay_out(root)?;
    cases::plant(case, &place.at("tree"))?;
    let settings_file = write_policy(&place, program, settings, spec.mode, case.guard)?;
    let model = Model::start(cases::turns(case, &place))?;
    let ran = run_cli(&place, program, spec, &settings_file, &model)?;
    let version = version(&ran.output).unwrap_or_default();
    Ok((version, cases::problem(case, &place, &ran)))
}

fn lay_out(root: &Path) -> anyhow::Result<Place> {
    let place = Place { root: root.to_owned(), identity: identity() };
    for name in ["", "tree", "home", "outside", "policy"] {
        fs::create_dir(place.at(name))?;
    }
    fs::set_permissions(root, Permissions::from_mode(0o755))?;
    fs::set_permissions(place.at("policy"), Permissions::from_mode(0o755))?;
    if let Some(identity) = &place.identity {
        // The place outside is theirs too: only the guard keeps them from it.
        for name in ["tree", "home", "outside"] {
            chown(place.at(name), Some(identity.uid), Some(identity.gid))?;
        }
    }
    Ok(place)
}

/// The guard's policy and the CLI's settings, as for a session, with the case's guard.
fn write_policy(
    place: &Place,
    program: &Path,
    settings: &Value,
    mode: WallMode,
    guard: Guard,
) -> anyhow::Result<PathBuf> {
    let policy = GuardPolicy {
        worktree: place.at("tree"),
        write: vec![place.at("tree"), place.at("home")],
        tools: ["Bash", "Edit", "Write", "Read", "Glob", "Grep"].map(str::to_owned).to_vec(),
        mode,
        operator_hooks: Vec::new(),
    };
    let policy_file = place.at("policy/policy.json");
    fs::write(&policy_file, serde_json::to_vec(&policy)?)?;
    // All of it is ours: no path here holds a quote.
    let ours = |mode: &str| format!("'{}' guard{mode} '{}'", program.display(), policy_file.display());
    let mut settings = settings.clone();
    let hooks =
        settings.get_mut("hooks").and_then(Value::as_object_mut).context("the settings have no hooks")?;
    for (event, entries) in hooks.iter_mut() {
        let hook = entries.pointer_mut("/0/hooks/0").context("a hook of the settings is not understood")?;
        let before = event == "PreToolUse";
        hook["command"] = match guard {
            _ if !before => ours(" --post"),
            Guard::Ours => ours(""),
            Guard::Fails(command) => command.to_owned(),
        }
        .into();
        if before && matches!(guard, Guard::Fails(_)) {
            hook["timeout"] = json!(SHORT_S);
        }
    }
    if !hooks.contains_key("PreToolUse") {
        bail!("the settings have no guard");
    }
    let file = place.at("policy/settings.json");
    fs::write(&file, settings.to_string())?;
    for file in [&file, &policy_file] {
        fs::set_permissions(file, Permissions::from_mode(0o644))?;
    }
    Ok(file)
}

/// The command line of sessions, with the probe's settings and a conversation of its own.
fn argv(spec: &AgentProbe, settings: &Path) -> anyhow::Result<Vec<String>> {
    let mut argv = spec.argv.clone();
    for (option, value) in [("--settings", settings.display().to_string()), ("--session-id", uuid()?)] {
        let at = argv.iter().position(|arg| arg == option);
        let slot = at.and_then(|at| argv.get_mut(at + 1));
        *slot.with_context(|| format!("the command line has no {option}"))? = value;
    }
    Ok(argv)
}

fn run_cli(
    place: &Place,
    program: &Path,
    spec: &AgentProbe,
    settings: &Path,
    model: &Model,
) -> anyhow::Result<Ran> {
    let places = ["tree", "home", "outside"].map(|name| place.at(name));
    let mut read = spec.read.clone();
    read.extend([program.to_owned(), place.root.clone()]);
    let spec = EnterSpec {
        identity: place.identity.clone(),
        wall: WallSpec {
            mode: spec.mode,
            // Outside too: it is the CLI that is tried there.
            write: places.to_vec(),
            read: Some(read),
            block_unix_sockets: true,
            prove_no_write: vec![place.at("proof")],
            prove_no_read: Vec::new(),
            prove_no_connect: Vec::new(),
        },
        cwd: place.at("tree"),
        argv: argv(spec, settings)?,
        env: environment(place, spec, model),
        limits: ProcessLimits::default(),
        new_session: true,
    };
    let mut entry = Entry::new(program, &spec)?;
    fs::write(place.at("prompt"), "Probe.\n")?;
    // A file, not a pipe: whoever still holds it makes nobody wait.
    let output = place.at("output");
    entry.command.stdin(File::open(place.at("prompt"))?).stdout(File::create(&output)?).stderr(Stdio::null());
    let mut child = entry.command.spawn().context("enter cannot be started")?;
    let start = Instant::now();
    let mut late = false;
    while child.try_wait()?.is_none() {
        if start.elapsed() > PATIENCE {
            late = true;
            child.kill()?;
            child.wait()?;
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    if let Some(crate::enter::EnterReport::Refused(reason)) = entry.report() {
        bail!("the CLI could not be started: {reason}");
    }
    let output = String::from_utf8_lossy(&fs::read(output)?).into_owned();
    Ok(Ran { output, asked: model.asked(), late })
}

fn environment(place: &Place, spec: &AgentProbe, model: &Model) -> Vec<(String, String)> {
    let text = |name: &str| place.at(name).display().to_string();
    let own = [
        ("HOME", text("home")),
        ("TMPDIR", text("home")),
        ("LANG", "C.UTF-8".to_owned()),
        ("TERM", "dumb".to_owned()),
        ("SHELL", "/bin/sh".to_owned()),
        ("CLAUDE_CONFIG_DIR", text("home/claude")),
        ("ANTHROPIC_BASE_URL", format!("http://{}", model.address)),
        ("ANTHROPIC_API_KEY", KEY.to_owned()),
    ];
    let own = own.map(|(name, value)| (name.to_owned(), value));
    spec.env.iter().cloned().chain(own).collect()
}

/// The version in the CLI's first event.
fn version(output: &str) -> Option<String> {
    output.lines().find_map(|line| {
        let event: Value = serde_json::from_str(line).ok()?;
        Some(event.get("claude_code_version")?.as_str()?.chars().take(40).collect())
    })
}

/// Nothing of the probe may live on.
fn end_everything() {
    for _ in 0..500 {
        let left = descendants();
        for process in &left {
            // It may be gone already.
            let _ = kill_process(process.pid, Signal::KILL);
        }
        while let Ok(Some(_)) = rustix::process::wait(rustix::process::WaitOptions::NOHANG) {}
        if left.is_empty() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}
