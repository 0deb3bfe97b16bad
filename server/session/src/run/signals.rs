//! Signals as bytes in a pipe, and what became of the window.

use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP};

/// A tmux server that is being shut down hangs up first and dies a moment later.
const WINDOW_GRACE: Duration = Duration::from_millis(1500);

/// The signals this process listens to.
pub(super) struct Signals {
    pipe: UnixStream,
    hang_up: Arc<AtomicBool>,
    interrupt: Arc<AtomicBool>,
    terminate: Arc<AtomicBool>,
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }
}

impl Signals {
    /// Starts listening. SIGPIPE is ignored already, Ctrl-Z does nothing.
    pub(super) fn listen() -> std::io::Result<Signals> {
        let (pipe, writer) = UnixStream::pair()?;
        pipe.set_nonblocking(true)?;
        let signals =
            Signals { pipe, hang_up: Arc::default(), interrupt: Arc::default(), terminate: Arc::default() };
        let flags = [
            (SIGHUP, &signals.hang_up),
            (SIGINT, &signals.interrupt),
            (SIGQUIT, &signals.interrupt),
            (SIGTERM, &signals.terminate),
        ];
        // The flag is set before the byte is written, so that a wake-up always finds it.
        for (signal, flag) in flags {
            signal_hook::flag::register(signal, Arc::clone(flag))?;
        }
        signal_hook::flag::register(SIGTSTP, Arc::default())?;
        for signal in [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGCHLD] {
            signal_hook::low_level::pipe::register(signal, writer.try_clone()?)?;
        }
        Ok(signals)
    }

    /// Empties the pipe; the flags stay.
    pub(super) fn drain_child_signals(&self) {
        let mut bytes = [0; 256];
        while (&self.pipe).read(&mut bytes).is_ok_and(|count| count == bytes.len()) {}
    }

    /// The window hung up since the last call.
    pub(super) fn take_hang_up(&self) -> bool {
        self.hang_up.swap(false, Ordering::Relaxed)
    }

    /// Somebody pressed Ctrl-C in the window since the last call.
    pub(super) fn take_interrupt(&self) -> bool {
        self.interrupt.swap(false, Ordering::Relaxed)
    }

    /// Somebody sent TERM since the last call.
    pub(super) fn take_terminate(&self) -> bool {
        self.terminate.swap(false, Ordering::Relaxed)
    }
}

/// The tmux server whose window this is.
pub(super) struct Window {
    server: Option<OwnedFd>,
    hung_up: Option<Instant>,
}

impl Window {
    /// Remembers the server that `TMUX` names (`socket,pid,session`).
    pub(super) fn watch(tmux: Option<&str>) -> Window {
        let pid = tmux.and_then(|value| value.rsplit(',').nth(1)?.parse().ok()).and_then(Pid::from_raw);
        let server = pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        Window { server, hung_up: None }
    }

    /// The terminal hung up.
    pub(super) fn hang_up(&mut self) {
        self.hung_up = Some(Instant::now());
    }

    /// True once: a person closed the window, because the server still lives some time after the hang-up.
    pub(super) fn closed_by_a_person(&mut self) -> bool {
        if self.hung_up.is_none_or(|at| at.elapsed() < WINDOW_GRACE) {
            return false;
        }
        self.hung_up = None;
        self.server.as_ref().is_some_and(|server| {
            let mut fds = [PollFd::new(server, PollFlags::IN)];
            let now = Timespec { tv_sec: 0, tv_nsec: 0 };
            // The descriptor becomes readable when the process ends.
            poll(&mut fds, Some(&now)) == Ok(0)
        })
    }
}
