//! Who is claimed next, and how many slots reviews keep for themselves.

use crate::ids::ObjectiveId;
use crate::session::Role;

/// How many sessions may live at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slots {
    /// All of them.
    pub total: u32,
    /// Work, plans and delegates together.
    pub work: u32,
}

impl Slots {
    /// The cap in force is the setting, bounded by what the available accounts take (`room`). A fifth of it is kept
    /// for reviews. A setting above what all accounts together could ever take (`all`) is a wish for work: there the
    /// fifth is counted from the setting.
    pub fn new(setting: u32, room: u32, all: u32) -> Slots {
        let total = setting.min(room);
        let from = if setting > all { setting } else { total };
        Slots { total, work: total.min(from - from / 5) }
    }

    /// Slots that only reviews use.
    pub fn reserve(self) -> u32 {
        self.total - self.work
    }

    /// Whether one more session of this role fits beside the live ones.
    pub fn fit(self, live: Live, role: Role) -> bool {
        let total = live.other + live.review;
        match role {
            Role::Review => total < self.total,
            Role::Work | Role::Plan | Role::Delegate => total < self.total && live.other < self.work,
        }
    }
}

/// Live sessions by kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Live {
    /// Work, plan and delegate sessions.
    pub other: u32,
    /// Review sessions.
    pub review: u32,
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
        let reserve = |cap| Slots::new(cap, 25, 25).reserve();
        assert_eq!([0, 1, 4, 5, 10, 25].map(reserve), [0, 0, 0, 1, 2, 5]);
        // Accounts that cool down make the cap smaller, and the reserve with it.
        assert_eq!(Slots::new(25, 10, 25), Slots { total: 10, work: 8 });
    }

    #[test]
    fn a_cap_above_what_the_accounts_take_gives_them_to_work() {
        assert_eq!(Slots::new(32, 25, 25), Slots { total: 25, work: 25 });
        assert_eq!(Slots::new(28, 25, 25), Slots { total: 25, work: 23 });
        assert_eq!(Slots::new(32, 35, 35), Slots { total: 32, work: 26 });
    }

    #[test]
    fn work_leaves_the_reserve_and_reviews_may_use_everything() {
        let fits = |cap, live, role| Slots::new(cap, 25, 25).fit(live, role);
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
