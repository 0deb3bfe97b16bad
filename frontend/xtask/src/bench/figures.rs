//! Medians, percentiles, and what a process uses.

use anyhow::{Context, Result};
use std::fs;
use std::time::Duration;

/// Times of one thing, sorted, in milliseconds.
pub(super) struct Times(Vec<f64>);

impl Times {
    pub(super) fn of(times: impl IntoIterator<Item = f64>) -> Times {
        let mut times: Vec<f64> = times.into_iter().collect();
        times.sort_by(f64::total_cmp);
        Times(times)
    }

    pub(super) fn part(&self, part: f64) -> f64 {
        let last = self.0.len().saturating_sub(1);
        self.0.get((last as f64 * part).round() as usize).copied().unwrap_or(f64::NAN)
    }

    pub(super) fn median(&self) -> f64 {
        self.part(0.5)
    }
}

impl std::fmt::Display for Times {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.1} ms ({:.1}-{:.1})", self.median(), self.part(0.0), self.part(1.0))
    }
}

pub(super) fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// Kilobytes of a process: its share of what is in memory, and what is its own.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Memory {
    pub(super) pss: u64,
    pub(super) anonymous: u64,
    pub(super) rss: u64,
}

impl Memory {
    pub(super) fn of(pid: u32) -> Result<Memory> {
        let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
        let field = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|line| line.split_whitespace().next()?.parse().ok())
                .with_context(|| name.to_owned())
        };
        Ok(Memory { pss: field("Pss:")?, anonymous: field("Anonymous:")?, rss: field("Rss:")? })
    }

    pub(super) fn all(pids: &[u32]) -> Result<Memory> {
        pids.iter().try_fold(Memory::default(), |sum, pid| {
            let one = Memory::of(*pid)?;
            Ok(Memory {
                pss: sum.pss + one.pss,
                anonymous: sum.anonymous + one.anonymous,
                rss: sum.rss + one.rss,
            })
        })
    }
}

/// Processes whose command line holds a text.
pub(super) fn processes(holds: &str) -> Vec<(u32, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        if pid != std::process::id() && line.contains(holds) {
            found.push((pid, line));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::Times;

    #[test]
    fn parts_of_sorted_times() {
        let times = Times::of([3.0, 1.0, 2.0]);
        assert_eq!((times.part(0.0), times.median(), times.part(1.0)), (1.0, 2.0, 3.0));
    }
}
