//! A session that floods while viewers read nothing: what they cost the agent, who reads, and the server.

use super::figures::{Memory, Times, ms};
use super::fixture::{Folder, small_repository};
use super::http::Viewer;
use super::product::{Mode, Product};
use anyhow::{Context, Result};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

const ROUNDS: usize = 15;
const STALLED: usize = 4;
const LOOK: Duration = Duration::from_secs(2);

pub(super) fn viewers(report: &mut String) -> Result<()> {
    let folder = Folder::new("small")?;
    let repo = small_repository(&folder)?;
    let product = Product::start(Mode::Homes, &repo, &[("OPKIT_DEMO_SPEED", "0")])?;
    product.add("demo", Some("floods:16000"))?;
    let mut flood = None;
    product.wait("the flood", || {
        flood = product.sessions(None)?.into_iter().next();
        let dir = flood.as_ref().map(|session| product.session_dir(session)).transpose()?;
        Ok(dir.is_some_and(|dir| written(&dir).is_ok_and(|bytes| bytes > 4 << 20)))
    })?;
    let flood = flood.context("no session")?;
    let (id, dir) = (flood["id"].as_str().context("no id")?, product.session_dir(&flood)?);
    let cookie = product.log_in()?;
    let open = || Viewer::open(&product.address, &cookie, id);

    let seen = Arc::new(AtomicU64::new(0));
    let (mut reader, shown) = (open()?, Arc::clone(&seen));
    std::thread::spawn(move || {
        while let Ok(end) = reader.window() {
            shown.store(end, Relaxed);
        }
    });
    let (mut without, mut with, mut lag) = (Vec::new(), Vec::new(), Vec::new());
    let (mut back, mut memory) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        without.push(rate(&dir)?);
        let before = Memory::of(product.pid())?.rss;
        let mut stalled = (0..STALLED).map(|_| open()).collect::<Result<Vec<_>>>()?;
        with.push(rate(&dir)?);
        memory.push(Memory::of(product.pid())?.rss.saturating_sub(before) as f64 / STALLED as f64);
        let (start, wanted) = (Instant::now(), written(&dir)?);
        while seen.load(Relaxed) < wanted {
            anyhow::ensure!(start.elapsed() < Duration::from_secs(30), "the reader stands still");
            std::thread::sleep(Duration::from_millis(1));
        }
        lag.push(ms(start.elapsed()));
        for viewer in &mut stalled {
            let (start, wanted) = (Instant::now(), written(&dir)?);
            while viewer.window()? < wanted {}
            back.push(ms(start.elapsed()));
        }
    }
    let ratios = without.iter().zip(&with).map(|(without, with)| with / without);
    let (ratio, memory) = (Times::of(ratios), Times::of(memory));
    writeln!(
        report,
        "A flood that one viewer reads, {ROUNDS} times {} s without and with {STALLED} more that read nothing:\n\n\
         | what | measured | goal |\n|---|---|---|\n\
         | the agent's bytes, with against without | {:.2} ({:.2}-{:.2}); {:.1} MB/s without | >= 0.95 |\n\
         | the reader, behind the record, with them | {} | |\n\
         | one that reads again, until it is on the current screen | {} | <= 1 s |\n\
         | the server's memory, each | {:.0} KB ({:.0}-{:.0}) | <= 256 KB median, 1 MB at most |\n",
        LOOK.as_secs(),
        ratio.median(),
        ratio.part(0.0),
        ratio.part(1.0),
        Times::of(without).median(),
        Times::of(lag),
        Times::of(back),
        memory.median(),
        memory.part(0.0),
        memory.part(1.0),
    )?;
    Ok(())
}

/// Megabytes a second that reach a record.
fn rate(dir: &Path) -> Result<f64> {
    let (start, from) = (Instant::now(), written(dir)?);
    std::thread::sleep(LOOK);
    Ok((written(dir)? - from) as f64 / start.elapsed().as_secs_f64() / f64::from(1 << 20))
}

/// Where the record ends. Its last segment's name is the offset of its first byte.
fn written(dir: &Path) -> Result<u64> {
    let first = |name: &str| name.strip_suffix(".seg")?.parse::<u64>().ok();
    let entries = fs::read_dir(dir.join("record"))?.flatten();
    let last = entries.filter_map(|entry| Some((first(entry.file_name().to_str()?)?, entry.path()))).max();
    let Some((first, path)) = last else { return Ok(0) };
    Ok(first + fs::metadata(path)?.len())
}
