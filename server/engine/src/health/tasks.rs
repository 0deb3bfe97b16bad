//! What each background task did last, and whether it still runs at all.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use opkit_domain::view::TaskView;

use crate::clock::now_ms;
use crate::error::Error;

/// Tasks that run on a timer, and how often. One that is not here runs when there is something to do.
const PERIODS: [(&str, Duration); 11] = [
    ("audit copy", Duration::from_secs(1)),
    ("clock", Duration::from_secs(10)),
    ("directories", Duration::from_secs(600)),
    ("disk budget", Duration::from_secs(600)),
    ("dispatcher", Duration::from_secs(1)),
    ("feed", Duration::from_secs(2)),
    ("mirrors", Duration::from_secs(6 * 3600)),
    ("retention", Duration::from_secs(600)),
    (POLLER, Duration::from_secs(1)),
    ("warm pool", Duration::from_secs(600)),
    ("windows", Duration::from_secs(30)),
];
/// The task without which nothing is known about sessions.
const POLLER: &str = "state poller";
/// A missed turn is no news on a busy machine; so many, and at least so long, are.
const MISSED: u32 = 3;
const SHORTEST: Duration = Duration::from_secs(30);

/// Last results of background tasks.
pub(crate) struct Tasks {
    born: Instant,
    last: Mutex<BTreeMap<&'static str, Run>>,
}

struct Run {
    /// For people; durations are told by the other one.
    at_ms: i64,
    at: Instant,
    /// When it last went well.
    good: Option<Instant>,
    error: Option<String>,
}

impl Default for Tasks {
    fn default() -> Tasks {
        Tasks { born: Instant::now(), last: Mutex::default() }
    }
}

impl Tasks {
    fn note(&self, name: &'static str, error: Option<String>) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let before = last.get(name);
        // A failure that goes on is in the log once; the health page shows it all the time.
        match (&error, before.and_then(|run| run.error.as_ref())) {
            (Some(text), known) if known != Some(text) => {
                tracing::error!(task = name, error = text, "a background task failed");
            }
            (None, Some(_)) => tracing::info!(task = name, "a background task goes well again"),
            (Some(_) | None, _) => {}
        }
        let at = Instant::now();
        let good = if error.is_none() { Some(at) } else { before.and_then(|run| run.good) };
        last.insert(name, Run { at_ms: now_ms(), at, good, error });
    }

    pub(crate) fn ok(&self, name: &'static str) {
        self.note(name, None);
    }

    /// Notes a failure; the log has it once, the health page the sentence.
    pub(crate) fn failed(&self, name: &'static str, error: &Error) {
        let text = match error {
            Error::Internal(inner) => format!("{inner:#}"),
            Error::NotFound(_)
            | Error::Refused(_)
            | Error::Conflict(_)
            | Error::BadInput(_)
            | Error::Forbidden(_) => error.to_string(),
        };
        self.note(name, Some(text));
    }

    pub(super) fn views(&self) -> Vec<TaskView> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let timed = PERIODS.iter().map(|(name, _)| *name);
        let mut names: Vec<&str> = timed.chain(last.keys().copied()).collect();
        names.sort_unstable();
        names.dedup();
        names.into_iter().map(|name| self.view(name, last.get(name))).collect()
    }

    fn view(&self, name: &str, run: Option<&Run>) -> TaskView {
        let period = PERIODS.iter().find(|(known, _)| *known == name).map(|(_, period)| *period);
        let ago = run.map_or(self.born, |run| run.at).elapsed();
        let stale = period.is_some_and(|period| ago > longest(period));
        let result = match run {
            _ if stale => format!("has not run for {} s", ago.as_secs()),
            None => "has not run yet".into(),
            Some(run) => run.error.clone().unwrap_or_else(|| "ok".into()),
        };
        TaskView {
            name: name.to_owned(),
            last_run: run.map(|run| run.at_ms),
            ok: !stale && run.is_none_or(|run| run.error.is_none()),
            result,
            period_s: period.map(|period| period.as_secs()),
            stale,
        }
    }

    /// Why nobody should rely on this server now, if so: the poller has not had a good pass for too long.
    pub(super) fn poller_fails(&self) -> Option<String> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let run = last.get(POLLER);
        let ago = run.and_then(|run| run.good).unwrap_or(self.born).elapsed();
        if ago <= SHORTEST {
            return None;
        }
        let why = run.and_then(|run| run.error.as_deref()).unwrap_or("it does not run");
        Some(format!("sessions have not been looked at for {} s: {why}", ago.as_secs()))
    }
}

fn longest(period: Duration) -> Duration {
    (period * MISSED).max(SHORTEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn long_ago(tasks: &mut Tasks, name: &'static str, seconds: u64) {
        let then = Instant::now().checked_sub(Duration::from_secs(seconds)).unwrap();
        tasks.born = then;
        tasks.last.lock().unwrap().get_mut(name).unwrap().at = then;
        tasks.last.lock().unwrap().get_mut(name).unwrap().good = Some(then);
    }

    fn view(tasks: &Tasks, name: &str) -> TaskView {
        tasks.views().into_iter().find(|view| view.name == name).unwrap()
    }

    #[test]
    fn a_task_that_stopped_is_shown_as_such() {
        let mut tasks = Tasks::default();
        assert_eq!(view(&tasks, "dispatcher").result, "has not run yet");
        tasks.ok("dispatcher");
        tasks.ok("settle");
        assert!(view(&tasks, "dispatcher").ok);
        long_ago(&mut tasks, "dispatcher", 29);
        assert!(!view(&tasks, "dispatcher").stale);
        long_ago(&mut tasks, "dispatcher", 45);
        let stale = view(&tasks, "dispatcher");
        assert_eq!((stale.stale, stale.ok, stale.result.as_str()), (true, false, "has not run for 45 s"));
        long_ago(&mut tasks, "settle", 90_000);
        assert!(!view(&tasks, "settle").stale, "it runs when there is something to settle");
    }

    #[test]
    fn a_poller_that_fails_or_stands_makes_the_server_not_ready() {
        let mut tasks = Tasks::default();
        assert_eq!(tasks.poller_fails(), None);
        tasks.ok(POLLER);
        long_ago(&mut tasks, POLLER, 31);
        assert!(tasks.poller_fails().unwrap().contains("31 s"));
        // It runs, and fails each time.
        tasks.failed(POLLER, &Error::Refused("the disk is full".into()));
        assert!(tasks.poller_fails().unwrap().ends_with("the disk is full"));
        tasks.ok(POLLER);
        assert_eq!(tasks.poller_fails(), None);
    }
}
