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
}

impl Load {
    fn headroom(&self) -> u32 {
        if self.available { self.limit.saturating_sub(self.live) } else { 0 }
    }
}

/// Chooses an account with headroom; `avoid` (the worker's account, for a reviewer) only when nothing else is free.
pub fn choose<'a>(policy: Policy, accounts: &'a [Load], avoid: Option<&str>) -> Option<&'a Load> {
    let pick = |skip: Option<&str>| {
        let free = accounts.iter().filter(|a| a.headroom() > 0 && skip != Some(a.name.as_str()));
        match policy {
            Policy::LeastLoaded => {
                free.min_by(|a, b| b.headroom().cmp(&a.headroom()).then_with(|| a.name.cmp(&b.name)))
            }
            Policy::FillFirst => {
                free.min_by(|a, b| a.headroom().cmp(&b.headroom()).then_with(|| a.name.cmp(&b.name)))
            }
        }
    };
    match avoid {
        Some(_) => pick(avoid).or_else(|| pick(None)),
        None => pick(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(name: &str, live: u32, limit: u32, available: bool) -> Load {
        Load { name: name.into(), available, live, limit }
    }

    fn chosen(policy: Policy, accounts: &[Load], avoid: Option<&str>) -> Option<String> {
        choose(policy, accounts, avoid).map(|a| a.name.clone())
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

    proptest::proptest! {
        #[test]
        fn found_whenever_one_has_headroom(rows in proptest::collection::vec((0u32..8, 0u32..8, proptest::bool::ANY), 0..8)) {
            let accounts: Vec<Load> = rows.iter().enumerate().map(|(at, (live, limit, up))| load(&format!("a{at}"), *live, *limit, *up)).collect();
            let any = accounts.iter().any(|a| a.available && a.live < a.limit);
            for policy in Policy::ALL {
                let got = choose(*policy, &accounts, Some("a0"));
                proptest::prop_assert_eq!(got.is_some(), any);
                if let Some(got) = got {
                    proptest::prop_assert!(got.available && got.live < got.limit);
                }
            }
        }
    }
}
