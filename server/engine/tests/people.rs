//! What people do: order, hold, dependencies, merge conflicts, stops, messages, accounts at their limits.
#![allow(clippy::unwrap_used, reason = "a test says what it expects")]

mod support;

use opkit_domain::objective::{Attention, Integration, Kind, Status, SubState};
use opkit_domain::view::EditObjective;
use opkit_engine::{Error, SessionQuery};
use support::{SCOPE, World, bug, git};

#[tokio::test(flavor = "multi_thread")]
async fn a_conflict_names_the_file_and_leaves_everything_untouched() {
    let world = World::new(5).await;
    let repo = world.add_repo("app").await;
    let id = world.create(bug("app", "Add hello", "good")).await;
    assert_eq!(world.rests(id).await.status, Status::Done);
    // A dirty checkout first: refused, untouched.
    std::fs::write(repo.join("README.md"), "dirty\n").unwrap();
    std::fs::write(repo.join("hello.txt"), "mine\n").unwrap();
    let error = world.engine.integrate(&world.owner, id, Integration::Merge).await.unwrap_err();
    assert!(matches!(error, Error::Conflict(_)), "{error:?}");
    assert_eq!(std::fs::read_to_string(repo.join("hello.txt")).unwrap(), "mine\n");
    // Committed, it is a real conflict in one file.
    git(&repo, &["add", "-A"]);
    git(&repo, &["commit", "-q", "-m", "mine"]);
    let before = git(&repo, &["rev-parse", "HEAD"]);
    let error = world.engine.integrate(&world.owner, id, Integration::Merge).await.unwrap_err();
    assert!(error.to_string().contains("hello.txt"), "{error}");
    assert_eq!(git(&repo, &["rev-parse", "HEAD"]), before);
    assert_eq!(git(&repo, &["status", "--porcelain"]), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_approval_with_merge_waits_for_the_merge() {
    let world = World::new(5).await;
    let repo = world.add_repo("app").await;
    let mut new = bug("app", "A project", "good");
    new.kind = Kind::Project;
    let id = world.create(new).await;
    world.rests(id).await;
    std::fs::write(repo.join("hello.txt"), "mine\n").unwrap();
    git(&repo, &["add", "-A"]);
    git(&repo, &["commit", "-q", "-m", "mine"]);
    let refused = world.engine.approve(&world.owner, id, Some(Integration::Merge), None).await.unwrap_err();
    assert!(refused.to_string().contains("hello.txt"), "{refused}");
    let card = world.card(id).await;
    assert_eq!((card.status, card.attention), (Status::HumanReview, Some(Attention::Conflict)));
    git(&repo, &["reset", "-q", "--hard", "HEAD~1"]);
    let card = world.engine.approve(&world.owner, id, Some(Integration::Merge), None).await.unwrap();
    assert_eq!(card.status, Status::Done);
    assert!(repo.join("hello.txt").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn hold_dependencies_and_next_decide_who_is_claimed() {
    let world = World::new(1).await;
    world.add_repo("app").await;
    let hangs = world.create(bug("app", "Occupies the slot", "hangs")).await;
    world
        .until("the slot is taken", async || {
            (world.card(hangs).await.status == Status::Working).then_some(())
        })
        .await;
    let mut held = bug("app", "Held", "good");
    held.hold = true;
    let held = world.create(held).await;
    let low = world.create(bug("app", "Low", "good")).await;
    let mut high = bug("app", "High", "good");
    high.priority = 3;
    let high = world.create(high).await;
    let mut waits = bug("app", "Waits for high", "good");
    waits.priority = 4;
    waits.blocked_by = vec![high];
    let waits = world.create(waits).await;
    let last = world.create(bug("app", "Wanted now", "good")).await;
    let moved = world.engine.move_to(&world.owner, last, Status::Working, None).await.unwrap();
    assert!(moved.message.contains("starts next"), "{}", moved.message);
    assert_eq!(moved.card.status, Status::Queue);
    let refused = world.engine.move_to(&world.owner, held, Status::Working, None).await.unwrap_err();
    assert!(refused.to_string().contains("hold"), "{refused}");
    world.engine.cancel(&world.owner, hangs).await.unwrap();
    for id in [last, high, waits, low] {
        assert_eq!(world.rests(id).await.status, Status::Done);
    }
    let mut claims = Vec::new();
    for id in [last, high, waits, low] {
        let events = world.events(id).await;
        claims.push(events.iter().find(|event| event.to == Some(Status::Working)).unwrap().seq);
    }
    assert!(claims.is_sorted(), "claimed in the order next, priority, dependency, number: {claims:?}");
    assert_eq!(world.card(held).await.status, Status::Queue);
    world
        .engine
        .edit(&world.owner, held, EditObjective { hold: Some(false), ..Default::default() })
        .await
        .unwrap();
    assert_eq!(world.rests(held).await.status, Status::Done);
}

#[tokio::test(flavor = "multi_thread")]
async fn stop_all_stops_everything_and_only_enable_starts_again() {
    let world = World::new(5).await;
    world.add_repo("app").await;
    let mut ids = Vec::new();
    for number in 0..3 {
        ids.push(world.create(bug("app", &format!("Hangs {number}"), "hangs")).await);
    }
    let live = SessionQuery { live_only: true, ..SessionQuery::default() };
    world
        .until("three sessions run", async || {
            let list = world.engine.sessions(SCOPE, &live).await.unwrap();
            (list.iter().filter(|s| s.state.as_str() == "running").count() == 3).then_some(())
        })
        .await;
    assert_eq!(world.engine.stop_all(&world.owner).await.unwrap(), 3);
    for id in &ids {
        let card = world.rests(*id).await;
        assert_eq!(card.attention, Some(Attention::Stopped), "{card:?}");
        assert!(card.attention_note.contains("stop-all by owner"), "{}", card.attention_note);
    }
    let waiting = world.create(bug("app", "Waits", "good")).await;
    world.engine.resume(&world.owner, ids[0]).await.unwrap();
    // The dispatcher has looked twice since then, and nothing was claimed while the switch is set.
    for _ in 0..2 {
        let before = opkit_engine::now_ms();
        world
            .until("the dispatcher has looked again", async || {
                let tasks = world.engine.health(SCOPE).await.unwrap().tasks;
                tasks
                    .iter()
                    .any(|task| task.name == "dispatcher" && task.last_run > Some(before))
                    .then_some(())
            })
            .await;
        assert!(world.engine.sessions(SCOPE, &live).await.unwrap().is_empty());
    }
    assert!(world.engine.wip(SCOPE).await.unwrap().stopped.is_some());
    assert_eq!(world.card(waiting).await.status, Status::Queue);
    world.engine.enable(&world.owner).await.unwrap();
    assert_eq!(world.rests(waiting).await.status, Status::Done);
    assert_eq!(world.engine.resume_all(&world.owner).await.unwrap(), 2);
    for id in ids {
        assert_eq!(world.card(id).await.status, Status::Working);
        world.engine.cancel(&world.owner, id).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_usage_limit_cools_the_account_and_uses_no_attempt() {
    let world = World::new(25).await;
    world.add_repo("app").await;
    let id = world.create(bug("app", "Limited", "usage-limit-always")).await;
    world
        .until("every account cools down", async || {
            let card = world.card(id).await;
            let accounts = world.engine.accounts().await.unwrap();
            let all =
                accounts.iter().all(|account| account.state == "cooling_down" && account.until.is_some());
            (all && card.sub_state == Some(SubState::WaitingAccount)).then_some(())
        })
        .await;
    let card = world.card(id).await;
    assert_eq!(
        (card.status, card.counters.rounds_total, card.counters.run_failures),
        (Status::Working, 0, 0)
    );
    assert!(card.session.is_none(), "it holds no slot while it waits");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limited_objective_moves_to_another_account_and_ends_well() {
    let world = World::new(25).await;
    world.add_repo("app").await;
    let id = world.create(bug("app", "Limited once", "usage-limit")).await;
    let card = world.rests(id).await;
    assert_eq!((card.status, card.counters.rounds_total), (Status::Done, 0), "{card:?}");
    let view = world.engine.objective(SCOPE, id).await.unwrap();
    let works: Vec<_> = view.sessions.iter().filter(|s| s.role.as_str() == "work").collect();
    assert_eq!(works.len(), 2);
    assert_ne!(works[0].account, works[1].account);
    let accounts = world.engine.accounts().await.unwrap();
    assert_eq!(accounts.iter().filter(|account| account.state == "cooling_down").count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_reach_the_next_session_once_and_a_reopened_pass_counts() {
    let world = World::new(5).await;
    world.add_repo("app").await;
    let mut new = bug("app", "Talk to it", "good");
    new.hold = true;
    let id = world.create(new).await;
    world.engine.message(&world.owner, id, "Mind the gap.".into()).await.unwrap();
    world
        .engine
        .edit(&world.owner, id, EditObjective { hold: Some(false), ..Default::default() })
        .await
        .unwrap();
    assert_eq!(world.rests(id).await.status, Status::Done);
    let view = world.engine.objective(SCOPE, id).await.unwrap();
    let first = view.sessions.last().unwrap();
    assert_eq!(view.messages[0].delivered_to.as_ref(), Some(&first.id));
    assert!(world.engine.context(SCOPE, &first.id).await.unwrap().contains("Mind the gap."));
    let card = world.engine.reopen(&world.owner, id, "It was wrong.".into()).await.unwrap();
    assert_eq!(card.status, Status::Working);
    assert_eq!(world.rests(id).await.status, Status::Done);
    let view = world.engine.objective(SCOPE, id).await.unwrap();
    let again = view.sessions.iter().find(|s| s.role.as_str() == "work").unwrap();
    let context = world.engine.context(SCOPE, &again.id).await.unwrap();
    assert!(
        context.contains("Reopened by owner: It was wrong.") && !context.contains("Mind the gap."),
        "{context}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_committed_is_kept_in_the_rescue_repository() {
    let world = World::new(5).await;
    world.add_repo("app").await;
    let id = world.create(bug("app", "Leaves something", "hangs")).await;
    let data = world.engine.data().to_owned();
    let worktree = data.join(format!("work/{id}/cc-worktree-{id}"));
    let session = world
        .until("the agent hangs in its worktree", async || {
            let card = world.card(id).await;
            let session = card.session?;
            let status =
                std::fs::read_to_string(data.join(format!("sessions/{session}/status.json"))).ok()?;
            (worktree.join("README.md").exists() && !status.contains("\"agent_pid\":0")).then_some(session)
        })
        .await;
    std::fs::write(worktree.join("half-done.txt"), "precious\n").unwrap();
    std::fs::write(worktree.join("README.md"), "changed\n").unwrap();
    world.engine.stop_session(&world.owner, &session).await.unwrap();
    world.rests(id).await;
    let rescue = data.join("rescue/1.git");
    let name = format!("refs/rescue/{id}/{session}");
    assert_eq!(git(&rescue, &["show", &format!("{name}:half-done.txt")]), "precious");
    assert_eq!(git(&rescue, &["show", &format!("{name}:README.md")]), "changed");
}
