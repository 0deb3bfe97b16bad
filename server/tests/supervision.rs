//! What keeps running when something else ends: tmux servers, sessions, and the supervisor of a bare container.

#[path = "support/fleet.rs"]
mod fleet;
#[path = "support/server.rs"]
mod support;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use fleet::{Fleet, kill, runner_pid, session_dir};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use support::{wait_until, wait_within};

fn socket(data: &Path, account: &str) -> PathBuf {
    data.join("run/tmux").join(format!("{account}.sock"))
}

/// Every tmux server of a data directory, by account.
fn tmux_servers(data: &Path) -> BTreeMap<String, Vec<u32>> {
    let begin = format!("\0-S\0{}/run/tmux/", data.display());
    let mut found: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    for entry in fs::read_dir("/proc").expect("/proc").flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let name = fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line);
        if let (true, Some((_, rest))) = (name.starts_with("tmux: server"), line.split_once(&begin)) {
            let account = rest.split(".sock\0").next().unwrap_or_default();
            found.entry(account.to_owned()).or_default().push(pid);
        }
    }
    found
}

fn signal(pid: u32, signal: Signal) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).expect("a process number");
    kill_process(pid, signal).expect("it lives");
}

/// One session that hangs on each of the five accounts: objective, session and account.
fn one_on_each(fleet: &Fleet) -> Vec<(i64, String, String)> {
    let ids: Vec<i64> = (0..5).map(|_| fleet.add_script("hangs")).collect();
    let mut list: Vec<_> = ids
        .into_iter()
        .map(|id| {
            let session = fleet.works(id);
            let account = fleet.sessions(id)[0]["account"].as_str().expect("an account").to_owned();
            (id, session, account)
        })
        .collect();
    list.sort_by(|a, b| a.2.cmp(&b.2));
    let accounts: Vec<_> = list.iter().map(|(_, _, account)| account.as_str()).collect();
    assert_eq!(accounts, ["ccuser-0", "ccuser-1", "ccuser-2", "ccuser-3", "ccuser-4"]);
    list
}

fn runners(fleet: &Fleet, sessions: &[(i64, String, String)]) -> Vec<Option<u32>> {
    sessions.iter().map(|(_, session, _)| runner_pid(&session_dir(fleet.data(), session))).collect()
}

/// The windows that a person would see.
fn windows(data: &Path, account: &str) -> String {
    let output = Command::new("tmux")
        .arg("-S")
        .arg(socket(data, account))
        .args(["list-windows", "-a", "-F", "#{window_name}"])
        .output()
        .expect("tmux runs");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_lost_socket_is_made_again_by_the_same_server() {
    let fleet = Fleet::start(8);
    let sessions = one_on_each(&fleet);
    let (before, then) = (tmux_servers(fleet.data()), runners(&fleet, &sessions));
    assert!(before.len() == 5 && before.values().all(|pids| pids.len() == 1), "{before:?}");
    for (_, _, account) in &sessions {
        fs::remove_file(socket(fleet.data(), account)).expect("a socket");
    }
    let id = fleet.add_script("good");
    assert_eq!(fleet.rests(id)["status"], "done", "{}", fleet.story(id));
    assert_eq!(tmux_servers(fleet.data()), before, "no server more, none less");
    assert_eq!(runners(&fleet, &sessions), then);
    for session in fleet.sessions(id) {
        let account = session["account"].as_str().expect("an account");
        let seen = windows(fleet.data(), account);
        let other = sessions.iter().find(|(_, _, name)| name == account).expect("a session there").0;
        for id in [id, other] {
            assert!(seen.lines().any(|line| line == format!("obj-{id}")), "{account}: {seen}");
        }
    }
    // The note is lost, too, as after a start that was cut off: still no second server.
    for (_, _, account) in &sessions {
        fs::remove_file(socket(fleet.data(), account).with_extension("json")).expect("a note");
        let _ = fs::remove_file(socket(fleet.data(), account));
    }
    let id = fleet.add_script("good");
    assert_eq!(fleet.rests(id)["status"], "done", "{}", fleet.story(id));
    assert_eq!(tmux_servers(fleet.data()), before, "no server more, none less");
}

#[test]
fn who_is_next_finds_a_server() {
    let fleet = Fleet::start(4);
    // As many as checkouts are made ahead: two.
    let before = wait_until("two servers before any start", || {
        let servers = tmux_servers(fleet.data());
        if servers.len() == 2 { Ok(servers) } else { Err(format!("{servers:?}")) }
    });
    let id = fleet.add_script("good");
    assert_eq!(fleet.rests(id)["status"], "done", "{}", fleet.story(id));
    for session in fleet.sessions(id) {
        let account = session["account"].as_str().expect("an account");
        assert!(before.contains_key(account), "{account} is not among {before:?}");
    }
    let after = tmux_servers(fleet.data());
    assert!(before.iter().all(|(account, pids)| after.get(account) == Some(pids)), "{before:?}, {after:?}");
}

#[test]
fn a_dead_server_leaves_a_socket_and_sessions_that_go_on() {
    let fleet = Fleet::start(8);
    let sessions = one_on_each(&fleet);
    let (before, then) = (tmux_servers(fleet.data()), runners(&fleet, &sessions));
    for pid in before.values().flatten() {
        kill(*pid);
    }
    wait_until("tmux to be gone", || {
        let left = tmux_servers(fleet.data());
        if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
    });
    assert!(sessions.iter().all(|(_, _, account)| socket(fleet.data(), account).exists()));
    let id = fleet.add_script("good");
    assert_eq!(fleet.rests(id)["status"], "done", "{}", fleet.story(id));
    assert_eq!(fleet.sessions(id).len(), 2, "one work and one review: {}", fleet.story(id));
    let after = tmux_servers(fleet.data());
    assert!(!after.is_empty() && after.values().all(|pids| pids.len() == 1), "{after:?}");
    assert!(after.values().flatten().all(|pid| !before.values().flatten().any(|old| old == pid)));
    assert_eq!(runners(&fleet, &sessions), then, "a window is a view: nobody's session ended with it");
}

#[test]
fn a_server_that_does_not_answer_holds_up_its_own_account_only() {
    let fleet = Fleet::start(12);
    let sessions = one_on_each(&fleet);
    let (ended, _, account) = &sessions[0];
    assert_eq!(fleet.post(&format!("/api/v1/objectives/{ended}/cancel"), &json!({})).status, 200);
    wait_until("its account to be the least loaded", || {
        let live = fleet.live();
        let free = live.iter().all(|session| session["account"] != account.as_str());
        if free { Ok(()) } else { Err(format!("{live:?}")) }
    });
    let server = tmux_servers(fleet.data())[account][0];
    signal(server, Signal::STOP);
    let stuck = fleet.add_script("good");
    wait_until("the claim", || {
        let there =
            fleet.sessions(stuck).first().is_some_and(|session| session["account"] == account.as_str());
        if there { Ok(()) } else { Err(fleet.story(stuck)) }
    });
    // Others are claimed, started, reviewed and done meanwhile.
    let others: Vec<i64> = (0..3).map(|_| fleet.add_script("good")).collect();
    for id in &others {
        assert_eq!(fleet.rests(*id)["status"], "done", "{}", fleet.story(*id));
    }
    let mine = fleet.sessions(stuck);
    assert!(
        mine.iter().all(|session| session["outcome"] != "finished" || session["account"] != account.as_str())
    );
    let (alive, ready) = (fleet.server.get("/healthz"), fleet.server.get("/readyz"));
    assert_eq!((alive.status, ready.status), (200, 200), "{}", ready.body);
    // The start fails with a sentence, and the next try is another account's.
    wait_within(Duration::from_secs(30), "the start to fail", || {
        let story = fleet.story(stuck);
        if story.contains("does not answer") { Ok(()) } else { Err(story) }
    });
    assert_eq!(fleet.rests(stuck)["status"], "done", "{}", fleet.story(stuck));
    let began = |id: i64| fleet.sessions(id).iter().filter_map(|s| s["started_at"].as_i64()).min();
    let failed = fleet.sessions(stuck).iter().filter_map(|s| s["ended_at"].as_i64()).min();
    for id in &others {
        assert!(began(*id) < failed, "#{id} waited for the stuck start: {}", fleet.story(*id));
    }
    // It answers again: its account has its turn again, by the same server.
    signal(server, Signal::CONT);
    wait_within(Duration::from_secs(60), "its account to be used again", || {
        let id = fleet.add_script("good");
        assert_eq!(fleet.rests(id)["status"], "done", "{}", fleet.story(id));
        let used = fleet.sessions(id).iter().any(|session| session["account"] == account.as_str());
        if used { Ok(()) } else { Err(fleet.story(id)) }
    });
    assert_eq!(tmux_servers(fleet.data())[account], [server]);
}

#[test]
fn a_stop_waits_for_no_session_and_they_go_on() {
    let fleet = Fleet::start(4);
    let id = fleet.add_script("slow:4");
    let session = fleet.works(id);
    let data = fleet.data().to_owned();
    let runner = runner_pid(&session_dir(&data, &session));
    assert_eq!(fleet.server.get("/readyz").status, 200);
    let Fleet { server, .. } = fleet;
    let (code, dir) = server.terminate();
    assert_eq!(code, Some(0));
    assert!(runner.is_some());
    assert_eq!(runner_pid(&session_dir(&data, &session)), runner);
    support::end_sessions(dir.path());
}

/// `entrypoint.sh` with a program of the test's own in the server's place.
struct Supervisor {
    folder: tempfile::TempDir,
    child: Child,
}

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/entrypoint.sh");

impl Supervisor {
    fn start(before: &[&str], program: &str) -> Supervisor {
        let folder = support::data_dir();
        let path = folder.path().join("program");
        fs::write(&path, format!("#!/bin/sh\ncd {}\n{program}", folder.path().display())).expect("a program");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("its mode");
        Supervisor::of(folder, before, &path, &[])
    }

    fn of(folder: tempfile::TempDir, before: &[&str], program: &Path, args: &[&str]) -> Supervisor {
        let mut words = before.iter().chain(&["/bin/sh", SCRIPT]).chain(args);
        let mut command = Command::new(words.next().expect("a word"));
        let errors = fs::File::create(folder.path().join("errors")).expect("a file");
        command.args(words).env("OPKIT", program).env("OPKIT_RESTART_FIRST_S", "1").stdin(Stdio::null());
        command.env_remove("OPKIT_DATA").env_remove("OPKIT_LISTEN");
        let child = command.stdout(Stdio::null()).stderr(errors).current_dir(folder.path()).spawn();
        Supervisor { folder, child: child.expect("it starts") }
    }

    fn errors(&self) -> String {
        fs::read_to_string(self.folder.path().join("errors")).unwrap_or_default()
    }

    fn waits_for(&self, name: &str) -> String {
        wait_until(name, || {
            let text =
                fs::read_to_string(self.folder.path().join(name)).map_err(|error| error.to_string())?;
            if text.is_empty() { Err("empty".to_owned()) } else { Ok(text) }
        })
    }

    fn ask(&self, pid: u32) {
        signal(pid, Signal::TERM);
    }

    fn ends(&mut self) -> Option<i32> {
        let child = &mut self.child;
        wait_until("the supervisor to end", || {
            child.try_wait().expect("its status").ok_or_else(|| "it runs".to_owned())
        })
        .code()
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_program_that_is_not_there_is_no_clean_end() {
    let mut supervisor = Supervisor::of(support::data_dir(), &[], Path::new("/nonexistent/opkit"), &[]);
    wait_until("the word on it", || {
        let said = supervisor.errors();
        if said.contains("ended with status 127") { Ok(()) } else { Err(said) }
    });
    supervisor.ask(supervisor.child.id());
    assert_eq!(supervisor.ends(), Some(127));
}

#[test]
fn the_supervisor_ends_with_the_true_status() {
    // By itself: a clean end and a command line that is not understood. Nothing is tried again.
    for status in [0, 2] {
        let mut supervisor = Supervisor::start(&[], &format!("echo x >> starts\nexit {status}\n"));
        assert_eq!(supervisor.ends(), Some(status));
        assert_eq!(supervisor.waits_for("starts"), "x\n");
    }
    // On request: what the program says then.
    let program = "trap 'exit 5' TERM\necho $$ > here\nwhile :; do sleep 0.05; done\n";
    let mut supervisor = Supervisor::start(&[], program);
    supervisor.waits_for("here");
    supervisor.ask(supervisor.child.id());
    assert_eq!(supervisor.ends(), Some(5));
    // On request between two tries: what the last try said.
    let mut supervisor = Supervisor::start(&[], "exit 3\n");
    wait_until("the pause", || {
        let errors = supervisor.errors();
        if errors.contains("starting again in") { Ok(()) } else { Err(errors) }
    });
    supervisor.ask(supervisor.child.id());
    assert_eq!(supervisor.ends(), Some(3));
}

#[test]
fn a_program_that_is_killed_comes_back_and_a_request_ends_both() {
    let program = "echo $$ >> starts\nexec sleep 600\n";
    let mut supervisor = Supervisor::start(&[], program);
    let starts = |supervisor: &Supervisor| {
        supervisor.waits_for("starts").lines().map(|line| line.parse().expect("a pid")).collect::<Vec<u32>>()
    };
    let first = starts(&supervisor)[0];
    kill(first);
    let second = wait_until("a second start", || {
        let starts = starts(&supervisor);
        starts.get(1).copied().ok_or_else(|| format!("{starts:?}"))
    });
    assert!(supervisor.errors().contains("status 137"), "{}", supervisor.errors());
    supervisor.ask(supervisor.child.id());
    assert_eq!(supervisor.ends(), Some(143), "killed by TERM, as it does not know better");
    assert!(!Path::new(&format!("/proc/{second}")).exists());
}

#[test]
fn a_refusal_is_tried_again_ever_more_slowly() {
    let folder = support::data_dir();
    let program = PathBuf::from(env!("CARGO_BIN_EXE_opkit"));
    let start = Instant::now();
    let args = ["--data", "/proc/nobody/makes/this", "--listen", "127.0.0.1:0"];
    let mut supervisor = Supervisor::of(folder, &[], &program, &args);
    wait_until("three tries", || {
        let errors = supervisor.errors();
        if errors.contains("starting again in 4 s") { Ok(()) } else { Err(errors) }
    });
    assert!(start.elapsed() >= Duration::from_secs(3), "{:?}", start.elapsed());
    let errors = supervisor.errors();
    assert_eq!(errors.matches("starting again in").count(), 3, "{errors}");
    assert!(errors.contains("cannot be made") && errors.contains("--data"), "it says what to do: {errors}");
    supervisor.ask(supervisor.child.id());
    assert_eq!(supervisor.ends(), Some(1));
}

/// Children of a process, with their state's letter.
fn children(parent: u32) -> Vec<(u32, char)> {
    let of = |entry: fs::DirEntry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
        let mut fields = stat.rsplit_once(") ")?.1.split(' ');
        let state = fields.next()?.chars().next()?;
        (fields.next()?.parse() == Ok(parent)).then_some((pid, state))
    };
    fs::read_dir("/proc").expect("/proc").flatten().filter_map(of).collect()
}

#[test]
fn as_the_first_process_it_reaps_what_lost_its_parent() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root makes a process tree of its own");
        return;
    }
    // The orphan waits until it was seen below the supervisor.
    let program =
        "( ( echo x > orphan; while [ ! -e go ]; do sleep 0.02; done ) & )\necho x > here\nexec sleep 600\n";
    let mut supervisor = Supervisor::start(&["unshare", "--pid", "--fork", "--kill-child"], program);
    supervisor.waits_for("here");
    supervisor.waits_for("orphan");
    let init = wait_until("the first process", || {
        children(supervisor.child.id()).first().map(|(pid, _)| *pid).ok_or_else(|| "none".to_owned())
    });
    wait_until("an orphan", || {
        let list = children(init);
        if list.len() == 2 { Ok(()) } else { Err(format!("{list:?}")) }
    });
    fs::write(supervisor.folder.path().join("go"), "x").expect("a file");
    wait_until("the orphan to be reaped", || {
        let list = children(init);
        if list.len() == 1 { Ok(()) } else { Err(format!("{list:?}")) }
    });
    supervisor.ask(init);
    assert_eq!(supervisor.ends(), Some(143));
}
