//! Terminal views: the newest window of a record, paced by the viewer's own acknowledgements.

mod record;

use std::collections::VecDeque;
use std::time::Duration;

use opkit_domain::access::Scope;
use opkit_domain::ids::SessionId;
use opkit_domain::screen::{TerminalDown, TerminalStatus, TerminalUp, spans};
use opkit_domain::session::SessionState;
use tokio::time::Instant;

use crate::engine::Engine;
use crate::error::Result;
pub(crate) use record::Record;

/// A window is at most about this long, so that a viewer who was away gets the present, not the backlog.
const WINDOW: u64 = 64 << 10;
/// Shortest time between two windows: a frame at 60 Hz.
const FRAME: Duration = Duration::from_millis(16);
/// Longest time between two looks at a quiet record.
const QUIET: Duration = Duration::from_millis(120);
/// Facts beside the lines are sent at most this often.
const STATUS_EVERY: Duration = Duration::from_millis(500);
/// Scrollback lines in one answer.
const MAX_RANGE: u32 = 500;

/// One viewer of one session.
pub struct TerminalStream {
    engine: Engine,
    scope: Scope,
    id: SessionId,
    record: Record,
    /// Byte offset and line number after what was sent.
    sent: (u64, u64),
    /// A window is on its way: nothing more is sent until the viewer has it.
    unacknowledged: bool,
    answers: VecDeque<TerminalDown>,
    status: Option<TerminalStatus>,
    next_window: Instant,
    next_status: Instant,
    pause: Duration,
    ended: bool,
}

impl Engine {
    /// Opens a view at the newest window, or resumes after an offset.
    pub async fn terminal(&self, scope: Scope, id: &SessionId, from: Option<u64>) -> Result<TerminalStream> {
        self.session(scope, id).await?;
        let mut record = Record::open(&self.dirs().session(id));
        let len = record.len();
        let sent = match from {
            Some(from) if from <= len && from >= record.oldest() && record.is_line_start(from) => {
                (from, record.line_at(from))
            }
            Some(_) | None => record.window_start(len, WINDOW),
        };
        *self.viewers().entry(id.clone()).or_default() += 1;
        let now = Instant::now();
        Ok(TerminalStream {
            engine: self.clone(),
            scope,
            id: id.clone(),
            record,
            sent,
            unacknowledged: false,
            answers: VecDeque::new(),
            status: None,
            next_window: now,
            next_status: now,
            pause: FRAME,
            ended: false,
        })
    }

    /// Bytes of a record for download: where they really begin, and at most `max` of them.
    pub async fn record(
        &self,
        scope: Scope,
        id: &SessionId,
        from: u64,
        max: usize,
    ) -> Result<(u64, Vec<u8>)> {
        self.session(scope, id).await?;
        let record = Record::open(&self.dirs().session(id));
        let from = from.max(record.oldest());
        Ok((from, record.read(from, max as u64)))
    }
}

impl Drop for TerminalStream {
    fn drop(&mut self) {
        let mut viewers = self.engine.viewers();
        if let Some(count) = viewers.get_mut(&self.id) {
            *count -= 1;
            if *count == 0 {
                viewers.remove(&self.id);
            }
        }
    }
}

impl TerminalStream {
    /// The next message; cancel-safe: nothing is lost when the future is dropped.
    pub async fn next(&mut self) -> Option<TerminalDown> {
        loop {
            if let Some(answer) = self.answers.pop_front() {
                return Some(answer);
            }
            if self.engine.draining() {
                return None;
            }
            if !self.unacknowledged
                && let Some(window) = self.window()
            {
                return Some(window);
            }
            if let Some(status) = self.status().await {
                return Some(status);
            }
            tokio::time::sleep(self.pause).await;
            self.pause = (self.pause * 2).min(QUIET);
        }
    }

    /// What a viewer says.
    pub fn up(&mut self, up: TerminalUp) {
        match up {
            TerminalUp::Ack { .. } => {
                self.unacknowledged = false;
                self.pause = FRAME;
            }
            TerminalUp::Range { first, count } => {
                let lines = self.record.lines_from(first, count.min(MAX_RANGE));
                let oldest = self.record.oldest_line();
                let first = first.max(oldest);
                // A viewer that asks faster than it reads gets the newest answers only.
                if self.answers.len() < 4 {
                    let lines = lines.iter().map(|line| spans(line)).collect();
                    self.answers.push_back(TerminalDown::Range { first, lines, oldest });
                }
            }
        }
    }
    fn window(&mut self) -> Option<TerminalDown> {
        let now = Instant::now();
        if now < self.next_window {
            return None;
        }
        let len = self.record.len();
        if len <= self.sent.0 {
            return None;
        }
        let (at, first) = if len - self.sent.0 > WINDOW || self.sent.0 < self.record.oldest() {
            self.record.window_start(len, WINDOW)
        } else {
            self.sent
        };
        let bytes = self.record.read(at, len - at);
        // Only whole lines: the runner writes whole lines, and a read may meet it in the middle of one.
        let whole = bytes.iter().rposition(|byte| *byte == b'\n')? + 1;
        let lines: Vec<_> = bytes[..whole - 1].split(|byte| *byte == b'\n').map(spans).collect();
        let end = at + whole as u64;
        self.sent = (end, first + lines.len() as u64);
        self.unacknowledged = true;
        self.next_window = now + FRAME;
        self.pause = FRAME;
        Some(TerminalDown::Lines { first, at, end, lines })
    }
    async fn status(&mut self) -> Option<TerminalDown> {
        let now = Instant::now();
        if now < self.next_status || self.ended {
            return None;
        }
        self.next_status = now + STATUS_EVERY;
        let session = self.engine.session(self.scope, &self.id).await.ok()?;
        let status = TerminalStatus {
            state: session.state.to_string(),
            activity: session.activity,
            turns: session.turns,
            cost_usd_micros: session.cost_usd_micros,
            viewers: self.engine.viewers().get(&self.id).copied().unwrap_or(1),
            lines: self.sent.1,
            errors: self.record.errors(200),
        };
        if session.state == SessionState::Ended && !self.unacknowledged && self.record.len() <= self.sent.0 {
            self.ended = true;
            let outcome = session.outcome.map(|outcome| outcome.to_string()).unwrap_or_default();
            self.answers.push_back(TerminalDown::Ended { text: format!("{outcome}: {}", session.detail) });
        }
        if self.status.as_ref() == Some(&status) {
            return self.answers.pop_front();
        }
        self.status = Some(status.clone());
        Some(TerminalDown::Status(status))
    }
}
