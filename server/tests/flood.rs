//! Floods: they cost the server no memory, nobody who watches slows anybody, and who comes back misses nothing.

#[path = "support/fleet.rs"]
mod fleet;
#[path = "support/server.rs"]
mod support;
#[path = "support/viewer.rs"]
mod viewer;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use fleet::{Fleet, flood_number, gap, record_len, session_dir, whole_record};
use futures_util::{SinkExt, StreamExt};
use opkit_domain::screen::{TerminalDown, TerminalUp, spans};
use serde_json::json;
use support::wait_within;
use tokio::time::{Duration, sleep, timeout};
use viewer::{Stream, Viewer, message, open, text};

/// Anonymous memory of a process, kB.
fn anonymous(pid: u32) -> i64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).expect("the server lives");
    let line = text.lines().find_map(|line| line.strip_prefix("Anonymous:")).expect("a line for it");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

fn stop(fleet: &Fleet, session: &str) {
    let answer = fleet.post(&format!("/api/v1/sessions/{session}/stop"), &json!({}));
    assert_eq!(answer.status, 200, "{}", answer.body);
}

#[test]
fn an_unwatched_flood_costs_the_server_no_memory() {
    let fleet = Fleet::start(4);
    // What the first session of a process costs once is not the flood's.
    let warm = fleet.add_script("floods:1");
    assert_eq!(fleet.rests(warm)["status"], "done", "{}", fleet.story(warm));
    let id = fleet.add_script("floods:4000");
    let session = fleet.works(id);
    let dir = session_dir(fleet.data(), &session);
    let (pid, from) = (fleet.server.pid(), record_len(&dir));
    let before = anonymous(pid);
    let mut most = before;
    let start = Instant::now();
    while record_len(&dir) - from < 120 << 20 && start.elapsed() < Duration::from_secs(20) {
        most = most.max(anonymous(pid));
        // The pace of measuring.
        std::thread::sleep(Duration::from_millis(50));
    }
    let (written, took) = ((record_len(&dir) - from) >> 20, start.elapsed());
    assert!(written >= 20, "only {written} MB in {took:?} are no flood");
    assert!(most - before < 4096, "{before} kB before, {most} kB while {written} MB were written");
    stop(&fleet, &session);
    let card = fleet.rests(id);
    assert_eq!((&card["status"], &card["attention"]), (&json!("human_review"), &json!("stopped")));
    whole_record(&dir);
}

/// Bytes a second that reach a record.
async fn rate(dir: &Path) -> f64 {
    let (start, from) = (Instant::now(), record_len(dir));
    sleep(Duration::from_millis(1500)).await;
    (record_len(dir) - from) as f64 / start.elapsed().as_secs_f64()
}

/// How long it takes from now to what the record holds now.
async fn catch_up(stream: &mut Stream, dir: &Path) -> std::time::Duration {
    let (start, wanted) = (Instant::now(), record_len(dir));
    let mut viewer = Viewer::default();
    timeout(Duration::from_secs(20), viewer.follow(stream, wanted)).await.expect("it catches up");
    start.elapsed()
}

/// A viewer that reads on all the time; gives the offset it has seen.
fn reads_on(mut stream: Stream) -> Arc<AtomicU64> {
    let seen = Arc::new(AtomicU64::new(0));
    let shown = Arc::clone(&seen);
    tokio::spawn(async move {
        while let Some(Ok(frame)) = stream.next().await {
            if !frame.is_binary() {
                continue;
            }
            if let Ok(TerminalDown::Lines { end, .. }) = postcard::from_bytes(&frame.into_data()) {
                shown.store(end, Ordering::Relaxed);
                if stream.send(message(&TerminalUp::Ack { end })).await.is_err() {
                    return;
                }
            }
        }
    });
    seen
}

/// Waits until a reader has seen what the record holds now; gives how long that took.
async fn lag(seen: &AtomicU64, dir: &Path) -> std::time::Duration {
    let (start, wanted) = (Instant::now(), record_len(dir));
    while seen.load(Ordering::Relaxed) < wanted {
        assert!(start.elapsed() < Duration::from_secs(10), "the reader stands still");
        sleep(Duration::from_millis(2)).await;
    }
    start.elapsed()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_viewer_that_reads_nothing_slows_nobody() {
    let fleet = Fleet::start(4);
    let session = fleet.works(fleet.add_script("floods:8000"));
    let dir = session_dir(fleet.data(), &session);
    let cookie = fleet.server.cookie();
    let reader = reads_on(open(&fleet.server, &cookie, &session, None).await);

    let (mut without, mut with) = (Vec::new(), Vec::new());
    let (mut lags, mut silent_took, mut deaf_took) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..3 {
        without.push(rate(&dir).await);
        // One says nothing either; the other asks for more all the time, so that its socket fills up.
        let mut silent = open(&fleet.server, &cookie, &session, Some(0)).await;
        let (mut asks, deaf) = open(&fleet.server, &cookie, &session, Some(0)).await.split();
        let enough = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&enough);
        let asking = tokio::spawn(async move {
            while !told.load(Ordering::Relaxed) {
                asks.send(message(&TerminalUp::Ack { end: 0 })).await.expect("it is taken");
                sleep(Duration::from_millis(5)).await;
            }
            asks
        });
        with.push(rate(&dir).await);
        lags.push(lag(&reader, &dir).await);
        enough.store(true, Ordering::Relaxed);
        let mut deaf = asking.await.expect("it stops").reunite(deaf).expect("two halves of one socket");
        silent_took.push(catch_up(&mut silent, &dir).await);
        deaf_took.push(catch_up(&mut deaf, &dir).await);
    }
    let best = |rates: &[f64]| rates.iter().copied().fold(0.0, f64::max);
    let (best_without, best_with) = (best(&without), best(&with));
    assert!(best_with > 0.6 * best_without, "bytes a second without {without:?}, with {with:?}");
    // The machine may be busy with other tests once, not every time.
    let median = |times: &mut Vec<std::time::Duration>| {
        times.sort_unstable();
        times[times.len() / 2]
    };
    assert!(median(&mut lags) < Duration::from_millis(500), "the other viewer lags by {lags:?}");
    assert!(median(&mut silent_took) < Duration::from_secs(1), "the silent one took {silent_took:?}");
    assert!(median(&mut deaf_took) < Duration::from_secs(1), "the one with a full socket took {deaf_took:?}");
    stop(&fleet, &session);
}

/// Reads until the session's end was shown.
async fn read_to_the_end(viewer: &mut Viewer, stream: &mut Stream) {
    timeout(Duration::from_secs(60), async {
        while !matches!(viewer.next(stream).await, TerminalDown::Ended { .. }) {}
    })
    .await
    .expect("the session ends");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_comes_back_misses_nothing() {
    let mut fleet = Fleet::start(4);
    let session = fleet.works(fleet.add_script("floods-slow:6"));
    let dir = session_dir(fleet.data(), &session);
    let cookie = fleet.server.cookie();
    let mut viewer = Viewer::default();
    for away in 0..4 {
        let from = (away > 0).then_some(viewer.end);
        let mut stream = open(&fleet.server, &cookie, &session, from).await;
        let wanted = viewer.ends.len() + 5;
        while viewer.ends.len() < wanted {
            viewer.next(&mut stream).await;
        }
        drop(stream);
        if away == 2 {
            fleet = fleet.kill().start();
        }
        let left_at = viewer.end;
        // The second time it is back at once.
        wait_within(Duration::from_secs(10), "the record to grow", || {
            let grown = record_len(&dir) - left_at;
            if away == 1 || grown > 300_000 { Ok(()) } else { Err(format!("{grown} bytes")) }
        });
    }
    let mut stream = open(&fleet.server, &cookie, &session, Some(viewer.end)).await;
    read_to_the_end(&mut viewer, &mut stream).await;
    viewer.fill(&mut stream).await;

    let record = whole_record(&dir);
    assert_eq!(viewer.end, record.end());
    let expected: Vec<String> =
        record.bytes.split(|byte| *byte == b'\n').map(|line| text(&spans(line))).collect();
    let expected = &expected[..expected.len() - 1];
    assert_eq!(viewer.lines.len(), expected.len());
    let wrong = viewer.lines.iter().zip(expected).find(|((_, shown), expected)| shown != expected);
    assert_eq!(wrong, None, "a line is not as in the record");
    let numbers: Vec<u64> = viewer.lines.values().filter_map(|line| flood_number(line)).collect();
    assert!(numbers.len() > 50_000 && numbers[0] == 1, "{} lines", numbers.len());
    assert_eq!(gap(&numbers), None);

    // Close to the end it resumes at the very byte.
    let near = viewer.ends.iter().rev().find(|end| **end < record.end()).copied().expect("an earlier window");
    assert!(record.end() - near < 64 << 10, "{near} of {}", record.end());
    let mut stream = open(&fleet.server, &cookie, &session, Some(near)).await;
    let mut late = Viewer { end: near, ..Viewer::default() };
    let down = loop {
        if let down @ TerminalDown::Lines { .. } = late.next(&mut stream).await {
            break down;
        }
    };
    let TerminalDown::Lines { at, end, .. } = down else { panic!("{down:?}") };
    assert_eq!((at, end), (near, record.end()));
}
