//! A server with a repository and sessions, and what can be seen of them from outside: locks, processes, records.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use opkit_domain::session::{IndexLine, RunSpec, files};
use rustix::process::{Flock, FlockType, Pid, Signal};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{self, Answer, OWNER, PASSWORD, Server, output_of, wait_until, wait_within};

/// The longest a fleet may take to come to rest.
const REST: Duration = Duration::from_secs(100);

/// A running server with one repository, `sample`.
pub(crate) struct Fleet {
    pub(crate) server: Server,
    pub(crate) token: String,
    pub(crate) folder: TempDir,
    start: Start,
}

/// How its server is started, each time anew.
#[derive(Clone)]
struct Start {
    cap: String,
    /// The demo agents' pauses; "0" is none.
    speed: &'static str,
}

/// What is left of it after `kill -9`.
pub(crate) struct Dead {
    pub(crate) data: TempDir,
    folder: TempDir,
    token: String,
    start: Start,
}

impl Fleet {
    /// A server with an owner, a token and a repository, and demo agents that do not pause.
    pub(crate) fn start(cap: u32) -> Fleet {
        Fleet::set_up(Start { cap: cap.to_string(), speed: "0" }, serve)
    }

    /// The same with demo agents that pause as they do for people: a session takes seconds, not a moment.
    pub(crate) fn start_slowly(cap: u32) -> Fleet {
        Fleet::set_up(Start { cap: cap.to_string(), speed: "1" }, serve)
    }

    /// The same with a server that the test starts in its own way.
    pub(crate) fn start_by(start: impl FnOnce(TempDir) -> Server) -> Fleet {
        Fleet::set_up(Start { cap: String::new(), speed: "1" }, |data, _| start(data))
    }

    fn set_up(start: Start, serve: impl FnOnce(TempDir, &Start) -> Server) -> Fleet {
        let data = support::data_dir();
        output_of(data.path(), &["setup", "--owner", OWNER, "--password-stdin"], PASSWORD);
        let server = serve(data, &start);
        let folder = support::data_dir();
        let path = support::repository(folder.path());
        output_of(server.data.path(), &["repos", "add", &path, "--name", "sample"], "");
        let token = server.token();
        Fleet { server, token, folder, start }
    }

    pub(crate) fn data(&self) -> &Path {
        self.server.data.path()
    }

    /// `kill -9` of the server.
    pub(crate) fn kill(self) -> Dead {
        let Fleet { server, token, folder, start } = self;
        Dead { data: server.kill_hard(), folder, token, start }
    }

    pub(crate) fn get(&self, path: &str) -> Value {
        let answer = self.server.request("GET", path).bearer(&self.token).send();
        assert_eq!(answer.status, 200, "GET {path}: {}", answer.body);
        answer.json()
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Answer {
        self.server.request("POST", path).bearer(&self.token).json(&body.to_string()).send()
    }

    /// Writes an objective with these fields beside the usual ones and gives its number.
    pub(crate) fn add(&self, fields: &Value) -> i64 {
        let answer = self.post("/api/v1/objectives", &objective(fields));
        assert_eq!(answer.status, 201, "{}", answer.body);
        answer.json()["id"].as_i64().expect("a number")
    }

    /// A bug that its script works on.
    pub(crate) fn add_script(&self, script: &str) -> i64 {
        self.add(&json!({"script": script, "title": format!("Script {script}")}))
    }

    pub(crate) fn objective(&self, id: i64) -> Value {
        self.get(&format!("/api/v1/objectives/{id}"))
    }

    pub(crate) fn events(&self, id: i64) -> Vec<Value> {
        items(self.get(&format!("/api/v1/objectives/{id}/events?limit=500")))
    }

    pub(crate) fn sessions(&self, id: i64) -> Vec<Value> {
        items(self.get(&format!("/api/v1/objectives/{id}/sessions?limit=500")))
    }

    pub(crate) fn live(&self) -> Vec<Value> {
        items(self.get("/api/v1/sessions?state=live&limit=500"))
    }

    /// Every event of these objectives in the order in which they happened.
    pub(crate) fn history(&self, ids: &[i64]) -> Vec<(i64, Value)> {
        let mut all: Vec<_> =
            ids.iter().flat_map(|id| self.events(*id).into_iter().map(|event| (*id, event))).collect();
        all.sort_by_key(|(_, event)| event["seq"].as_i64());
        all
    }

    /// Waits until an objective has one of these statuses.
    pub(crate) fn until(&self, id: i64, statuses: &[&str]) -> Value {
        wait_within(REST, &format!("#{id} in {statuses:?}"), || {
            let card = self.objective(id);
            let there = card["status"].as_str().is_some_and(|status| statuses.contains(&status));
            if there { Ok(card) } else { Err(self.story(id)) }
        })
    }

    /// Waits until an objective is done, cancelled or with a person.
    pub(crate) fn rests(&self, id: i64) -> Value {
        self.until(id, &["done", "human_review", "cancelled"])
    }

    /// Waits until a session of an objective runs its agent, and gives its id.
    pub(crate) fn works(&self, id: i64) -> String {
        wait_until(&format!("an agent of #{id}"), || {
            let live = self.live();
            let mine =
                live.iter().find(|session| session["objective"] == id && session["state"] == "running");
            let session = mine.and_then(|session| session["id"].as_str()).ok_or_else(|| self.story(id))?;
            match agent_pid(&session_dir(self.data(), session)) {
                0 => Err(self.story(id)),
                _ => Ok(session.to_owned()),
            }
        })
    }

    /// What happened to an objective, for people who read a failure.
    pub(crate) fn story(&self, id: i64) -> String {
        let card = self.objective(id);
        let mut text = format!(
            "#{id} is in {}, {} {} {}\n",
            card["status"], card["sub_state"], card["attention"], card["attention_note"]
        );
        for event in self.events(id) {
            text.push_str(&format!(
                "  {} {} {} {}→{} by {}: {}\n",
                event["seq"],
                event["kind"],
                event["trigger"],
                event["from"],
                event["to"],
                event["actor"],
                event["reason"]
            ));
        }
        for session in self.sessions(id) {
            let exit = session_dir(self.data(), session["id"].as_str().unwrap_or_default()).join(files::EXIT);
            let exit = fs::read(exit).ok().and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok());
            let exit = exit.unwrap_or_default();
            let (detail, failed) = (&exit["detail"], &exit["collect_failed"]);
            text.push_str(&format!("  {} {} left: {detail} {failed}\n", session["id"], session["role"]));
        }
        text
    }
}

impl Dead {
    pub(crate) fn start(self) -> Fleet {
        let Dead { data, folder, token, start } = self;
        Fleet { server: serve(data, &start), token, folder, start }
    }
}

fn serve(data: TempDir, start: &Start) -> Server {
    let variables = [("MAX_CONCURRENT_SESSIONS", start.cap.as_str()), ("OPKIT_DEMO_SPEED", start.speed)];
    Server::start_with(data, &[], &variables)
}

/// The body of a new objective: the usual fields, then these.
pub(crate) fn objective(fields: &Value) -> Value {
    let mut body = json!({
        "title": "Add a hello file", "repo": "sample", "type": "bug", "brief": "Make it so.", "agent": "demo",
        "criteria": [{"text": "hello.txt exists", "check": "test -f hello.txt"}],
    });
    for (name, value) in fields.as_object().expect("fields") {
        body[name] = value.clone();
    }
    body
}

pub(crate) fn items(mut list: Value) -> Vec<Value> {
    let Value::Array(items) = list["items"].take() else { panic!("no list: {list}") };
    items
}

pub(crate) fn session_dir(data: &Path, session: &str) -> PathBuf {
    data.join("sessions").join(session)
}

/// The agent of a session, 0 while there is none.
pub(crate) fn agent_pid(dir: &Path) -> u32 {
    let status = fs::read(dir.join(files::STATUS)).ok();
    let status: Option<Value> = status.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let pid = status.and_then(|status| status["agent_pid"].as_u64()).unwrap_or(0);
    u32::try_from(pid).expect("a process number")
}

/// `kill -9` of one process that a test knows by its number.
pub(crate) fn kill(pid: u32) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).expect("a process number");
    rustix::process::kill_process(pid, Signal::KILL).expect("it lives");
}

/// The process that holds a session's lock.
pub(crate) fn runner_pid(dir: &Path) -> Option<u32> {
    let file = fs::File::open(dir.join(files::LOCK)).ok()?;
    let lock = rustix::process::fcntl_getlk(&file, &Flock::from(FlockType::WriteLock)).ok()??;
    u32::try_from(lock.pid?.as_raw_nonzero().get()).ok()
}

/// A session whose runner lives.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Held {
    pub(crate) objective: i64,
    pub(crate) session: String,
    pub(crate) role: String,
}

/// Reads locks; what a session is for is read once.
pub(crate) struct Locks {
    data: PathBuf,
    known: HashMap<String, (i64, String)>,
}

impl Locks {
    pub(crate) fn of(data: &Path) -> Locks {
        Locks { data: data.to_owned(), known: HashMap::new() }
    }

    /// Sessions whose runner lock is held, each at its own instant.
    pub(crate) fn held(&mut self) -> Vec<Held> {
        let mut found = Vec::new();
        for entry in fs::read_dir(self.data.join("sessions")).into_iter().flatten().flatten() {
            let session = entry.file_name().to_string_lossy().into_owned();
            if runner_pid(&entry.path()).is_none() {
                continue;
            }
            if !self.known.contains_key(&session) {
                // One that waits for its launch record runs nothing yet.
                let Ok(spec) = fs::read(entry.path().join(files::SPEC)) else { continue };
                let spec: RunSpec = serde_json::from_slice(&spec).expect("a spec");
                self.known.insert(session.clone(), (spec.objective.0, spec.role.to_string()));
            }
            let (objective, role) = &self.known[&session];
            found.push(Held { objective: *objective, session, role: role.clone() });
        }
        found
    }

    /// Sessions whose locks were held at one and the same instant: between two looks that both found them.
    pub(crate) fn together(&mut self) -> Vec<Held> {
        let first = self.held();
        let second = self.held();
        first.into_iter().filter(|held| second.contains(held)).collect()
    }
}

/// Sessions of which a process lives, by objective, from the marks in the processes' environments.
pub(crate) fn marked(data: &Path) -> BTreeMap<i64, BTreeMap<String, Vec<u32>>> {
    let place = format!("OPKIT_POLICY={}/", data.display());
    let mut found: BTreeMap<i64, BTreeMap<String, Vec<u32>>> = BTreeMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let Ok(environment) = fs::read(entry.path().join("environ")) else { continue };
        let variables: Vec<_> =
            environment.split(|byte| *byte == 0).map(|bytes| String::from_utf8_lossy(bytes)).collect();
        if !variables.iter().any(|variable| variable.starts_with(&place)) {
            continue;
        }
        let value = |name: &str| variables.iter().find_map(|variable| variable.strip_prefix(name));
        if let (Some(session), Some(objective)) = (value("OPKIT_SESSION="), value("OPKIT_OBJECTIVE=")) {
            let objective = objective.parse().expect("a number");
            found.entry(objective).or_default().entry(session.to_owned()).or_default().push(pid);
        }
    }
    found
}

/// Objectives of which processes of two sessions live at one instant: two looks found the same.
pub(crate) fn doubled(data: &Path) -> Vec<String> {
    let first = marked(data);
    if first.values().all(|sessions| sessions.len() < 2) {
        return Vec::new();
    }
    let second = marked(data);
    let both = |objective: &i64, session: &String, pids: &Vec<u32>| {
        let then = second.get(objective).and_then(|sessions| sessions.get(session));
        then.is_some_and(|then| pids.iter().any(|pid| then.contains(pid)))
    };
    let mut doubled = Vec::new();
    for (objective, sessions) in &first {
        let alive: Vec<_> =
            sessions.iter().filter(|(session, pids)| both(objective, session, pids)).collect();
        if alive.len() > 1 {
            doubled.push(format!("#{objective}: {alive:?}"));
        }
    }
    doubled
}

/// What a watch has seen.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) looks: u64,
    /// The most runner locks at one instant.
    pub(crate) most: usize,
    /// The most of them that were no reviews.
    pub(crate) most_at_work: usize,
    /// Objectives with two sessions at one instant.
    pub(crate) twice: Vec<String>,
}

/// Looks at locks and processes every few milliseconds, whether a server runs or not.
pub(crate) struct Watch {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Seen>,
}

impl Watch {
    pub(crate) fn of(data: &Path) -> Watch {
        let stop = Arc::new(AtomicBool::new(false));
        let (data, asked) = (data.to_owned(), Arc::clone(&stop));
        let thread = std::thread::spawn(move || {
            let mut seen = Seen::default();
            let mut locks = Locks::of(&data);
            while !asked.load(Ordering::Relaxed) {
                look(&data, &mut locks, &mut seen);
                // The pace of looking, not a wait for anything.
                std::thread::sleep(Duration::from_millis(5));
            }
            seen
        });
        Watch { stop, thread }
    }

    pub(crate) fn end(self) -> Seen {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("the watch ends well")
    }
}

fn look(data: &Path, locks: &mut Locks, seen: &mut Seen) {
    let held = locks.together();
    seen.looks += 1;
    seen.most = seen.most.max(held.len());
    seen.most_at_work = seen.most_at_work.max(held.iter().filter(|held| held.role != "review").count());
    let mut by_objective: BTreeMap<i64, Vec<&Held>> = BTreeMap::new();
    for held in &held {
        by_objective.entry(held.objective).or_default().push(held);
    }
    let twice = by_objective.values().filter(|list| list.len() > 1).map(|list| format!("locks: {list:?}"));
    seen.twice.extend(twice);
    // Reading every process's environment is dear: a tenth of the looks.
    if seen.looks.is_multiple_of(10) {
        seen.twice.extend(doubled(data));
    }
}

/// A record that was read and has no hole.
pub(crate) struct Whole {
    /// Where the first kept segment begins.
    pub(crate) first: u64,
    pub(crate) bytes: Vec<u8>,
}

impl Whole {
    pub(crate) fn end(&self) -> u64 {
        self.first + self.bytes.len() as u64
    }

    /// The numbers of the flood's lines in order.
    pub(crate) fn flood(&self) -> Vec<u64> {
        String::from_utf8_lossy(&self.bytes).lines().filter_map(flood_number).collect()
    }
}

/// N of "line N of a flood".
pub(crate) fn flood_number(line: &str) -> Option<u64> {
    line.split_once(" of a flood")?.0.rsplit_once("line ")?.1.parse().ok()
}

/// The first number in a flood that does not follow the one before it.
pub(crate) fn gap(numbers: &[u64]) -> Option<String> {
    let at = numbers.windows(2).position(|pair| pair[1] != pair[0] + 1)?;
    Some(format!("line {} follows line {}", numbers[at + 1], numbers[at]))
}

/// Bytes that were ever written to a record.
pub(crate) fn record_len(dir: &Path) -> u64 {
    let last = segments(dir).pop();
    last.map_or(0, |(first, path)| first + fs::metadata(path).map_or(0, |meta| meta.len()))
}

fn segments(dir: &Path) -> Vec<(u64, PathBuf)> {
    let entries = fs::read_dir(dir.join(files::RECORD)).into_iter().flatten().flatten();
    let mut list: Vec<(u64, PathBuf)> = entries
        .filter_map(|entry| {
            Some((entry.file_name().to_str()?.strip_suffix(".seg")?.parse().ok()?, entry.path()))
        })
        .collect();
    list.sort();
    list
}

/// Reads a record and insists: segments join, the index points at line starts and counts right, floods are whole.
pub(crate) fn whole_record(dir: &Path) -> Whole {
    let place = dir.display();
    let index = fs::read_to_string(dir.join(files::RECORD).join(files::INDEX)).unwrap_or_default();
    let list = segments(dir);
    let first = list.first().map_or(0, |(first, _)| *first);
    let mut bytes = Vec::new();
    for (offset, path) in &list {
        assert_eq!(*offset, first + bytes.len() as u64, "{place}: a segment does not join the one before it");
        bytes.extend(fs::read(path).expect("a segment"));
    }
    assert!(bytes.is_empty() || bytes.ends_with(b"\n"), "{place}: the last line is torn");
    let whole = Whole { first, bytes };
    let breaks = whole.bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
    let starts: Vec<u64> =
        std::iter::once(first).chain(breaks.map(|(at, _)| first + at as u64 + 1)).collect();
    let mut dropped = None;
    let lines =
        index.lines().map(|line| IndexLine::parse(line).unwrap_or_else(|| panic!("{place}: {line:?}")));
    for line in lines.filter(|line| line.offset >= first && line.kind != 'x') {
        let count = starts.binary_search(&line.offset);
        let count = count.unwrap_or_else(|_| panic!("{place}: {line} is not the start of a line")) as u64;
        let before = line.lines - count;
        assert_eq!(*dropped.get_or_insert(before), before, "{place}: {line} miscounts");
    }
    assert!(first > 0 || dropped.unwrap_or(0) == 0, "{place}: lines before the first");
    let flood = whole.flood();
    assert_eq!(gap(&flood), None, "{place}");
    assert!(first > 0 || flood.first().is_none_or(|number| *number == 1), "{place}: begins at {flood:?}");
    whole
}

/// Checks the records of all sessions of a data directory; gives how many there were.
pub(crate) fn check_records(data: &Path) -> usize {
    let mut count = 0;
    for entry in fs::read_dir(data.join("sessions")).expect("sessions").flatten() {
        let dir = entry.path();
        let whole = whole_record(&dir);
        count += 1;
        if let Ok(exit) = fs::read(dir.join(files::EXIT)) {
            let exit: Value = serde_json::from_slice(&exit).expect("an exit file");
            assert_eq!(exit["record_len"].as_u64(), Some(whole.end()), "{}", dir.display());
        }
    }
    count
}
