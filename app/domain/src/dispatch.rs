//! Who is claimed next, and how many slots reviews keep for themselves.

use crate::ids::ObjectiveId;
use crate::session::Role;

/// Slots that work, plans and delegates may not use.
pub fn reserve(cap: u32) -> u32 {
    cap / 5
}

/// Live sessions by kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Live {
    /// Work, plan and delegate sessions.
    pub other: u32,
    /// Review sessions.
    pub review: u32,
}

/// Whether one more session of this role fits under the cap and beside the reserve.
pub fn fits(cap: u32, live: Live, role: Role) -> bool {
    let total = live.other + live.review;
    match role {
        Role::Review => total < cap,
        Role::Work | Role::Plan | Role::Delegate => total < cap && live.other < cap - reserve(cap),
    }
}

/// The class of a candidate, in the order of claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Reviews first, so that work cannot starve them.
    Review,
    /// Delegators that wake.
    Wake,
    /// Retries, returns, resumed work.
    Return,
    /// Plans.
    Plan,
    /// The queue.
    Queue,
}

/// An objective that wants a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// The objective.
    pub id: ObjectiveId,
    /// Its class.
    pub class: Class,
    /// 0 to 4; higher first.
    pub priority: u8,
    /// Order in its lane; lower first.
    pub position: i64,
}

/// Sorts candidates into the order of claims: class, priority, position, number.
pub fn order(candidates: &mut [Candidate]) {
    candidates.sort_by(|a, b| {
        a.class
            .cmp(&b.class)
            .then(b.priority.cmp(&a.priority))
            .then(a.position.cmp(&b.position))
            .then(a.id.cmp(&b.id))
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reserve_is_a_fifth_rounded_down() {
        assert_eq!([0, 1, 4, 5, 10, 25].map(reserve), [0, 0, 0, 1, 2, 5]);
    }

    #[test]
    fn work_leaves_the_reserve_and_reviews_may_use_everything() {
        let live = Live { other: 8, review: 0 };
        assert!(!fits(10, live, Role::Work));
        assert!(fits(10, live, Role::Review));
        assert!(!fits(10, Live { other: 0, review: 10 }, Role::Review));
        assert!(fits(10, Live { other: 0, review: 9 }, Role::Work));
        assert!(fits(1, Live::default(), Role::Work));
        assert!(!fits(0, Live::default(), Role::Review));
    }

    #[test]
    fn class_then_priority_then_position() {
        let candidate =
            |id, class, priority, position| Candidate { id: ObjectiveId(id), class, priority, position };
        let mut list = vec![
            candidate(1, Class::Queue, 4, 0),
            candidate(2, Class::Return, 0, 0),
            candidate(3, Class::Review, 0, 9),
            candidate(4, Class::Queue, 4, -1),
            candidate(5, Class::Queue, 0, -9),
        ];
        order(&mut list);
        assert_eq!(list.iter().map(|c| c.id.0).collect::<Vec<_>>(), [3, 2, 4, 1, 5]);
    }
}
