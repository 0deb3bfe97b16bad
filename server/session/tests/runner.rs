//! The runner with real processes: the demo agent in a real repository, behind the real wall.

#[path = "support/place.rs"]
mod place;

use std::fs;
use std::process::{Command, Stdio};

use opkit_domain::session::{
    EXIT_LOCK_TAKEN, FloorWhen, IndexLine, Outcome, OutputFormat, RunStatus, WallProof, files,
};
use place::{ID, Place, floor, wait_until};

#[test]
fn the_demo_agent_delivers_a_commit_an_artifact_and_a_bundle() {
    let mut place = Place::new("good");
    place.spec.floor = Some(floor(FloorWhen::AfterAgent, place.worktree(), &["test -f docs/seed.md"]));
    let exit = place.run();
    let record = place.record();
    assert_eq!(exit.outcome, Outcome::Finished, "{}\n{record}", exit.detail);
    assert!(exit.floor.is_some_and(|floor| floor.green() && floor.commands.len() == 1));
    assert!(exit.collect_failed.is_empty(), "{:?}", exit.collect_failed);
    assert!(exit.turns > 5 && exit.denials == 0);
    let artifact = fs::read_to_string(place.root().join("work/42/memory/ARTIFACT.md")).expect("an artifact");
    assert!(artifact.contains("- Criterion 1: met. Evidence: "), "{artifact}");
    for part in
        ["#42 Describe the seed", "Making the worktree", "\x1b[1mRun\x1b[0m git commit", "docs/seed.md"]
    {
        assert!(record.contains(part), "{part} is missing in:\n{record}");
    }
    let fetched = Command::new("git")
        .args([
            "fetch",
            "-q",
            &place.session().join(files::RESULT_BUNDLE).display().to_string(),
            "obj/42:obj/42",
        ])
        .current_dir(place.root().join("mirror.git"))
        .status();
    assert!(fetched.is_ok_and(|status| status.success()), "the bundle can be fetched");
    let proof = fs::read(place.session().join(files::PROOF)).expect("a proof");
    let proof: WallProof = serde_json::from_slice(&proof).expect("a valid proof");
    assert!(proof.landlock_abi >= 6 && proof.seccomp && proof.uid != 0);
    assert!(proof.tried.len() == 3 && proof.tried.iter().all(|line| line.answer != "allowed"), "{proof:?}");
    assert_eq!(exit.record_len, record.len() as u64);
}

#[test]
fn a_later_round_reports_instead_of_redoing_and_mends_what_was_found() {
    let mut place = Place::new("fails-then-good");
    let first = place.run();
    assert_eq!(first.outcome, Outcome::Finished);
    assert!(place.worktree().join("draft-42.md").exists() && !place.worktree().join("docs/seed.md").exists());
    fs::remove_file(place.session().join(files::EXIT)).expect("an exit file");
    place.spec.prepare.clear();
    place.context(&["docs/seed.md is missing"]);
    assert_eq!(place.run().outcome, Outcome::Finished);
    assert!(place.worktree().join("docs/seed.md").exists());
}

#[test]
fn a_second_runner_leaves_at_once() {
    let place = Place::new("hangs");
    let mut first = place.start();
    wait_until("the agent runs", || place.session().join(files::PROOF).exists());
    let second = place.start().wait().expect("the second runner ends");
    assert_eq!(second.code(), Some(EXIT_LOCK_TAKEN));
    stop(&place);
    assert!(first.wait().expect("the first runner ends").success());
    assert_eq!(place.exit().outcome, Outcome::Stopped);
    assert_eq!(place.exit().detail, "Stopped by owner.");
}

fn stop(place: &Place) {
    let text = r#"{"outcome":"stopped","by":"owner"}"#;
    fs::write(place.session().join("stop.new"), text).expect("a file");
    fs::rename(place.session().join("stop.new"), place.session().join(files::STOP)).expect("renamed");
}

fn is_alive(pid_file: &std::path::Path) -> bool {
    let Ok(pid) = fs::read_to_string(pid_file) else { return false };
    fs::read_to_string(format!("/proc/{}/cmdline", pid.trim())).is_ok_and(|line| line.contains("100000"))
}

#[test]
fn a_stop_ends_the_agent_and_its_setsid_child() {
    let mut place = Place::new("hangs");
    place.agent_script(
        "setsid sh -c 'trap \"\" HUP TERM INT; echo $$ > \"$OPKIT_SCRATCH/pid\"; exec sleep 100000' & \
         exec \"$1\" demo-agent --script hangs",
        OutputFormat::ClaudeStreamJson,
    );
    let mut runner = place.start();
    let pid_file = place.root().join("work/42/scratch/pid");
    wait_until("the child runs", || is_alive(&pid_file));
    wait_until("the agent hangs", || {
        fs::read_to_string(place.session().join(files::TRANSCRIPT)).is_ok_and(|t| t.contains("never ends"))
    });
    stop(&place);
    assert!(runner.wait().expect("the runner ends").success());
    assert!(!is_alive(&pid_file), "the setsid child lives on");
    let exit = place.exit();
    assert_eq!((exit.outcome, exit.status), (Outcome::Stopped, Some(1)), "{exit:?}");
}

#[test]
fn a_stop_before_the_start_starts_nothing() {
    let place = Place::new("good");
    stop(&place);
    let exit = place.run();
    assert_eq!((exit.outcome, exit.turns), (Outcome::Stopped, 0));
    assert!(!place.session().join(files::PROOF).exists());
}

#[test]
fn what_a_finished_agent_leaves_behind_is_killed() {
    let mut place = Place::new("good");
    place.agent_script(
        "nohup sh -c 'echo $$ > \"$OPKIT_SCRATCH/pid\"; exec sleep 100000' >/dev/null 2>&1 & \
         until [ -s \"$OPKIT_SCRATCH/pid\" ]; do :; done; echo done",
        OutputFormat::Plain,
    );
    let exit = place.run();
    assert_eq!(exit.outcome, Outcome::Finished, "{}", exit.detail);
    assert!(exit.detail.contains("1 process it left was killed"), "{}", exit.detail);
    assert!(!is_alive(&place.root().join("work/42/scratch/pid")));
}

#[test]
fn every_write_outside_is_refused_and_shown() {
    let place = Place::new("writes-outside");
    fs::write(place.root().join("door/session-door"), "127.0.0.1:1\n").expect("a door");
    let exit = place.run();
    let record = place.record();
    assert_eq!(exit.outcome, Outcome::Finished, "{}\n{record}", exit.detail);
    assert!(exit.denials >= 5, "{}", exit.denials);
    assert!(record.contains("Every try was refused") && !record.contains("ESCAPED"), "{record}");
    assert!(record.contains("BLOCKED: write to "), "{record}");
    for path in ["DISABLED", "mirror.git/escape", "work/41/cc-worktree-41/escape"] {
        assert!(!place.root().join(path).exists(), "{path}");
    }
    let status = fs::read(place.session().join(files::STATUS)).expect("a status");
    let status: RunStatus = serde_json::from_slice(&status).expect("a valid status");
    assert!(status.last_denial.is_some() && !status.guard_broken);
}

#[test]
fn a_wall_with_a_hole_starts_nothing() {
    let mut place = Place::new("good");
    place.spec.prepare.clear();
    place.spec.collect.clear();
    place.spec.wall.prove_no_write = vec![place.root().join("work/42/scratch/proof")];
    let exit = place.run();
    assert_eq!(exit.outcome, Outcome::NeverRan);
    assert!(exit.detail.contains("the wall has a hole"), "{}", exit.detail);
    assert!(!place.root().join("work/42/scratch/proof").exists());
}

#[test]
fn a_failing_preparation_means_that_it_never_ran() {
    let mut place = Place::new("good");
    place.spec.prepare[0].argv = vec!["/bin/sh".into(), "-c".into(), "echo no space; exit 3".into()];
    let exit = place.run();
    assert_eq!(exit.outcome, Outcome::NeverRan);
    assert_eq!(exit.detail, "Making the worktree: exit 3.\nno space");
}

#[test]
fn a_red_floor_starts_no_reviewer() {
    let mut place = Place::new("good");
    place.spec.floor = Some(floor(FloorWhen::BeforeAgent, place.worktree(), &["true", "echo broken; false"]));
    place.spec.floor_copy = Some(place.root().join("door"));
    let exit = place.run();
    assert_eq!(exit.outcome, Outcome::Finished);
    assert_eq!(exit.detail, "A check failed: verify echo broken; false");
    assert!(exit.floor.is_some_and(|floor| floor.commands[1].output == "broken\n"));
    assert_eq!(fs::metadata(place.session().join(files::TRANSCRIPT)).expect("a file").len(), 0);
    assert!(place.root().join("door/floor.json").exists());
}

#[test]
fn each_way_to_end_has_its_outcome() {
    let table = [
        ("usage-limit", Outcome::UsageLimited),
        ("crashes", Outcome::Failed),
        ("asks-nothing", Outcome::Finished),
        ("no-such-script", Outcome::Failed),
    ];
    for (script, outcome) in table {
        let exit = Place::new(script).run();
        assert_eq!(exit.outcome, outcome, "{script}: {}", exit.detail);
        assert_eq!(exit.reset_at.is_some(), outcome == Outcome::UsageLimited, "{script}");
    }
}

#[test]
fn a_claude_whose_guard_does_not_answer_is_stopped() {
    let mut place = Place::new("good");
    place.agent_script(
        r#"echo '{"type":"system","subtype":"init","claude_code_version":"2.1.197","model":"m"}'
        echo '{"type":"assistant","message":{"content":[{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"ls"}}]}}'
        echo '{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t1","content":"x"}]}}'
        exec sleep 100000"#,
        OutputFormat::ClaudeStreamJson,
    );
    let exit = place.run();
    assert_eq!(exit.outcome, Outcome::Failed);
    assert!(exit.detail.starts_with("The guard is broken"), "{}", exit.detail);
}

#[test]
fn a_claude_that_ran_unguarded_is_not_finished_however_quick_it_was() {
    let mut place = Place::new("good");
    place.agent_script(
        r#"echo '{"type":"system","subtype":"init","claude_code_version":"2.1.197","model":"m"}
        {"type":"assistant","message":{"content":[{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"ls"}}]}}
        {"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t1","content":"x"}]}}
        {"type":"result","subtype":"success","is_error":false,"num_turns":1,"result":"Done"}'"#,
        OutputFormat::ClaudeStreamJson,
    );
    let exit = place.run();
    assert_eq!(exit.outcome, Outcome::Failed, "{}", exit.detail);
}

/// As the real CLI orders them: calls of one turn overlap, and one with a wrong input fails before any hook.
#[test]
fn calls_that_fail_do_not_use_the_leave_of_those_beside_them() {
    let mut place = Place::new("good");
    place.agent_script(
        r#"hook() { printf '%s\n' '{"type":"system","subtype":"hook_response","hook_name":"'$1':Bash","hook_event":"'$1'","exit_code":0,"outcome":"success","stdout":"{\"hookSpecificOutput\":{\"permissionDecision\":\"allow\"}}"}'; }
        use() { echo '{"type":"assistant","message":{"content":[{"type":"tool_use","id":"'$1'","name":"Bash","input":{"command":"ls"}}]}}'; }
        result() { echo '{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"'$1'","is_error":'$2',"content":"x"}]}}'; }
        echo '{"type":"system","subtype":"init","claude_code_version":"2.1.197","model":"m"}'
        use invalid; use fails; use works
        hook PreToolUse; hook PreToolUse; result invalid true
        hook PostToolUseFailure; result fails true; hook PostToolUse; result works false
        echo '{"type":"result","subtype":"success","is_error":false,"num_turns":1,"result":"Done"}'"#,
        OutputFormat::ClaudeStreamJson,
    );
    let exit = place.run();
    assert_eq!((exit.outcome, exit.detail.as_str()), (Outcome::Finished, "The agent finished."));
}

#[test]
fn an_agent_that_said_its_result_and_does_not_leave_is_ended_as_finished() {
    let mut place = Place::new("good");
    place.agent_script(
        r#"echo '{"type":"result","subtype":"success","is_error":false,"num_turns":3,"total_cost_usd":0.25,"result":"Done"}'
        exec sleep 100000"#,
        OutputFormat::ClaudeStreamJson,
    );
    let exit = place.run();
    assert_eq!(
        (exit.outcome, exit.turns, exit.cost_usd_micros),
        (Outcome::Finished, 3, 250_000),
        "{}",
        exit.detail
    );
    assert_eq!(exit.summary, "Done");
}

#[test]
fn odd_output_is_shown_safely_and_fails_nothing() {
    let mut place = Place::new("good");
    place.agent_script(
        r#"printf '\033]0;title\007plain \033[31mred\n{"type":"unknown","x":[1]}\n{"type":"assistant"}\n{"type":"user","message":{"content":7}}\n\377\376\n{"broken'
        printf 'err \033[2Jor\n' >&2
        printf '\n{"type":"result","is_error":false,"total_cost_usd":null,"errors":null}\n{"type":"resu'"#,
        OutputFormat::ClaudeStreamJson,
    );
    let exit = place.run();
    let record = place.record();
    assert_eq!(exit.outcome, Outcome::Finished, "{}\n{record}", exit.detail);
    assert!(
        record.contains("plain \x1b[31mred") && record.contains("err or") && !record.contains("title"),
        "{record}"
    );
    assert!(!record.contains("\x1b[2J") && !record.contains('\x07'));
}

#[test]
fn silence_and_time_are_limited() {
    let mut place = Place::new("hangs");
    place.spec.limits.idle_s = 1;
    let exit = place.run();
    assert_eq!(exit.outcome, Outcome::TimedOut, "{}", exit.detail);
}

#[test]
fn a_flood_leaves_no_hole_in_record_and_index() {
    let place = Place::new("floods:20");
    let exit = place.run();
    assert_eq!(exit.outcome, Outcome::Finished, "{}", exit.detail);
    let record = place.record();
    let numbers: Vec<u64> = record
        .lines()
        .filter_map(|line| {
            line.strip_prefix("  line ")?
                .strip_suffix(" of a flood, long enough to look like the output of a build")?
                .parse()
                .ok()
        })
        .collect();
    assert!(numbers.len() > 250_000, "{}", numbers.len());
    assert!(numbers.iter().zip(1..).all(|(number, expected)| *number == expected));
    let index = fs::read_to_string(place.session().join(files::RECORD).join(files::INDEX)).expect("an index");
    for text in index.lines() {
        let line = IndexLine::parse(text).expect("a valid index line");
        let before = &record.as_bytes()[..usize::try_from(line.offset).expect("an offset")];
        assert!(before.is_empty() || before.ends_with(b"\n"), "{text}");
        assert_eq!(before.iter().filter(|byte| **byte == b'\n').count() as u64, line.lines, "{text}");
    }
}

#[test]
fn a_window_that_is_never_read_slows_nobody() {
    let place = Place::new("floods:20");
    let mut runner = place.start_with_output(Stdio::piped());
    let unread = runner.stdout.take();
    assert!(runner.wait().expect("the runner ends").success());
    drop(unread);
    assert_eq!(place.exit().outcome, Outcome::Finished);
}

#[test]
fn a_small_cap_drops_the_oldest_segments_and_says_so() {
    let mut place = Place::new("floods:20");
    place.spec.limits.record_bytes = 8 << 20;
    let exit = place.run();
    let record = place.record();
    assert!(record.len() < 14 << 20 && exit.record_len > 15 << 20);
    let index = fs::read_to_string(place.session().join(files::RECORD).join(files::INDEX)).expect("an index");
    let dropped =
        index.lines().filter_map(IndexLine::parse).rfind(|line| line.kind == 'x').expect("an x line");
    assert_eq!(dropped.offset + record.len() as u64, exit.record_len);
}

#[test]
fn a_runner_that_cannot_read_its_spec_says_so() {
    let place = Place::new("good");
    fs::write(place.session().join(files::SPEC), "{").expect("a file");
    let status = Command::new(env!("CARGO_BIN_EXE_opkit-session")).arg("run").arg(place.session()).status();
    assert!(!status.expect("it ran").success());
    let exit = place.exit();
    assert_eq!((exit.outcome, exit.session.as_str()), (Outcome::NeverRan, ID));
}

/// Starts a runner before its launch record, and waits until it holds its lock.
fn starts_early(place: &Place) -> std::process::Child {
    let mut command = Command::new(place.root().join("bin/opkit-session"));
    command.arg("run").arg(place.session()).env_remove("TMUX").stdin(Stdio::null()).stdout(Stdio::null());
    let runner = command.spawn().expect("the runner starts");
    wait_until("the runner holds its lock", || {
        let Ok(file) = fs::File::open(place.session().join(files::LOCK)) else { return false };
        let wanted = rustix::process::Flock::from(rustix::process::FlockType::WriteLock);
        matches!(rustix::process::fcntl_getlk(&file, &wanted), Ok(Some(_)))
    });
    runner
}

fn lock_says(place: &Place) -> String {
    fs::read_to_string(place.session().join(files::LOCK)).expect("a lock file")
}

#[test]
fn a_runner_waits_for_its_launch_record() {
    let place = Place::new("good");
    let mut runner = starts_early(&place);
    assert_eq!(lock_says(&place), "", "nothing ran yet");
    fs::write(place.session().join("spec.new"), serde_json::to_vec(&place.spec).expect("json"))
        .expect("a spec");
    fs::rename(place.session().join("spec.new"), place.session().join(files::SPEC)).expect("renamed");
    assert!(runner.wait().expect("it ends").success());
    assert_eq!(place.exit().outcome, Outcome::Finished);
    assert_eq!(lock_says(&place), runner.id().to_string());
}

#[test]
fn a_launch_that_is_called_off_or_stopped_leaves_nothing() {
    for name in [files::CALLED_OFF, files::STOP] {
        let place = Place::new("good");
        let mut runner = starts_early(&place);
        fs::write(place.session().join(name), "").expect("a file");
        assert!(runner.wait().expect("it ends").success());
        assert_eq!(lock_says(&place), "", "{name}");
        let left = fs::read_dir(place.session()).expect("a directory").flatten();
        let mut left: Vec<_> = left.map(|entry| entry.file_name().into_string().expect("a name")).collect();
        left.sort();
        let mut expected = [files::CONTEXT, files::LOCK, name];
        expected.sort_unstable();
        assert_eq!(left, expected);
        // The same launch again, when somebody takes the mark away.
        fs::remove_file(place.session().join(name)).expect("a mark");
        assert_eq!(place.run().outcome, Outcome::Finished);
    }
}

/// However quickly it leaves: the look at its version must not lose the race against its end.
#[test]
fn a_program_of_another_version_than_the_probed_one_never_counts() {
    for _ in 0..10 {
        let mut place = Place::new("good");
        place.spec.agent_version = Some("9.9.2".into());
        let said = r#"{"type":"system","subtype":"init","claude_code_version":"6.6.6"}
{"type":"result","subtype":"success","is_error":false,"result":"Done.","num_turns":1}"#;
        place.agent_script(&format!("printf '%s\\n' '{said}'"), OutputFormat::ClaudeStreamJson);
        let exit = place.run();
        assert_eq!(exit.outcome, Outcome::NeverRan, "{}", exit.detail);
        assert!(exit.detail.contains("only 9.9.2 was probed"), "{}", exit.detail);
    }
}
