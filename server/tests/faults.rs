//! Faults of the machine: a disk that is full or nearly so, a clock that was set back, a copy that was cut off, and
//! variables that nobody knows.

#[path = "support/fleet.rs"]
mod fleet;
#[path = "support/server.rs"]
mod support;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use fleet::{Fleet, agent_pid, items, record_len, session_dir, whole_record};
use rusqlite::Connection;
use serde_json::{Value, json};
use support::{OWNER, PASSWORD, Server, data_dir, output_of, run, wait_until};
use tempfile::TempDir;

/// A small file system of its own, gone with this value.
struct SmallDisk {
    place: TempDir,
}

impl SmallDisk {
    /// None where this machine does not let us mount one.
    fn make(size: &str) -> Option<SmallDisk> {
        let place = data_dir();
        let options = format!("size={size},mode=0711");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &options, "tmpfs"])
            .arg(place.path())
            .output()
            .is_ok_and(|output| output.status.success());
        mounted.then_some(SmallDisk { place })
    }

    fn ballast(&self) -> PathBuf {
        self.place.path().join("ballast")
    }

    /// Writes until nothing fits any more.
    fn fill(&self) {
        let mut file = fs::OpenOptions::new().create(true).append(true).open(self.ballast()).expect("a file");
        for size in [1 << 20, 1 << 12] {
            let block = vec![b'x'; size];
            while file.write_all(&block).is_ok() {}
        }
    }

    fn empty(&self) {
        fs::remove_file(self.ballast()).expect("the ballast");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.place.path()).status();
    }
}

fn create(fleet: &Fleet, title: &str) -> support::Answer {
    fleet.post("/api/v1/objectives", &fleet::objective(&json!({"title": title, "hold": true})))
}

#[test]
fn a_full_disk_loses_nothing_and_is_over_when_there_is_room() {
    let Some(disk) = SmallDisk::make("320m") else {
        eprintln!("skipped: this machine does not let the test mount a small file system");
        return;
    };
    let fleet = Fleet::start_by(|data| {
        let small =
            tempfile::Builder::new().prefix("opkit-").tempdir_in(disk.place.path()).expect("a directory");
        let copied = Command::new("cp").arg("-a").arg(data.path().join(".")).arg(small.path()).status();
        assert!(copied.expect("cp runs").success());
        let variables =
            [("MAX_CONCURRENT_SESSIONS", "4"), ("OPKIT_DEMO_SPEED", "0"), ("OPKIT_MIN_FREE_MB", "2")];
        Server::start_with(small, &[], &variables)
    });
    let id = fleet.add_script("floods-slow:8");
    let session = fleet.works(id);
    let dir = session_dir(fleet.data(), &session);
    let pid = fleet.server.pid();
    wait_until("the flood", || {
        let len = record_len(&dir);
        if len > 200_000 { Ok(()) } else { Err(format!("{len} bytes")) }
    });
    disk.fill();

    // What a person asks for is refused with the reason. What fits into files that are there may still be stored.
    let mut made = 0i64;
    let refused = wait_until("a refusal", || {
        let answer = create(&fleet, "One more");
        match answer.status {
            201 => {
                made += 1;
                Err(format!("{made} were stored"))
            }
            _ => Ok(answer),
        }
    });
    assert_eq!(refused.status, 507, "{}", refused.body);
    assert!(refused.body.contains("The disk is full"), "{}", refused.body);
    assert_eq!(fleet.server.get("/healthz").status, 200);
    assert_eq!(fleet.objective(id)["status"], "working", "reading goes on");
    let doctor = fleet.server.cli(&["doctor"]);
    let doctor = String::from_utf8_lossy(&doctor.stdout).into_owned();
    assert!(doctor.contains("!! 0 MB free; below 2 MB nothing starts"), "{doctor}");
    // The record waits: the agent is held back, and nobody pretends that it went on.
    let (mut last, mut same) = (record_len(&dir), 0);
    wait_until("the record to stand", || {
        let len = record_len(&dir);
        same = if len == last { same + 1 } else { 0 };
        last = len;
        // A flood of a megabyte a second does not rest for half a second.
        if same >= 25 { Ok(()) } else { Err(format!("{len} bytes")) }
    });
    assert!(Path::new(&format!("/proc/{}", agent_pid(&dir))).exists(), "the agent waits");
    let account = fleet.sessions(id)[0]["account"].as_str().expect("an account").to_owned();
    let socket = fleet.data().join(format!("run/tmux/{account}.sock"));
    wait_until("the window to say so", || {
        let pane = Command::new("tmux")
            .arg("-S")
            .arg(&socket)
            .args(["capture-pane", "-p", "-t", &format!("=opkit:obj-{id}")])
            .output()
            .expect("tmux runs");
        let pane = String::from_utf8_lossy(&pane.stdout).into_owned();
        if pane.contains("cannot be written") { Ok(()) } else { Err(pane) }
    });

    disk.empty();
    wait_until("room", || {
        let answer = create(&fleet, "The next");
        if answer.status == 201 { Ok(()) } else { Err(answer.body) }
    });
    assert_eq!(fleet.rests(id)["status"], "done", "{}", fleet.story(id));
    assert_eq!(fleet.server.pid(), pid, "it was one server all the time");
    assert_eq!(fleet.sessions(id).iter().filter(|session| session["role"] == "work").count(), 1);
    let flood = whole_record(&dir).flood();
    assert!(flood.len() > 50_000, "{} lines", flood.len());
    let count = "SELECT COUNT(*) FROM objective WHERE title = 'One more'";
    let stored: i64 = database(fleet.data()).query_row(count, [], |row| row.get(0)).expect("a number");
    assert_eq!(stored, made, "what was refused was not stored, what was confirmed was");
    copy_is_whole(fleet.data());
}

#[test]
fn with_little_room_nothing_new_starts_and_the_board_says_so() {
    let data = data_dir();
    output_of(data.path(), &["setup", "--owner", OWNER, "--password-stdin"], PASSWORD);
    let server = Server::start_with(data, &[], &[("OPKIT_MIN_FREE_MB", "99999999")]);
    let folder = data_dir();
    let path = support::repository(folder.path());
    output_of(server.data.path(), &["repos", "add", &path, "--name", "sample"], "");
    let token = server.token();
    let body = fleet::objective(&json!({"script": "good"})).to_string();
    let made = server.request("POST", "/api/v1/objectives").bearer(&token).json(&body).send();
    let id = made.json()["id"].as_i64().expect("a number");
    let cookie = server.cookie();
    wait_until("the board to say so", || {
        let page = server.request("GET", "/").header("cookie", &cookie).send();
        let there =
            page.body.contains("Disk is low:") && page.body.contains("below 99999999 MB nothing new starts");
        if there { Ok(()) } else { Err(page.body) }
    });
    // The dispatcher has had its turn when it has looked; then there is still no session.
    wait_until("the dispatcher's turn", || {
        let page = server.request("GET", "/health").header("cookie", &cookie).send();
        let row = page.body.split("data-task=\"dispatcher\"").nth(1).unwrap_or_default().to_owned();
        if row.contains(">ok<") { Ok(()) } else { Err(page.body) }
    });
    let path = format!("/api/v1/objectives/{id}");
    let sessions = format!("{path}/sessions");
    assert_eq!(items(server.request("GET", &sessions).bearer(&token).send().json()), Vec::<Value>::new());
    let data = server.kill_hard();
    let server = Server::start_with(data, &[], &[("OPKIT_MIN_FREE_MB", "1"), ("OPKIT_DEMO_SPEED", "0")]);
    wait_until("it to be done", || {
        let card = server.request("GET", &path).bearer(&token).send().json();
        if card["status"] == "done" { Ok(()) } else { Err(card.to_string()) }
    });
}

fn database(data: &Path) -> Connection {
    let connection = Connection::open(data.join("db/opkit.db")).expect("a database");
    connection.busy_timeout(Duration::from_secs(10)).expect("a time limit");
    connection
}

/// The copy of the audit holds every row once, in order.
fn copy_is_whole(data: &Path) {
    wait_until("the copy to hold every row once", || {
        let connection = database(data);
        let mut rows = connection.prepare("SELECT id FROM audit ORDER BY id").expect("a statement");
        let rows: Vec<i64> = rows.query_map([], |row| row.get(0)).expect("rows").flatten().collect();
        let text = fs::read_to_string(data.join("audit/launches.jsonl")).expect("the copy");
        let lines: Vec<i64> = text
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok()?["id"].as_i64())
            .collect();
        let whole = !rows.is_empty() && rows == lines && text.ends_with('\n');
        if whole { Ok(()) } else { Err(format!("rows {rows:?}, lines {lines:?}")) }
    });
}

#[test]
fn the_copy_of_the_audit_survives_kills_and_a_torn_line() {
    let mut fleet = Fleet::start(4);
    let ids: Vec<i64> = (0..4).map(|_| fleet.add_script("good")).collect();
    for round in 0..5 {
        // Any moment: the row that was stored last is what must not get lost.
        assert_eq!(create(&fleet, &format!("Kill {round}")).status, 201);
        let dead = fleet.kill();
        let file = dead.data.path().join("audit/launches.jsonl");
        let len = fs::metadata(&file).map_or(0, |meta| meta.len());
        if let (true, Ok(file)) = (round % 2 == 0, fs::OpenOptions::new().write(true).open(&file)) {
            file.set_len(len.saturating_sub(7)).expect("a torn line");
        }
        fleet = dead.start();
    }
    for id in &ids {
        assert_eq!(fleet.rests(*id)["status"], "done", "{}", fleet.story(*id));
    }
    copy_is_whole(fleet.data());
    // A launch has two phases, and both name the run.
    let text = fs::read_to_string(fleet.data().join("audit/launches.jsonl")).expect("the copy");
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let mut confirmed = 0;
    for session in ids.iter().flat_map(|id| fleet.sessions(*id)) {
        let phases: Vec<_> = lines
            .iter()
            .filter(|line| line["action"] == "launch" && line["run"] == session["id"])
            .map(|line| line["parameters"]["phase"].as_str().unwrap_or_default())
            .collect();
        // One that ran and ended while no server looked was never seen running.
        confirmed += usize::from(phases == ["intent", "confirmed", "ended"]);
        assert!(phases.len() == 3 || phases == ["intent", "ended"], "{phases:?}");
    }
    assert!(confirmed > 0);
    let all = text.as_str();
    assert!(!all.contains(&fleet.token) && !all.contains(PASSWORD));
    let bits = std::os::unix::fs::PermissionsExt::mode(
        &fs::metadata(fleet.data().join("audit/launches.jsonl")).expect("the copy").permissions(),
    );
    assert_eq!(bits & 0o777, 0o600);
}

#[test]
fn a_clock_that_was_set_back_two_hours_holds_nothing_up() {
    // To rows, a clock that was set back is the same as times that lie ahead.
    const AHEAD: &str = "(SELECT MAX(since) FROM objective) + 7200000";
    let fleet = Fleet::start(4);
    let id = fleet.add(&json!({"hold": true, "script": "good"}));
    let again = fleet.add_script("crashes");
    wait_until("a pause before the next try", || {
        let failed = fleet.sessions(again).iter().any(|session| session["outcome"] == "failed");
        if failed { Ok(()) } else { Err(fleet.story(again)) }
    });
    let cookie = fleet.server.cookie();
    let all = [
        format!(
            "UPDATE objective SET not_before = {AHEAD}, since = {AHEAD}, created_at = {AHEAD}, hold = 0
            WHERE status IN ('queue', 'working')"
        ),
        format!("UPDATE session SET deadline = {AHEAD}, started_at = {AHEAD} WHERE state <> 'ended'"),
    ];
    for statement in all {
        database(fleet.data()).execute(&statement, []).expect("it is changed");
    }
    // While it runs, and as well by a start.
    assert_eq!(fleet.rests(id)["status"], "done", "{}", fleet.story(id));
    assert_eq!(fleet.rests(again)["attention"], "session_lost", "{}", fleet.story(again));
    let login = "UPDATE login_session SET expires_at = expires_at + 7200000";
    database(fleet.data()).execute(login, []).expect("it is changed");
    assert_eq!(fleet.server.request("GET", "/").header("cookie", &cookie).send().status, 200);
    let third = fleet.add(&json!({"hold": true, "script": "good"}));
    let dead = fleet.kill();
    let statement = format!("UPDATE objective SET hold = 0, not_before = {AHEAD} WHERE id = {third}");
    database(dead.data.path()).execute(&statement, []).expect("it is changed");
    let fleet = dead.start();
    assert_eq!(fleet.rests(third)["status"], "done", "{}", fleet.story(third));
}

#[test]
fn variables_that_nobody_knows_are_said() {
    let data = data_dir();
    // The command runs in its data directory.
    fs::write(data.path().join(".env"), "OPKIT_MINFREE_MB=5\n").expect("a file");
    let output = run(data.path(), &["serve", "--listen", "127.0.0.1:0"], "");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success());
    assert!(
        errors.contains(".env, line 1") && errors.contains("Did you mean OPKIT_MIN_FREE_MB?"),
        "{errors}"
    );
    fs::write(data.path().join(".env"), "OPKIT_MIN_FREE_MB=many\n").expect("a file");
    let output = run(data.path(), &["serve", "--listen", "127.0.0.1:0"], "");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(errors.contains("OPKIT_MIN_FREE_MB is “many”"), "{errors}");
    // One odd byte of somebody else's must not hide what is said to us.
    fs::write(data.path().join(".env"), b"OTHERS=\xe9\nOPKIT_MIN_FREE_MB=some\n").expect("a file");
    let output = run(data.path(), &["serve", "--listen", "127.0.0.1:0"], "");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(errors.contains("OPKIT_MIN_FREE_MB is “some”"), "{errors}");
    fs::write(data.path().join(".env"), "OPKIT_MIN_FREE_MB=5\nOTHERS=1\n").expect("a file");
    let server = Server::start_with(data, &[], &[("OPKIT_LISTN", "x")]);
    assert_eq!(server.get("/healthz").status, 200);
}

#[test]
fn alive_is_not_ready_while_sessions_cannot_be_looked_at() {
    let fleet = Fleet::start(4);
    let id = fleet.add_script("good");
    assert_eq!(fleet.rests(id)["status"], "done", "{}", fleet.story(id));
    let dead = fleet.kill();
    // A row that no poller understands.
    let bad = "INSERT INTO session (id, client_id, objective_id, role, state, account, agent, actor, round, deadline,
            wall_clock_s, started_at)
        SELECT '00000000-0000-4000-8000-000000000000', client_id, objective_id, 'nonsense', 'running', account, agent,
            actor, round, deadline, wall_clock_s, started_at FROM session LIMIT 1";
    assert_eq!(database(dead.data.path()).execute(bad, []).expect("it is stored"), 1);
    let fleet = dead.start();
    let alive = fleet.server.get("/healthz");
    assert_eq!((alive.status, alive.body.as_str()), (200, "ok\n"));
    let id = fleet.add_script("good");
    let cookie = fleet.server.cookie();
    wait_until("the failure to be shown", || {
        let page = fleet.server.request("GET", "/health").header("cookie", &cookie).send().body;
        let row = page.split("data-task=\"state poller\"").nth(1).unwrap_or_default().to_owned();
        let shown = row.split("</tr>").next().is_some_and(|row| row.contains("nonsense"));
        if shown { Ok(()) } else { Err(page) }
    });
    let ready = fleet.server.get("/readyz");
    assert_eq!((ready.status, ready.body.as_str()), (503, "not ready: sessions are being looked at\n"));
    assert_eq!(fleet.objective(id)["status"], "queue", "nothing is claimed before that");
    database(fleet.data()).execute("DELETE FROM session WHERE role = 'nonsense'", []).expect("it is gone");
    wait_until("it to be ready", || {
        let ready = fleet.server.get("/readyz");
        if ready.status == 200 { Ok(()) } else { Err(ready.body) }
    });
    assert_eq!(fleet.rests(id)["status"], "done", "{}", fleet.story(id));
}
