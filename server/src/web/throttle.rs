//! Wrong passwords per account name and per peer address: five, then a pause.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_secs(300);
/// More buckets than this are never kept; the one that was used longest ago goes first.
const MOST: usize = 10_000;

/// What is counted.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Bucket {
    Name(String),
    Address(IpAddr),
}

impl Bucket {
    /// The two buckets of one try. The address is the peer's own, never a header's.
    pub(crate) fn of(name: &str, peer: IpAddr) -> [Bucket; 2] {
        let name = name.trim().to_lowercase().chars().take(64).collect();
        [Bucket::Name(name), Bucket::Address(peer.to_canonical())]
    }
}

#[derive(Debug, Clone, Copy)]
struct Count {
    tries: u32,
    last: Instant,
}

/// Whether a try may be made.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// It may, and was counted; so many are left after it.
    Go { left: u32 },
    /// Not before some minutes have passed.
    Paused,
}

/// The counts. They live in memory: a restart forgives.
#[derive(Debug, Default)]
pub(crate) struct Throttle {
    counts: Mutex<HashMap<Bucket, Count>>,
}

impl Throttle {
    /// Counts a try before it is made, so that parallel tries cannot slip through.
    pub(crate) fn take(&self, buckets: &[Bucket], now: Instant) -> Turn {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        for bucket in buckets {
            if counts.get(bucket).is_some_and(|count| now.duration_since(count.last) > PAUSE) {
                counts.remove(bucket);
            }
        }
        if buckets.iter().any(|bucket| counts.get(bucket).is_some_and(|count| count.tries >= TRIES)) {
            return Turn::Paused;
        }
        let mut left = TRIES;
        for bucket in buckets {
            if counts.len() >= MOST && !counts.contains_key(bucket) {
                make_room(&mut counts);
            }
            let count = counts.entry(bucket.clone()).or_insert(Count { tries: 0, last: now });
            count.tries += 1;
            count.last = now;
            left = left.min(TRIES - count.tries);
        }
        Turn::Go { left }
    }

    /// The password was right, or was never looked at: the try does not count.
    pub(crate) fn forgive(&self, buckets: &[Bucket], all: bool) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        for bucket in buckets {
            if all {
                counts.remove(bucket);
            } else if let Some(count) = counts.get_mut(bucket) {
                count.tries = count.tries.saturating_sub(1);
            }
        }
    }
}

fn make_room(counts: &mut HashMap<Bucket, Count>) {
    let oldest = counts.iter().min_by_key(|(_, count)| count.last).map(|(bucket, _)| bucket.clone());
    if let Some(oldest) = oldest {
        counts.remove(&oldest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buckets(name: &str, last: u8) -> [Bucket; 2] {
        Bucket::of(name, IpAddr::from([10, 0, 0, last]))
    }

    #[test]
    fn five_and_then_a_pause() {
        let throttle = Throttle::default();
        let start = Instant::now();
        for left in (0..TRIES).rev() {
            assert_eq!(throttle.take(&buckets("Anna", 1), start), Turn::Go { left });
        }
        assert_eq!(throttle.take(&buckets("anna ", 2), start), Turn::Paused, "by name");
        assert_eq!(throttle.take(&buckets("bert", 1), start), Turn::Paused, "by address");
        assert_eq!(throttle.take(&buckets("bert", 2), start), Turn::Go { left: 4 });
        let later = start + PAUSE + Duration::from_secs(1);
        assert_eq!(throttle.take(&buckets("anna", 1), later), Turn::Go { left: 4 });
    }

    #[test]
    fn success_forgives_and_the_map_is_bounded() {
        let throttle = Throttle::default();
        let now = Instant::now();
        for _ in 0..4 {
            throttle.take(&buckets("anna", 1), now);
        }
        throttle.forgive(&buckets("anna", 1), true);
        assert_eq!(throttle.take(&buckets("anna", 1), now), Turn::Go { left: 4 });
        for at in 0..MOST + 10 {
            throttle.take(&[Bucket::Name(at.to_string())], now);
        }
        assert!(throttle.counts.lock().unwrap().len() <= MOST);
    }
}
