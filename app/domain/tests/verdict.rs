//! Nothing but a complete, consistent verdict for this very review counts.
#![allow(
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    clippy::nonminimal_bool,
    reason = "a test says what it expects"
)]

use opkit_domain::ids::ObjectiveId;
use opkit_domain::verdict::{Expected, read};
use serde_json::{Value, json};

const SESSION: &str = "5c1e7a2e-0000-4000-8000-000000000001";

fn expected() -> Expected {
    Expected {
        objective: ObjectiveId(42),
        session: SESSION.parse().unwrap(),
        commit: "abc".into(),
        nonce: "n1".into(),
        criteria: 2,
    }
}

fn pass() -> Value {
    json!({
        "objective": 42, "session": SESSION, "commit": "abc", "nonce": "n1", "verdict": "pass",
        "criteria": [
            {"index": 0, "status": "met", "evidence": "a.rs:1"},
            {"index": 1, "status": "met", "evidence": "check exit 0"}
        ],
        "findings": [], "summary": "fine"
    })
}

fn with(change: impl FnOnce(&mut Value)) -> Vec<u8> {
    let mut value = pass();
    change(&mut value);
    serde_json::to_vec(&value).unwrap()
}

#[test]
fn a_complete_pass_counts() {
    assert!(read(&with(|_| {}), &expected()).is_ok());
}

#[test]
fn everything_else_is_refused_with_a_reason() {
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("prose", b"VERDICT: pass".to_vec()),
        ("nothing", b"".to_vec()),
        ("two verdicts", [with(|_| {}), with(|_| {})].concat()),
        ("bold", br#"{"verdict":"**pass**"}"#.to_vec()),
        ("other objective", with(|v| v["objective"] = 7.into())),
        ("other session", with(|v| v["session"] = "5c1e7a2e-0000-4000-8000-000000000002".into())),
        ("other commit", with(|v| v["commit"] = "def".into())),
        ("wrong nonce", with(|v| v["nonce"] = "n2".into())),
        ("unknown field", with(|v| v["override"] = true.into())),
        (
            "criterion missing",
            with(|v| v["criteria"] = json!([{"index": 0, "status": "met", "evidence": "x"}])),
        ),
        ("criterion twice", with(|v| v["criteria"][1]["index"] = 0.into())),
        ("criterion unknown", with(|v| v["criteria"][1]["index"] = 9.into())),
        ("pass with not met", with(|v| v["criteria"][1]["status"] = "not_met".into())),
        ("pass with unclear", with(|v| v["criteria"][1]["status"] = "unclear".into())),
        ("pass with a major finding", with(|v| v["findings"] = json!([{"severity": "major", "text": "x"}]))),
        ("pass without evidence", with(|v| v["criteria"][0]["evidence"] = " ".into())),
        ("fail without a reason", with(|v| v["verdict"] = "fail".into())),
    ];
    for (name, bytes) in cases {
        let error = read(&bytes, &expected()).expect_err(name);
        assert!(error.0.len() > 10, "{name}: {error}");
    }
}

#[test]
fn findings_name_criterion_expectation_and_evidence() {
    let bytes = with(|v| {
        v["verdict"] = "fail".into();
        v["criteria"][1] = json!({"index": 1, "status": "not_met", "severity": "major",
            "evidence": "exit 1", "expected": "exit 0", "actual": "exit 1."});
    });
    let lines = read(&bytes, &expected()).unwrap().finding_lines();
    assert_eq!(lines, ["Criterion 2 is not met. Expected: exit 0. Found: exit 1. Evidence: exit 1."]);
}
