//! OS users, groups and slots: whom a session runs as, and who is left of it.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use opkit_domain::ids::SessionId;
use opkit_domain::session::Identity;
use rustix::process::{Pid, Signal};
use sha2::{Digest, Sha256};

use crate::data_dir::may;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::store::sessions::SessionRow;

/// The OS user that agents run as when the service is root and their account has no user of its own.
pub(crate) const AGENT_USER: &str = "opkit-agent";
/// The first slot's group for the default data directory; others have a base of their own.
const FIRST_GROUP: u32 = 71_000;
/// Groups that one data directory may use: the cap is at most this.
const GROUPS: u32 = 512;

/// A user of the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OsUser {
    /// Login name.
    pub(crate) name: String,
    /// Numeric user; [`lookup`] gives never 0.
    pub(crate) uid: u32,
    /// Numeric primary group; [`lookup`] gives never 0.
    pub(crate) gid: u32,
    /// Home directory.
    pub(crate) home: PathBuf,
}

/// Looks a user up in the machine's own file. Root is refused: agents never run as root.
pub(crate) fn lookup(name: &str) -> Result<Option<OsUser>> {
    let found = users()?.into_iter().find(|user| user.name == name);
    if found.as_ref().is_some_and(OsUser::is_root) {
        return Err(Error::Refused(format!("The user {name} is root. Agents never run as root.")));
    }
    Ok(found)
}

impl OsUser {
    fn is_root(&self) -> bool {
        self.uid == 0 || self.gid == 0
    }
}

/// Everybody in the machine's own file, in its order: of two lines for a name the first counts.
fn users() -> Result<Vec<OsUser>> {
    let passwd = fs::read_to_string("/etc/passwd")?;
    let user = |line: &str| {
        let fields: Vec<&str> = line.split(':').collect();
        let [name, _, uid, gid, _, home, ..] = fields[..] else { return None };
        Some(OsUser {
            name: name.to_owned(),
            uid: uid.parse().ok()?,
            gid: gid.parse().ok()?,
            home: home.into(),
        })
    };
    Ok(passwd.lines().filter_map(user).collect())
}

/// Whom sessions run as that have no user of their own: `opkit-agent` when the service is root, else nobody else.
pub(crate) fn agent_identity() -> Result<Option<Identity>> {
    if !rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    let agent = || Ok::<_, Error>(lookup(AGENT_USER)?.map(|user| plain(user.uid, user.gid)));
    if let Some(identity) = agent()? {
        return Ok(Some(identity));
    }
    let made = std::process::Command::new("useradd")
        .args(["--system", "--no-create-home", "--home-dir", "/nonexistent", "--shell", "/usr/sbin/nologin"])
        .arg("--user-group")
        .arg(AGENT_USER)
        .output();
    match made {
        // Another server may have been faster: what counts is that the user is there.
        Ok(_) => agent()?.map(Some).ok_or_else(no_agent_user),
        Err(_) => Err(no_agent_user()),
    }
}

/// Every user of the machine that sessions may run as, by name: one read for all accounts.
pub(crate) fn uids() -> Result<HashMap<String, u32>> {
    let mut uids = HashMap::new();
    for user in users()?.into_iter().filter(|user| !user.is_root()) {
        uids.entry(user.name).or_insert(user.uid);
    }
    Ok(uids)
}

/// Somebody's home directory. When the machine's users cannot be read every directory may be one.
pub(crate) fn is_a_home(dir: &Path) -> bool {
    let Ok(passwd) = fs::read_to_string("/etc/passwd") else { return true };
    // Of lines that are no user to us, too.
    passwd.lines().filter_map(|line| line.split(':').nth(5)).any(|home| Path::new(home) == dir)
}

fn plain(uid: u32, gid: u32) -> Identity {
    Identity { uid, gid, groups: vec![] }
}

fn no_agent_user() -> Error {
    Error::Refused(format!(
        "Agents never run as root, and the system user {AGENT_USER} could not be made. \
         Run: useradd --system --user-group {AGENT_USER}"
    ))
}

/// The group of slot 0. Two data directories on one machine must not kill each other's sessions, so every
/// directory but the default one has groups of its own.
pub(crate) fn slot_base(root: &Path) -> u32 {
    if root == Path::new("/var/lib/opkit") {
        return FIRST_GROUP;
    }
    let digest = Sha256::digest(root.as_os_str().as_encoded_bytes());
    let number = u32::from_be_bytes([0, digest[0], digest[1], digest[2]]) % 1_000_000;
    FIRST_GROUP + GROUPS * (1 + number)
}

impl Engine {
    /// Whether sessions get slots with groups: only root can give them.
    pub(crate) fn has_slots(&self) -> bool {
        self.identity().is_some()
    }

    /// The group that all processes of a session carry, and nobody else.
    pub(crate) fn slot_group(&self, slot: Option<u32>) -> Option<u32> {
        slot.map(|slot| slot_base(&self.dirs().root) + slot)
    }

    /// Whom a session's processes run as; none = the service's own user. The group is always `opkit-agent`'s, so
    /// that mirrors can be read by every account's sessions and by nobody else.
    pub(crate) fn identity_of(&self, row: &SessionRow) -> Result<Option<Identity>> {
        let Some(agent) = self.identity() else { return Ok(None) };
        let groups = self.slot_group(row.slot).into_iter().collect();
        let uid =
            match &row.os_user {
                None => agent.uid,
                Some(name) => lookup(name)?
                    .ok_or_else(|| {
                        Error::Refused(format!(
                            "The OS user {name} of account {} does not exist. Run: opkit accounts provision",
                            row.account
                        ))
                    })?
                    .uid,
            };
        Ok(Some(Identity { uid, gid: agent.gid, groups }))
    }

    /// The account mode in force, in words: *os-users*, *homes*, or both beside each other.
    pub async fn mode_text(&self) -> Result<String> {
        let Some(agent) = self.identity() else {
            return Ok(
                "homes: every session runs as the service's own user, and only the wall separates them"
                    .into(),
            );
        };
        let (all, own) = self.store().account_users().await?;
        Ok(match own {
            0 => format!("homes: every session runs as {AGENT_USER} ({})", agent.uid),
            own if own == all => "os-users: every account has an OS user of its own".into(),
            own => {
                format!("os-users for {own} of {all} accounts; the others share {AGENT_USER} ({})", agent.uid)
            }
        })
    }

    /// What sessions can still reach of the machine, for `doctor`.
    pub(crate) async fn reachable(&self) -> Result<String> {
        let Some(agent) = self.identity() else {
            return Ok(
                "Sessions run as the service's own user: a filter refuses them every local socket, and what \
                       Landlock leaves open (modes, times and attributes of files) is open between them"
                    .into(),
            );
        };
        let Some(name) = self.store().os_users().await?.into_iter().next() else {
            return Ok("A filter refuses sessions every local socket".into());
        };
        let Some(user) = lookup(&name)? else { return Ok(format!("The OS user {name} does not exist")) };
        let sockets = reachable_sockets(&plain(user.uid, agent.gid), &self.dirs().root);
        let list = sockets.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ");
        Ok(match list.as_str() {
            "" => "Sessions with an OS user of their own can reach no local socket".into(),
            list => format!("Sessions with an OS user of their own can reach these local sockets: {list}"),
        })
    }

    /// Kills every process of a session; gives how many there were. Zero means that nothing is left.
    pub(crate) fn kill_leftovers(&self, row: &SessionRow) -> usize {
        kill_all(&row.id, self.slot_group(row.slot))
    }
}

/// Sockets of the machine that a user may connect to, by file modes alone: what an OS user of its own can reach
/// where no filter refuses sockets.
pub(crate) fn reachable_sockets(identity: &Identity, ours: &Path) -> Vec<PathBuf> {
    let table = fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let mut found: Vec<PathBuf> = table
        .lines()
        .filter_map(|line| line.split_ascii_whitespace().nth(7))
        .filter(|path| path.starts_with('/'))
        .map(PathBuf::from)
        .filter(|path| !path.starts_with(ours) && may_connect(path, identity))
        .collect();
    found.sort();
    found.dedup();
    found
}

fn may_connect(path: &Path, identity: &Identity) -> bool {
    let passes = |dir: &Path| fs::metadata(dir).is_ok_and(|meta| may(&meta, identity, 0o1));
    let writes = fs::metadata(path).is_ok_and(|meta| may(&meta, identity, 0o2));
    writes && path.ancestors().skip(1).all(passes)
}

/// Kills every process that carries the session's group or, where there are no groups, its mark in the
/// environment. Looks again after the kill, because a process may have forked meanwhile.
fn kill_all(id: &SessionId, group: Option<u32>) -> usize {
    let found = processes(id, group);
    for pid in &found {
        // It may be gone already.
        let _ = rustix::process::kill_process(*pid, Signal::KILL);
    }
    found.len()
}

fn processes(id: &SessionId, group: Option<u32>) -> Vec<Pid> {
    let mark = format!("OPKIT_SESSION={id}");
    let Ok(entries) = fs::read_dir("/proc") else { return vec![] };
    entries
        .flatten()
        .filter_map(|entry| {
            let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
            let dir = entry.path();
            let ours = match group {
                Some(group) => fs::read_to_string(dir.join("status")).is_ok_and(|text| carries(&text, group)),
                None => fs::read(dir.join("environ"))
                    .is_ok_and(|text| text.split(|byte| *byte == 0).any(|word| word == mark.as_bytes())),
            };
            ours.then(|| Pid::from_raw(pid)).flatten()
        })
        .collect()
}

/// Whether a `/proc/PID/status` lists a group and is not of a dead process that only waits to be reaped.
fn carries(status: &str, group: u32) -> bool {
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
    let dead = field("State:").is_some_and(|state| state.trim_start().starts_with(['Z', 'X']));
    !dead
        && field("Groups:")
            .is_some_and(|groups| groups.split_ascii_whitespace().any(|word| word.parse() == Ok(group)))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test says what it expects")]
mod tests {
    use super::*;

    #[test]
    fn each_data_directory_has_groups_of_its_own() {
        assert_eq!(slot_base(Path::new("/var/lib/opkit")), 71_000);
        let (one, other) = (slot_base(Path::new("/srv/one")), slot_base(Path::new("/srv/two")));
        assert_ne!(one, other);
        for base in [one, other] {
            assert!(base >= FIRST_GROUP + GROUPS && (base - FIRST_GROUP).is_multiple_of(GROUPS));
        }
    }

    #[test]
    fn the_status_of_a_process_says_its_groups() {
        let status = |state: &str| format!("Name:\tsh\nState:\t{state}\nGroups:\t71003 71004 \n");
        assert!(carries(&status("S (sleeping)"), 71_003));
        assert!(!carries(&status("S (sleeping)"), 7100));
        assert!(!carries(&status("Z (zombie)"), 71_003));
    }

    #[test]
    fn a_process_is_found_by_its_mark_and_killed() {
        let id: SessionId = uuid::Uuid::new_v4().to_string().parse().unwrap();
        let mut child = std::process::Command::new("/bin/sleep")
            .arg("100")
            .env("OPKIT_SESSION", id.as_str())
            .spawn()
            .unwrap();
        // The kernel lets a parent go on a moment before its child's environment can be read.
        let environment = format!("/proc/{}/environ", child.id());
        while !fs::read_to_string(&environment).unwrap().contains(id.as_str()) {
            assert!(child.try_wait().unwrap().is_none(), "it lives");
            std::thread::yield_now();
        }
        assert_eq!(kill_all(&id, None), 1);
        assert!(!child.wait().unwrap().success());
        assert_eq!(kill_all(&id, None), 0);
    }

    #[test]
    fn root_is_nobody_for_agents() {
        assert!(lookup("root").is_err());
        assert_eq!(lookup("no-such-user-here").unwrap(), None);
    }
}
