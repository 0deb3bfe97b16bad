//! Accounts: what people and the command line do with the pool, and what each account works with.

mod behind;
mod check;
mod home;
mod provision;

use std::fs;
use std::path::{Path, PathBuf};

use opkit_domain::access::{Access, Actor, Scope};
use opkit_domain::session::Identity;
use opkit_domain::view::{AccountView, Credential, PoolView};
use serde::{Deserialize, Serialize};

pub use behind::LoginPlan;
pub use provision::Provisioned;

use crate::data_dir::{mode, write_atomically};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::os_users::{AGENT_USER, lookup};
use crate::store::accounts::{AccountPatch, AccountRow};

/// Names in the key directory that are no account's.
const RESERVED: [&str; 2] = ["anthropic", "session-secret"];
/// The agent's configuration directory in an account's home.
pub(crate) const AGENT_CONFIG: &str = ".claude";
/// A key or token is shorter than this.
const LONGEST_KEY: usize = 8 << 10;

/// An account to be added.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewAccount {
    /// `[a-z][a-z0-9-]{0,30}`.
    pub name: String,
    /// An existing user of the machine; none = the installation's one user.
    #[serde(default)]
    pub os_user: Option<String>,
    /// Sessions at most; none = 5.
    #[serde(default)]
    pub limit: Option<u32>,
    /// Author of commits.
    #[serde(default)]
    pub git_name: Option<String>,
    /// The author's address.
    #[serde(default)]
    pub git_email: Option<String>,
}

/// Whom an account's processes run as, and where its home is.
#[derive(Debug, Clone)]
struct Place {
    /// None = the service's own user.
    identity: Option<Identity>,
    /// Its login name; without one of its own, what to call it.
    user: String,
    home: PathBuf,
}

impl Engine {
    /// The account pool, without what it was used for.
    pub async fn accounts(&self) -> Result<Vec<AccountView>> {
        let mut list = Vec::new();
        for row in self.store().accounts().await? {
            let credential = self.credential(&row.name, row.os_user.as_deref());
            let row = self.note_credential(row, credential).await?;
            list.push(self.account_view(row, credential));
        }
        Ok(list)
    }

    /// The pool with sessions, cost and failures, as far as they are the client's.
    pub async fn account_pool(&self, scope: Scope) -> Result<PoolView> {
        let mut used = self.store().account_use(scope).await?;
        let mut accounts = self.accounts().await?;
        for account in &mut accounts {
            let mut of_this = used.remove(&account.name).unwrap_or_default();
            let live = self.live_lines();
            let running = of_this.sessions.iter().filter_map(|live_one| live.get(&live_one.session));
            of_this.cost_usd_micros += running.map(|status| status.cost_usd_micros).sum::<i64>();
            account.sessions = of_this.sessions;
            account.cost_usd_micros = of_this.cost_usd_micros;
            account.last_failure = of_this.last_failure;
        }
        Ok(PoolView {
            mode: self.mode_text().await?,
            can_provision: self.identity().is_some(),
            accounts,
            until: self.next_release().await?,
            now: crate::clock::now_ms(),
        })
    }

    /// When every account is unavailable: the earliest end of a cool-down, ms since 1970.
    pub(crate) async fn next_release(&self) -> Result<Option<i64>> {
        Ok(release_of(&self.store().accounts().await?))
    }

    /// Sessions that the available accounts take together, that all accounts could take, and
    /// [`Engine::next_release`].
    pub(crate) async fn account_room(&self) -> Result<(u32, u32, Option<i64>)> {
        let rows = self.store().accounts().await?;
        let room = rows.iter().filter(|row| row.available()).map(AccountRow::limit).sum();
        let all = rows.iter().map(AccountRow::limit).sum();
        Ok((room, all, release_of(&rows)))
    }

    /// Why no session of an agent can start here, if so, with what to do.
    pub async fn agent_lacks(&self, agent: &str) -> Result<Option<String>> {
        if let Err(error) = self.agents().check(agent, None) {
            return Ok(Some(error.to_string()));
        }
        if let Some(sentence) = self.agent_hold(agent) {
            return Ok(Some(sentence));
        }
        let accounts = self.accounts().await?;
        let keyless = accounts.iter().all(|account| account.credential == Credential::None);
        Ok((agent != "demo" && keyless).then(|| {
            "No account has a credential for it. On the machine: opkit accounts key ccuser-0 --stdin"
                .to_owned()
        }))
    }

    /// Changes how many sessions an account takes at once. Live ones go on.
    pub async fn limit_account(&self, actor: &Actor, name: &str, limit: u32) -> Result<()> {
        admin(actor)?;
        self.store().set_account_limit(actor, name, limit_of(limit)?).await?;
        self.changed();
        Ok(())
    }

    fn account_view(&self, row: AccountRow, credential: Credential) -> AccountView {
        let runs_as = match (self.identity(), &row.os_user) {
            (None, _) => format!("the service's user ({})", rustix::process::geteuid().as_raw()),
            (Some(agent), None) => format!("{AGENT_USER} ({})", agent.uid),
            (Some(_), Some(name)) => match lookup(name) {
                Ok(Some(user)) => format!("{name} ({})", user.uid),
                Ok(None) | Err(_) => format!("{name} (missing)"),
            },
        };
        AccountView {
            limit: row.limit(),
            name: row.name,
            state: row.state,
            reason: row.reason,
            until: row.until,
            live: row.live,
            runs_as,
            os_user: row.os_user,
            credential,
            git_name: row.git_name,
            git_email: row.git_email,
            sessions: vec![],
            cost_usd_micros: 0,
            last_failure: None,
        }
    }

    /// A claim reads from the row whether an account has nothing but a login; the disk is looked at here.
    async fn note_credential(&self, mut row: AccountRow, found: Credential) -> Result<AccountRow> {
        let login_only = found == Credential::Login;
        if login_only != row.login_only {
            self.store().set_login_only(&row.name, login_only).await?;
            row.login_only = login_only;
            self.changed();
        }
        Ok(row)
    }

    /// Adds an account to the pool. Gives what a person has to mend by hand.
    pub async fn add_account(&self, actor: &Actor, new: NewAccount) -> Result<Provisioned> {
        admin(actor)?;
        self.fits(&new.name)?;
        let limit = limit_of(new.limit.unwrap_or(5))?;
        let name = new.git_name.as_deref().map(|text| author("name", text)).transpose()?;
        let email = new.git_email.as_deref().map(|text| author("address", text)).transpose()?;
        if let Some(user) = &new.os_user {
            self.may_use(user)?;
        }
        let patch = AccountPatch {
            name: &new.name,
            os_user: new.os_user.as_deref(),
            git_name: name,
            git_email: email,
        };
        self.store().add_account(actor, &patch, limit).await?;
        let mut done = Provisioned::default();
        match &new.os_user {
            Some(user) => done.note(&new.name, self.equip(&new.name, user).await),
            None => {
                self.own_home(&new.name)?;
                done.note(&new.name, Ok(vec!["added".into()]));
            }
        }
        self.changed();
        Ok(done)
    }

    /// Refuses an OS user that sessions cannot run as.
    fn may_use(&self, user: &str) -> Result<()> {
        if self.identity().is_none() {
            return Err(only_root());
        }
        if user == AGENT_USER {
            return Err(Error::Refused(format!(
                "{AGENT_USER} is the user of all accounts without one of their own. Leave --os-user out."
            )));
        }
        match lookup(user)? {
            Some(_) => Ok(()),
            None => Err(Error::Refused(format!(
                "There is no OS user “{}”. Make it first, or run: opkit accounts provision",
                crate::git::short(user)
            ))),
        }
    }

    /// Takes an account out of the pool. Its live sessions go on; it gets no new one.
    pub async fn disable_account(&self, actor: &Actor, name: &str) -> Result<()> {
        admin(actor)?;
        let reason = format!("Disabled by {}.", actor.name);
        self.store().set_account_state(actor, name, "disabled", &reason).await?;
        self.changed();
        Ok(())
    }

    /// Puts an account back into the pool, whatever took it out.
    pub async fn enable_account(&self, actor: &Actor, name: &str) -> Result<()> {
        admin(actor)?;
        self.store().set_account_state(actor, name, "available", "").await?;
        self.changed();
        Ok(())
    }

    /// Stores an account's API key or long-lived token as a file that only the service reads.
    pub async fn store_account_key(&self, actor: &Actor, name: &str, key: &str) -> Result<()> {
        admin(actor)?;
        let account = self.store().account(name).await?;
        let key = key.trim();
        if key.is_empty() || key.len() > LONGEST_KEY || !key.chars().all(|c| c.is_ascii_graphic()) {
            return Err(Error::BadInput(
                "That is not a key: one line of printable characters without spaces is expected.".into(),
            ));
        }
        let file = self.key_file(&account.name);
        write_atomically(&file, key.as_bytes(), 0o600)?;
        self.audit(actor, "account_key_stored", &account.name, serde_json::json!({})).await?;
        // The account may have worked from a login until now.
        self.accounts().await?;
        Ok(())
    }

    fn key_file(&self, account: &str) -> PathBuf {
        self.dirs().root.join("keys").join(account)
    }

    /// Where an account gets its credential from: its own key file before the shared one before a login in its home.
    pub(crate) fn credential(&self, account: &str, os_user: Option<&str>) -> Credential {
        if self.key_file(account).exists() {
            return Credential::OwnKey;
        }
        if self.key_file("anthropic").exists() {
            return Credential::SharedKey;
        }
        match self.login_dir(account, os_user) {
            Some(_) => Credential::Login,
            None => Credential::None,
        }
    }

    /// The agent's configuration directory in the account's home, if somebody logged in there.
    pub(crate) fn login_dir(&self, account: &str, os_user: Option<&str>) -> Option<PathBuf> {
        let home = match os_user {
            Some(user) => lookup(user).ok()??.home,
            None => self.home_of(account),
        };
        let dir = home.join(AGENT_CONFIG);
        let real = |path: &Path| fs::symlink_metadata(path).ok().map(|meta| meta.file_type());
        let logged_in = real(&dir)?.is_dir() && real(&dir.join(".credentials.json"))?.is_file();
        logged_in.then_some(dir)
    }

    /// The home of an account that has no OS user.
    fn home_of(&self, account: &str) -> PathBuf {
        self.dirs().root.join("accounts").join(account)
    }

    /// Makes the home of an account that has no OS user, with the agent's configuration directory in it.
    fn own_home(&self, account: &str) -> Result<PathBuf> {
        let all = self.dirs().root.join("accounts");
        fs::create_dir_all(&all)?;
        mode(&all, 0o711)?;
        let home = self.home_of(account);
        let (uid, gid) = match self.identity() {
            Some(identity) => (identity.uid, identity.gid),
            None => (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw()),
        };
        let (dir, _) = home::private(&home::parent(&all)?, account, &home, uid, gid)?;
        home::agent_config(&dir, uid, gid)?;
        Ok(home)
    }

    /// Whom an account's processes run as.
    fn place(&self, account: &AccountRow) -> Result<Place> {
        let agent = self.identity();
        match (agent, account.os_user.as_deref()) {
            (Some(agent), Some(name)) => {
                let user = lookup(name)?.ok_or_else(|| {
                    Error::Refused(format!(
                        "The OS user {name} of account {} does not exist. Run: opkit accounts provision",
                        account.name
                    ))
                })?;
                let identity = Identity { uid: user.uid, gid: agent.gid, groups: vec![] };
                Ok(Place { identity: Some(identity), user: user.name, home: user.home })
            }
            (None, Some(name)) => Err(Error::Refused(format!(
                "Account {} runs as the OS user {name}, and only a server that runs as root can do that.",
                account.name
            ))),
            (_, None) => Ok(Place {
                identity: agent.cloned(),
                user: if agent.is_some() { AGENT_USER.to_owned() } else { "the service's user".to_owned() },
                home: self.own_home(&account.name)?,
            }),
        }
    }

    /// Refuses a name that is no account's: it becomes a user, a file and a socket.
    fn fits(&self, name: &str) -> Result<()> {
        let mut letters = name.chars();
        let first = letters.next().is_some_and(|c| c.is_ascii_lowercase());
        let rest = letters.all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
        if !first || !rest || name.len() > 31 || RESERVED.contains(&name) {
            return Err(Error::BadInput(format!(
                "“{}” is not a name for an account. It begins with a letter and has up to 31 lower-case letters, \
                 digits and dashes; {} are taken.",
                crate::git::short(name),
                RESERVED.join(" and ")
            )));
        }
        // Linux refuses socket paths of 108 bytes and more.
        if self.dirs().tmux_socket(name).as_os_str().len() > 107 {
            return Err(Error::BadInput(format!("The name {name} is too long here. Choose a shorter one.")));
        }
        Ok(())
    }
}

/// The first that comes back by itself, when none is available.
fn release_of(rows: &[AccountRow]) -> Option<i64> {
    if rows.iter().any(AccountRow::available) {
        return None;
    }
    rows.iter().filter(|row| row.state == "cooling_down").filter_map(|row| row.until).min()
}

fn admin(actor: &Actor) -> Result<()> {
    if actor.access < Access::Admin {
        return Err(Error::Forbidden("Changing accounts needs the admin role.".into()));
    }
    Ok(())
}

fn only_root() -> Error {
    Error::Refused(format!(
        "Only a server that runs as root can make OS users and become them; this one runs as user {}. Start it as \
         root, or go on with accounts that share its user.",
        rustix::process::geteuid().as_raw()
    ))
}

/// A name or address as git takes it, and as it can stand in a file of git's without quoting.
fn author<'a>(what: &str, text: &'a str) -> Result<&'a str> {
    let text = text.trim();
    let plain = text.chars().all(|c| !c.is_control() && !"<>\"\\".contains(c));
    if text.is_empty() || text.len() > 100 || !plain {
        return Err(Error::BadInput(format!(
            "The author's {what} has up to 100 characters, none of them < > \" or \\."
        )));
    }
    Ok(text)
}
fn limit_of(limit: u32) -> Result<u32> {
    if (1..=100).contains(&limit) {
        Ok(limit)
    } else {
        Err(Error::BadInput("The limit of an account is a number from 1 to 100.".into()))
    }
}
