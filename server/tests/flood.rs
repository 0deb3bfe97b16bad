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
use support::{PATIENCE, wait_until};
use tokio::time::{Duration, sleep, timeout};
use viewer::{Stream, Viewer, message, open, text};

/// Anonymous memory of a process, kB.
fn anonymous(pid: u32) -> i64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).expect("the server lives");
    let line = text.lines().find_map(|line| line.strip_prefix("Anonymous:")).expect("a line for it");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

/// What an agent writes while somebody is stuck, in bytes: many windows, and more than sockets hold.
const MUCH: u64 = 8 << 20;

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
    while record_len(&dir) - from < 60 << 20 {
        assert!(start.elapsed() < PATIENCE, "{} bytes are no flood", record_len(&dir) - from);
        most = most.max(anonymous(pid));
        // The pace of measuring.
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(most - before < 4096, "{before} kB before, {most} kB while 60 MB were written");
    stop(&fleet, &session);
    let card = fleet.rests(id);
    assert_eq!((&card["status"], &card["attention"]), (&json!("human_review"), &json!("stopped")));
    whole_record(&dir);
}

/// Reads from here to what the record holds now; gives how many windows that took.
async fn catch_up(stream: &mut Stream, dir: &Path) -> usize {
    let wanted = record_len(dir);
    let mut viewer = Viewer::default();
    timeout(PATIENCE, viewer.follow(stream, wanted)).await.expect("it catches up");
    viewer.ends.len()
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

#[tokio::test(flavor = "multi_thread")]
async fn terminals_that_nobody_reads_hold_nobody_up() {
    let fleet = Fleet::start(4);
    let session = fleet.works(fleet.add_script("floods:8000"));
    let dir = session_dir(fleet.data(), &session);
    let cookie = fleet.server.cookie();
    let seen = reads_on(open(&fleet.server, &cookie, &session, None).await);

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
    // The agent writes on and who reads sees it, several times over, while the two are stuck.
    for _ in 0..3 {
        let wanted = record_len(&dir) + MUCH;
        timeout(PATIENCE, async {
            while seen.load(Ordering::Relaxed) < wanted {
                sleep(Duration::from_millis(10)).await;
            }
        })
        .await
        .unwrap_or_else(|_| panic!("seen {seen:?}, wanted {wanted}, written {}", record_len(&dir)));
    }
    enough.store(true, Ordering::Relaxed);
    let mut deaf = asking.await.expect("it stops").reunite(deaf).expect("two halves of one socket");
    // Nothing was queued for the silent one: the window it was sent, and soon after it the newest.
    let windows = catch_up(&mut silent, &dir).await;
    assert!(windows < 20, "{windows} windows until it is on the current screen");
    catch_up(&mut deaf, &dir).await;
    stop(&fleet, &session);
}

/// Reads until the session's end was shown.
async fn read_to_the_end(viewer: &mut Viewer, stream: &mut Stream) {
    timeout(PATIENCE, async { while !matches!(viewer.next(stream).await, TerminalDown::Ended { .. }) {} })
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
        wait_until("the record to grow", || {
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
