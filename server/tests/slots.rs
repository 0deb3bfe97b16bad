//! Slots: never more sessions than the cap, work beside the reserve, reviews first, everything once and in order.

#[path = "support/fleet.rs"]
mod fleet;
#[path = "support/server.rs"]
mod support;

use std::collections::{BTreeMap, BTreeSet};

use fleet::{Fleet, Seen, Watch};
use serde_json::{Value, json};

/// What is live and what waits, from the events alone.
#[derive(Default)]
struct Books {
    live: BTreeMap<String, (i64, bool)>,
    waiting_reviews: BTreeSet<i64>,
    claimed_first: Vec<i64>,
    done: BTreeMap<i64, u32>,
}

impl Books {
    fn at_work(&self) -> usize {
        self.live.values().filter(|(_, review)| !review).count()
    }

    fn note(&mut self, id: i64, event: &Value, cap: usize, reserve: usize) {
        let session = event["session"].as_str().unwrap_or_default().to_owned();
        match event["trigger"].as_str().unwrap_or_default() {
            "claimed" => {
                let review = event["reason"].as_str().is_some_and(|reason| reason.starts_with("A review"));
                assert!(
                    self.live.values().all(|(objective, _)| *objective != id),
                    "#{id} is claimed twice: {event}"
                );
                assert!(
                    review || self.waiting_reviews.is_empty(),
                    "work goes before the reviews of {:?}: {event}",
                    self.waiting_reviews
                );
                self.waiting_reviews.remove(&id);
                self.live.insert(session, (id, review));
                assert!(self.live.len() <= cap, "{:?} after {event}", self.live);
                assert!(self.at_work() <= cap - reserve, "{:?} after {event}", self.live);
                if event["from"] == "queue" {
                    self.claimed_first.push(id);
                }
            }
            "no_slot" => {
                let full = self.live.len() >= cap;
                assert!(
                    !self.waiting_reviews.contains(&id) || full,
                    "a review waits beside a free slot: {event}"
                );
            }
            "session_ended" => {
                assert!(self.live.remove(&session).is_some(), "it ends and never began: {event}");
            }
            _ => {}
        }
        match event["to"].as_str() {
            Some("ai_review") => {
                self.waiting_reviews.insert(id);
            }
            Some("done") => *self.done.entry(id).or_default() += 1,
            _ => {}
        }
    }
}

/// Writes objectives while nothing may start, then lets all of them go at once and waits for the end.
fn run(fleet: &Fleet, new: &[Value]) -> (Vec<i64>, Seen) {
    let switch = fleet.data().join("DISABLED");
    std::fs::write(&switch, "the test writes objectives").expect("the kill switch");
    let ids: Vec<i64> = new.iter().map(|fields| fleet.add(fields)).collect();
    assert!(fleet.live().is_empty(), "the kill switch holds everything");
    let watch = Watch::of(fleet.data());
    std::fs::remove_file(&switch).expect("the kill switch");
    for id in &ids {
        let card = fleet.rests(*id);
        assert_eq!(card["status"], "done", "{}", fleet.story(*id));
    }
    (ids, watch.end())
}

fn keep_books(fleet: &Fleet, ids: &[i64], cap: usize, reserve: usize) -> Books {
    let mut books = Books::default();
    for (id, event) in fleet.history(ids) {
        books.note(id, &event, cap, reserve);
    }
    assert!(books.live.is_empty() && books.waiting_reviews.is_empty(), "everything ended");
    assert!(books.done.values().all(|times| *times == 1), "done once each: {:?}", books.done);
    assert_eq!(books.done.len(), ids.len());
    books
}

/// The time from delivery to claim of reviews that found a free slot.
fn longest_review_wait(fleet: &Fleet, ids: &[i64], cap: usize) -> i64 {
    let (mut live, mut since, mut longest) = (BTreeSet::new(), BTreeMap::new(), 0);
    for (id, event) in fleet.history(ids) {
        let at = event["at"].as_i64().expect("a time");
        let session = event["session"].as_str().unwrap_or_default().to_owned();
        match event["trigger"].as_str().unwrap_or_default() {
            "claimed" => {
                if let Some(since) = since.remove(&id) {
                    longest = longest.max(at - since);
                }
                live.insert(session);
            }
            "session_ended" => {
                live.remove(&session);
            }
            _ => {}
        }
        if event["to"] == "ai_review" {
            since.insert(id, at);
        }
        if live.len() >= cap {
            // While everything is taken a review may wait.
            since.values_mut().for_each(|since| *since = at);
        }
    }
    longest
}

#[test]
fn thirty_at_once_keep_the_cap_and_the_order() {
    let fleet = Fleet::start(10);
    let new: Vec<Value> = (0..30)
        .map(|n| {
            // Sessions that outlast the starts of others, however slow the machine, fill the slots.
            let script = ["good", "slow:3", "slow:3", "fails-then-good", "slow:3"][n % 5];
            let priority = [0, 2, 0, 4, 0, 1][n % 6];
            json!({"title": format!("Objective {n}"), "script": script, "priority": priority})
        })
        .collect();
    let (ids, seen) = run(&fleet, &new);

    assert!(seen.looks > 100, "{seen:?}");
    assert!(seen.most <= 10 && seen.most_at_work <= 8, "{seen:?}");
    assert!(seen.most_at_work >= 6, "the slots are used: {seen:?}");
    assert_eq!(seen.twice, Vec::<String>::new());

    let books = keep_books(&fleet, &ids, 10, 2);
    let mut expected: Vec<(i64, i64)> =
        ids.iter().zip(&new).map(|(id, new)| (-new["priority"].as_i64().unwrap(), *id)).collect();
    expected.sort_unstable();
    let expected: Vec<i64> = expected.into_iter().map(|(_, id)| id).collect();
    assert_eq!(books.claimed_first, expected, "claimed by priority, then by number");
    let waited = longest_review_wait(&fleet, &ids, 10);
    assert!(waited < 5_000, "a review waited {waited} ms beside a free slot");
    assert_eq!(fleet::Locks::of(fleet.data()).held(), [], "no runner is left");
    let sessions: usize = ids.iter().map(|id| fleet.sessions(*id).len()).sum();
    assert_eq!(fleet::check_records(fleet.data()), sessions, "every session has a whole record");
}

#[test]
fn with_one_slot_reviews_go_first() {
    let fleet = Fleet::start(1);
    let new: Vec<Value> =
        (0..4).map(|n| json!({"title": format!("Objective {n}"), "script": "good"})).collect();
    let (ids, seen) = run(&fleet, &new);
    assert_eq!((seen.most, seen.twice), (1, Vec::new()));
    let books = keep_books(&fleet, &ids, 1, 0);
    assert_eq!(books.claimed_first, ids);
    let claims: Vec<(i64, bool)> = fleet
        .history(&ids)
        .iter()
        .filter(|(_, event)| event["trigger"] == "claimed")
        .map(|(id, event)| (*id, event["from"] == "queue"))
        .collect();
    let expected: Vec<_> = ids.iter().flat_map(|id| [(*id, true), (*id, false)]).collect();
    assert_eq!(claims, expected, "each is reviewed before the next begins");
}
