//! Figures and times as people read them. Pure, so that server and browser write the same.

use opkit_domain::ids::ObjectiveId;

const MINUTE: i64 = 60_000;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// `$1.84` from millionths of a dollar.
pub fn money(micros: i64) -> String {
    let cents = (micros.max(0) + 5_000) / 10_000;
    format!("${}.{:02}", cents / 100, cents % 100)
}

/// How long ago, in one unit: `now`, `18 min`, `3 h`, `2 d`.
pub fn age(ms: i64) -> String {
    match ms {
        ..MINUTE => "now".into(),
        MINUTE..HOUR => format!("{} min", ms / MINUTE),
        HOUR..DAY => format!("{} h", ms / HOUR),
        DAY.. => format!("{} d", ms / DAY),
    }
}

/// How long ago, as the end of a sentence: `just now`, `18 min ago`.
pub fn ago(ms: i64) -> String {
    if ms < MINUTE { "just now".into() } else { format!("{} ago", age(ms)) }
}

/// How long something took: `12 s`, `48 min`, `1 h 4 min`, `2 d 3 h`.
pub fn duration(ms: i64) -> String {
    match ms {
        ..MINUTE => format!("{} s", ms.max(0) / 1000),
        MINUTE..HOUR => format!("{} min", ms / MINUTE),
        HOUR..DAY if ms % HOUR < MINUTE => format!("{} h", ms / HOUR),
        HOUR..DAY => format!("{} h {} min", ms / HOUR, ms % HOUR / MINUTE),
        DAY.. if ms % DAY < HOUR => format!("{} d", ms / DAY),
        DAY.. => format!("{} d {} h", ms / DAY, ms % DAY / HOUR),
    }
}

/// A running clock: `31:07`, `1:04:12`.
pub fn clock(ms: i64) -> String {
    let s = ms.max(0) / 1000;
    if s < 3600 {
        format!("{:02}:{:02}", s / 60, s % 60)
    } else {
        format!("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60)
    }
}

/// `1,204`.
pub fn number(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `61 GB`, in powers of 1000 as disks are sold.
pub fn bytes(n: u64) -> String {
    match n {
        ..1_000_000 => format!("{} kB", n / 1000),
        1_000_000..1_000_000_000 => format!("{} MB", n / 1_000_000),
        1_000_000_000.. => format!("{} GB", n / 1_000_000_000),
    }
}

/// `1 session`, `2 sessions`.
pub fn count(n: u64, one: &str) -> String {
    if n == 1 { format!("1 {one}") } else { format!("{} {one}s", number(n)) }
}

/// Why an objective does not start though it is in the queue.
pub fn waits_for(first: ObjectiveId) -> String {
    format!("It waits for #{first}, which is not done.")
}

/// The exact time behind an age: `2026-11-30 20:58 UTC`.
pub fn exact(ms: i64) -> String {
    let days = ms.div_euclid(DAY);
    let rest = ms.rem_euclid(DAY);
    // Days to a civil date, counted in years that begin in March.
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let of_era = z.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year}-{month:02}-{day:02} {:02}:{:02} UTC", rest / HOUR, rest % HOUR / MINUTE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_read_as_people_write_them() {
        assert_eq!(money(1_838_000), "$1.84");
        assert_eq!(age(59_000), "now");
        assert_eq!(age(3 * HOUR), "3 h");
        assert_eq!(ago(2_000), "just now");
        assert_eq!(ago(3 * HOUR), "3 h ago");
        assert_eq!(duration(HOUR + 4 * MINUTE), "1 h 4 min");
        assert_eq!(clock(31 * MINUTE + 7000), "31:07");
        assert_eq!(number(1_234_567), "1,234,567");
        assert_eq!(exact(1_796_072_310_000), "2026-11-30 20:58 UTC");
        assert_eq!(exact(951_827_696_000), "2000-02-29 12:34 UTC");
    }
}
