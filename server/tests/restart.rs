//! `kill -9` of the server: sessions go on, and the next start finds out what became of each.

#[path = "support/fleet.rs"]
mod fleet;
#[path = "support/server.rs"]
mod support;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use fleet::{Dead, Fleet, Locks, Watch, agent_pid, kill, marked, runner_pid, session_dir};
use opkit_domain::session::files;
use serde_json::{Value, json};
use support::{PATIENCE, wait_until};

fn has_ended(data: &Path, session: &str) -> bool {
    session_dir(data, session).join(files::EXIT).exists()
}

/// Waits for exit files that runners write while no server runs.
fn ends_alone(dead: &Dead, session: &str) {
    wait_until(&format!("{session} to end by itself"), || {
        if has_ended(dead.data.path(), session) { Ok(()) } else { Err("it has no exit file".into()) }
    });
}

/// Waits until rows and runner locks say the same.
fn slots_are_right(fleet: &Fleet) -> Vec<Value> {
    wait_until("live rows and held locks to be the same", || {
        let rows = fleet.live();
        let mut live: Vec<_> =
            rows.iter().map(|row| row["id"].as_str().unwrap_or_default().to_owned()).collect();
        let mut held: Vec<_> = Locks::of(fleet.data()).held().into_iter().map(|held| held.session).collect();
        live.sort_unstable();
        held.sort_unstable();
        if live == held { Ok(rows) } else { Err(format!("rows {live:?}, locks {held:?}")) }
    })
}

fn session<'a>(list: &'a [Value], id: &str) -> &'a Value {
    list.iter().find(|session| session["id"] == id).expect("the session is still known")
}

#[test]
fn five_sessions_outlive_their_server() {
    // A cap of 6 keeps one slot for reviews: five work, two wait.
    let fleet = Fleet::start(6);
    let scripts = ["slow:8", "slow:9", "slow:12", "floods-slow:20", "slow:20"];
    let ids: Vec<i64> = scripts.iter().map(|script| fleet.add_script(script)).collect();
    let waiting: Vec<i64> = (0..2).map(|_| fleet.add_script("good")).collect();
    let sessions: Vec<String> = ids.iter().map(|id| fleet.works(*id)).collect();
    let runners: Vec<Option<u32>> =
        sessions.iter().map(|session| runner_pid(&session_dir(fleet.data(), session))).collect();
    let watch = Watch::of(fleet.data());

    let dead = fleet.kill();
    let data = dead.data.path().to_owned();
    assert!(sessions.iter().all(|session| !has_ended(&data, session)), "all five run when the server dies");
    kill(agent_pid(&session_dir(&data, &sessions[2])));
    for session in &sessions[..3] {
        ends_alone(&dead, session);
    }
    for at in [3, 4] {
        let runner = runner_pid(&session_dir(&data, &sessions[at]));
        assert_eq!(
            (runner, has_ended(&data, &sessions[at])),
            (runners[at], false),
            "{} goes on",
            scripts[at]
        );
    }

    let fleet = dead.start();
    wait_until("every session to be adopted, ended or classified", || {
        let all: Vec<Value> = ids.iter().flat_map(|id| fleet.sessions(*id)).collect();
        let outcome = |at: usize| session(&all, &sessions[at])["outcome"].clone();
        let state = |at: usize| session(&all, &sessions[at])["state"].clone();
        let known = [0, 1].iter().all(|at| outcome(*at) == "finished")
            && outcome(2) == "killed"
            && [3, 4].iter().all(|at| state(*at) == "running" || outcome(*at) == "finished");
        if known { Ok(()) } else { Err(format!("{all:#?}")) }
    });
    for at in [3, 4] {
        let runner = runner_pid(&session_dir(&data, &sessions[at]));
        let ended = has_ended(&data, &sessions[at]);
        assert!(runner == runners[at] || ended, "{} keeps its runner", scripts[at]);
    }
    // Three slots came free: those who waited have begun, and the one whose agent was killed goes again.
    for id in waiting.iter().chain([&ids[2]]) {
        wait_until(&format!("a slot for #{id}"), || {
            let claims = fleet.events(*id).iter().filter(|event| event["trigger"] == "claimed").count();
            let wanted = if *id == ids[2] { 2 } else { 1 };
            if claims >= wanted { Ok(()) } else { Err(fleet.story(*id)) }
        });
    }
    slots_are_right(&fleet);

    for id in ids.iter().chain(&waiting) {
        assert_eq!(fleet.rests(*id)["status"], "done", "{}", fleet.story(*id));
        let work = fleet.sessions(*id).iter().filter(|session| session["role"] == "work").count();
        assert_eq!(work, if *id == ids[2] { 2 } else { 1 }, "{}", fleet.story(*id));
    }
    assert!(slots_are_right(&fleet).is_empty());
    let seen = watch.end();
    assert!(seen.most <= 6, "{seen:?}");
    assert_eq!(seen.twice, Vec::<String>::new());
    assert!(fleet::check_records(&data) >= 15);
    let flood = fleet::whole_record(&session_dir(&data, &sessions[3])).flood();
    assert!(flood.len() > 100_000, "{} lines of the flood", flood.len());
}

#[test]
fn a_runner_that_is_killed_takes_nothing_with_it() {
    let fleet = Fleet::start(4);
    let id = fleet.add_script("hangs");
    let other = fleet.add_script("slow:6");
    let (first, second) = (fleet.works(id), fleet.works(other));
    let watch = Watch::of(fleet.data());
    let dead = fleet.kill();
    let data = dead.data.path().to_owned();
    let agent = agent_pid(&session_dir(&data, &first));
    kill(runner_pid(&session_dir(&data, &first)).expect("a runner"));
    let mine = |data: &Path| marked(data).remove(&id).unwrap_or_default();
    wait_until("the runner to be gone", || match runner_pid(&session_dir(&data, &first)) {
        None => Ok(()),
        Some(pid) => Err(format!("{pid} holds the lock")),
    });
    assert!(mine(&data).get(&first).is_some_and(|pids| pids.contains(&agent)), "the agent lives on alone");
    // A power cut may empty what the runner wrote into its lock file; the row still says that it ran.
    fs::write(session_dir(&data, &first).join(files::LOCK), "").expect("a lock file");

    let fleet = dead.start();
    // Lost, everything of it ended, and only then a second session in the same worktree.
    let again = wait_until("a second session", || {
        let sessions = fleet.sessions(id);
        let lost = session(&sessions, &first)["outcome"] == "lost";
        let next =
            sessions.iter().find(|session| session["id"] != first.as_str() && session["ended_at"].is_null());
        match next.and_then(|session| session["id"].as_str()) {
            Some(next) if lost => Ok(next.to_owned()),
            _ => Err(fleet.story(id)),
        }
    });
    assert!(!mine(&data).contains_key(&first), "no process of the lost session is left");
    assert_eq!(fleet.works(id), again);
    assert_eq!(
        session(&fleet.sessions(other), &second)["pid"],
        json!(runner_pid(&session_dir(&data, &second)))
    );
    slots_are_right(&fleet);

    // The same while the server runs.
    kill(runner_pid(&session_dir(&data, &again)).expect("a runner"));
    wait_until("the loss to be seen", || {
        let sessions = fleet.sessions(id);
        if session(&sessions, &again)["outcome"] == "lost" { Ok(()) } else { Err(fleet.story(id)) }
    });
    assert!(!mine(&data).contains_key(&again));
    assert_eq!(fleet.post(&format!("/api/v1/objectives/{id}/cancel"), &json!({})).status, 200);
    assert_eq!(fleet.rests(other)["status"], "done", "{}", fleet.story(other));
    wait_until("the cancelled one to stop", || {
        let left = mine(&data);
        if left.is_empty() && fleet.live().is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
    });
    assert_eq!(watch.end().twice, Vec::<String>::new());
}

#[test]
fn a_delivery_survives_a_kill_while_it_is_taken_in() {
    let mut fleet = Fleet::start(4);
    for round in 0..4 {
        // A task: its delivery is taken in and decides at once.
        let id = fleet.add(&json!({"type": "task", "title": format!("Task {round}"), "script": "good"}));
        let session = wait_until("a session", || {
            let session =
                fleet.sessions(id).first().and_then(|session| session["id"].as_str().map(str::to_owned));
            session.ok_or_else(|| fleet.story(id))
        });
        let deadline = Instant::now() + PATIENCE;
        let spin = |what: &str, there: &dyn Fn() -> bool| {
            while !there() {
                assert!(Instant::now() < deadline, "{what} never comes: {}", fleet.story(id));
                std::hint::spin_loop();
            }
        };
        // The worst moments to die: the commit is in the mirror and not in the database, the bundle is gone.
        if round % 2 == 0 {
            let branch = fleet.data().join(format!("mirrors/1.git/refs/heads/obj/{id}"));
            spin("the branch", &|| branch.exists());
        } else {
            let bundle = session_dir(fleet.data(), &session).join(files::RESULT_BUNDLE);
            spin("a bundle", &|| bundle.exists());
            spin("the end of the bundle", &|| !bundle.exists());
        }
        fleet = fleet.kill().start();
        let card = fleet.rests(id);
        assert_eq!(
            (&card["status"], &card["review_round"]),
            (&json!("done"), &json!(0)),
            "{}",
            fleet.story(id)
        );
        assert_eq!(fleet.sessions(id).len(), 1, "{}", fleet.story(id));
    }
}

/// A pause of 0 to 1.6 s without pattern.
fn whim(state: &mut u64) -> Duration {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    Duration::from_millis(*state % 1600)
}

#[test]
fn ten_kills_at_any_instant_change_no_end() {
    let ends: [(&str, &str, Option<&str>); 12] = [
        ("good", "done", None),
        ("slow:2", "done", None),
        ("fails-then-good", "done", None),
        ("floods:2", "done", None),
        ("writes-outside", "done", None),
        ("slow:4", "done", None),
        ("good", "done", None),
        ("always-fails", "human_review", Some("retries_exhausted")),
        ("blocked", "human_review", Some("blocked")),
        ("crashes", "human_review", Some("session_lost")),
        ("asks-nothing", "human_review", Some("no_deliverable")),
        ("wrong-nonce", "human_review", Some("review_error")),
    ];
    let mut fleet = Fleet::start(6);
    let watch = Watch::of(fleet.data());
    let ids: Vec<i64> = ends.iter().map(|(script, ..)| fleet.add_script(script)).collect();
    let seed = rand::random::<u64>() | 1;
    let mut state = seed;
    for _ in 0..10 {
        // The experiment itself: no condition to wait for.
        std::thread::sleep(whim(&mut state));
        fleet = fleet.kill().start();
    }
    for (id, (script, status, attention)) in ids.iter().zip(&ends) {
        let card = fleet.rests(*id);
        let found = (card["status"].as_str(), card["attention"].as_str());
        assert_eq!(found, (Some(*status), *attention), "{script}, seed {seed}: {}", fleet.story(*id));
    }
    assert!(slots_are_right(&fleet).is_empty());
    let seen = watch.end();
    assert!(seen.most <= 6, "seed {seed}: {seen:?}");
    assert_eq!(seen.twice, Vec::<String>::new(), "seed {seed}");
    fleet::check_records(fleet.data());
    let mut numbers: BTreeMap<i64, u32> = BTreeMap::new();
    for (id, event) in fleet.history(&ids) {
        *numbers.entry(event["seq"].as_i64().expect("a number")).or_default() += 1;
        assert!(
            event["to"] != "done" || ends[ids.iter().position(|known| *known == id).unwrap()].1 == "done"
        );
    }
    assert!(numbers.values().all(|times| *times == 1), "no event number twice");
    for id in &ids {
        let ended = fleet.events(*id).iter().filter(|event| event["trigger"] == "session_ended").count();
        assert_eq!(ended, fleet.sessions(*id).len(), "each session ends once: {}", fleet.story(*id));
    }
}
