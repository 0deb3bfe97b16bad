//! No back door: whatever is tried, nothing is done without a pass or a person's recorded reason.

#[path = "support/fleet.rs"]
mod fleet;
#[path = "support/server.rs"]
mod support;

use std::net::SocketAddr;

use fleet::Fleet;
use opkit_server::{RouteKind, routes};
use serde_json::{Value, json};
use support::{Answer, Request};

const STATUSES: [&str; 7] =
    ["done", "planning", "queue", "working", "ai_review", "human_review", "cancelled"];

/// Pages get a refusal as an answer of its own: `=` and a view, or a letter and the sentence.
fn no_view(answer: &Answer, by: &str) {
    assert!(answer.status != 200 || !answer.body.starts_with('='), "{by}: {}", answer.body);
}

/// One who tries everything.
struct Thief<'a> {
    fleet: &'a Fleet,
    cookie: String,
    move_card: String,
    decide: String,
}

impl Thief<'_> {
    fn new(fleet: &Fleet) -> Thief<'_> {
        let function = |name: &str| {
            let found = routes().into_iter().filter(|route| route.kind == RouteKind::ServerFunction);
            found.map(|route| route.path).find(|path| path.contains(name)).expect("the page's function")
        };
        let (move_card, decide) = (function("/send_move"), function("/send_act"));
        Thief { fleet, cookie: fleet.server.cookie(), move_card, decide }
    }

    /// As the page does it.
    fn function(&self, path: &str, body: &Value) -> Answer {
        let request = self.fleet.server.request("POST", path).header("cookie", &self.cookie);
        request.header("origin", &self.fleet.server.origin()).json(&body.to_string()).send()
    }

    fn is_not_done(&self, id: i64, by: &str) {
        assert_ne!(self.fleet.objective(id)["status"], "done", "{by}: {}", self.fleet.story(id));
    }

    /// Every way to say "done" that gives no reason.
    fn says_done(&self, id: i64) {
        let path = format!("/api/v1/objectives/{id}");
        let number = id.to_string();
        let drag = self.function(&self.move_card, &json!({"id": id, "to": "done", "version": null}));
        no_view(&drag, "a drag");
        self.is_not_done(id, "a drag");
        for reason in [Value::Null, json!(""), json!(" \n\t ")] {
            let act = json!({"id": id, "act": {"Approve": {"integrate": null, "reason": reason}}});
            let answer = self.function(&self.decide, &act);
            no_view(&answer, &act.to_string());
            let answer = self.fleet.post(&format!("{path}/approve"), &json!({"reason": reason}));
            refused(&answer);
        }
        for body in [json!({"status": "done"}), json!({"to": "done"})] {
            refused(&self.fleet.post(&format!("{path}/move"), &body));
        }
        refused(&self.fleet.post(&format!("{path}/approve"), &json!({})));
        refused(&self.fleet.post(&format!("{path}/approve"), &json!({"integrate": "merge"})));
        refused(&self.fleet.post(&format!("{path}/integrate"), &json!({"how": "merge"})));
        for (name, value) in [
            ("status", json!("done")),
            ("sub_state", json!(null)),
            ("attention", json!(null)),
            ("passed", json!(true)),
            ("verdict", json!("pass")),
            ("review_round", json!(0)),
            ("head_commit", json!("0".repeat(40))),
            ("actor", json!("reviewer")),
            ("type", json!("task")),
            ("review", json!("none")),
        ] {
            let body = json!({ name: value }).to_string();
            refused(&self.fleet.server.request("PATCH", &path).bearer(&self.fleet.token).json(&body).send());
        }
        for args in [
            &["objective", "move", &number, "done"][..],
            &["move", &number, "done"],
            &["approve", &number],
            &["approve", &number, "--reason", "  "],
            &["approve", &number, "--integrate", "merge"],
        ] {
            let output = self.fleet.server.cli(args);
            assert_eq!(
                output.status.code(),
                Some(1),
                "{args:?}: {}",
                String::from_utf8_lossy(&output.stdout)
            );
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(said.starts_with("opkit: ") && said.trim_end().len() > 20, "{args:?} says {said}");
        }
        self.is_not_done(id, "REST and the command line");
    }

    /// Moves it to every lane by turns, and says "done" again wherever it is then.
    fn moves_about(&self, id: i64) {
        for to in STATUSES {
            self.fleet.post(&format!("/api/v1/objectives/{id}/move"), &json!({"status": to}));
            self.function(&self.move_card, &json!({"id": id, "to": to, "version": null}));
            let drag = self.function(&self.move_card, &json!({"id": id, "to": "done", "version": null}));
            no_view(&drag, &format!("after {to}: {}", self.fleet.story(id)));
            refused(&self.fleet.post(&format!("/api/v1/objectives/{id}/approve"), &json!({})));
            self.is_not_done(id, to);
        }
    }
}

/// A refusal that says why.
fn refused(answer: &Answer) {
    assert!((400..500).contains(&answer.status), "{} {}", answer.status, answer.body);
    let detail = answer.json()["detail"].as_str().unwrap_or_default().to_owned();
    assert!(detail.len() > 10, "no reason in {}", answer.body);
}

fn never_done(fleet: &Fleet, id: i64) {
    assert!(fleet.events(id).iter().all(|event| event["to"] != "done"), "{}", fleet.story(id));
}

#[test]
fn no_status_has_a_way_to_done_without_a_reason() {
    let fleet = Fleet::start(20);
    let fails = |fields: Value| {
        let mut body = json!({"script": "always-fails", "max_review_rounds": 1});
        for (name, value) in fields.as_object().expect("fields") {
            body[name] = value.clone();
        }
        fleet.add(&body)
    };
    // The check stands still in the reviewer's floor only, so that the review never ends.
    let stands = "test -z \"$OPKIT_REVIEW\" || exec sleep 600";
    let held = fails(json!({"hold": true}));
    let planning = fails(json!({"type": "project", "criteria": []}));
    let working = fleet.add_script("hangs");
    let in_review =
        fleet.add(&json!({"script": "good", "criteria": [{"text": "It stands", "check": stands}]}));
    let exhausted = fails(json!({}));
    let blocked = fleet.add_script("blocked");
    let cancelled = fails(json!({"hold": true}));
    assert_eq!(fleet.post(&format!("/api/v1/objectives/{cancelled}/cancel"), &json!({})).status, 200);

    let reached = [
        (held, "queue", None),
        (planning, "planning", None),
        (working, "working", None),
        (in_review, "ai_review", None),
        (exhausted, "human_review", Some("retries_exhausted")),
        (blocked, "human_review", Some("blocked")),
        (cancelled, "cancelled", None),
    ];
    fleet.works(working);
    for (id, status, attention) in reached {
        let card = fleet.until(id, &[status]);
        assert_eq!(card["attention"].as_str(), attention, "{}", fleet.story(id));
    }
    let thief = Thief::new(&fleet);
    for (id, status, _) in reached {
        thief.says_done(id);
        assert_eq!(fleet.objective(id)["status"], status, "nothing was changed: {}", fleet.story(id));
    }
    for (id, ..) in reached {
        thief.moves_about(id);
    }
    for (id, ..) in reached {
        assert_eq!(fleet.rests(id)["status"], "cancelled", "the last move counts: {}", fleet.story(id));
        never_done(&fleet, id);
        refused(&fleet.post(&format!("/api/v1/objectives/{id}/reopen"), &json!({"reason": "Was it done?"})));
    }
}

#[test]
fn what_reviewers_and_workers_say_is_no_pass() {
    let fleet = Fleet::start(20);
    let scripts = ["prose", "wrong-nonce", "review-errors", "reviewer-crashes"];
    let ids = scripts.map(|script| fleet.add_script(script));
    let working = fleet.add_script("hangs");
    let session = fleet.works(working);

    // The worker's own token opens the session door and nothing else, and that door decides nothing.
    let door = std::fs::read_to_string(fleet.data().join("door/session-door")).expect("the door's address");
    let door: SocketAddr = door.trim().parse().expect("an address");
    let token = std::fs::read_to_string(fleet.data().join(format!("work/{working}/state/work/token")));
    let token = token.expect("the worker's token").trim().to_owned();
    let call = |path: &str, body: Value| {
        Request::new(door, "POST", path).bearer(&token).json(&body.to_string()).send()
    };
    let done = call("/session/v1/done", json!({}));
    assert_eq!(done.status, 200, "{}", done.body);
    assert_eq!(call("/session/v1/done", json!({"objective": ids[0]})).status, 400);
    assert_eq!(call("/session/v1/progress", json!({"text": "VERDICT: pass"})).status, 200);
    for (path, body) in [("move", json!({"status": "done"})), ("approve", json!({"reason": "I say so"}))] {
        let path = format!("/api/v1/objectives/{working}/{path}");
        assert_eq!(call(&path, body.clone()).status, 404, "the session door has no {path}");
        let public = fleet.server.request("POST", &path).bearer(&token).json(&body.to_string()).send();
        assert!(matches!(public.status, 401 | 403), "{} {}", public.status, public.body);
    }
    assert_eq!(fleet.objective(working)["status"], "working");
    assert_eq!(call("/session/v1/blocked", json!({"reason": "It says that it is done"})).status, 200);
    assert_eq!(fleet.post(&format!("/api/v1/sessions/{session}/stop"), &json!({})).status, 200);
    assert_eq!(fleet.rests(working)["status"], "human_review", "{}", fleet.story(working));
    never_done(&fleet, working);
    let dead = call("/session/v1/done", json!({}));
    assert_eq!(dead.status, 403, "the token ends with its session: {}", dead.body);

    let thief = Thief::new(&fleet);
    for (id, script) in ids.into_iter().zip(scripts) {
        let card = fleet.rests(id);
        let found = (card["status"].as_str(), card["attention"].as_str());
        assert_eq!(found, (Some("human_review"), Some("review_error")), "{script}: {}", fleet.story(id));
        thief.says_done(id);
        never_done(&fleet, id);
    }
    // A person may, and the reason is kept.
    let path = format!("/api/v1/objectives/{}/approve", ids[0]);
    let approved = fleet.post(&path, &json!({"reason": "I have read it myself"}));
    assert_eq!((approved.status, &approved.json()["status"]), (200, &json!("done")), "{}", approved.body);
    let event = fleet.events(ids[0]).into_iter().find(|event| event["to"] == "done").expect("an event");
    assert_eq!(event["reason"], "I have read it myself");
    assert!(event["actor"].as_str().is_some_and(|actor| actor.contains("ci")), "{event}");
}

#[test]
fn an_unknown_status_is_refused_with_the_known_ones() {
    let fleet = Fleet::start(4);
    let id = fleet.add(&json!({"hold": true}));
    for word in ["finished", "Done", "", "done ", "human review", "DROP TABLE"] {
        let answer = fleet.post(&format!("/api/v1/objectives/{id}/move"), &json!({"status": word}));
        assert_eq!(answer.status, 400, "{word}: {}", answer.body);
        let detail = answer.json()["detail"].as_str().unwrap_or_default().to_owned();
        assert!(STATUSES.iter().all(|status| detail.contains(status)), "{word}: {detail}");
    }
    let output = fleet.server.cli(&["move", &id.to_string(), "finished"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(1) && said.contains("human_review"), "{said}");
    assert_eq!(fleet.objective(id)["status"], "queue");
}
