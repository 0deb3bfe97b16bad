//! Usage limits: the account rests until the stated end, the objective goes on elsewhere, and no attempt is used.

#[path = "support/fleet.rs"]
mod fleet;
#[path = "support/rows.rs"]
mod rows;
#[path = "support/server.rs"]
mod support;

use std::time::Duration;

use fleet::Fleet;
use opkit_engine::now_ms;
use rows::SessionRow;
use serde_json::{Value, json};
use support::wait_within;

/// The scripts state this many seconds until the limit's end.
const COOL_DOWN_S: i64 = 90;

fn accounts(fleet: &Fleet) -> Vec<Value> {
    fleet::items(fleet.get("/api/v1/accounts"))
}

fn account(fleet: &Fleet, name: &str) -> Value {
    let all = accounts(fleet);
    all.into_iter().find(|account| account["name"] == name).expect("the account is listed")
}

fn limited(fleet: &Fleet, id: i64) -> Vec<Value> {
    let all = fleet.sessions(id);
    all.into_iter().filter(|session| session["outcome"] == "usage_limited").collect()
}

/// Waits until an objective has met this many limits; gives the accounts in the order in which they were met.
fn meets_limits(fleet: &Fleet, id: i64, times: usize) -> Vec<String> {
    wait_within(Duration::from_secs(60), &format!("{times} limits of #{id}"), || {
        let mut met = limited(fleet, id);
        met.sort_by_key(|session| session["started_at"].as_i64());
        if met.len() < times {
            return Err(fleet.story(id));
        }
        Ok(met.iter().map(|session| session["account"].as_str().expect("a name").to_owned()).collect())
    })
}

/// No attempt is used: neither a round nor anything that a bound counts.
fn no_attempt_is_used(fleet: &Fleet, id: i64) {
    let card = fleet.objective(id);
    assert_eq!(card["failed_rounds"], 0, "{}", fleet.story(id));
    assert_eq!(rows::failures(fleet.data(), id), [0; 4], "{}", fleet.story(id));
}

/// Sessions of an account that began between two times.
fn began_between(fleet: &Fleet, account: &str, from: i64, to: i64) -> Vec<SessionRow> {
    let all = rows::sessions(fleet.data());
    all.into_iter()
        .filter(|row| row.account == account && row.started_at > from && row.started_at < to)
        .collect()
}

#[test]
fn a_limited_account_rests_and_the_others_go_on() {
    let fleet = Fleet::start(20);
    // One session on each account, so that the account that meets its limit has another one at work.
    let beside: Vec<i64> = (0..5).map(|_| fleet.add_script("slow:6")).collect();
    for id in &beside {
        fleet.works(*id);
    }
    let id = fleet.add_script("usage-limit");
    let name = meets_limits(&fleet, id, 1).remove(0);
    let met_at = now_ms();
    let resting = account(&fleet, &name);
    assert_eq!(resting["state"], "cooling_down", "{resting}");
    assert!(resting["reason"].as_str().is_some_and(|why| why.contains("usage limit")), "{resting}");
    let until = resting["until"].as_i64().expect("it says until when");
    let ahead = until - limited(&fleet, id)[0]["started_at"].as_i64().expect("a time");
    assert!(((COOL_DOWN_S - 1) * 1000..COOL_DOWN_S * 1000 + 10_000).contains(&ahead), "{ahead} ms");
    let others = accounts(&fleet).iter().filter(|other| other["state"] == "available").count();
    assert_eq!(others, 4, "one limit rests one account");

    // The objective goes on elsewhere, and what ran on the account goes on.
    let more: Vec<i64> = (0..8).map(|_| fleet.add_script("good")).collect();
    for one in more.iter().chain(&beside).chain([&id]) {
        assert_eq!(fleet.rests(*one)["status"], "done", "{}", fleet.story(*one));
        no_attempt_is_used(&fleet, *one);
    }
    let work: Vec<Value> =
        fleet.sessions(id).into_iter().filter(|session| session["role"] == "work").collect();
    assert_eq!(work.len(), 2, "{}", fleet.story(id));
    assert!(
        work.iter().any(|session| session["outcome"] == "finished" && session["account"] != name.as_str())
    );
    let on_it =
        beside.iter().filter(|one| fleet.sessions(**one).iter().any(|s| s["account"] == name.as_str()));
    assert!(on_it.count() >= 1, "one of those beside it ran there");

    // A restart forgets nothing.
    let fleet = fleet.kill().start();
    if now_ms() < until {
        assert_eq!(account(&fleet, &name)["until"], until);
    }
    wait_within(Duration::from_secs(150), "the end of the cool-down", || {
        let account = account(&fleet, &name);
        if account["state"] == "available" { Ok(()) } else { Err(account.to_string()) }
    });
    assert!(now_ms() >= until);
    let after: Vec<i64> = (0..5).map(|_| fleet.add_script("good")).collect();
    for one in &after {
        assert_eq!(fleet.rests(*one)["status"], "done", "{}", fleet.story(*one));
    }
    assert_eq!(began_between(&fleet, &name, met_at, until), [], "nothing new began on {name}");
    assert_ne!(began_between(&fleet, &name, until - 1, i64::MAX), [], "{name} is used again");
}

#[test]
fn with_all_limited_the_queue_waits_and_resumes_by_itself() {
    let fleet = Fleet::start(20);
    let id = fleet.add_script("usage-limit-always");
    // More limits than a bound of failures would allow.
    let mut met = meets_limits(&fleet, id, 5);
    met.sort_unstable();
    met.dedup();
    assert_eq!(met.len(), 5, "each account is tried once: {met:?}");
    let all = accounts(&fleet);
    let until: Vec<i64> = all.iter().filter_map(|account| account["until"].as_i64()).collect();
    assert_eq!(until.len(), 5, "{all:?}");
    let first = until.iter().min().copied().expect("an end");
    assert_eq!(fleet.get("/api/v1/accounts")["until"], first, "the pool says until when");
    let listed = fleet.server.cli(&["accounts", "list"]);
    let lines = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert_eq!(lines.matches("  until ").count(), 5, "{lines}");
    let card = fleet.until(id, &["working"]);
    assert_eq!(card["sub_state"], "waiting_account", "{}", fleet.story(id));
    let show = |id: i64| {
        let output = fleet.server.cli(&["objective", "show", &id.to_string()]);
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let shown = show(id);
    assert!(shown.contains("No account is free until ") || now_ms() >= first, "{shown}");
    no_attempt_is_used(&fleet, id);
    let waiting: Vec<i64> = (0..3).map(|_| fleet.add_script("good")).collect();
    let cancelled = fleet.post(&format!("/api/v1/objectives/{id}/cancel"), &json!({}));
    assert_eq!(cancelled.status, 200, "{}", cancelled.body);
    for one in &waiting {
        if now_ms() < first {
            assert_eq!(fleet.objective(*one)["status"], "queue", "{}", fleet.story(*one));
        }
    }
    let started = wait_within(Duration::from_secs(150), "the queue to go on", || {
        let sessions = waiting.iter().flat_map(|one| fleet.sessions(*one));
        sessions.filter_map(|session| session["started_at"].as_i64()).min().ok_or_else(|| format!("{all:?}"))
    });
    assert!(started >= first, "began {} ms before the first cool-down was over", first - started);
    // By a timer of seconds, not of minutes.
    assert!(
        started - first < 45_000,
        "it took {} ms to see that the first cool-down was over",
        started - first
    );
    for one in &waiting {
        assert_eq!(fleet.rests(*one)["status"], "done", "{}", fleet.story(*one));
        no_attempt_is_used(&fleet, *one);
    }
    assert_eq!(rows::live(fleet.data()), []);
}
