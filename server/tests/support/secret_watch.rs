//! Looks, while a test runs, for a secret where every user or every viewer could read it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// What was looked at, and what was found.
#[derive(Debug, Clone, Default)]
pub(crate) struct Watched {
    /// Command lines of the agent that were read.
    pub(crate) agents: usize,
    /// Environments of runners that were read.
    pub(crate) runners: usize,
    /// Environments of tmux that were read.
    pub(crate) tmux: usize,
    /// Where the secret was.
    pub(crate) leaks: Vec<String>,
}

/// A thread that looks until it is dropped.
pub(crate) struct SecretWatch {
    shared: Arc<(AtomicBool, Mutex<Watched>)>,
}

impl SecretWatch {
    pub(crate) fn start(secret: &'static str, agent: &Path, data: &Path) -> SecretWatch {
        let shared = Arc::new((AtomicBool::new(false), Mutex::default()));
        let (agent, data) = (agent.to_string_lossy().into_owned(), data.to_owned());
        let seen = Arc::clone(&shared);
        thread::spawn(move || {
            for round in 0_u32.. {
                if seen.0.load(Ordering::Relaxed) {
                    return;
                }
                let mut found = Found { secret, agent: &agent, watched: Watched::default() };
                found.processes(&data);
                if round % 20 == 0 {
                    found.tmux(&data);
                }
                add(&mut seen.1.lock().unwrap_or_else(PoisonError::into_inner), found.watched);
                thread::sleep(Duration::from_millis(20));
            }
        });
        SecretWatch { shared }
    }

    pub(crate) fn report(&self) -> Watched {
        self.shared.1.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for SecretWatch {
    fn drop(&mut self) {
        self.shared.0.store(true, Ordering::Relaxed);
    }
}

fn add(sum: &mut Watched, more: Watched) {
    sum.agents += more.agents;
    sum.runners += more.runners;
    sum.tmux += more.tmux;
    let leaks: BTreeSet<String> = sum.leaks.drain(..).chain(more.leaks).collect();
    sum.leaks = leaks.into_iter().collect();
}

struct Found<'a> {
    secret: &'static str,
    agent: &'a str,
    watched: Watched,
}

impl Found<'_> {
    /// No command line may show it, and no environment but that of the agent and what the agent starts.
    fn processes(&mut self, data: &Path) {
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let Ok(line) = fs::read(entry.path().join("cmdline")) else { continue };
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            if line.contains(self.secret) {
                self.watched.leaks.push(format!("command line: {line}"));
            }
            self.watched.agents += usize::from(line.starts_with(self.agent));
            let ours = line.contains(&*data.to_string_lossy());
            let runner = ours && line.contains("opkit-session run ");
            let tmux = ours && line.contains("tmux -u -S ");
            if !runner && !tmux {
                continue;
            }
            let Ok(environment) = fs::read(entry.path().join("environ")) else { continue };
            self.watched.runners += usize::from(runner);
            self.watched.tmux += usize::from(tmux);
            if contains(&environment, self.secret) {
                self.watched.leaks.push(format!("environment of: {line}"));
            }
        }
    }

    fn tmux(&mut self, data: &Path) {
        for socket in fs::read_dir(data.join("run/tmux")).into_iter().flatten().flatten() {
            for scope in [&["-g"][..], &["-t", "=opkit"]] {
                let mut tmux = Command::new("tmux");
                tmux.arg("-S").arg(socket.path()).arg("show-environment").args(scope);
                let Ok(output) = tmux.output() else { continue };
                self.watched.tmux += usize::from(output.status.success());
                if contains(&output.stdout, self.secret) {
                    self.watched.leaks.push(format!("tmux environment {scope:?}"));
                }
            }
        }
    }
}

/// Regular files below a directory that contain the secret.
pub(crate) fn files_with(secret: &str, dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_dir() {
            found.extend(files_with(secret, &entry.path()));
        } else if kind.is_file() && fs::read(entry.path()).is_ok_and(|bytes| contains(&bytes, secret)) {
            found.push(entry.path());
        }
    }
    found
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}
