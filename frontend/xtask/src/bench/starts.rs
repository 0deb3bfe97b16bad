//! From the claim to the agent's first instruction, beside bare tmux and a bare checkout in the same run.

use super::figures::Times;
use super::fixture::{Folder, repository};
use super::product::{Mode, Product};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const FILES: usize = 20_000;
const WARM_ROUNDS: usize = 11;
const COLD_ROUNDS: usize = 3;
const AT_ONCE: usize = 25;

/// What bare tmux starts: it writes when it began, and stays.
const STAMP: &str = "#!/bin/bash
printf '%s\\n' \"$EPOCHREALTIME\" > \"$1/began\"
exec sleep 100000
";

pub(super) fn starts(report: &mut String) -> Result<()> {
    let folder = Folder::new("starts")?;
    let program = folder.join("stamp");
    fs::write(&program, STAMP)?;
    fs::set_permissions(&program, Permissions::from_mode(0o755))?;
    let repo = repository(&folder.join("repo"), FILES, 200)?;
    writeln!(
        report,
        "Repository of {FILES} files. A start is the time from the claim, as it is in the database (whole milliseconds, before its fsync), to the first instruction of the demo agent, by its own clock; the bare one is from the call of `tmux new-session` to the first line of a small script, by the script's clock. Rounds of both alternate.\n"
    )?;
    writeln!(
        report,
        "| what | mode | opkit | bare, the same run | ratio of medians | goal |\n|---|---|---|---|---|---|"
    )?;
    // What was made is deleted at the very end: the disk would still be busy with it for whoever is measured next.
    let mut done = Vec::new();
    for mode in Mode::all() {
        let bench = Bench::new(&folder, mode, &repo, &program)?;
        let (ours, bare) = bench.cold()?;
        row(
            report,
            &format!("cold start, {COLD_ROUNDS} rounds; bare: clone --shared, checkout, tmux"),
            mode,
            &ours,
            &bare,
            "≤ 1.1",
        )?;
        bench.pool(2)?;
        let (ours, bare) = bench.warm()?;
        row(report, &format!("warm start, {WARM_ROUNDS} rounds"), mode, &ours, &bare, "≤ 2")?;
        bench.pool(AT_ONCE)?;
        bench.at_once(report)?;
        // Filled again and left: ext4 looks for a free inode past all that were deleted in the last minutes, so whoever
        // makes files then pays for it.
        bench.filled(AT_ONCE)?;
        done.push(bench);
    }
    report.push('\n');
    Ok(())
}

fn row(report: &mut String, what: &str, mode: Mode, ours: &Times, bare: &Times, goal: &str) -> Result<()> {
    let ratio = ours.median() / bare.median();
    eprintln!("    {what}, {}: {ours} against {bare}: {ratio:.2}", mode.name());
    Ok(writeln!(report, "| {what} | {} | {ours} | {bare} | {ratio:.2} | {goal} |", mode.name())?)
}

/// A product and a bare tmux server on the same disk.
struct Bench {
    product: Product,
    bare: Bare,
    mode: Mode,
}

impl Bench {
    fn new(folder: &Path, mode: Mode, repo: &Path, program: &Path) -> Result<Bench> {
        let product = Product::start(mode, repo, &[])?;
        Ok(Bench { product, bare: Bare::start(folder, program, mode)?, mode })
    }

    /// Asks for a number of checkouts ahead and waits until they are there and nothing is being made.
    fn pool(&self, size: usize) -> Result<()> {
        super::product::opkit(
            &self.product.data,
            &["repos", "set", "bench", "--pool", &size.to_string()],
            "",
        )?;
        self.filled(size)
    }

    fn filled(&self, size: usize) -> Result<()> {
        let shelf = self.product.data.join("pool/1");
        let deadline = Instant::now() + Duration::from_secs(600);
        loop {
            let entries = fs::read_dir(&shelf).into_iter().flatten().flatten();
            let names: Vec<_> =
                entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
            let ready = names.iter().filter(|name| name.ends_with(".ready")).count();
            let making = names.iter().any(|name| name.starts_with("new-"));
            let trash = fs::read_dir(self.product.data.join("pool/trash")).into_iter().flatten().count();
            if ready == size && !making && trash == 0 {
                // What was written must not be on its way to the disk while others are measured.
                Command::new("sync").status()?;
                return Ok(());
            }
            ensure!(Instant::now() < deadline, "the pool has {ready} of {size} after ten minutes");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Starts one session and gives the time from its claim to its agent; then ends it.
    fn one(&self) -> Result<f64> {
        let before = self.session_dirs();
        let id = self.product.add("demo", Some("hangs"))?;
        let began = self.agents_after(&before, 1)?;
        let claimed = claimed(&self.product, id)?;
        self.product.cancel(&[id])?;
        Ok(began - claimed)
    }

    fn session_dirs(&self) -> BTreeSet<PathBuf> {
        let entries = fs::read_dir(self.product.data.join("sessions")).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect()
    }

    /// When the last of so many new agents began, milliseconds since 1970: the time that each takes as its first
    /// instruction and says in its first event.
    fn agents_after(&self, before: &BTreeSet<PathBuf>, count: usize) -> Result<f64> {
        let deadline = Instant::now() + Duration::from_secs(180);
        let mut began: BTreeMap<PathBuf, f64> = BTreeMap::new();
        loop {
            for dir in self.session_dirs().difference(before) {
                if !began.contains_key(dir)
                    && let Some(at) = began_at(&dir.join("transcript.jsonl"))
                {
                    began.insert(dir.clone(), at);
                }
            }
            if began.len() >= count {
                return Ok(began.into_values().fold(0.0, f64::max));
            }
            if Instant::now() > deadline {
                anyhow::bail!(
                    "{} of {count} agents began: {}",
                    began.len(),
                    Value::from(self.product.sessions(None)?)
                );
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn warm(&self) -> Result<(Times, Times)> {
        let (mut ours, mut bare) = (Vec::new(), Vec::new());
        for round in 0..WARM_ROUNDS {
            self.filled(2)?;
            ours.push(self.one()?);
            bare.push(self.bare.one(&format!("warm{round}-{}", self.mode.name()))?);
        }
        Ok((Times::of(ours), Times::of(bare)))
    }

    fn cold(&self) -> Result<(Times, Times)> {
        let (mut ours, mut bare) = (Vec::new(), Vec::new());
        let mirror = self.product.data.join("mirrors/1.git");
        for round in 0..COLD_ROUNDS {
            Command::new("sync").status()?;
            ours.push(self.one()?);
            Command::new("sync").status()?;
            bare.push(self.bare.cold(&format!("cold{round}-{}", self.mode.name()), &mirror)?);
        }
        Ok((Times::of(ours), Times::of(bare)))
    }

    /// So many that may all start at one instant: how many run, and the time from the first claim to the last agent.
    fn burst(&self, count: usize) -> Result<(usize, f64)> {
        self.product.hold(true)?;
        let before = self.session_dirs();
        let ids: Vec<i64> =
            (0..count).map(|_| self.product.add("demo", Some("hangs"))).collect::<Result<_>>()?;
        self.product.hold(false)?;
        let last = self.agents_after(&before, count)?;
        let first = ids.iter().map(|id| claimed(&self.product, *id)).collect::<Result<Vec<_>>>()?;
        let running = self.product.sessions(None)?.len();
        self.product.cancel(&ids)?;
        Ok((running, last - first.into_iter().fold(f64::INFINITY, f64::min)))
    }

    /// 25 that may all start at one instant.
    fn at_once(&self, report: &mut String) -> Result<()> {
        let (running, all) = self.burst(AT_ONCE)?;
        let bare = self.bare.at_once(AT_ONCE, self.mode.name())?;
        eprintln!(
            "    {AT_ONCE} at once, {}: {running} run, {all:.0} ms against {bare:.0} ms",
            self.mode.name()
        );
        writeln!(
            report,
            "| {AT_ONCE} at once from the pool: {running} of {AT_ONCE} run; until the last began | {} | {all:.0} ms | {bare:.0} ms | {:.2} | {AT_ONCE} of {AT_ONCE}, ≤ 2 |",
            self.mode.name(),
            all / bare
        )?;
        Ok(())
    }
}

fn claimed(product: &Product, id: i64) -> Result<f64> {
    let sessions = product.sessions(Some(id))?;
    // A session that was tried again is no clean measurement.
    ensure!(sessions.len() == 1, "#{id} has {} sessions", sessions.len());
    sessions[0]["started_at"].as_f64().context("no time")
}

fn began_at(transcript: &Path) -> Option<f64> {
    let text = fs::read_to_string(transcript).ok()?;
    let first: Value = serde_json::from_str(text.split_once('\n')?.0).ok()?;
    Some(first["began_us"].as_f64()? / 1000.0)
}

fn read_stamp(file: &Path) -> Option<f64> {
    let text = fs::read_to_string(file).ok()?;
    let seconds: f64 = text.strip_suffix('\n')?.parse().ok()?;
    Some(seconds * 1000.0)
}

/// The time as the server and a script's clock have it.
#[allow(clippy::disallowed_methods, reason = "compared with times of other processes")]
fn now() -> Result<f64> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs_f64() * 1000.0)
}

/// tmux without anything around it.
struct Bare {
    folder: PathBuf,
    socket: PathBuf,
    program: PathBuf,
}

impl Bare {
    fn start(folder: &Path, program: &Path, mode: Mode) -> Result<Bare> {
        let bare = Bare {
            folder: folder.to_owned(),
            socket: folder.join(format!("bare-{}.sock", mode.name())),
            program: program.to_owned(),
        };
        bare.tmux(&["new-session", "-d", "-s", "keeper", "tail", "-f", "/dev/null"])?;
        Ok(bare)
    }

    fn tmux(&self, args: &[&str]) -> Result<()> {
        let mut command = Command::new("tmux");
        command.arg("-S").arg(&self.socket).args(["-f", "/dev/null"]).args(args).env_remove("OPKIT_SCRATCH");
        let output = command.stdin(Stdio::null()).output()?;
        ensure!(output.status.success(), "tmux {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    }

    fn session(&self, name: &str, dir: &Path) -> Result<()> {
        let (dir, program) = (dir.to_string_lossy(), self.program.to_string_lossy());
        self.tmux(&["new-session", "-d", "-s", name, "-c", &dir, &program, &dir])
    }

    /// Waits for the program's stamp.
    fn began(dir: &Path) -> Result<f64> {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            if let Some(at) = read_stamp(&dir.join("began")) {
                return Ok(at);
            }
            ensure!(Instant::now() < deadline, "a bare session never began");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// The directory stays: deleting twenty thousand files would slow the disk down for whoever is measured next.
    fn end(&self, name: &str) -> Result<()> {
        self.tmux(&["kill-session", "-t", name])
    }

    fn one(&self, name: &str) -> Result<f64> {
        let dir = self.folder.join(name);
        fs::create_dir_all(&dir)?;
        let asked = now()?;
        self.session(name, &dir)?;
        let took = Self::began(&dir)? - asked;
        self.end(name)?;
        Ok(took)
    }

    fn cold(&self, name: &str, mirror: &Path) -> Result<f64> {
        let dir = self.folder.join(name);
        let asked = now()?;
        git(&self.folder, &["clone", "-q", "--shared", "--no-checkout", &mirror.to_string_lossy(), name])?;
        git(&dir, &["switch", "-q", "-c", "obj/1", "origin/main"])?;
        self.session(name, &dir)?;
        let took = Self::began(&dir)? - asked;
        self.end(name)?;
        Ok(took)
    }

    fn at_once(&self, count: usize, mode: &str) -> Result<f64> {
        let names = (0..count).map(|at| format!("once{at}-{mode}"));
        let dirs: Vec<(String, PathBuf)> = names.map(|name| (name.clone(), self.folder.join(name))).collect();
        for (_, dir) in &dirs {
            fs::create_dir_all(dir)?;
        }
        let asked = now()?;
        std::thread::scope(|scope| {
            let starts: Vec<_> =
                dirs.iter().map(|(name, dir)| scope.spawn(|| self.session(name, dir))).collect();
            starts.into_iter().try_for_each(|start| {
                start.join().map_err(|_| anyhow::anyhow!("a bare start panicked")).and_then(|done| done)
            })
        })?;
        let began: Vec<f64> = dirs.iter().map(|(_, dir)| Self::began(dir)).collect::<Result<_>>()?;
        for (name, _) in &dirs {
            self.end(name)?;
        }
        Ok(began.into_iter().fold(0.0, f64::max) - asked)
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        Command::new("tmux").arg("-S").arg(&self.socket).arg("kill-server").output().ok();
    }
}

fn git(dir: &Path, args: &[&str]) -> Result<()> {
    let output = Command::new("git").current_dir(dir).args(args).stdin(Stdio::null()).output()?;
    ensure!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}
