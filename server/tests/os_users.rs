//! Accounts with OS users: twenty-five sessions beside each other that cannot reach one another, and leave nothing.

#[path = "support/fleet.rs"]
mod fleet;
#[path = "support/rows.rs"]
mod rows;
#[path = "support/server.rs"]
mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fleet::{Fleet, agent_pid, session_dir};
use opkit_domain::session::{Identity, RunSpec, files};
use rows::SessionRow;
use serde_json::{Value, json};
use support::{PASSWORD, Server, output_of, wait_until};

const CAP: &str = "32";

/// Says why nothing is tested here, and whether that is so.
fn is_no_root() -> bool {
    let no_root = !rustix::process::geteuid().is_root();
    if no_root {
        eprintln!("skipped: only root can give sessions users of their own");
    }
    no_root
}

/// A server as root; with OS users for its accounts, or with one user for all.
fn start(users: bool) -> Fleet {
    Fleet::start_by(|data| {
        if users {
            output_of(data.path(), &["accounts", "provision"], "");
        }
        let variables = [("MAX_CONCURRENT_SESSIONS", CAP), ("OPKIT_DEMO_SPEED", "0")];
        Server::start_with(data, &[], &variables)
    })
}

fn spec_of(data: &Path, session: &str) -> Option<RunSpec> {
    serde_json::from_slice(&fs::read(session_dir(data, session).join(files::SPEC)).ok()?).ok()
}

fn home_of(user: &str) -> PathBuf {
    let passwd = fs::read_to_string("/etc/passwd").expect("users");
    let line = passwd.lines().find(|line| line.split(':').next() == Some(user)).expect("the user exists");
    line.split(':').nth(5).expect("a home").into()
}

/// Fields of `/proc/PID/status`.
fn status(pid: u32) -> BTreeMap<String, String> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
        .collect()
}

fn numbers(text: &str) -> Vec<u32> {
    text.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

fn every_process() -> Vec<u32> {
    let entries = fs::read_dir("/proc").expect("processes").flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Says what it can do with each path: list it, read it, write it, make something in it, talk to it.
const SPY: &str = r#"
for path in "$@"; do
    ls "$path/" >/dev/null 2>&1 && echo "lists $path"
    cat "$path" >/dev/null 2>&1 && echo "reads $path"
    [ -d "$path" ] || { ( : >> "$path" ) 2>/dev/null && echo "writes $path"; }
    mkdir "$path/spy" 2>/dev/null && { rmdir "$path/spy"; echo "makes in $path"; }
    [ -S "$path" ] && tmux -S "$path" list-sessions >/dev/null 2>&1 && echo "talks to $path"
done
for file in /proc/[0-9]*/environ; do
    grep -aqz "^OPKIT_SESSION=" "$file" 2>/dev/null && ! grep -aqz "^OPKIT_SESSION=$SPY_SESSION" "$file" && echo "reads $file"
done
exit 0
"#;

fn findings(output: std::process::Output) -> BTreeSet<String> {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "the spy ended with {}: {errors}", output.status);
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

/// The spy with a session's user and groups and nothing else of its wall.
fn spy_as(identity: &Identity, session: &str, paths: &[PathBuf]) -> BTreeSet<String> {
    let groups: Vec<String> = identity.groups.iter().map(u32::to_string).collect();
    let output = Command::new("setpriv")
        .args(["--reuid", &identity.uid.to_string(), "--regid", &identity.gid.to_string()])
        .args(["--groups", &groups.join(","), "--inh-caps=-all", "--bounding-set=-all", "--no-new-privs"])
        .args(["/bin/sh", "-c", SPY, "spy"])
        .args(paths)
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("SPY_SESSION", session)
        .current_dir("/")
        .output();
    findings(output.expect("setpriv runs"))
}

/// The spy in a session's own place: its user, its groups, its wall, its environment.
fn spy_within(spec: &RunSpec, paths: &[PathBuf], folder: &Path) -> BTreeSet<String> {
    let mut argv: Vec<Value> = ["/bin/sh", "-c", SPY, "spy"].into_iter().map(Value::from).collect();
    argv.extend(paths.iter().map(|path| json!(path)));
    let mut env = spec.env.clone();
    env.push(("SPY_SESSION".into(), spec.session.to_string()));
    let enter = json!({"identity": spec.identity, "wall": spec.wall, "cwd": spec.cwd, "argv": argv, "env": env,
        "new_session": true});
    let file = folder.join("enter.json");
    fs::write(&file, enter.to_string()).expect("a spec");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("its mode");
    // The program that the session itself came through.
    let output = Command::new(&spec.agent.argv[0]).arg("enter").arg("--spec").arg(&file).env_clear().output();
    findings(output.expect("enter runs"))
}

/// What no session may reach: everything of the service.
fn of_the_service(data: &Path, session: &str) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = [
        "",
        "db",
        "db/opkit.db",
        "keys",
        "keys/anthropic",
        "keys/session-secret",
        "run",
        "run/control.sock",
        "run/tmux",
        "sessions",
        "rescue",
        "pool",
        "work",
        "review",
        "audit",
    ]
    .iter()
    .map(|name| data.join(name))
    .collect();
    paths.push(session_dir(data, session));
    paths.extend(
        [files::SPEC, files::TRANSCRIPT, files::LOCK].map(|name| session_dir(data, session).join(name)),
    );
    let sockets = fs::read_dir(data.join("run/tmux")).expect("tmux sockets").flatten();
    let sockets: Vec<PathBuf> = sockets.map(|entry| entry.path()).collect();
    assert!(sockets.len() >= 5, "a socket for each account: {sockets:?}");
    paths.extend(sockets);
    paths
}

/// What no other session may reach: the places of an objective.
fn places(data: &Path, objective: i64) -> Vec<PathBuf> {
    let work = data.join(format!("work/{objective}"));
    let names = [
        format!("cc-worktree-{objective}"),
        "memory".into(),
        "scratch".into(),
        "state".into(),
        "state/work".into(),
    ];
    let mut paths: Vec<PathBuf> = names.iter().map(|name| work.join(name)).collect();
    paths.extend([
        work.join("state/work/token"),
        work.join(format!("cc-worktree-{objective}/README.md")),
        work,
    ]);
    paths
}

/// Texts that must never stand in a command line or an environment.
struct Canaries(Vec<(&'static str, String)>);

impl Canaries {
    /// Looks at every process of the machine.
    fn seen(&self) -> Vec<String> {
        let mut seen = Vec::new();
        for pid in every_process() {
            for file in ["cmdline", "environ"] {
                let bytes = fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
                let text = String::from_utf8_lossy(&bytes);
                seen.extend(self.0.iter().filter(|(_, canary)| text.contains(canary.as_str())).map(
                    |(what, _)| {
                        format!(
                            "{what} in {file} of {}",
                            text.replace('\0', " ").chars().take(200).collect::<String>()
                        )
                    },
                ));
            }
        }
        seen
    }
}

/// Calls something every few milliseconds until it is stopped; gives what it found.
struct Watch {
    stop: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<(u64, BTreeSet<String>)>,
}

impl Watch {
    fn of(mut look: impl FnMut() -> Vec<String> + Send + 'static) -> Watch {
        let stop = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let (mut looks, mut found) = (0, BTreeSet::new());
            while !asked.load(Ordering::Relaxed) {
                found.extend(look());
                looks += 1;
                // The pace of looking, not a wait for anything.
                std::thread::sleep(Duration::from_millis(10));
            }
            (looks, found)
        });
        Watch { stop, thread }
    }

    fn end(self) -> (u64, BTreeSet<String>) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("the watch ends well")
    }
}

#[test]
fn twenty_five_sessions_cannot_reach_one_another() {
    if is_no_root() {
        return;
    }
    let fleet = start(true);
    let data = fleet.data().to_owned();
    let key = data.join("keys/anthropic");
    let mut canaries = Canaries(vec![
        ("the brief", format!("canary-brief-{}", uuid::Uuid::new_v4())),
        ("the key", format!("canary-key-{}", uuid::Uuid::new_v4())),
        ("the API token", fleet.token.clone()),
        ("the password", PASSWORD.to_owned()),
    ]);
    fs::write(&key, &canaries.0[1].1).expect("a key");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).expect("its mode");
    let texts = Canaries(canaries.0.clone());
    let watch = Watch::of(move || texts.seen());
    let ids: Vec<i64> = (0..25)
        .map(|n| {
            let brief = format!("Make it so. {}", canaries.0[0].1);
            fleet.add(
                &json!({"type": "task", "script": "slow:25", "title": format!("Task {n}"), "brief": brief}),
            )
        })
        .collect();
    let live = wait_until("25 sessions with their agents", || {
        let live = rows::live(&data);
        let agents =
            live.iter().filter(|row| row.state == "running" && agent_pid(&session_dir(&data, &row.id)) > 0);
        let count = agents.count();
        if count == 25 { Ok(live) } else { Err(format!("{count} of {}", live.len())) }
    });
    whom_they_run_as(&data, &live);

    let folder = support::data_dir();
    let mine = &live[0];
    let same = live.iter().find(|row| row.id != mine.id && row.account == mine.account).expect("a sibling");
    let other = live.iter().find(|row| row.account != mine.account).expect("somebody else");
    let mut closed = of_the_service(&data, &mine.id);
    closed.extend(session_dir(&data, &other.id).exists().then(|| session_dir(&data, &other.id)));
    closed.extend(places(&data, same.objective).into_iter().chain(places(&data, other.objective)));
    let users = (0..5).map(|number| format!("ccuser-{number}"));
    let others = users.filter(|name| *name != mine.account).map(|name| home_of(&name));
    closed.extend(others.flat_map(|home| [home.join(".claude"), home]));
    let spec = spec_of(&data, &mine.id).expect("a spec");
    let identity = spec.identity.clone().expect("a user");
    let own = [spec.cwd.clone()];
    let may: BTreeSet<String> =
        ["lists", "makes in"].iter().map(|what| format!("{what} {}", spec.cwd.display())).collect();
    // The spy can spy: its own place is open to it.
    let alone = |found: BTreeSet<String>| -> BTreeSet<String> {
        // Without the wall, processes of the same user can be looked at: the wall is what closes that.
        found.into_iter().filter(|line| !line.contains("/environ")).collect()
    };
    assert_eq!(alone(spy_as(&identity, &mine.id, &own)), may);
    assert_eq!(spy_within(&spec, &own, folder.path()), may);
    assert_eq!(alone(spy_as(&identity, &mine.id, &closed)), BTreeSet::new(), "by user and groups");
    closed.push(home_of(&mine.account));
    assert_eq!(spy_within(&spec, &closed, folder.path()), BTreeSet::new(), "from behind the wall");

    for row in &live {
        let token = fs::read_to_string(data.join(format!("work/{}/state/work/token", row.objective)));
        canaries.0.push(("a session's token", token.expect("a token").trim().to_owned()));
    }
    assert_eq!(canaries.seen(), Vec::<String>::new());
    let (looks, seen) = watch.end();
    assert!(looks > 50, "{looks} looks");
    assert_eq!(seen, BTreeSet::new());
    for id in ids {
        assert_eq!(fleet.rests(id)["status"], "done", "{}", fleet.story(id));
    }
}

/// Five sessions on each of five users, each agent with the one group of its slot.
fn whom_they_run_as(data: &Path, live: &[SessionRow]) {
    let (mut users, mut groups) = (BTreeMap::<u32, usize>::new(), BTreeSet::new());
    for row in live {
        let spec = spec_of(data, &row.id).expect("a spec");
        let identity = spec.identity.expect("a user");
        let is = status(agent_pid(&session_dir(data, &row.id)));
        assert_eq!(numbers(&is["Uid"]), [identity.uid; 4], "{row:?}");
        assert_eq!(numbers(&is["Gid"]), [identity.gid; 4], "{row:?}");
        assert_eq!(numbers(&is["Groups"]), identity.groups, "{row:?}");
        assert_eq!((is["CapEff"].as_str(), is["NoNewPrivs"].as_str()), ("0000000000000000", "1"), "{row:?}");
        assert_eq!(identity.groups.len(), 1, "{row:?}");
        groups.extend(identity.groups);
        *users.entry(identity.uid).or_default() += 1;
    }
    assert_eq!(groups.len(), 25, "a group for each session");
    assert!(users.len() == 5 && users.values().all(|count| *count == 5), "{users:?}");
    assert!(!users.contains_key(&0));
}

/// Whatever a check command can leave behind: sessions of its own, deaf ones, orphans, without the environment.
const LEAVES: &str = "setsid sleep 86431 & nohup sleep 86432 >/dev/null 2>&1 & ( ( sleep 86433 & ) & ) ; \
    env -i /usr/bin/setsid /bin/sleep 86434 & setsid sh -c 'trap \"\" TERM INT HUP; sleep 86435; sleep 86435' & \
    true && test -f hello.txt";

/// Command lines of what was left behind and lives.
fn left_behind() -> Vec<String> {
    let lines = every_process().into_iter().filter_map(|pid| {
        let bytes = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let line = String::from_utf8_lossy(&bytes).replace('\0', " ");
        line.starts_with("sleep 8643")
            .then(|| line.clone())
            .or_else(|| line.starts_with("/bin/sleep 8643").then_some(line))
    });
    lines.collect()
}

/// Processes that carry a slot's group while no live session has the slot.
fn strays(data: &Path, base: &mut Option<u32>) -> Vec<String> {
    let before = rows::live(data);
    if base.is_none() {
        *base = before.iter().find_map(|row| {
            let group = *spec_of(data, &row.id)?.identity?.groups.first()?;
            Some(group - u32::try_from(row.slot?).ok()?)
        });
    }
    let Some(base) = *base else { return Vec::new() };
    let carry: Vec<(u32, u32, String)> = every_process()
        .into_iter()
        .filter_map(|pid| {
            let mut is = status(pid);
            let group =
                numbers(is.get("Groups")?).into_iter().find(|group| (base..base + 512).contains(group))?;
            // What is dead and not yet waited for holds nothing.
            (!is.get("State")?.starts_with('Z'))
                .then(|| (pid, group - base, is.remove("Name").unwrap_or_default()))
        })
        .collect();
    let after = rows::live(data);
    let has = |slot: u32| before.iter().chain(&after).any(|row| row.slot == Some(i64::from(slot)));
    carry
        .into_iter()
        .filter(|(pid, slot, _)| !has(*slot) && Path::new(&format!("/proc/{pid}")).exists())
        .map(|(pid, slot, name)| format!("{name} ({pid}) carries the group of slot {slot}, which is free"))
        .collect()
}

fn nothing_is_left(users: bool) {
    let fleet = start(users);
    let data = fleet.data().to_owned();
    let watch = {
        let (data, mut base) = (data.clone(), None);
        Watch::of(move || strays(&data, &mut base))
    };
    let criteria = json!([{"text": "hello.txt exists", "check": LEAVES}]);
    let mut ids: Vec<i64> = (0..4)
        .map(|n| fleet.add(&json!({"title": format!("Leaves {n}"), "script": "good", "criteria": criteria})))
        .collect();
    // The floor of a task runs the same in the worker's own place.
    ids.push(fleet.add(&json!({"title": "A task", "type": "task", "script": "good", "criteria": criteria})));
    wait_until("something to be left behind", || {
        let left = left_behind();
        if left.is_empty() { Err("nothing yet".into()) } else { Ok(()) }
    });
    for id in &ids {
        assert_eq!(fleet.rests(*id)["status"], "done", "{}", fleet.story(*id));
    }
    assert_eq!(rows::live(&data), []);
    let (looks, strays) = watch.end();
    assert_eq!(left_behind(), Vec::<String>::new());
    assert!(looks > 20, "{looks} looks");
    assert_eq!(strays, BTreeSet::new());
}

#[test]
fn sessions_end_with_nothing_alive() {
    if is_no_root() {
        return;
    }
    nothing_is_left(false);
    nothing_is_left(true);
}
