//! The probe of the agent's CLI: what fails it starts nothing, everybody is told, and nothing is left of a probe.

#[path = "support/fleet.rs"]
mod fleet;
#[path = "support/messages_stand_in.rs"]
mod messages_stand_in;
#[path = "support/server.rs"]
mod support;

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fleet::Fleet;
use messages_stand_in::{Script, StandIn, Turn};
use rusqlite::Connection;
use serde_json::{Value, json};
use support::{Server, data_dir, wait_until, wait_within};
use tempfile::TempDir;

/// A whole probe waits for a late guard and for settings that might be read again.
const SLOW: Duration = Duration::from_secs(90);

/// A program where every user can run it.
struct Program {
    place: TempDir,
}

impl Program {
    fn new(text: &str) -> Program {
        let program = Program { place: data_dir() };
        fs::set_permissions(program.place.path(), Permissions::from_mode(0o755)).expect("its mode");
        program.becomes(text);
        program
    }

    fn path(&self) -> PathBuf {
        self.place.path().join("claude")
    }

    /// Another file under the same name, as an update leaves it.
    fn becomes(&self, text: &str) {
        let new = self.place.path().join("new");
        fs::write(&new, text).expect("a file");
        fs::set_permissions(&new, Permissions::from_mode(0o755)).expect("its mode");
        fs::rename(&new, self.path()).expect("renamed");
    }
}

fn fleet_with(program: &Program) -> Fleet {
    let path = program.path();
    let path = path.to_str().expect("UTF-8");
    Fleet::start_by(|data| {
        Server::start_with(data, &[], &[("OPKIT_CLAUDE", path), ("OPKIT_DEMO_SPEED", "0")])
    })
}

fn doctor(fleet: &Fleet, args: &[&str]) -> (Option<i32>, String) {
    let output = fleet.server.cli(&[&["doctor"], args].concat());
    (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
}

fn board(fleet: &Fleet) -> String {
    let cookie = fleet.server.cookie();
    fleet.server.request("GET", "/").header("cookie", &cookie).send().body
}

/// What is stored of the last probe.
fn stored(data: &Path) -> Value {
    let database = Connection::open(data.join("db/opkit.db")).expect("a database");
    let text: Result<String, _> =
        database.query_row("SELECT value FROM setting WHERE name = 'probed.claude'", [], |row| row.get(0));
    text.map_or(Value::Null, |text| serde_json::from_str(&text).expect("JSON"))
}

fn wait_for_board(fleet: &Fleet, words: &str) {
    wait_within(SLOW, &format!("the board to say “{words}”"), || {
        let page = board(fleet);
        if page.contains(words) { Ok(()) } else { Err(page) }
    });
}

#[test]
fn a_cli_that_fails_its_probe_starts_nothing_until_it_is_another() {
    let program = Program::new("#!/bin/sh\nexit 0\n");
    let fleet = fleet_with(&program);
    wait_for_board(&fleet, "failed its probe");

    let held = fleet.add(&json!({"agent": "claude"}));
    let other = fleet.add_script("good");
    assert_eq!(fleet.rests(other)["status"], "done", "other agents work: {}", fleet.story(other));
    let (code, text) = doctor(&fleet, &[]);
    assert_eq!(code, Some(1), "{text}");
    let line = text.lines().find(|line| line.contains("failed its probe")).unwrap_or_default();
    assert!(
        line.starts_with("!! Claude Code of an unknown version") && line.contains("doctor --agent"),
        "{text}"
    );
    let (code, text) = doctor(&fleet, &["--agent"]);
    let cases = text.lines().filter(|line| line.starts_with("!! ")).count();
    assert!(
        code == Some(1) && cases >= 8 && text.contains(&format!("0 of {cases} as they must be")),
        "{text}"
    );
    // Somebody who enables after a stop has not looked at the agent.
    assert!(fleet.server.cli(&["enable"]).status.success());
    assert!(board(&fleet).contains("failed its probe"));

    let first = stored(fleet.data());
    program.becomes("#!/bin/sh\nexit 1\n");
    let next = wait_within(SLOW, "another program to be probed by itself", || {
        let next = stored(fleet.data());
        if next["of"] != first["of"] { Ok(next) } else { Err(next.to_string()) }
    });
    assert!(next["cases"].as_array().is_some_and(|cases| cases.iter().all(|case| case["fine"] == false)));
    assert_eq!(fleet.objective(held)["status"], "queue", "{}", fleet.story(held));
    assert!(fleet.sessions(held).is_empty());
    wait_until("nothing to be left of it", || {
        let left = fs::read_dir(fleet.data().join("probe")).expect("its place").count();
        if left == 0 { Ok(()) } else { Err(format!("{left} directories")) }
    });
}

#[test]
fn a_cli_that_keeps_its_promises_starts_and_one_that_lies_about_its_version_is_stopped() {
    if !Path::new("/usr/bin/python3").exists() {
        eprintln!("skipped: the stand-in for a CLI needs python3");
        return;
    }
    let cli = include_str!("../session/tests/support/cli_stand_in.py");
    let program = Program::new(cli);
    let fleet = fleet_with(&program);
    // Nothing to do: its sessions end as finished and have delivered nothing.
    let model = StandIn::start(vec![Script { name: "any", known_by: "", turns: vec![Turn::Says("Done.")] }]);
    fs::write(fleet.data().join("claude-base-url"), format!("http://{}\n", model.address))
        .expect("an address");
    let key = fleet.data().join("keys/anthropic");
    fs::write(&key, "dummy-of-a-test\n").expect("a key");
    fs::set_permissions(&key, Permissions::from_mode(0o600)).expect("its mode");

    let first = fleet.add(&json!({"agent": "claude", "title": "Of the version that was probed"}));
    wait_within(SLOW, "the version to be probed", || {
        let (_, text) = doctor(&fleet, &[]);
        let good = |line: &&str| line.starts_with("ok Claude Code 9.9.1: probed on ");
        text.lines().find(good).map(|_| ()).ok_or(text.clone())
    });
    assert_eq!(first_outcome(&fleet, first), "finished");
    assert_eq!(model.asked("any", 0).key, "dummy-of-a-test");

    // It says one version to the probe and another one to sessions.
    let before = stored(fleet.data());
    program.becomes(&cli.replace(
        "VERSION = \"9.9.1\"",
        "VERSION = \"6.6.6\" if \"OPKIT_SESSION\" in os.environ else \"9.9.2\"",
    ));
    let probed = wait_within(SLOW, "the other program to be probed", || {
        let now = stored(fleet.data());
        if now["of"] != before["of"] { Ok(now) } else { Err(now.to_string()) }
    });
    assert_eq!(probed["version"], "9.9.2");
    let second = fleet.add(&json!({"agent": "claude", "title": "Of a version that was not"}));
    assert_eq!(first_outcome(&fleet, second), "never_ran", "{}", fleet.story(second));
    assert!(fleet.story(second).contains("only 9.9.2 was probed"), "{}", fleet.story(second));
    wait_within(SLOW, "the doubted program to be probed again", || {
        let now = stored(fleet.data());
        if now["at_ms"].as_i64() > probed["at_ms"].as_i64() { Ok(()) } else { Err(now.to_string()) }
    });
}

/// How the first session of an objective ended.
fn first_outcome(fleet: &Fleet, id: i64) -> String {
    wait_within(SLOW, "its first session to end", || {
        let sessions = fleet.sessions(id);
        let ended = sessions.iter().rev().find_map(|session| session["outcome"].as_str());
        ended.map(str::to_owned).ok_or_else(|| fleet.story(id))
    })
}

#[test]
fn a_probe_ends_with_its_server() {
    let program = Program::new("#!/bin/sh\nexec sleep 300\n");
    let fleet = fleet_with(&program);
    let held = fleet.add(&json!({"agent": "claude"}));
    wait_for_board(&fleet, "Claude Code is being probed");
    let place = fleet.data().join("probe");
    wait_until("the CLI to run", || if at_work(&place) > 0 { Ok(()) } else { Err("it does not".to_owned()) });
    assert_eq!(fleet.objective(held)["status"], "queue", "{}", fleet.story(held));
    let dead = fleet.kill();
    wait_until("everything of the probe to end", || match at_work(&place) {
        0 => Ok(()),
        left => Err(format!("{left} processes")),
    });
    wait_until("its place to be cleared", || {
        let left = fs::read_dir(&place).expect("its place").count();
        if left == 0 { Ok(()) } else { Err(format!("{left} directories")) }
    });
    drop(dead);
}

#[test]
fn a_cli_that_the_agents_user_cannot_reach_is_named_with_what_mends_it() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root has agents of another user");
        return;
    }
    let program = Program::new("#!/bin/sh\nexit 0\n");
    fs::set_permissions(program.place.path(), Permissions::from_mode(0o700)).expect("its mode");
    let fleet = fleet_with(&program);
    wait_for_board(&fleet, "Claude Code could not be probed");
    let (code, text) = doctor(&fleet, &[]);
    let mends = format!("chmod o+rx {}", program.place.path().display());
    assert!(code == Some(1) && text.contains(&mends), "{text}");
    assert_eq!(stored(fleet.data()), Value::Null);
}

/// Living processes whose environment names a place.
fn at_work(place: &Path) -> usize {
    let name = format!("={}/", place.display());
    let names = |file: PathBuf| {
        let bytes = fs::read(file).unwrap_or_default();
        bytes.windows(name.len()).any(|window| window == name.as_bytes())
    };
    let entries = fs::read_dir("/proc").expect("processes").flatten();
    entries.filter(|entry| names(entry.path().join("environ"))).count()
}
