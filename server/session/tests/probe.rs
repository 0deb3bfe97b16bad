//! The probe of an agent's CLI: stand-ins that keep no promise, and (optional) the real one.

use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use opkit_domain::session::{AgentProbe, ProbeReport, SYSTEM_READS, WallMode};
use serde_json::json;
use tempfile::TempDir;

/// As sessions start Claude Code.
fn spec(program: &str, mode: &str) -> AgentProbe {
    let line = format!(
        "{program} -p --setting-sources _ --settings _ --strict-mcp-config --tools Bash,Edit,Read,Write,Glob,Grep \
         --permission-mode {mode} --session-id _ --output-format stream-json --verbose --include-hook-events"
    );
    let argv = line.split_whitespace().map(str::to_owned);
    let mut argv: Vec<String> = argv.collect();
    if let Some(at) = argv.iter().position(|arg| arg == "--setting-sources") {
        argv[at + 1].clear();
    }
    let hook = json!([{"matcher": "*", "hooks": [{"type": "command", "command": "", "timeout": 20}]}]);
    let settings = json!({
        "disableAllHooks": false,
        "env": {"CLAUDE_CODE_SIMPLE": "0", "CLAUDE_CODE_SAFE_MODE": "0"},
        "hooks": {"PreToolUse": hook.clone(), "PostToolUse": hook.clone(), "PostToolUseFailure": hook},
    });
    let own = ["CLAUDE_CODE_SIMPLE=0", "CLAUDE_CODE_MAX_RETRIES=1", "PATH=/usr/local/bin:/usr/bin:/bin"];
    let off = ["CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_AUTOUPDATER=1", "DISABLE_TELEMETRY=1"];
    let pair = |text: &str| text.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
    let mut read: Vec<PathBuf> = SYSTEM_READS.iter().map(PathBuf::from).collect();
    read.extend(Path::new(program).parent().map(Path::to_owned));
    AgentProbe {
        argv,
        settings: settings.to_string(),
        env: own.into_iter().chain(off).filter_map(pair).collect(),
        mode: WallMode::Enforced,
        read,
    }
}

fn probe(input: &str) -> (Option<i32>, Option<ProbeReport>) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_opkit-session"));
    let mut child = command
        .arg("probe")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    child.stdin.take().expect("a pipe").write_all(input.as_bytes()).expect("written");
    let output = child.wait_with_output().expect("it ends");
    (output.status.code(), serde_json::from_slice(&output.stdout).ok())
}

fn probe_cli(program: &str, mode: &str) -> (Option<i32>, ProbeReport) {
    let (code, report) = probe(&serde_json::to_string(&spec(program, mode)).expect("JSON"));
    (code, report.expect("a report"))
}

#[test]
fn a_cli_that_does_nothing_keeps_no_promise() {
    for program in ["/bin/true", "/no/such/cli"] {
        let (code, report) = probe_cli(program, "dontAsk");
        assert_eq!(code, Some(1), "{program}");
        assert!(report.checks.len() >= 8 && report.checks.iter().all(|check| !check.holds), "{report:?}");
        assert!(!report.holds() && report.version.is_empty());
    }
}

#[test]
fn a_spec_that_is_not_understood_is_refused() {
    let mut no_guard = spec("/bin/true", "dontAsk");
    no_guard.settings = r#"{"hooks":{}}"#.to_owned();
    for input in ["", "{}", "[]"] {
        assert_eq!(probe(input).0, Some(2), "{input}");
    }
    let (code, report) = probe(&serde_json::to_string(&no_guard).expect("JSON"));
    assert_eq!(code, Some(1));
    assert!(report.is_some_and(|report| report.checks.iter().all(|check| check.detail.contains("no guard"))));
}

#[test]
fn optional_the_real_cli_keeps_its_promises_and_the_probe_sees_when_not() {
    let Some(program) = std::env::var_os("OPKIT_TEST_CLAUDE").filter(|path| !path.is_empty()) else {
        eprintln!("skipped: OPKIT_TEST_CLAUDE is not set to the path of a Claude Code binary");
        return;
    };
    let program = program.to_str().expect("a path in UTF-8");
    let (code, report) = probe_cli(program, "dontAsk");
    assert!(code == Some(0) && report.holds(), "{report:#?}");
    // Without the pins of sessions, settings of others count.
    let mut unpinned = spec(program, "dontAsk");
    let sources = unpinned.argv.iter().position(|arg| arg == "--setting-sources").expect("an option");
    unpinned.argv[sources + 1] = "user,project,local".to_owned();
    unpinned.settings = unpinned.settings.replace("\"disableAllHooks\":false,", "").replace("\"0\"", "\"\"");
    unpinned.env.retain(|(name, _)| name != "CLAUDE_CODE_SIMPLE");
    let (code, report) = probe(&serde_json::to_string(&unpinned).expect("JSON"));
    let report = report.expect("a report");
    let broken: Vec<_> = report.checks.iter().filter(|check| !check.holds).map(|check| &check.what).collect();
    assert_eq!((code, broken.len()), (Some(1), 2), "{report:#?}");
    assert!(broken.iter().all(|what| what.starts_with("Settings ")), "{broken:?}");
    // In this mode a guard that fails lets the call through: never to be used, and seen by the probe.
    let (code, report) = probe_cli(program, "bypassPermissions");
    assert_eq!(code, Some(1));
    let broken = report.checks.iter().filter(|check| !check.holds).count();
    assert_eq!(
        broken,
        report.checks.iter().filter(|check| check.what.contains("lets nothing through")).count()
    );
}

/// A CLI that breaks one promise, or none, where every user can run it.
fn stand_in(nature: &str) -> Option<(TempDir, String)> {
    if !Path::new("/usr/bin/python3").exists() {
        eprintln!("skipped: the stand-in for a CLI needs python3");
        return None;
    }
    let base = if Path::new("/var/tmp").is_dir() { "/var/tmp".into() } else { std::env::temp_dir() };
    let place = tempfile::tempdir_in(base).expect("a directory");
    let text = include_str!("support/cli_stand_in.py");
    let text = text.replace("NATURE = \"obeys\"", &format!("NATURE = \"{nature}\""));
    let program = place.path().join("cli");
    fs::write(&program, text).expect("a file");
    for path in [place.path(), &program] {
        fs::set_permissions(path, Permissions::from_mode(0o755)).expect("its mode");
    }
    let program = program.to_str().expect("UTF-8").to_owned();
    Some((place, program))
}

/// What the probe says of a CLI that breaks the promises with these words in them.
fn check_nature(nature: &str, mode: WallMode, broken: &[&str]) {
    let Some((_place, program)) = stand_in(nature) else { return };
    let spec = AgentProbe { mode, ..spec(&program, "dontAsk") };
    let (code, report) = probe(&serde_json::to_string(&spec).expect("JSON"));
    let report = report.expect("a report");
    assert_eq!(report.version, "9.9.1", "{nature}: {report:#?}");
    for check in &report.checks {
        let kept = !broken.iter().any(|words| check.what.contains(words));
        assert_eq!(check.holds, kept, "{nature}, {}: {report:#?}", check.what);
    }
    let failed = report.checks.iter().filter(|check| !check.holds).count();
    assert_eq!((failed, code), (broken.len(), Some(i32::from(!broken.is_empty()))), "{nature}");
}

#[test]
fn the_probe_finds_which_promise_is_broken() {
    let open = ["status 1", "crashes", "in time", "not there"];
    let settings = ["of a repository", "written during"];
    let silent = ["told why", "of a repository", "written during"];
    let natures = [
        ("obeys", WallMode::Enforced, &[][..]),
        ("obeys", WallMode::HookOnly, &[]),
        ("fails open", WallMode::Enforced, &open),
        ("reads settings", WallMode::Enforced, &settings),
        ("says nothing", WallMode::Enforced, &silent),
    ];
    // Most of it is waiting: for a guard that is late, and for settings that might be read again.
    std::thread::scope(|scope| {
        for (nature, mode, broken) in natures {
            scope.spawn(move || check_nature(nature, mode, broken));
        }
    });
}
