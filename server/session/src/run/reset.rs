//! Reads when a limit ends from a sentence: "resets 8:50pm (UTC)", "resets Oct 7, 1am (Europe/Berlin)".
//!
//! The last resort: the agent's own events say it better. Without a zone nothing is guessed.

use jiff::civil::{Date, Time, Weekday};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan, ZonedDateTime};

/// The words before the time.
const LEADS: &[&str] = &["resets ", "reset at ", "reset on ", "regain access on ", "available again at "];
/// What may stand between the parts.
const FILLERS: &[&str] = &["at", "on", "in"];

/// What a sentence names.
#[derive(Default)]
struct Named {
    date: Option<Date>,
    /// Month and day, without a year.
    month: Option<i8>,
    day: Option<i8>,
    weekday: Option<Weekday>,
    time: Option<Time>,
    zone: Option<TimeZone>,
}

/// The moment that `text` names, milliseconds since 1970; none when it is not clear.
pub(super) fn stated(text: &str, now_ms: i64) -> Option<i64> {
    if let Some((_, seconds)) = text.split_once("limit reached|") {
        let digits: String = seconds.chars().take_while(char::is_ascii_digit).collect();
        return digits.parse::<i64>().ok()?.checked_mul(1000);
    }
    let rest = LEADS.iter().find_map(|lead| text.split_once(lead)).map(|(_, rest)| rest)?;
    let named = read(rest.lines().next()?);
    let now = Timestamp::from_millisecond(now_ms).ok()?.to_zoned_datetime(named.zone.clone()?);
    Some(moment(&named, &now)?.timestamp().as_millisecond())
}

fn read(text: &str) -> Named {
    let mut named = Named::default();
    let words =
        text.split(|c: char| c.is_whitespace() || ",()·.".contains(c)).filter(|word| !word.is_empty());
    for word in words {
        let lower = word.to_lowercase();
        if FILLERS.contains(&lower.as_str()) {
        } else if let Ok(date) = lower.parse::<Date>() {
            named.date = Some(date);
        } else if let Some(month) = month(&lower) {
            named.month = Some(month);
        } else if let Some(weekday) = weekday(&lower) {
            named.weekday = Some(weekday);
        } else if let (Some(_), None, Ok(day)) = (named.month, named.day, lower.parse::<i8>()) {
            named.day = Some(day);
        } else if let Some(time) = time(&lower) {
            named.time = Some(time);
        } else if let Some(zone) = zone(word) {
            named.zone = Some(zone);
            break;
        } else {
            break;
        }
    }
    named
}

/// The next moment that fits.
fn moment(named: &Named, now: &ZonedDateTime) -> Option<ZonedDateTime> {
    let time = named.time?;
    let at = |date: Date| date.to_datetime(time).to_zoned_datetime(now.time_zone().clone()).ok();
    let next = |step: jiff::Span, date: Date| {
        let first = at(date)?;
        if first > *now { Some(first) } else { at(date.checked_add(step).ok()?) }
    };
    match (named.date, named.month, named.day, named.weekday) {
        (Some(date), ..) => at(date),
        (None, Some(month), Some(day), _) => next(1.year(), Date::new(now.year(), month, day).ok()?),
        (None, None, None, Some(weekday)) => {
            let days = now.weekday().until(weekday);
            next(7.days(), now.date().checked_add(i64::from(days).days()).ok()?)
        }
        (None, None, None, None) => next(1.day(), now.date()),
        _ => None,
    }
}

fn month(word: &str) -> Option<i8> {
    let names = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
    let at = names.iter().position(|name| word.len() >= 3 && word.starts_with(name))?;
    word.chars().all(char::is_alphabetic).then_some(i8::try_from(at + 1).ok()?)
}

fn weekday(word: &str) -> Option<Weekday> {
    let names = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];
    let at = names.iter().position(|name| word.starts_with(name))?;
    Weekday::from_monday_one_offset(i8::try_from(at + 1).ok()?).ok()
}

/// "8:50pm", "3pm", "00:00".
fn time(word: &str) -> Option<Time> {
    let (digits, half) = match (word.strip_suffix("am"), word.strip_suffix("pm")) {
        (Some(digits), _) => (digits, Some(0)),
        (_, Some(digits)) => (digits, Some(12)),
        (None, None) => (word, None),
    };
    let (hour, minute) = match digits.split_once(':') {
        Some((hour, minute)) => (hour, minute.parse().ok()?),
        None => (half.map(|_| digits)?, 0),
    };
    let hour: i8 = hour.parse().ok()?;
    let hour = match half {
        None => hour,
        Some(add) if (1..=12).contains(&hour) => hour % 12 + add,
        Some(_) => return None,
    };
    Time::new(hour, minute, 0, 0).ok()
}

fn zone(word: &str) -> Option<TimeZone> {
    match word {
        "UTC" | "GMT" | "Z" => Some(TimeZone::UTC),
        name if name.contains('/') => TimeZone::get(name).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reset_in_words_is_the_next_moment_in_its_zone() {
        // A Friday: 2027-01-15T08:00:00Z.
        let now = 1_800_000_000_000;
        let table = [
            ("You've hit your limit · resets 8:50pm (UTC)", Some("2027-01-15T20:50:00Z")),
            ("You've hit your limit · resets 7am (UTC)", Some("2027-01-16T07:00:00Z")),
            ("You've hit your session limit · resets 12am (UTC)", Some("2027-01-16T00:00:00Z")),
            ("limit · resets 3:45pm (Europe/Berlin)", Some("2027-01-15T14:45:00Z")),
            ("Your limit will reset at 3pm (America/Santiago).", Some("2027-01-15T18:00:00Z")),
            ("weekly limit · resets Mon 12:00am (UTC)", Some("2027-01-18T00:00:00Z")),
            ("weekly limit · resets Fri 1am (UTC)", Some("2027-01-22T01:00:00Z")),
            ("weekly limit · resets Jan 20, 1am (UTC)", Some("2027-01-20T01:00:00Z")),
            ("weekly limit · resets Jan 3 at 1am (UTC)", Some("2028-01-03T01:00:00Z")),
            ("You will regain access on 2027-02-01 at 00:00 UTC.", Some("2027-02-01T00:00:00Z")),
            ("Claude AI usage limit reached|1800018000", Some("2027-01-15T13:00:00Z")),
            ("You've hit your limit · resets 8:50pm", None),
            ("You've hit your limit · resets 8:50pm (Nowhere/Town)", None),
            ("You've hit your limit · resets 25:00 (UTC)", None),
            ("You've hit your limit · resets 13pm (UTC)", None),
            ("You've hit your limit · resets soon (UTC)", None),
            ("You've hit your limit · resets", None),
            ("resets Feb 31, 1am (UTC)", None),
            ("limit reached|99999999999999999999", None),
            ("", None),
        ];
        for (text, expected) in table {
            let expected: Option<Timestamp> = expected.map(|at| at.parse().expect("a time"));
            assert_eq!(stated(text, now), expected.map(Timestamp::as_millisecond), "{text}");
        }
    }
}
