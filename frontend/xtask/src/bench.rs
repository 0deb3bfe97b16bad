//! `bench`: the release build measured, written to `server/docs/bench/results.md`.

mod figures;
mod fixture;
mod http;
mod memory;
mod processes;
mod product;
mod stalled;
mod starts;

use crate::steps::{cargo, output_of, program, root, run, shown, step, target};
use crate::{Profile, server, site};
use anyhow::{Context, Result, bail, ensure};
use fixture::data_dir;
use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const BEGIN: &str = "<!-- cargo xtask bench: begin -->";
const END: &str = "<!-- cargo xtask bench: end -->";
const ROUNDS: usize = 15;

/// Measures something and writes its lines.
type Measure = fn(&mut String) -> Result<()>;

/// What is measured, by the name that the command line knows.
const PARTS: [(&str, Measure); 9] = [
    ("sizes", sizes),
    ("first-byte", first_byte),
    ("idle-memory", idle_memory),
    ("decisions", |report| engine_example("decisions", report)),
    ("terminal", |report| engine_example("terminal", report)),
    ("processes", processes::guard_and_wall),
    ("starts", starts::starts),
    ("memory", memory::sessions_and_viewers),
    ("stalled", stalled::viewers),
];

/// Builds a release and measures it. `--built` takes the binaries that are there; parts by name are only printed.
pub(crate) fn bench(args: &[String]) -> Result<()> {
    let (built, parts): (Vec<&String>, Vec<&String>) = args.iter().partition(|arg| *arg == "--built");
    for part in &parts {
        let known: Vec<&str> = PARTS.iter().map(|(name, _)| *name).collect();
        ensure!(known.contains(&part.as_str()), "there is no part {part}. There are: {}", known.join(", "));
    }
    if built.is_empty() {
        server::build_all(Profile::Release)?;
    }
    let mut report = machine();
    print!("{report}");
    for (name, measure) in PARTS {
        if parts.is_empty() || parts.iter().any(|part| *part == name) {
            let before = report.len();
            let done = step(name, || measure(&mut report));
            // What was measured so far is worth reading even if the rest fails.
            print!("{}", &report[before..]);
            done?;
        }
    }
    if parts.is_empty() { save(&report) } else { Ok(()) }
}

fn machine() -> String {
    let uname = output_of("uname", &["-sr"]).unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let date = output_of("date", &["-u", "+%Y-%m-%d %H:%M"]).unwrap_or_default();
    let load = load.split(' ').next().unwrap_or("?");
    format!("{} UTC, {}, {cores} cores, load {load} at the start.\n\n", date.trim(), uname.trim())
}

fn sizes(report: &mut String) -> Result<()> {
    let pkg = site::dist().join("pkg").join(site::build_id()?);
    report.push_str("| file | raw bytes | brotli 11 |\n|---|---|---|\n");
    let mut wire = 0;
    for name in ["frontend_bg.wasm", "frontend.js", "app.css"] {
        let bytes = fs::read(pkg.join(name))?;
        let packed = site::brotli_of(&bytes)?.len();
        if name != "app.css" {
            wire += packed;
        }
        writeln!(report, "| {name} | {} | {packed} |", bytes.len())?;
    }
    writeln!(report, "| js + wasm on the wire (goal: 400 KB at first, 480 KB whole) | | {wire} |")?;
    for name in ["opkit", "opkit-session"] {
        let len = server::binary(name, Profile::Release)?.metadata()?.len();
        writeln!(report, "| {name} (binary) | {len} | |")?;
    }
    report.push('\n');
    Ok(())
}

/// A server with a fresh data directory; both end with the value.
struct Running {
    child: Child,
    data: PathBuf,
    address: String,
}

impl Running {
    fn start(data: &Path) -> Result<Self> {
        let mut command = program(server::binary("opkit", Profile::Release)?);
        command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(data);
        command.env_remove("OPKIT_SITE");
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let stdout = child.stdout.take().context("no stdout")?;
        let mut running = Self { child, data: data.to_path_buf(), address: String::new() };
        let mut reader = BufReader::new(stdout);
        let mut line = String::new();
        while reader.read_line(&mut line)? > 0 {
            if let Some(at) = line.find("listening on http://") {
                running.address =
                    line[at + "listening on http://".len()..].trim().trim_end_matches('/').to_owned();
                // Whatever it still says must not fill the pipe.
                std::thread::spawn(move || std::io::copy(&mut reader, &mut std::io::sink()));
                return Ok(running);
            }
            line.clear();
        }
        bail!("{} ended before it listened", shown(&command));
    }

    fn get_first_byte(&self, path: &str) -> Result<()> {
        let mut stream = TcpStream::connect(&self.address)?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.address)?;
        stream.read_exact(&mut [0; 1])?;
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // TERM first, so that the server ends what it started itself.
        let pid = self.child.id().to_string();
        Command::new("kill").arg(&pid).status().ok();
        let deadline = Instant::now() + Duration::from_secs(15);
        while Instant::now() < deadline && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(20));
        }
        self.child.kill().ok();
        self.child.wait().ok();
        fs::remove_dir_all(&self.data).ok();
    }
}

fn first_byte(report: &mut String) -> Result<()> {
    let mut times = Vec::new();
    for round in 0..ROUNDS {
        let data = data_dir(&format!("start-{round}"))?;
        let start = Instant::now();
        let running = Running::start(&data)?;
        running.get_first_byte("/healthz")?;
        times.push(start.elapsed().as_secs_f64() * 1000.0);
    }
    times.sort_by(f64::total_cmp);
    let (low, middle, high) = (times[0], times[ROUNDS / 2], times[ROUNDS - 1]);
    writeln!(
        report,
        "Start to first byte, empty data directory, {ROUNDS} starts: {middle:.0} ms ({low:.0}-{high:.0}); goal 40 ms.\n"
    )?;
    Ok(())
}

fn idle_memory(report: &mut String) -> Result<()> {
    let running = Running::start(&data_dir("idle")?)?;
    running.get_first_byte("/healthz")?;
    std::thread::sleep(Duration::from_secs(10));
    let rollup = fs::read_to_string(format!("/proc/{}/smaps_rollup", running.child.id()))?;
    let field = |name: &str| -> Option<u64> {
        rollup.lines().find_map(|l| l.strip_prefix(name)?.split_whitespace().next()?.parse().ok())
    };
    let anonymous = field("Anonymous:").context("smaps_rollup has no Anonymous line")?;
    let rss = field("Rss:").unwrap_or(0);
    writeln!(report, "Idle server after 10 s: {anonymous} KB anonymous (goal 12 MB), {rss} KB resident.\n")?;
    Ok(())
}

/// An example of the engine, if it is there, prints its own lines of Markdown.
fn engine_example(name: &str, report: &mut String) -> Result<()> {
    if !root().join(format!("server/engine/examples/{name}.rs")).is_file() {
        return Ok(());
    }
    run(cargo().args([
        "build",
        "--release",
        "-p",
        "opkit-engine",
        "--features",
        "bench",
        "--example",
        name,
    ]))?;
    let out = program(target().join("release/examples").join(name)).stderr(Stdio::inherit()).output()?;
    if !out.status.success() {
        bail!("the example {name} ended with {}", out.status);
    }
    report.push_str(&String::from_utf8_lossy(&out.stdout));
    report.push('\n');
    Ok(())
}

/// Replaces our section and leaves what others wrote around it.
fn save(report: &str) -> Result<()> {
    let file = root().join("server/docs/bench/results.md");
    let old = fs::read_to_string(&file).unwrap_or_else(|_| format!("# Bench results\n\n{BEGIN}\n{END}\n"));
    let (before, rest) = old.split_once(BEGIN).unwrap_or((&old, ""));
    let after = rest.split_once(END).map_or("\n", |(_, after)| after);
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(&file, format!("{before}{BEGIN}\n{report}{END}{after}"))?;
    eprintln!("    written to {}", file.display());
    Ok(())
}
