//! Which account takes the next session.

use crate::ids::words;

words!(
    /// How accounts are filled.
    Policy {
        /// Most free headroom first; ties by name.
        LeastLoaded = "least_loaded",
        /// One account after the other, keeping whole accounts free for bursts.
        FillFirst = "fill_first",
    }
);

/// An account as the choice sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Load {
    /// Its name.
    pub name: String,
    /// It may take sessions now.
    pub available: bool,
    /// Live sessions.
    pub live: u32,
    /// Sessions at most.
    pub limit: u32,
    /// It works from a login directory, which reviewer and worker would share: it never reviews its own work.
    pub alone: bool,
}

impl Load {
    fn headroom(&self) -> u32 {
        if self.available { self.limit.saturating_sub(self.live) } else { 0 }
    }
}

/// Which account a session would rather have, or rather not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish<'a> {
    /// The policy decides.
    None,
    /// Not this one if another is free: a reviewer and its worker's account.
    Avoid(&'a str),
    /// This one while it has headroom: work that goes on in its worktree.
    Stay(&'a str),
}

/// Chooses an account with headroom. A wish gives way when nothing else is free.
pub fn choose<'a>(policy: Policy, accounts: &'a [Load], wish: Wish<'_>) -> Option<&'a Load> {
    let pick = |fits: &dyn Fn(&Load) -> bool| {
        let free = accounts.iter().filter(|a| a.headroom() > 0 && fits(a));
        match policy {
            Policy::LeastLoaded => {
                free.min_by(|a, b| b.headroom().cmp(&a.headroom()).then_with(|| a.name.cmp(&b.name)))
            }
            Policy::FillFirst => {
                free.min_by(|a, b| a.headroom().cmp(&b.headroom()).then_with(|| a.name.cmp(&b.name)))
            }
        }
    };
    let wished = match wish {
        Wish::None => None,
        Wish::Avoid(name) => pick(&|account| account.name != name),
        Wish::Stay(name) => pick(&|account| account.name == name),
    };
    let never = |account: &Load| account.alone && wish == Wish::Avoid(account.name.as_str());
    wished.or_else(|| pick(&|account| !never(account)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(name: &str, live: u32, limit: u32, available: bool) -> Load {
        Load { name: name.into(), available, live, limit, alone: false }
    }

    fn chosen(policy: Policy, accounts: &[Load], avoid: Option<&str>) -> Option<String> {
        choose(policy, accounts, avoid.map_or(Wish::None, Wish::Avoid)).map(|a| a.name.clone())
    }

    #[test]
    fn idle_accounts_are_found() {
        let accounts = [load("a", 5, 5, true), load("b", 0, 5, true), load("c", 0, 5, false)];
        for policy in Policy::ALL {
            assert_eq!(chosen(*policy, &accounts, None).as_deref(), Some("b"));
        }
        assert_eq!(chosen(Policy::LeastLoaded, &[load("a", 0, 5, true)], None).as_deref(), Some("a"));
    }

    #[test]
    fn policies_differ() {
        let accounts = [load("a", 1, 5, true), load("b", 3, 5, true), load("c", 0, 5, true)];
        assert_eq!(chosen(Policy::LeastLoaded, &accounts, None).as_deref(), Some("c"));
        assert_eq!(chosen(Policy::FillFirst, &accounts, None).as_deref(), Some("b"));
    }

    #[test]
    fn a_reviewer_prefers_another_account_and_takes_the_same_when_it_must() {
        let two = [load("a", 0, 5, true), load("b", 4, 5, true)];
        assert_eq!(chosen(Policy::LeastLoaded, &two, Some("a")).as_deref(), Some("b"));
        assert_eq!(chosen(Policy::LeastLoaded, &two[..1], Some("a")).as_deref(), Some("a"));
        assert_eq!(chosen(Policy::LeastLoaded, &[], None), None);
    }

    #[test]
    fn an_account_with_only_a_login_never_reviews_its_own_work() {
        let alone = Load { alone: true, ..load("a", 0, 1, true) };
        assert_eq!(chosen(Policy::LeastLoaded, std::slice::from_ref(&alone), Some("a")), None);
        let two = [alone, load("b", 4, 5, true)];
        assert_eq!(chosen(Policy::LeastLoaded, &two, Some("a")).as_deref(), Some("b"));
        assert_eq!(chosen(Policy::LeastLoaded, &two, Some("b")).as_deref(), Some("a"));
    }

    #[test]
    fn work_stays_on_its_account_while_it_can() {
        let stay = |accounts: &[Load]| {
            choose(Policy::LeastLoaded, accounts, Wish::Stay("b")).map(|account| account.name.clone())
        };
        assert_eq!(stay(&[load("a", 0, 5, true), load("b", 4, 5, true)]).as_deref(), Some("b"));
        assert_eq!(stay(&[load("a", 0, 5, true), load("b", 5, 5, true)]).as_deref(), Some("a"));
        assert_eq!(stay(&[load("a", 0, 5, true), load("b", 0, 5, false)]).as_deref(), Some("a"));
    }

    proptest::proptest! {
        #[test]
        fn found_whenever_one_has_headroom(rows in proptest::collection::vec((0u32..8, 0u32..8, proptest::bool::ANY), 0..8)) {
            let accounts: Vec<Load> = rows.iter().enumerate().map(|(at, (live, limit, up))| load(&format!("a{at}"), *live, *limit, *up)).collect();
            let any = accounts.iter().any(|a| a.available && a.live < a.limit);
            for policy in Policy::ALL {
                let got = choose(*policy, &accounts, Wish::Avoid("a0"));
                proptest::prop_assert_eq!(got.is_some(), any);
                if let Some(got) = got {
                    proptest::prop_assert!(got.available && got.live < got.limit);
                }
            }
        }
    }
}
