//! The rules as a table (a snapshot that a reviewer reads) and as properties.
#![allow(
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    clippy::nonminimal_bool,
    reason = "a test says what it expects"
)]

use opkit_domain::objective::{
    Attention, Counters, Facts, Gate, Kind, MAX_PLAN_FAILURES, MAX_REVIEW_ERRORS, MAX_RUN_FAILURES,
    MAX_START_FAILURES, Status, SubState,
};
use opkit_domain::session::{Outcome, Role};
use opkit_domain::state_machine::{Product, Trigger, drag, step, wanted};
use opkit_domain::verdict::Decision;
use proptest::prelude::*;
use proptest::sample::select;

fn facts(status: Status) -> Facts {
    Facts {
        kind: Kind::Bug,
        gate: Gate::Ai,
        status,
        sub_state: None,
        attention: (status == Status::HumanReview).then_some(Attention::Blocked),
        hold: false,
        criteria: 1,
        locked: !matches!(status, Status::Planning | Status::Queue),
        delegate: false,
        delivered: !matches!(status, Status::Planning | Status::Queue),
        live: false,
        passed: status == Status::Done,
        came_from: None,
        counters: Counters::default(),
        max_rounds: 3,
    }
}

fn products() -> Vec<Product> {
    let verdicts = Decision::ALL.iter().map(|decision| Product::Verdict(*decision));
    let mut list =
        vec![Product::Nothing, Product::Deliverable, Product::RedFloor, Product::Plan, Product::Waits];
    list.extend(verdicts);
    list
}

fn triggers() -> Vec<Trigger> {
    let mut list: Vec<Trigger> = Role::ALL.iter().map(|role| Trigger::Claimed(*role)).collect();
    for role in Role::ALL {
        for outcome in Outcome::ALL {
            for product in products() {
                // What a session left counts only when it finished.
                if *outcome == Outcome::Finished || product == Product::Nothing {
                    list.push(Trigger::SessionEnded(*role, *outcome, product));
                }
            }
        }
    }
    list.extend([
        Trigger::NoSlot,
        Trigger::NoAccountFree,
        Trigger::NoAccountForADay,
        Trigger::ChildEnded,
        Trigger::MergeConflict,
        Trigger::Tampered,
        Trigger::BudgetUsedUp,
        Trigger::StartNext,
        Trigger::SkipPlanning,
        Trigger::AskPlan,
        Trigger::Approve { reason: false },
        Trigger::Approve { reason: true },
        Trigger::Reject,
        Trigger::Answer,
        Trigger::Resume,
        Trigger::FreshReview,
        Trigger::Reopen,
        Trigger::Cancel,
        Trigger::Restore,
    ]);
    list
}

/// Status × trigger for a plain bug, as text.
fn table() -> String {
    let mut text = String::new();
    for status in Status::ALL {
        text.push_str(&format!("## {status}\n\n"));
        for trigger in triggers() {
            if let Ok(t) = step(&facts(*status), trigger) {
                let mut line = format!("{trigger:?} -> {}", t.to);
                if let Some(sub) = t.sub_state {
                    line.push_str(&format!(" ({sub})"));
                }
                if let Some(attention) = t.attention {
                    line.push_str(&format!(" [{attention}]"));
                }
                text.push_str(&line);
                text.push('\n');
            }
        }
        text.push('\n');
    }
    text
}

#[test]
fn the_table_is_the_one_that_was_reviewed() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/state_table.txt");
    if std::env::var_os("OPKIT_UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(path, table()).unwrap();
    }
    let reviewed = std::fs::read_to_string(path).unwrap_or_default();
    assert!(reviewed == table(), "the table changed; look at it with OPKIT_UPDATE_SNAPSHOTS=1 and git diff");
}

/// Only these pairs exist; the machine must never invent another.
fn listed(from: Status, to: Status) -> bool {
    use Status::{AiReview, Cancelled, Done, HumanReview, Planning, Queue, Working};
    match (from, to) {
        (a, b) if a == b => true,
        (Planning, Queue | HumanReview | Cancelled)
        | (Queue, Working | Cancelled)
        | (Working, AiReview | Done | HumanReview | Cancelled)
        | (AiReview, Done | HumanReview | Working | Cancelled)
        | (HumanReview, Done | Working | AiReview | Planning | Cancelled)
        | (Done, Working)
        | (Cancelled, Planning | Queue) => true,
        _ => false,
    }
}

fn any_facts() -> impl Strategy<Value = Facts> {
    let who = (select(Kind::ALL), select(Gate::ALL), select(Status::ALL), select(Attention::ALL));
    let flags = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    let sub = prop::option::of(select(SubState::ALL));
    let back = prop::option::of(select(Status::ALL));
    let counts = (0u32..9, 0u32..3, 0u32..5, 0u32..3, 0u32..2, 0u32..3, 1u32..6);
    (who, flags, sub, back, counts).prop_map(|(who, flags, sub_state, came_from, counts)| {
        let (kind, gate, status, attention) = who;
        let (rounds_total, run_failures, start_failures, review_errors, plan_failures, criteria, max_rounds) =
            counts;
        Facts {
            kind,
            gate: gate.max(kind.gate()),
            status,
            sub_state,
            attention: (status == Status::HumanReview).then_some(attention),
            hold: flags.0,
            criteria,
            locked: flags.1,
            delegate: flags.2,
            delivered: flags.3,
            live: flags.4,
            passed: flags.5,
            came_from,
            counters: Counters {
                rounds: rounds_total.min(max_rounds - 1),
                rounds_total,
                run_failures,
                start_failures,
                review_errors,
                plan_failures,
            },
            max_rounds,
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn step_is_total_and_keeps_its_promises(before in any_facts(), trigger in select(triggers())) {
        match step(&before, trigger) {
            Err(refused) => prop_assert!(refused.0.ends_with('.') && refused.0.len() > 10, "{}", refused.0),
            Ok(after) => {
                prop_assert!(listed(before.status, after.to), "{:?} {:?} {:?}", before.status, trigger, after.to);
                prop_assert_eq!(after.attention.is_some(), after.to == Status::HumanReview);
                if after.to == Status::Done {
                    let by_machine = matches!(
                        trigger,
                        Trigger::SessionEnded(Role::Review, Outcome::Finished, Product::Verdict(Decision::Pass))
                    );
                    let ungated = matches!(trigger, Trigger::SessionEnded(_, Outcome::Finished, Product::Deliverable))
                        && before.gate == Gate::None;
                    let by_person = matches!(trigger, Trigger::Approve { reason } if reason || before.passed);
                    prop_assert!(by_machine || ungated || by_person, "{trigger:?} led to done");
                    if by_machine {
                        prop_assert!(before.gate <= Gate::Ai);
                    }
                }
                let c = after.counters;
                prop_assert!(c.rounds <= before.max_rounds && c.run_failures <= MAX_RUN_FAILURES);
                prop_assert!(c.start_failures <= MAX_START_FAILURES && c.review_errors <= MAX_REVIEW_ERRORS);
                prop_assert!(c.plan_failures <= MAX_PLAN_FAILURES + 1);
                prop_assert!(c.rounds_total >= before.counters.rounds_total);
                if c.rounds == before.max_rounds || c.run_failures == MAX_RUN_FAILURES {
                    prop_assert_eq!(after.to, Status::HumanReview);
                }
            }
        }
    }

    #[test]
    fn a_drag_does_what_it_says_or_says_why_not(before in any_facts(), target in select(Status::ALL)) {
        match drag(&before, target) {
            Ok(trigger) => {
                let after = step(&before, trigger).unwrap();
                prop_assert!(after.to == target || trigger == Trigger::StartNext);
                prop_assert!(!(after.to == Status::Done && !before.passed), "a drag never passes the gate");
            }
            Err(refused) => prop_assert!(refused.0.ends_with('.')),
        }
    }

    #[test]
    fn what_is_wanted_can_be_claimed(before in any_facts()) {
        if let Some(role) = wanted(&before) {
            let claimed = step(&before, Trigger::Claimed(role));
            prop_assert!(claimed.is_ok() || before.criteria == 0, "{claimed:?}");
        }
    }
}

#[test]
fn loops_end_at_a_person() {
    for (role, outcome, product, attention) in [
        (Role::Review, Outcome::Finished, Product::Verdict(Decision::Fail), Attention::RetriesExhausted),
        (Role::Review, Outcome::Finished, Product::Nothing, Attention::ReviewError),
        (Role::Review, Outcome::Killed, Product::Nothing, Attention::ReviewError),
        (Role::Review, Outcome::NeverRan, Product::Nothing, Attention::StartFailed),
        (Role::Work, Outcome::Finished, Product::Nothing, Attention::NoDeliverable),
        (Role::Work, Outcome::Lost, Product::Nothing, Attention::SessionLost),
        (Role::Work, Outcome::TurnLimit, Product::Nothing, Attention::SessionLost),
        (Role::Work, Outcome::NeverRan, Product::Nothing, Attention::StartFailed),
    ] {
        let home = if role == Role::Review { Status::AiReview } else { Status::Working };
        let mut now = facts(home);
        let mut turns = 0;
        let last = loop {
            turns += 1;
            assert!(turns < 20, "{role} {outcome} never ends");
            let next = step(&now, Trigger::SessionEnded(role, outcome, product)).unwrap();
            if next.to == Status::HumanReview {
                break next;
            }
            now.counters = next.counters;
            now.status = home;
        };
        assert_eq!(last.attention, Some(attention), "{role} {outcome}");
    }
}

#[test]
fn waiting_for_an_account_uses_nothing_up() {
    for outcome in [Outcome::UsageLimited, Outcome::Overloaded, Outcome::AuthFailed] {
        for (status, role) in [(Status::Working, Role::Work), (Status::AiReview, Role::Review)] {
            let after = step(&facts(status), Trigger::SessionEnded(role, outcome, Product::Nothing)).unwrap();
            assert_eq!((after.to, after.sub_state), (status, Some(SubState::WaitingAccount)));
            assert_eq!(after.counters, Counters::default());
        }
    }
}

#[test]
fn reopening_after_a_pass_counts_against_the_gate() {
    assert!(step(&facts(Status::Done), Trigger::Reopen).unwrap().false_pass);
    let by_reason = Facts { passed: false, ..facts(Status::Done) };
    assert!(!step(&by_reason, Trigger::Reopen).unwrap().false_pass);
}
