//! What the agent runs under: its policy's fingerprint, settings that are not loaded, and a guard that fails.

#[path = "support/place.rs"]
mod place;

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use opkit_domain::session::{ExitFile, Outcome, OutputFormat, RunStatus, WallMode, WallProof, files};
use place::{Place, wait_until};

#[test]
fn a_policy_that_stays_has_one_fingerprint() {
    let exit = Place::new("good").run();
    assert_eq!(exit.policy_start.as_ref().map(String::len), Some(64));
    assert_eq!(exit.policy_start, exit.policy_end);
    assert!(!exit.tampered && !exit.detail.contains("changed"), "{}", exit.detail);
}

#[test]
fn a_policy_that_changes_while_it_runs_is_told() {
    let mut place = Place::new("good");
    let policy = place.root().join("policy");
    // A hole that the product does not have: the policy's directory is the agent's to write.
    place.spec.wall.write.push(policy.clone());
    place.spec.wall.prove_no_write = vec![place.root().join("sessions")];
    fs::set_permissions(&policy, Permissions::from_mode(0o777)).expect("mode");
    place.agent_script("echo x > \"${OPKIT_POLICY%/*}/more\"; echo done", OutputFormat::Plain);
    let exit = place.run();
    assert_eq!(exit.outcome, Outcome::Finished, "{}", exit.detail);
    assert!(exit.tampered && exit.policy_end.is_some() && exit.policy_start != exit.policy_end);
    assert!(exit.detail.ends_with("The policy changed while it ran."), "{}", exit.detail);
    assert!(place.record().contains("The policy changed while it ran."));
}

#[test]
fn without_a_policy_that_can_be_read_nothing_runs() {
    let mut place = Place::new("good");
    place.spec.policy = Some(place.root().join("none"));
    place.spec.collect.clear();
    let exit = place.run();
    assert_eq!(exit.outcome, Outcome::NeverRan);
    assert!(exit.detail.starts_with("The policy cannot be read"), "{}", exit.detail);
    assert!(!place.worktree().join("README.md").exists());
}

#[test]
fn planted_settings_are_named_and_a_plain_repository_has_none() {
    let place = Place::new("good");
    assert!(place.run().planted.is_empty());
    let mut place = Place::new("good");
    place.spec.prepare.clear();
    place.spec.collect.clear();
    fs::create_dir(place.worktree().join(".claude")).expect("a directory");
    for name in [".claude/settings.json", ".mcp.json", "CLAUDE.md"] {
        fs::write(place.worktree().join(name), "{}").expect("a file");
    }
    place.agent_script("echo done", OutputFormat::Plain);
    let exit = place.run();
    assert_eq!(exit.planted, [".claude/settings.json", ".mcp.json"]);
    let record = place.record();
    assert!(
        record.contains("Not loaded: .claude/settings.json (settings of the repository never apply here)"),
        "{record}"
    );
    assert_eq!(status(&place).planted, exit.planted);
}

fn status(place: &Place) -> RunStatus {
    let text = fs::read(place.session().join(files::STATUS)).expect("a status");
    serde_json::from_slice(&text).expect("a valid status")
}

/// A stand-in for the real CLI: `events` is shell text that prints lines of stream-json.
fn stand_in(events: &str) -> Place {
    let mut place = Place::new("good");
    let script = format!(
        r#"hook() {{ printf '%s\n' '{{"type":"system","subtype":"hook_response","hook_name":"PreToolUse:Bash","hook_event":"PreToolUse","outcome":"'$1'","exit_code":'$2',"stdout":"","stderr":"x"}}'; }}
        echo '{{"type":"system","subtype":"init","claude_code_version":"2.1.197","model":"m"}}'
        {events}
        exec sleep 100000"#
    );
    place.agent_script(&script, OutputFormat::ClaudeStreamJson);
    place
}

fn broken(events: &str, why: &str) {
    let place = stand_in(events);
    let exit: ExitFile = place.run();
    assert_eq!(exit.outcome, Outcome::Failed, "{}", exit.detail);
    assert!(exit.guard_broken, "{events}");
    assert!(exit.detail.starts_with("The guard is broken: ") && exit.detail.contains(why), "{}", exit.detail);
    assert!(status(&place).guard_broken);
}

#[test]
fn a_guard_that_leaves_with_a_status_that_does_not_block_is_broken_at_once() {
    broken("hook error 1", "status 1");
    broken("hook error 127", "status 127");
    broken("hook error 139", "status 139");
}

#[test]
fn a_guard_that_runs_out_of_time_is_broken_at_once() {
    broken("hook cancelled 143", "in time");
}

#[test]
fn three_failures_that_block_are_enough() {
    broken("hook error 2; hook error 2; hook error 2", "three calls");
}

#[test]
fn a_result_without_an_answer_is_a_call_past_the_guard() {
    broken(
        r#"echo '{"type":"assistant","message":{"content":[{"type":"tool_use","id":"t1","name":"Write","input":{"file_path":"a"}}]}}'
        echo '{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t1","content":"x"}]}}'"#,
        "without its answer",
    );
}

#[test]
fn the_status_says_it_while_the_agent_still_ignores_the_interrupt() {
    let place = stand_in("trap '' INT; hook error 1; while :; do sleep 0.1; done");
    let mut runner = place.start();
    wait_until("the status says that the guard is broken", || {
        fs::read(place.session().join(files::STATUS))
            .ok()
            .and_then(|text| serde_json::from_slice::<RunStatus>(&text).ok())
            .is_some_and(|status| status.guard_broken)
    });
    assert!(!place.session().join(files::EXIT).exists(), "it is told before the end");
    assert!(runner.wait().expect("the runner ends").success());
    assert!(place.exit().guard_broken);
}

#[test]
fn two_failures_and_an_interrupted_hook_break_nothing() {
    let place = stand_in(
        "trap 'hook cancelled 143; exit 1' INT; hook error 2; hook error 2; echo asked; sleep 100000 & wait",
    );
    let mut runner = place.start();
    wait_until("the agent runs", || {
        fs::read_to_string(place.session().join(files::TRANSCRIPT)).is_ok_and(|text| text.contains("asked"))
    });
    let request = place.session().join(files::STOP);
    fs::write(request.with_extension("new"), r#"{"outcome":"stopped","by":"owner"}"#).expect("a file");
    fs::rename(request.with_extension("new"), request).expect("renamed");
    assert!(runner.wait().expect("the runner ends").success());
    let exit = place.exit();
    assert_eq!((exit.outcome, exit.guard_broken), (Outcome::Stopped, false), "{}", exit.detail);
}

#[test]
fn a_session_with_the_guard_alone_runs_and_its_proof_says_so() {
    let mut place = Place::new("good");
    place.spec.wall.mode = WallMode::HookOnly;
    let exit = place.run();
    assert_eq!(exit.outcome, Outcome::Finished, "{}\n{}", exit.detail, place.record());
    let proof = fs::read(place.session().join(files::PROOF)).expect("a proof");
    let proof: WallProof = serde_json::from_slice(&proof).expect("a valid proof");
    assert_eq!((proof.mode, proof.landlock_abi, proof.seccomp), (WallMode::HookOnly, 0, true));
    assert!(proof.uid != 0 && proof.tried.len() == 3, "{proof:?}");
}

#[test]
fn a_cli_of_a_version_that_was_not_probed_is_stopped() {
    for (probed, outcome) in [("2.1.197", Outcome::Finished), ("2.1.196", Outcome::NeverRan)] {
        let mut place = stand_in(
            r#"echo '{"type":"result","subtype":"success","is_error":false,"num_turns":1,"result":"Done"}'"#,
        );
        place.spec.agent_version = Some(probed.to_owned());
        let exit = place.run();
        assert_eq!(exit.outcome, outcome, "{}", exit.detail);
        assert_eq!(
            exit.detail.contains("opkit doctor --agent"),
            outcome == Outcome::NeverRan,
            "{}",
            exit.detail
        );
    }
}
