//! The two small programs on the way of every call and every start: the guard and the wall.

use super::figures::{Times, ms};
use super::fixture::{Folder, small_repository};
use super::product::{Mode, Product};
use crate::{Profile, server};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::fs::{self, Permissions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

const GUARD_RUNS: usize = 1000;
const WALL_RUNS: usize = 200;

/// Guard and wall as a live session of the product has them.
pub(super) fn guard_and_wall(report: &mut String) -> Result<()> {
    let folder = Folder::new("small")?;
    let repo = small_repository(&folder)?;
    writeln!(
        report,
        "| what | mode | median (min-max) | p99 | floor: /bin/true the same way | goal |\n|---|---|---|---|---|---|"
    )?;
    for mode in Mode::all() {
        let product = Product::start(mode, &repo, &[("OPKIT_DEMO_SPEED", "0")])?;
        product.add("demo", Some("hangs"))?;
        product.wait("a session", || Ok(product.sessions(None)?.iter().any(|s| s["state"] == "running")))?;
        let session = product.sessions(None)?.into_iter().next().context("no session")?;
        let spec: Value =
            serde_json::from_slice(&fs::read(product.session_dir(&session)?.join("spec.json"))?)?;
        if mode == Mode::Homes {
            guard(report, &spec)?;
        }
        wall(report, &spec, mode, &folder)?;
    }
    report.push('\n');
    Ok(())
}

fn guard(report: &mut String, spec: &Value) -> Result<()> {
    let program = server::binary("opkit-session", Profile::Release)?;
    let policy = environment(spec, "OPKIT_POLICY")?;
    let cwd = environment(spec, "OPKIT_WORKTREE")?;
    let call = |tool: &str, input: Value| {
        json!({"session_id": "bench", "cwd": cwd, "hook_event_name": "PreToolUse", "tool_name": tool,
            "tool_input": input, "tool_use_id": "bench"})
        .to_string()
    };
    let calls = [
        call("Write", json!({"file_path": format!("{cwd}/a.txt"), "content": "x".repeat(4000)})),
        call(
            "Bash",
            json!({"command": "cargo test -p a 2>&1 | tail -n 40 > out.txt && git commit -qm 'x y'"}),
        ),
    ];
    let (mut ours, mut floor) = (Vec::new(), Vec::new());
    for round in 0..GUARD_RUNS {
        let mut guard = Command::new(&program);
        guard.arg("guard").arg(&policy);
        ours.push(run_with_input(&mut guard, &calls[round % calls.len()])?);
        floor.push(run_with_input(&mut Command::new("/bin/true"), "")?);
    }
    let (ours, floor) = (Times::of(ours), Times::of(floor));
    let p99 = ours.part(0.99);
    writeln!(
        report,
        "| guard, exec to exit, {GUARD_RUNS} runs | any | {ours} | {p99:.2} ms | {floor}, p99 {:.2} ms | p99 < 5 ms |",
        floor.part(0.99)
    )?;
    Ok(())
}

/// Milliseconds from the spawn to the exit.
fn run_with_input(command: &mut Command, input: &str) -> Result<f64> {
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let start = Instant::now();
    let mut child = command.spawn()?;
    // `true` may be gone before it is told anything.
    let _ = child.stdin.take().context("no stdin")?.write_all(input.as_bytes());
    let status = child.wait()?;
    let took = ms(start.elapsed());
    ensure!(status.success(), "{command:?} ended with {status}");
    Ok(took)
}

fn wall(report: &mut String, spec: &Value, mode: Mode, folder: &Path) -> Result<()> {
    let program = server::binary("opkit-session", Profile::Release)?;
    let enter = json!({"identity": spec["identity"], "wall": spec["wall"], "cwd": spec["cwd"],
        "argv": ["/bin/true"], "env": spec["env"], "new_session": true});
    let file = folder.join("enter.json");
    fs::write(&file, enter.to_string())?;
    fs::set_permissions(&file, Permissions::from_mode(0o600))?;
    let (mut ours, mut floor) = (Vec::new(), Vec::new());
    for _ in 0..WALL_RUNS {
        let mut entry = Command::new(&program);
        entry.arg("enter").arg("--spec").arg(&file);
        ours.push(run_with_input(&mut entry, "")?);
        floor.push(run_with_input(&mut Command::new("/bin/true"), "")?);
    }
    let (ours, floor) = (Times::of(ours), Times::of(floor));
    writeln!(
        report,
        "| wall: enter and /bin/true, {WALL_RUNS} runs; own part {:.1} ms | {} | {ours} | {:.2} ms | {floor} | own part < 10 ms |",
        ours.median() - floor.median(),
        mode.name(),
        ours.part(0.99)
    )?;
    Ok(())
}

/// A variable of the session's environment.
fn environment(spec: &Value, name: &str) -> Result<String> {
    let pairs = spec["env"].as_array().context("no environment")?;
    let pair = pairs.iter().find(|pair| pair[0] == name).with_context(|| format!("{name} is not set"))?;
    Ok(pair[1].as_str().context("no text")?.to_owned())
}
