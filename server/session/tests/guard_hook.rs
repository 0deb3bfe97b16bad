//! The guard as a process: its answers, its failures, its time.

#[path = "support/place.rs"]
mod place;

use std::fs;
use std::io::Write;
use std::process::{Command, Output, Stdio};

use opkit_domain::session::WallMode;
use place::Place;

fn guard(place: &Place, args: &[&str], input: &str) -> Output {
    guard_with(place, &[], args, input)
}

fn guard_with(place: &Place, variables: &[(&str, &str)], args: &[&str], input: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_opkit-session"));
    command.envs(variables.iter().copied()).env_remove("OPKIT_OTHER");
    command.arg("guard").args(args).env("OPKIT_POLICY", place.root().join("policy/policy.json"));
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    child.stdin.take().expect("a pipe").write_all(input.as_bytes()).expect("written");
    child.wait_with_output().expect("it ends")
}

fn call(tool: &str, path: &str, cwd: &str) -> String {
    serde_json::json!({"session_id": "x", "cwd": cwd, "hook_event_name": "PreToolUse", "tool_name": tool,
        "tool_input": {"file_path": path, "content": "a\nb \u{1f600}"}, "tool_use_id": "t"})
    .to_string()
}

#[test]
fn it_answers_in_json_with_status_0() {
    let place = Place::new("good");
    let cwd = place.worktree().display().to_string();
    for (path, expected) in [("a.txt", "allow"), ("/etc/a", "deny")] {
        let output = guard(&place, &[], &call("Write", path, &cwd));
        assert_eq!(output.status.code(), Some(0));
        let answer: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(answer["hookSpecificOutput"]["hookEventName"], "PreToolUse");
        assert_eq!(answer["hookSpecificOutput"]["permissionDecision"], expected);
    }
}

fn change_policy(place: &Place, change: impl FnOnce(&mut serde_json::Value)) {
    let file = place.root().join("policy/policy.json");
    let mut policy = serde_json::from_slice(&fs::read(&file).expect("a policy")).expect("JSON");
    change(&mut policy);
    fs::write(file, policy.to_string()).expect("written");
}

#[test]
fn a_policy_of_an_older_build_means_an_enforced_wall_and_no_hooks() {
    let place = Place::new("good");
    change_policy(&place, |policy| {
        let fields = policy.as_object_mut().expect("an object");
        assert!(fields.remove("mode").is_some() && fields.remove("operator_hooks").is_some());
    });
    let policy =
        opkit_session::guard::read_policy(&place.root().join("policy/policy.json")).expect("a policy");
    assert_eq!((policy.mode, policy.operator_hooks.len()), (WallMode::Enforced, 0));
}

#[test]
fn the_operator_s_hooks_are_asked_after_the_guard_and_can_only_deny() {
    let place = Place::new("good");
    let marker = place.root().join("asked").display().to_string();
    let cwd = place.worktree().display().to_string();
    // Denies one file by name in JSON, another by status; the call is on standard input.
    let script = r#"call=$(cat); echo asked >> "$1"
        case $call in
        *json.txt*) echo '{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"no JSON"}}';;
        *status.txt*) echo "no status" >&2; exit 2;;
        *broken.txt*) exit 3;;
        *) echo '{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow"}}';;
        esac"#;
    change_policy(&place, |policy| {
        policy["operator_hooks"] = serde_json::json!([["/bin/sh", "-c", script, "sh", marker]]);
    });
    let table = [
        ("fine.txt", "allow", ""),
        ("json.txt", "deny", "/bin/sh: no JSON"),
        ("status.txt", "deny", "/bin/sh: no status"),
        ("broken.txt", "deny", "status 3"),
        // Ours comes first, and an allow of theirs changes nothing.
        ("/etc/outside", "deny", "outside worktree"),
    ];
    for (path, decision, reason) in table {
        let output = guard(&place, &[], &call("Write", path, &cwd));
        assert_eq!(output.status.code(), Some(0), "{path}");
        let answer: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let answer = &answer["hookSpecificOutput"];
        assert_eq!(answer["permissionDecision"], decision, "{path}");
        assert!(answer["permissionDecisionReason"].as_str().unwrap_or_default().contains(reason), "{answer}");
    }
    let asked = fs::read_to_string(marker).expect("it was asked");
    assert_eq!(asked.lines().count(), 4, "a call that the guard denies needs no hook");
}

#[test]
fn commands_are_read_and_without_a_wall_they_must_be_clear() {
    let place = Place::new("good");
    let ask = |command: &str, mode: &str| {
        let input = serde_json::json!({"cwd": place.worktree(), "hook_event_name": "PreToolUse",
            "tool_name": "Bash", "tool_input": {"command": command}});
        change_policy(&place, |policy| policy["mode"] = mode.into());
        let output = guard(&place, &[], &input.to_string());
        assert_eq!(output.status.code(), Some(0), "{command}");
        let answer: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let answer = &answer["hookSpecificOutput"];
        format!("{} {}", answer["permissionDecision"], answer["permissionDecisionReason"])
    };
    let table = [
        ("echo x > a", "enforced", "\"allow\""),
        ("echo x > a", "hook_only", "\"allow\""),
        ("cd .. && echo x > ../a", "enforced", "\"deny\" \"BLOCKED: write to '../a' outside worktree. "),
        ("echo x > /etc/a", "hook_only", "\"deny\" \"BLOCKED: write to '/etc/a' outside worktree. "),
        ("echo x > $A", "enforced", "\"allow\""),
        ("echo x > $A", "hook_only", "\"deny\" \"BLOCKED: it is not clear where"),
        ("echo 'x", "enforced", "\"allow\""),
        ("echo 'x", "hook_only", "\"deny\" \"BLOCKED: it is not clear where"),
    ];
    for (command, mode, expected) in table {
        let answer = ask(command, mode);
        assert!(answer.starts_with(expected), "{command} in {mode}: {answer}");
    }
}

#[test]
fn every_failure_blocks_with_status_2() {
    let place = Place::new("good");
    let good = call("Write", "a.txt", "/");
    let missing = place.root().join("policy/none.json").display().to_string();
    let broken = place.root().join("policy/gitconfig").display().to_string();
    let table: [(&[&str], &str); 6] = [
        (&[], ""),
        (&[], "{"),
        (&[], "[]"),
        (&[], r#"{"tool_name":"Write"}"#),
        (&[&missing], &good),
        (&[&broken], &good),
    ];
    for (args, input) in table {
        let output = guard(&place, args, input);
        assert_eq!(output.status.code(), Some(2), "{args:?} {input}");
        assert!(output.stdout.is_empty() && output.stderr.starts_with(b"BLOCKED: "), "{args:?} {input}");
    }
}

#[test]
fn after_the_call_a_refusal_by_the_wall_is_explained() {
    let place = Place::new("good");
    let input = |error: &str| {
        serde_json::json!({"cwd": place.worktree(), "hook_event_name": "PostToolUseFailure", "tool_name": "Bash",
            "tool_input": {"command": "x"}, "error": error})
        .to_string()
    };
    let output =
        guard(&place, &["--post"], &input("Exit code 1\nsh: 1: cannot create /etc/x: Permission denied"));
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.starts_with("The wall refused '/etc/x': it is outside this session's places. "), "{said}");
    assert!(said.contains(&format!("Write below the worktree {}", place.worktree().display())), "{said}");
    assert_eq!(guard(&place, &["--post"], &input("Exit code 1\nnot found")).status.code(), Some(0));
    // A command that ends well all the same (`cp a /etc/x || true`), and the Write tool.
    let hidden = serde_json::json!({"cwd": place.worktree(), "hook_event_name": "PostToolUse", "tool_name": "Bash",
        "tool_input": {"command": "x"}, "tool_response": {"stdout": "", "interrupted": false,
        "stderr": "cp: cannot create regular file '/etc/x': Permission denied"}});
    let write = serde_json::json!({"cwd": place.worktree(), "hook_event_name": "PostToolUseFailure", "tool_name": "Write",
        "tool_input": {"file_path": "/etc/x"}, "error": "EACCES: permission denied, open '/etc/x'"});
    for input in [hidden, write] {
        let output = guard(&place, &["--post"], &input.to_string());
        assert_eq!(output.status.code(), Some(2), "{input}");
        assert!(String::from_utf8_lossy(&output.stderr).starts_with("The wall refused '/etc/x'"), "{input}");
    }
    // What was read may speak of refusals without there being one.
    for tool in ["Read", "Grep"] {
        let read = serde_json::json!({"cwd": place.worktree(), "hook_event_name": "PostToolUse", "tool_name": tool,
            "tool_input": {"file_path": "a.log"}, "tool_response": {"content": "cannot create /etc/x: Permission denied"}});
        let output = guard(&place, &["--post"], &read.to_string());
        assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0), "{tool}");
    }
}

#[test]
fn without_a_wall_the_session_s_own_variables_are_clear() {
    let place = Place::new("good");
    change_policy(&place, |policy| policy["mode"] = "hook_only".into());
    let scratch = place.root().join("work/42/scratch").display().to_string();
    let ask = |command: &str| {
        let input = serde_json::json!({"cwd": place.worktree(), "hook_event_name": "PreToolUse",
            "tool_name": "Bash", "tool_input": {"command": command}});
        let variables = [("TMPDIR", scratch.as_str()), ("OPKIT_SCRATCH", &scratch), ("HOME", "/opt/home")];
        let output = guard_with(&place, &variables, &[], &input.to_string());
        assert_eq!(output.status.code(), Some(0), "{command}");
        let answer: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let answer = &answer["hookSpecificOutput"];
        format!("{} {}", answer["permissionDecision"], answer["permissionDecisionReason"])
    };
    let table = [
        ("echo x > $TMPDIR/a", "\"allow\""),
        ("echo x > \"$OPKIT_SCRATCH/x\"", "\"allow\""),
        ("echo x > \"${TMPDIR:-/tmp}/x\" && rm -f ${TMPDIR}/x", "\"allow\""),
        ("cd \"$TMPDIR\" && echo x > a", "\"allow\""),
        ("echo x > $HOME/a", "\"deny\" \"BLOCKED: write to '/opt/home/a' outside worktree. "),
        ("echo x > \"$TMPDIR/../../41/a\"", "\"deny\" \"BLOCKED: write to "),
        ("TMPDIR=/out; echo x > $TMPDIR/a", "\"deny\" \"BLOCKED: it is not clear where"),
        ("export TMPDIR=/out && echo x > $TMPDIR/a", "\"deny\" \"BLOCKED: it is not clear where"),
        ("read TMPDIR < a; echo x > $TMPDIR/a", "\"deny\" \"BLOCKED: it is not clear where"),
        ("read TMP\"DIR\" < a; echo x > $TMPDIR/a", "\"deny\" \"BLOCKED: it is not clear where"),
        ("for TMPDIR in /out; do echo x > $TMPDIR/a; done", "\"deny\" \"BLOCKED: it is not clear where"),
        ("eval TMP'DIR=/out'; echo x > $TMPDIR/a", "\"deny\" \"BLOCKED: it is not clear where"),
        ("source a; echo x > $TMPDIR/a", "\"deny\" \"BLOCKED: it is not clear where"),
        ("HOME=/out; echo x > ~/a", "\"deny\" \"BLOCKED: it is not clear where"),
        ("echo x > $OPKIT_OTHER/a", "\"deny\" \"BLOCKED: it is not clear where"),
    ];
    for (command, expected) in table {
        let answer = ask(command);
        assert!(answer.starts_with(expected), "{command}: {answer}");
    }
}
