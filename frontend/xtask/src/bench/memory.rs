//! Memory of 25 silent sessions with four viewers each.

use super::figures::{Memory, processes};
use super::fixture::{Folder, small_repository};
use super::http::Viewer;
use super::product::{Mode, Product};
use anyhow::{Context, Result};
use std::fmt::Write as _;
use std::fs;
use std::time::Duration;

const SESSIONS: usize = 25;
const VIEWERS: usize = 4;

pub(super) fn sessions_and_viewers(report: &mut String) -> Result<()> {
    let folder = Folder::new("small")?;
    let repo = small_repository(&folder)?;
    writeln!(
        report,
        "| mode | runner, PSS each | tmux, PSS each | together (goal < 12 MB) | own (anonymous) of both | server before | server with {SESSIONS} | after one login | with {VIEWERS} viewers each (goal < 40 MB) |\n|---|---|---|---|---|---|---|---|---|"
    )?;
    for mode in Mode::all() {
        let product = Product::start(mode, &repo, &[("OPKIT_DEMO_SPEED", "0")])?;
        let before = Memory::of(product.pid())?;
        for _ in 0..SESSIONS {
            product.add("demo", Some("hangs"))?;
        }
        product.wait("25 sessions to be silent", || {
            let live = product.sessions(None)?;
            Ok(live.len() == SESSIONS
                && live.iter().all(|s| {
                    s["state"] == "running"
                        && transcript(&product, s).is_ok_and(|text| text.contains("never ends"))
                }))
        })?;
        // What a start leaves behind for a moment is not what an idle session costs.
        std::thread::sleep(Duration::from_secs(10));
        let live = product.sessions(None)?;
        let runners: Vec<u32> =
            live.iter().filter_map(|s| s["pid"].as_u64().and_then(|pid| pid.try_into().ok())).collect();
        let socket = format!("{}/run/tmux/", product.data.display());
        let tmux: Vec<u32> = processes(&socket)
            .into_iter()
            .filter(|(_, line)| line.contains("tmux"))
            .map(|(pid, _)| pid)
            .collect();
        let (runner, tmux) = (Memory::all(&runners)?, Memory::all(&tmux)?);
        let with = Memory::of(product.pid())?;
        let cookie = product.log_in()?;
        let logged_in = Memory::of(product.pid())?;
        let mut viewers = Vec::new();
        for session in &live {
            let id = session["id"].as_str().context("no id")?;
            for _ in 0..VIEWERS {
                viewers.push(Viewer::open(&product.address, &cookie, id)?);
            }
        }
        std::thread::sleep(Duration::from_secs(5));
        let watched = Memory::of(product.pid())?;
        let each = |kb: u64| kb as f64 / 1024.0 / SESSIONS as f64;
        let mb = |memory: Memory| {
            format!(
                "{:.1} MB PSS, {:.1} anonymous, {:.1} RSS",
                memory.pss as f64 / 1024.0,
                memory.anonymous as f64 / 1024.0,
                memory.rss as f64 / 1024.0
            )
        };
        writeln!(
            report,
            "| {} | {:.2} MB | {:.2} MB | {:.2} MB | {:.2} MB | {} | {} | {} | {} |",
            mode.name(),
            each(runner.pss),
            each(tmux.pss),
            each(runner.pss + tmux.pss),
            each(runner.anonymous + tmux.anonymous),
            mb(before),
            mb(with),
            mb(logged_in),
            mb(watched),
        )?;
        drop(viewers);
    }
    report.push('\n');
    Ok(())
}

fn transcript(product: &Product, session: &serde_json::Value) -> Result<String> {
    Ok(fs::read_to_string(product.session_dir(session)?.join("transcript.jsonl"))?)
}
