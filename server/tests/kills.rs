//! The server is killed by signal 9 again and again while forty objectives run: nothing ends otherwise than without.

#[path = "support/fleet.rs"]
mod fleet;
#[path = "support/rows.rs"]
mod rows;
#[path = "support/server.rs"]
mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

use fleet::{Fleet, Locks, Seen, Watch, marked, session_dir};
use opkit_domain::session::{RunSpec, files};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};
use support::{Server, end_sessions, wait_until};

/// A script, what it is played on, where it must end, and how many sessions of work and of review that takes.
struct Case {
    times: usize,
    kind: &'static str,
    script: &'static str,
    end: (&'static str, Option<&'static str>),
    sessions: (usize, usize),
}

const fn case(
    times: usize,
    kind: &'static str,
    script: &'static str,
    end: (&'static str, Option<&'static str>),
    sessions: (usize, usize),
) -> Case {
    Case { times, kind, script, end, sessions }
}

const DONE: (&str, Option<&str>) = ("done", None);

const fn person(attention: &'static str) -> (&'static str, Option<&'static str>) {
    ("human_review", Some(attention))
}

/// Forty.
const CASES: [Case; 18] = [
    case(6, "bug", "good", DONE, (1, 1)),
    case(3, "task", "good", DONE, (1, 0)),
    case(2, "project", "good", person("sign_off"), (1, 1)),
    case(4, "bug", "slow:4", DONE, (1, 1)),
    case(3, "bug", "slow:8", DONE, (1, 1)),
    case(3, "bug", "fails-then-good", DONE, (2, 2)),
    case(2, "bug", "floods:2", DONE, (1, 1)),
    case(2, "bug", "writes-outside", DONE, (1, 1)),
    case(2, "bug", "usage-limit", DONE, (2, 1)),
    case(2, "bug", "always-fails", person("retries_exhausted"), (3, 3)),
    case(3, "bug", "blocked", person("blocked"), (1, 0)),
    case(2, "bug", "crashes", person("session_lost"), (3, 0)),
    case(1, "bug", "asks-nothing", person("no_deliverable"), (3, 0)),
    case(1, "bug", "links-artifact", person("no_deliverable"), (3, 0)),
    case(1, "bug", "wrong-nonce", person("review_error"), (1, 3)),
    case(1, "bug", "prose", person("review_error"), (1, 3)),
    case(1, "bug", "review-errors", person("review_error"), (1, 3)),
    case(1, "bug", "reviewer-crashes", person("review_error"), (1, 3)),
];

/// One objective of a run.
struct Wanted {
    id: i64,
    case: &'static Case,
}

/// Writes objectives in an order without pattern.
fn write(fleet: &Fleet, chance: &mut StdRng, cases: impl Iterator<Item = &'static Case>) -> Vec<Wanted> {
    let mut order: Vec<&'static Case> = cases.collect();
    for at in (1..order.len()).rev() {
        order.swap(at, chance.random_range(0..=at));
    }
    order
        .into_iter()
        .map(|case| {
            let title = format!("{} {}", case.kind, case.script);
            let fields = json!({"script": case.script, "type": case.kind, "title": title});
            Wanted { id: fleet.add(&fields), case }
        })
        .collect()
}

/// When a server dies.
#[derive(Debug, Clone, Copy)]
enum Moment {
    /// At any instant.
    Any(Duration),
    /// A claim is stored and nothing of the session exists.
    Claimed,
    /// The launch record is written and no runner runs.
    Launched,
    /// A runner has its lock and the row does not say so.
    Locked,
    /// An exit file is there and nothing is settled.
    Ended,
    /// A branch came into the mirror and the row does not say so.
    TakenIn,
}

const AIMED: [Moment; 5] =
    [Moment::Claimed, Moment::Launched, Moment::Locked, Moment::Ended, Moment::TakenIn];

/// What can be seen of the moments of a data directory: names, and when they were written.
fn signs(data: &Path, moment: Moment) -> BTreeMap<PathBuf, Option<SystemTime>> {
    let entries = |dir: PathBuf| fs::read_dir(dir).into_iter().flatten().flatten();
    let written = |path: PathBuf| {
        let at = fs::symlink_metadata(&path).and_then(|meta| meta.modified()).ok()?;
        Some((path, Some(at)))
    };
    let in_sessions = |name: &str| {
        entries(data.join("sessions")).filter_map(|entry| written(entry.path().join(name))).collect()
    };
    match moment {
        Moment::Any(_) => BTreeMap::new(),
        // Its time changes with every file: only that it is there counts.
        Moment::Claimed => entries(data.join("sessions")).map(|entry| (entry.path(), None)).collect(),
        Moment::Launched => in_sessions(files::SPEC),
        Moment::Locked => in_sessions(files::LOCK),
        Moment::Ended => in_sessions(files::EXIT),
        Moment::TakenIn => entries(data.join("mirrors/1.git/refs/heads/obj"))
            .filter_map(|entry| written(entry.path()))
            .collect(),
    }
}

/// Waits for a moment; false when it did not come in time.
fn comes(data: &Path, moment: Moment) -> bool {
    if let Moment::Any(gap) = moment {
        // The experiment itself: no condition to wait for.
        std::thread::sleep(gap);
        return true;
    }
    let before = signs(data, moment);
    let deadline = Instant::now() + Duration::from_millis(1500);
    while Instant::now() < deadline {
        if signs(data, moment).iter().any(|(path, at)| before.get(path) != Some(at)) {
            return true;
        }
        // The pace of looking: the moment is short.
        std::thread::sleep(Duration::from_micros(200));
    }
    false
}

/// Exponential: most gaps are short, some are long, and none depends on the ones before.
fn gap(chance: &mut StdRng, mean: Duration) -> Duration {
    let part: f64 = chance.random_range(f64::EPSILON..1.0);
    mean.mul_f64(-part.ln()).min(mean * 6)
}

fn seed() -> u64 {
    let given = std::env::var("OPKIT_TEST_SEED").ok().and_then(|text| text.parse().ok());
    let seed = given.unwrap_or_else(rand::random);
    eprintln!("OPKIT_TEST_SEED={seed}");
    seed
}

/// Everything that must be true when all objectives rest.
fn all_ended_right(fleet: &Fleet, wanted: &[Wanted], seen: &Seen, cap: usize) {
    let data = fleet.data();
    wait_until("the last sessions to be settled", || {
        let (live, held) = (rows::live(data), Locks::of(data).held());
        if live.is_empty() && held.is_empty() { Ok(()) } else { Err(format!("{live:?} {held:?}")) }
    });
    assert_eq!(seen.twice, Vec::<String>::new(), "no objective runs twice at one instant");
    assert!(seen.most <= cap && seen.looks > 100, "{seen:?}");
    assert_eq!(marked(data), BTreeMap::new(), "nothing of a session lives");
    for one in wanted {
        sessions_are_right(fleet, one);
    }
    let numbers = rows::event_numbers(data);
    let expected: Vec<i64> = (1..=rows::last_event(data)).collect();
    assert_eq!(numbers, expected, "every event has the number after the one before");
    assert_eq!(rows::integrity(data), "ok");
    assert_eq!(fleet::check_records(data), rows::sessions(data).len(), "every session has a whole record");
    slots_are_free(fleet);
}

/// One objective's sessions: as many as its script asks for, each claimed once, run once and ended once.
fn sessions_are_right(fleet: &Fleet, one: &Wanted) {
    let story = || format!("{} {}: {}", one.case.kind, one.case.script, fleet.story(one.id));
    let card = fleet.objective(one.id);
    let end = (card["status"].as_str().unwrap_or_default(), card["attention"].as_str());
    assert_eq!(end, one.case.end, "{}", story());
    let sessions = fleet.sessions(one.id);
    let reviews = sessions.iter().filter(|session| session["role"] == "review").count();
    assert_eq!((sessions.len() - reviews, reviews), one.case.sessions, "{}", story());
    let events = fleet.events(one.id);
    for session in &sessions {
        assert!(session["outcome"] != "lost" && session["outcome"] != "never_ran", "{session} {}", story());
        let times = |trigger: &str| {
            events.iter().filter(|e| e["session"] == session["id"] && e["trigger"] == trigger).count()
        };
        assert_eq!((times("claimed"), times("session_ended")), (1, 1), "{session} {}", story());
        assert!(times("running") <= 1, "{session} {}", story());
        let exit = session_dir(fleet.data(), session["id"].as_str().expect("an id")).join(files::EXIT);
        assert!(exit.exists(), "{} is missing: {}", exit.display(), story());
    }
}

/// No process carries the group of a slot, no directory of an objective is open, and all slots can be used again.
fn slots_are_free(fleet: &Fleet) {
    let data = fleet.data();
    let specs = rows::sessions(data).into_iter().filter_map(|row| {
        let bytes = fs::read(session_dir(data, &row.id).join(files::SPEC)).ok()?;
        serde_json::from_slice::<RunSpec>(&bytes).ok()?.identity
    });
    let groups: BTreeSet<u32> = specs.flat_map(|identity| identity.groups).collect();
    let carry: Vec<PathBuf> = fs::read_dir("/proc")
        .expect("processes")
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| {
            let status = fs::read_to_string(path.join("status")).unwrap_or_default();
            let line = status.lines().find_map(|line| line.strip_prefix("Groups:")).unwrap_or_default();
            line.split_whitespace().any(|word| word.parse().is_ok_and(|group| groups.contains(&group)))
        })
        .collect();
    assert_eq!(carry, Vec::<PathBuf>::new(), "processes with groups of {groups:?}");
    if !groups.is_empty() {
        for entry in fs::read_dir(data.join("work")).expect("work").flatten() {
            let meta = entry.metadata().expect("a directory");
            assert_eq!((meta.mode() & 0o777, meta.uid()), (0o700, 0), "{}", entry.path().display());
        }
    }
}

/// As many sessions as the cap allows run at once: what no leaked slot would let happen.
fn the_whole_cap_works(fleet: &Fleet, at_work: usize) {
    let ids: Vec<i64> = (0..at_work).map(|_| fleet.add_script("slow:4")).collect();
    wait_until("every slot to be used", || {
        let running = fleet.live().iter().filter(|session| session["state"] == "running").count();
        if running == at_work { Ok(()) } else { Err(format!("{running} run")) }
    });
    for id in ids {
        assert_eq!(fleet.rests(id)["status"], "done", "{}", fleet.story(id));
    }
}

#[test]
fn fifty_kills_change_nothing() {
    const CAP: usize = 10;
    let seed = seed();
    let mut chance = StdRng::seed_from_u64(seed);
    let mut fleet = Fleet::start_slowly(CAP as u32);
    let data = fleet.data().to_owned();
    let all = CASES.iter().flat_map(|case| std::iter::repeat_n(case, case.times));
    let mut wanted = write(&fleet, &mut chance, all);
    assert_eq!(wanted.len(), 40);
    let watch = Watch::of(&data);
    let (mut kills, mut at_work, mut met) = (0, 0, BTreeMap::<String, usize>::new());
    while at_work < 50 {
        // On a machine that is slow to start a server, sessions end while there is none: then there is more to do.
        if kills > 0 && kills % 60 == 0 {
            assert!(kills < 240, "only {at_work} of {kills} kills met sessions at work");
            wanted.extend(write(&fleet, &mut chance, CASES.iter()));
        }
        let moment = match kills % 13 {
            3 | 7 | 11 => AIMED[kills / 4 % AIMED.len()],
            _ => Moment::Any(gap(&mut chance, Duration::from_millis(180))),
        };
        if comes(&data, moment) && !matches!(moment, Moment::Any(_)) {
            *met.entry(format!("{moment:?}")).or_default() += 1;
        }
        let dead = fleet.kill();
        kills += 1;
        at_work += usize::from(!Locks::of(&data).held().is_empty());
        fleet = dead.start();
    }
    eprintln!("{at_work} of {kills} kills met sessions at work; aimed ones that met their moment: {met:?}");
    for one in &wanted {
        fleet.rests(one.id);
    }
    all_ended_right(&fleet, &wanted, &watch.end(), CAP);
    the_whole_cap_works(&fleet, 8);
}

/// The process that a supervisor runs, or none while it pauses.
fn child_of(parent: u32, program: &Path) -> Option<u32> {
    fs::read_dir("/proc").ok()?.flatten().find_map(|entry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
        // Behind the name, which may hold anything: state, then the parent.
        let of: u32 = stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()?;
        (of == parent && fs::read_link(entry.path().join("exe")).ok()? == program).then_some(pid)
    })
}

fn answers(address: SocketAddr) {
    wait_until("the server to listen again", || {
        TcpStream::connect(address).map(drop).map_err(|error| error.to_string())
    });
}

#[test]
fn the_same_under_the_entrypoint() {
    const CAP: usize = 5;
    const KILLS: usize = 16;
    let mut chance = StdRng::seed_from_u64(seed());
    // The port must be the same after each start, so that it can be asked for answers.
    let port = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a port").port();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/entrypoint.sh");
    let program = fs::canonicalize(env!("CARGO_BIN_EXE_opkit")).expect("the program");
    let fleet = Fleet::start_by(|data| {
        let mut command = Command::new("/bin/sh");
        command.arg(script).args(["--listen", &format!("127.0.0.1:{port}")]).current_dir(data.path());
        for name in ["OPKIT_LISTEN", "OPKIT_PUBLIC_URL", "OPKIT_SITE", "OPKIT_URL", "OPKIT_TOKEN", "RUST_LOG"]
        {
            command.env_remove(name);
        }
        command.env("OPKIT", &program).env("OPKIT_DATA", data.path()).env("OPKIT_RESTART_FIRST_S", "0");
        command.env("MAX_CONCURRENT_SESSIONS", CAP.to_string()).env_remove("OPKIT_DEMO_SPEED");
        Server::of(data, command)
    });
    let data = fleet.data().to_owned();
    let ten = [0, 0, 1, 2, 3, 5, 8, 9, 10, 14].map(|at| &CASES[at]);
    let wanted = write(&fleet, &mut chance, ten.into_iter());
    let watch = Watch::of(&data);
    let supervisor = fleet.server.pid();
    let (mut at_work, mut killed) = (0, BTreeSet::new());
    for _ in 0..KILLS {
        let pause = gap(&mut chance, Duration::from_millis(800));
        comes(&data, Moment::Any(pause));
        let child = wait_until("a server under the supervisor", || {
            child_of(supervisor, &program)
                .filter(|pid| !killed.contains(pid))
                .ok_or_else(|| "none".to_owned())
        });
        at_work += usize::from(!Locks::of(&data).held().is_empty());
        fleet::kill(child);
        killed.insert(child);
    }
    let last = wait_until("a server under the supervisor", || {
        child_of(supervisor, &program).filter(|pid| !killed.contains(pid)).ok_or_else(|| "none".to_owned())
    });
    answers(fleet.server.address);
    for one in &wanted {
        fleet.rests(one.id);
    }
    all_ended_right(&fleet, &wanted, &watch.end(), CAP);
    assert!(at_work >= KILLS / 2, "only {at_work} kills fell into the work");
    assert_eq!(child_of(supervisor, &program), Some(last), "the last server runs on");
    the_whole_cap_works(&fleet, 4);
    let (code, data) = fleet.server.terminate();
    assert_eq!(code, Some(0), "a stop on request ends well");
    assert_eq!(child_of(supervisor, &program), None);
    end_sessions(data.path());
}

/// The machine goes down and comes up: processes, sockets and the run directory are gone.
#[test]
fn a_reboot_loses_nothing() {
    let fleet = Fleet::start(6);
    let data = fleet.data().to_owned();
    let slow: Vec<i64> = (0..4).map(|_| fleet.add_script("slow:6")).collect();
    let waiting = fleet.add_script("good");
    let first: Vec<String> = slow.iter().map(|id| fleet.works(*id)).collect();
    let dead = fleet.kill();
    end_sessions(&data);
    assert_eq!(marked(&data), BTreeMap::new());
    fs::remove_dir_all(data.join("run")).expect("the run directory");
    let fleet = dead.start();
    for (id, session) in slow.iter().zip(&first) {
        assert_eq!(fleet.rests(*id)["status"], "done", "{}", fleet.story(*id));
        let sessions = fleet.sessions(*id);
        let of = |wanted: &str| sessions.iter().filter(|one| one["outcome"] == wanted).count();
        let lost =
            sessions.iter().find(|one| one["id"] == session.as_str()).map(|one| one["outcome"].clone());
        assert_eq!(lost, Some(Value::from("lost")), "{}", fleet.story(*id));
        // Work again, then its review.
        assert_eq!((of("lost"), of("finished"), sessions.len()), (1, 2, 3), "{}", fleet.story(*id));
    }
    assert_eq!(fleet.rests(waiting)["status"], "done", "{}", fleet.story(waiting));
    assert_eq!(rows::live(&data), []);
    assert_eq!(rows::integrity(&data), "ok");
    fleet::check_records(&data);
    slots_are_free(&fleet);
}
